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
pub(super) mod frame;
mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind, Node, Refusal, Repr, MAX_NODES};
use alfirk_roce::wire::{Psn, QpNum};

use super::change::Origin;
use super::error::SwitchError;
use super::event::MemberSpec;
use super::group::{Group, GroupMember, OnSwitch};
use super::registration::Registration;
use super::session::{Task, TaskId};
use super::{ApiReply, Controller, Owner};
use crate::constants::VIRTUAL_MAC;
use crate::topology::{HostIndex, Node as Place, SwitchIndex};
use crate::tree::{Policy, Tree, View};
use agent::{Agent, Part, Stage};
use frame::Received;
use limits::{Limits, Verdict};

/// Records that a node with a region takes.
const NODES_OF_LONGEST: usize = 3;

/// Registrations under way, and counters.
#[derive(Debug, Default)]
pub(super) struct Mrp {
    agents: BTreeMap<(SwitchIndex, Ipv4Addr), Agent>,
    /// When a registration that makes no progress is forgotten.
    deadlines: BTreeMap<Ipv4Addr, u64>,
    limits: Limits,
    stats: MrpStats,
}

/// Registration packets that switches handed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MrpStats {
    /// Taken in.
    pub accepted: u64,
    /// Came before.
    pub repeated: u64,
    /// Damaged, from the wrong place, or meaningless: ignored.
    pub wrong: u64,
    /// Answered with a refusal.
    pub refused: u64,
    /// Of hosts that send faster than they may: dropped.
    pub limited: u64,
}

/// A group that agents are making.
#[derive(Debug)]
pub(super) struct Growth {
    leader: Ipv4Addr,
    /// Members that the leader has named.
    expected: usize,
    /// Why it is to be undone.
    refusal: Option<Refusal>,
}

/// A switch's choice: nodes by port, and the members that hang from the switch.
type Local = (BTreeMap<u32, Vec<Node>>, Vec<GroupMember>);

