//! Capacity of one switch for groups: free group indexes, table entries and receiver slots.
//!
//! A group's part on a switch needs a group index, a number of entries in each table, and a slot for each member host at
//! the switch. The slot is the host's number among all receivers there, and indexes the registers of announced memory
//! regions (`p4src/v1model/optional/memory_regions.p4`). Either all of it is allocated before the first write, or nothing.
//!
//! A part that replaces an old part of the same group keeps the slots of the hosts that stay, and so the content of their
//! registers. A slot is free when no part uses it.

use std::collections::BTreeMap;

use super::pool::Pool;
use crate::tables::Sizes;

/// Allocation of one switch's group indexes, receiver slots (see the module) and table entries: how many exist, and which
/// of them the entries of each group on this switch use.
#[derive(Debug)]
pub(super) struct Capacity {
    indexes: Pool,
    slots: Pool,
    /// Number of group parts that use each receiver slot.
    slot_users: BTreeMap<u32, u32>,
    paths: TableSpace,
    members: TableSpace,
    /// Allocated parts by group index, including quarantined ones, whose entries may still be on the switch.
    parts: BTreeMap<u32, AllocatedPart>,
}

#[derive(Debug)]
struct TableSpace {
    size: usize,
    used: usize,
}

#[derive(Debug)]
struct AllocatedPart {
    paths: usize,
    slots: Vec<u32>,
}

/// Resources that a group's part needs on its switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    /// Number of ports of the switch that are in the group's tree.
    pub(super) paths: usize,
    /// Ports of the switch to which members of the group are attached.
    pub(super) hosts: Vec<u32>,
    /// Receiver slots that ports keep from an old part of the group, by port.
    pub(super) kept: BTreeMap<u32, u32>,
}

/// Resources allocated to a group's part on its switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allocation {
    pub(super) index: u16,
    /// Receiver slot of the member at each port.
    pub(super) slots: BTreeMap<u32, u32>,
}

/// Error: a table has too few free entries for a part of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableFull {
    pub(super) table: &'static str,
    /// Number of entries that the part needs.
    pub(super) needed: usize,
    /// Number of free entries in the table.
    pub(super) left: usize,
}

impl TableSpace {
    fn new(size: u32) -> TableSpace {
        TableSpace {
            size: size as usize,
            used: 0,
        }
    }

    fn left(&self) -> usize {
        self.size.saturating_sub(self.used)
    }
}

impl Capacity {
    pub(super) fn new(sizes: &Sizes) -> Capacity {
        Capacity {
            indexes: Pool::new(0, sizes.groups - 1),
            slots: Pool::new(0, sizes.receivers - 1),
            slot_users: BTreeMap::new(),
            paths: TableSpace::new(sizes.mft),
            members: TableSpace::new(sizes.members),
            parts: BTreeMap::new(),
        }
    }

    /// Checks that the switch has enough free resources for a part.
    pub(super) fn check_free(&self, wanted: &Demand) -> Result<(), TableFull> {
        let hosts = wanted.hosts.len();
        // Entries of an old part count until it is removed.
        let needs = [
            ("groups", 1, self.indexes.left()),
            ("mft", wanted.paths, self.paths.left()),
            ("members", hosts, self.members.left()),
            ("receivers", hosts, self.receivers_left()),
        ];
        match needs.into_iter().find(|(_, needed, left)| needed > left) {
            None => Ok(()),
            Some((table, needed, left)) => Err(TableFull {
                table,
                needed,
                left,
            }),
        }
    }

    /// Allocates a group index, table entries and receiver slots for a part.
    pub(super) fn allocate(&mut self, wanted: &Demand) -> Result<Allocation, TableFull> {
        self.check_free(wanted)?;
        let mut slots = BTreeMap::new();
        for port in &wanted.hosts {
            let kept = wanted.kept.get(port).copied();
            let slot = kept.or_else(|| self.slots.take());
            slots.insert(*port, slot.expect("capacity was checked before"));
        }
        let index = self.indexes.take().expect("capacity was checked before");
        self.put(index, wanted.paths, slots.values().copied().collect());
        let index = u16::try_from(index).expect("the pipeline has at most 32768 groups");
        Ok(Allocation { index, slots })
    }

    /// Allocates the index, entries and slots that a part already has on the switch. Returns false, and allocates
    /// nothing, if the index or a slot is in use.
    pub(super) fn reserve(&mut self, index: u16, paths: usize, slots: Vec<u32>) -> bool {
        let index = u32::from(index);
        if !self.indexes.reserve(index) {
            return false;
        }
        for (n, slot) in slots.iter().enumerate() {
            if !self.slots.reserve(*slot) {
                for taken in &slots[..n] {
                    self.slots.release(*taken);
                }
                self.indexes.release(index);
                return false;
            }
        }
        self.put(index, paths, slots);
        true
    }

    fn put(&mut self, index: u32, paths: usize, slots: Vec<u32>) {
        for slot in &slots {
            *self.slot_users.entry(*slot).or_insert(0) += 1;
        }
        self.paths.used += paths;
        self.members.used += slots.len();
        self.parts.insert(index, AllocatedPart { paths, slots });
    }

    /// Frees the index, entries and slots of a part.
    pub(super) fn release(&mut self, index: u16) {
        let index = u32::from(index);
        self.indexes.release(index);
        self.drop_part(index);
    }

