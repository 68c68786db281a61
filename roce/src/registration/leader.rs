//! The leader of a group: the host that registers it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::{ExpectedGroup, RetryTimeout};
use crate::host::HostEvent;
use crate::verbs::Verbs;
use crate::wire::mrp::{Kind, Node, Refusal, Repr, TooManyNodes, View, PORT};
use crate::wire::{Psn, QpNum};

/// How a group's leader retransmits its registration packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderTiming {
    /// Nanoseconds after which unconfirmed packets are resent.
    pub interval: u64,
    /// Number of transmissions of a packet, at least 1, after which the leader gives up.
    pub attempts: u32,
}

impl Default for LeaderTiming {
    /// 100 ms and 50 transmissions: five seconds, which is longer than a switch needs to write a large group.
    fn default() -> LeaderTiming {
        LeaderTiming {
            interval: 100_000_000,
            attempts: 50,
        }
    }
}

/// The group that a leader registers, as far as the leader knows it at the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSpec {
    /// IPv4 address of the group (McstID).
    pub mcst_id: Ipv4Addr,
    /// Virtual queue pair number of the group. It must differ from that of the previous group with the same address.
    pub virtual_qpn: QpNum,
    /// Initial PSN of every member.
    pub initial_psn: Psn,
    /// Address and queue pair of the leader's own host, which is a member too.
    pub leader: Node,
    /// Addresses of the other members. [`Leader::gather`] adds their queue pairs.
    pub members: BTreeSet<Ipv4Addr>,
    /// ACK timeout and retries of the members' queue pairs. The fabric must detect failed members before those give up.
    #[serde(default)]
    pub retry_timeout: RetryTimeout,
}

impl GroupSpec {
    /// The group as its members expect it: [`Member::expect`](super::Member::expect).
    pub fn expected(&self) -> ExpectedGroup {
        ExpectedGroup {
            mcst_id: self.mcst_id,
            virtual_qpn: self.virtual_qpn,
            leader: self.leader.ip,
        }
    }
}

/// An event that a leader reports to the program that uses it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "kebab-case")]
pub enum LeaderEvent {
    /// Every member has confirmed: the source may send.
    Registered,
    /// A switch has rejected the registration. The group is not registered and must fall back to an overlay.
    Refused {
        /// Reason that the switch has sent for the rejection.
        reason: Refusal,
    },
    /// Some members have not confirmed in time. The leader has begun to deregister the group.
    GaveUp {
        /// Addresses of the members that have not confirmed the registration.
        missing: Vec<Ipv4Addr>,
    },
    /// A member has joined. Its queue pair, and the next request of every member, starts at `psn`.
    Joined {
        /// Address of the member.
        ip: Ipv4Addr,
        /// PSN of the group's next packet.
        psn: Psn,
    },
    /// The members whose removal the leader has requested are removed.
    Left,
    /// Some members did not respond. The fabric has removed them so that the group continues.
    Lost {
        /// Addresses of the removed members.
        members: Vec<Ipv4Addr>,
    },
    /// The group is deregistered: at the leader's request, or because the leader did not respond to the fabric for too
    /// long. Also reported if the leader's request to deregister got no reply.
    Deregistered,
}

/// Error: the leader has another request in progress, or the group is not registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the leader is busy with another request, or the group is not registered")]
pub struct Busy;

/// State machine of a group's leader: registers the group, adds and removes members, and deregisters the group.
#[derive(Debug)]
pub struct Leader {
    spec: GroupSpec,
    timing: LeaderTiming,
    nodes: BTreeMap<Ipv4Addr, Node>,
    state: State,
    pending: Option<PendingRequest>,
    events: VecDeque<LeaderEvent>,
    /// Number of received registration packets that were ignored.
    ignored: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The leader waits for the queue pairs of members.
    Gathering,
    Registering,
    Registered,
    Joining,
    Leaving,
    Deregistering,
    /// The registration has ended: the group was rejected, has failed, or is deregistered.
    Over,
}

/// A request in progress: the packets sent, and the members whose confirmations are awaited.
#[derive(Debug)]
struct PendingRequest {
    packets: Vec<Repr>,
    /// Members that have not confirmed the request. If a switch is to confirm it, contains only the leader itself.
    missing: BTreeSet<Ipv4Addr>,
    attempts: u32,
    /// Time in nanoseconds at which to resend the packets or to give up.
    deadline: u64,
}

impl Leader {
    /// Creates a leader that waits for its members' queue pairs.
    pub fn new(host: &mut dyn Verbs, spec: GroupSpec, timing: LeaderTiming) -> Leader {
        host.bind_udp(PORT);
        Leader {
            nodes: BTreeMap::from([(spec.leader.ip, spec.leader)]),
            spec,
            timing,
            state: State::Gathering,
            pending: None,
            events: VecDeque::new(),
            ignored: 0,
        }
    }

