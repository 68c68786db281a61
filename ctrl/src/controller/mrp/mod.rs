//! Registration in band: what each switch's agent does with the registration packets that the switch hands up.
//!
//! An agent works as the switches of Cepheus do (section III-C) and Gleam's algorithm 4: from the nodes of its packets,
//! and nothing else, it chooses a port for each node, writes its own switch's tables, and then sends each neighbour
//! the nodes that are reached through it.  Member hosts at the end of the tree get a packet that names them and the group,
//! and confirm to the leader.  The choice of ports is that of the tree policy, so that a group becomes the same as through
//! the control service.
//!
//! Hosts send again what has not led to confirmations; so packets may be lost anywhere, and repeated ones only have the
//! packets below repeated.  What goes wrong ends in a refusal to the leader, and in a clean fabric.

mod agent;
mod agreement;
mod build;
pub(super) mod frame;
mod growth;
mod limits;
mod say;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind, Node, Refusal, Repr, MAX_NODES};

use super::change::Origin;
use super::event::MemberSpec;
use super::making::Making;
use super::procedure::Run;
use super::removal::Reason;
use super::status::MrpStats;
use super::timers::Timers;
use super::Controller;
use crate::topology::{HostIndex, Node as Place, SwitchIndex};
use agent::{Agent, Part, Stage};
use agreement::Invitations;
use frame::Received;
pub(super) use growth::Growth;
use limits::{Limits, Verdict};

/// Records that a node with a region takes.
const NODES_OF_LONGEST: usize = 3;

/// Registrations under way, and counters.
#[derive(Debug, Default)]
pub(super) struct Mrp {
    agents: BTreeMap<(Ipv4Addr, SwitchIndex), Agent>,
    /// When a registration that makes no progress is forgotten.
    deadlines: Timers<Ipv4Addr>,
    /// When members of an agent that have not agreed are given up.
    undecided: Timers<(Ipv4Addr, SwitchIndex)>,
    pub(super) invitations: Invitations,
    limits: Limits,
    stats: MrpStats,
}

impl Mrp {
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let all = [
            self.deadlines.first(),
            self.undecided.first(),
            self.invitations.poll_timeout(),
        ];
        all.into_iter().flatten().min()
    }

    /// The agents that make a group.
    fn agents_of(&self, mcst_id: Ipv4Addr) -> impl Iterator<Item = (SwitchIndex, &Agent)> {
        let all = (mcst_id, SwitchIndex(0))..=(mcst_id, SwitchIndex(usize::MAX));
        self.agents
            .range(all)
            .map(|((_, switch), agent)| (*switch, agent))
    }

    /// What an agent does on its switch, if it has begun.
    pub(super) fn making(&self, mcst_id: Ipv4Addr, switch: SwitchIndex) -> Option<&Run<Making>> {
        match &self.agents.get(&(mcst_id, switch))?.stage {
            Stage::Making(run) => Some(run),
            Stage::Gathering | Stage::Inviting => None,
        }
    }

    pub(super) fn making_mut(
        &mut self,
        mcst_id: Ipv4Addr,
        switch: SwitchIndex,
    ) -> Option<&mut Run<Making>> {
        match &mut self.agents.get_mut(&(mcst_id, switch))?.stage {
            Stage::Making(run) => Some(run),
            Stage::Gathering | Stage::Inviting => None,
        }
    }

    /// Forgets the agents of a group, and returns on which switches they may have left something.
    fn forget(&mut self, mcst_id: Ipv4Addr) -> BTreeSet<SwitchIndex> {
        let mut doubtful = BTreeSet::new();
        for switch in self.switches_of(mcst_id) {
            self.undecided.clear((mcst_id, switch));
            let agent = self.agents.remove(&(mcst_id, switch));
            if let Some(Stage::Making(run)) = agent.map(|agent| agent.stage) {
                doubtful.extend(run.end().1.doubtful);
            }
        }
        self.deadlines.clear(mcst_id);
        doubtful
    }

    /// Forgets the agents of a group that have not begun to write, and returns those that have.
    fn stop(&mut self, mcst_id: Ipv4Addr) -> Vec<SwitchIndex> {
        let mut begun = Vec::new();
        for switch in self.switches_of(mcst_id) {
            if self.making(mcst_id, switch).is_some() {
                begun.push(switch);
            } else {
                self.undecided.clear((mcst_id, switch));
                self.agents.remove(&(mcst_id, switch));
            }
        }
        begun
    }

    fn switches_of(&self, mcst_id: Ipv4Addr) -> Vec<SwitchIndex> {
        self.agents_of(mcst_id).map(|(switch, _)| switch).collect()
    }

    /// Forgets what one host has begun of a group that is not there yet; others may have begun it as well.
    fn give_up_of(&mut self, mcst_id: Ipv4Addr, leader: Ipv4Addr) {
        let mut agents = self.agents_of(mcst_id);
        if agents.all(|(_, agent)| agent.leader == leader) {
            drop(agents);
            return self.give_up(mcst_id);
        }
        drop(agents);
        self.agents
            .retain(|(of, _), agent| *of != mcst_id || agent.leader != leader);
    }

    /// Forgets a registration of which there is no group yet.
    fn give_up(&mut self, mcst_id: Ipv4Addr) {
        self.forget(mcst_id);
        self.limits.forget(mcst_id);
    }
}

