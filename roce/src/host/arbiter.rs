//! Which queue pair sends next, and which has a timer due.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::wire::QpNum;

/// Queue pairs with something to send: strict priority, and turns among equals.
#[derive(Default)]
pub(super) struct Arbiter {
    queues: BTreeMap<u8, VecDeque<QpNum>>,
    queued: BTreeSet<QpNum>,
}

impl Arbiter {
    /// Puts a queue pair at the end of its line unless it is in it already.
    pub(super) fn enqueue(&mut self, qpn: QpNum, priority: u8) {
        if self.queued.insert(qpn) {
            self.queues.entry(priority).or_default().push_back(qpn);
        }
    }

    /// Whether no queue pair stands in line.
    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    /// The queue pair whose turn it is.
    pub(super) fn dequeue(&mut self) -> Option<QpNum> {
        let qpn = self.queues.values_mut().find_map(VecDeque::pop_front)?;
        self.queued.remove(&qpn);
        Some(qpn)
    }
}

/// The next deadline of each queue pair, by time. Each queue pair knows its own ([`Deadline`]).
#[derive(Default)]
pub(super) struct Deadlines(BTreeSet<(u64, QpNum)>);

/// What [`Deadlines`] has of a queue pair.
#[derive(Default)]
pub(super) struct Deadline(Option<u64>);

impl Deadlines {
    /// Most packets move nothing, so that is found out without a search.
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

    /// A queue pair whose deadline has come by `now`. It has to be set anew.
    pub(super) fn due(&self, now: u64) -> Option<QpNum> {
        let (at, qpn) = *self.0.first()?;
        (at <= now).then_some(qpn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_take_turns_and_priority_goes_first() {
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
