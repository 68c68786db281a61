//! What will happen, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events by their times, and among those of one instant by the order in which they were added.
///
/// The heap orders small keys, and the events stay where they are: they are several times as large, and a heap
/// moves what it holds.
pub(super) struct Agenda<E> {
    keys: BinaryHeap<Reverse<Key>>,
    /// Added so far.
    added: u64,
    events: Vec<Option<E>>,
    free: Vec<u32>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    at: u64,
    added: u64,
    slot: u32,
}

impl<E> Agenda<E> {
    pub(super) fn new() -> Self {
        Agenda {
            keys: BinaryHeap::new(),
            added: 0,
            events: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, at: u64, event: E) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.events[slot as usize] = Some(event);
                slot
            }
            None => {
                self.events.push(Some(event));
                u32::try_from(self.events.len() - 1).expect("memory ends before")
            }
        };
        let added = self.added;
        self.added += 1;
        self.keys.push(Reverse(Key { at, added, slot }));
    }

    /// The time of the next event.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.keys.peek().map(|Reverse(key)| key.at)
    }

    /// The next event and its time, if that is not after `limit`.
    pub(super) fn take(&mut self, limit: u64) -> Option<(u64, E)> {
        if self.next_at()? > limit {
            return None;
        }
        let Reverse(key) = self.keys.pop()?;
        self.free.push(key.slot);
        let event = self.events[key.slot as usize].take()?;
        Some((key.at, event))
    }
}
