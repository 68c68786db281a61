//! In-band registration end to end in virtual time: hosts with their state machines, switches that forward registration packets
//! to the controller and send its packets, and one controller; every packet can be lost or duplicated.

mod agreement;
mod limits;

use std::collections::BTreeSet;

use alfirk_p4runtime::p4::v1::{
    stream_message_response, PacketIn, PacketMetadata, StreamMessageResponse,
};
use alfirk_roce::host::{Host, HostConfig};
use alfirk_roce::registration::{
    ExpectedGroup, GroupSpec, Leader, LeaderEvent, LeaderTiming, Member, MemberEvent, RetryTimeout,
};
use alfirk_roce::wire::mrp::{self, Refusal};
use alfirk_roce::wire::{arp, ethernet, ipv4};

use super::*;
use crate::constants::{PACKET_IN_MRP, VIRTUAL_MAC};
use crate::topology::{fat_tree, leaf_spine, m_port_n_tree, testbed, HostIndex, Node};
use crate::tree::Policy;

const TIMING: LeaderTiming = LeaderTiming {
    interval: 1_000_000,
    attempts: 60,
};
pub(super) const GROUP: Ipv4Addr = Ipv4Addr::new(10, 255, 3, 4);
/// Nanoseconds that a frame takes per hop.
const HOP: u64 = 20_000;

pub(super) struct World {
    pub(super) fabric: FakeFabric,
    hosts: Vec<Host>,
    members: Vec<Member>,
    /// Events of each member.
    events: Vec<Vec<MemberEvent>>,
    /// Lost packets per thousand, on each hop.
    pub(super) loss: u64,
    doubling: u64,
    random: u64,
    /// Hosts whose packets are all lost.
    pub(super) dead: BTreeSet<usize>,
    /// Timeouts of the queue pairs of all groups.
    pub(super) retry_timeout: RetryTimeout,
    /// Hosts that agree to no group.
    pub(super) unwilling: BTreeSet<usize>,
}

fn qpn(host: usize) -> QpNum {
    QpNum::new(0x100 + host as u32)
}

impl World {
    fn new(topology: Topology) -> World {
        World::over(FakeFabric::ready(topology))
    }

