//! Desired state of a group on the switches of its tree.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::v1::Update;
use alfirk_roce::registration::RetryTimeout;
use alfirk_roce::wire::{Psn, QpNum};

use super::bridge::{Bridge, Bridges, GroupMember};
use super::capacity::{Allocation, Demand};
use super::error::GroupError;
use super::event::GroupInfo;
use super::position::Position;
use super::registers;
use super::session::Task;
use crate::constants::{VIRTUAL_RKEY, VIRTUAL_VA};
use crate::strategy::{Strategies, Window};
use crate::tables::{
    GroupEntry, GroupKey, GroupName, MemberKey, MftKey, MulticastGroup, PathEntry, Program,
    ReceiverKey, Replica, Snapshot, Table,
};
use crate::topology::{HostIndex, Node, SwitchIndex, Topology};
use crate::tree::Tree;

/// Window of a source in packets while the recorded position of its group may be too old. It is half of the range of serial
/// comparison: with a larger window, Tofino's pipeline would treat old data as data beyond the window.
const WIDE_WINDOW: u32 = 1 << 22;
/// Upper bound of the number of packets that a source has outstanding.
const MAX_OUTSTANDING: u32 = WIDE_WINDOW / 2;

/// A path of a group on one switch: a port of the switch that is in the group's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupPath {
    pub(super) port: u32,
    /// Bridge of the member at the port; `None` if the port leads to another switch.
    bridge: Option<Bridge>,
    /// Receiver slot of the member at the port: its number among all receivers of the switch. 0 if the port leads to
    /// another switch.
    slot: u32,
}

impl GroupPath {
    /// Member at the port; `None` if the port leads to another switch.
    pub(super) fn member(&self) -> Option<&GroupMember> {
        self.bridge.as_ref().map(|bridge| &bridge.member)
    }
}

/// The part of a group on one switch: the index of the group there, and its paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupPart {
    pub(super) switch: SwitchIndex,
    pub(super) group_index: u16,
    /// Paths in the order of path numbers.
    pub(super) paths: Vec<GroupPath>,
}

/// Resources that a group's part on a switch needs. `kept`: receiver slots that ports keep from an old part.
pub(super) fn resource_demand(
    topology: &Topology,
    switch: SwitchIndex,
    ports: impl IntoIterator<Item = u32>,
    kept: BTreeMap<u32, u32>,
) -> Demand {
    let ports: Vec<u32> = ports.into_iter().collect();
    let hosts = ports.iter().copied();
    Demand {
        paths: ports.len(),
        hosts: hosts
            .filter(|port| host_at_port(topology, switch, *port).is_some())
            .collect(),
        kept,
    }
}

fn host_at_port(topology: &Topology, switch: SwitchIndex, port: u32) -> Option<HostIndex> {
    match topology.neighbour_at(switch, port)?.peer.node {
        Node::Host(host) => Some(host),
        Node::Switch(_) => None,
    }
}

/// A multicast group: parameters, members, tree, and the part on each switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) mcst_id: Ipv4Addr,
    /// Destination queue pair number of members' packets; see [`super::virtual_qpns`].
    pub(super) virtual_qpn: QpNum,
    pub(super) initial_psn: Psn,
    pub(super) strategies: Strategies,
    /// Whether a leader host registered the group in band, by packets on the network; if not, it was registered through
    /// the control service.
    pub(super) is_in_band: bool,
    /// ACK timeout and retry count of the members' queue pairs, if known.
    pub(super) retry_timeout: RetryTimeout,
    /// Position (PSN and MSN) that all members are known to have acknowledged. A switch that has lost its registers
    /// starts from it.
    pub(super) position: Position,
    /// Address of the member that was the source when switches were last read; `None` if unknown.
    pub(super) source: Option<Ipv4Addr>,
    pub(super) members: Vec<GroupMember>,
    pub(super) tree: Tree,
    /// Parts in the order of switch indexes.
    pub(super) parts: Vec<GroupPart>,
}

