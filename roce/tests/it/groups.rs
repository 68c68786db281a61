//! Groups of application programs in virtual time: behind a switch that registers and multicasts, and on a segment
//! without multicast.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use alfirk_roce::application::group::{
    GroupError, GroupMember, GroupOperation, GroupSettings, GroupTransport, LinkId, MemberInfo,
    Message, Output, LEADER,
};
use alfirk_roce::collective::{EdgeId, Endpoint, GroupSpec, RemoteMemory};
use alfirk_roce::rc::MemoryKey;
use alfirk_roce::wire::mrp::{self, Kind, Node};
use alfirk_roce::wire::{arp, ethernet, ipv4, udp, MacAddr, Psn, QpNum};
use proptest::prelude::proptest;

use crate::fabric::{OneSwitch, MCST_ID};
use crate::net::{host, ip, mac, segment, Faults, Medium, Net};

/// Length of the buffers in bytes: several slices of a chain.
const BUFFER: usize = 200_000;
/// Time after which a test gives up, in nanoseconds.
const LIMIT: u64 = 300_000_000_000;

/// A switch that registers groups by MRP, and multicasts. Other frames cross it as they cross a segment.
struct Registering {
    switch: OneSwitch,
    macs: Vec<MacAddr>,
    /// Requests of the leader, without repetitions.
    requests: Vec<mrp::Repr>,
}

impl Registering {
    fn frame(&self, source: Ipv4Addr, to: usize, packet: &mrp::Repr) -> (usize, Vec<u8>) {
        let payload = packet.to_bytes();
        let (network, transport) = (ethernet::HEADER_LEN, udp::HEADER_LEN);
        let header = network + ipv4::HEADER_LEN;
        let mut frame = vec![0; header + transport + payload.len()];
        ethernet::Repr {
            destination: self.macs[to],
            source: MacAddr([2, 0xa1, 0xf1, 0x4c, 0, 1]),
            ethertype: ethernet::ETHERTYPE_IPV4,
        }
        .emit(&mut frame);
        ipv4::Repr {
            tos: 0,
            payload_len: (transport + payload.len()) as u16,
            identification: 1,
            dont_fragment: true,
            ttl: 64,
            protocol: ipv4::PROTOCOL_UDP,
            source,
            destination: ip(to),
        }
        .emit(&mut frame[network..]);
        udp::Repr {
            source_port: mrp::PORT,
            destination_port: mrp::PORT,
            payload_len: payload.len() as u16,
        }
        .emit(&mut frame[header..]);
        frame[header + transport..].copy_from_slice(&payload);
        (to, frame)
    }

    /// Handles a request of the leader, or of a member, to the group's address.
    fn request(&mut self, from: usize, packet: mrp::Repr) -> Vec<(usize, Vec<u8>)> {
        let nodes: Vec<Node> = packet.members().copied().collect();
        let kind = packet.kind;
        let is_request = matches!(kind, Kind::Register | Kind::Leave | Kind::Deregister);
        if !is_request {
            return Vec::new();
        }
        let is_new = !self.requests.contains(&packet);
        if is_new {
            self.requests.push(packet.clone());
        }
        if kind == Kind::Register {
            let group = *packet.group().unwrap();
            if is_new {
                let spec = GroupSpec::new(group.ip, group.qpn, packet.initial_psn);
                let ends: Vec<Endpoint> = nodes.iter().zip(0..).map(endpoint).collect();
                self.switch.register(&spec, &ends);
            }
            let register = |node: &Node| {
                let to = (0..self.macs.len()).find(|i| ip(*i) == node.ip).unwrap();
                let nodes = vec![*node, group];
                self.frame(ip(from), to, &mrp::Repr { nodes, ..packet })
            };
            return nodes[1..].iter().map(register).collect();
        }
        let reply = mrp::Repr {
            kind: Kind::Confirm,
            nodes: vec![Node::group(MCST_ID, QpNum::new(0))],
            ..packet
        };
        vec![self.frame(MCST_ID, from, &reply)]
    }
}

fn endpoint((node, rank): (&Node, u32)) -> Endpoint {
    Endpoint {
        edge: EdgeId::Group { root: 0 },
        rank,
        ip: node.ip,
        qpn: node.qpn,
        psn: Psn::new(0),
        memory: None,
        slice_windows: Vec::new(),
    }
}

impl Registering {
    fn kinds(&self) -> Vec<Kind> {
        self.requests.iter().map(|packet| packet.kind).collect()
    }
}

