//! Creation of a group in band: each agent plans and creates its switch's part, and forwards the remaining nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_p4runtime::Code;
use alfirk_roce::registration::RetryTimeout;
use alfirk_roce::wire::mrp::{Node, Refusal};
use alfirk_roce::wire::QpNum;

use super::agent::{Agent, Downstream, Stage};
use super::frame;
use super::growth::Growth;
use crate::controller::bridge::{BridgeParameters, Bridges, GroupMember};
use crate::controller::creation::Creation;
use crate::controller::error::{GroupError, SwitchError};
use crate::controller::group::{resource_demand, Group, GroupPart};
use crate::controller::procedure::Run;
use crate::controller::registration::Registration;
use crate::controller::{ApiReply, Controller};
use crate::topology::SwitchIndex;
use crate::tree::Tree;

/// Choice of ports at one switch: the nodes (descriptions of members) reached through each port, and the members
/// attached to the switch.
type ChosenPorts = (BTreeMap<u32, Vec<Node>>, Vec<GroupMember>);

impl Controller {
    /// Creates the switch's part of a group, once all packets are received and their members have agreed.
    pub(super) fn mrp_build(&mut self, now: u64, switch: SwitchIndex, mcst_id: Ipv4Addr) {
        match self.mrp_plan(switch, mcst_id) {
            Ok(()) => self.create_part(now, switch, mcst_id),
            Err(refusal) => self.mrp_fail(now, mcst_id, refusal),
        }
    }

    /// Checks whether a group can be created from the nodes of its first agent, without allocating anything.
    pub(super) fn mrp_check(
        &mut self,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
        agent: &Agent,
    ) -> Result<(), Refusal> {
        let tree = self.mrp_tree(mcst_id, agent)?;
        self.mrp_choose(switch, agent, tree.as_ref())?;
        self.mrp_virtual_qpn(mcst_id, agent.group_node().copied())?;
        match self.addresses.is_free(u32::from(mcst_id)) {
            true => Ok(()),
            false => Err(Refusal::Taken),
        }
    }

    fn mrp_virtual_qpn(
        &mut self,
        mcst_id: Ipv4Addr,
        named: Option<Node>,
    ) -> Result<QpNum, Refusal> {
        let named = named.filter(|node| node.ip == mcst_id);
        let wanted = named.ok_or(Refusal::BadQueuePair)?.qpn;
        let chosen = self.virtual_qpns.choose(mcst_id, Some(wanted));
        chosen.map_err(|_| Refusal::BadQueuePair)
    }

