//! What each path has, and the oldest of that (`min_psn_tree.p4`).
//!
//! The path of the source counts as having all that it sent, so the minimum needs no exception for it, and a change of the
//! source needs no repair. The leaves serve all three strategies.

use super::{Point, Space};

/// What a path has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// The newest PSN that all below have, or that the sender behind the port has sent, and the MSN of the newest
    /// feedback.
    pub newest: Point,
    /// Was the PSN set by data of a sender behind the port? Then the MSN does not belong to it.
    pub by_sender: bool,
}

/// The leaves of all paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leaves(Vec<Leaf>);

/// What a path is known to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word {
    /// The newest PSN.
    pub psn: u32,
    /// Is it a sender's, and not acknowledged?
    pub by_sender: bool,
    /// Which path.
    pub path: usize,
}

impl Word {
    /// Is it older than another, or of equal age and to be preferred? A sender's word does not tell its path,
    /// so of two of equal age neither is.
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

    /// In the order of path numbers.
    pub fn iter(&self) -> std::slice::Iter<'_, Leaf> {
        self.0.iter()
    }

    /// The messages that a path has counted.
    pub fn msn(&self, path: usize) -> u32 {
        self.0[path].newest.msn
    }

    /// The sender behind a path has sent: is it new?
    pub(crate) fn sent(&mut self, space: Space, path: usize, psn: u32) -> bool {
        let leaf = &mut self.0[path];
        let is_accepted = space.lt(leaf.newest.psn, psn);
        if is_accepted {
            leaf.newest.psn = psn;
            leaf.by_sender = true;
        }
        is_accepted
    }

    /// Would an acknowledgement of `psn` raise a path?
    pub(crate) fn rises(&self, space: Space, path: usize, psn: u32) -> bool {
        space.lt(self.0[path].newest.psn, psn)
    }

    /// A path acknowledges: does it rise to that, or say it again?
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

    /// What a path has, and that it is this one.
    pub fn word(&self, path: usize) -> Word {
        Word {
            psn: self.0[path].newest.psn,
            by_sender: self.0[path].by_sender,
            path,
        }
    }

    /// The path whose newest PSN is the oldest of some; of equal ones a receiver's, and the first. `so_far` is the oldest of
    /// those seen before.
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

    /// The oldest of all.
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
            // Of equal ones a receiver's, and the first.
            let oldest = (0..given.len()).min_by_key(|path| given[*path]);
            prop_assert_eq!(leaves.minimum(Space::PSN), oldest.map(|path| leaves.word(path)));
        }
    }
}
