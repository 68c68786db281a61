//! Trains: frames to a node that are delivered together, without an event for each.
//!
//! Most frames of a long message have no visible effect when they arrive: no reply, no completion, no timer. A node
//! announces such frames as followers of a frame in their flow ([`super::Context::expect_followers`]). From then on,
//! only the arrival time of each follower is recorded. The engine delivers the followers together, with their times,
//! before any other event of the node, and before its state is read. So the result is the same as with one event per
//! frame.
//!
//! Any event that may invalidate the announcement ends the train: followers on their way become events again. A sender
//! that runs ahead ([`super::window`]) is affected by this only from the next epoch on; the frames that it sends
//! meanwhile become events, too. Links that may duplicate or reorder frames have no trains. With observers, or after
//! any link has gone down, no link has.

use std::collections::vec_deque::{Drain, VecDeque};

use alfirk_roce::steady::StateVisitor;

use super::Frame;

/// Position of a frame in its flow. All frames of a flow take the same path, and receivers see only the differences
/// that [`Frame::advance`] makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowPosition {
    /// Number of the flow, unique among the flows of the sending node.
    pub flow: u64,
    /// Number of the frame in the flow. Numbers are consecutive, but a lost frame leaves a gap.
    pub number: u32,
    /// Whether the frame requests a reply. Such a frame is never a follower.
    pub requests_reply: bool,
}

/// Range of frame numbers in a flow which the receiving node has announced as followers: frames that have no visible
/// effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct FollowerRange {
    /// Number of the flow.
    flow: u64,
    /// Number of the frame that the receiver has got when it announced; the followers come after it.
    from: u32,
    /// Number of the last follower.
    until: u32,
}

/// Record, kept at the sending port, of the frames that have departed to a node which may announce followers.
pub(super) struct Departures {
    /// Flow of the last frame that departed.
    flow: u64,
    /// Number of the last frame in its flow.
    last: u32,
    /// Number of the first frame in the series of consecutive frames that ends with `last`.
    since: u32,
    /// Whether the sender may run ahead. If so, an announcement takes effect only in the next epoch.
    sender_runs_ahead: bool,
    /// Epoch in which the record was last used.
    epoch: u64,
    /// The announcement of followers that a sender which runs ahead uses during `epoch`; `None` without one.
    effective: Option<FollowerRange>,
    /// The newest announcement of followers; `None` after it has ended.
    announced: Option<FollowerRange>,
}

impl Departures {
    /// Creates the record when the first frame departs; `place` is its position in its flow.
    pub(super) fn new(place: FlowPosition, sender_runs_ahead: bool) -> Departures {
        Departures {
            flow: place.flow,
            last: place.number,
            since: place.number,
            sender_runs_ahead,
            epoch: 0,
            effective: None,
            announced: None,
        }
    }

    /// Visits the record, whose values belong to the visitor's stream.
    pub(super) fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        let Departures {
            flow,
            last,
            since,
            sender_runs_ahead: _,
            epoch: _,
            effective,
            announced,
        } = self;
        visitor.same(*flow);
        // Where a train began depends on earlier disturbances; only the order of the two numbers has an effect.
        visitor.constant((*since).into());
        for range in [&*effective, &*announced] {
            visitor.same(range.is_some().into());
            if let Some(range) = range {
                visitor.same(range.flow);
                visitor.constant(range.from.into());
                visitor.same((*since <= range.from).into());
                visitor.room(range.until.saturating_sub(*last).into());
            }
        }
        *last = visitor.number((*last).into()) as u32;
        let flows =
            [&*effective, &*announced].map(|range| range.map(|range| (range.flow, range.from)));
        // An announcement that takes effect in the next epoch is not part of a steady state.
        if flows[0] != flows[1] {
            visitor.unsupported();
        }
    }

    /// Records the announcement `announced` that the receiver has made in `epoch`, or the end of its announcement
    /// (`None`).
    pub(super) fn record_announcement(&mut self, announced: Option<FollowerRange>, epoch: u64) {
        self.enter_epoch(epoch);
        self.announced = announced;
    }

    /// Advances the record to an epoch, in which announcements of earlier epochs take effect.
    #[inline]
    fn enter_epoch(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.effective = self.announced;
        }
    }

    /// Whether a frame that departs in this epoch is a follower, according to the announcement in effect.
    #[inline]
    pub(super) fn is_follower(&mut self, place: FlowPosition, epoch: u64) -> bool {
        if place.requests_reply || !self.is_next(place) {
            return false;
        }
        self.enter_epoch(epoch);
        let effective = if self.sender_runs_ahead {
            self.effective
        } else {
            self.announced
        };
        // After a gap, frames are not in order.
        effective.is_some_and(|announced| {
            announced.flow == self.flow
                && self.since <= announced.from
                && place.number <= announced.until
        })
    }

    #[inline]
    fn is_next(&self, place: FlowPosition) -> bool {
        self.flow == place.flow && self.last.wrapping_add(1) == place.number
    }

    /// Records that a follower has departed.
    #[inline]
    pub(super) fn record_follower(&mut self, place: FlowPosition) {
        self.last = place.number;
    }

    /// Records that a frame other than a follower has departed.
    pub(super) fn record_other(&mut self, place: FlowPosition) {
        if !self.is_next(place) {
            self.flow = place.flow;
            self.since = place.number;
        }
        self.last = place.number;
    }
}