impl Medium for Registering {
    fn carry(&mut self, from: usize, frame: Vec<u8>) -> Vec<(usize, Vec<u8>)> {
        let view = ethernet::View::new_checked(&frame).unwrap();
        let is_of_group = match view.ethertype() {
            ethernet::ETHERTYPE_ARP => {
                let view = arp::View::new_checked(view.payload()).unwrap();
                arp::Repr::parse(&view).unwrap().target_ip == MCST_ID
            }
            _ => {
                let packet = ipv4::View::new_checked(view.payload()).unwrap();
                let datagram = udp::View::new_checked(packet.payload()).unwrap();
                if datagram.destination_port() == mrp::PORT && packet.destination() == MCST_ID {
                    let request = mrp::View::new_checked(datagram.payload()).unwrap();
                    return self.request(from, mrp::Repr::parse(&request));
                }
                datagram.destination_port() != mrp::PORT
            }
        };
        if is_of_group {
            return self.switch.carry(from, frame);
        }
        let destination = view.destination();
        let to = |port: &usize| {
            *port != from && (destination.is_multicast() || self.macs[*port] == destination)
        };
        let ports = (0..self.macs.len()).filter(to);
        ports.map(|port| (port, frame.clone())).collect()
    }
}

fn fabric(hosts: usize, seed: u64) -> Net<Registering> {
    let medium = Registering {
        switch: OneSwitch::default(),
        macs: (0..hosts).map(mac).collect(),
        requests: Vec::new(),
    };
    let hosts = (0..hosts).map(|i| host(i, 4200, seed)).collect();
    Net::new(hosts, medium, seed)
}

/// The members of one group, of which host 0 leads. Streams between them deliver messages at once.
struct Programs<M> {
    net: Net<M>,
    members: Vec<GroupMember>,
    keys: Vec<MemoryKey>,
    /// Number of the stream to each other member at the leader. Without an entry, the stream has ended.
    links: BTreeMap<usize, LinkId>,
    /// Result of the call in progress at each member.
    results: Vec<Option<Result<(), GroupError>>>,
    warnings: Vec<String>,
    /// Messages to host 0 or from it: sender, receiver and message.
    messages: VecDeque<(usize, usize, Message)>,
}

impl<M: Medium> Programs<M> {
    fn new(mut net: Net<M>, fallback: GroupTransport) -> Programs<M> {
        let settings = GroupSettings {
            address: MCST_ID,
            leader: ip(0),
            members: net.hosts.len() as u32,
            fallback,
        };
        let (mut members, mut keys) = (Vec::new(), Vec::new());
        for host in &mut net.hosts {
            let key = host.register_memory(BUFFER as u64, true);
            // All PSNs and the virtual queue pair number follow from these bits.
            let member = GroupMember::join(host, settings, key, 0xffff_f000_0000_1234);
            members.push(member.unwrap());
            keys.push(key);
        }
        let others = 1..members.len();
        let links = others.map(|other| (other, members[0].accept())).collect();
        Programs {
            results: vec![None; members.len()],
            net,
            members,
            keys,
            links,
            warnings: Vec::new(),
            messages: VecDeque::new(),
        }
    }

    /// Joined members. Panics if one fails to join.
    fn joined(net: Net<M>, fallback: GroupTransport) -> Programs<M> {
        let mut all = Programs::new(net, fallback);
        all.call(|_, _| Ok(()));
        all
    }

    /// Executes the requests of a member. Returns whether there were any.
    fn settle(&mut self, of: usize) -> bool {
        let mut has_any = false;
        while let Some(output) = self.members[of].poll_output() {
            has_any = true;
            match output {
                Output::Send { link, message } => {
                    let to = match of {
                        0 => self.other(link),
                        _ => Some(0),
                    };
                    self.messages.extend(to.map(|to| (of, to, message)));
                }
                Output::Close(link) => {
                    if let Some(other) = self.other(link) {
                        self.close(other);
                    }
                }
                Output::Warning(text) => self.warnings.push(text),
            }
        }
        while let Some((from, to, message)) = self.messages.pop_front() {
            // As on TCP, a message is text.
            let text = serde_json::to_string(&message).unwrap();
            let message = serde_json::from_str(&text).unwrap();
            let link = match to {
                0 => self.links.get(&from).copied(),
                _ => Some(LinkId::LEADER),
            };
            if let Some(link) = link {
                self.members[to].handle_message(link, message);
            }
        }
        has_any
    }

