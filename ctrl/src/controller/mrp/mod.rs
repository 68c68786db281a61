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
pub(super) mod transmit;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind, Node, Refusal, Repr, MAX_NODES};

use super::change::Origin;
use super::command::Command;
use super::creation::Creation;
use super::event::MemberSpec;
use super::groups::Groups;
use super::links;
use super::network::Network;
use super::procedure::Run;
use super::removal::Reason;
use super::status::MrpStats;
use super::timers::Timers;
use crate::topology::{Node as TopologyNode, SwitchIndex, Topology};
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
    invitations: Invitations,
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

    /// Counters of registration packets.
    pub(super) fn stats(&self) -> MrpStats {
        self.stats
    }

    /// Number of registrations in band that have not ended, and the number of member entries (nodes) that they store.
    #[cfg(test)]
    pub(super) fn claimed_in_band(&self) -> (usize, usize) {
        let nodes = self.claims.values().map(|claim| claim.agent.node_count());
        (self.claims.len(), nodes.sum())
    }

    /// Processes a registration packet or marker that a switch received at `port` and passed to the controller.
    pub(super) fn frame(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &mut Groups,
        (switch, port): (SwitchIndex, u32),
        frame: &[u8],
    ) -> Vec<Command> {
        if !network.is_ready(switch) {
            // The host will retransmit it.
            return Vec::new();
        }
        let is_from_host = network.host_at_port(switch, port).is_some();
        let verdict = match is_from_host {
            true => self.pace(now, network, switch, port),
            // Packets from other switches are sent by their agents.
            false => Verdict::Process,
        };
        if verdict == Verdict::Drop {
            return Vec::new();
        }
        let received = frame::parse(frame);
        if let Some(marker) = received
            .as_ref()
            .filter(|r| !is_from_host && links::is_marker(network.config(), r))
        {
            let number = marker.packet.initial_psn;
            return vec![Command::MarkerReceived((switch, port), number)];
        }
        let is_permitted =
            |r: &Received| is_from_permitted_port(network, groups, (switch, port), r);
        let Some(received) = received.filter(is_permitted) else {
            self.stats.wrong += 1;
            return Vec::new();
        };
        let (mcst_id, sender) = (received.destination, received.source);
        if verdict == Verdict::Refuse {
            self.refuse(network, groups, mcst_id, sender, Refusal::TooFast);
            return Vec::new();
        }
        let is_from_leader = is_from_host && groups.leader_of(mcst_id) == Some(sender);
        let mut commands = Vec::new();
        if is_from_leader {
            commands.push(Command::RenewLease(mcst_id));
        }
        match received.packet.kind {
            Kind::Register => {
                let more = self.register(now, network, groups, (switch, port), &received);
                commands.extend(more);
            }
            Kind::Deregister if is_from_host => {
                commands.extend(self.deregister(network, groups, &received));
            }
            Kind::Join if is_from_host => commands.extend(self.join(network, groups, &received)),
            Kind::Leave if is_from_host => commands.extend(self.leave(network, groups, &received)),
            Kind::Agree if is_from_host => {
                commands.extend(self.agree(now, network, groups, &received));
            }
            Kind::Stalled if is_from_host && may_be_source(groups, &received) => {
                self.stats.accepted += 1;
                commands.push(Command::StallReported(mcst_id, sender));
                commands.push(Command::Watch(mcst_id));
            }
            Kind::Alive if is_from_leader => {
                self.stats.accepted += 1;
            }
            _ => self.stats.wrong += 1,
        }
        commands
    }

    /// Verdict of the rate limit on a packet of a host.
    fn pace(&mut self, now: u64, network: &Network, switch: SwitchIndex, port: u32) -> Verdict {
        let rate = network.config().mrp_rate;
        let verdict = self.limits.admit(now, (switch, port), rate);
        self.stats.limited += u64::from(verdict != Verdict::Process);
        verdict
    }

    /// Records the current leader of a group registered in band, for the limit of groups per host.
    pub(super) fn note_leader(&mut self, groups: &Groups, mcst_id: Ipv4Addr) {
        let is_in_band = groups.group(mcst_id).is_some_and(|group| group.is_in_band);
        match groups.leader_of(mcst_id).filter(|_| is_in_band) {
            Some(leader) => self.limits.lead(leader, mcst_id),
            None => self.limits.discard(mcst_id),
        }
    }

    /// Discards the invitations and the leader of a group that is removed.
    pub(super) fn discard_group(&mut self, groups: &Groups, mcst_id: Ipv4Addr) {
        self.invitations.discard(mcst_id);
        self.note_leader(groups, mcst_id);
    }

    /// Sends a refusal to the host that registers or changes a group in band.
    pub(super) fn refuse(
        &mut self,
        network: &mut Network,
        groups: &Groups,
        mcst_id: Ipv4Addr,
        leader: Ipv4Addr,
        refusal: Refusal,
    ) {
        self.stats.refused += 1;
        tracing::info!(%mcst_id, %leader, "registration refused: {refusal}");
        transmit::reply(
            network,
            groups,
            mcst_id,
            leader,
            Kind::Refuse,
            refusal.bits(),
        );
    }

    /// Commands that refuse the unfinished registrations whose deadline has passed.
    pub(super) fn registration_timeout(&mut self, now: u64) -> Vec<Command> {
        let due = std::iter::from_fn(|| self.deadlines.pop_due(now));
        due.map(|mcst_id| Command::FailGrowth(mcst_id, Refusal::Busy))
            .collect()
    }

    fn register(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &mut Groups,
        (switch, port): (SwitchIndex, u32),
        received: &Received,
    ) -> Vec<Command> {
        let (leader, mcst_id) = (received.source, received.destination);
        match groups.get(mcst_id) {
            None => {}
            Some(_) if groups.leader_of(mcst_id) != Some(leader) => {
                self.refuse(network, groups, mcst_id, leader, Refusal::Taken);
                return Vec::new();
            }
            Some(registration) if registration.is_ready() => {
                self.repeat(now, network, groups, mcst_id, &received.packet);
                return Vec::new();
            }
            Some(registration) => match registration.growth() {
                Some(growth) if growth.refusal.is_none() => {}
                // Being removed, or created through the control service: the leader will retransmit.
                _ => return Vec::new(),
            },
        }
        if network.host_at_port(switch, port).is_some() && !groups.contains(mcst_id) {
            self.claim(now, network, groups, (switch, port), received);
            return Vec::new();
        }
        if usize::from(received.packet.total) > max_packets(network.topology()) {
            self.stats.wrong += 1;
            return Vec::new();
        }
        let deadline = now + network.config().mrp_timeout_ns;
        let interval = network.config().mrp_repeat_ns;
        let key = (mcst_id, switch);
        let fresh = || Agent::new(leader, port, &received.packet);
        let agent = self.agents.entry(key).or_insert_with(fresh);
        if agent.port != port {
            // The switch is reached by two paths: there is a loop.
            return vec![Command::FailGrowth(mcst_id, Refusal::Loop)];
        }
        match agent.add_packet(&received.packet) {
            PacketKind::Foreign => self.stats.wrong += 1,
            PacketKind::Repeated => {
                self.stats.repeated += 1;
                let seq = received.packet.seq;
                if agent.is_done() && agent.may_repeat(now, seq, interval) {
                    let named = received.packet.members().map(|node| node.ip);
                    let named: BTreeSet<Ipv4Addr> = named.collect();
                    self.forward(network, groups, switch, mcst_id, |node| {
                        named.contains(&node.ip)
                    });
                }
            }
            PacketKind::New => {
                self.stats.accepted += 1;
                self.deadlines.set(mcst_id, deadline);
            }
            PacketKind::Last => {
                self.stats.accepted += 1;
                self.deadlines.set(mcst_id, deadline);
                return vec![self.build(network, groups, switch, mcst_id)];
            }
        }
        Vec::new()
    }

    /// Processes a registration packet of a host, which begins or continues a claim.
    fn claim(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &mut Groups,
        (switch, port): (SwitchIndex, u32),
        received: &Received,
    ) {
        let (leader, mcst_id) = (received.source, received.destination);
        let packet = &received.packet;
        let key = (mcst_id, leader);
        if usize::from(packet.total) > max_packets(network.topology()) {
            self.drop_claim(key);
            return self.refuse(network, groups, mcst_id, leader, Refusal::BadNodes);
        }
        if !self.claims.contains_key(&key) {
            let limit = network.config().groups_per_host;
            if !self.limits.may_claim(key, limit, MAX_CLAIMS) {
                return self.refuse(network, groups, mcst_id, leader, Refusal::TooMany);
            }
            self.limits.claim(key);
        }
        let most_nodes = network.topology().hosts().len() + 1;
        let deadline = now + network.config().mrp_timeout_ns;
        let fresh = || Claim::new(switch, Agent::new(leader, port, packet));
        let claim = self.claims.entry(key).or_insert_with(fresh);
        let mut part = claim.add_packet(packet, most_nodes);
        if part == Ok(PacketKind::Foreign) {
            // The leader has restarted.
            *claim = fresh();
            part = claim.add_packet(packet, most_nodes);
        }
        match part {
            Err(refusal) => {
                self.drop_claim(key);
                self.refuse(network, groups, mcst_id, leader, refusal);
            }
            Ok(PacketKind::Foreign) => self.stats.wrong += 1,
            Ok(PacketKind::Repeated) => {
                self.stats.repeated += 1;
                let missing = claim.missing_members(packet);
                let interval = network.config().mrp_repeat_ns;
                if !missing.is_empty() && claim.agent.may_repeat(now, packet.seq, interval) {
                    self.invite(now, network, groups, mcst_id, leader, &missing);
                }
            }
            Ok(PacketKind::New) => {
                self.stats.accepted += 1;
                self.claim_deadlines.set(key, deadline);
            }
            Ok(PacketKind::Last) => {
                self.stats.accepted += 1;
                self.claim_members(now, network, groups, key);
            }
        }
    }

    /// Processes a repeated registration of a group in use: members get their packets again, as confirmations may be lost.
    fn repeat(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &mut Groups,
        mcst_id: Ipv4Addr,
        packet: &Repr,
    ) {
        let interval = network.config().mrp_repeat_ns;
        let Some(registration) = groups.get_mut(mcst_id) else {
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
            return self.refuse(network, groups, mcst_id, leader, Refusal::Taken);
        }
        self.stats.repeated += 1;
        let others = packet.members();
        let others = others.filter(|node| node.ip != leader && is_due.contains(&node.ip));
        let frames: Vec<_> = others
            .filter_map(|node| {
                let host = network.topology().host_with_ip(node.ip)?;
                let psn = packet.initial_psn;
                let topology = network.topology();
                let frame = transmit::member_frame(topology, leader, psn, node, own);
                Some((network.topology().attachment(host), frame))
            })
            .collect();
        for ((switch, port), frame) in frames {
            network.send_frame(switch, port, frame);
        }
    }

    fn deregister(
        &mut self,
        network: &mut Network,
        groups: &Groups,
        received: &Received,
    ) -> Option<Command> {
        let (leader, mcst_id) = (received.source, received.destination);
        self.stats.accepted += 1;
        match groups.get(mcst_id) {
            None => {
                self.drop_claim((mcst_id, leader));
                transmit::reply(network, groups, mcst_id, leader, Kind::Confirm, 0);
                None
            }
            Some(_) if groups.leader_of(mcst_id) != Some(leader) => {
                self.refuse(network, groups, mcst_id, leader, Refusal::NoSuchGroup);
                None
            }
            Some(registration) if registration.is_at_rest() => {
                Some(Command::Remove(mcst_id, Reason::Dissolved(leader)))
            }
            Some(registration) if registration.growth().is_some() => {
                Some(Command::FailGrowth(mcst_id, Refusal::NoSuchGroup))
            }
            // Already in progress; the leader will retransmit.
            Some(_) => None,
        }
    }

    fn join(
        &mut self,
        network: &mut Network,
        groups: &Groups,
        received: &Received,
    ) -> Option<Command> {
        let (leader, mcst_id) = (received.source, received.destination);
        self.stats.accepted += 1;
        let nodes: Vec<Node> = received.packet.members().copied().collect();
        let (Some(registration), [node]) = (groups.get(mcst_id), &nodes[..]) else {
            self.refuse(network, groups, mcst_id, leader, Refusal::NoSuchGroup);
            return None;
        };
        if groups.leader_of(mcst_id) != Some(leader) {
            self.refuse(network, groups, mcst_id, leader, Refusal::NoSuchGroup);
            return None;
        }
        if !registration.is_at_rest() {
            // The change may be this request; the leader will retransmit.
            return None;
        }
        let mut members = registration.group().members.iter();
        match members.find(|m| m.spec.ip == node.ip).copied() {
            Some(member) if is_same(&member.spec, node) => {
                self.stats.repeated += 1;
                let first = registration.group().initial_psn;
                let psn = registration.initial_psn_of_joined(node.ip).unwrap_or(first);
                transmit::notify_joined(network, groups, mcst_id, &member, psn);
                None
            }
            _ => {
                if node.region.is_some_and(|region| !region.is_aligned()) {
                    self.refuse(network, groups, mcst_id, leader, Refusal::BadRegion);
                    return None;
                }
                let spec = frame::member_spec(node);
                Some(Command::InviteToJoin(Origin::Leader(leader), mcst_id, spec))
            }
        }
    }

    fn leave(
        &mut self,
        network: &mut Network,
        groups: &Groups,
        received: &Received,
    ) -> Option<Command> {
        let (leader, mcst_id) = (received.source, received.destination);
        self.stats.accepted += 1;
        let registration = groups.get(mcst_id);
        let Some(registration) = registration.filter(|_| groups.leader_of(mcst_id) == Some(leader))
        else {
            self.refuse(network, groups, mcst_id, leader, Refusal::NoSuchGroup);
            return None;
        };
        if !registration.is_at_rest() {
            return None;
        }
        let members = &registration.group().members;
        let is_member = |ip: &Ipv4Addr| members.iter().any(|m| m.spec.ip == *ip);
        let named = received.packet.members().map(|node| node.ip);
        let leaving: Vec<Ipv4Addr> = named.filter(is_member).collect();
        match leaving.is_empty() {
            true => {
                transmit::reply(network, groups, mcst_id, leader, Kind::Confirm, 0);
                None
            }
            false => Some(Command::Leave(Origin::Leader(leader), mcst_id, leaving)),
        }
    }
}