    pub(super) fn over(mut fabric: FakeFabric) -> World {
        fabric.controller.network.config_mut().mrp_repeat_ns = TIMING.interval / 2;
        let topology = fabric.controller.topology();
        let config = |host: &crate::topology::Host| {
            HostConfig::new(&host.name, host.mac, host.ip, host.prefix_len, 1500, 1)
        };
        let hosts = topology.hosts().iter();
        let mut hosts: Vec<_> = hosts.map(|h| Host::new(config(h)).unwrap()).collect();
        let members = hosts.iter_mut().map(|host| Member::new(host));
        World {
            members: members.collect(),
            events: vec![Vec::new(); hosts.len()],
            hosts,
            fabric,
            loss: 0,
            doubling: 0,
            random: 1,
            dead: BTreeSet::new(),
            retry_timeout: RetryTimeout::UNKNOWN,
            unwilling: BTreeSet::new(),
        }
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) % 1_000 < per_mille
    }

    fn node(&self, host: usize) -> mrp::Node {
        mrp::Node {
            ip: self.hosts[host].ip(),
            qpn: qpn(host),
            flags: 0,
            region: region(host),
        }
    }

    /// Lets a host expect to be a member of a group with this leader.
    pub(super) fn expect(&mut self, host: usize, group: Ipv4Addr, leader: usize) {
        let expected = ExpectedGroup {
            mcst_id: group,
            virtual_qpn: VIRTUAL_QPN,
            leader: self.hosts[leader].ip(),
        };
        if !self.unwilling.contains(&host) {
            self.members[host].expect(qpn(host), expected);
        }
    }

    /// Creates a leader on the first host, with a queue pair of each; the other hosts expect to be in its group.
    pub(super) fn leader(&mut self, group: Ipv4Addr, hosts: &[usize]) -> Leader {
        for host in &hosts[1..] {
            self.expect(*host, group, hosts[0]);
        }
        self.stranger(group, hosts)
    }

    /// Like `leader`, but the other hosts do not expect the group.
    pub(super) fn stranger(&mut self, group: Ipv4Addr, hosts: &[usize]) -> Leader {
        let spec = GroupSpec {
            mcst_id: group,
            virtual_qpn: VIRTUAL_QPN,
            initial_psn: Psn::new(0xff_fff0),
            leader: self.node(hosts[0]),
            members: hosts[1..].iter().map(|h| self.hosts[*h].ip()).collect(),
            retry_timeout: self.retry_timeout,
        };
        let now = self.fabric.now;
        let mut leader = Leader::new(&mut self.hosts[hosts[0]], spec, TIMING);
        for host in &hosts[1..] {
            let node = self.node(*host);
            leader.gather(&mut self.hosts[hosts[0]], now, node).unwrap();
        }
        leader
    }

    /// Runs until the leader has an event.
    pub(super) fn run(&mut self, at: usize, leader: &mut Leader) -> LeaderEvent {
        for _ in 0..100_000 {
            if let Some(event) = leader.poll() {
                return event;
            }
            self.step(at, leader);
        }
        panic!("the leader says nothing");
    }

    /// Runs for this many steps, also if the leader has no event.
    pub(super) fn settle(&mut self, at: usize, leader: &mut Leader, steps: usize) {
        for _ in 0..steps {
            self.step(at, leader);
        }
    }

    fn step(&mut self, at: usize, leader: &mut Leader) {
        self.fabric.now += HOP;
        let now = self.fabric.now;
        for n in 0..self.hosts.len() {
            if self.hosts[n].poll_timeout().is_some_and(|t| t <= now) {
                self.hosts[n].handle_timeout(now);
            }
            while let Some(frame) = self.hosts[n].poll_transmit(now) {
                self.sent_by(n, &frame);
            }
            while let Some(event) = self.hosts[n].poll_event() {
                if n == at && leader.handle_event(now, &mut self.hosts[n], &event) {
                    continue;
                }
                self.members[n].handle_event(now, &mut self.hosts[n], &event);
            }
            while let Some(event) = self.members[n].poll() {
                self.events[n].push(event);
            }
        }
        if leader.poll_timeout().is_some_and(|t| t <= now) {
            leader.handle_timeout(now, &mut self.hosts[at]);
        }
        self.fabric.handle(Event::Timeout);
        for switch in self.fabric.controller.topology().switch_indexes() {
            for (port, frame) in std::mem::take(&mut self.fabric.switches[switch.0].sent) {
                self.out_of(switch, port, &frame);
            }
        }
    }

    fn sent_by(&mut self, host: usize, frame: &[u8]) {
        let now = self.fabric.now;
        let view = ethernet::View::new_checked(frame).unwrap();
        if view.ethertype() == ethernet::ETHERTYPE_ARP {
            let asked = arp::Repr::parse(&arp::View::new_checked(view.payload()).unwrap()).unwrap();
            let mut answer = vec![0; ethernet::HEADER_LEN + arp::PACKET_LEN];
            ethernet::Repr {
                destination: asked.sender_mac,
                source: VIRTUAL_MAC,
                ethertype: ethernet::ETHERTYPE_ARP,
            }
            .emit(&mut answer);
            arp::Repr {
                operation: arp::Operation::Reply,
                sender_mac: VIRTUAL_MAC,
                sender_ip: asked.target_ip,
                target_mac: asked.sender_mac,
                target_ip: asked.sender_ip,
            }
            .emit(&mut answer[ethernet::HEADER_LEN..]);
            return self.hosts[host].handle_frame(now, &answer);
        }
        if self.dead.contains(&host) {
            return;
        }
        let to = ipv4::View::new_checked(view.payload())
            .unwrap()
            .destination();
        let topology = self.fabric.controller.topology();
        match topology.host_with_ip(to) {
            Some(to) => self.deliver(to.0, frame),
            None => {
                let (switch, port) = topology.attachment(HostIndex(host));
                self.hand_up(switch, port, frame);
            }
        }
    }

    fn out_of(&mut self, switch: SwitchIndex, port: u32, frame: &[u8]) {
        let peer = self.fabric.controller.topology().neighbour_at(switch, port);
        match peer.unwrap().peer.node {
            Node::Host(host) => self.deliver(host.0, frame),
            Node::Switch(next) => self.hand_up(next, peer.unwrap().peer.port, frame),
        }
    }

    fn copies(&mut self) -> usize {
        match self.chance(self.loss) {
            true => 0,
            false => 1 + usize::from(self.chance(self.doubling)),
        }
    }

    fn deliver(&mut self, host: usize, frame: &[u8]) {
        let mut frame = frame.to_vec();
        frame[..6].copy_from_slice(&self.hosts[host].config().mac.0);
        for _ in 0..self.copies() {
            let now = self.fabric.now;
            self.hosts[host].handle_frame(now, &frame);
        }
    }

    fn hand_up(&mut self, switch: SwitchIndex, port: u32, frame: &[u8]) {
        for _ in 0..self.copies() {
            let values = [u64::from(PACKET_IN_MRP), 0, u64::from(port)];
            let metadata = (1..)
                .zip(values)
                .map(|(metadata_id, value)| PacketMetadata {
                    metadata_id,
                    value: alfirk_p4runtime::bytestring::encode(value),
                });
            let packet = PacketIn {
                payload: frame.to_vec(),
                metadata: metadata.collect(),
            };
            let message = StreamMessageResponse {
                update: Some(stream_message_response::Update::Packet(packet)),
            };
            self.fabric.handle(Event::Stream { switch, message });
        }
    }
}