    fn other(&self, link: LinkId) -> Option<usize> {
        let mut links = self.links.iter();
        links.find(|(_, of)| **of == link).map(|(other, _)| *other)
    }

    /// Ends the stream between the leader and another member.
    fn close(&mut self, other: usize) {
        while let Some((from, to, message)) = self.messages.pop_front() {
            let link = if to == 0 {
                self.links[&from]
            } else {
                LinkId::LEADER
            };
            self.members[to].handle_message(link, message);
        }
        if let Some(link) = self.links.remove(&other) {
            self.members[0].handle_closed(link);
            self.members[other].handle_closed(LinkId::LEADER);
        }
    }

    /// Runs until `is_done`; panics at the time limit.
    fn run_until(&mut self, is_done: impl Fn(&Programs<M>) -> bool) {
        while !is_done(self) {
            // Events of the hosts are handled at their time, before the next event of the network.
            let event_time = self.net.now;
            self.net.step();
            self.net.now = event_time;
            let mut is_running = false;
            for of in 0..self.members.len() {
                let (host, now) = (&mut self.net.hosts[of], self.net.now);
                let advanced = self.members[of].advance(host, now);
                if self.results[of].is_none() {
                    self.results[of] = match advanced {
                        Ok(false) => None,
                        Ok(true) => Some(Ok(())),
                        Err(error) => Some(Err(error)),
                    };
                    is_running |= self.results[of].is_some();
                }
                is_running |= self.settle(of);
            }
            is_running |= self.net.step();
            let waits: Vec<_> = self.members.iter().map(GroupMember::waits_for).collect();
            if !is_running && !is_done(self) {
                let timers = self.members.iter().filter_map(GroupMember::poll_timeout);
                let next = timers.min();
                let next = next.unwrap_or_else(|| panic!("stuck: {waits:?} {:?}", self.results));
                self.net.now = next.max(self.net.now + 1);
            }
            assert!(self.net.now < LIMIT, "{waits:?} {:?}", self.results);
        }
    }

    fn are_done(&self) -> bool {
        self.results.iter().all(Option::is_some)
    }

    /// Makes the same call at all members, and returns the results.
    fn try_call(
        &mut self,
        act: impl Fn(&mut GroupMember, usize) -> Result<(), GroupError>,
    ) -> Vec<Result<(), GroupError>> {
        for of in 0..self.members.len() {
            let result = act(&mut self.members[of], of);
            self.results[of] = result.err().map(Err);
        }
        self.run_until(Programs::are_done);
        self.results.iter_mut().map(|r| r.take().unwrap()).collect()
    }