    /// Adds a member's queue pair. The last one starts the registration. Hosts that are not expected members are
    /// ignored.
    pub fn gather(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        node: Node,
    ) -> Result<(), TooManyNodes> {
        if self.state != State::Gathering || !self.spec.members.contains(&node.ip) {
            self.ignored += 1;
            return Ok(());
        }
        self.nodes.insert(node.ip, node);
        if self.nodes.len() <= self.spec.members.len() {
            return Ok(());
        }
        let others = self.nodes.values().filter(|n| n.ip != self.spec.leader.ip);
        let group = Node::group(self.spec.mcst_id, self.spec.virtual_qpn);
        let nodes: Vec<Node> = [group, self.spec.leader]
            .into_iter()
            .chain(others.copied())
            .collect();
        let missing = self.spec.members.clone();
        self.begin(
            host,
            now,
            State::Registering,
            Kind::Register,
            &nodes,
            missing,
        )
    }

    /// Adds a member to the registered group; no data message of the group may be in flight.
    pub fn join(&mut self, host: &mut dyn Verbs, now: u64, node: Node) -> Result<(), Busy> {
        self.check_idle()?;
        let missing = BTreeSet::from([node.ip]);
        self.begin(host, now, State::Joining, Kind::Join, &[node], missing)
            .map_err(|_| Busy)
    }

    /// Removes members, given by address, from the registered group.
    pub fn leave(&mut self, host: &mut dyn Verbs, now: u64, ips: &[Ipv4Addr]) -> Result<(), Busy> {
        self.check_idle()?;
        let nodes: Vec<Node> = ips
            .iter()
            .filter_map(|ip| self.nodes.get(ip))
            .copied()
            .collect();
        let missing = BTreeSet::from([self.spec.leader.ip]);
        self.begin(host, now, State::Leaving, Kind::Leave, &nodes, missing)
            .map_err(|_| Busy)
    }

    /// Removes the group from all switches.
    pub fn deregister(&mut self, host: &mut dyn Verbs, now: u64) {
        let missing = BTreeSet::from([self.spec.leader.ip]);
        // One packet without nodes is never too large.
        let _ = self.begin(
            host,
            now,
            State::Deregistering,
            Kind::Deregister,
            &[],
            missing,
        );
    }

    /// Reports to the fabric that the group makes no progress, so that it looks for failed members, links and switches.
    /// [`LeaderEvent::Lost`] reports the result. The caller repeats this while there is no progress, because the packet
    /// may be lost.
    pub fn stalled(&mut self, host: &mut dyn Verbs, now: u64) {
        if self.is_registered() {
            self.send_unconfirmed(host, now, Kind::Stalled);
        }
    }

    /// Sends a packet of kind `kind`, which needs no confirmation. The packet contains the leader's own node.
    fn send_unconfirmed(&self, host: &mut dyn Verbs, now: u64, kind: Kind) {
        let packet = Repr {
            kind,
            seq: 0,
            total: 1,
            initial_psn: self.spec.initial_psn,
            flags: 0,
            nodes: vec![self.spec.leader],
        };
        host.send_udp(now, self.spec.mcst_id, PORT, PORT, packet.to_bytes());
    }

    /// Handles an event of the host. Returns whether it is a packet for this leader.
    ///
    /// A query of the fabric whether the group is still needed gets a reply at once.
    pub fn handle_event(&mut self, now: u64, host: &mut dyn Verbs, event: &HostEvent) -> bool {
        let HostEvent::Udp {
            source,
            destination_port: PORT,
            payload,
            ..
        } = event
        else {
            return false;
        };
        let Ok(view) = View::new_checked(payload) else {
            return false;
        };
        let packet = Repr::parse(&view);
        if packet.group().map(|group| group.ip) != Some(self.spec.mcst_id) {
            return false;
        }
        match packet.kind {
            Kind::Confirm => self.confirmed(*source, &packet),
            Kind::Refuse => self.refused(now, host, *source, &packet),
            Kind::Alive if *source == self.spec.mcst_id => {
                if self.is_registered() {
                    self.send_unconfirmed(host, now, Kind::Alive);
                }
            }
            Kind::Leave if *source == self.spec.mcst_id => {
                let members: Vec<Ipv4Addr> = packet.members().map(|node| node.ip).collect();
                self.nodes.retain(|ip, _| !members.contains(ip));
                self.events.push_back(LeaderEvent::Lost { members });
            }
            _ => return false,
        }
        true
    }

