//! In-band registration: agents, one per switch, process the registration packets that switches pass to the controller.
//!
//! An agent works like the switches of Cepheus (section III-C) and Gleam's algorithm 4. From the nodes of its packets alone,
//! it chooses a port for each node, writes its own switch's tables, and then sends each neighbour the nodes reached through
//! it. Member hosts get a packet with their own node and that of the group, and confirm to the leader. The tree policy
//! chooses the ports, so that a group is the same as one registered through the control service.
//!
//! The first agent invites all members before anything is written to switches (`claim.rs`, `agreement.rs`).
//!
//! Hosts retransmit packets without confirmation, so any packet may be lost. A repeated packet only causes the packets to
//! neighbours to be repeated. A failure ends with a refusal to the leader, and all parts are undone.

mod agent;
mod agreement;
mod build;
mod claim;
pub(super) mod frame;
mod growth;
mod limits;
mod transmit;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind, Node, Refusal, Repr, MAX_NODES};

use super::change::Origin;
use super::creation::Creation;
use super::event::MemberSpec;
use super::procedure::Run;
use super::removal::Reason;
use super::status::MrpStats;
use super::timers::Timers;
use super::Controller;
use crate::topology::{HostIndex, Node as TopologyNode, SwitchIndex};
use agent::{Agent, PacketKind, Stage};
use agreement::Invitations;
use claim::{Claim, ClaimKey, MAX_CLAIMS};
use frame::Received;
pub(super) use growth::Growth;
use limits::{Limits, Verdict};

/// Number of records that a node with a memory region, the longest kind of node, occupies in a registration packet.
const NODES_OF_LONGEST: usize = 3;

/// Pending registrations in band, and counters of their packets.
#[derive(Debug, Default)]
pub(super) struct Mrp {
    /// Registrations that not all members have agreed to, so that no group is created yet.
    claims: BTreeMap<ClaimKey, Claim>,
    /// Time at which each claim expires.
    claim_deadlines: Timers<ClaimKey>,
    agents: BTreeMap<(Ipv4Addr, SwitchIndex), Agent>,
    /// Time at which each unfinished registration is refused, by group address.
    deadlines: Timers<Ipv4Addr>,
    pub(super) invitations: Invitations,
    limits: Limits,
    stats: MrpStats,
}

impl Mrp {
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let all = [
            self.deadlines.first(),
            self.claim_deadlines.first(),
            self.invitations.poll_timeout(),
        ];
        all.into_iter().flatten().min()
    }

    /// Yields the agents that create a group, each with its switch.
    fn agents_of(&self, mcst_id: Ipv4Addr) -> impl Iterator<Item = (SwitchIndex, &Agent)> {
        let all = (mcst_id, SwitchIndex(0))..=(mcst_id, SwitchIndex(usize::MAX));
        self.agents
            .range(all)
            .map(|((_, switch), agent)| (*switch, agent))
    }

    /// Procedure by which an agent creates its switch's part of a group; `None` before it has begun.
    pub(super) fn creation(
        &self,
        mcst_id: Ipv4Addr,
        switch: SwitchIndex,
    ) -> Option<&Run<Creation>> {
        match &self.agents.get(&(mcst_id, switch))?.stage {
            Stage::Creation(run) => Some(run),
            Stage::Gathering => None,
        }
    }

    pub(super) fn creation_mut(
        &mut self,
        mcst_id: Ipv4Addr,
        switch: SwitchIndex,
    ) -> Option<&mut Run<Creation>> {
        match &mut self.agents.get_mut(&(mcst_id, switch))?.stage {
            Stage::Creation(run) => Some(run),
            Stage::Gathering => None,
        }
    }

    /// Removes the agents of a group, and returns the switches that may have leftover state.
    fn discard(&mut self, mcst_id: Ipv4Addr) -> BTreeSet<SwitchIndex> {
        let mut possible_leftovers = BTreeSet::new();
        for switch in self.switches_of(mcst_id) {
            let agent = self.agents.remove(&(mcst_id, switch));
            if let Some(Stage::Creation(run)) = agent.map(|agent| agent.stage) {
                possible_leftovers.extend(run.into_outcome().1.possible_leftovers);
            }
        }
        self.deadlines.clear(mcst_id);
        possible_leftovers
    }

    /// Removes the agents of a group that have not begun to write, and returns the switches of the others.
    fn stop(&mut self, mcst_id: Ipv4Addr) -> Vec<SwitchIndex> {
        let mut begun = Vec::new();
        for switch in self.switches_of(mcst_id) {
            if self.creation(mcst_id, switch).is_some() {
                begun.push(switch);
            } else {
                self.agents.remove(&(mcst_id, switch));
            }
        }
        begun
    }

    fn switches_of(&self, mcst_id: Ipv4Addr) -> Vec<SwitchIndex> {
        self.agents_of(mcst_id).map(|(switch, _)| switch).collect()
    }

    /// Removes a registration that not all members have agreed to yet, and returns it.
    fn drop_claim(&mut self, key: ClaimKey) -> Option<Claim> {
        self.claim_deadlines.clear(key);
        self.limits.unclaim(key);
        self.claims.remove(&key)
    }

    /// Removes the agents and the recorded leader of a registration for which no group was created.
    fn discard_registration(&mut self, mcst_id: Ipv4Addr) {
        self.discard(mcst_id);
        self.limits.discard(mcst_id);
    }
}

