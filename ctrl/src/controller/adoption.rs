//! Groups that are found in switches though nobody has asked this controller for them.
//!
//! A controller that starts anew without its saved state meets the groups of its predecessor.  It leaves their
//! entries alone until every switch has been there once, so that all parts of each group are known.  Those that are whole,
//! entry for entry what this controller would have written, it takes over; what is left is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use alfirk_roce::wire::{Psn, QpNum};

use super::error::SwitchError;
use super::event::{MemberSpec, MemoryRegion};
use super::group::{Group, GroupMember, MembersByHost, OnSwitch};
use super::position::Position;
use super::registers::RegisterControl;
use super::registration::Registration;
use super::room::Granted;
use super::session::Task;
use super::{Controller, Owner};
use crate::constants::{REGISTER_AGG, VIRTUAL_RKEY, VIRTUAL_VA};
use crate::strategy::Strategies;
use crate::tables::{Delivery, Snapshot, Table};
use crate::topology::SwitchIndex;
use crate::tree::Tree;

impl Controller {
    /// Notes which groups of a switch are nobody's, and keeps their indexes and addresses from being used.
    pub(super) fn note_orphans(&mut self, switch: SwitchIndex, found: &Snapshot) {
        self.forget_orphans(switch);
        if !self.adopts {
            return;
        }
        for entry in found.table_entries() {
            let Some((key, group)) = self.program.groups.parse(entry) else {
                continue;
            };
            let is_ours = self.groups.contains_key(&key.mcst_id);
            let may_be = self.config.group_range.may_be_group(key.mcst_id);
            let index = group.group_index;
            let (paths, slots) = self.part_found(found, index);
            let slots = slots.into_values().collect();
            let control = &mut self.switches[switch.0];
            if !is_ours && may_be && control.room.take_this(index, paths, slots) {
                control.orphans.insert(index, key.mcst_id);
                self.addresses.take_this(u32::from(key.mcst_id));
            }
        }
    }

    pub(super) fn forget_orphans(&mut self, switch: SwitchIndex) {
        let control = &mut self.switches[switch.0];
        for (index, mcst_id) in std::mem::take(&mut control.orphans) {
            self.switches[switch.0].room.release(index);
            if self.parts_of(mcst_id).is_empty() {
                self.release_address(mcst_id);
            }
        }
    }

    /// Every switch is there: takes over whole groups, and removes the rest.
    pub(super) fn adopt(&mut self, now: u64) {
        let all: BTreeSet<Ipv4Addr> = self
            .switches
            .iter()
            .flat_map(|control| control.orphans.values().copied())
            .collect();
        for mcst_id in all {
            let whole = self.assemble(mcst_id);
            for (switch, index) in self.parts_of(mcst_id) {
                self.switches[switch.0].orphans.remove(&index);
                if whole.is_none() {
                    self.remove_part(now, switch, index);
                }
            }
            match whole {
                Some(group) => {
                    let first = &group.switches[0];
                    let read = RegisterControl::read(first.group_index, REGISTER_AGG, 0);
                    let switch = first.switch;
                    self.loads.add(&group.tree);
                    self.virtual_qpns.used(mcst_id, group.virtual_qpn);
                    self.groups.insert(mcst_id, Registration::adopted(group));
                    self.note_leader(mcst_id);
                    self.sign_of_life(now, mcst_id);
                    self.submit(now, switch, Owner::Adoption(mcst_id), Task::Registers(read));
                }
                None => self.release_address(mcst_id),
            }
        }
        for control in &mut self.switches {
            control.boot.found = Snapshot::default();
        }
    }

    /// How far an adopted group is.
    pub(super) fn adoption_done(&mut self, mcst_id: Ipv4Addr, result: Result<u64, SwitchError>) {
        if let (Ok(value), Some(registration)) = (result, self.groups.get_mut(&mcst_id)) {
            let group = registration.group_mut();
            let told = Position::from_register(value);
            group.initial_psn = told.psn.next();
            group.position = told.for_all();
        }
    }