/// The announced followers that are on their way to a node.
pub(super) struct Train<F> {
    /// Whether [`super::state::Core::expecting`] lists the node.
    pub(super) is_listed: bool,
    head: Option<Head<F>>,
    /// The first head whose announcement ended in the current epoch, with the number of that epoch. A sender that runs
    /// ahead may still use that announcement.
    ended_head: Option<(u64, Head<F>)>,
    /// Arrival times in nanoseconds of the followers that are not delivered yet.
    arrivals: VecDeque<u64>,
    /// Frame numbers of the followers that are not delivered yet, as ranges.
    runs: VecDeque<Run>,
}

/// A range of consecutive frame numbers.
struct Run {
    first: u32,
    count: u32,
}

/// A delivered frame of the announced flow, from which the followers are computed, and the announcement.
struct Head<F> {
    frame: F,
    number: u32,
    announced: FollowerRange,
}

impl<F: Frame> Train<F> {
    pub(super) fn new() -> Train<F> {
        Train {
            is_listed: false,
            head: None,
            ended_head: None,
            arrivals: VecDeque::new(),
            runs: VecDeque::new(),
        }
    }

    /// Adds a follower that arrives at time `at`. If its announcement has ended, returns the frame instead; the caller
    /// must schedule an event for it.
    #[inline]
    pub(super) fn push(&mut self, place: FlowPosition, at: u64) -> Option<F> {
        let is_of = |head: &&Head<F>| head.announced.flow == place.flow;
        let head = self.head.as_ref().filter(is_of);
        if head.is_none_or(|head| head.announced.until < place.number) {
            let ended_head = self.ended_head.as_ref().map(|(_, head)| head);
            let known = head.or(ended_head.filter(is_of));
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

    /// Visits the followers on their way, and the announcement. `epoch`: the current epoch.
    pub(super) fn visit_state(&mut self, visitor: &mut StateVisitor<'_>, epoch: u64) {
        let Train {
            is_listed,
            head,
            ended_head,
            arrivals,
            runs,
        } = self;
        if ended_head
            .as_ref()
            .is_some_and(|(ended, _)| *ended == epoch)
        {
            visitor.unsupported();
        }
        visitor.same((*is_listed).into());
        visitor.same(head.is_some().into());
        if let Some(head) = head {
            // Followers are computed from the frame of the head by their distance, so it needs no shift.
            head.frame.enter_stream(visitor);
            visitor.same(head.announced.flow);
            visitor.constant(head.announced.from.into());
        }
        visitor.same(arrivals.len() as u64);
        for at in arrivals {
            *at = visitor.time(*at);
        }
        visitor.same(runs.len() as u64);
        for Run { first, count } in runs {
            *first = visitor.number((*first).into()) as u32;
            visitor.same((*count).into());
        }
    }

    /// A frame of the announced flow; `None` without an announcement.
    pub(super) fn head_frame(&self) -> Option<&F> {
        self.head.as_ref().map(|head| &head.frame)
    }

    /// Whether the current announcement is for the flow of the position `place`.
    pub(super) fn is_for_flow_of(&self, place: Option<FlowPosition>) -> bool {
        let head = self.head.as_ref();
        head.zip(place)
            .is_some_and(|(head, place)| head.announced.flow == place.flow)
    }

    pub(super) fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// Records a receiver's announcement that the `count` frames after `frame` are followers. Returns the whole
    /// announced range.
    pub(super) fn record_announcement(
        &mut self,
        frame: &F,
        place: FlowPosition,
        count: u32,
    ) -> FollowerRange {
        debug_assert!(!self.is_due(u64::MAX) || self.head.is_some());
        let until = place.number.saturating_add(count);
        match &mut self.head {
            Some(head) if head.announced.flow == place.flow => {
                head.announced.until = head.announced.until.max(until);
                head.announced
            }
            _ => {
                let announced = FollowerRange {
                    flow: place.flow,
                    from: place.number,
                    until,
                };
                self.head = Some(Head {
                    frame: frame.clone(),
                    number: place.number,
                    announced,
                });
                announced
            }
        }
    }

    /// Whether at least one follower (a frame of the train after its first) has arrived by `now`, in nanoseconds.
    #[inline]
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.arrivals.front().is_some_and(|at| *at <= now)
    }

    pub(super) fn last_arrival(&self) -> Option<u64> {
        self.arrivals.back().copied()
    }

    /// Passes the followers that have arrived by the time `now` to `take`, in ranges of consecutive numbers. Returns
    /// their number.
    pub(super) fn deliver_arrived(
        &mut self,
        now: u64,
        mut take: impl FnMut(Drain<'_, u64>, &F),
    ) -> u64 {
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

    /// Ends the announcement. Returns the followers that are still on their way, with their arrival times.
    pub(super) fn end_train(&mut self, epoch: u64) -> Vec<(u64, F)> {
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
            .ended_head
            .as_ref()
            .is_none_or(|(ended, _)| *ended != epoch)
        {
            self.ended_head = Some((epoch, head));
        }
        ahead
    }
}

impl<F: Frame> Head<F> {
    /// Returns the frame of the flow that has this number.
    fn at(&self, number: u32) -> F {
        let mut frame = self.frame.clone();
        frame.advance(number - self.number);
        frame
    }

    /// Changes the frame of the head into the frame of the flow that has this number.
    fn advance_to(&mut self, number: u32) {
        self.frame.advance(number - self.number);
        self.number = number;
    }
}

#[cfg(test)]
mod tests;
