//! Priority queue of scheduled events, by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Range of the timing wheel in nanoseconds: a power of two, at least 64. Later events are in the heap. A frame of 4
/// KiB takes less than half of this range on a link of 10 Gbit/s.
const SPAN: u64 = 8192;
const SLOTS: usize = SPAN as usize;
const WORDS: usize = SLOTS / 64;

/// Index that marks the end of a linked list of [`Place`]s.
const NONE: u32 = u32::MAX;

/// Priority queue of events by time; events of the same time are in the order of insertion.
///
/// Events of the near future, which are nearly all events of a fabric, are in a timing wheel with one slot per
/// nanosecond (Varghese and Lauck: Hashed and hierarchical timing wheels, SOSP 1987). Insertion and removal take
/// constant time. Later events are in a heap until the wheel reaches them. Events are not moved: a slot is a linked
/// list of indexes into `places`.
pub(super) struct Agenda<E> {
    /// Time in nanoseconds of the event that was last removed.
    now: u64,
    /// First and last event at each time from `now` to `now + SPAN`, as indexes into `places`; the slot of a time is
    /// that time modulo `SPAN`.
    slots: Box<[(u32, u32); SLOTS]>,
    /// Bitmap of the slots that hold events.
    filled: [u64; WORDS],
    /// Events later than the range of the wheel: time, number of the insertion, index into `places`.
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// Number of events inserted into the heap so far, which orders events of equal time.
    heap_insertions: u64,
    /// Pool of all scheduled events, and of free entries.
    places: Vec<Place<E>>,
    /// First free entry of `places`; `NONE` if there is none.
    free: u32,
    /// Number of events.
    len: usize,
}

/// Entry of the pool of events: an event, or free.
struct Place<E> {
    event: Option<E>,
    /// Index of the next event in the same slot, or of the next free entry.
    next: u32,
}

impl<E> Agenda<E> {
    pub(super) fn new() -> Self {
        Agenda {
            now: 0,
            slots: Box::new([(NONE, NONE); SLOTS]),
            filled: [0; WORDS],
            heap: BinaryHeap::new(),
            heap_insertions: 0,
            places: Vec::new(),
            free: NONE,
            len: 0,
        }
    }

    /// Inserts an event at time `at`. A time before that of the last removed event is replaced by that event's time.
    pub(super) fn add(&mut self, at: u64, event: E) {
        self.len += 1;
        let place = match self.places.get_mut(self.free as usize) {
            Some(free) => {
                free.event = Some(event);
                std::mem::replace(&mut self.free, free.next)
            }
            None => {
                self.places.push(Place {
                    event: Some(event),
                    next: NONE,
                });
                u32::try_from(self.places.len() - 1).expect("memory holds fewer than 2^32 events")
            }
        };
        let at = at.max(self.now);
        if at - self.now < SPAN {
            self.append(at, place);
        } else {
            self.heap.push(Reverse((at, self.heap_insertions, place)));
            self.heap_insertions += 1;
        }
    }

    /// Appends the event at index `place` to the list of its slot in the wheel. `at`: time of the event.
    fn append(&mut self, at: u64, place: u32) {
        let slot = (at % SPAN) as usize;
        self.places[place as usize].next = NONE;
        let (first, last) = &mut self.slots[slot];
        if *first == NONE {
            *first = place;
            self.filled[slot / 64] |= 1 << (slot % 64);
        } else {
            self.places[*last as usize].next = place;
        }
        *last = place;
    }

    /// Time of the next event; `None` if there are no events.
    pub(super) fn next_at(&self) -> Option<u64> {
        // All events in the heap are later than those in the wheel.
        self.next_near()
            .or_else(|| self.heap.peek().map(|Reverse((at, ..))| *at))
    }

    fn next_near(&self) -> Option<u64> {
        self.next_from(self.now)
    }

    /// Time of the first event in the wheel, searched from time `from` on. A slot before `from` counts as `SPAN` later.
    fn next_from(&self, from: u64) -> Option<u64> {
        let start = (from % SPAN) as usize;
        let ahead = |slot: usize| (slot.wrapping_sub(start) % SLOTS) as u64;
        let word = start / 64;
        let first = self.filled[word] & (u64::MAX << (start % 64));
        if first != 0 {
            let slot = word * 64 + first.trailing_zeros() as usize;
            return Some(from + ahead(slot));
        }
        // The search wraps around: the lower bits of the first word come last.
        (1..=WORDS).find_map(|step| {
            let word = (word + step) % WORDS;
            let bits = self.filled[word];
            let slot = word * 64 + bits.trailing_zeros() as usize;
            (bits != 0).then(|| from + ahead(slot))
        })
    }

    /// End (exclusive) of the time range that [`Agenda::near`] and [`Agenda::visit`] cover.
    pub(super) fn near_end(&self) -> u64 {
        self.now.saturating_add(SPAN)
    }