/// Whether a node of a registration packet describes the member `spec`. Lengths of memory regions are not compared, because
/// the tables of switches do not contain them.
fn is_same(spec: &MemberSpec, node: &Node) -> bool {
    let place = |spec: &MemberSpec| spec.region.map(|region| (region.va, region.rkey));
    let named = frame::member_spec(node);
    spec.ip == named.ip && spec.qpn == named.qpn && place(spec) == place(&named)
}

impl Controller {
    /// Counters of registration packets.
    pub fn mrp_stats(&self) -> MrpStats {
        self.mrp.stats
    }

    /// Number of registrations in band that have not ended, and the number of member entries (nodes) that they store.
    #[cfg(test)]
    pub(super) fn claimed_in_band(&self) -> (usize, usize) {
        let nodes = self
            .mrp
            .claims
            .values()
            .map(|claim| claim.agent.node_count());
        (self.mrp.claims.len(), nodes.sum())
    }

    /// Processes a registration packet or marker that a switch received at `port` and passed to the controller.
    pub(super) fn mrp_frame(&mut self, now: u64, switch: SwitchIndex, port: u32, frame: &[u8]) {
        if !self.switches[switch.0].boot.is_ready() {
            // The host will retransmit it.
            return;
        }
        let is_from_host = self.host_at_port(switch, port).is_some();
        let verdict = match is_from_host {
            true => self.pace(now, switch, port),
            // Packets from other switches are sent by their agents.
            false => Verdict::Process,
        };
        if verdict == Verdict::Drop {
            return;
        }
        let received = frame::parse(frame);
        if let Some(marker) = received
            .as_ref()
            .filter(|r| !is_from_host && self.is_marker(r))
        {
            return self.marker_received(now, (switch, port), marker.packet.initial_psn);
        }
        let Some(received) = received.filter(|r| self.is_from_permitted_port(switch, port, r))
        else {
            self.mrp.stats.wrong += 1;
            return;
        };
        if verdict == Verdict::Refuse {
            let (mcst_id, host) = (received.destination, received.source);
            return self.mrp_refuse(mcst_id, host, Refusal::TooFast);
        }
        if is_from_host && self.is_leader(&received) {
            self.renew_lease(now, received.destination);
        }
        match received.packet.kind {
            Kind::Register => self.mrp_register(now, switch, port, &received),
            Kind::Deregister if is_from_host => self.mrp_deregister(now, &received),
            Kind::Join if is_from_host => self.mrp_join(now, &received),
            Kind::Leave if is_from_host => self.mrp_leave(now, &received),
            Kind::Agree if is_from_host => self.mrp_agree(now, &received),
            Kind::Stalled if is_from_host && self.may_be_source(&received) => {
                self.mrp.stats.accepted += 1;
                let (mcst_id, member) = (received.destination, received.source);
                self.member_reports_stall(now, mcst_id, member);
                self.watch(now, mcst_id);
            }
            Kind::Alive if is_from_host && self.is_leader(&received) => {
                self.mrp.stats.accepted += 1;
            }
            _ => self.mrp.stats.wrong += 1,
        }
    }

