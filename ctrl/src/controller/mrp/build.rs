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
use super::{transmit, Mrp};
use crate::constants::VIRTUAL_MAC;
use crate::controller::bridge::{BridgeParameters, Bridges, GroupMember};
use crate::controller::command::Command;
use crate::controller::creation::Creation;
use crate::controller::error::{GroupError, SwitchError};
use crate::controller::event::ApiReply;
use crate::controller::group::Group;
use crate::controller::groups::Groups;
use crate::controller::network::Network;
use crate::controller::procedure::Run;
use crate::controller::registration::Registration;
use crate::topology::SwitchIndex;
use crate::tree::Tree;

/// Choice of ports at one switch: the nodes (descriptions of members) reached through each port, and the members
/// attached to the switch.
type ChosenPorts = (BTreeMap<u32, Vec<Node>>, Vec<GroupMember>);

impl Mrp {
    /// Plans the switch's part of a group, once all packets are received and their members have agreed. Returns the command
    /// that creates the part, or refuses the registration.
    pub(super) fn build(
        &mut self,
        network: &mut Network,
        groups: &mut Groups,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
    ) -> Command {
        let creation = Creation {
            mcst_id,
            agent: Some(switch),
        };
        match self.plan(network, groups, switch, mcst_id) {
            Ok(()) => {
                if let Some(agent) = self.agents.get_mut(&(mcst_id, switch)) {
                    agent.stage = Stage::Creation(Box::new(Run::new(creation)));
                }
                Command::BeginCreation(creation)
            }
            Err(refusal) => Command::FailGrowth(mcst_id, refusal),
        }
    }

    /// Checks whether a group can be created from the nodes of its first agent, without allocating anything.
    pub(super) fn check(
        network: &Network,
        groups: &mut Groups,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
        agent: &Agent,
    ) -> Result<(), Refusal> {
        let tree = tree_of(network, groups, mcst_id, agent)?;
        choose(network, switch, agent, tree.as_ref())?;
        virtual_qpn(groups, mcst_id, agent.group_node().copied())?;
        match groups.resources().is_address_free(mcst_id) {
            true => Ok(()),
            false => Err(Refusal::Taken),
        }
    }

    fn plan(
        &mut self,
        network: &mut Network,
        groups: &mut Groups,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
    ) -> Result<(), Refusal> {
        let Some(agent) = self.agents.get(&(mcst_id, switch)) else {
            return Ok(());
        };
        let tree = tree_of(network, groups, mcst_id, agent)?;
        let (routed, members) = choose(network, switch, agent, tree.as_ref())?;
        let (leader, initial_psn, flags) = (agent.leader, agent.initial_psn, agent.flags);
        let expected = agent.members().count();
        let mut ports: BTreeSet<u32> = routed.keys().copied().collect();
        let downstream = routed.into_iter().map(|(port, nodes)| {
            let downstream = match network.host_at_port(switch, port) {
                Some(_) => Downstream::Member(nodes),
                None => Downstream::Switch(agent.packets_of(&nodes)?),
            };
            Ok((port, downstream))
        });
        let downstream = downstream.collect::<Result<BTreeMap<_, _>, Refusal>>()?;
        ports.insert(agent.port);
        if !groups.contains(mcst_id) {
            let named = agent.group_node().copied();
            let virtual_qpn = virtual_qpn(groups, mcst_id, named)?;
            let strategies = network.config().strategies;
            groups
                .take_address(network, Some(mcst_id), strategies)
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
            groups.insert(Registration::growing(group, growth));
        }
        if ports.len() > network.program().sizes.paths as usize {
            return Err(Refusal::Full);
        }
        let group = groups.group(mcst_id);
        let group = group.expect("was there or has just been made");
        let parameters = BridgeParameters::new(mcst_id, group.virtual_qpn, group.strategies);
        let bridges = Bridges::solve(&parameters, &members).map_err(|_| Refusal::BadNodes)?;
        let at = (switch, ports.iter().copied());
        let on = groups.allocate_part(network.topology(), at, BTreeMap::new(), &bridges);
        let on = on.map_err(|no| {
            let switch = network.name(switch);
            tracing::info!(%mcst_id, switch, no.table, no.needed, no.left, "no space for the group");
            Refusal::Full
        })?;
        let part = Tree::from_ports(BTreeMap::from([(switch, ports)]));
        network.add_load(&part);
        let registration = groups
            .get_mut(mcst_id)
            .expect("was there or has just been made");
        let group = registration.group_mut();
        group.add_part(&part, on.clone(), members);
        group
            .check_constraints_on(network.program(), &on)
            .map_err(|_| Refusal::BadNodes)?;
        if let Some(agent) = self.agents.get_mut(&(mcst_id, switch)) {
            agent.downstream = downstream;
        }
        Ok(())
    }