impl Group {
    /// Creates a group without members for a registration in band. The parts of switches are added as agents create them.
    pub(super) fn empty(
        mcst_id: Ipv4Addr,
        virtual_qpn: QpNum,
        initial_psn: Psn,
        strategies: Strategies,
    ) -> Group {
        Group {
            mcst_id,
            virtual_qpn,
            initial_psn,
            strategies,
            is_in_band: true,
            retry_timeout: RetryTimeout::UNKNOWN,
            position: Position::before(initial_psn),
            source: None,
            members: Vec::new(),
            tree: Tree::from_ports(BTreeMap::new()),
            parts: Vec::new(),
        }
    }

    /// Adds the part of a switch. `part`: the switch's ports in the tree; `members`: those attached to the switch.
    pub(super) fn add_part(&mut self, part: &Tree, on: GroupPart, members: Vec<GroupMember>) {
        self.tree.join(part);
        let at = self.parts.partition_point(|o| o.switch < on.switch);
        self.parts.insert(at, on);
        self.members.extend(members);
    }

    pub(super) fn info(&self) -> GroupInfo {
        GroupInfo {
            mcst_id: self.mcst_id,
            remote_qpn: self.virtual_qpn,
            initial_psn: self.initial_psn,
            remote_va: VIRTUAL_VA,
            remote_rkey: VIRTUAL_RKEY,
            members: self.members.len(),
            switches: self.parts.len(),
        }
    }

    /// Tasks that initialise the registers of the group on one switch, before it is published. Memory regions announced for
    /// receivers with `kept` slots are not changed.
    pub(super) fn registers(
        &self,
        topology: &Topology,
        on: &GroupPart,
        kept: &BTreeMap<u32, u32>,
    ) -> Vec<Task> {
        let source = self.port_towards_source(topology, on.switch);
        self.registers_from(self.position, source, on, kept)
    }

    /// Task that initialises the path registers of the group on one switch, as if all members had acknowledged
    /// `position`. `source`: port that leads to the source, 0 if there is none.
    pub(super) fn init_group(&self, on: &GroupPart, position: Position, source: u32) -> Task {
        let paths = u8::try_from(on.paths.len()).expect("paths are checked against the pipeline");
        Task::Registers(registers::init_group(
            on.group_index,
            paths,
            position,
            source,
        ))
    }

    /// Tasks that initialise the registers as [`Group::registers`] does, but as if all members had acknowledged `position`, and
    /// with the port `source` towards the source.
    pub(super) fn registers_from(
        &self,
        position: Position,
        source: u32,
        on: &GroupPart,
        kept: &BTreeMap<u32, u32>,
    ) -> Vec<Task> {
        let mut tasks = vec![self.init_group(on, position, source)];
        let fresh = on.slots().filter(|(port, _)| !kept.contains_key(port));
        // One packet sets consecutive slots.
        let mut runs: Vec<(u32, u8)> = Vec::new();
        let fresh: BTreeSet<u32> = fresh.map(|(_, slot)| slot).collect();
        for slot in fresh {
            match runs.last_mut() {
                Some((first, count)) if *first + u32::from(*count) == slot && *count < u8::MAX => {
                    *count += 1;
                }
                _ => runs.push((slot, 1)),
            }
        }
        tasks.extend(runs.into_iter().map(|(first, count)| {
            Task::Registers(registers::init_regions(first, count, position))
        }));
        tasks
    }

    /// Port of a switch that leads to the source; 0 if unknown.
    pub(super) fn port_towards_source(&self, topology: &Topology, of: SwitchIndex) -> u32 {
        let port = self
            .source
            .and_then(|source| self.port_towards(topology, of, source));
        port.unwrap_or(0)
    }