    /// Verdict of the rate limit on a packet of a host.
    fn pace(&mut self, now: u64, switch: SwitchIndex, port: u32) -> Verdict {
        let rate = self.config.mrp_rate;
        let verdict = self.mrp.limits.admit(now, (switch, port), rate);
        self.mrp.stats.limited += u64::from(verdict != Verdict::Process);
        verdict
    }

    /// Records the current leader of a group registered in band, for the limit of groups per host.
    pub(super) fn note_leader(&mut self, mcst_id: Ipv4Addr) {
        let is_in_band = self
            .groups
            .get(&mcst_id)
            .is_some_and(|r| r.group().is_in_band);
        match self.leader_of(mcst_id).filter(|_| is_in_band) {
            Some(leader) => self.mrp.limits.lead(leader, mcst_id),
            None => self.mrp.limits.discard(mcst_id),
        }
    }

    /// Maximum number of packets of one registration: enough for all hosts of the topology, each with a memory region.
    fn max_packets(&self) -> usize {
        (NODES_OF_LONGEST * self.topology.hosts().len()).div_ceil(MAX_NODES - NODES_OF_LONGEST) + 1
    }

    /// Refuses registrations whose deadline has passed, and processes the deadlines of claims and invitations.
    pub(super) fn mrp_timeout(&mut self, now: u64) {
        while let Some(mcst_id) = self.mrp.deadlines.pop_due(now) {
            self.mrp_fail(now, mcst_id, Refusal::Busy);
        }
        self.claim_timeout(now);
        self.invitation_timeout(now);
    }

    /// Whether a packet came in at a permitted port: from a host with its own source address, or from another switch with
    /// the address of the group's leader.
    fn is_from_permitted_port(&self, switch: SwitchIndex, port: u32, received: &Received) -> bool {
        let range = self.config.group_range;
        let leader = self.leader_of(received.destination);
        range.may_be_group(received.destination)
            && match self
                .topology
                .neighbour_at(switch, port)
                .map(|n| n.peer.node)
            {
                Some(TopologyNode::Host(host)) => self.topology.host(host).ip == received.source,
                Some(TopologyNode::Switch(_)) => leader == Some(received.source),
                None => false,
            }
    }

    fn host_at_port(&self, switch: SwitchIndex, port: u32) -> Option<HostIndex> {
        match self.topology.neighbour_at(switch, port)?.peer.node {
            TopologyNode::Host(host) => Some(host),
            TopologyNode::Switch(_) => None,
        }
    }

    fn is_leader(&self, received: &Received) -> bool {
        self.leader_of(received.destination) == Some(received.source)
    }