/// The memory region that every third host announces in band; its length is not a power of two.
fn region(host: usize) -> Option<mrp::Region> {
    let at = (host as u64 + 1) << 24;
    mrp::Region::new(at, 0x100 + host as u32, 10_000_000).filter(|_| host % 3 != 1)
}

fn api_contents(mut fabric: FakeFabric, hosts: &[usize]) -> Vec<Vec<String>> {
    let members = hosts.iter().map(|host| MemberSpec {
        ip: fabric.controller.topology().host(HostIndex(*host)).ip,
        qpn: qpn(*host),
        region: region(*host).map(|region| MemoryRegion {
            va: region.va,
            rkey: region.rkey,
            len: 10_000_000,
        }),
        may_send: true,
    });
    let group = RegisterGroup {
        mcst_id: Some(GROUP),
        virtual_qpn: Some(VIRTUAL_QPN),
        members: members.collect(),
        initial_psn: Psn::new(0xff_fff0),
        strategies: Default::default(),
    };
    fabric.register_group(group).unwrap();
    fabric.contents()
}

#[test]
fn in_band_registration_creates_the_same_group_as_the_control_service() {
    let least_loaded = Policy::ReuseLeastLoaded;
    let cases = [
        (least_loaded, testbed(), vec![0, 2, 3]),
        (least_loaded, leaf_spine(3, 2, 3).unwrap(), vec![4, 1, 0, 8]),
        (least_loaded, fat_tree(4).unwrap(), (0..16).collect()),
        (
            least_loaded,
            fat_tree(6).unwrap(),
            vec![20, 3, 50, 21, 7, 8, 33],
        ),
        (
            Policy::Cyclic,
            fat_tree(4).unwrap(),
            (0..16).rev().collect(),
        ),
        (
            Policy::Cyclic,
            m_port_n_tree(6, 3).unwrap(),
            vec![20, 3, 50, 21, 7, 8, 33],
        ),
        (
            Policy::Spanning,
            leaf_spine(3, 2, 3).unwrap(),
            vec![4, 1, 0, 8],
        ),
        (
            Policy::Spanning,
            fat_tree(4).unwrap(),
            (0..16).rev().collect(),
        ),
        // The root is not on the path from the leader to the next member.
        (
            Policy::Spanning,
            m_port_n_tree(6, 3).unwrap(),
            vec![20, 3, 50, 21, 7, 8, 33],
        ),
    ];
    for (policy, topology, hosts) in cases {
        let ready = || FakeFabric::ready_with(topology.clone(), policy);
        let mut world = World::over(ready());
        let mut leader = world.leader(GROUP, &hosts);
        assert_eq!(world.run(hosts[0], &mut leader), LeaderEvent::Registered);
        // The status lists members in the order of their addresses.
        let mut order = hosts.clone();
        order[1..].sort_unstable();
        assert_eq!(
            world.fabric.contents(),
            api_contents(ready(), &order),
            "{policy}"
        );
        assert!(matches!(
            world.fabric.said.last(),
            Some(ApiReply::GroupFormed { group }) if group.members == hosts.len()
        ));
        for (n, events) in world.events.iter().enumerate() {
            let expected = hosts[1..].contains(&n);
            assert_eq!(events.len(), usize::from(expected), "host {n}");
        }
        assert_eq!(world.fabric.controller.mrp_stats().wrong, 0);
    }
}