    /// Port of a switch that leads to the member `source` along the tree; `None` if the tree does not connect them.
    pub(super) fn port_towards(
        &self,
        topology: &Topology,
        of: SwitchIndex,
        source: Ipv4Addr,
    ) -> Option<u32> {
        let is_source =
            |path: &&GroupPath| path.member().is_some_and(|member| member.spec.ip == source);
        let leaf = |on: &GroupPart| {
            on.paths
                .iter()
                .find(is_source)
                .map(|path| (on.switch, path.port))
        };
        // Traverse the tree from the member's switch: each switch's port leads to its predecessor.
        let mut to_do: Vec<(SwitchIndex, u32)> = self.parts.iter().filter_map(leaf).collect();
        let mut seen = BTreeSet::new();
        while let Some((switch, port)) = to_do.pop() {
            if switch == of {
                return Some(port);
            }
            if !seen.insert(switch) {
                continue;
            }
            let paths = self.part_on(switch).map_or(&[][..], |on| &on.paths);
            to_do.extend(paths.iter().filter_map(|path| {
                let peer = topology.neighbour_at(switch, path.port)?.peer;
                match peer.node {
                    Node::Switch(next) => Some((next, peer.port)),
                    Node::Host(_) => None,
                }
            }));
        }
        None
    }

    /// Window of the source in packets.
    pub(super) fn window(&self) -> u32 {
        self.strategies.window.get().min(MAX_OUTSTANDING)
    }

    /// Entry that publishes the group on one switch with a wide window. It is used after a loss of registers, while the
    /// source may be further ahead of the group's recorded position than its window.
    pub(super) fn wide_publication(&self, program: &Program, on: &GroupPart) -> Update {
        let wide = Strategies {
            window: self.strategies.window.max(Window::at_least(WIDE_WINDOW)),
            ..self.strategies
        };
        self.publication_with(program, on, wide)
    }

    /// The group's part on one switch.
    pub(super) fn part_on(&self, switch: SwitchIndex) -> Option<&GroupPart> {
        let at = self.parts.binary_search_by_key(&switch, |on| on.switch);
        at.ok().map(|at| &self.parts[at])
    }

    /// Records that all members have acknowledged `position`, unless a newer position is recorded.
    pub(super) fn advance(&mut self, position: Position) {
        if self.position.psn.precedes(position.psn) {
            self.position = position;
        }
    }

    /// Entries that map ports to paths on one switch.
    pub(super) fn paths(&self, program: &Program, on: &GroupPart) -> Vec<Update> {
        let group_index = on.group_index;
        let entries = on.numbered_paths().map(|(path_index, path)| {
            let key = MftKey {
                group: self.group_name(program, on),
                port: path.port,
            };
            let entry = PathEntry {
                group_index: Some(group_index),
                path_index,
                absent: program.mft.absent(path_index.into(), on.paths.len()),
                is_host: path.bridge.is_some(),
            };
            program.mft.insert(&key, &entry)
        });
        entries.collect()
    }

    /// All entries of the group on one switch except the publication, in the order of writing: egress tables, replication,
    /// ingress tables.
    pub(super) fn entries(&self, program: &Program, on: &GroupPart) -> Vec<Update> {
        let group_index = on.group_index;
        let mut updates = Vec::new();
        for (path, bridge) in on.bridges() {
            let port = path.port;
            let key = ReceiverKey { group_index, port };
            let delivery = bridge.delivery(path.slot);
            updates.push(program.receivers.insert(&key, &delivery));
        }
        updates.push(
            MulticastGroup {
                group_index,
                replicas: on
                    .numbered_paths()
                    .map(|(path_index, path)| Replica {
                        port: path.port,
                        path_index,
                    })
                    .collect(),
            }
            .insert(),
        );
        for (path, bridge) in on.bridges() {
            let key = MemberKey {
                group: self.group_name(program, on),
                port: path.port,
                src_ip: bridge.member.spec.ip,
            };
            updates.push(program.members.insert(&key, &bridge.entry()));
        }
        updates.extend(self.paths(program, on));
        updates
    }

