//! Newest PSN of each path, and the minimum over all paths (`min_psn_tree.p4`).
//!
//! The path of the source has all packets that the source sent. So the minimum can include it, and needs no correction
//! when the source changes. All three strategies use these registers.
//!
//! A *path* is a port of the group's tree on this switch; paths are numbered from 0. The *minimum* is the newest PSN that
//! all paths have acknowledged or sent. The *source* is the member of the group that sends at present.

use alfirk_roce::steady::StateVisitor;

use super::{Point, Space};

/// Register entry of one path, a leaf of the tournament tree: the newest PSN and its MSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// Newest PSN that the path has acknowledged or sent, and the MSN of the path's newest ACK or NAK.
    pub newest: Point,
    /// Whether the PSN is of data that the path sent, not of an acknowledgement. The MSN then belongs to an older PSN.
    pub by_sender: bool,
}

/// Newest PSN of each path (port of the group's tree), indexed by path number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leaves(Vec<Leaf>);

/// The newest PSN of one path, as compared in the search for the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathPsn {
    /// Newest PSN that the path has acknowledged or sent.
    pub psn: u32,
    /// Whether the path sent this PSN and has not acknowledged it.
    pub by_sender: bool,
    /// Path number: index of the switch port in [`Group::ports`](super::Group::ports).
    pub path: usize,
}

impl PathPsn {
    /// Whether `self` precedes `other` in the search for the minimum. The older PSN comes first. At equal PSNs, a
    /// receiver precedes a sender, and the lower path number decides between two receivers. Two senders with equal PSNs
    /// have no order, as in the pipeline.
    #[inline]
    pub fn is_before(self, other: PathPsn, space: Space) -> bool {
        if self.psn != other.psn {
            return space.lt(self.psn, other.psn);
        }
        !self.by_sender && (other.by_sender || self.path < other.path)
    }
}

impl Leaves {
    pub(crate) fn new(paths: usize, newest: Point) -> Leaves {
        let by_sender = false;
        Leaves(vec![Leaf { newest, by_sender }; paths])
    }

    pub(crate) fn of(leaves: Vec<Leaf>) -> Leaves {
        Leaves(leaves)
    }

    /// Visits the register entries.
    pub(crate) fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        for Leaf { newest, by_sender } in &mut self.0 {
            newest.psn = visitor.psn(newest.psn);
            visitor.same(u64::from(newest.msn) << 1 | u64::from(*by_sender));
        }
    }

    /// Iterates over the register entries in the order of path numbers.
    pub fn iter(&self) -> std::slice::Iter<'_, Leaf> {
        self.0.iter()
    }

    /// MSN of the newest ACK or NAK of a path.
    pub fn msn(&self, path: usize) -> u32 {
        self.0[path].newest.msn
    }

    /// Records the PSN of data that a path has sent. Returns whether this PSN is newer than all that the path has
    /// acknowledged or sent; another one is ignored.
    pub(crate) fn record_sent(&mut self, space: Space, path: usize, psn: u32) -> bool {
        let leaf = &mut self.0[path];
        let is_accepted = space.lt(leaf.newest.psn, psn);
        if is_accepted {
            leaf.newest.psn = psn;
            leaf.by_sender = true;
        }
        is_accepted
    }

    /// Whether an acknowledgement of `psn` is newer than all that the path has acknowledged or sent.
    pub(crate) fn would_advance(&self, space: Space, path: usize, psn: u32) -> bool {
        space.lt(self.0[path].newest.psn, psn)
    }

    /// Records an acknowledgement of a path. Returns whether its PSN is at least the newest one of the path. An older
    /// PSN is ignored.
    pub(crate) fn record_acked(&mut self, space: Space, path: usize, acked: Point) -> bool {
        let leaf = &mut self.0[path];
        let is_accepted = space.is_at_or_after(acked.psn, leaf.newest.psn);
        if is_accepted {
            *leaf = Leaf {
                newest: acked,
                by_sender: false,
            };
        }
        is_accepted
    }

    /// The newest PSN of a path, as compared in the search for the minimum.
    pub fn path_psn(&self, path: usize) -> PathPsn {
        PathPsn {
            psn: self.0[path].newest.psn,
            by_sender: self.0[path].by_sender,
            path,
        }
    }

    /// The oldest PSN among `so_far` and the newest PSNs of `paths`, in the order of [`PathPsn::is_before`]. `None` if
    /// `so_far` is `None` and `paths` is empty.
    pub fn oldest(
        &self,
        space: Space,
        paths: impl IntoIterator<Item = usize>,
        so_far: Option<PathPsn>,
    ) -> Option<PathPsn> {
        paths.into_iter().fold(so_far, |oldest, path| {
            let candidate = self.path_psn(path);
            match oldest {
                Some(oldest) if !candidate.is_before(oldest, space) => Some(oldest),
                _ => Some(candidate),
            }
        })
    }

    /// The minimum PSN of the group, with the path that has it. `None` without any path.
    pub fn minimum(&self, space: Space) -> Option<PathPsn> {
        self.oldest(space, 0..self.0.len(), None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn minimum_is_the_oldest_of_all(
            given in proptest::collection::vec((0..6u32, any::<bool>()), 0..12),
            base in prop_oneof![Just(0), Just(0x00ff_fffd), 0..0x0100_0000u32],
        ) {
            let leaf = |&(ahead, by_sender): &(u32, bool)| Leaf {
                newest: Point { psn: (base + ahead) & 0x00ff_ffff, msn: 0 },
                by_sender,
            };
            let leaves = Leaves::of(given.iter().map(leaf).collect());
            // Of equal PSNs, a receiver's comes first, then that of the lowest path number.
            let oldest = (0..given.len()).min_by_key(|path| given[*path]);
            prop_assert_eq!(leaves.minimum(Space::PSN), oldest.map(|path| leaves.path_psn(path)));
        }
    }
}