#[test]
fn registration_survives_loss_and_duplication_of_every_packet_kind() {
    for seed in 1..=12 {
        let hosts: Vec<usize> = (0..16).collect();
        let mut world = World::new(fat_tree(4).unwrap());
        (world.random, world.loss, world.doubling) = (seed, 200, 100);
        let mut leader = world.leader(GROUP, &hosts);
        assert_eq!(
            world.run(0, &mut leader),
            LeaderEvent::Registered,
            "seed {seed}"
        );
        assert_eq!(
            world.fabric.contents(),
            api_contents(FakeFabric::ready(fat_tree(4).unwrap()), &hosts)
        );
        assert!(world.events[1..].iter().all(|events| events.len() == 1));
        leader.deregister(&mut world.hosts[0], world.fabric.now);
        assert_eq!(world.run(0, &mut leader), LeaderEvent::Deregistered);
        world.settle(0, &mut leader, 20);
        assert!(world.fabric.controller.status().groups.is_empty());
        let left = world.fabric.contents().into_iter().flatten();
        assert_eq!(left.filter(|text| text.contains("group_lookup")).count(), 0);
    }
}

#[test]
fn members_join_and_leave_in_band_under_loss() {
    for seed in 1..=6 {
        let mut world = World::new(fat_tree(4).unwrap());
        (world.random, world.loss, world.doubling) = (seed, 150, 100);
        let mut leader = world.leader(GROUP, &[0, 5, 9]);
        assert_eq!(world.run(0, &mut leader), LeaderEvent::Registered);
        for host in [1, 14] {
            let (now, node) = (world.fabric.now, world.node(host));
            world.expect(host, GROUP, 0);
            leader.join(&mut world.hosts[0], now, node).unwrap();
            // No data was sent, so the group is at its initial PSN.
            let (ip, psn) = (world.hosts[host].ip(), Psn::new(0xff_fff0));
            assert_eq!(world.run(0, &mut leader), LeaderEvent::Joined { ip, psn });
            assert_eq!(world.events[host].len(), 1);
        }
        let now = world.fabric.now;
        let leaving = [world.hosts[5].ip(), world.hosts[14].ip()];
        leader.leave(&mut world.hosts[0], now, &leaving).unwrap();
        assert_eq!(world.run(0, &mut leader), LeaderEvent::Left);
        let group = &world.fabric.controller.status().groups[0];
        assert_eq!(group.members, [0, 9, 1].map(|n: usize| world.hosts[n].ip()));
        leader.deregister(&mut world.hosts[0], world.fabric.now);
        assert_eq!(world.run(0, &mut leader), LeaderEvent::Deregistered);
        world.settle(0, &mut leader, 20);
        let left = world.fabric.contents().into_iter().flatten();
        assert_eq!(left.filter(|text| text.contains("group_lookup")).count(), 0);
    }
}

#[test]
fn groups_of_several_packets_are_registered() {
    let hosts: Vec<usize> = (0..400).collect();
    let mut world = World::new(leaf_spine(8, 2, 50).unwrap());
    (world.loss, world.doubling) = (50, 20);
    let mut leader = world.leader(GROUP, &hosts);
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Registered);
    let group = &world.fabric.controller.status().groups[0];
    assert_eq!((group.members.len(), group.state), (400, GroupState::Ready));
}

