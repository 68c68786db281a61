//! What is left in one switch's tables for groups.
//!
//! A part of a group takes an index and, of each table, so many entries; each host next to the switch takes a slot as well, its
//! number among all receivers there, by which the pipeline finds what was announced of the host's memory
//! (`p4src/v1model/memory_regions.p4`).  All is taken at once or nothing is, before the first write.
//!
//! A part that is written beside an old one of the same group keeps the slots of the hosts that stay, and with them
//! what is in those registers; a slot is free when no part has it any more.

use std::collections::BTreeMap;

use super::pool::Pool;
use crate::tables::Sizes;

/// What one switch has room for, and who has it.
#[derive(Debug)]
pub(super) struct Room {
    indexes: Pool,
    slots: Pool,
    /// Parts that have each slot.
    users: BTreeMap<u32, u32>,
    paths: Table,
    members: Table,
    /// By index; what is spoiled too.
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

/// What a part is to get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Ports of the tree.
    pub(super) paths: usize,
    /// Those of them that lead to members.
    pub(super) hosts: Vec<u32>,
    /// Slots that these have already, by port.
    pub(super) kept: BTreeMap<u32, u32>,
}

/// What a part has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) index: u16,
    /// By port.
    pub(super) slots: BTreeMap<u32, u32>,
}

/// A table that is too full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom {
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

impl Room {
    pub(super) fn new(sizes: &Sizes) -> Room {
        Room {
            indexes: Pool::new(0, sizes.groups - 1),
            slots: Pool::new(0, sizes.receivers - 1),
            users: BTreeMap::new(),
            paths: Table::new(sizes.mft),
            members: Table::new(sizes.members),
            parts: BTreeMap::new(),
        }
    }

    /// Whether there is room for a part.
    pub(super) fn check(&self, wanted: &Wanted) -> Result<(), NoRoom> {
        let hosts = wanted.hosts.len();
        // Entries of a part that stays beside the new one count until it is gone.
        let needs = [
            ("groups", 1, self.indexes.left()),
            ("mft", wanted.paths, self.paths.left()),
            ("members", hosts, self.members.left()),
            ("receivers", hosts, self.receivers_left()),
        ];
        match needs.into_iter().find(|(_, needed, left)| needed > left) {
            None => Ok(()),
            Some((table, needed, left)) => Err(NoRoom {
                table,
                needed,
                left,
            }),
        }
    }

    /// Takes all that a part needs.
    pub(super) fn take(&mut self, wanted: &Wanted) -> Result<Granted, NoRoom> {
        self.check(wanted)?;
        let mut slots = BTreeMap::new();
        for port in &wanted.hosts {
            let kept = wanted.kept.get(port).copied();
            let slot = kept.or_else(|| self.slots.take());
            slots.insert(*port, slot.expect("room was checked before"));
        }
        let index = self.indexes.take().expect("room was checked before");
        self.put(index, wanted.paths, slots.values().copied().collect());
        let index = u16::try_from(index).expect("the pipeline has at most 32768 groups");
        Ok(Granted { index, slots })
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

    /// The same with a part of which something may be left on the switch: it is not used again before [`Room::clean`].
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

    fn wanted(paths: usize, hosts: &[u32]) -> Wanted {
        Wanted {
            paths,
            hosts: hosts.to_vec(),
            kept: BTreeMap::new(),
        }
    }

    #[test]
    fn a_part_gets_all_or_nothing() {
        let mut room = Room::new(&SIZES);
        let first = room.take(&wanted(4, &[1, 2, 3])).unwrap();
        assert_eq!(first.index, 0);
        assert_eq!(first.slots, [(1, 0), (2, 1), (3, 2)].into());
        let no = room.take(&wanted(9, &[])).unwrap_err();
        assert_eq!((no.table, no.needed, no.left), ("mft", 9, 8));
        let no = room.take(&wanted(5, &[1, 2, 3, 4, 5])).unwrap_err();
        assert_eq!((no.table, no.needed, no.left), ("members", 5, 4));
        let no = room.take(&wanted(4, &[1, 2, 3, 4])).unwrap_err();
        assert_eq!((no.table, no.needed, no.left), ("receivers", 4, 3));
        for _ in 0..3 {
            room.take(&wanted(2, &[])).unwrap();
        }
        let no = room.take(&wanted(1, &[])).unwrap_err();
        assert_eq!((no.table, no.needed, no.left), ("groups", 1, 0));
        room.release(0);
        assert_eq!(room.groups(), 3);
        // Slots come back as late as possible, like indexes.
        let again = room.take(&wanted(6, &[1, 2, 3, 4, 5, 6])).unwrap();
        assert_eq!(
            again.slots.values().copied().collect::<Vec<_>>(),
            [3, 4, 5, 0, 1, 2]
        );
    }

    #[test]
    fn a_part_beside_another_keeps_its_hosts_slots() {
        let mut room = Room::new(&SIZES);
        let old = room.take(&wanted(3, &[1, 2])).unwrap();
        let beside = Wanted {
            kept: old.slots.clone(),
            ..wanted(3, &[1, 2, 3])
        };
        let new = room.take(&beside).unwrap();
        assert_eq!(new.slots, [(1, 0), (2, 1), (3, 2)].into());
        room.release(old.index);
        // The next ones do not get what the new part has.
        let other = room.take(&wanted(3, &[5, 6, 7])).unwrap();
        assert_eq!(other.slots.values().copied().collect::<Vec<_>>(), [3, 4, 5]);
        room.release(new.index);
        assert!(room.take(&wanted(3, &[1, 2, 3])).is_ok());
    }

    #[test]
    fn what_is_spoiled_is_not_used_before_it_is_clean() {
        let mut room = Room::new(&SIZES);
        let part = room.take(&wanted(8, &[1, 2, 3, 4])).unwrap();
        room.spoil(part.index);
        assert_eq!(room.groups(), 0);
        assert_eq!(room.check(&wanted(5, &[])).unwrap_err().table, "mft");
        room.clean();
        assert_eq!(room.check(&wanted(8, &[1, 2, 3, 4])), Ok(()));
    }

    #[test]
    fn what_is_there_is_taken_if_nobody_has_it() {
        let mut room = Room::new(&SIZES);
        assert!(room.take_this(2, 3, vec![4, 5]));
        assert!(!room.take_this(2, 1, vec![]));
        assert!(!room.take_this(1, 1, vec![3, 4]));
        assert!(!room.take_this(1, 1, vec![6]));
        // Nothing is left of what was refused.
        assert!(room.take_this(1, 1, vec![3]));
        assert_eq!(room.groups(), 2);
    }
}
