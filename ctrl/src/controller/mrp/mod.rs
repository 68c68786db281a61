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
pub(super) mod frame;
mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Kind, Node, Refusal, Repr, MAX_NODES};
use alfirk_roce::wire::{Psn, QpNum};

use super::change::Origin;
use super::error::SwitchError;
use super::event::MemberSpec;
use super::group::{wanted, Group, GroupMember, MembersByHost, OnSwitch};
use super::registration::Registration;
use super::session::{Task, TaskId};
use super::timers::Timers;
use super::{ApiReply, Controller, Owner};
use crate::constants::VIRTUAL_MAC;
use crate::topology::{HostIndex, Node as Place, SwitchIndex};
use crate::tree::Tree;
use agent::{Agent, Part, Stage};
use agreement::Invitations;
use frame::Received;
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
    /// For all switches, if the policy does not let each choose by itself.
    tree: Option<Tree>,
    /// Members that the leader has named.
    expected: usize,
    /// Why it is to be undone.
    refusal: Option<Refusal>,
}

/// A switch's choice: nodes by port, and the members that hang from the switch.
type Local = (BTreeMap<u32, Vec<Node>>, Vec<GroupMember>);

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

    fn forget(&mut self, mcst_id: Ipv4Addr) {
        let switches: Vec<SwitchIndex> =
            self.agents_of(mcst_id).map(|(switch, _)| switch).collect();
        for switch in switches {
            self.agents.remove(&(mcst_id, switch));
            self.undecided.clear((mcst_id, switch));
        }
        self.deadlines.clear(mcst_id);
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
            Part::Strange if agent.stage == Stage::Gathering => {
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
                let stage = agent.stage;
                let named = received.packet.members().map(|node| node.ip);
                let named: BTreeSet<Ipv4Addr> = named.collect();
                let matters = |node: &Node| named.contains(&node.ip);
                match stage {
                    Stage::Done => self.mrp_pass_on(switch, mcst_id, matters),
                    Stage::Inviting => {
                        self.invite_locals(switch, mcst_id, matters);
                    }
                    _ => {}
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

    /// All packets are there: makes the switch's part of the group.
    fn mrp_build(&mut self, now: u64, switch: SwitchIndex, mcst_id: Ipv4Addr) {
        match self.mrp_plan(switch, mcst_id) {
            Ok(()) if self.invite_locals(switch, mcst_id, |_| true) => {
                if let Some(agent) = self.mrp.agents.get_mut(&(mcst_id, switch)) {
                    agent.stage = Stage::Inviting;
                }
                let give_up = now + self.config.agree_timeout_ns;
                self.mrp.undecided.set((mcst_id, switch), give_up);
            }
            Ok(()) => self.mrp_stage(now, switch, mcst_id, Stage::Registers),
            Err(refusal) => self.mrp_fail(now, mcst_id, refusal),
        }
    }

    fn mrp_plan(&mut self, switch: SwitchIndex, mcst_id: Ipv4Addr) -> Result<(), Refusal> {
        let Some(agent) = self.mrp.agents.get(&(mcst_id, switch)) else {
            return Ok(());
        };
        let tree = self.mrp_tree(mcst_id, agent)?;
        let (routed, members) = self.mrp_choose(switch, agent, tree.as_ref())?;
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
                tree,
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
        let ports_here = || ports.iter().copied();
        let wanted = wanted(&self.topology, switch, ports_here(), BTreeMap::new());
        let granted = control.room.take(&wanted).map_err(|no| {
            let switch = &self.topology.switch(switch).name;
            tracing::info!(%mcst_id, switch, no.table, no.needed, no.left, "no room");
            Refusal::Full
        })?;
        let by_host = MembersByHost::new(&members);
        let on = OnSwitch::new(&self.topology, switch, &granted, ports_here(), &by_host);
        let others = members.iter().map(|member| member.spec.ip);
        let undecided = others.filter(|ip| *ip != leader).collect();
        let part = Tree::from_ports(BTreeMap::from([(switch, ports)]));
        self.loads.add(&part);
        let registration = self
            .groups
            .get_mut(&mcst_id)
            .expect("was there or has just been made");
        let group = registration.group_mut();
        group.grow(&part, on.clone(), members);
        group
            .check_on(&self.program, &on)
            .map_err(|_| Refusal::BadNodes)?;
        if let Some(agent) = self.mrp.agents.get_mut(&(mcst_id, switch)) {
            agent.routed = routed;
            agent.undecided = undecided;
        }
        Ok(())
    }

    /// The whole tree, where the policy needs it: from the first agent, which is told of every node, to all later ones.
    fn mrp_tree(&self, mcst_id: Ipv4Addr, agent: &Agent) -> Result<Option<Tree>, Refusal> {
        if self.planner.is_local() {
            return Ok(None);
        }
        if let Some(registration) = self.groups.get(&mcst_id) {
            return Ok(registration.growth().and_then(|growth| growth.tree.clone()));
        }
        let ips = agent.nodes().map(|node| node.ip);
        let others = ips.filter(|ip| *ip != agent.leader);
        let hosts: Option<Vec<_>> = [agent.leader]
            .into_iter()
            .chain(others)
            .map(|ip| self.topology.host_with_ip(ip))
            .collect();
        let hosts = hosts.ok_or(Refusal::BadNodes)?;
        let (own, _) = self.topology.attachment(hosts[0]);
        if !hosts.iter().all(|host| self.paths().reaches(own, *host)) {
            return Err(Refusal::SwitchFailed);
        }
        Ok(Some(Tree::grow(&self.planner, &self.view(), &hosts)))
    }

    /// A port for each node, by the tree or, where that is not needed, by the policy's own choice at this switch.
    fn mrp_choose(
        &self,
        switch: SwitchIndex,
        agent: &Agent,
        tree: Option<&Tree>,
    ) -> Result<Local, Refusal> {
        let view = self.view();
        let planned = tree.map(|tree| tree.ports_to_hosts(&self.topology, switch));
        let leader = self.topology.host_with_ip(agent.leader);
        let leader = leader.ok_or(Refusal::BadNodes)?;
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
            if !self.paths().reaches(switch, host) {
                return Err(Refusal::SwitchFailed);
            }
            let (own, host_port) = self.topology.attachment(host);
            let port = match own == switch {
                true => host_port,
                false => match &planned {
                    Some(planned) => *planned.get(&host).ok_or(Refusal::SwitchFailed)?,
                    None => {
                        let has_port = |port| ports.contains(&port);
                        self.planner.port(&view, switch, leader, host, has_port)
                    }
                },
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
            self.mrp.agents.get_mut(&(mcst_id, switch)),
            self.groups.get(&mcst_id),
        ) else {
            return;
        };
        agent.stage = stage;
        let group = registration.group();
        let Some(on) = group.on(switch) else { return };
        let tasks = match stage {
            Stage::Registers => group.registers(&self.topology, on, &BTreeMap::new()),
            // Solved when the agent planned.
            Stage::Entries => vec![Task::Write(
                group.entries(&self.program, on).unwrap_or_default(),
            )],
            Stage::Publication => vec![Task::Write(vec![group.publication(&self.program, on)])],
            Stage::Gathering | Stage::Inviting => return,
            Stage::Done => {
                self.mrp_pass_on(switch, mcst_id, |_| true);
                return self.mrp_grown(now, mcst_id);
            }
        };
        for task in tasks {
            let id = self.submit(now, switch, Owner::Agent(switch, mcst_id), task);
            if let Some(registration) = self.groups.get_mut(&mcst_id) {
                registration.wait_for(id);
            }
            if let Some(agent) = self.mrp.agents.get_mut(&(mcst_id, switch)) {
                agent.tasks.insert(id);
            }
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
        let agent = self.mrp.agents.get_mut(&(mcst_id, switch));
        let is_waiting = agent.is_some_and(|agent| {
            agent.tasks.remove(&task);
            !agent.tasks.is_empty()
        });
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
        if is_waiting {
            return;
        }
        let stage = self.mrp.agents.get(&(mcst_id, switch)).map(|a| a.stage);
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
        let Some(agent) = self.mrp.agents.get(&(mcst_id, switch)) else {
            return;
        };
        let (leader, initial_psn) = (agent.leader, agent.initial_psn);
        let mut frames = Vec::new();
        for (port, nodes) in &agent.routed {
            if self.host_behind(switch, *port).is_some() {
                let nodes = nodes.iter().filter(|node| matters(node));
                frames.extend(nodes.map(|node| {
                    let frame =
                        self.mrp_member_frame(Kind::Register, mcst_id, leader, initial_psn, node);
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

    /// What tells a member's host that it is in the group, or asks whether it may be.
    pub(super) fn mrp_member_frame(
        &self,
        kind: Kind,
        mcst_id: Ipv4Addr,
        source: Ipv4Addr,
        initial_psn: Psn,
        node: &Node,
    ) -> Vec<u8> {
        let packet = Repr {
            kind,
            seq: 0,
            total: 1,
            initial_psn,
            flags: 0,
            nodes: vec![*node, self.group_node(mcst_id)],
        };
        let host = self.topology.host_with_ip(node.ip);
        let mac = host.map_or(VIRTUAL_MAC, |host| self.topology.host(host).mac);
        frame::build(mac, source, node.ip, &packet)
    }

    /// Every part may be made now.
    fn mrp_grown(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let mut agents = self.mrp.agents_of(mcst_id);
        let are_done = agents.all(|(_, agent)| agent.stage == Stage::Done);
        drop(agents);
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
        let agents = self.mrp.agents_of(mcst_id);
        let of_agents = agents.map(|(_, agent)| agent.leader).min();
        let leader = self.leader_of(mcst_id).or(of_agents);
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
        let packet = Repr {
            kind,
            seq: 0,
            total: 1,
            initial_psn: Psn::new(0),
            flags,
            nodes: Vec::new(),
        };
        self.mrp_say(mcst_id, leader, packet);
    }

    /// Says something about members to a leader, in as many packets as it takes.
    pub(super) fn mrp_name(
        &mut self,
        mcst_id: Ipv4Addr,
        leader: Ipv4Addr,
        kind: Kind,
        flags: u8,
        members: &[Ipv4Addr],
    ) {
        let nodes = members.iter().map(|ip| Node {
            ip: *ip,
            qpn: QpNum::new(0),
            flags: 0,
            region: None,
        });
        let nodes: Vec<Node> = nodes.collect();
        // Each packet names the group as well.
        let parts = nodes.chunks(MAX_NODES - 1);
        // As many as the topology has hosts; who does not fit into 255 packets cannot be a member either.
        let total = u8::try_from(parts.len()).unwrap_or(u8::MAX);
        for (seq, part) in (0..total).zip(parts) {
            let packet = Repr {
                kind,
                seq,
                total,
                initial_psn: Psn::new(0),
                flags,
                nodes: part.to_vec(),
            };
            self.mrp_say(mcst_id, leader, packet);
        }
    }

    /// The node that stands for a group; who hears that there is no such group knows it by its address.
    fn group_node(&self, mcst_id: Ipv4Addr) -> Node {
        let virtual_qpn = self.groups.get(&mcst_id).map(|r| r.group().virtual_qpn);
        Node::group(mcst_id, virtual_qpn.unwrap_or(QpNum::new(0)))
    }

    fn mrp_say(&mut self, mcst_id: Ipv4Addr, leader: Ipv4Addr, mut packet: Repr) {
        packet.nodes.push(self.group_node(mcst_id));
        let Some(host) = self.topology.host_with_ip(leader) else {
            return;
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