#[test]
fn a_member_without_reply_is_reported_and_no_entry_is_left() {
    let mut world = World::new(leaf_spine(2, 1, 2).unwrap());
    let before = world.fabric.contents();
    world.dead.insert(2);
    // Shorter than the leader's timeout.
    world
        .fabric
        .controller
        .network
        .config_mut()
        .agree_timeout_ns = 20_000_000;
    let mut leader = world.leader(GROUP, &[0, 1, 2]);
    let missing = vec![world.hosts[2].ip()];
    assert_eq!(world.run(0, &mut leader), LeaderEvent::GaveUp { missing });
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Deregistered);
    assert_eq!(world.fabric.contents(), before);
}

#[test]
fn a_switch_without_space_refuses_with_its_reason() {
    let config = ControllerConfig::new(p4info::sized(2, 64), Vec::new());
    let mut fabric = FakeFabric::with(leaf_spine(2, 1, 2).unwrap(), config);
    fabric.connect_all();
    fabric.said.clear();
    // The second leaf is full; the others are not.
    fabric.register(&["h3", "h4"]).unwrap();
    fabric.register(&["h3", "h4"]).unwrap();
    let mut world = World::over(fabric);
    let before = world.fabric.contents();
    let mut leader = world.leader(GROUP, &[0, 1, 2]);
    let reason = Refusal::Full;
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Refused { reason });
    world.settle(0, &mut leader, 10);
    assert_eq!(world.fabric.contents(), before);
}

#[test]
fn a_full_table_refuses_with_its_reason() {
    for update in 0..9 {
        let mut world = World::new(leaf_spine(2, 1, 2).unwrap());
        let before = world.fabric.contents();
        let fake = &mut world.fabric.switches[1];
        fake.updates = 0;
        fake.refuse = [update].into();
        let mut leader = world.leader(GROUP, &[0, 2, 3]);
        let reason = Refusal::Full;
        assert_eq!(world.run(0, &mut leader), LeaderEvent::Refused { reason });
        world.settle(0, &mut leader, 10);
        assert_eq!(world.fabric.contents(), before, "update {update}");
    }
}

#[test]
fn a_switch_failure_during_registration_refuses_it() {
    let mut world = World::new(leaf_spine(2, 1, 2).unwrap());
    let before = world.fabric.contents();
    let spine = world.fabric.switch("s1");
    world.fabric.switches[spine.0].silent = true;
    let mut leader = world.leader(GROUP, &[0, 2, 3]);
    world.settle(0, &mut leader, 5);
    world.fabric.disconnect(spine);
    let reason = Refusal::SwitchFailed;
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Refused { reason });
    world.fabric.switches[spine.0].silent = false;
    world.fabric.connect(spine);
    assert_eq!(world.fabric.contents(), before);
}

#[test]
fn another_host_can_neither_take_nor_remove_a_group() {
    let mut world = World::new(leaf_spine(2, 1, 2).unwrap());
    let mut leader = world.leader(GROUP, &[0, 2]);
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Registered);
    let before = world.fabric.contents();
    let mut thief = world.stranger(GROUP, &[1, 3]);
    let reason = Refusal::Taken;
    assert_eq!(world.run(1, &mut thief), LeaderEvent::Refused { reason });
    let now = world.fabric.now;
    thief.deregister(&mut world.hosts[1], now);
    assert_eq!(world.run(1, &mut thief), LeaderEvent::Deregistered);
    assert_eq!(world.fabric.contents(), before);
    assert_eq!(world.fabric.controller.status().groups.len(), 1);
}