    /// Processes the failure or cancellation of the creation of a switch's part, before it is undone.
    pub(in crate::controller) fn part_failed(
        &self,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
    ) -> Command {
        let run = self.creation(mcst_id, switch);
        let refusal = match run.and_then(Run::failure) {
            Some(GroupError::Switch(SwitchError::Refused {
                code: Code::ResourceExhausted,
                ..
            })) => Refusal::Full,
            _ => Refusal::SwitchFailed,
        };
        Command::FailGrowth(mcst_id, refusal)
    }

    /// Ends the creation of a switch's part, which succeeded or was undone.
    pub(in crate::controller) fn part_created(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &mut Groups,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
    ) -> Option<Command> {
        let run = self.creation(mcst_id, switch);
        if !run.is_some_and(Run::is_done) {
            return Some(Command::DiscardGrowth(mcst_id));
        }
        self.forward(network, groups, switch, mcst_id, |_| true);
        let interval = network.config().mrp_repeat_ns;
        if let Some(agent) = self.agents.get_mut(&(mcst_id, switch)) {
            agent.note_processed(now, interval);
        }
        self.complete_group(network, groups, mcst_id)
    }

    /// Completes the group if every part is created.
    fn complete_group(
        &mut self,
        network: &mut Network,
        groups: &mut Groups,
        mcst_id: Ipv4Addr,
    ) -> Option<Command> {
        let are_done = self.agents_of(mcst_id).all(|(_, agent)| agent.is_done());
        let registration = groups.get_mut(mcst_id)?;
        let expected = registration.growth().map(|growth| growth.expected);
        if !are_done || expected != Some(registration.group().members.len()) {
            return None;
        }
        registration.end_growth();
        let group = registration.group().info();
        groups
            .resources_mut()
            .record_virtual_qpn(mcst_id, group.remote_qpn);
        self.discard(mcst_id);
        network.reply(ApiReply::GroupFormed { group });
        Some(Command::RenewLease(mcst_id))
    }

    /// Sends a refusal of a registration to its leader, and starts to undo the parts that agents have created.
    pub(in crate::controller) fn fail_growth(
        &mut self,
        network: &mut Network,
        groups: &mut Groups,
        mcst_id: Ipv4Addr,
        refusal: Refusal,
    ) -> Vec<Command> {
        let agents = self.agents_of(mcst_id);
        let of_agents = agents.map(|(_, agent)| agent.leader).min();
        let leader = groups.leader_of(mcst_id).or(of_agents);
        match groups.get_mut(mcst_id).map(|r| r.growth_mut()) {
            None => self.discard_registration(mcst_id),
            Some(Some(growth)) if growth.refusal.is_none() => growth.refusal = Some(refusal),
            // Already refused, or not created by agents.
            Some(_) => return Vec::new(),
        }
        if let Some(leader) = leader {
            self.refuse(network, groups, mcst_id, leader, refusal);
        }
        let begun = self.stop(mcst_id).into_iter();
        let creations = begun.map(|switch| Creation {
            mcst_id,
            agent: Some(switch),
        });
        creations
            .map(Command::CancelCreation)
            .chain([Command::DiscardGrowth(mcst_id)])
            .collect()
    }

    /// Processes the failure of a switch on which agents have created a part of a group.
    pub(in crate::controller) fn switch_failed(
        &mut self,
        mcst_id: Ipv4Addr,
        switch: SwitchIndex,
        error: SwitchError,
    ) -> Command {
        if let Some(run) = self.creation_mut(mcst_id, switch) {
            run.switch_failed(switch, error);
        }
        Command::FailGrowth(mcst_id, Refusal::SwitchFailed)
    }

    /// Removes a refused group once every agent has undone its part.
    pub(in crate::controller) fn discard_growth(
        &mut self,
        network: &mut Network,
        groups: &mut Groups,
        mcst_id: Ipv4Addr,
    ) -> Option<Command> {
        let growth = groups.get(mcst_id).and_then(|r| r.growth());
        let is_refused = growth.is_some_and(|growth| growth.refusal.is_some());
        let are_undone = self.agents_of(mcst_id).all(|(_, agent)| agent.is_undone());
        if !is_refused || !are_undone {
            return None;
        }
        let possible_leftovers = self.discard(mcst_id);
        groups.discard(network, mcst_id, &possible_leftovers);
        Some(Command::GroupDiscarded(mcst_id))
    }

