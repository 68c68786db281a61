//! The leader's side.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::{ExpectedGroup, Patience};
use crate::host::HostEvent;
use crate::verbs::Verbs;
use crate::wire::mrp::{Kind, Node, Refusal, Repr, TooManyNodes, View, PORT};
use crate::wire::{Psn, QpNum};

/// How patient a leader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderTiming {
    /// Nanoseconds after which unconfirmed packets are sent again.
    pub interval: u64,
    /// How often a packet is sent before the leader gives up, at least 1.
    pub attempts: u32,
}

impl Default for LeaderTiming {
    /// 100 ms, 50 times: five seconds, longer than a switch takes to write a large group.
    fn default() -> LeaderTiming {
        LeaderTiming {
            interval: 100_000_000,
            attempts: 50,
        }
    }
}

/// The group that a leader registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSpec {
    /// The address that stands for it.
    pub mcst_id: Ipv4Addr,
    /// The queue pair number that the members' queue pairs address; another one than that of the group which had the address before.
    pub virtual_qpn: QpNum,
    /// The PSN with which every member starts.
    pub initial_psn: Psn,
    /// The leader's own node.
    pub leader: Node,
    /// The other members; their queue pairs come by [`Leader::gather`].
    pub members: BTreeSet<Ipv4Addr>,
    /// When the members' queue pairs give up: the fabric finds dead members before.
    #[serde(default)]
    pub patience: Patience,
}

impl GroupSpec {
    /// What the group's members are to expect, see [`Member::expect`](super::Member::expect).
    pub fn expected(&self) -> ExpectedGroup {
        ExpectedGroup {
            mcst_id: self.mcst_id,
            virtual_qpn: self.virtual_qpn,
            leader: self.leader.ip,
        }
    }
}

/// What a leader reports to its user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "kebab-case")]
pub enum LeaderEvent {
    /// Every member has confirmed: sending may start.
    Registered,
    /// A switch refused; nothing is registered, and the group must do without multicast.
    Refused { reason: Refusal },
    /// These members have not confirmed in time. The leader has begun to take the registration back.
    GaveUp { missing: Vec<Ipv4Addr> },
    /// A member has joined; its queue pair, and the next request of every member, starts with this PSN.
    Joined { ip: Ipv4Addr, psn: Psn },
    /// These members are out of the group.
    Left,
    /// These members did not answer, and the fabric has taken them out so that the group goes on.
    Lost { members: Vec<Ipv4Addr> },
    /// No switch knows the group any more, or nobody answered for the last time: because the leader asked for it, or because
    /// it has shown the fabric no sign of life for as long as groups are kept.
    Deregistered,
}

/// What cannot be asked for at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the leader is occupied with another request, or the group is not registered")]
pub struct NotNow;

/// Registers a group. See the module's text.
#[derive(Debug)]
pub struct Leader {
    spec: GroupSpec,
    timing: LeaderTiming,
    nodes: BTreeMap<Ipv4Addr, Node>,
    state: State,
    exchange: Option<Exchange>,
    events: VecDeque<LeaderEvent>,
    /// Packets that came and meant nothing.
    ignored: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Queue pairs of members are missing.
    Gathering,
    Registering,
    Registered,
    Joining,
    Leaving,
    Deregistering,
    /// Refused, given up, or deregistered.
    Over,
}

/// Packets that wait for confirmations.
#[derive(Debug)]
struct Exchange {
    packets: Vec<Repr>,
    /// Who has not confirmed; for what a switch confirms, the leader itself.
    missing: BTreeSet<Ipv4Addr>,
    attempts: u32,
    /// When to send again, or give up.
    deadline: u64,
}

impl Leader {
    /// A leader whose members' queue pairs are not known yet.
    pub fn new(host: &mut dyn Verbs, spec: GroupSpec, timing: LeaderTiming) -> Leader {
        host.bind_udp(PORT);
        Leader {
            nodes: BTreeMap::from([(spec.leader.ip, spec.leader)]),
            spec,
            timing,
            state: State::Gathering,
            exchange: None,
            events: VecDeque::new(),
            ignored: 0,
        }
    }

    /// Takes a member's queue pair; with the last one, registration begins. Others than the expected members are ignored.
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

    /// Adds a member to the registered group, between messages.
    pub fn join(&mut self, host: &mut dyn Verbs, now: u64, node: Node) -> Result<(), NotNow> {
        self.idle()?;
        let missing = BTreeSet::from([node.ip]);
        self.begin(host, now, State::Joining, Kind::Join, &[node], missing)
            .map_err(|_| NotNow)
    }

    /// Takes members out of the registered group.
    pub fn leave(
        &mut self,
        host: &mut dyn Verbs,
        now: u64,
        ips: &[Ipv4Addr],
    ) -> Result<(), NotNow> {
        self.idle()?;
        let nodes: Vec<Node> = ips
            .iter()
            .filter_map(|ip| self.nodes.get(ip))
            .copied()
            .collect();
        let missing = BTreeSet::from([self.spec.leader.ip]);
        self.begin(host, now, State::Leaving, Kind::Leave, &nodes, missing)
            .map_err(|_| NotNow)
    }