#[test]
fn another_host_does_not_disturb_a_registration_that_has_begun() {
    let hosts: Vec<usize> = (0..200).collect();
    let mut world = World::new(leaf_spine(4, 1, 50).unwrap());
    for host in &hosts[1..] {
        world.expect(*host, GROUP, 0);
    }
    let mut nodes: Vec<_> = hosts.iter().map(|host| world.node(*host)).collect();
    nodes.insert(1, mrp::Node::group(GROUP, VIRTUAL_QPN));
    let packets = mrp::Repr::split(mrp::Kind::Register, Psn::new(1), 0, &nodes).unwrap();
    let leader = world.hosts[0].ip();
    let (leaf, port) = world.fabric.controller.topology().attachment(HostIndex(0));
    let frames = packets
        .iter()
        .map(|packet| super::super::mrp::frame::build(VIRTUAL_MAC, leader, GROUP, packet));
    let frames: Vec<_> = frames.collect();
    assert!(frames.len() > 1);
    world.hand_up(leaf, port, &frames[0]);
    // On the same switch, before the group exists.
    let mut thief = world.stranger(GROUP, &[1, 60]);
    world.settle(1, &mut thief, 40);
    for frame in &frames[1..] {
        world.hand_up(leaf, port, frame);
    }
    let reason = Refusal::Taken;
    assert_eq!(world.run(1, &mut thief), LeaderEvent::Refused { reason });
    let now = world.fabric.now;
    thief.deregister(&mut world.hosts[1], now);
    assert_eq!(world.run(1, &mut thief), LeaderEvent::Deregistered);
    world.settle(1, &mut thief, 1_000);
    let group = &world.fabric.controller.status().groups[0];
    assert_eq!((group.members.len(), group.state), (200, GroupState::Ready));
    assert_eq!(group.members[0], leader);
}

#[test]
fn an_unfinished_registration_does_not_block_another_host() {
    let mut world = World::new(leaf_spine(2, 1, 2).unwrap());
    // Host 2 never sends the remaining packets; its switch is in host 0's tree.
    let packet = mrp::Repr {
        kind: mrp::Kind::Register,
        seq: 0,
        total: 2,
        initial_psn: Psn::new(1),
        flags: 0,
        nodes: vec![world.node(2)],
    };
    let idler = world.hosts[2].ip();
    let frame = super::super::mrp::frame::build(VIRTUAL_MAC, idler, GROUP, &packet);
    let (leaf, port) = world.fabric.controller.topology().attachment(HostIndex(2));
    world.hand_up(leaf, port, &frame);
    let mut leader = world.leader(GROUP, &[0, 3]);
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Registered);
}

#[test]
fn wrong_packets_are_counted_and_ignored() {
    let mut world = World::new(leaf_spine(2, 1, 2).unwrap());
    let before = world.fabric.contents();
    let packet = mrp::Repr {
        kind: mrp::Kind::Register,
        seq: 0,
        total: 1,
        initial_psn: Psn::new(1),
        flags: 0,
        nodes: vec![world.node(0), world.node(2)],
    };
    let [h1, h2] = [0, 1].map(|n| world.hosts[n].ip());
    let build = |source, destination, packet: &mrp::Repr| {
        super::super::mrp::frame::build(VIRTUAL_MAC, source, destination, packet)
    };
    let leaf = world.fabric.switch("l1");
    let uplink = world.fabric.controller.topology().neighbours(leaf);
    let uplink = uplink
        .iter()
        .find(|n| matches!(n.peer.node, Node::Switch(_)));
    let uplink = uplink.unwrap().port;
    let good = build(h1, GROUP, &packet);
    let confirm = mrp::Repr {
        kind: mrp::Kind::Confirm,
        ..packet.clone()
    };
    let (_, port) = world.fabric.controller.topology().attachment(HostIndex(0));
    // From another host's address, from a switch without the group, to an address that is not a group, of a wrong kind, truncated, from a port that does not exist.
    world.hand_up(leaf, port, &build(h2, GROUP, &packet));
    world.hand_up(leaf, uplink, &good);
    world.hand_up(leaf, port, &build(h1, [10, 0, 9, 9].into(), &packet));
    world.hand_up(leaf, port, &build(h1, GROUP, &confirm));
    world.hand_up(leaf, port, &good[..good.len() - 1]);
    world.hand_up(leaf, 77, &good);
    assert_eq!(world.fabric.controller.mrp_stats().wrong, 6);
    assert_eq!(world.fabric.contents(), before);
    // Invalid nodes.
    let stranger = mrp::Node {
        ip: [10, 9, 9, 9].into(),
        ..world.node(2)
    };
    let askew = mrp::Node {
        region: mrp::Region::new(0x1800, 1, 0x1000),
        ..world.node(2)
    };
    for nodes in [
        vec![],
        vec![world.node(0)],
        vec![world.node(2)],
        vec![world.node(0), stranger],
        vec![world.node(0), askew],
    ] {
        let packet = mrp::Repr {
            nodes,
            ..packet.clone()
        };
        world.hand_up(leaf, port, &build(h1, GROUP, &packet));
    }
    assert_eq!(world.fabric.controller.mrp_stats().refused, 5);
    assert_eq!(world.fabric.contents(), before);
}