    /// Paths of a part, and slots of its receivers by port, as a switch's entries tell them.
    fn part_found(&self, found: &Snapshot, index: u16) -> (usize, BTreeMap<u32, u32>) {
        let entries = || found.table_entries();
        let paths = entries().filter_map(|entry| self.program.mft.parse(entry));
        let paths = paths.filter(|(key, _)| key.group_index == index).count();
        let slots = entries().filter_map(|entry| {
            let (key, delivery) = self.program.receivers.parse(entry)?;
            (key.group_index == index).then_some((key.port, delivery.slot))
        });
        (paths, slots.collect())
    }

    fn parts_of(&self, mcst_id: Ipv4Addr) -> Vec<(SwitchIndex, u16)> {
        let switches = self.topology.switch_indexes().zip(&self.switches);
        let parts = switches.flat_map(|(switch, control)| {
            let here = control.orphans.iter().filter(|(_, m)| **m == mcst_id);
            here.map(move |(index, _)| (switch, *index))
        });
        parts.collect()
    }

    /// The group as its entries tell it, if these are just what this controller would have written.
    fn assemble(&self, mcst_id: Ipv4Addr) -> Option<Group> {
        let parts = self.parts_of(mcst_id);
        let mut ports = BTreeMap::new();
        let mut members: Vec<GroupMember> = Vec::new();
        let mut receivers = BTreeSet::new();
        let mut strategies = Strategies::default();
        let mut virtual_qpn = QpNum::new(0);
        for (switch, index) in &parts {
            let found = &self.switches[switch.0].boot.found;
            let entries = || found.table_entries();
            let here = entries().filter_map(|entry| {
                let (key, _) = self.program.mft.parse(entry)?;
                (key.group_index == *index).then_some(key.port)
            });
            ports.insert(*switch, here.collect::<BTreeSet<u32>>());
            for entry in entries() {
                if let Some((key, group)) = self.program.groups.parse(entry) {
                    if key.mcst_id == mcst_id {
                        strategies = group.strategies;
                        virtual_qpn = group.virtual_qpn;
                    }
                }
                if let Some((key, delivery)) = self.program.receivers.parse(entry) {
                    if key.group_index == *index {
                        members.push(self.member(&delivery)?);
                    }
                }
                if let Some((key, member)) = self.program.members.parse(entry) {
                    if key.group_index == *index && !member.may_send {
                        receivers.insert(key.src_ip);
                    }
                }
            }
        }
        for member in &mut members {
            member.spec.may_send = !receivers.contains(&member.spec.ip);
        }
        members.sort_by_key(|member| member.host);
        let tree = Tree::from_ports(ports);
        let by_host = MembersByHost::new(&members);
        let switches = parts.iter().map(|(switch, index)| {
            let found = &self.switches[switch.0].boot.found;
            let granted = Granted {
                index: *index,
                slots: self.part_found(found, *index).1,
            };
            let ports = tree.ports_on(*switch);
            OnSwitch::new(&self.topology, *switch, &granted, ports, &by_host)
        });
        let group = Group {
            mcst_id,
            virtual_qpn,
            initial_psn: Psn::new(0),
            position: Position::before(Psn::new(0)),
            strategies,
            switches: switches.collect(),
            members,
            tree,
        };
        let hosts: Vec<_> = group.members.iter().map(|member| member.host).collect();
        let is_whole = group.tree.spans(&self.topology, &hosts)
            && group.switches.iter().all(|on| {
                let found = &self.switches[on.switch.0].boot.found;
                let entries = group.entries(&self.program, on).unwrap_or_default();
                entries.iter().all(|entry| found.holds(entry))
                    && found.holds(&group.publication(&self.program, on))
            });
        is_whole.then_some(group)
    }

    fn member(&self, delivery: &Delivery) -> Option<GroupMember> {
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
                    // Its length stands in no entry; one byte is the least that it can be.
                    len: 1,
                }),
                may_send: true,
            },
        })
    }

    fn remove_part(&mut self, now: u64, switch: SwitchIndex, index: u16) {
        let control = &mut self.switches[switch.0];
        let deletions =
            control
                .boot
                .found
                .surplus(&Snapshot::default(), self.program.groups.id(), |entity| {
                    self.program.group_index_of(entity) != Some(index)
                });
        control.room.release(index);
        self.submit(now, switch, Owner::Nobody, Task::Write(deletions));
    }
}
