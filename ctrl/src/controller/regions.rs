//! Memory regions that members tell per request, taken along when a group changes.
//!
//! A WRITE whose region was told comes after the packet that told it, and a change of the group may come between the two:
//! the source has the acknowledgement of the first and will not send it again. The new part of a leaf starts with
//! registers of its own, so what the old one was told of each host is read from it and written there
//! (`p4src/v1model/memory_regions.p4`).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::group::OnSwitch;
use super::registers::RegisterControl;
use crate::constants::{REGISTER_REGION_KEYS, REGISTER_REGION_TOLD_AT, REGISTER_REGION_VA};
use crate::topology::SwitchIndex;

const REGISTERS: [u8; 3] = [
    REGISTER_REGION_VA,
    REGISTER_REGION_KEYS,
    REGISTER_REGION_TOLD_AT,
];

/// One register of one host at its leaf switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    switch: SwitchIndex,
    host: Ipv4Addr,
    reg: u8,
}

/// What leaf switches were told of their hosts' regions.
#[derive(Debug, Default)]
pub(super) struct Regions {
    values: BTreeMap<Cell, u64>,
}

impl Regions {
    /// What is to be read of the old part of a switch for the hosts that the new one has, too.
    pub(super) fn reads(old: &OnSwitch, new: &OnSwitch) -> Vec<(Cell, RegisterControl)> {
        let is_kept = |host: Ipv4Addr| new.hosts().any(|(_, member)| member.spec.ip == host);
        let hosts = old.hosts().filter(|(_, member)| is_kept(member.spec.ip));
        hosts
            .flat_map(|(path, member)| REGISTERS.map(|reg| (path, member.spec.ip, reg)))
            .map(|(path, host, reg)| {
                let cell = Cell {
                    switch: old.switch,
                    host,
                    reg,
                };
                (cell, RegisterControl::read(old.group_index, reg, path))
            })
            .collect()
    }

    /// Notes what a switch has answered.
    pub(super) fn note(&mut self, cell: Cell, value: u64) {
        self.values.insert(cell, value);
    }

    /// What is to be written to a new part. A host of which not all is known gets nothing: half a region is none.
    pub(super) fn writes(&self, new: &OnSwitch) -> Vec<RegisterControl> {
        let known = |host| {
            let cells = REGISTERS.map(|reg| Cell {
                switch: new.switch,
                host,
                reg,
            });
            let values: Option<Vec<_>> = cells
                .iter()
                .map(|cell| Some((cell.reg, *self.values.get(cell)?)))
                .collect();
            values
        };
        let hosts = new
            .hosts()
            .filter_map(|(path, member)| Some((path, known(member.spec.ip)?)));
        hosts
            .flat_map(|(path, values)| values.into_iter().map(move |value| (path, value)))
            .map(|(path, (reg, value))| RegisterControl::write(new.group_index, reg, path, value))
            .collect()
    }
}
