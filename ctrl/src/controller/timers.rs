//! Timers by key, sorted by time.

use std::collections::{BTreeMap, BTreeSet};

/// Timers by key, at most one per key; times in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Timers<K> {
    at: BTreeMap<K, u64>,
    order: BTreeSet<(u64, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Timers<K> {
        Timers {
            at: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }
}

impl<K: Copy + Ord> Timers<K> {
    /// Sets or replaces the timer of a key.
    pub(super) fn set(&mut self, key: K, at: u64) {
        if self.at.get(&key) == Some(&at) {
            return;
        }
        self.clear(key);
        self.at.insert(key, at);
        self.order.insert((at, key));
    }

    /// Removes the timer of a key.
    pub(super) fn clear(&mut self, key: K) {
        if let Some(at) = self.at.remove(&key) {
            self.order.remove(&(at, key));
        }
    }

    /// Time of the earliest timer; `None` without timers.
    pub(super) fn first(&self) -> Option<u64> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Removes the earliest timer if it is due, and returns its key.
    pub(super) fn pop_due(&mut self, now: u64) -> Option<K> {
        let (at, key) = *self.order.first().filter(|(at, _)| *at <= now)?;
        self.order.remove(&(at, key));
        self.at.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_timers_are_returned_once_and_in_order() {
        let mut timers = Timers::default();
        for (key, at) in [('a', 30), ('b', 10), ('c', 20), ('b', 40), ('d', 20)] {
            timers.set(key, at);
        }
        timers.clear('d');
        assert_eq!(timers.first(), Some(20));
        assert_eq!(timers.pop_due(19), None);
        let due: Vec<char> = std::iter::from_fn(|| timers.pop_due(30)).collect();
        assert_eq!(due, ['c', 'a']);
        assert_eq!(timers.first(), Some(40));
    }
}
