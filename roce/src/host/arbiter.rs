//! Schedules a host's queue pairs: the next one to send, and the next timer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::steady::StateVisitor;
use crate::wire::QpNum;

/// Queue pairs with packets to send: strict priority, round-robin among equals.
#[derive(Default)]
pub(super) struct Arbiter {
    queues: BTreeMap<u8, VecDeque<QpNum>>,
    queued: BTreeSet<QpNum>,
}

impl Arbiter {
    /// Appends a queue pair to the queue of its priority, unless it is queued already.
    pub(super) fn enqueue(&mut self, qpn: QpNum, priority: u8) {
        if self.queued.insert(qpn) {
            self.queues.entry(priority).or_default().push_back(qpn);
        }
    }

    /// Visits the order of the queued queue pairs.
    pub(super) fn visit_state(&self, visitor: &mut StateVisitor<'_>) {
        visitor.same(self.queued.len() as u64);
        for qpn in self.queues.values().flatten() {
            visitor.same(qpn.get().into());
        }
    }

    /// Whether no queue pair is queued to send.
    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    /// Removes and returns the queue pair that sends next.
    pub(super) fn dequeue(&mut self) -> Option<QpNum> {
        let qpn = self.queues.values_mut().find_map(VecDeque::pop_front)?;
        self.queued.remove(&qpn);
        Some(qpn)
    }
}

/// The next deadline of each queue pair, ordered by time. Each queue pair holds a copy of its own ([`Deadline`]).
#[derive(Default)]
pub(super) struct Deadlines(BTreeSet<(u64, QpNum)>);

/// The deadline in nanoseconds under which [`Deadlines`] lists a queue pair; `None` if it is not listed.
#[derive(Default)]
pub(super) struct Deadline(Option<u64>);

impl Deadlines {
    /// Sets the deadline of a queue pair. `known`: the deadline listed so far. If `deadline` equals it, as after most
    /// packets, the list is not searched.
    #[inline]
    pub(super) fn set(&mut self, qpn: QpNum, known: &mut Deadline, deadline: Option<u64>) {
        if known.0 != deadline {
            self.move_to(qpn, known, deadline);
        }
    }

    fn move_to(&mut self, qpn: QpNum, known: &mut Deadline, deadline: Option<u64>) {
        if let Some(at) = std::mem::replace(&mut known.0, deadline) {
            self.0.remove(&(at, qpn));
        }
        if let Some(at) = deadline {
            self.0.insert((at, qpn));
        }
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Returns a queue pair whose deadline has passed by `now`; `None` if there is none. The caller must set its next
    /// deadline.
    pub(super) fn due(&self, now: u64) -> Option<QpNum> {
        let (at, qpn) = *self.0.first()?;
        (at <= now).then_some(qpn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_priorities_are_served_round_robin_and_higher_ones_first() {
        let mut arbiter = Arbiter::default();
        let [a, b, c] = [1, 2, 3].map(QpNum::new);
        arbiter.enqueue(a, 1);
        arbiter.enqueue(b, 1);
        arbiter.enqueue(a, 1);
        arbiter.enqueue(c, 0);
        assert_eq!(arbiter.dequeue(), Some(c));
        assert_eq!(arbiter.dequeue(), Some(a));
        arbiter.enqueue(a, 1);
        assert_eq!(arbiter.dequeue(), Some(b));
        assert_eq!(arbiter.dequeue(), Some(a));
        assert_eq!(arbiter.dequeue(), None);
    }

    #[test]
    fn deadlines_can_move() {
        let mut deadlines = Deadlines::default();
        let [a, b] = [1, 2].map(QpNum::new);
        let [mut of_a, mut of_b] = [Deadline::default(), Deadline::default()];
        deadlines.set(a, &mut of_a, Some(10));
        deadlines.set(b, &mut of_b, Some(20));
        deadlines.set(a, &mut of_a, Some(30));
        assert_eq!(deadlines.next(), Some(20));
        assert_eq!(deadlines.due(19), None);
        assert_eq!(deadlines.due(20), Some(b));
        deadlines.set(b, &mut of_b, None);
        assert_eq!(deadlines.next(), Some(30));
        deadlines.set(a, &mut of_a, None);
        assert_eq!(deadlines.next(), None);
    }
}
