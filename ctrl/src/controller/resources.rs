//! Resources that groups use: addresses, virtual queue pair numbers, and table entries of switches.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use alfirk_roce::wire::QpNum;

use super::capacity::{Allocation, Capacity, Demand, TableFull};
use super::config::ControllerConfig;
use super::pool::Pool;
use super::virtual_qpns::{VirtualQpnError, VirtualQpns};
use crate::tables::Sizes;
use crate::topology::SwitchIndex;

/// Allocation of group addresses, virtual queue pair numbers, and of the table entries of all switches.
pub(super) struct Resources {
    switches: Vec<SwitchResources>,
    addresses: Pool,
    virtual_qpns: VirtualQpns,
}

/// Resources of one switch.
struct SwitchResources {
    capacity: Capacity,
    /// Index and address of groups whose entries could not be deleted from the switch. They are not reused until it
    /// reconnects.
    leftovers: BTreeSet<(u16, Ipv4Addr)>,
}

impl Resources {
    /// Creates the resources of a network without groups. `switches`: number of switches.
    pub(super) fn new(config: &ControllerConfig, sizes: &Sizes, switches: usize) -> Resources {
        let (first, last) = config.group_range.bounds();
        let free = || SwitchResources {
            capacity: Capacity::new(sizes),
            leftovers: BTreeSet::new(),
        };
        Resources {
            switches: std::iter::repeat_with(free).take(switches).collect(),
            addresses: Pool::new(first, last),
            virtual_qpns: VirtualQpns::new(config.virtual_qpn_seed),
        }
    }

    // ---- Table entries of switches ----

    /// The allocated and free table entries of a switch.
    pub(super) fn capacity(&self, switch: SwitchIndex) -> &Capacity {
        &self.switches[switch.0].capacity
    }

    fn capacity_mut(&mut self, switch: SwitchIndex) -> &mut Capacity {
        &mut self.switches[switch.0].capacity
    }

    /// Allocates an index, table entries and receiver slots of a switch for a part of a group.
    pub(super) fn allocate(
        &mut self,
        switch: SwitchIndex,
        wanted: &Demand,
    ) -> Result<Allocation, TableFull> {
        self.capacity_mut(switch).allocate(wanted)
    }

    /// Allocates what a part of a group already has on a switch: its index, `paths` entries, and receiver slots. Returns
    /// false, and allocates nothing, if the index or a slot is in use.
    pub(super) fn reserve(
        &mut self,
        switch: SwitchIndex,
        index: u16,
        paths: usize,
        slots: Vec<u32>,
    ) -> bool {
        self.capacity_mut(switch).reserve(index, paths, slots)
    }

    /// Frees the index, entries and slots of a part of a group.
    pub(super) fn release(&mut self, switch: SwitchIndex, index: u16) {
        self.capacity_mut(switch).release(index);
    }

    /// Records that entries of a part that was replaced may remain on a switch. Its index is not reused until the switch
    /// reconnects.
    pub(super) fn quarantine_index(&mut self, switch: SwitchIndex, index: u16) {
        self.capacity_mut(switch).quarantine(index);
    }

    /// Records that entries of a removed group may remain on a switch. Its index there and its address are not reused until
    /// the switch reconnects.
    pub(super) fn quarantine(&mut self, switch: SwitchIndex, index: u16, mcst_id: Ipv4Addr) {
        let resources = &mut self.switches[switch.0];
        resources.capacity.quarantine(index);
        resources.leftovers.insert((index, mcst_id));
    }

    /// Frees the group indexes and addresses that were reserved because their groups could not be removed from a switch.
    pub(super) fn end_quarantine(&mut self, switch: SwitchIndex) {
        let resources = &mut self.switches[switch.0];
        resources.capacity.end_quarantine();
        for (_, mcst_id) in std::mem::take(&mut resources.leftovers) {
            self.release_address(mcst_id);
        }
    }

    // ---- Virtual queue pair numbers ----

    /// Chooses the number of a new group at an address: the requested one, or the next one.
    pub(super) fn choose_virtual_qpn(
        &mut self,
        mcst_id: Ipv4Addr,
        wanted: Option<QpNum>,
    ) -> Result<QpNum, VirtualQpnError> {
        self.virtual_qpns.choose(mcst_id, wanted)
    }

    /// Records the number of a group in use.
    pub(super) fn record_virtual_qpn(&mut self, mcst_id: Ipv4Addr, virtual_qpn: QpNum) {
        self.virtual_qpns.record(mcst_id, virtual_qpn);
    }

    /// Last number of each address that was ever in use.
    pub(super) fn last_virtual_qpns(&self) -> impl Iterator<Item = (Ipv4Addr, QpNum)> + '_ {
        self.virtual_qpns.last_numbers()
    }

    // ---- Addresses ----

    /// Whether an address can be allocated.
    pub(super) fn is_address_free(&self, mcst_id: Ipv4Addr) -> bool {
        self.addresses.is_free(u32::from(mcst_id))
    }

    /// Allocates this address; false if it is in use.
    pub(super) fn reserve_address(&mut self, mcst_id: Ipv4Addr) -> bool {
        self.addresses.reserve(u32::from(mcst_id))
    }

    /// Allocates an unused address for which `fits` is true; `None` if there is none.
    pub(super) fn take_address(&mut self, fits: impl Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
        let number = self
            .addresses
            .take_if(|number| fits(Ipv4Addr::from(number)));
        number.map(Ipv4Addr::from)
    }

    /// Frees the address of a removed group, unless a switch may still have entries of the group.
    pub(super) fn release_address(&mut self, mcst_id: Ipv4Addr) {
        let is_left = |resources: &SwitchResources| {
            let mut leftovers = resources.leftovers.iter();
            leftovers.any(|(_, left)| *left == mcst_id)
        };
        if !self.switches.iter().any(is_left) {
            self.addresses.release(u32::from(mcst_id));
        }
    }
}

#[cfg(test)]
impl Resources {
    /// Number of allocated addresses.
    pub(super) fn addresses_in_use(&self) -> usize {
        self.addresses.in_use()
    }

    /// Number of group parts whose entries may remain on switches.
    pub(super) fn leftovers(&self) -> usize {
        let switches = self.switches.iter();
        switches.map(|switch| switch.leftovers.len()).sum()
    }
}
