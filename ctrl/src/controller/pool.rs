//! Allocators of numbers: group indexes and slots of a switch, addresses of groups.

use std::collections::BTreeSet;

/// Allocator for a range of numbers.
///
/// Numbers are allocated in round-robin order, so that a released number is reused as late as possible: packets of its last
/// user may still be on links.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    first: u32,
    last: u32,
    next: u32,
    used: BTreeSet<u32>,
    /// Released numbers that must not be reused before [`Pool::end_quarantine`].
    quarantined: BTreeSet<u32>,
}

impl Pool {
    /// Creates an allocator of the numbers `first` to `last`.
    pub(super) fn new(first: u32, last: u32) -> Pool {
        Pool {
            first,
            last,
            next: first,
            used: BTreeSet::new(),
            quarantined: BTreeSet::new(),
        }
    }

    /// Allocates an unused number; `None` if there is none.
    pub(super) fn take(&mut self) -> Option<u32> {
        self.take_if(|_| true)
    }

    /// Allocates an unused number for which `fits` is true; `None` if there is none.
    pub(super) fn take_if(&mut self, fits: impl Fn(u32) -> bool) -> Option<u32> {
        let number = (self.next..=self.last)
            .chain(self.first..self.next)
            .find(|n| fits(*n) && !self.used.contains(n) && !self.quarantined.contains(n))?;
        self.used.insert(number);
        self.next = match number == self.last {
            true => self.first,
            false => number + 1,
        };
        Some(number)
    }

    /// Whether a number can be allocated.
    pub(super) fn is_free(&self, number: u32) -> bool {
        let is_used = self.used.contains(&number) || self.quarantined.contains(&number);
        (self.first..=self.last).contains(&number) && !is_used
    }

    /// Allocates this number; false if it is in use.
    pub(super) fn reserve(&mut self, number: u32) -> bool {
        self.is_free(number) && self.used.insert(number)
    }

    /// Releases a number.
    pub(super) fn release(&mut self, number: u32) {
        self.used.remove(&number);
    }

    /// Releases a number that must not be reused before [`Pool::end_quarantine`].
    pub(super) fn quarantine(&mut self, number: u32) {
        self.used.remove(&number);
        self.quarantined.insert(number);
    }

    /// Makes quarantined numbers available, and returns them.
    pub(super) fn end_quarantine(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.quarantined)
    }

    /// Number of numbers that are available for allocation.
    pub(super) fn left(&self) -> usize {
        self.size() - self.used.len() - self.quarantined.len()
    }

    /// Number of numbers in the range, allocated or not.
    pub(super) fn size(&self) -> usize {
        (self.last - self.first) as usize + 1
    }

    /// Number of allocated numbers, without quarantined ones.
    pub(super) fn in_use(&self) -> usize {
        self.used.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_numbers_are_reused_as_late_as_possible() {
        let mut pool = Pool::new(5, 7);
        assert_eq!(pool.take(), Some(5));
        pool.release(5);
        assert_eq!(pool.take(), Some(6));
        assert_eq!(pool.take(), Some(7));
        assert_eq!(pool.take(), Some(5));
        assert_eq!(pool.take(), None);
        assert_eq!(pool.left(), 0);
    }

    #[test]
    fn quarantined_numbers_are_not_reused_before_the_quarantine_ends() {
        let mut pool = Pool::new(0, 1);
        assert!(pool.reserve(1));
        assert!(!pool.reserve(1));
        assert!(!pool.reserve(2));
        pool.quarantine(1);
        assert!(!pool.reserve(1));
        assert_eq!(pool.take(), Some(0));
        assert_eq!(pool.take(), None);
        pool.end_quarantine();
        assert_eq!(pool.take(), Some(1));
        assert_eq!(pool.in_use(), 2);
    }
}
