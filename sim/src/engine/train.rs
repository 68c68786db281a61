//! Trains: frames to a node that need no event of their own.
//!
//! Most frames of a long message change nothing that anybody can see before a later one comes: they bring no answer, no completion
//! and no timer. A node announces those that follow one in its flow ([`super::Context::expect_followers`]); from then on only the time
//! at which each of them arrives is recorded. They are handed over together, with these times, before anything else happens to the
//! node, and before its state is read. So nothing distinguishes them from frames that came one by one.
//!
//! Whatever might change what the node has announced ends the train: those that are on their way become events again. A sender that runs
//! ahead ([`super::window`]) knows of that in the next epoch only, and what it sends meanwhile becomes events, too. A link that may
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
    /// Whether the sender runs ahead. Then what the node says in one epoch is known there in the next.
    lags: bool,
    /// The epoch of the last look or word, what is known in it, and what the node has said last.
    clock: u64,
    known: Option<Said>,
    said: Option<Said>,
}

impl Departures {
    /// Of this frame, and nothing before.
    pub(super) fn new(place: Place, lags: bool) -> Departures {
        Departures {
            flow: place.flow,
            last: place.number,
            since: place.number,
            lags,
            clock: 0,
            known: None,
            said: None,
        }
    }

    /// The node says this from now on, or nothing any more; in this epoch.
    pub(super) fn hear(&mut self, said: Option<Said>, clock: u64) {
        self.turn_to(clock);
        self.said = said;
    }

    /// What has been said in epochs before this is known.
    #[inline]
    fn turn_to(&mut self, clock: u64) {
        if self.clock != clock {
            self.clock = clock;
            self.known = self.said;
        }
    }

    /// Whether a frame that leaves now, in this epoch, is one that the node expects as far as is known.
    #[inline]
    pub(super) fn takes(&mut self, place: Place, clock: u64) -> bool {
        if place.asks || !self.is_next(place) {
            return false;
        }
        self.turn_to(clock);
        let known = if self.lags { self.known } else { self.said };
        // What comes after a gap is not in order.
        known.is_some_and(|said| {
            said.flow == self.flow && self.since <= said.from && place.number <= said.until
        })
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
    /// The first one that has ended in an epoch, and in which: who sends may still go by it.
    former: Option<(u64, Head<F>)>,
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
            former: None,
            arrivals: VecDeque::new(),
            runs: VecDeque::new(),
        }
    }

    /// One that is taken leaves, to arrive at `at`. If the node does not expect it any more it is an event: the frame comes back.
    #[inline]
    pub(super) fn push(&mut self, place: Place, at: u64) -> Option<F> {
        let is_of = |head: &&Head<F>| head.said.flow == place.flow;
        let head = self.head.as_ref().filter(is_of);
        if head.is_none_or(|head| head.said.until < place.number) {
            let former = self.former.as_ref().map(|(_, head)| head);
            let known = head.or(former.filter(is_of));
            return Some(
                known
                    .expect("a node has said what its sender knows")
                    .at(place.number),
            );
        }
        self.arrivals.push_back(at);
        match self.runs.back_mut() {
            Some(run) if run.first + run.count == place.number => run.count += 1,
            _ => self.runs.push_back(Run {
                first: place.number,
                count: 1,
            }),
        }
        None
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

    /// Ends the train in this epoch: gives those that are on their way, and when they arrive.
    pub(super) fn disperse(&mut self, clock: u64) -> Vec<(u64, F)> {
        let Some(mut head) = self.head.take() else {
            return Vec::new();
        };
        let numbers = self.runs.drain(..);
        let numbers = numbers.flat_map(|run| run.first..run.first + run.count);
        let ahead = self.arrivals.drain(..).zip(numbers).map(|(at, number)| {
            head.advance_to(number);
            (at, head.frame.clone())
        });
        let ahead = ahead.collect();
        if self
            .former
            .as_ref()
            .is_none_or(|(epoch, _)| *epoch != clock)
        {
            self.former = Some((clock, head));
        }
        ahead
    }
}

impl<F: Frame> Head<F> {
    /// The frame of this number, which comes later.
    fn at(&self, number: u32) -> F {
        let mut frame = self.frame.clone();
        frame.advance(number - self.number);
        frame
    }

    fn advance_to(&mut self, number: u32) {
        self.frame.advance(number - self.number);
        self.number = number;
    }
}

#[cfg(test)]
mod tests;
