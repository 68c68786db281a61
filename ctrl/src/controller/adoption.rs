//! Adoption of groups that are found on switches but were not requested from this controller.
//!
//! A controller that restarts without its saved state finds the groups of its predecessor. It leaves their entries
//! unchanged until every switch has been ready once, so that all parts of each group have been read. It adopts a group
//! if its entries equal those that this controller would write, and removes all others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::v1::Update;
use alfirk_roce::registration::RetryTimeout;
use alfirk_roce::wire::{Psn, QpNum};

use super::bridge::{BridgeParameters, Bridges, GroupMember};
use super::capacity::Allocation;
use super::error::SwitchError;
use super::event::{MemberSpec, MemoryRegion};
use super::group::{Group, GroupPart};
use super::groups::Groups;
use super::network::Network;
use super::position::Position;
use super::registers;
use super::registration::Registration;
use super::session::Task;
use super::switches::Owner;
use crate::constants::{REGISTER_AGG, VIRTUAL_RKEY, VIRTUAL_VA};
use crate::strategy::Strategies;
use crate::tables::{GroupEntry, GroupName, Program, ReceiverRewrite, Snapshot, Table};
use crate::topology::{SwitchIndex, Topology};
use crate::tree::Tree;

/// Progress of the adoption.
pub(super) enum Adoption {
    /// Parts of groups are collected until every switch has been ready once.
    Collecting(Orphans),
    /// Groups have been adopted or removed. Groups that are found later are removed.
    Ended,
}

/// Parts of groups found on switches that this controller did not write.
pub(super) struct Orphans {
    switches: Vec<OrphansOnSwitch>,
    /// Switch and index of the parts of each group.
    groups: BTreeMap<Ipv4Addr, BTreeSet<(SwitchIndex, u16)>>,
}

/// Parts of groups found on one switch.
#[derive(Default)]
struct OrphansOnSwitch {
    /// Entries that the switch had when its session opened.
    found: Snapshot,
    /// Parts by group index.
    parts: BTreeMap<u16, Orphan>,
}

/// Part of a group found on one switch, although this controller has not created the group. It is reconstructed from the
/// switch's table entries.
#[derive(Debug)]
struct Orphan {
    mcst_id: Ipv4Addr,
    virtual_qpn: QpNum,
    strategies: Strategies,
    ports: BTreeSet<u32>,
    /// How the switch rewrites packets for the receiver at each port.
    receivers: BTreeMap<u32, ReceiverRewrite>,
    /// Addresses of members that are not allowed to send.
    receive_only: BTreeSet<Ipv4Addr>,
}

impl Orphan {
    fn new(mcst_id: Ipv4Addr, group: &GroupEntry) -> Orphan {
        Orphan {
            mcst_id,
            virtual_qpn: group.virtual_qpn,
            strategies: group.strategies,
            ports: BTreeSet::new(),
            receivers: BTreeMap::new(),
            receive_only: BTreeSet::new(),
        }
    }
}

impl Adoption {
    /// Starts to collect parts of groups on the switches of a topology.
    pub(super) fn new(topology: &Topology) -> Adoption {
        let switches = topology.switches().iter();
        Adoption::Collecting(Orphans {
            switches: switches.map(|_| OrphansOnSwitch::default()).collect(),
            groups: BTreeMap::new(),
        })
    }

    fn orphans(&mut self) -> Option<&mut Orphans> {
        match self {
            Adoption::Collecting(orphans) => Some(orphans),
            Adoption::Ended => None,
        }
    }

    /// Whether a group is one that was found on a switch and may be adopted.
    pub(super) fn has_orphan(&self, switch: SwitchIndex, group: GroupName) -> bool {
        let Adoption::Collecting(orphans) = self else {
            return false;
        };
        let mut parts = orphans.switches[switch.0].parts.iter();
        parts.any(|(index, part)| group.is(*index, part.mcst_id))
    }

    /// Records the groups in the entries `found` on a switch that this controller has not created, and reserves their group
    /// indexes and addresses.
    pub(super) fn record(
        &mut self,
        network: &Network,
        groups: &mut Groups,
        switch: SwitchIndex,
        found: &Snapshot,
    ) {
        self.discard(groups, switch);
        let Some(orphans) = self.orphans() else {
            return;
        };
        for (index, part) in reconstruct_parts(network.program(), found) {
            let mcst_id = part.mcst_id;
            let is_ours = groups.contains(mcst_id);
            let may_be = network.config().group_range.may_be_group(mcst_id);
            let slots = part.receivers.values().map(|delivery| delivery.slot);
            let (paths, slots) = (part.ports.len(), slots.collect());
            let resources = groups.resources_mut();
            if !is_ours && may_be && resources.reserve(switch, index, paths, slots) {
                orphans.switches[switch.0].parts.insert(index, part);
                let parts = orphans.groups.entry(mcst_id).or_default();
                parts.insert((switch, index));
                groups.resources_mut().reserve_address(mcst_id);
            }
        }
    }

