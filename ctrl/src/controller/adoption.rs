//! Adoption of groups that are found on switches but were not requested from this controller.
//!
//! A controller that restarts without its saved state finds the groups of its predecessor. It leaves their entries
//! unchanged until every switch has been ready once, so that all parts of each group have been read. It adopts a group
//! if its entries equal those that this controller would write, and removes all others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_roce::registration::RetryTimeout;
use alfirk_roce::wire::{Psn, QpNum};

use super::bridge::{BridgeParameters, Bridges, GroupMember};
use super::capacity::Allocation;
use super::error::SwitchError;
use super::event::{MemberSpec, MemoryRegion};
use super::group::{Group, GroupPart};
use super::position::Position;
use super::registers;
use super::registration::Registration;
use super::session::Task;
use super::{Controller, Owner};
use crate::constants::{REGISTER_AGG, VIRTUAL_RKEY, VIRTUAL_VA};
use crate::strategy::Strategies;
use crate::tables::{GroupEntry, GroupName, ReceiverRewrite, Snapshot, Table};
use crate::topology::SwitchIndex;
use crate::tree::Tree;

/// Part of a group found on one switch, although this controller has not created the group. It is reconstructed from the
/// switch's table entries.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) mcst_id: Ipv4Addr,
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

impl Controller {
    /// Records the groups in the entries `found` on a switch that this controller has not created, and reserves their group
    /// indexes and addresses.
    pub(super) fn record_orphans(&mut self, switch: SwitchIndex, found: &Snapshot) {
        self.discard_orphans(switch);
        if !self.may_adopt {
            return;
        }
        for (index, part) in self.reconstruct_parts(found) {
            let mcst_id = part.mcst_id;
            let is_ours = self.groups.contains_key(&mcst_id);
            let may_be = self.config.group_range.may_be_group(mcst_id);
            let slots = part.receivers.values().map(|delivery| delivery.slot);
            let (paths, slots) = (part.ports.len(), slots.collect());
            let control = &mut self.switches[switch.0];
            if !is_ours && may_be && control.capacity.reserve(index, paths, slots) {
                control.orphans.insert(index, part);
                let parts = self.orphans.entry(mcst_id).or_default();
                parts.insert((switch, index));
                self.addresses.reserve(u32::from(mcst_id));
            }
        }
    }

    /// Reconstructs the group parts on a switch from its entries `found`, by group index.
    fn reconstruct_parts(&self, found: &Snapshot) -> BTreeMap<u16, Orphan> {
        let mut parts = BTreeMap::new();
        let mut hidden = Vec::new();
        for entry in found.table_entries() {
            match self.program.groups.parse(entry) {
                Some((key, group)) => {
                    parts.insert(group.group_index, Orphan::new(key.mcst_id, &group));
                }
                None => hidden.push(entry),
            }
        }
        for entry in hidden {
            if let Some((key, _)) = self.program.mft.parse(entry) {
                if let Some(part) = part_of(&mut parts, key.group) {
                    part.ports.insert(key.port);
                }
            } else if let Some((key, delivery)) = self.program.receivers.parse(entry) {
                if let Some(part) = parts.get_mut(&key.group_index) {
                    part.receivers.insert(key.port, delivery);
                }
            } else if let Some((key, member)) = self.program.members.parse(entry) {
                if let Some(part) = part_of(&mut parts, key.group) {
                    if !member.may_send {
                        part.receive_only.insert(key.src_ip);
                    }
                }
            }
        }
        parts
    }

    pub(super) fn discard_orphans(&mut self, switch: SwitchIndex) {
        let control = &mut self.switches[switch.0];
        for (index, part) in std::mem::take(&mut control.orphans) {
            self.switches[switch.0].capacity.release(index);
            if let Some(parts) = self.orphans.get_mut(&part.mcst_id) {
                parts.remove(&(switch, index));
                if parts.is_empty() {
                    self.orphans.remove(&part.mcst_id);
                    self.release_address(part.mcst_id);
                }
            }
        }
    }