    /// Times and indexes into `places` of the events in the wheel before `until`, in order.
    fn places_until(&self, until: u64) -> impl Iterator<Item = (u64, u32)> + use<'_, E> {
        let until = until.min(self.near_end());
        let from = move |at: u64| self.next_from(at).filter(|next| *next < until);
        let times = std::iter::successors(from(self.now), move |at| {
            at.checked_add(1)
                .filter(|next| *next < until)
                .and_then(from)
        });
        times.flat_map(move |at| {
            let (first, _) = self.slots[(at % SPAN) as usize];
            let is_place = |place: u32| (place != NONE).then_some(place);
            let next = move |place: &u32| is_place(self.places[*place as usize].next);
            std::iter::successors(is_place(first), next).map(move |place| (at, place))
        })
    }

    /// The events in the wheel before `until`, in order.
    pub(super) fn near(&self, until: u64) -> impl Iterator<Item = &E> {
        let places = self.places_until(until);
        places.filter_map(|(_, place)| self.places[place as usize].event.as_ref())
    }

    /// Calls `change` on each event in the wheel before `until`, in order.
    pub(super) fn visit(&mut self, until: u64, mut change: impl FnMut(u64, &mut E)) {
        let places: Vec<_> = self.places_until(until).collect();
        for (at, place) in places {
            if let Some(event) = &mut self.places[place as usize].event {
                change(at, event);
            }
        }
    }

    /// Number of events.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All events in order, each with its time and a number that identifies it until it is removed. The time of the agenda
    /// must be less than 2^64 nanoseconds minus twice the range of the wheel.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u32, &E)> {
        let mut later: Vec<_> = self.heap.iter().map(|Reverse(entry)| *entry).collect();
        later.sort_unstable();
        let later = later.into_iter().map(|(at, _, place)| (at, place));
        let all = self.places_until(u64::MAX).chain(later);
        all.filter_map(|(at, place)| Some((at, place, self.places[place as usize].event.as_ref()?)))
    }

    /// Removes and returns all events in order, each with its time; see [`Agenda::all`].
    pub(super) fn drain(&mut self) -> Vec<(u64, E)> {
        let mut later: Vec<_> = self.heap.drain().map(|Reverse(entry)| entry).collect();
        later.sort_unstable();
        let later = later.into_iter().map(|(at, _, place)| (at, place));
        let all: Vec<_> = self.places_until(u64::MAX).chain(later).collect();
        let take = |(at, place): (u64, u32)| {
            let event = self.places[place as usize].event.take();
            event.map(|event| (at, event))
        };
        let events = all.into_iter().filter_map(take).collect();
        *self = Agenda {
            now: self.now,
            ..Agenda::new()
        };
        events
    }

    /// Advances the time to `now`, which is not after the first event.
    pub(super) fn advance_to(&mut self, now: u64) {
        self.advance(now.max(self.now));
    }

    /// Removes and returns the next event with its time, unless it is after `limit`.
    pub(super) fn take(&mut self, limit: u64) -> Option<(u64, E)> {
        let at = self.next_at()?;
        if at > limit {
            return None;
        }
        if at != self.now {
            self.advance(at);
        }
        let slot = (at % SPAN) as usize;
        let (first, _) = &mut self.slots[slot];
        let place = *first;
        let taken = &mut self.places[place as usize];
        let event = taken.event.take();
        self.len -= 1;
        *first = std::mem::replace(&mut taken.next, self.free);
        self.free = place;
        if *first == NONE {
            self.filled[slot / 64] &= !(1 << (slot % 64));
        }
        Some((at, event?))
    }

    /// Advances the wheel to time `at`, and moves events that are now in its range from the heap to the wheel. So they
    /// precede events inserted later for the same time.
    fn advance(&mut self, at: u64) {
        self.now = at;
        while let Some(&Reverse((at, _, place))) = self.heap.peek() {
            if at - self.now >= SPAN {
                break;
            }
            self.heap.pop();
            self.append(at, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Act {
        /// Inserts an event N nanoseconds from now.
        Add(u64),
        /// Takes all events up to N nanoseconds from now.
        Take(u64),
    }

    fn span() -> impl Strategy<Value = u64> {
        prop_oneof![
            3 => 0..4u64,
            3 => 0..2000u64,
            2 => 0..3 * SPAN,
            1 => (0..64u32).prop_map(|bit| 1 << bit),
            1 => any::<u64>(),
        ]
    }

    proptest! {
        #[test]
        fn events_are_ordered_by_time_then_by_insertion(
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
                let until = now.saturating_add(SPAN / 2);
                let near = expected.iter().take_while(|((at, _), _)| *at < until);
                let near: Vec<usize> = near.map(|(_, number)| *number).collect();
                prop_assert_eq!(agenda.near(until).copied().collect::<Vec<_>>(), near);
                if now >= u64::MAX - 2 * SPAN {
                    continue;
                }
                let all: Vec<_> = agenda.all().map(|(at, _, event)| (at, *event)).collect();
                let same: Vec<_> = expected.keys().copied().collect();
                prop_assert_eq!(&all, &same);
                prop_assert_eq!(agenda.len(), all.len());
                if number % 8 == 0 {
                    prop_assert_eq!(&agenda.drain(), &all);
                    prop_assert_eq!(agenda.len(), 0);
                    for (at, event) in all {
                        agenda.add(at, event);
                    }
                }
            }
            while let Some((at, event)) = agenda.take(u64::MAX) {
                let ((due, _), first) = expected.pop_first().expect("one was added");
                prop_assert_eq!((at, event), (due, first));
            }
            prop_assert!(expected.is_empty());
        }
    }
}