/// Whether a node is this member, as its switch has it: the tables know no length of a region.
fn is_same(spec: &MemberSpec, node: &Node) -> bool {
    let place = |spec: &MemberSpec| spec.region.map(|region| (region.va, region.rkey));
    let named = frame::member_spec(node);
    spec.ip == named.ip && spec.qpn == named.qpn && place(spec) == place(&named)
}

impl Controller {
    /// Counts of registration packets.
    pub fn mrp_stats(&self) -> MrpStats {
        self.mrp.stats
    }

    /// A switch hands up a frame that came by `port`.
    pub(super) fn mrp_frame(&mut self, now: u64, switch: SwitchIndex, port: u32, frame: &[u8]) {
        if !self.switches[switch.0].boot.is_ready() {
            // Its host will send it again.
            return;
        }
        let is_from_host = self.host_behind(switch, port).is_some();
        let verdict = match is_from_host {
            true => self.pace(now, switch, port),
            // What comes from other switches is of the agents there.
            false => Verdict::Serve,
        };
        if verdict == Verdict::Drop {
            return;
        }
        let received = frame::parse(frame);
        let Some(received) = received.filter(|r| self.is_from_right_place(switch, port, r)) else {
            self.mrp.stats.wrong += 1;
            return;
        };
        if verdict == Verdict::Refuse {
            let (mcst_id, host) = (received.destination, received.source);
            return self.mrp_refuse(mcst_id, host, Refusal::TooFast);
        }
        if is_from_host && self.is_leader(&received) {
            self.sign_of_life(now, received.destination);
        }
        match received.packet.kind {
            Kind::Register => self.mrp_register(now, switch, port, &received),
            Kind::Deregister if is_from_host => self.mrp_deregister(now, &received),
            Kind::Join if is_from_host => self.mrp_join(now, &received),
            Kind::Leave if is_from_host => self.mrp_leave(now, &received),
            Kind::Agree if is_from_host => self.mrp_agree(now, switch, &received),
            Kind::Stalled if is_from_host && self.may_be_source(&received) => {
                self.mrp.stats.accepted += 1;
                self.watch(now, received.destination);
            }
            Kind::Alive if is_from_host && self.is_leader(&received) => {
                self.mrp.stats.accepted += 1;
            }
            _ => self.mrp.stats.wrong += 1,
        }
    }

    /// Whether a host may send a packet now.
    fn pace(&mut self, now: u64, switch: SwitchIndex, port: u32) -> Verdict {
        let rate = self.config.mrp_rate;
        let verdict = self.mrp.limits.admit(now, (switch, port), rate);
        self.mrp.stats.limited += u64::from(verdict != Verdict::Serve);
        verdict
    }

    /// Notes who leads a group that a host has asked for, or that nobody does any more.
    pub(super) fn note_leader(&mut self, mcst_id: Ipv4Addr) {
        let is_in_band = self.groups.get(&mcst_id).is_some_and(|r| r.group().in_band);
        match self.leader_of(mcst_id).filter(|_| is_in_band) {
            Some(leader) => self.mrp.limits.lead(leader, mcst_id),
            None => self.mrp.limits.forget(mcst_id),
        }
    }

    /// The packets that a group of all hosts, with a region each, takes.
    fn most_packets(&self) -> usize {
        (NODES_OF_LONGEST * self.topology.hosts().len()).div_ceil(MAX_NODES - NODES_OF_LONGEST) + 1
    }

    /// Forgets registrations whose leaders have gone silent.
    pub(super) fn mrp_timeout(&mut self, now: u64) {
        while let Some(mcst_id) = self.mrp.deadlines.pop_due(now) {
            self.mrp_fail(now, mcst_id, Refusal::Busy);
        }
        self.invitation_timeout(now);
    }

    /// A host sends in its own name; between switches go only packets of registrations that agents have begun.
    fn is_from_right_place(&self, switch: SwitchIndex, port: u32, received: &Received) -> bool {
        let range = self.config.group_range;
        let leader = self.leader_of(received.destination);
        range.may_be_group(received.destination)
            && match self.topology.behind(switch, port).map(|n| n.peer.node) {
                Some(Place::Host(host)) => self.topology.host(host).ip == received.source,
                Some(Place::Switch(_)) => leader == Some(received.source),
                None => false,
            }
    }