    /// Makes the same call at all members; panics if one fails.
    fn call(&mut self, act: impl Fn(&mut GroupMember, usize) -> Result<(), GroupError>) {
        let results = self.try_call(act);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    fn buffer(&self, of: usize) -> &[u8] {
        let memory = self.net.hosts[of].memory();
        memory.region(self.keys[of]).unwrap().bytes()
    }

    /// Broadcasts `len` bytes at `offset` from the member `source`, and checks all buffers.
    fn broadcast(&mut self, source: u32, offset: usize, len: usize, operation: GroupOperation) {
        let before: Vec<Vec<u8>> = self.all().map(|of| self.buffer(of).to_vec()).collect();
        let salt = before.iter().map(|b| u32::from(b[offset])).sum::<u32>() + 1;
        let bytes: Vec<u8> = (0..len as u32)
            .map(|at| (at * 7 + at / 251 + salt) as u8)
            .collect();
        let (of, key) = (source as usize, self.keys[source as usize]);
        let memory = self.net.hosts[of].memory_mut();
        memory.write(key, offset as u64, &bytes).unwrap();
        self.call(|member, _| {
            let part = member.buffer_slice(offset as u64, len as u64)?;
            member.post(source, part, operation)?;
            member.wait();
            Ok(())
        });
        for (of, mut expected) in before.into_iter().enumerate() {
            expected[offset..][..len].copy_from_slice(&bytes);
            assert!(self.buffer(of) == expected, "member {of}, source {source}");
        }
    }

    fn all(&self) -> std::ops::Range<usize> {
        0..self.members.len()
    }

    /// Every member is the source of SENDs and WRITEs of several lengths.
    fn send_in_turn(&mut self) {
        for operation in [GroupOperation::Send, GroupOperation::Write] {
            for source in 0..self.members.len() as u32 {
                for (offset, len) in [(0, BUFFER), (1, 1), (5, 0), (70_000, 65_537)] {
                    self.broadcast(source, offset, len, operation);
                }
            }
        }
    }
}

#[test]
fn members_have_ranks_by_address_and_multicast_in_turn() {
    let mut all = Programs::joined(fabric(4, 3), GroupTransport::Multicast);
    let ranks: Vec<u32> = all.members.iter().map(GroupMember::rank).collect();
    assert_eq!(ranks, [0, 1, 2, 3]);
    let is_multicast = |m: &GroupMember| m.transport() == GroupTransport::Multicast;
    assert!(all.members.iter().all(is_multicast));
    all.send_in_turn();
    assert_eq!(all.warnings, [""; 0]);
    assert_eq!(all.net.medium.kinds(), [Kind::Register]);
}

#[test]
fn without_multicast_members_use_the_fallback() {
    for fallback in [GroupTransport::Chain, GroupTransport::Unicast] {
        let mut all = Programs::joined(segment(4, 1500, 3), fallback);
        assert!(all.members.iter().all(|m| m.transport() == fallback));
        assert_eq!(all.warnings.len(), 1, "{:?}", all.warnings);
        all.send_in_turn();
    }
}

#[test]
fn without_a_fallback_joining_fails_at_all_members() {
    let mut all = Programs::new(segment(3, 1500, 3), GroupTransport::Multicast);
    let results = all.try_call(|_, _| Ok(()));
    assert!(
        matches!(results[0], Err(GroupError::NotRegistered(_))),
        "{results:?}"
    );
    for result in &results[1..] {
        assert!(matches!(result, Err(GroupError::Over(_))), "{result:?}");
    }
}

#[test]
fn several_messages_may_be_in_flight() {
    let mut all = Programs::joined(fabric(3, 7), GroupTransport::Multicast);
    let len = 1000;
    let bytes: Vec<u8> = (0..50 * len).map(|at| (at % 249) as u8).collect();
    let key = all.keys[0];
    let memory = all.net.hosts[0].memory_mut();
    memory.write(key, 0, &bytes).unwrap();
    all.call(|member, _| {
        for number in 0..50 {
            let part = member.buffer_slice(number * len as u64, len as u64)?;
            member.post(LEADER, part, GroupOperation::Send)?;
        }
        Ok(())
    });
    assert!(all.members.iter().all(|member| member.posted() == 50));
    for left in (0..50).rev() {
        all.call(|member, _| {
            member.wait_for_one();
            Ok(())
        });
        assert!(all.members.iter().all(|member| member.posted() == left));
    }
    for of in all.all() {
        assert!(all.buffer(of)[..bytes.len()] == bytes, "member {of}");
    }
}

#[test]
fn a_signal_completes_at_the_source_when_the_last_member_has_made_the_call() {
    let mut all = Programs::joined(fabric(3, 9), GroupTransport::Multicast);
    for of in [0, 1] {
        all.members[of].signal().unwrap();
        all.results[of] = None;
    }
    // The members report no lack of progress to the fabric, however late one of them is.
    let end = all.net.now + 20_000_000_000;
    all.run_until(|all| all.net.now >= end || all.results[0].is_some());
    assert!(all.results[0].is_none() && all.results[1].is_some());
    assert!(all.members[0].waits_for_signal());
    all.members[2].signal().unwrap();
    all.results[2] = None;
    all.run_until(Programs::are_done);
}

#[test]
fn members_leave_and_the_leader_ends_the_group() {
    let mut all = Programs::joined(fabric(3, 4), GroupTransport::Multicast);
    all.broadcast(1, 0, 5000, GroupOperation::Send);
    for of in [1, 2] {
        all.members[of].leave();
        all.results[of] = None;
    }
    all.run_until(|all| all.are_done() && all.members[0].members().eq([LEADER]));
    let kinds = [Kind::Register, Kind::Leave, Kind::Leave];
    assert_eq!(all.net.medium.kinds(), kinds, "one at a time");
    all.members[0].leave();
    all.results[0] = None;
    all.run_until(Programs::are_done);
    assert_eq!(all.results, [Some(Ok(())), Some(Ok(())), Some(Ok(()))]);
    assert_eq!(all.net.medium.kinds()[3..], [Kind::Deregister]);
    assert_eq!(all.warnings, [""; 0]);
}

#[test]
fn members_of_a_chain_continue_without_one_whose_stream_has_ended() {
    let mut all = Programs::joined(segment(4, 1500, 8), GroupTransport::Chain);
    all.broadcast(3, 0, 100_000, GroupOperation::Send);
    all.close(2);
    let post = |member: &mut GroupMember| {
        let part = member.buffer_slice(0, 3000)?;
        member.post(3, part, GroupOperation::Send)
    };
    let results = all.try_call(|member, _| post(member));
    let over = GroupError::Over("the leader has left".to_owned());
    assert_eq!(results, [Ok(()), Ok(()), Err(over), Ok(())]);
    assert!(all.members[3].members().eq([0, 1, 3]));
    let of_gone = all.members[0].change_source(2);
    let text = "rank 2 is not in the group".to_owned();
    assert_eq!(of_gone, Err(GroupError::Argument(text)));
}

#[test]
fn streams_of_strangers_are_closed() {
    let mut all = Programs::new(fabric(2, 4), GroupTransport::Multicast);
    let leader = &mut all.members[0];
    let [silent, rude, late, own] = [(); 4].map(|()| leader.accept());
    leader.handle_message(rude, Message::Leave);
    assert_eq!(leader.poll_output(), Some(Output::Close(rude)));
    let hello = |n| Message::Hello {
        member: MemberInfo {
            ip: ip(n),
            qpn: QpNum::new(7),
            memory: RemoteMemory {
                va: 0,
                rkey: 0,
                len: 1,
            },
        },
    };
    leader.handle_message(own, hello(0));
    assert_eq!(leader.poll_output(), Some(Output::Close(own)));
    assert!(leader.accepts_members());
    // The own request of host 1 replaces the one in its name.
    leader.handle_message(late, hello(1));
    let first = all.links[&1];
    let member = *all.members[1].own();
    all.members[0].handle_message(first, Message::Hello { member });
    assert_eq!(all.members[0].poll_output(), Some(Output::Close(late)));
    let advanced = all.members[0].advance(&mut all.net.hosts[0], 0);
    assert_eq!(advanced, Ok(false));
    let outputs: Vec<Output> = std::iter::from_fn(|| all.members[0].poll_output()).collect();
    assert!(outputs.contains(&Output::Close(silent)), "{outputs:?}");
    assert!(!all.members[0].accepts_members());
}

#[test]
fn a_member_that_floods_the_leader_is_removed() {
    let mut all = Programs::joined(segment(3, 1500, 4), GroupTransport::Unicast);
    let link = all.links[&1];
    for _ in 0..100 {
        all.members[0].handle_message(link, Message::Ready { error: None });
    }
    all.run_until(|all| all.members[0].members().eq([0, 2]));
    assert!(!all.links.contains_key(&1));
}

#[test]
fn arguments_are_checked_without_an_effect() {
    let mut all = Programs::joined(fabric(2, 4), GroupTransport::Multicast);
    let member = &mut all.members[0];
    let part = member.buffer_slice(0, 10).unwrap();
    let text = |result: Result<(), GroupError>| result.unwrap_err().to_string();
    let posted = member.post(2, part, GroupOperation::Send);
    assert_eq!(text(posted), "rank 2 is not in the group");
    let beyond = member.buffer_slice(u64::MAX, 10).map(drop);
    assert_eq!(
        text(beyond),
        format!(
            "10 bytes at offset {} exceed the buffer of {BUFFER} bytes",
            u64::MAX
        )
    );
    all.broadcast(0, 0, 10, GroupOperation::Write);
}

proptest! {
    #![proptest_config(alfirk_test_budget::Cost::Fabric.cases())]

    #[test]
    fn every_byte_arrives_in_spite_of_losses(
        seed: u64,
        members in 2..5_usize,
        loss in 0..20_u32,
        duplication in 0..20_u32,
        sources in proptest::collection::vec((0..4_u32, 0..BUFFER, proptest::bool::ANY), 1..6),
    ) {
        let mut net = fabric(members, seed);
        net.faults = Faults { loss, duplication, reordering: 0 };
        let mut all = Programs::joined(net, GroupTransport::Multicast);
        for (source, len, writes) in sources {
            let operation = match writes {
                true => GroupOperation::Write,
                false => GroupOperation::Send,
            };
            all.broadcast(source % members as u32, 0, len.max(1), operation);
        }
    }
}