    /// Stores the entries that a switch had when its session opened, once the switch is ready.
    pub(super) fn keep_entries(&mut self, switch: SwitchIndex, found: Snapshot) {
        if let Some(orphans) = self.orphans() {
            orphans.switches[switch.0].found = found;
        }
    }

    /// Discards the parts of groups and the entries found on a switch.
    pub(super) fn discard(&mut self, groups: &mut Groups, switch: SwitchIndex) {
        let Some(orphans) = self.orphans() else {
            return;
        };
        for (index, part) in std::mem::take(&mut orphans.switches[switch.0]).parts {
            groups.resources_mut().release(switch, index);
            if let Some(parts) = orphans.groups.get_mut(&part.mcst_id) {
                parts.remove(&(switch, index));
                if parts.is_empty() {
                    orphans.groups.remove(&part.mcst_id);
                    groups.resources_mut().release_address(part.mcst_id);
                }
            }
        }
    }

    /// Ends the adoption, once every switch has been ready: adopts complete groups and removes all others. Returns the
    /// adopted groups; `None` if the adoption has ended before.
    pub(super) fn adopt(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &mut Groups,
    ) -> Option<Vec<Ipv4Addr>> {
        let Adoption::Collecting(orphans) = std::mem::replace(self, Adoption::Ended) else {
            return None;
        };
        let mut adopted = Vec::new();
        for (mcst_id, parts) in &orphans.groups {
            let mcst_id = *mcst_id;
            match orphans.reconstruct_group(network, mcst_id, parts) {
                Some(group) => {
                    let first = &group.parts[0];
                    let read = registers::read(first.group_index, REGISTER_AGG, 0);
                    let switch = first.switch;
                    network.add_load(&group.tree);
                    groups
                        .resources_mut()
                        .record_virtual_qpn(mcst_id, group.virtual_qpn);
                    groups.insert(Registration::in_use(group));
                    network.submit(now, switch, Owner::Adoption(mcst_id), Task::Registers(read));
                    adopted.push(mcst_id);
                }
                None => {
                    for (switch, index) in parts {
                        let deletions = orphans.deletions(network.program(), *switch, *index);
                        groups.resources_mut().release(*switch, *index);
                        network.submit(now, *switch, Owner::Detached, Task::Write(deletions));
                    }
                    groups.resources_mut().release_address(mcst_id);
                }
            }
        }
        Some(adopted)
    }
}

/// Records the position of an adopted group (PSN and MSN last acknowledged to the source), as read from a switch.
pub(super) fn position_read(
    groups: &mut Groups,
    mcst_id: Ipv4Addr,
    result: Result<u64, SwitchError>,
) {
    if let (Ok(value), Some(registration)) = (result, groups.get_mut(mcst_id)) {
        let group = registration.group_mut();
        let last_acked = Position::from_register(value);
        group.initial_psn = last_acked.psn.next();
        group.position = last_acked.lower_bound();
    }
}

