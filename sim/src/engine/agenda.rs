//! What will happen, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How many nanoseconds the wheel looks ahead. A frame of 4 KiB on a link of 10 Gbit/s is there in half of that; what is later waits
/// in the heap. A power of two, of at least 64.
const SPAN: u64 = 8192;
const SLOTS: usize = SPAN as usize;
const WORDS: usize = SLOTS / 64;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// Events by their times, and among those of one instant by the order in which they were added.
///
/// A timing wheel (Varghese and Lauck: Hashed and hierarchical timing wheels, SOSP 1987) with one slot for each nanosecond of the near
/// future, where nearly all events of a fabric are: adding one and taking one cost the same however many there are. The rest waits in a heap
/// until the wheel reaches it. Events do not move; slots are lists of their places.
pub(super) struct Agenda<E> {
    /// The time of the event that was taken last.
    now: u64,
    /// First and last place of the events at each time from `now` to `SPAN` nanoseconds later, by the time modulo `SPAN`.
    slots: Box<[(u32, u32); SLOTS]>,
    /// Bit by bit, which slots hold any.
    filled: [u64; WORDS],
    /// The others, by time and the order in which they were added.
    far: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// How many events have been put in the heap.
    put_off: u64,
    places: Vec<Place<E>>,
    free: u32,
}

struct Place<E> {
    event: Option<E>,
    /// The next place of the same slot, or the next free one.
    next: u32,
}

impl<E> Agenda<E> {
    pub(super) fn new() -> Self {
        Agenda {
            now: 0,
            slots: Box::new([(NONE, NONE); SLOTS]),
            filled: [0; WORDS],
            far: BinaryHeap::new(),
            put_off: 0,
            places: Vec::new(),
            free: NONE,
        }
    }

    /// Adds an event. Time does not run backwards: one for a time before the last event's comes at that one's.
    pub(super) fn add(&mut self, at: u64, event: E) {
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
                u32::try_from(self.places.len() - 1).expect("memory ends before")
            }
        };
        let at = at.max(self.now);
        if at - self.now < SPAN {
            self.file(at, place);
        } else {
            self.far.push(Reverse((at, self.put_off, place)));
            self.put_off += 1;
        }
    }

    /// Puts a place at the end of its slot's list.
    fn file(&mut self, at: u64, place: u32) {
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

    /// The time of the next event.
    pub(super) fn next_at(&self) -> Option<u64> {
        // The heap's events are all later than the wheel's.
        self.next_near()
            .or_else(|| self.far.peek().map(|Reverse((at, ..))| *at))
    }

    fn next_near(&self) -> Option<u64> {
        self.next_from(self.now)
    }

    /// The first time that the wheel has events for, once round from `from`.
    fn next_from(&self, from: u64) -> Option<u64> {
        let start = (from % SPAN) as usize;
        let ahead = |slot: usize| (slot.wrapping_sub(start) % SLOTS) as u64;
        let word = start / 64;
        let first = self.filled[word] & (u64::MAX << (start % 64));
        if first != 0 {
            let slot = word * 64 + first.trailing_zeros() as usize;
            return Some(from + ahead(slot));
        }
        // Once round: the first word's lower bits come last.
        (1..=WORDS).find_map(|step| {
            let word = (word + step) % WORDS;
            let bits = self.filled[word];
            let slot = word * 64 + bits.trailing_zeros() as usize;
            (bits != 0).then(|| from + ahead(slot))
        })
    }

    /// Up to which time, exclusive, [`Agenda::near`] and [`Agenda::visit`] can look.
    pub(super) fn near_end(&self) -> u64 {
        self.now.saturating_add(SPAN)
    }

    /// The places of the events before `until`, with their times, in order.
    fn places_until(&self, until: u64) -> impl Iterator<Item = (u64, u32)> + use<'_, E> {
        let until = until.min(self.near_end());
        let from = move |at: u64| self.next_from(at).filter(|next| *next < until);
        let times = std::iter::successors(from(self.now), move |at| {
            (at + 1 < until).then(|| from(at + 1)).flatten()
        });
        times.flat_map(move |at| {
            let (first, _) = self.slots[(at % SPAN) as usize];
            let is_place = |place: u32| (place != NONE).then_some(place);
            let next = move |place: &u32| is_place(self.places[*place as usize].next);
            std::iter::successors(is_place(first), next).map(move |place| (at, place))
        })
    }

    /// The events before `until`, in order.
    pub(super) fn near(&self, until: u64) -> impl Iterator<Item = &E> {
        let places = self.places_until(until);
        places.filter_map(|(_, place)| self.places[place as usize].event.as_ref())
    }

    /// Lets the events before `until` be changed, in order.
    pub(super) fn visit(&mut self, until: u64, mut change: impl FnMut(u64, &mut E)) {
        let places: Vec<_> = self.places_until(until).collect();
        for (at, place) in places {
            if let Some(event) = &mut self.places[place as usize].event {
                change(at, event);
            }
        }
    }

    /// The next event and its time, if that is not after `limit`.
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
        *first = std::mem::replace(&mut taken.next, self.free);
        self.free = place;
        if *first == NONE {
            self.filled[slot / 64] &= !(1 << (slot % 64));
        }
        Some((at, event?))
    }

    /// Goes on to a time: what is near then comes to the wheel, before anything else can be added for the same time.
    fn advance(&mut self, at: u64) {
        self.now = at;
        while let Some(&Reverse((at, _, place))) = self.far.peek() {
            if at - self.now >= SPAN {
                break;
            }
            self.far.pop();
            self.file(at, place);
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
        /// So long from now.
        Add(u64),
        /// Everything that is due until so long from now.
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
                let until = now.saturating_add(SPAN / 2);
                let near = expected.iter().take_while(|((at, _), _)| *at < until);
                let near: Vec<usize> = near.map(|(_, number)| *number).collect();
                prop_assert_eq!(agenda.near(until).copied().collect::<Vec<_>>(), near);
            }
            while let Some((at, event)) = agenda.take(u64::MAX) {
                let ((due, _), first) = expected.pop_first().expect("one was added");
                prop_assert_eq!((at, event), (due, first));
            }
            prop_assert!(expected.is_empty());
        }
    }
}