    fn host_behind(&self, switch: SwitchIndex, port: u32) -> Option<HostIndex> {
        match self.topology.behind(switch, port)?.peer.node {
            Place::Host(host) => Some(host),
            Place::Switch(_) => None,
        }
    }

    fn is_leader(&self, received: &Received) -> bool {
        self.leader_of(received.destination) == Some(received.source)
    }

    /// Whoever may send may find that nothing is acknowledged, whether it leads the group or not.
    fn may_be_source(&self, received: &Received) -> bool {
        let group = self.groups.get(&received.destination).map(|r| r.group());
        let mut members = group.into_iter().flat_map(|group| &group.members);
        members.any(|m| m.spec.ip == received.source && m.spec.may_send)
    }

    fn leader_of(&self, mcst_id: Ipv4Addr) -> Option<Ipv4Addr> {
        let registration = self.groups.get(&mcst_id)?;
        match registration.growth() {
            Some(growth) => Some(growth.leader),
            None => registration.group().members.first().map(|m| m.spec.ip),
        }
    }

    fn mrp_register(&mut self, now: u64, switch: SwitchIndex, port: u32, received: &Received) {
        let (leader, mcst_id) = (received.source, received.destination);
        match self.groups.get(&mcst_id) {
            None => {}
            Some(_) if self.leader_of(mcst_id) != Some(leader) => {
                return self.mrp_refuse(mcst_id, leader, Refusal::Taken);
            }
            Some(registration) if registration.is_ready() => {
                return self.mrp_repeat(mcst_id, &received.packet);
            }
            Some(registration) => match registration.growth() {
                Some(growth) if growth.refusal.is_none() => {}
                // Being removed, or made through the control service: the leader will ask again.
                _ => return,
            },
        }
        let is_from_host = self.host_behind(switch, port).is_some();
        let begun_by = self.mrp.agents.get(&(mcst_id, switch)).map(|a| a.leader);
        if begun_by.is_some_and(|other| other != leader) {
            if is_from_host {
                // Its packets must not end up in the other's tree, nor end it.
                return self.mrp_refuse(mcst_id, leader, Refusal::Taken);
            }
            // The group is another host's already: what was begun here comes to nothing.
            self.mrp.agents.remove(&(mcst_id, switch));
        }
        let is_known = begun_by == Some(leader);
        if !is_known && is_from_host {
            let limit = self.config.groups_per_host;
            if !self.mrp.limits.may_lead(leader, mcst_id, limit) {
                return self.mrp_refuse(mcst_id, leader, Refusal::TooMany);
            }
            if usize::from(received.packet.total) > self.most_packets() {
                return self.mrp_refuse(mcst_id, leader, Refusal::BadNodes);
            }
            self.mrp.limits.lead(leader, mcst_id);
        }
        let deadline = now + self.config.mrp_timeout_ns;
        let key = (mcst_id, switch);
        let fresh = || Agent::new(leader, port, &received.packet);
        let agent = self.mrp.agents.entry(key).or_insert_with(fresh);
        if agent.port != port {
            // Two ways lead here: what grows is no tree.
            return self.mrp_fail(now, mcst_id, Refusal::Loop);
        }
        match agent.take(&received.packet) {
            Part::Strange if matches!(agent.stage, Stage::Gathering) => {
                // A leader that has started anew.
                let mut agent = Agent::new(leader, port, &received.packet);
                let is_whole = agent.take(&received.packet) == Part::Last;
                self.mrp.agents.insert(key, agent);
                self.mrp.stats.accepted += 1;
                self.mrp.deadlines.set(mcst_id, deadline);
                if is_whole {
                    self.mrp_build(now, switch, mcst_id);
                }
            }
            Part::Strange => self.mrp.stats.wrong += 1,
            Part::Again => {
                self.mrp.stats.repeated += 1;
                let (is_done, is_inviting) =
                    (agent.is_done(), matches!(agent.stage, Stage::Inviting));
                let named = received.packet.members().map(|node| node.ip);
                let named: BTreeSet<Ipv4Addr> = named.collect();
                let matters = |node: &Node| named.contains(&node.ip);
                if is_done {
                    self.mrp_pass_on(switch, mcst_id, matters);
                } else if is_inviting {
                    self.invite_locals(switch, mcst_id, matters);
                }
            }
            Part::New => {
                self.mrp.stats.accepted += 1;
                self.mrp.deadlines.set(mcst_id, deadline);
            }
            Part::Last => {
                self.mrp.stats.accepted += 1;
                self.mrp.deadlines.set(mcst_id, deadline);
                self.mrp_build(now, switch, mcst_id);
            }
        }
    }

