//! Trains: frames to a node that need no event of their own.
//!
//! Most frames of a long message change nothing that anybody can see before a later one comes: they bring no answer, no completion
//! and no timer. A node announces those that follow one in its flow ([`super::Context::expect_followers`]); from then on only the time
//! at which each of them arrives is recorded. They are handed over together, with these times, before anything else happens to the
//! node, and before its state is read. So nothing distinguishes them from frames that came one by one.
//!
//! Whatever might change what the node has announced ends the train: those that are on their way become events again. A link that may
//! duplicate frames or hold them back carries no trains, and no link does when there are observers, or when any link has ever gone down.

use std::collections::vec_deque::{Drain, VecDeque};

use super::Frame;

/// Where a frame is in its flow. The frames of a flow go the same way and differ in nothing that a receiver looks at, but for what
/// [`Frame::advance`] changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Unique among the flows that leave a node.
    pub flow: u64,
    /// Counts the flow's frames. One that is lost leaves a gap.
    pub number: u32,
    /// Whether it asks for an answer: then it is no follower.
    pub asks: bool,
}

/// What a node has said of a flow: frames of these numbers change nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    flow: u64,
    from: u32,
    until: u32,
}

/// What has left for a node that expects followers, where it leaves.
pub(super) struct Departures {
    /// The flow of the frame that has left last, its number, and the one from which on none is missing up to it.
    flow: u64,
    last: u32,
    since: u32,
    said: Option<Said>,
}

impl Departures {
    /// Of this frame, and nothing before.
    pub(super) fn new(place: Place) -> Departures {
        Departures {
            flow: place.flow,
            last: place.number,
            since: place.number,
            said: None,
        }
    }

    /// The node says this from now on, or nothing any more.
    pub(super) fn hear(&mut self, said: Option<Said>) {
        self.said = said;
    }

    /// Whether a frame that leaves now is one that the node expects.
    #[inline]
    pub(super) fn takes(&self, place: Place) -> bool {
        let is_expected = |said: &Said| {
            // What comes after a gap is not in order.
            said.flow == self.flow && self.since <= said.from && place.number <= said.until
        };
        !place.asks && self.is_next(place) && self.said.as_ref().is_some_and(is_expected)
    }

    #[inline]
    fn is_next(&self, place: Place) -> bool {
        self.flow == place.flow && self.last.wrapping_add(1) == place.number
    }

    /// One that is taken leaves.
    #[inline]
    pub(super) fn takes_along(&mut self, place: Place) {
        self.last = place.number;
    }

    /// One that is not taken leaves.
    pub(super) fn passes(&mut self, place: Place) {
        if !self.is_next(place) {
            self.flow = place.flow;
            self.since = place.number;
        }
        self.last = place.number;
    }
}

/// What is on its way to a node.
pub(super) struct Train<F> {
    /// Whether it is among [`super::state::Core::expecting`].
    pub(super) is_listed: bool,
    head: Option<Head<F>>,
    /// When each follower that has not been handed over arrives,
    arrivals: VecDeque<u64>,
    /// and the numbers of all of these.
    runs: VecDeque<Run>,
}

/// Frames of a flow that follow each other.
struct Run {
    first: u32,
    count: u32,
}

/// The frame that the node has taken last, and what it has said then.
struct Head<F> {
    frame: F,
    number: u32,
    said: Said,
}

impl<F: Frame> Train<F> {
    pub(super) fn new() -> Train<F> {
        Train {
            is_listed: false,
            head: None,
            arrivals: VecDeque::new(),
            runs: VecDeque::new(),
        }
    }

    /// One that is taken leaves, to arrive at `at`.
    #[inline]
    pub(super) fn push(&mut self, place: Place, at: u64) {
        self.arrivals.push_back(at);
        match self.runs.back_mut() {
            Some(run) if run.first + run.count == place.number => run.count += 1,
            _ => self.runs.push_back(Run {
                first: place.number,
                count: 1,
            }),
        }
    }

    /// Whether the node has said something of this flow.
    pub(super) fn is_of(&self, place: Option<Place>) -> bool {
        let head = self.head.as_ref();
        head.zip(place)
            .is_some_and(|(head, place)| head.said.flow == place.flow)
    }

    pub(super) fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// The node has taken `frame` now, and so many that follow it change nothing: what it has said in all.
    pub(super) fn expect(&mut self, frame: &F, place: Place, room: u32) -> Said {
        debug_assert!(!self.is_due(u64::MAX) || self.head.is_some());
        let until = place.number.saturating_add(room);
        match &mut self.head {
            Some(head) if head.said.flow == place.flow => {
                head.said.until = head.said.until.max(until);
                head.said
            }
            _ => {
                let said = Said {
                    flow: place.flow,
                    from: place.number,
                    until,
                };
                self.head = Some(Head {
                    frame: frame.clone(),
                    number: place.number,
                    said,
                });
                said
            }
        }
    }

    /// Whether any have arrived by `now`.
    #[inline]
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.arrivals.front().is_some_and(|at| *at <= now)
    }

    pub(super) fn last_arrival(&self) -> Option<u64> {
        self.arrivals.back().copied()
    }

    /// Hands over those that have arrived by `now`, as many at a time as follow each other; gives how many.
    pub(super) fn hand_over(&mut self, now: u64, mut take: impl FnMut(Drain<'_, u64>, &F)) -> u64 {
        let Some(head) = &mut self.head else {
            return 0;
        };
        let mut left = self.arrivals.partition_point(|at| *at <= now);
        let count = left as u64;
        while let Some(run) = self.runs.front_mut().filter(|_| left > 0) {
            let taken = left.min(run.count as usize);
            head.advance_to(run.first);
            take(self.arrivals.drain(..taken), &head.frame);
            left -= taken;
            run.first += taken as u32;
            run.count -= taken as u32;
            if run.count == 0 {
                self.runs.pop_front();
            }
        }
        count
    }

    /// Ends the train: gives those that are on their way, and when they arrive.
    pub(super) fn disperse(&mut self) -> Vec<(u64, F)> {
        let Some(mut head) = self.head.take() else {
            return Vec::new();
        };
        let numbers = self.runs.drain(..);
        let numbers = numbers.flat_map(|run| run.first..run.first + run.count);
        let ahead = self.arrivals.drain(..).zip(numbers).map(|(at, number)| {
            head.advance_to(number);
            (at, head.frame.clone())
        });
        ahead.collect()
    }
}

impl<F: Frame> Head<F> {
    fn advance_to(&mut self, number: u32) {
        self.frame.advance(number - self.number);
        self.number = number;
    }
}

#[cfg(test)]
mod tests;
