//! Trains: frames to a node that are delivered without an event each.
//!
//! Most frames of a long message have no visible effect before a later frame: no reply, no completion, no timer. A node
//! announces such followers of a frame in its flow ([`super::Context::expect_followers`]). From then on, only the arrival
//! time of each follower is recorded. The engine delivers them together, with their times, before any other event of
//! the node, and before its state is read. So the result is the same as with one event per frame.
//!
//! Any event that may invalidate the announcement ends the train: followers on their way become events again. A sender that
//! runs ahead ([`super::window`]) is notified in the next epoch only, and the frames that it sends meanwhile become events
//! as well. Links that may duplicate or reorder frames carry no trains. No link does if there are observers, or after any
//! link has gone down.

use std::collections::vec_deque::{Drain, VecDeque};

use super::Frame;

/// Position of a frame in its flow. Frames of a flow take the same path and differ, for receivers, only by what
/// [`Frame::advance`] changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Id of the flow, unique among those of the sending node.
    pub flow: u64,
    /// Sequence number in the flow. A lost frame leaves a gap.
    pub number: u32,
    /// The frame requests a reply, so it is not a follower.
    pub asks: bool,
}

/// Announcement of a node: range of sequence numbers of a flow whose frames are followers.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuietRange {
    flow: u64,
    from: u32,
    until: u32,
}

/// State at the sending port of a node that expects followers.
pub(super) struct Departures {
    /// Flow of the last departed frame.
    flow: u64,
    /// Its sequence number.
    last: u32,
    /// First sequence number of the range up to `last` without gaps.
    since: u32,
    /// The sender runs ahead. Then an announcement takes effect there in the next epoch.
    lags: bool,
    /// Epoch of the last access.
    clock: u64,
    /// Announcement in effect in that epoch.
    known: Option<QuietRange>,
    /// Last announcement.
    quiet: Option<QuietRange>,
}

impl Departures {
    /// Creates the state after a first frame.
    pub(super) fn new(place: Place, lags: bool) -> Departures {
        Departures {
            flow: place.flow,
            last: place.number,
            since: place.number,
            lags,
            clock: 0,
            known: None,
            quiet: None,
        }
    }

    /// Records a new announcement of the node, or its end (`None`), made in epoch `clock`.
    pub(super) fn record(&mut self, quiet: Option<QuietRange>, clock: u64) {
        self.turn_to(clock);
        self.quiet = quiet;
    }

    /// Advances to an epoch: announcements of earlier epochs take effect.
    #[inline]
    fn turn_to(&mut self, clock: u64) {
        if self.clock != clock {
            self.clock = clock;
            self.known = self.quiet;
        }
    }

    /// Whether a frame that departs in this epoch is a follower, by the announcements in effect.
    #[inline]
    pub(super) fn takes(&mut self, place: Place, clock: u64) -> bool {
        if place.asks || !self.is_next(place) {
            return false;
        }
        self.turn_to(clock);
        let known = if self.lags { self.known } else { self.quiet };
        // After a gap, frames are out of order.
        known.is_some_and(|quiet| {
            quiet.flow == self.flow && self.since <= quiet.from && place.number <= quiet.until
        })
    }

    #[inline]
    fn is_next(&self, place: Place) -> bool {
        self.flow == place.flow && self.last.wrapping_add(1) == place.number
    }

    /// Records the departure of a follower.
    #[inline]
    pub(super) fn takes_along(&mut self, place: Place) {
        self.last = place.number;
    }

    /// Records the departure of a frame that is not a follower.
    pub(super) fn passes(&mut self, place: Place) {
        if !self.is_next(place) {
            self.flow = place.flow;
            self.since = place.number;
        }
        self.last = place.number;
    }
}

/// Followers on their way to a node.
pub(super) struct Train<F> {
    /// The node is listed in [`super::state::Core::expecting`].
    pub(super) is_listed: bool,
    head: Option<Head<F>>,
    /// First head that ended in the current epoch, with the epoch: the sender may still use its announcement.
    former: Option<(u64, Head<F>)>,
    /// Arrival times of the followers not yet delivered.
    arrivals: VecDeque<u64>,
    /// Sequence numbers of these followers.
    runs: VecDeque<Run>,
}

/// Range of consecutive sequence numbers.
struct Run {
    first: u32,
    count: u32,
}

/// Last frame delivered as an event, and the announcement made then.
struct Head<F> {
    frame: F,
    number: u32,
    quiet: QuietRange,
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

    /// Adds a follower that arrives at `at`. If its announcement has ended, returns the frame, which must become an event.
    #[inline]
    pub(super) fn push(&mut self, place: Place, at: u64) -> Option<F> {
        let is_of = |head: &&Head<F>| head.quiet.flow == place.flow;
        let head = self.head.as_ref().filter(is_of);
        if head.is_none_or(|head| head.quiet.until < place.number) {
            let former = self.former.as_ref().map(|(_, head)| head);
            let known = head.or(former.filter(is_of));
            return Some(
                known
                    .expect("an announcement that its sender uses is stored")
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

    /// Whether the current announcement is for this flow.
    pub(super) fn is_of(&self, place: Option<Place>) -> bool {
        let head = self.head.as_ref();
        head.zip(place)
            .is_some_and(|(head, place)| head.quiet.flow == place.flow)
    }

    pub(super) fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// Records the announcement that the `count` frames after `frame` are followers, and returns the whole range announced.
    pub(super) fn expect(&mut self, frame: &F, place: Place, count: u32) -> QuietRange {
        debug_assert!(!self.is_due(u64::MAX) || self.head.is_some());
        let until = place.number.saturating_add(count);
        match &mut self.head {
            Some(head) if head.quiet.flow == place.flow => {
                head.quiet.until = head.quiet.until.max(until);
                head.quiet
            }
            _ => {
                let quiet = QuietRange {
                    flow: place.flow,
                    from: place.number,
                    until,
                };
                self.head = Some(Head {
                    frame: frame.clone(),
                    number: place.number,
                    quiet,
                });
                quiet
            }
        }
    }

    /// Whether any followers have arrived by `now`.
    #[inline]
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.arrivals.front().is_some_and(|at| *at <= now)
    }

    pub(super) fn last_arrival(&self) -> Option<u64> {
        self.arrivals.back().copied()
    }

    /// Delivers the followers that have arrived by `now`, in runs of consecutive numbers; returns their number.
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

    /// Ends the train in this epoch: returns the followers on their way, with their arrival times.
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
    /// The frame with this sequence number.
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
