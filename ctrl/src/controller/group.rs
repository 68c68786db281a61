//! A group as it is to be on the switches of its tree.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::v1::Update;
use alfirk_roce::registration::Patience;
use alfirk_roce::wire::{Psn, QpNum};

use super::bridge::{Bridge, Bridges, GroupMember};
use super::error::GroupError;
use super::event::GroupInfo;
use super::position::Position;
use super::registers;
use super::room::{Granted, Wanted};
use super::session::Task;
use crate::constants::{VIRTUAL_RKEY, VIRTUAL_VA};
use crate::strategy::{Strategies, Window};
use crate::tables::{
    GroupEntry, GroupKey, GroupName, MemberKey, MftKey, MulticastGroup, PathEntry, Program,
    ReceiverKey, Replica, Snapshot, Table,
};
use crate::topology::{HostIndex, Node, SwitchIndex, Topology};
use crate::tree::Tree;

/// Packets that a source may be ahead of a position that may be old: half of what has an order, as Tofino's pipeline takes data that far
/// behind for data ahead.
const WIDE_WINDOW: u32 = 1 << 22;
/// More packets than any queue pair has outstanding, and half of the above.
const MOST_OUTSTANDING: u32 = WIDE_WINDOW / 2;

/// A path of a group on one switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) port: u32,
    /// The bridge to the member behind the port, and its number among all receivers of the switch; `None` when another switch
    /// is.
    bridge: Option<Bridge>,
    slot: u32,
}

impl Path {
    /// The member behind the port; `None` when another switch is.
    pub(super) fn member(&self) -> Option<&GroupMember> {
        self.bridge.as_ref().map(|bridge| &bridge.member)
    }
}

/// A group on one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupPart {
    pub(super) switch: SwitchIndex,
    pub(super) group_index: u16,
    /// In path order.
    pub(super) paths: Vec<Path>,
}

/// What a part of a tree takes of a switch.
pub(super) fn wanted(
    topology: &Topology,
    switch: SwitchIndex,
    ports: impl IntoIterator<Item = u32>,
    kept: BTreeMap<u32, u32>,
) -> Wanted {
    let ports: Vec<u32> = ports.into_iter().collect();
    let hosts = ports.iter().copied();
    Wanted {
        paths: ports.len(),
        hosts: hosts
            .filter(|port| host_behind(topology, switch, *port).is_some())
            .collect(),
        kept,
    }
}

fn host_behind(topology: &Topology, switch: SwitchIndex, port: u32) -> Option<HostIndex> {
    match topology.behind(switch, port)?.peer.node {
        Node::Host(host) => Some(host),
        Node::Switch(_) => None,
    }
}

/// A group with its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) mcst_id: Ipv4Addr,
    /// What members address; see [`super::virtual_qpns`].
    pub(super) virtual_qpn: QpNum,
    pub(super) initial_psn: Psn,
    pub(super) strategies: Strategies,
    /// A leader host has asked for it in band, rather than a user of the control service.
    pub(super) in_band: bool,
    /// When the queue pairs of its members give up, as far as that is known.
    pub(super) patience: Patience,
    /// What every member is known to have acknowledged; the state of a switch that has lost its own starts from it.
    pub(super) position: Position,
    /// Who was the source when switches were asked last.
    pub(super) source: Option<Ipv4Addr>,
    pub(super) members: Vec<GroupMember>,
    pub(super) tree: Tree,
    /// In rising order.
    pub(super) switches: Vec<GroupPart>,
}

