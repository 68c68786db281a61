//! Newest PSN of each path, and the minimum of all (`min_psn_tree.p4`).
//!
//! The path of the source has all that the source sent. So the minimum includes all paths, and a change of the
//! source needs no repair. All three strategies use the leaves.

use super::{Point, Space};

/// Register entry of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// Newest PSN that the path has acknowledged or sent, and the MSN of its newest feedback.
    pub newest: Point,
    /// The PSN was set by data that the path sent; then the MSN does not belong to it.
    pub by_sender: bool,
}

/// Register entries of all paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leaves(Vec<Leaf>);

/// Operand of the search for the minimum: a path and its newest PSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word {
    /// Newest PSN of the path.
    pub psn: u32,
    /// The path sent the PSN, and has not acknowledged it.
    pub by_sender: bool,
    /// Path number.
    pub path: usize,
}

impl Word {
    /// Whether `self` precedes `other` in the search: it is older, or equal and preferred. A receiver precedes a sender, a
    /// lower path number a higher one. Words of senders have no path in the pipeline, so two equal ones have no order.
    #[inline]
    pub fn is_before(self, other: Word, space: Space) -> bool {
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

    /// Iterates in the order of path numbers.
    pub fn iter(&self) -> std::slice::Iter<'_, Leaf> {
        self.0.iter()
    }

    /// Newest MSN of a path.
    pub fn msn(&self, path: usize) -> u32 {
        self.0[path].newest.msn
    }

    /// Records data sent by a path; true if its PSN is new.
    pub(crate) fn sent(&mut self, space: Space, path: usize, psn: u32) -> bool {
        let leaf = &mut self.0[path];
        let is_accepted = space.lt(leaf.newest.psn, psn);
        if is_accepted {
            leaf.newest.psn = psn;
            leaf.by_sender = true;
        }
        is_accepted
    }

    /// Whether an acknowledgement of `psn` would advance a path.
    pub(crate) fn rises(&self, space: Space, path: usize, psn: u32) -> bool {
        space.lt(self.0[path].newest.psn, psn)
    }

    /// Records an acknowledgement of a path; true if its PSN is new or equals the newest one.
    pub(crate) fn acked(&mut self, space: Space, path: usize, acked: Point) -> bool {
        let leaf = &mut self.0[path];
        let is_accepted = space.reaches(acked.psn, leaf.newest.psn);
        if is_accepted {
            *leaf = Leaf {
                newest: acked,
                by_sender: false,
            };
        }
        is_accepted
    }

    /// The word of a path.
    pub fn word(&self, path: usize) -> Word {
        Word {
            psn: self.0[path].newest.psn,
            by_sender: self.0[path].by_sender,
            path,
        }
    }

    /// The first word in the order of [`Word::is_before`], among `paths` and `so_far`.
    pub fn oldest(
        &self,
        space: Space,
        paths: impl IntoIterator<Item = usize>,
        so_far: Option<Word>,
    ) -> Option<Word> {
        paths.into_iter().fold(so_far, |oldest, path| {
            let word = self.word(path);
            match oldest {
                Some(oldest) if !word.is_before(oldest, space) => Some(oldest),
                _ => Some(word),
            }
        })
    }

    /// The oldest word of all paths; `None` without any path.
    pub fn minimum(&self, space: Space) -> Option<Word> {
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
            // Of equal words, a receiver's and then the first one.
            let oldest = (0..given.len()).min_by_key(|path| given[*path]);
            prop_assert_eq!(leaves.minimum(Space::PSN), oldest.map(|path| leaves.word(path)));
        }
    }
}