    /// Whether a packet is from a member that may be the source. Such a member may report that there is no progress.
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
                return self.mrp_repeat(now, mcst_id, &received.packet);
            }
            Some(registration) => match registration.growth() {
                Some(growth) if growth.refusal.is_none() => {}
                // Being removed, or created through the control service: the leader will retransmit.
                _ => return,
            },
        }
        if self.host_at_port(switch, port).is_some() && !self.groups.contains_key(&mcst_id) {
            return self.mrp_claim(now, switch, port, received);
        }
        if usize::from(received.packet.total) > self.max_packets() {
            self.mrp.stats.wrong += 1;
            return;
        }
        let deadline = now + self.config.mrp_timeout_ns;
        let interval = self.config.mrp_repeat_ns;
        let key = (mcst_id, switch);
        let fresh = || Agent::new(leader, port, &received.packet);
        let agent = self.mrp.agents.entry(key).or_insert_with(fresh);
        if agent.port != port {
            // The switch is reached by two paths: there is a loop.
            return self.mrp_fail(now, mcst_id, Refusal::Loop);
        }
        match agent.add_packet(&received.packet) {
            PacketKind::Foreign => self.mrp.stats.wrong += 1,
            PacketKind::Repeated => {
                self.mrp.stats.repeated += 1;
                let seq = received.packet.seq;
                if agent.is_done() && agent.may_repeat(now, seq, interval) {
                    let named = received.packet.members().map(|node| node.ip);
                    let named: BTreeSet<Ipv4Addr> = named.collect();
                    self.mrp_forward(switch, mcst_id, |node| named.contains(&node.ip));
                }
            }
            PacketKind::New => {
                self.mrp.stats.accepted += 1;
                self.mrp.deadlines.set(mcst_id, deadline);
            }
            PacketKind::Last => {
                self.mrp.stats.accepted += 1;
                self.mrp.deadlines.set(mcst_id, deadline);
                self.mrp_build(now, switch, mcst_id);
            }
        }
    }

    /// Processes a registration packet of a host, which begins or continues a claim.
    fn mrp_claim(&mut self, now: u64, switch: SwitchIndex, port: u32, received: &Received) {
        let (leader, mcst_id) = (received.source, received.destination);
        let packet = &received.packet;
        let key = (mcst_id, leader);
        if usize::from(packet.total) > self.max_packets() {
            self.mrp.drop_claim(key);
            return self.mrp_refuse(mcst_id, leader, Refusal::BadNodes);
        }
        if !self.mrp.claims.contains_key(&key) {
            let limit = self.config.groups_per_host;
            if !self.mrp.limits.may_claim(key, limit, MAX_CLAIMS) {
                return self.mrp_refuse(mcst_id, leader, Refusal::TooMany);
            }
            self.mrp.limits.claim(key);
        }
        let most_nodes = self.topology.hosts().len() + 1;
        let deadline = now + self.config.mrp_timeout_ns;
        let fresh = || Claim::new(switch, Agent::new(leader, port, packet));
        let claim = self.mrp.claims.entry(key).or_insert_with(fresh);
        let mut part = claim.add_packet(packet, most_nodes);
        if part == Ok(PacketKind::Foreign) {
            // The leader has restarted.
            *claim = fresh();
            part = claim.add_packet(packet, most_nodes);
        }
        match part {
            Err(refusal) => {
                self.mrp.drop_claim(key);
                self.mrp_refuse(mcst_id, leader, refusal);
            }
            Ok(PacketKind::Foreign) => self.mrp.stats.wrong += 1,
            Ok(PacketKind::Repeated) => {
                self.mrp.stats.repeated += 1;
                let missing = claim.missing_members(packet);
                let interval = self.config.mrp_repeat_ns;
                if !missing.is_empty() && claim.agent.may_repeat(now, packet.seq, interval) {
                    self.invite(now, mcst_id, leader, &missing);
                }
            }
            Ok(PacketKind::New) => {
                self.mrp.stats.accepted += 1;
                self.mrp.claim_deadlines.set(key, deadline);
            }
            Ok(PacketKind::Last) => {
                self.mrp.stats.accepted += 1;
                self.claim_members(now, key);
            }
        }
    }

    /// Processes a repeated registration of a group in use: members get their packets again, as confirmations may be lost.
    fn mrp_repeat(&mut self, now: u64, mcst_id: Ipv4Addr, packet: &Repr) {
        let interval = self.config.mrp_repeat_ns;
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        let is_due = registration.may_repeat(now, packet.members().map(|n| n.ip), interval);
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
        let others = packet.members();
        let others = others.filter(|node| node.ip != leader && is_due.contains(&node.ip));
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
                self.mrp.drop_claim((mcst_id, leader));
                self.mrp_reply(mcst_id, leader, Kind::Confirm, 0);
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
            // Already in progress; the leader will retransmit.
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
            // The change may be this request; the leader will retransmit.
            return;
        }
        let mut members = registration.group().members.iter();
        match members.find(|m| m.spec.ip == node.ip).copied() {
            Some(member) if is_same(&member.spec, node) => {
                self.mrp.stats.repeated += 1;
                let first = registration.group().initial_psn;
                let psn = registration.initial_psn_of_joined(node.ip).unwrap_or(first);
                self.notify_joined(mcst_id, &member, psn);
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
            true => self.mrp_reply(mcst_id, leader, Kind::Confirm, 0),
            false => self.leave(now, Origin::Leader(leader), mcst_id, leaving),
        }
    }
}