    /// Has every switch forget the group.
    pub fn deregister(&mut self, host: &mut dyn Verbs, now: u64) {
        let missing = BTreeSet::from([self.spec.leader.ip]);
        // One packet without nodes always fits.
        let _ = self.begin(
            host,
            now,
            State::Deregistering,
            Kind::Deregister,
            &[],
            missing,
        );
    }

    /// Says that the group makes no progress, so that dead members, links and switches are looked for. What comes of it is
    /// reported by [`LeaderEvent::Lost`]; as the packet may be lost, say it again while nothing moves.
    pub fn stalled(&mut self, host: &mut dyn Verbs, now: u64) {
        if self.is_registered() {
            self.say(host, now, Kind::Stalled);
        }
    }

    /// Sends a packet that nobody confirms, with the leader's own node.
    fn say(&self, host: &mut dyn Verbs, now: u64, kind: Kind) {
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

    /// Takes a datagram; says whether it was for this leader.
    ///
    /// A fabric that asks whether the group is still wanted is answered at once.
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
                    self.say(host, now, Kind::Alive);
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

    /// When to call [`Leader::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<u64> {
        self.exchange.as_ref().map(|exchange| exchange.deadline)
    }

    /// Sends again what is due at `now`, or gives up.
    pub fn handle_timeout(&mut self, now: u64, host: &mut dyn Verbs) {
        let Some(exchange) = self.exchange.take_if(|e| e.deadline <= now) else {
            return;
        };
        if exchange.attempts < self.timing.attempts {
            self.exchange = Some(exchange);
            return self.send(host, now);
        }
        match self.state {
            State::Deregistering => {
                self.state = State::Over;
                self.events.push_back(LeaderEvent::Deregistered);
            }
            State::Joining | State::Leaving => {
                self.state = State::Registered;
                let missing = exchange.missing.into_iter().collect();
                self.events.push_back(LeaderEvent::GaveUp { missing });
            }
            _ => {
                let missing = exchange.missing.into_iter().collect();
                self.events.push_back(LeaderEvent::GaveUp { missing });
                self.deregister(host, now);
            }
        }
    }

    /// The next thing the user should know.
    pub fn poll(&mut self) -> Option<LeaderEvent> {
        self.events.pop_front()
    }

    /// The group.
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

    /// Packets that came for this group and meant nothing: duplicates, strangers, answers out of place.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    fn idle(&self) -> Result<(), NotNow> {
        match self.state {
            State::Registered => Ok(()),
            _ => Err(NotNow),
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
            Kind::Register => self.spec.patience.bits(),
            _ => 0,
        };
        self.exchange = Some(Exchange {
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

    /// Sends the packets that name nodes which have not confirmed; those that no node is to confirm always.
    fn send(&mut self, host: &mut dyn Verbs, now: u64) {
        let Some(exchange) = &mut self.exchange else {
            return;
        };
        exchange.attempts += 1;
        exchange.deadline = now + self.timing.interval;
        let own = exchange.missing.contains(&self.spec.leader.ip);
        for packet in &exchange.packets {
            if own
                || packet
                    .nodes
                    .iter()
                    .any(|n| exchange.missing.contains(&n.ip))
            {
                host.send_udp(now, self.spec.mcst_id, PORT, PORT, packet.to_bytes());
            }
        }
    }

    fn confirmed(&mut self, source: Ipv4Addr, packet: &Repr) {
        let Some(mut exchange) = self.exchange.take() else {
            self.ignored += 1;
            return;
        };
        // A switch confirms in the group's name, a member in its own and only for itself.
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
        let is_news = who.is_some_and(|who| exchange.missing.remove(&who));
        self.ignored += u64::from(!is_news);
        if !exchange.missing.is_empty() {
            self.exchange = Some(exchange);
            return;
        }
        let (state, event) = match self.state {
            State::Joining => {
                let psn = packet.initial_psn;
                (State::Registered, LeaderEvent::Joined { ip: source, psn })
            }
            State::Leaving => {
                for node in exchange.packets.iter().flat_map(|p| &p.nodes) {
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
        // Nobody has asked for anything, but the fabric has given the group up.
        let is_gone = self.state == State::Registered && reason == Refusal::NoSuchGroup;
        if source != self.spec.mcst_id || self.exchange.is_none() && !is_gone {
            self.ignored += 1;
            return;
        }
        self.exchange = None;
        if self.state == State::Registering && reason == Refusal::NotAgreed && !missing.is_empty() {
            self.events.push_back(LeaderEvent::GaveUp { missing });
            return self.deregister(host, now);
        }
        let (state, event) = match self.state {
            // What is not there need not be removed.
            State::Deregistering | State::Registered => (State::Over, LeaderEvent::Deregistered),
            State::Joining | State::Leaving => (State::Registered, LeaderEvent::Refused { reason }),
            _ => (State::Over, LeaderEvent::Refused { reason }),
        };
        self.state = state;
        self.events.push_back(event);
    }
}