    fn mrp_plan(&mut self, switch: SwitchIndex, mcst_id: Ipv4Addr) -> Result<(), Refusal> {
        let Some(agent) = self.mrp.agents.get(&(mcst_id, switch)) else {
            return Ok(());
        };
        let tree = self.mrp_tree(mcst_id, agent)?;
        let (routed, members) = self.mrp_choose(switch, agent, tree.as_ref())?;
        let (leader, initial_psn, flags) = (agent.leader, agent.initial_psn, agent.flags);
        let expected = agent.members().count();
        let mut ports: BTreeSet<u32> = routed.keys().copied().collect();
        let downstream = routed.into_iter().map(|(port, nodes)| {
            let downstream = match self.host_at_port(switch, port) {
                Some(_) => Downstream::Member(nodes),
                None => Downstream::Switch(agent.packets_of(&nodes)?),
            };
            Ok((port, downstream))
        });
        let downstream = downstream.collect::<Result<BTreeMap<_, _>, Refusal>>()?;
        ports.insert(agent.port);
        if !self.groups.contains_key(&mcst_id) {
            let named = agent.group_node().copied();
            let virtual_qpn = self.mrp_virtual_qpn(mcst_id, named)?;
            let strategies = self.config.strategies;
            self.take_address(Some(mcst_id), strategies)
                .map_err(|_| Refusal::Taken)?;
            let growth = Growth {
                leader,
                tree,
                expected,
                refusal: None,
            };
            let group = Group {
                retry_timeout: RetryTimeout::from_bits(flags),
                ..Group::empty(mcst_id, virtual_qpn, initial_psn, strategies)
            };
            self.groups
                .insert(mcst_id, Registration::growing(group, growth));
        }
        if ports.len() > self.program.sizes.paths as usize {
            return Err(Refusal::Full);
        }
        let group = self
            .groups
            .get(&mcst_id)
            .expect("was there or has just been made")
            .group();
        let parameters = BridgeParameters::new(mcst_id, group.virtual_qpn, group.strategies);
        let bridges = Bridges::solve(&parameters, &members).map_err(|_| Refusal::BadNodes)?;
        let control = &mut self.switches[switch.0];
        let ports_here = || ports.iter().copied();
        let wanted = resource_demand(&self.topology, switch, ports_here(), BTreeMap::new());
        let allocation = control.capacity.allocate(&wanted).map_err(|no| {
            let switch = &self.topology.switch(switch).name;
            tracing::info!(%mcst_id, switch, no.table, no.needed, no.left, "no space for the group");
            Refusal::Full
        })?;
        let on = GroupPart::new(&self.topology, switch, &allocation, ports_here(), &bridges);
        let part = Tree::from_ports(BTreeMap::from([(switch, ports)]));
        self.loads.add(&part);
        let registration = self
            .groups
            .get_mut(&mcst_id)
            .expect("was there or has just been made");
        let group = registration.group_mut();
        group.add_part(&part, on.clone(), members);
        group
            .check_constraints_on(&self.program, &on)
            .map_err(|_| Refusal::BadNodes)?;
        if let Some(agent) = self.mrp.agents.get_mut(&(mcst_id, switch)) {
            agent.downstream = downstream;
        }
        Ok(())
    }