    /// The time of the next [`Leader::handle_timeout`], in nanoseconds; `None` if no timer runs.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.deadline)
    }

    /// Resends unconfirmed packets that are due at `now`, or gives up.
    pub fn handle_timeout(&mut self, now: u64, host: &mut dyn Verbs) {
        let Some(pending) = self.pending.take_if(|e| e.deadline <= now) else {
            return;
        };
        if pending.attempts < self.timing.attempts {
            self.pending = Some(pending);
            return self.send(host, now);
        }
        match self.state {
            State::Deregistering => {
                self.state = State::Over;
                self.events.push_back(LeaderEvent::Deregistered);
            }
            State::Joining | State::Leaving => {
                self.state = State::Registered;
                let missing = pending.missing.into_iter().collect();
                self.events.push_back(LeaderEvent::GaveUp { missing });
            }
            _ => {
                let missing = pending.missing.into_iter().collect();
                self.events.push_back(LeaderEvent::GaveUp { missing });
                self.deregister(host, now);
            }
        }
    }

    /// Removes and returns the next event for the user.
    pub fn poll(&mut self) -> Option<LeaderEvent> {
        self.events.pop_front()
    }

    /// The McstID of the group.
    pub fn mcst_id(&self) -> Ipv4Addr {
        self.spec.mcst_id
    }

    /// Whether the group is registered.
    pub fn is_registered(&self) -> bool {
        matches!(
            self.state,
            State::Registered | State::Joining | State::Leaving
        )
    }

    /// Number of packets for this group that were ignored: duplicates, unexpected senders, replies out of sequence.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    fn check_idle(&self) -> Result<(), Busy> {
        match self.state {
            State::Registered => Ok(()),
            _ => Err(Busy),
        }
    }

    fn begin(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        state: State,
        kind: Kind,
        nodes: &[Node],
        missing: BTreeSet<Ipv4Addr>,
    ) -> Result<(), TooManyNodes> {
        let flags = match kind {
            Kind::Register => self.spec.retry_timeout.bits(),
            _ => 0,
        };
        self.pending = Some(PendingRequest {
            packets: Repr::split(kind, self.spec.initial_psn, flags, nodes)?,
            missing,
            attempts: 0,
            deadline: now,
        });
        self.state = state;
        for node in nodes {
            self.nodes.insert(node.ip, *node);
        }
        self.send(host, now);
        Ok(())
    }

    /// Sends the packets that contain unconfirmed nodes, or all packets if a switch is to confirm them.
    fn send(&mut self, host: &mut dyn Verbs, now: u64) {
        let Some(pending) = &mut self.pending else {
            return;
        };
        pending.attempts += 1;
        pending.deadline = now + self.timing.interval;
        let own = pending.missing.contains(&self.spec.leader.ip);
        for packet in &pending.packets {
            if own || packet.nodes.iter().any(|n| pending.missing.contains(&n.ip)) {
                host.send_udp(now, self.spec.mcst_id, PORT, PORT, packet.to_bytes());
            }
        }
    }

    fn confirmed(&mut self, source: Ipv4Addr, packet: &Repr) {
        let Some(mut pending) = self.pending.take() else {
            self.ignored += 1;
            return;
        };
        // A switch confirms from the group's address; a member confirms from its own address, and only for itself.
        let from_switch = source == self.spec.mcst_id;
        let is_right = |node: &Node| {
            let known = self.nodes.get(&source);
            let is_same = |n: &Node| n.qpn == node.qpn && n.region == node.region;
            node.ip == source && known.is_some_and(is_same)
        };
        let who = match from_switch {
            true => Some(self.spec.leader.ip),
            false => packet.members().find(|node| is_right(node)).map(|n| n.ip),
        };
        let is_unreported = who.is_some_and(|who| pending.missing.remove(&who));
        self.ignored += u64::from(!is_unreported);
        if !pending.missing.is_empty() {
            self.pending = Some(pending);
            return;
        }
        let (state, event) = match self.state {
            State::Joining => {
                let psn = packet.initial_psn;
                (State::Registered, LeaderEvent::Joined { ip: source, psn })
            }
            State::Leaving => {
                for node in pending.packets.iter().flat_map(|p| &p.nodes) {
                    self.nodes.remove(&node.ip);
                }
                (State::Registered, LeaderEvent::Left)
            }
            State::Deregistering => (State::Over, LeaderEvent::Deregistered),
            _ => (State::Registered, LeaderEvent::Registered),
        };
        self.state = state;
        self.events.push_back(event);
    }

    fn refused(&mut self, now: u64, host: &mut dyn Verbs, source: Ipv4Addr, packet: &Repr) {
        let reason = Refusal::from_bits(packet.flags);
        let missing: Vec<Ipv4Addr> = packet.members().map(|node| node.ip).collect();
        // Without a request in progress, this means that the fabric has removed the group.
        let is_gone = self.state == State::Registered && reason == Refusal::NoSuchGroup;
        if source != self.spec.mcst_id || self.pending.is_none() && !is_gone {
            self.ignored += 1;
            return;
        }
        self.pending = None;
        if self.state == State::Registering && reason == Refusal::NotAgreed && !missing.is_empty() {
            self.events.push_back(LeaderEvent::GaveUp { missing });
            return self.deregister(host, now);
        }
        let (state, event) = match self.state {
            // A group that does not exist counts as deregistered.
            State::Deregistering | State::Registered => (State::Over, LeaderEvent::Deregistered),
            State::Joining | State::Leaving => (State::Registered, LeaderEvent::Refused { reason }),
            _ => (State::Over, LeaderEvent::Refused { reason }),
        };
        self.state = state;
        self.events.push_back(event);
    }
}