impl Orphans {
    /// Reconstructs a group from its entries; `None` if they differ from those that this controller would write.
    fn reconstruct_group(
        &self,
        network: &Network,
        mcst_id: Ipv4Addr,
        parts: &BTreeSet<(SwitchIndex, u16)>,
    ) -> Option<Group> {
        let parts = || {
            parts.iter().filter_map(|(switch, index)| {
                let part = self.switches[switch.0].parts.get(index)?;
                Some((*switch, *index, part))
            })
        };
        let (_, _, first) = parts().next()?;
        let mut members: Vec<GroupMember> = Vec::new();
        for (_, _, part) in parts() {
            for delivery in part.receivers.values() {
                let mut member = member(network.topology(), delivery)?;
                member.spec.may_send = !part.receive_only.contains(&member.spec.ip);
                members.push(member);
            }
        }
        members.sort_by_key(|member| member.host);
        let ports = parts().map(|(switch, _, part)| (switch, part.ports.clone()));
        let tree = Tree::from_ports(ports.collect());
        let parameters = BridgeParameters::new(mcst_id, first.virtual_qpn, first.strategies);
        // A controller of this version would have refused a group without a solution.
        let bridges = Bridges::solve(&parameters, &members).ok()?;
        let group_parts = parts().map(|(switch, index, part)| {
            let slots = part.receivers.iter();
            let allocation = Allocation {
                index,
                slots: slots.map(|(port, to)| (*port, to.slot)).collect(),
            };
            let ports = tree.ports_on(switch);
            GroupPart::new(network.topology(), switch, &allocation, ports, &bridges)
        });
        let group = Group {
            mcst_id,
            virtual_qpn: first.virtual_qpn,
            initial_psn: Psn::new(0),
            position: Position::before(Psn::new(0)),
            retry_timeout: RetryTimeout::UNKNOWN,
            strategies: first.strategies,
            // Entries do not record the origin. `true` would count the group towards the host's limit.
            is_in_band: false,
            parts: group_parts.collect(),
            source: None,
            members,
            tree,
        };
        let hosts: Vec<_> = group.members.iter().map(|member| member.host).collect();
        let is_whole = group.tree.spans(network.topology(), &hosts)
            && group.parts.iter().all(|on| {
                let found = &self.switches[on.switch.0].found;
                let entries = group.entries(network.program(), on);
                entries.iter().all(|entry| found.contains(entry))
                    && found.contains(&group.publication(network.program(), on))
            });
        is_whole.then_some(group)
    }

    /// Updates that delete the entries of a group's part from its switch.
    fn deletions(&self, program: &Program, switch: SwitchIndex, index: u16) -> Vec<Update> {
        let found = &self.switches[switch.0].found;
        let groups = found
            .table_entries()
            .filter_map(|entry| program.groups.parse(entry));
        let mut shown = groups.filter(|(_, group)| group.group_index == index);
        let mcst_id = shown.next().map(|(key, _)| key.mcst_id);
        found.surplus_deletions(&Snapshot::default(), program.groups.id(), |entity| {
            let group = program.group_of(entity);
            !group.is_some_and(|group| match mcst_id {
                Some(mcst_id) => group.is(index, mcst_id),
                None => group == GroupName::Index(index),
            })
        })
    }
}

/// Reconstructs the group parts on a switch from its entries `found`, by group index.
fn reconstruct_parts(program: &Program, found: &Snapshot) -> BTreeMap<u16, Orphan> {
    let mut parts = BTreeMap::new();
    let mut hidden = Vec::new();
    for entry in found.table_entries() {
        match program.groups.parse(entry) {
            Some((key, group)) => {
                parts.insert(group.group_index, Orphan::new(key.mcst_id, &group));
            }
            None => hidden.push(entry),
        }
    }
    for entry in hidden {
        if let Some((key, _)) = program.mft.parse(entry) {
            if let Some(part) = part_of(&mut parts, key.group) {
                part.ports.insert(key.port);
            }
        } else if let Some((key, delivery)) = program.receivers.parse(entry) {
            if let Some(part) = parts.get_mut(&key.group_index) {
                part.receivers.insert(key.port, delivery);
            }
        } else if let Some((key, member)) = program.members.parse(entry) {
            if let Some(part) = part_of(&mut parts, key.group) {
                if !member.may_send {
                    part.receive_only.insert(key.src_ip);
                }
            }
        }
    }
    parts
}

/// The member to which a switch delivers packets by a rewrite; `None` if the topology has no such host.
fn member(topology: &Topology, delivery: &ReceiverRewrite) -> Option<GroupMember> {
    let host = topology.host_with_ip(delivery.ip)?;
    let has_region = (delivery.va_xor, delivery.rkey_xor) != (0, 0);
    Some(GroupMember {
        host,
        mac: topology.host(host).mac,
        spec: MemberSpec {
            ip: delivery.ip,
            qpn: delivery.qpn,
            region: has_region.then_some(MemoryRegion {
                va: delivery.va_xor ^ VIRTUAL_VA,
                rkey: delivery.rkey_xor ^ VIRTUAL_RKEY,
                // Entries do not contain the length; one byte is the minimum.
                len: 1,
            }),
            may_send: true,
        },
    })
}

/// Finds the part whose group a table key names, by group index or by address.
fn part_of(parts: &mut BTreeMap<u16, Orphan>, group: GroupName) -> Option<&mut Orphan> {
    let mut parts = parts.iter_mut();
    parts
        .find(|(index, part)| group.is(**index, part.mcst_id))
        .map(|(_, part)| part)
}