impl Mrp {
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.deadlines.values().min().copied()
    }

    fn forget(&mut self, mcst_id: Ipv4Addr) {
        self.agents.retain(|(_, agent_of), _| *agent_of != mcst_id);
        self.deadlines.remove(&mcst_id);
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
            Kind::Stalled if is_from_host && self.is_leader(&received) => {
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

    /// Notes who leads a group, or that it has no leader any more.
    pub(super) fn note_leader(&mut self, mcst_id: Ipv4Addr) {
        match self.leader_of(mcst_id) {
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
        let due = self.mrp.deadlines.iter().filter(|(_, at)| **at <= now);
        let due: Vec<Ipv4Addr> = due.map(|(mcst_id, _)| *mcst_id).collect();
        for mcst_id in due {
            self.mrp_fail(now, mcst_id, Refusal::Busy);
        }
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
        let is_known = self.mrp.agents.contains_key(&(switch, mcst_id));
        if !is_known && self.host_behind(switch, port).is_some() {
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
        let key = (switch, mcst_id);
        let fresh = || Agent::new(leader, port, &received.packet);
        let agent = self.mrp.agents.entry(key).or_insert_with(fresh);
        if agent.port != port {
            // Two ways lead here: what grows is no tree.
            return self.mrp_fail(now, mcst_id, Refusal::Loop);
        }
        match agent.take(&received.packet) {
            Part::Strange if agent.stage == Stage::Gathering && agent.leader == leader => {
                // A leader that has started anew.
                let mut agent = Agent::new(leader, port, &received.packet);
                let is_whole = agent.take(&received.packet) == Part::Last;
                self.mrp.agents.insert(key, agent);
                self.mrp.stats.accepted += 1;
                self.mrp.deadlines.insert(mcst_id, deadline);
                if is_whole {
                    self.mrp_build(now, switch, mcst_id);
                }
            }
            Part::Strange => self.mrp.stats.wrong += 1,
            Part::Again => {
                self.mrp.stats.repeated += 1;
                if agent.stage == Stage::Done {
                    let named = received.packet.members().map(|node| node.ip);
                    let named: BTreeSet<Ipv4Addr> = named.collect();
                    self.mrp_pass_on(switch, mcst_id, |node| named.contains(&node.ip));
                }
            }
            Part::New => {
                self.mrp.stats.accepted += 1;
                self.mrp.deadlines.insert(mcst_id, deadline);
            }
            Part::Last => {
                self.mrp.stats.accepted += 1;
                self.mrp.deadlines.insert(mcst_id, deadline);
                self.mrp_build(now, switch, mcst_id);
            }
        }
    }

    /// All packets are there: makes the switch's part of the group.
    fn mrp_build(&mut self, now: u64, switch: SwitchIndex, mcst_id: Ipv4Addr) {
        match self.mrp_plan(switch, mcst_id) {
            Ok(()) => self.mrp_stage(now, switch, mcst_id, Stage::Registers),
            Err(refusal) => self.mrp_fail(now, mcst_id, refusal),
        }
    }

    fn mrp_plan(&mut self, switch: SwitchIndex, mcst_id: Ipv4Addr) -> Result<(), Refusal> {
        let Some(agent) = self.mrp.agents.get(&(switch, mcst_id)) else {
            return Ok(());
        };
        let (routed, members) = self.mrp_choose(switch, agent)?;
        let (leader, initial_psn) = (agent.leader, agent.initial_psn);
        let expected = agent.nodes().count();
        let mut ports: BTreeSet<u32> = routed.keys().copied().collect();
        ports.insert(agent.port);
        if !self.groups.contains_key(&mcst_id) {
            let named = agent.group().filter(|node| node.ip == mcst_id);
            let wanted = named.ok_or(Refusal::BadQueuePair)?.qpn;
            let virtual_qpn = self
                .virtual_qpns
                .choose(mcst_id, Some(wanted))
                .map_err(|_| Refusal::BadQueuePair)?;
            let strategies = self.config.strategies;
            self.take_address(Some(mcst_id), strategies)
                .map_err(|_| Refusal::Taken)?;
            let growth = Growth {
                leader,
                expected,
                refusal: None,
            };
            let group = Group::empty(mcst_id, virtual_qpn, initial_psn, strategies);
            self.groups
                .insert(mcst_id, Registration::growing(group, growth));
        }
        let control = &mut self.switches[switch.0];
        if ports.len() > self.program.sizes.paths as usize {
            return Err(Refusal::Full);
        }
        let index = control.indexes.take().ok_or(Refusal::Full)?;
        let group_index = u16::try_from(index).expect("the pipeline has at most 32768 groups");
        let ports_here = ports.iter().copied();
        let on = OnSwitch::new(&self.topology, switch, group_index, ports_here, &members);
        let part = Tree::from_ports(BTreeMap::from([(switch, ports)]));
        self.loads.add(&part);
        let registration = self
            .groups
            .get_mut(&mcst_id)
            .expect("was there or has just been made");
        let group = registration.group_mut();
        group.grow(&part, on.clone(), members);
        group
            .entries(&self.program, &on)
            .map_err(|_| Refusal::BadNodes)?;
        if let Some(agent) = self.mrp.agents.get_mut(&(switch, mcst_id)) {
            agent.routed = routed;
        }
        Ok(())
    }

    /// Algorithm 4: a port for each node.
    fn mrp_choose(&self, switch: SwitchIndex, agent: &Agent) -> Result<Local, Refusal> {
        let view = View {
            topology: &self.topology,
            paths: &self.paths,
            loads: &self.loads,
        };
        let mut ports = BTreeSet::from([agent.port]);
        let mut routed: BTreeMap<u32, Vec<Node>> = BTreeMap::new();
        let mut members: Vec<GroupMember> = Vec::new();
        let mut seen = BTreeSet::new();
        for node in agent.nodes() {
            let host = self.topology.host_with_ip(node.ip);
            let host = host.ok_or(Refusal::BadNodes)?;
            if !seen.insert(host) || node.qpn.get() == 0 {
                return Err(Refusal::BadNodes);
            }
            if node.region.is_some_and(|region| !region.is_aligned()) {
                return Err(Refusal::BadRegion);
            }
            if !self.paths.reaches(switch, host) {
                return Err(Refusal::SwitchFailed);
            }
            let (own, host_port) = self.topology.attachment(host);
            let port = match own == switch {
                true => host_port,
                false => {
                    let Policy::ReuseLeastLoaded = self.config.policy;
                    view.least_loaded(switch, host, |port| ports.contains(&port))
                }
            };
            if own == switch {
                let member = GroupMember {
                    host,
                    mac: self.topology.host(host).mac,
                    spec: frame::member_spec(node),
                };
                match node.ip == agent.leader {
                    true => members.insert(0, member),
                    false => members.push(member),
                }
            }
            if node.ip == agent.leader {
                continue;
            }
            if port == agent.port {
                return Err(Refusal::Loop);
            }
            ports.insert(port);
            routed.entry(port).or_default().push(*node);
        }
        let is_root = self.host_behind(switch, agent.port).is_some();
        let has_leader = members.first().is_some_and(|m| m.spec.ip == agent.leader);
        match routed.is_empty() || is_root && !has_leader {
            true => Err(Refusal::BadNodes),
            false => Ok((routed, members)),
        }
    }

    fn mrp_stage(&mut self, now: u64, switch: SwitchIndex, mcst_id: Ipv4Addr, stage: Stage) {
        let (Some(agent), Some(registration)) = (
            self.mrp.agents.get_mut(&(switch, mcst_id)),
            self.groups.get(&mcst_id),
        ) else {
            return;
        };
        agent.stage = stage;
        let group = registration.group();
        let Some(on) = group.on(switch) else { return };
        let task = match stage {
            Stage::Registers => group.registers(on),
            // Solved when the agent planned.
            Stage::Entries => Task::Write(group.entries(&self.program, on).unwrap_or_default()),
            Stage::Publication => Task::Write(vec![group.publication(&self.program, on)]),
            Stage::Gathering => return,
            Stage::Done => {
                self.mrp_pass_on(switch, mcst_id, |_| true);
                return self.mrp_grown(now, mcst_id);
            }
        };
        let id = self.submit(now, switch, Owner::Agent(switch, mcst_id), task);
        if let Some(registration) = self.groups.get_mut(&mcst_id) {
            registration.wait_for(id);
        }
    }

    pub(super) fn agent_done(
        &mut self,
        now: u64,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
        task: TaskId,
        result: Result<u64, SwitchError>,
    ) {
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        registration.stop_waiting(switch, task, &result);
        if let Err(error) = result {
            let refusal = match error {
                SwitchError::Refused {
                    code: alfirk_p4runtime::Code::ResourceExhausted,
                    ..
                } => Refusal::Full,
                _ => Refusal::SwitchFailed,
            };
            return self.mrp_fail(now, mcst_id, refusal);
        }
        if let Some(refusal) = registration.growth().and_then(|growth| growth.refusal) {
            return self.mrp_fail(now, mcst_id, refusal);
        }
        let stage = self.mrp.agents.get(&(switch, mcst_id)).map(|a| a.stage);
        let next = match stage {
            Some(Stage::Registers) => Stage::Entries,
            Some(Stage::Entries) => Stage::Publication,
            Some(Stage::Publication) => Stage::Done,
            _ => return,
        };
        self.mrp_stage(now, switch, mcst_id, next);
    }

    /// Tells the neighbours of a switch, as far as their packets name nodes that matter.
    fn mrp_pass_on(
        &mut self,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
        matters: impl Fn(&Node) -> bool,
    ) {
        let Some(agent) = self.mrp.agents.get(&(switch, mcst_id)) else {
            return;
        };
        let (leader, initial_psn) = (agent.leader, agent.initial_psn);
        let group = agent.group().copied();
        let mut frames = Vec::new();
        for (port, nodes) in &agent.routed {
            if self.host_behind(switch, *port).is_some() {
                let nodes = nodes.iter().filter(|node| matters(node));
                frames.extend(nodes.map(|node| {
                    let frame = self.mrp_member_frame(group, leader, initial_psn, node);
                    (*port, frame)
                }));
            } else {
                let packets = agent.child_packets(*port).unwrap_or_default();
                let packets = packets.iter().filter(|p| p.nodes.iter().any(&matters));
                frames.extend(packets.map(|packet| {
                    let frame = frame::build(VIRTUAL_MAC, leader, mcst_id, packet);
                    (*port, frame)
                }));
            }
        }
        for (port, frame) in frames {
            self.send_frame(switch, port, frame);
        }
    }

    /// What tells a member's host that it is in the group.
    pub(super) fn mrp_member_frame(
        &self,
        group: Option<Node>,
        leader: Ipv4Addr,
        initial_psn: Psn,
        node: &Node,
    ) -> Vec<u8> {
        let packet = Repr {
            kind: Kind::Register,
            seq: 0,
            total: 1,
            initial_psn,
            flags: 0,
            nodes: [*node].into_iter().chain(group).collect(),
        };
        let host = self.topology.host_with_ip(node.ip);
        let mac = host.map_or(VIRTUAL_MAC, |host| self.topology.host(host).mac);
        frame::build(mac, leader, node.ip, &packet)
    }

    /// Every part may be made now.
    fn mrp_grown(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let mut agents = self.mrp.agents.iter().filter(|((_, m), _)| *m == mcst_id);
        let are_done = agents.all(|(_, agent)| agent.stage == Stage::Done);
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        let expected = registration.growth().map(|growth| growth.expected);
        if are_done && expected == Some(registration.group().members.len()) {
            registration.has_grown();
            let group = registration.group().info();
            self.virtual_qpns.used(mcst_id, group.remote_qpn);
            self.mrp.forget(mcst_id);
            self.say(ApiReply::GroupFormed { group });
            self.sign_of_life(now, mcst_id);
        }
    }

    /// A group in use is registered again: members whose confirmations may be lost are told once more.
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
                let frame = self.mrp_member_frame(Some(own), leader, packet.initial_psn, node);
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
                self.mrp.give_up(mcst_id);
                self.mrp_answer(mcst_id, leader, Kind::Confirm, 0);
            }
            Some(_) if self.leader_of(mcst_id) != Some(leader) => {
                self.mrp_refuse(mcst_id, leader, Refusal::NoSuchGroup);
            }
            Some(registration) if registration.is_at_rest() => {
                self.remove_for_leader(now, mcst_id, leader);
            }
            Some(registration) if registration.growth().is_some() => {
                self.mrp_fail(now, mcst_id, Refusal::NoSuchGroup);
            }
            // Under way already; the leader will ask again.
            Some(_) => {}
        }
    }

    /// Undoes a registration, once nothing of it is under way any more, and tells the leader.
    pub(super) fn mrp_fail(&mut self, now: u64, mcst_id: Ipv4Addr, refusal: Refusal) {
        let agents = self.mrp.agents.iter();
        let of_group = agents
            .filter(|((_, m), _)| *m == mcst_id)
            .map(|(_, a)| a.leader);
        let leader = self.leader_of(mcst_id).or(of_group.min());
        if let Some(registration) = self.groups.get_mut(&mcst_id) {
            let is_idle = !registration.is_waiting();
            let Some(growth) = registration.growth_mut() else {
                return;
            };
            growth.refusal.get_or_insert(refusal);
            if !is_idle {
                return;
            }
            let refusal = growth.refusal.unwrap_or(refusal);
            self.mrp.forget(mcst_id);
            if let Some(leader) = leader {
                self.mrp_refuse(mcst_id, leader, refusal);
            }
            return self.undo_growth(now, mcst_id);
        }
        self.mrp.give_up(mcst_id);
        if let Some(leader) = leader {
            self.mrp_refuse(mcst_id, leader, refusal);
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
                self.join(now, Origin::Leader(leader), mcst_id, spec);
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

    pub(super) fn mrp_refuse(&mut self, mcst_id: Ipv4Addr, leader: Ipv4Addr, refusal: Refusal) {
        self.mrp.stats.refused += 1;
        tracing::info!(%mcst_id, %leader, "registration refused: {refusal}");
        self.mrp_answer(mcst_id, leader, Kind::Refuse, refusal.bits());
    }

    /// Says something to a leader in the group's name.
    pub(super) fn mrp_answer(
        &mut self,
        mcst_id: Ipv4Addr,
        leader: Ipv4Addr,
        kind: Kind,
        flags: u8,
    ) {
        self.mrp_say(mcst_id, leader, kind, flags, Vec::new());
    }

    /// Says something about members to a leader, as many as one packet has room for.
    pub(super) fn mrp_name(
        &mut self,
        mcst_id: Ipv4Addr,
        leader: Ipv4Addr,
        kind: Kind,
        members: &[Ipv4Addr],
    ) {
        let nodes = members.iter().take(MAX_NODES - 1).map(|ip| Node {
            ip: *ip,
            qpn: QpNum::new(0),
            flags: 0,
            region: None,
        });
        self.mrp_say(mcst_id, leader, kind, 0, nodes.collect());
    }

    fn mrp_say(
        &mut self,
        mcst_id: Ipv4Addr,
        leader: Ipv4Addr,
        kind: Kind,
        flags: u8,
        mut nodes: Vec<Node>,
    ) {
        // Who hears that there is no such group knows it by its address.
        let virtual_qpn = self.groups.get(&mcst_id).map(|r| r.group().virtual_qpn);
        nodes.push(Node::group(mcst_id, virtual_qpn.unwrap_or(QpNum::new(0))));
        let Some(host) = self.topology.host_with_ip(leader) else {
            return;
        };
        let packet = Repr {
            kind,
            seq: 0,
            total: 1,
            initial_psn: Psn::new(0),
            flags,
            nodes,
        };
        let mac = self.topology.host(host).mac;
        let frame = frame::build(mac, mcst_id, leader, &packet);
        let (switch, port) = self.topology.attachment(host);
        self.send_frame(switch, port, frame);
    }

    pub(super) fn send_frame(&mut self, switch: SwitchIndex, port: u32, frame: Vec<u8>) {
        self.with_session(switch, |session, context| {
            session.send_frame(context, port, frame);
        });
    }
}