    /// Tree of the whole group, computed by the first agent, which receives every node. `None` if the policy lets each
    /// switch choose its ports by itself.
    fn mrp_tree(&self, mcst_id: Ipv4Addr, agent: &Agent) -> Result<Option<Tree>, Refusal> {
        if self.planner.is_local() {
            return Ok(None);
        }
        if let Some(registration) = self.groups.get(&mcst_id) {
            return Ok(registration.growth().and_then(|growth| growth.tree.clone()));
        }
        let ips = agent.members().map(|node| node.ip);
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

    /// Chooses the port of this switch that leads to each member: by the tree of the group, or without one by the policy.
    fn mrp_choose(
        &self,
        switch: SwitchIndex,
        agent: &Agent,
        tree: Option<&Tree>,
    ) -> Result<ChosenPorts, Refusal> {
        let view = self.view();
        let planned = tree.map(|tree| tree.ports_to_hosts(&self.topology, switch));
        let leader = self.topology.host_with_ip(agent.leader);
        let leader = leader.ok_or(Refusal::BadNodes)?;
        let mut ports = BTreeSet::from([agent.port]);
        let mut routed: BTreeMap<u32, Vec<Node>> = BTreeMap::new();
        let mut members: Vec<GroupMember> = Vec::new();
        let mut seen = BTreeSet::new();
        for node in agent.members() {
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
        let is_root = self.host_at_port(switch, agent.port).is_some();
        let has_leader = members.first().is_some_and(|m| m.spec.ip == agent.leader);
        match routed.is_empty() || is_root && !has_leader {
            true => Err(Refusal::BadNodes),
            false => Ok((routed, members)),
        }
    }

    /// Starts the procedure that creates the switch's part of a group.
    pub(super) fn create_part(&mut self, now: u64, switch: SwitchIndex, mcst_id: Ipv4Addr) {
        if let Some(agent) = self.mrp.agents.get_mut(&(mcst_id, switch)) {
            let creation = Creation {
                mcst_id,
                agent: Some(switch),
            };
            agent.stage = Stage::Creation(Box::new(Run::new(creation)));
            self.begin::<Creation>(now, creation);
        }
    }

    /// Processes the failure or cancellation of the creation of a switch's part, before it is undone.
    pub(in crate::controller) fn part_failed(
        &mut self,
        now: u64,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
    ) {
        let run = self.mrp.creation(mcst_id, switch);
        let refusal = match run.and_then(Run::failure) {
            Some(GroupError::Switch(SwitchError::Refused {
                code: Code::ResourceExhausted,
                ..
            })) => Refusal::Full,
            _ => Refusal::SwitchFailed,
        };
        self.mrp_fail(now, mcst_id, refusal);
    }

    /// Ends the creation of a switch's part, which succeeded or was undone.
    pub(in crate::controller) fn part_created(
        &mut self,
        now: u64,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
    ) {
        let run = self.mrp.creation(mcst_id, switch);
        if run.is_some_and(Run::is_done) {
            self.mrp_forward(switch, mcst_id, |_| true);
            let interval = self.config.mrp_repeat_ns;
            if let Some(agent) = self.mrp.agents.get_mut(&(mcst_id, switch)) {
                agent.note_processed(now, interval);
            }
            self.mrp_grown(now, mcst_id);
        } else {
            self.discard_growth(mcst_id);
        }
    }

    /// Completes the group if every part is created.
    fn mrp_grown(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let are_done = self
            .mrp
            .agents_of(mcst_id)
            .all(|(_, agent)| agent.is_done());
        let Some(registration) = self.groups.get_mut(&mcst_id) else {
            return;
        };
        let expected = registration.growth().map(|growth| growth.expected);
        if are_done && expected == Some(registration.group().members.len()) {
            registration.end_growth();
            let group = registration.group().info();
            self.virtual_qpns.record(mcst_id, group.remote_qpn);
            self.mrp.discard(mcst_id);
            self.queue_reply(ApiReply::GroupFormed { group });
            self.renew_lease(now, mcst_id);
        }
    }

    /// Sends a refusal of a registration to its leader, and starts to undo the parts that agents have created.
    pub(in crate::controller) fn mrp_fail(
        &mut self,
        now: u64,
        mcst_id: Ipv4Addr,
        refusal: Refusal,
    ) {
        let agents = self.mrp.agents_of(mcst_id);
        let of_agents = agents.map(|(_, agent)| agent.leader).min();
        let leader = self.leader_of(mcst_id).or(of_agents);
        match self.groups.get_mut(&mcst_id).map(|r| r.growth_mut()) {
            None => self.mrp.discard_registration(mcst_id),
            Some(Some(growth)) if growth.refusal.is_none() => growth.refusal = Some(refusal),
            // Already refused, or not created by agents.
            Some(_) => return,
        }
        if let Some(leader) = leader {
            self.mrp_refuse(mcst_id, leader, refusal);
        }
        for switch in self.mrp.stop(mcst_id) {
            let creation = Creation {
                mcst_id,
                agent: Some(switch),
            };
            self.cancel::<Creation>(now, creation);
        }
        self.discard_growth(mcst_id);
    }

    /// Processes the failure of a switch on which agents have created a part of a group.
    pub(in crate::controller) fn growth_switch_failed(
        &mut self,
        now: u64,
        mcst_id: Ipv4Addr,
        switch: SwitchIndex,
        error: &SwitchError,
    ) {
        if let Some(run) = self.mrp.creation_mut(mcst_id, switch) {
            run.switch_failed(switch, error.clone());
        }
        self.mrp_fail(now, mcst_id, Refusal::SwitchFailed);
    }

    /// Removes a refused group once every agent has undone its part.
    fn discard_growth(&mut self, mcst_id: Ipv4Addr) {
        let growth = self.groups.get(&mcst_id).and_then(|r| r.growth());
        let is_refused = growth.is_some_and(|growth| growth.refusal.is_some());
        let mut agents = self.mrp.agents_of(mcst_id);
        if is_refused && agents.all(|(_, agent)| agent.is_undone()) {
            drop(agents);
            let possible_leftovers = self.mrp.discard(mcst_id);
            self.discard_group(mcst_id, &possible_leftovers);
        }
    }
}
