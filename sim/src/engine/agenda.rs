//! What will happen, in order.

use std::collections::VecDeque;

/// Events by their times, and among those of one instant by the order in which they were added.
///
/// A radix heap (Ahuja, Mehlhorn, Orlin and Tarjan: Faster algorithms for the shortest path problem, J. ACM 37, 1990): time
/// never runs backwards, so that an event can wait in the bucket of the highest bit in which its time differs from
/// the present, and comes down bucket by bucket as that time draws near. Buckets keep the order in which events came
/// in, since each is empty when events from a higher one come to it. What is moved are times and places; the events,
/// which are larger, stay where they are.
pub(super) struct Agenda<E> {
    /// The time of the event that was taken last.
    now: u64,
    /// Places of the events of this instant.
    due: VecDeque<u32>,
    /// Later events: those in `later[b]` have a time that differs from `now` in bit `b`, and in no higher one.
    later: [Bucket; 64],
    /// Bit `b` is set when `later[b]` holds any.
    filled: u64,
    events: Vec<Option<E>>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Bucket {
    /// Times and places.
    entries: Vec<(u64, u32)>,
    /// The earliest of the times; any if there is none.
    first: u64,
}

impl<E> Agenda<E> {
    pub(super) fn new() -> Self {
        Agenda {
            now: 0,
            due: VecDeque::new(),
            later: std::array::from_fn(|_| Bucket::default()),
            filled: 0,
            events: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Adds an event. Time does not run backwards: one for a time before the last event's comes at that one's.
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
        self.file(at.max(self.now), slot);
    }

    fn file(&mut self, at: u64, slot: u32) {
        let Some(bit) = (at ^ self.now).checked_ilog2() else {
            return self.due.push_back(slot);
        };
        let bucket = &mut self.later[bit as usize];
        if bucket.entries.is_empty() || at < bucket.first {
            bucket.first = at;
        }
        bucket.entries.push((at, slot));
        self.filled |= 1 << bit;
    }

    /// The time of the next event.
    pub(super) fn next_at(&self) -> Option<u64> {
        if !self.due.is_empty() {
            return Some(self.now);
        }
        let nearest = self.later.get(self.filled.trailing_zeros() as usize)?;
        Some(nearest.first)
    }

    /// The next event and its time, if that is not after `limit`.
    pub(super) fn take(&mut self, limit: u64) -> Option<(u64, E)> {
        let at = self.next_at()?;
        if at > limit {
            return None;
        }
        if self.due.is_empty() {
            self.advance(at);
        }
        let slot = self.due.pop_front()?;
        self.free.push(slot);
        let event = self.events[slot as usize].take()?;
        Some((at, event))
    }

    /// Goes on to the next event's time: what is in the nearest bucket comes down from it.
    fn advance(&mut self, at: u64) {
        let nearest = self.filled.trailing_zeros() as usize;
        self.filled &= !(1 << nearest);
        self.now = at;
        let mut entries = std::mem::take(&mut self.later[nearest].entries);
        for (at, slot) in entries.drain(..) {
            self.file(at, slot);
        }
        // For its memory.
        self.later[nearest].entries = entries;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Act {
        /// So long from now.
        Add(u64),
        /// Everything that is due until so long from now.
        Take(u64),
    }

    fn span() -> impl Strategy<Value = u64> {
        prop_oneof![
            3 => 0..4u64,
            3 => 0..2000u64,
            1 => (0..64u32).prop_map(|bit| 1 << bit),
            1 => any::<u64>(),
        ]
    }

    proptest! {
        #[test]
        fn events_come_by_time_and_then_as_they_were_added(
            acts in proptest::collection::vec(
                prop_oneof![3 => span().prop_map(Act::Add), 1 => span().prop_map(Act::Take)],
                0..200,
            ),
        ) {
            let mut agenda = Agenda::new();
            let mut expected = BTreeMap::new();
            let mut now = 0u64;
            for (number, act) in acts.into_iter().enumerate() {
                match act {
                    Act::Add(span) => {
                        let at = now.saturating_add(span);
                        agenda.add(at, number);
                        expected.insert((at, number), number);
                    }
                    Act::Take(span) => {
                        let limit = now.saturating_add(span);
                        while let Some((at, event)) = agenda.take(limit) {
                            let ((due, _), first) = expected.pop_first().expect("one was added");
                            prop_assert_eq!((at, event), (due, first));
                            now = at;
                        }
                    }
                }
                let first = expected.first_key_value().map(|((at, _), _)| *at);
                prop_assert_eq!(agenda.next_at(), first);
            }
            while let Some((at, event)) = agenda.take(u64::MAX) {
                let ((due, _), first) = expected.pop_first().expect("one was added");
                prop_assert_eq!((at, event), (due, first));
            }
            prop_assert!(expected.is_empty());
        }
    }
}