#[test]
fn a_source_other_than_the_leader_can_report_a_stall() {
    let config = ControllerConfig {
        probe_interval_ns: 100_000,
        dead_member_ns: 1_000_000,
        lease_ns: 0,
        ..ControllerConfig::new(p4info::p4info(), Vec::new())
    };
    let mut fabric = FakeFabric::with(leaf_spine(2, 1, 2).unwrap(), config);
    fabric.connect_all();
    let mut world = World::over(fabric);
    let mut leader = world.leader(GROUP, &[0, 2, 3]);
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Registered);
    // Host 3 has received host 2's data, but host 0, the group's leader, has failed and acknowledges nothing.
    world.dead.insert(0);
    let leaf = world.fabric.switch("l1");
    for switch in 0..world.fabric.switches.len() {
        let index = world.fabric.controller.status().groups[0].switches[0].group_index;
        for path in 0..3 {
            world.fabric.switches[switch]
                .acked
                .insert((index, path), 0x540);
        }
    }
    world.fabric.switches[leaf.0]
        .acked
        .insert((0, 0), 0xff_ffef);
    let now = world.fabric.now;
    // A packet of a host outside the group is ignored.
    let packet = mrp::Repr {
        kind: mrp::Kind::Stalled,
        seq: 0,
        total: 1,
        initial_psn: Psn::new(0),
        flags: 0,
        nodes: vec![world.node(1)],
    };
    let stranger = world.hosts[1].ip();
    let frame = super::super::mrp::frame::build(VIRTUAL_MAC, stranger, GROUP, &packet);
    let (switch, port) = world.fabric.controller.topology().attachment(HostIndex(1));
    world.hand_up(switch, port, &frame);
    world.settle(1, &mut leader, 200);
    assert_eq!(world.fabric.controller.status().groups[0].members.len(), 3);
    world.members[2].stalled(&mut world.hosts[2], now, GROUP);
    world.settle(1, &mut leader, 400);
    let members = &world.fabric.controller.status().groups[0].members;
    assert_eq!(*members, [2, 3].map(|n: usize| world.hosts[n].ip()));
}

#[test]
fn a_failed_member_is_removed_in_half_of_the_queue_pairs_timeout() {
    use alfirk_roce::rc::AckTimeout;
    // With the controller's default timeouts it would take at least 3 s.
    for exponent in [13, 15, 17] {
        let retry_timeout = RetryTimeout::new(AckTimeout::new(exponent), 7);
        let limit = retry_timeout.shortest_ns().unwrap();
        let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
        fabric.said.clear();
        let mut world = World::over(fabric);
        world.retry_timeout = retry_timeout;
        let mut leader = world.leader(GROUP, &[0, 2, 3]);
        assert_eq!(world.run(0, &mut leader), LeaderEvent::Registered);
        for switch in 0..world.fabric.switches.len() {
            for path in 0..3 {
                world.fabric.switches[switch].acked.insert((0, path), 0x540);
            }
        }
        let leaf = world.fabric.switch("l2");
        world.fabric.switches[leaf.0].acked.insert((0, 0), 0x500);
        // The source waits before it reports a stall.
        let begun = world.fabric.now;
        world.fabric.now += retry_timeout.stall_ns();
        let now = world.fabric.now;
        leader.stalled(&mut world.hosts[0], now);
        world.step(0, &mut leader);
        world.fabric.said.clear();
        let is_lost = |reply: &ApiReply| matches!(reply, ApiReply::MembersLost { .. });
        while !world.fabric.said.iter().any(is_lost) {
            assert!(world.fabric.now - begun < limit, "2^{exponent}");
            world.fabric.pass(1_000_000);
        }
        assert!(world.fabric.now - begun < limit / 2, "2^{exponent}");
    }
}