    /// Updates that delete what [`Group::entries`] inserts, in reverse order.
    pub(super) fn removal(&self, program: &Program, on: &GroupPart) -> Vec<Update> {
        let (group_index, group) = (on.group_index, self.group_name(program, on));
        let mut updates = Vec::new();
        for path in &on.paths {
            let port = path.port;
            updates.push(program.mft.delete(&MftKey { group, port }));
        }
        for (path, bridge) in on.bridges() {
            let (port, src_ip) = (path.port, bridge.member.spec.ip);
            updates.push(program.members.delete(&MemberKey {
                group,
                port,
                src_ip,
            }));
        }
        updates.push(MulticastGroup::delete(group_index));
        for (path, _) in on.bridges() {
            let port = path.port;
            updates.push(program.receivers.delete(&ReceiverKey { group_index, port }));
        }
        updates
    }

    /// Entry that publishes the group on one switch. Once it is written, the switch processes packets of the group.
    pub(super) fn publication(&self, program: &Program, on: &GroupPart) -> Update {
        self.publication_with(program, on, self.strategies)
    }

    fn publication_with(
        &self,
        program: &Program,
        on: &GroupPart,
        strategies: Strategies,
    ) -> Update {
        let entry = GroupEntry {
            group_index: on.group_index,
            paths: u8::try_from(on.paths.len()).expect("paths are checked against the pipeline"),
            virtual_qpn: self.virtual_qpn,
            strategies,
        };
        program.groups.insert(&self.group_key(), &entry)
    }

    /// Update that withdraws the group from a switch. Once it is applied, the switch drops packets of the group.
    pub(super) fn withdrawal(&self, program: &Program) -> Update {
        program.groups.delete(&self.group_key())
    }

    /// Whether the entries found on a switch publish the group, under any index.
    pub(super) fn is_published(&self, program: &Program, found: &Snapshot) -> bool {
        let mut groups = found
            .table_entries()
            .filter_map(|e| program.groups.parse(e));
        groups.any(|(key, _)| key == self.group_key())
    }

    /// Checks that the group's entries satisfy the constraints of the program.
    pub(super) fn check_constraints(&self, program: &Program) -> Result<(), GroupError> {
        let mut all = self.parts.iter();
        all.try_for_each(|on| self.check_constraints_on(program, on))
    }

    /// Checks that the group's entries on one switch satisfy the constraints of the program.
    pub(super) fn check_constraints_on(
        &self,
        program: &Program,
        on: &GroupPart,
    ) -> Result<(), GroupError> {
        let mut updates = self.entries(program, on);
        updates.push(self.publication(program, on));
        Ok(program.constraints().check(&updates)?)
    }

    /// Identification of the group in table keys of one switch: its index or its address, depending on the target.
    fn group_name(&self, program: &Program, on: &GroupPart) -> GroupName {
        program.target.group_name(on.group_index, self.mcst_id)
    }

    fn group_key(&self) -> GroupKey {
        GroupKey {
            mcst_id: self.mcst_id,
        }
    }
}

impl GroupPart {
    /// Creates a group's part on a switch. The ports, in ascending order, become paths 0, 1, ...
    pub(super) fn new(
        topology: &Topology,
        switch: SwitchIndex,
        allocation: &Allocation,
        ports: impl IntoIterator<Item = u32>,
        bridges: &Bridges,
    ) -> GroupPart {
        let ports: Vec<u32> = ports.into_iter().collect();
        let paths = ports.into_iter().map(|port| {
            let host = host_at_port(topology, switch, port);
            GroupPath {
                port,
                bridge: host.and_then(|host| bridges.for_host(host)),
                slot: allocation.slots.get(&port).copied().unwrap_or(0),
            }
        });
        GroupPart {
            switch,
            group_index: allocation.index,
            paths: paths.collect(),
        }
    }

    fn numbered_paths(&self) -> impl Iterator<Item = (u8, &GroupPath)> {
        (0..=u8::MAX).zip(&self.paths)
    }

    /// Yields port and receiver slot of each member at the switch.
    pub(super) fn slots(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let members = self.paths.iter().filter(|path| path.bridge.is_some());
        members.map(|path| (path.port, path.slot))
    }

    fn bridges(&self) -> impl Iterator<Item = (&GroupPath, &Bridge)> {
        self.paths
            .iter()
            .filter_map(|path| Some((path, path.bridge.as_ref()?)))
    }
}