    /// Sends the registration packets of a switch's agent to its neighbours: those that contain a node for which
    /// `is_wanted` is true.
    pub(super) fn forward(
        &mut self,
        network: &mut Network,
        groups: &Groups,
        switch: SwitchIndex,
        mcst_id: Ipv4Addr,
        is_wanted: impl Fn(&Node) -> bool,
    ) {
        let Some(agent) = self.agents.get(&(mcst_id, switch)) else {
            return;
        };
        let (leader, initial_psn) = (agent.leader, agent.initial_psn);
        let group = transmit::group_node(groups, mcst_id);
        let mut frames = Vec::new();
        for (port, downstream) in &agent.downstream {
            match downstream {
                Downstream::Member(nodes) => {
                    let nodes = nodes.iter().filter(|node| is_wanted(node));
                    frames.extend(nodes.map(|node| {
                        let (topology, psn) = (network.topology(), initial_psn);
                        let frame = transmit::member_frame(topology, leader, psn, node, group);
                        (*port, frame)
                    }));
                }
                Downstream::Switch(packets) => {
                    let packets = packets.iter().filter(|p| p.nodes.iter().any(&is_wanted));
                    frames.extend(packets.map(|packet| {
                        let frame = frame::build(VIRTUAL_MAC, leader, mcst_id, packet);
                        (*port, frame)
                    }));
                }
            }
        }
        for (port, frame) in frames {
            network.send_frame(switch, port, frame);
        }
    }
}

/// Tree of the whole group, computed by the first agent, which receives every node. `None` if the policy lets each
/// switch choose its ports by itself.
fn tree_of(
    network: &Network,
    groups: &Groups,
    mcst_id: Ipv4Addr,
    agent: &Agent,
) -> Result<Option<Tree>, Refusal> {
    if network.planner().is_local() {
        return Ok(None);
    }
    if let Some(registration) = groups.get(mcst_id) {
        return Ok(registration.growth().and_then(|growth| growth.tree.clone()));
    }
    let ips = agent.members().map(|node| node.ip);
    let others = ips.filter(|ip| *ip != agent.leader);
    let hosts: Option<Vec<_>> = [agent.leader]
        .into_iter()
        .chain(others)
        .map(|ip| network.topology().host_with_ip(ip))
        .collect();
    let hosts = hosts.ok_or(Refusal::BadNodes)?;
    let (own, _) = network.topology().attachment(hosts[0]);
    if !hosts.iter().all(|host| network.paths().reaches(own, *host)) {
        return Err(Refusal::SwitchFailed);
    }
    Ok(Some(network.grow_tree(&hosts)))
}

/// Chooses the port of this switch that leads to each member: by the tree of the group, or without one by the policy.
fn choose(
    network: &Network,
    switch: SwitchIndex,
    agent: &Agent,
    tree: Option<&Tree>,
) -> Result<ChosenPorts, Refusal> {
    let view = network.view();
    let planned = tree.map(|tree| tree.ports_to_hosts(network.topology(), switch));
    let leader = network.topology().host_with_ip(agent.leader);
    let leader = leader.ok_or(Refusal::BadNodes)?;
    let mut ports = BTreeSet::from([agent.port]);
    let mut routed: BTreeMap<u32, Vec<Node>> = BTreeMap::new();
    let mut members: Vec<GroupMember> = Vec::new();
    let mut seen = BTreeSet::new();
    for node in agent.members() {
        let host = network.topology().host_with_ip(node.ip);
        let host = host.ok_or(Refusal::BadNodes)?;
        if !seen.insert(host) || node.qpn.get() == 0 {
            return Err(Refusal::BadNodes);
        }
        if node.region.is_some_and(|region| !region.is_aligned()) {
            return Err(Refusal::BadRegion);
        }
        if !network.paths().reaches(switch, host) {
            return Err(Refusal::SwitchFailed);
        }
        let (own, host_port) = network.topology().attachment(host);
        let port = match own == switch {
            true => host_port,
            false => match &planned {
                Some(planned) => *planned.get(&host).ok_or(Refusal::SwitchFailed)?,
                None => {
                    let has_port = |port| ports.contains(&port);
                    network
                        .planner()
                        .port(&view, switch, leader, host, has_port)
                }
            },
        };
        if own == switch {
            let member = GroupMember {
                host,
                mac: network.topology().host(host).mac,
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
    let is_root = network.host_at_port(switch, agent.port).is_some();
    let has_leader = members.first().is_some_and(|m| m.spec.ip == agent.leader);
    match routed.is_empty() || is_root && !has_leader {
        true => Err(Refusal::BadNodes),
        false => Ok((routed, members)),
    }
}

/// Virtual queue pair number of a group, which its leader names in the node `named` of the group.
fn virtual_qpn(
    groups: &mut Groups,
    mcst_id: Ipv4Addr,
    named: Option<Node>,
) -> Result<QpNum, Refusal> {
    let named = named.filter(|node| node.ip == mcst_id);
    let wanted = named.ok_or(Refusal::BadQueuePair)?.qpn;
    let chosen = groups
        .resources_mut()
        .choose_virtual_qpn(mcst_id, Some(wanted));
    chosen.map_err(|_| Refusal::BadQueuePair)
}