    /// Adopts complete groups and removes all others, once every switch has been ready.
    pub(super) fn adopt_groups(&mut self, now: u64) {
        for (mcst_id, parts) in std::mem::take(&mut self.orphans) {
            let whole = self.reconstruct_group(mcst_id, &parts);
            for (switch, index) in parts {
                self.switches[switch.0].orphans.remove(&index);
                if whole.is_none() {
                    self.remove_part(now, switch, index);
                }
            }
            match whole {
                Some(group) => {
                    let first = &group.parts[0];
                    let read = registers::read(first.group_index, REGISTER_AGG, 0);
                    let switch = first.switch;
                    self.loads.add(&group.tree);
                    self.virtual_qpns.record(mcst_id, group.virtual_qpn);
                    self.groups.insert(mcst_id, Registration::in_use(group));
                    self.note_leader(mcst_id);
                    self.renew_lease(now, mcst_id);
                    self.submit(now, switch, Owner::Adoption(mcst_id), Task::Registers(read));
                }
                None => self.release_address(mcst_id),
            }
        }
        for control in &mut self.switches {
            control.found = Snapshot::default();
        }
    }

    /// Records the position of an adopted group (PSN and MSN last acknowledged to the source), as read from a switch.
    pub(super) fn adoption_done(&mut self, mcst_id: Ipv4Addr, result: Result<u64, SwitchError>) {
        if let (Ok(value), Some(registration)) = (result, self.groups.get_mut(&mcst_id)) {
            let group = registration.group_mut();
            let last_acked = Position::from_register(value);
            group.initial_psn = last_acked.psn.next();
            group.position = last_acked.lower_bound();
        }
    }

    /// Reconstructs a group from its entries; `None` if they differ from those that this controller would write.
    fn reconstruct_group(
        &self,
        mcst_id: Ipv4Addr,
        parts: &BTreeSet<(SwitchIndex, u16)>,
    ) -> Option<Group> {
        let parts = || {
            parts.iter().filter_map(|(switch, index)| {
                let part = self.switches[switch.0].orphans.get(index)?;
                Some((*switch, *index, part))
            })
        };
        let (_, _, first) = parts().next()?;
        let mut members: Vec<GroupMember> = Vec::new();
        for (_, _, part) in parts() {
            for delivery in part.receivers.values() {
                let mut member = self.member(delivery)?;
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
            GroupPart::new(&self.topology, switch, &allocation, ports, &bridges)
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
        let is_whole = group.tree.spans(&self.topology, &hosts)
            && group.parts.iter().all(|on| {
                let found = &self.switches[on.switch.0].found;
                let entries = group.entries(&self.program, on);
                entries.iter().all(|entry| found.contains(entry))
                    && found.contains(&group.publication(&self.program, on))
            });
        is_whole.then_some(group)
    }

    fn member(&self, delivery: &ReceiverRewrite) -> Option<GroupMember> {
        let host = self.topology.host_with_ip(delivery.ip)?;
        let has_region = (delivery.va_xor, delivery.rkey_xor) != (0, 0);
        Some(GroupMember {
            host,
            mac: self.topology.host(host).mac,
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

    fn remove_part(&mut self, now: u64, switch: SwitchIndex, index: u16) {
        let mcst_id = self.part_address(switch, index);
        let control = &mut self.switches[switch.0];
        let deletions = control.found.surplus_deletions(
            &Snapshot::default(),
            self.program.groups.id(),
            |entity| {
                let group = self.program.group_of(entity);
                !group.is_some_and(|group| match mcst_id {
                    Some(mcst_id) => group.is(index, mcst_id),
                    None => group == GroupName::Index(index),
                })
            },
        );
        control.capacity.release(index);
        self.submit(now, switch, Owner::Detached, Task::Write(deletions));
    }

    /// Address of the group that has the index `index` on a switch; `None` if the entries found there do not contain it.
    fn part_address(&self, switch: SwitchIndex, index: u16) -> Option<Ipv4Addr> {
        let found = &self.switches[switch.0].found;
        let groups = found
            .table_entries()
            .filter_map(|entry| self.program.groups.parse(entry));
        let mut shown = groups.filter(|(_, group)| group.group_index == index);
        shown.next().map(|(key, _)| key.mcst_id)
    }
}

/// Finds the part whose group a table key names, by group index or by address.
fn part_of(parts: &mut BTreeMap<u16, Orphan>, group: GroupName) -> Option<&mut Orphan> {
    let mut parts = parts.iter_mut();
    parts
        .find(|(index, part)| group.is(**index, part.mcst_id))
        .map(|(_, part)| part)
}
