//! Capacity of one switch for groups: free group indexes, table entries and receiver slots.
//!
//! A part of a group needs a group index, a number of entries in each table, and a slot for each host at the switch. The slot
//! is the host's number among all receivers there, and indexes the registers of announced memory regions
//! (`p4src/v1model/memory_regions.p4`). All of it is allocated before the first write, or nothing.
//!
//! A part that replaces an old part of the same group keeps the slots of the hosts that stay, and so the content of their
//! registers. A slot is free when no part uses it.

use std::collections::BTreeMap;

use super::pool::Pool;
use crate::tables::Sizes;

/// Capacity of one switch, and its allocations.
#[derive(Debug)]
pub(super) struct Capacity {
    indexes: Pool,
    slots: Pool,
    /// Number of parts that use each slot.
    users: BTreeMap<u32, u32>,
    paths: Table,
    members: Table,
    /// Allocated parts by index, including spoiled ones.
    parts: BTreeMap<u32, Part>,
}

#[derive(Debug)]
struct Table {
    size: usize,
    used: usize,
}

#[derive(Debug)]
struct Part {
    paths: usize,
    slots: Vec<u32>,
}

/// Demand of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    /// Number of tree ports.
    pub(super) paths: usize,
    /// Tree ports that lead to members.
    pub(super) hosts: Vec<u32>,
    /// Slots that these ports keep, by port.
    pub(super) kept: BTreeMap<u32, u32>,
}

/// Allocation of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allocation {
    pub(super) index: u16,
    /// Slots, by port.
    pub(super) slots: BTreeMap<u32, u32>,
}

/// Error: a table has too few free entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableFull {
    pub(super) table: &'static str,
    /// Entries needed.
    pub(super) needed: usize,
    /// Entries left.
    pub(super) left: usize,
}

impl Table {
    fn new(size: u32) -> Table {
        Table {
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
            users: BTreeMap::new(),
            paths: Table::new(sizes.mft),
            members: Table::new(sizes.members),
            parts: BTreeMap::new(),
        }
    }

    /// Checks that a part fits.
    pub(super) fn check(&self, wanted: &Demand) -> Result<(), TableFull> {
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

    /// Allocates all that a part needs.
    pub(super) fn take(&mut self, wanted: &Demand) -> Result<Allocation, TableFull> {
        self.check(wanted)?;
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

    /// Takes what a part has already on the switch; says whether that was free.
    pub(super) fn take_this(&mut self, index: u16, paths: usize, slots: Vec<u32>) -> bool {
        let index = u32::from(index);
        if !self.indexes.take_this(index) {
            return false;
        }
        for (n, slot) in slots.iter().enumerate() {
            if !self.slots.take_this(*slot) {
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
            *self.users.entry(*slot).or_insert(0) += 1;
        }
        self.paths.used += paths;
        self.members.used += slots.len();
        self.parts.insert(index, Part { paths, slots });
    }

    /// Gives back what a part has.
    pub(super) fn release(&mut self, index: u16) {
        let index = u32::from(index);
        self.indexes.release(index);
        self.drop_part(index);
    }

    /// The same with a part of which something may be left on the switch: it is not used again before [`Capacity::clean`].
    pub(super) fn spoil(&mut self, index: u16) {
        self.indexes.spoil(u32::from(index));
    }

    /// The switch holds nothing any more that should not be there.
    pub(super) fn clean(&mut self) {
        for index in self.indexes.clean() {
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
            if let Some(users) = self.users.get_mut(&slot) {
                *users -= 1;
                if *users == 0 {
                    self.users.remove(&slot);
                    self.slots.release(slot);
                }
            }
        }
    }

    /// Groups that the switch holds.
    pub(super) fn groups(&self) -> usize {
        self.indexes.in_use()
    }

    /// Indexes, slots, and entries for paths and members that are left.
    #[cfg(test)]
    pub(super) fn left(&self) -> [usize; 4] {
        [
            self.indexes.left(),
            self.slots.left(),
            self.paths.left(),
            self.members.left(),
        ]
    }

    /// There is an entry for each member next to the switch, as in the table of members, and no more slots than entries.
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
    fn a_part_gets_all_or_nothing() {
        let mut capacity = Capacity::new(&SIZES);
        let first = capacity.take(&wanted(4, &[1, 2, 3])).unwrap();
        assert_eq!(first.index, 0);
        assert_eq!(first.slots, [(1, 0), (2, 1), (3, 2)].into());
        let no = capacity.take(&wanted(9, &[])).unwrap_err();
        assert_eq!((no.table, no.needed, no.left), ("mft", 9, 8));
        let no = capacity.take(&wanted(5, &[1, 2, 3, 4, 5])).unwrap_err();
        assert_eq!((no.table, no.needed, no.left), ("members", 5, 4));
        let no = capacity.take(&wanted(4, &[1, 2, 3, 4])).unwrap_err();
        assert_eq!((no.table, no.needed, no.left), ("receivers", 4, 3));
        for _ in 0..3 {
            capacity.take(&wanted(2, &[])).unwrap();
        }
        let no = capacity.take(&wanted(1, &[])).unwrap_err();
        assert_eq!((no.table, no.needed, no.left), ("groups", 1, 0));
        capacity.release(0);
        assert_eq!(capacity.groups(), 3);
        // Slots come back as late as possible, like indexes.
        let again = capacity.take(&wanted(6, &[1, 2, 3, 4, 5, 6])).unwrap();
        assert_eq!(
            again.slots.values().copied().collect::<Vec<_>>(),
            [3, 4, 5, 0, 1, 2]
        );
    }

    #[test]
    fn a_part_beside_another_keeps_its_hosts_slots() {
        let mut capacity = Capacity::new(&SIZES);
        let old = capacity.take(&wanted(3, &[1, 2])).unwrap();
        let beside = Demand {
            kept: old.slots.clone(),
            ..wanted(3, &[1, 2, 3])
        };
        let new = capacity.take(&beside).unwrap();
        assert_eq!(new.slots, [(1, 0), (2, 1), (3, 2)].into());
        capacity.release(old.index);
        // The next ones do not get what the new part has.
        let other = capacity.take(&wanted(3, &[5, 6, 7])).unwrap();
        assert_eq!(other.slots.values().copied().collect::<Vec<_>>(), [3, 4, 5]);
        capacity.release(new.index);
        assert!(capacity.take(&wanted(3, &[1, 2, 3])).is_ok());
    }

    #[test]
    fn what_is_spoiled_is_not_used_before_it_is_clean() {
        let mut capacity = Capacity::new(&SIZES);
        let part = capacity.take(&wanted(8, &[1, 2, 3, 4])).unwrap();
        capacity.spoil(part.index);
        assert_eq!(capacity.groups(), 0);
        assert_eq!(capacity.check(&wanted(5, &[])).unwrap_err().table, "mft");
        capacity.clean();
        assert_eq!(capacity.check(&wanted(8, &[1, 2, 3, 4])), Ok(()));
    }

    #[test]
    fn existing_entries_are_adopted_if_no_group_owns_them() {
        let mut capacity = Capacity::new(&SIZES);
        assert!(capacity.take_this(2, 3, vec![4, 5]));
        assert!(!capacity.take_this(2, 1, vec![]));
        assert!(!capacity.take_this(1, 1, vec![3, 4]));
        assert!(!capacity.take_this(1, 1, vec![6]));
        // Nothing is left of what was refused.
        assert!(capacity.take_this(1, 1, vec![3]));
        assert_eq!(capacity.groups(), 2);
    }
}