/// Maximum number of packets of one registration: enough for all hosts of the topology, each with a memory region.
fn max_packets(topology: &Topology) -> usize {
    (NODES_OF_LONGEST * topology.hosts().len()).div_ceil(MAX_NODES - NODES_OF_LONGEST) + 1
}

/// Whether a packet came in at a permitted port: from a host with its own source address, or from another switch with the
/// address of the group's leader.
fn is_from_permitted_port(
    network: &Network,
    groups: &Groups,
    (switch, port): (SwitchIndex, u32),
    received: &Received,
) -> bool {
    let topology = network.topology();
    let leader = groups.leader_of(received.destination);
    network
        .config()
        .group_range
        .may_be_group(received.destination)
        && match topology.neighbour_at(switch, port).map(|n| n.peer.node) {
            Some(TopologyNode::Host(host)) => topology.host(host).ip == received.source,
            Some(TopologyNode::Switch(_)) => leader == Some(received.source),
            None => false,
        }
}

/// Whether a packet is from a member that may be the source. Such a member may report that there is no progress.
fn may_be_source(groups: &Groups, received: &Received) -> bool {
    let group = groups.group(received.destination);
    let mut members = group.into_iter().flat_map(|group| &group.members);
    members.any(|m| m.spec.ip == received.source && m.spec.may_send)
}

/// Whether a node of a registration packet describes the member `spec`. Lengths of memory regions are not compared, because
/// the tables of switches do not contain them.
fn is_same(spec: &MemberSpec, node: &Node) -> bool {
    let place = |spec: &MemberSpec| spec.region.map(|region| (region.va, region.rkey));
    let named = frame::member_spec(node);
    spec.ip == named.ip && spec.qpn == named.qpn && place(spec) == place(&named)
}