impl Group {
    /// A group without members that a leader asks for, to be [grown](Group::grow).
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
            in_band: true,
            patience: Patience::UNKNOWN,
            position: Position::before(initial_psn),
            source: None,
            members: Vec::new(),
            tree: Tree::from_ports(BTreeMap::new()),
            switches: Vec::new(),
        }
    }

    /// Adds one switch with the members that hang from it.
    pub(super) fn grow(&mut self, part: &Tree, on: GroupPart, members: Vec<GroupMember>) {
        self.tree.join(part);
        let at = self.switches.partition_point(|o| o.switch < on.switch);
        self.switches.insert(at, on);
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
            switches: self.switches.len(),
        }
    }

    /// Sets the registers of the group on one switch; packets do not see them yet.  What receivers whose slots are `kept`
    /// were announced of their memory stays.
    pub(super) fn registers(
        &self,
        topology: &Topology,
        on: &GroupPart,
        kept: &BTreeMap<u32, u32>,
    ) -> Vec<Task> {
        let source = self.port_of_source(topology, on.switch);
        self.registers_from(self.position, source, on, kept)
    }

    /// Sets the registers of the group's paths on one switch: all members have `position`, and the source is behind the port
    /// `source`, 0 if there was none yet.
    pub(super) fn init_group(&self, on: &GroupPart, position: Position, source: u32) -> Task {
        let paths = u8::try_from(on.paths.len()).expect("paths are checked against the pipeline");
        Task::Registers(registers::init_group(
            on.group_index,
            paths,
            position,
            source,
        ))
    }

    /// [`Group::registers`] where position and port of the source are known.
    pub(super) fn registers_from(
        &self,
        position: Position,
        source: u32,
        on: &GroupPart,
        kept: &BTreeMap<u32, u32>,
    ) -> Vec<Task> {
        let mut tasks = vec![self.init_group(on, position, source)];
        let fresh = on.slots().filter(|(port, _)| !kept.contains_key(port));
        // Consecutive slots are set by one packet.
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

    /// The port of a switch behind which the source is, as far as that is known; 0 else.
    pub(super) fn port_of_source(&self, topology: &Topology, of: SwitchIndex) -> u32 {
        let port = self
            .source
            .and_then(|source| self.port_of(topology, of, source));
        port.unwrap_or(0)
    }

    /// The port of a switch behind which a member is, along the tree.
    pub(super) fn port_of(
        &self,
        topology: &Topology,
        of: SwitchIndex,
        source: Ipv4Addr,
    ) -> Option<u32> {
        let is_source = |path: &&Path| path.member().is_some_and(|member| member.spec.ip == source);
        let leaf = |on: &GroupPart| {
            on.paths
                .iter()
                .find(is_source)
                .map(|path| (on.switch, path.port))
        };
        // From the source's switch along the tree: each switch's port is that towards the one before.
        let mut to_do: Vec<(SwitchIndex, u32)> = self.switches.iter().filter_map(leaf).collect();
        let mut seen = BTreeSet::new();
        while let Some((switch, port)) = to_do.pop() {
            if switch == of {
                return Some(port);
            }
            if !seen.insert(switch) {
                continue;
            }
            let paths = self.on(switch).map_or(&[][..], |on| &on.paths);
            to_do.extend(paths.iter().filter_map(|path| {
                let peer = topology.behind(switch, path.port)?.peer;
                match peer.node {
                    Node::Switch(next) => Some((next, peer.port)),
                    Node::Host(_) => None,
                }
            }));
        }
        None
    }

    /// How far a source is ahead of what was acknowledged to it at most, in packets.
    pub(super) fn window(&self) -> u32 {
        self.strategies.window.get().min(MOST_OUTSTANDING)
    }

    /// The group's entry while its position may be older than the source's window, after a switch has lost its registers.
    pub(super) fn wide_publication(&self, program: &Program, on: &GroupPart) -> Update {
        let wide = Strategies {
            window: self.strategies.window.max(Window::at_least(WIDE_WINDOW)),
            ..self.strategies
        };
        self.publication_with(program, on, wide)
    }

    /// The group's part on one switch.
    pub(super) fn on(&self, switch: SwitchIndex) -> Option<&GroupPart> {
        let at = self.switches.binary_search_by_key(&switch, |on| on.switch);
        at.ok().map(|at| &self.switches[at])
    }

    /// Notes that every member has acknowledged all up to `position`.
    pub(super) fn advance(&mut self, position: Position) {
        if self.position.psn.precedes(position.psn) {
            self.position = position;
        }
    }

    /// The entries that say which ports are which paths on one switch.
    pub(super) fn paths(&self, program: &Program, on: &GroupPart) -> Vec<Update> {
        let group_index = on.group_index;
        let entries = on.numbered().map(|(path_index, path)| {
            let key = MftKey {
                group: self.name(program, on),
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

    /// Everything of the group on one switch but the entry that makes it visible: egress, replication, ingress.
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
                    .numbered()
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
                group: self.name(program, on),
                port: path.port,
                src_ip: bridge.member.spec.ip,
            };
            updates.push(program.members.insert(&key, &bridge.entry()));
        }
        updates.extend(self.paths(program, on));
        updates
    }

    /// Takes away what [`Group::entries`] adds, in reverse.
    pub(super) fn removal(&self, program: &Program, on: &GroupPart) -> Vec<Update> {
        let (group_index, group) = (on.group_index, self.name(program, on));
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

    /// Makes the group visible to packets.
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
        program.groups.insert(&self.key(), &entry)
    }

    /// Hides the group from packets.
    pub(super) fn withdrawal(&self, program: &Program) -> Update {
        program.groups.delete(&self.key())
    }

    /// Whether a switch that holds this shows the group to packets, under whatever index.
    pub(super) fn is_shown(&self, program: &Program, found: &Snapshot) -> bool {
        let mut groups = found
            .table_entries()
            .filter_map(|e| program.groups.parse(e));
        groups.any(|(key, _)| key == self.key())
    }

    /// Whether the group's entries are what the program allows.
    pub(super) fn check(&self, program: &Program) -> Result<(), GroupError> {
        let mut all = self.switches.iter();
        all.try_for_each(|on| self.check_on(program, on))
    }

    /// The same for one switch.
    pub(super) fn check_on(&self, program: &Program, on: &GroupPart) -> Result<(), GroupError> {
        let mut updates = self.entries(program, on);
        updates.push(self.publication(program, on));
        Ok(program.constraints().check(&updates)?)
    }

    /// What keys know the group by on one switch.
    fn name(&self, program: &Program, on: &GroupPart) -> GroupName {
        program.target.group_name(on.group_index, self.mcst_id)
    }

    fn key(&self) -> GroupKey {
        GroupKey {
            mcst_id: self.mcst_id,
        }
    }
}

impl GroupPart {
    /// Numbers the ports of a tree on one switch; ports in rising order are paths 0, 1, ...
    pub(super) fn new(
        topology: &Topology,
        switch: SwitchIndex,
        granted: &Granted,
        ports: impl IntoIterator<Item = u32>,
        bridges: &Bridges,
    ) -> GroupPart {
        let ports: Vec<u32> = ports.into_iter().collect();
        let paths = ports.into_iter().map(|port| {
            let host = host_behind(topology, switch, port);
            Path {
                port,
                bridge: host.and_then(|host| bridges.of(host)),
                slot: granted.slots.get(&port).copied().unwrap_or(0),
            }
        });
        GroupPart {
            switch,
            group_index: granted.index,
            paths: paths.collect(),
        }
    }

    fn numbered(&self) -> impl Iterator<Item = (u8, &Path)> {
        (0..=u8::MAX).zip(&self.paths)
    }

    /// The slots of the members that hang from the switch, by port.
    pub(super) fn slots(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let members = self.paths.iter().filter(|path| path.bridge.is_some());
        members.map(|path| (path.port, path.slot))
    }

    fn bridges(&self) -> impl Iterator<Item = (&Path, &Bridge)> {
        self.paths
            .iter()
            .filter_map(|path| Some((path, path.bridge.as_ref()?)))
    }
}