    /// Removes a part whose entries may still be on the switch. Its resources stay allocated until
    /// [`Capacity::end_quarantine`].
    pub(super) fn quarantine(&mut self, index: u16) {
        self.indexes.quarantine(u32::from(index));
    }

    /// Frees the resources of quarantined parts; called once the switch has no unwanted entries.
    pub(super) fn end_quarantine(&mut self) {
        for index in self.indexes.end_quarantine() {
            self.drop_part(index);
        }
    }

    fn drop_part(&mut self, index: u32) {
        let Some(part) = self.parts.remove(&index) else {
            return;
        };
        self.paths.used -= part.paths;
        self.members.used -= part.slots.len();
        for slot in part.slots {
            if let Some(users) = self.slot_users.get_mut(&slot) {
                *users -= 1;
                if *users == 0 {
                    self.slot_users.remove(&slot);
                    self.slots.release(slot);
                }
            }
        }
    }

    /// Number of groups on the switch, without quarantined ones.
    pub(super) fn groups(&self) -> usize {
        self.indexes.in_use()
    }

    /// Numbers of free group indexes, receiver slots, path entries and member entries, in this order.
    #[cfg(test)]
    pub(super) fn left(&self) -> [usize; 4] {
        [
            self.indexes.left(),
            self.slots.left(),
            self.paths.left(),
            self.members.left(),
        ]
    }

    /// Number of free entries of the table `receivers`. Like `members`, the table has one entry per member at the switch. It
    /// holds as many entries as there are slots.
    fn receivers_left(&self) -> usize {
        self.slots.size().saturating_sub(self.members.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        datagram_groups: 16,
        groups: 4,
        paths: 8,
        mft: 12,
        members: 7,
        receivers: 6,
        routes: 1,
        next_hops: 1,
    };

    fn wanted(paths: usize, hosts: &[u32]) -> Demand {
        Demand {
            paths,
            hosts: hosts.to_vec(),
            kept: BTreeMap::new(),
        }
    }

    #[test]
    fn a_part_is_allocated_completely_or_not_at_all() {
        let mut capacity = Capacity::new(&SIZES);
        let first = capacity.allocate(&wanted(4, &[1, 2, 3])).unwrap();
        assert_eq!(first.index, 0);
        assert_eq!(first.slots, [(1, 0), (2, 1), (3, 2)].into());
        let no = capacity.allocate(&wanted(9, &[])).unwrap_err();
        assert_eq!((no.table, no.needed, no.left), ("mft", 9, 8));
        let no = capacity.allocate(&wanted(5, &[1, 2, 3, 4, 5])).unwrap_err();
        assert_eq!((no.table, no.needed, no.left), ("members", 5, 4));
        let no = capacity.allocate(&wanted(4, &[1, 2, 3, 4])).unwrap_err();
        assert_eq!((no.table, no.needed, no.left), ("receivers", 4, 3));
        for _ in 0..3 {
            capacity.allocate(&wanted(2, &[])).unwrap();
        }
        let no = capacity.allocate(&wanted(1, &[])).unwrap_err();
        assert_eq!((no.table, no.needed, no.left), ("groups", 1, 0));
        capacity.release(0);
        assert_eq!(capacity.groups(), 3);
        // Slots are reused in round-robin order, like indexes.
        let again = capacity.allocate(&wanted(6, &[1, 2, 3, 4, 5, 6])).unwrap();
        assert_eq!(
            again.slots.values().copied().collect::<Vec<_>>(),
            [3, 4, 5, 0, 1, 2]
        );
    }

    #[test]
    fn a_replacement_part_keeps_the_slots_of_its_hosts() {
        let mut capacity = Capacity::new(&SIZES);
        let old = capacity.allocate(&wanted(3, &[1, 2])).unwrap();
        let beside = Demand {
            kept: old.slots.clone(),
            ..wanted(3, &[1, 2, 3])
        };
        let new = capacity.allocate(&beside).unwrap();
        assert_eq!(new.slots, [(1, 0), (2, 1), (3, 2)].into());
        capacity.release(old.index);
        // Later parts do not get slots of the new part.
        let other = capacity.allocate(&wanted(3, &[5, 6, 7])).unwrap();
        assert_eq!(other.slots.values().copied().collect::<Vec<_>>(), [3, 4, 5]);
        capacity.release(new.index);
        assert!(capacity.allocate(&wanted(3, &[1, 2, 3])).is_ok());
    }

    #[test]
    fn quarantined_resources_are_not_reused_before_the_quarantine_ends() {
        let mut capacity = Capacity::new(&SIZES);
        let part = capacity.allocate(&wanted(8, &[1, 2, 3, 4])).unwrap();
        capacity.quarantine(part.index);
        assert_eq!(capacity.groups(), 0);
        assert_eq!(
            capacity.check_free(&wanted(5, &[])).unwrap_err().table,
            "mft"
        );
        capacity.end_quarantine();
        assert_eq!(capacity.check_free(&wanted(8, &[1, 2, 3, 4])), Ok(()));
    }

    #[test]
    fn existing_entries_are_adopted_if_no_group_owns_them() {
        let mut capacity = Capacity::new(&SIZES);
        assert!(capacity.reserve(2, 3, vec![4, 5]));
        assert!(!capacity.reserve(2, 1, vec![]));
        assert!(!capacity.reserve(1, 1, vec![3, 4]));
        assert!(!capacity.reserve(1, 1, vec![6]));
        // A rejected reservation allocates nothing.
        assert!(capacity.reserve(1, 1, vec![3]));
        assert_eq!(capacity.groups(), 2);
    }
}