#[test]
fn all_lost_members_are_reported_in_several_packets() {
    let config = ControllerConfig {
        probe_interval_ns: 100_000,
        dead_member_ns: 1_000_000,
        lease_ns: 0,
        ..ControllerConfig::new(p4info::p4info(), Vec::new())
    };
    let mut fabric = FakeFabric::with(leaf_spine(11, 1, 40).unwrap(), config);
    fabric.connect_all();
    let mut world = World::over(fabric);
    let hosts: Vec<usize> = (0..440).collect();
    let mut leader = world.leader(GROUP, &hosts);
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Registered);
    // All leaves have the data, but the members of ten leaves do not acknowledge it.
    for switch in 0..world.fabric.switches.len() {
        for path in 0..41 {
            world.fabric.switches[switch].acked.insert((0, path), 0x540);
        }
    }
    for leaf in 2..=11 {
        let leaf = world.fabric.switch(&format!("l{leaf}"));
        for path in 0..40 {
            world.fabric.switches[leaf.0].acked.insert((0, path), 0x500);
        }
    }
    let now = world.fabric.now;
    leader.stalled(&mut world.hosts[0], now);
    let mut lost = BTreeSet::new();
    let mut reports = 0;
    for _ in 0..3_000 {
        world.step(0, &mut leader);
        while let Some(event) = leader.poll() {
            let LeaderEvent::Lost { members } = event else {
                panic!("unexpected: {event:?}");
            };
            reports += 1;
            lost.extend(members);
        }
    }
    let silent: BTreeSet<Ipv4Addr> = (40..440).map(|n: usize| world.hosts[n].ip()).collect();
    assert_eq!(lost, silent);
    // Each report has at most 182 members.
    assert_eq!(reports, 3);
}

#[test]
fn the_cost_of_a_registration_does_not_depend_on_their_number() {
    let cost = |groups: u8| {
        let mut world = World::new(leaf_spine(2, 1, 3).unwrap());
        let mut idle = world.leader(GROUP, &[0, 1]);
        assert_eq!(world.run(0, &mut idle), LeaderEvent::Registered);
        let before = world.fabric.controller.mrp_stats().accepted;
        for switch in &mut world.fabric.switches {
            (switch.updates, switch.writes) = (0, 0);
        }
        // Each group has different queue pairs.
        let qpn_in = |host: usize, n: u8| QpNum::new(0x200 + 0x10 * u32::from(n) + host as u32);
        for n in 0..groups {
            let mcst_id = Ipv4Addr::new(10, 255, 8, n + 1);
            let group = mrp::Node::group(mcst_id, VIRTUAL_QPN);
            let nodes = [0, 1, 3, 4].map(|host| mrp::Node {
                qpn: qpn_in(host, n),
                ..world.node(host)
            });
            for host in [1, 3, 4] {
                let expected = ExpectedGroup {
                    mcst_id,
                    virtual_qpn: VIRTUAL_QPN,
                    leader: world.hosts[0].ip(),
                };
                world.members[host].expect(qpn_in(host, n), expected);
            }
            let packet = mrp::Repr {
                kind: mrp::Kind::Register,
                seq: 0,
                total: 1,
                initial_psn: Psn::new(1),
                flags: 0,
                nodes: [group].into_iter().chain(nodes).collect(),
            };
            let leader = world.hosts[0].ip();
            let frame = super::super::mrp::frame::build(VIRTUAL_MAC, leader, mcst_id, &packet);
            let topology = world.fabric.controller.topology();
            let (leaf, port) = topology.attachment(HostIndex(0));
            world.hand_up(leaf, port, &frame);
        }
        world.settle(0, &mut idle, 50);
        let formed = world.fabric.controller.status().groups;
        let formed = formed.iter().filter(|g| g.state == GroupState::Ready);
        assert_eq!(formed.count(), usize::from(groups) + 1);
        let updates: usize = world.fabric.switches.iter().map(|s| s.updates).sum();
        let packets = world.fabric.controller.mrp_stats().accepted - before;
        (updates / usize::from(groups), packets / u64::from(groups))
    };
    // The leaves have two members and three paths each, the spine two paths. Three switches get packets, and three hosts agree.
    let one = cost(1);
    assert_eq!(one, (2 * (2 + 1 + 2 + 3 + 1) + 1 + 2 + 1, 3 + 3));
    assert_eq!(cost(40), one);
}