    /// A group in use is registered again: members whose confirmations may be lost get theirs once more.
    fn mrp_repeat(&mut self, mcst_id: Ipv4Addr, packet: &Repr) {
        let Some(registration) = self.groups.get(&mcst_id) else {
            return;
        };
        let group = registration.group();
        let leader = group.members.first().map(|m| m.spec.ip);
        let is_member = |node: &Node| {
            let mut members = group.members.iter();
            members.any(|m| is_same(&m.spec, node))
        };
        let Some(leader) = leader else { return };
        let own = Node::group(mcst_id, group.virtual_qpn);
        let is_same_group = packet.group().is_none_or(|named| *named == own)
            && packet.initial_psn == group.initial_psn;
        if !is_same_group || !packet.members().all(is_member) {
            return self.mrp_refuse(mcst_id, leader, Refusal::Taken);
        }
        self.mrp.stats.repeated += 1;
        let others = packet.members().filter(|node| node.ip != leader);
        let frames: Vec<_> = others
            .filter_map(|node| {
                let host = self.topology.host_with_ip(node.ip)?;
                let psn = packet.initial_psn;
                let frame = self.mrp_member_frame(Kind::Register, mcst_id, leader, psn, node);
                Some((self.topology.attachment(host), frame))
            })
            .collect();
        for ((switch, port), frame) in frames {
            self.send_frame(switch, port, frame);
        }
    }

    fn mrp_deregister(&mut self, now: u64, received: &Received) {
        let (leader, mcst_id) = (received.source, received.destination);
        self.mrp.stats.accepted += 1;
        match self.groups.get(&mcst_id) {
            None => {
                self.mrp.give_up_of(mcst_id, leader);
                self.mrp_answer(mcst_id, leader, Kind::Confirm, 0);
            }
            Some(_) if self.leader_of(mcst_id) != Some(leader) => {
                self.mrp_refuse(mcst_id, leader, Refusal::NoSuchGroup);
            }
            Some(registration) if registration.is_at_rest() => {
                self.remove(now, mcst_id, Reason::Dissolved(leader));
            }
            Some(registration) if registration.growth().is_some() => {
                self.mrp_fail(now, mcst_id, Refusal::NoSuchGroup);
            }
            // Under way already; the leader will ask again.
            Some(_) => {}
        }
    }

    fn mrp_join(&mut self, now: u64, received: &Received) {
        let (leader, mcst_id) = (received.source, received.destination);
        self.mrp.stats.accepted += 1;
        let nodes: Vec<Node> = received.packet.members().copied().collect();
        let (Some(registration), [node]) = (self.groups.get(&mcst_id), &nodes[..]) else {
            return self.mrp_refuse(mcst_id, leader, Refusal::NoSuchGroup);
        };
        if self.leader_of(mcst_id) != Some(leader) {
            return self.mrp_refuse(mcst_id, leader, Refusal::NoSuchGroup);
        }
        if !registration.is_at_rest() {
            // Perhaps with this very request; the leader will ask again.
            return;
        }
        let mut members = registration.group().members.iter();
        match members.find(|m| m.spec.ip == node.ip).copied() {
            Some(member) if is_same(&member.spec, node) => {
                self.mrp.stats.repeated += 1;
                let first = registration.group().initial_psn;
                let psn = registration.joined_at(node.ip).unwrap_or(first);
                self.tell_joined(mcst_id, &member, psn);
            }
            _ => {
                if node.region.is_some_and(|region| !region.is_aligned()) {
                    return self.mrp_refuse(mcst_id, leader, Refusal::BadRegion);
                }
                let spec = frame::member_spec(node);
                self.invite_to_join(now, Origin::Leader(leader), mcst_id, spec);
            }
        }
    }

    fn mrp_leave(&mut self, now: u64, received: &Received) {
        let (leader, mcst_id) = (received.source, received.destination);
        self.mrp.stats.accepted += 1;
        let registration = self.groups.get(&mcst_id);
        let Some(registration) = registration.filter(|_| self.leader_of(mcst_id) == Some(leader))
        else {
            return self.mrp_refuse(mcst_id, leader, Refusal::NoSuchGroup);
        };
        if !registration.is_at_rest() {
            return;
        }
        let members = &registration.group().members;
        let is_member = |ip: &Ipv4Addr| members.iter().any(|m| m.spec.ip == *ip);
        let named = received.packet.members().map(|node| node.ip);
        let leaving: Vec<Ipv4Addr> = named.filter(is_member).collect();
        match leaving.is_empty() {
            true => self.mrp_answer(mcst_id, leader, Kind::Confirm, 0),
            false => self.leave(now, Origin::Leader(leader), mcst_id, leaving),
        }
    }
}
