//! A host's queue pairs by number.

use super::arbiter::{Arbiter, Deadline, Deadlines};
use super::event::HostEvent;
use crate::rc::QueuePair;
use crate::wire::QpNum;

/// A queue pair with its place in the host's schedule of timers.
pub(super) struct ScheduledQueuePair {
    pub(super) qp: QueuePair,
    deadline: Deadline,
}

impl ScheduledQueuePair {
    /// Reports completions and a failure of the queue pair, and updates its timer and its place in the send queue. To be
    /// called after each change to the queue pair.
    pub(super) fn settle(
        &mut self,
        events: &mut impl Extend<HostEvent>,
        deadlines: &mut Deadlines,
        arbiter: &mut Arbiter,
    ) {
        let qp = &mut self.qp;
        let qpn = qp.qpn();
        while let Some(completion) = qp.poll_completion() {
            events.extend([HostEvent::Completion(completion)]);
        }
        if let Some(failure) = qp.take_failure() {
            events.extend([HostEvent::QpFailed { qpn, failure }]);
        }
        deadlines.set(qpn, &mut self.deadline, qp.poll_timeout());
        if qp.wants_transmit() {
            arbiter.enqueue(qpn, qp.config().priority);
        }
    }
}

impl ScheduledQueuePair {
    /// Lists the present deadline of the queue pair in `deadlines`, which does not list the queue pair.
    pub(super) fn restore_deadline(&mut self, deadlines: &mut Deadlines) {
        self.deadline = Deadline::default();
        deadlines.set(self.qp.qpn(), &mut self.deadline, self.qp.poll_timeout());
    }
}

/// All queue pairs of a host, sorted by number. The last one used is cached, because most packets are for the same
/// queue pair as the one before.
#[derive(Default)]
pub(super) struct QueuePairs {
    all: Vec<(QpNum, Box<ScheduledQueuePair>)>,
    last: usize,
}

impl QueuePairs {
    pub(super) fn insert(&mut self, qp: QueuePair) {
        let deadline = Deadline::default();
        let qpn = qp.qpn();
        let scheduled = Box::new(ScheduledQueuePair { qp, deadline });
        match self.find(qpn) {
            Ok(at) => self.all[at].1 = scheduled,
            Err(at) => self.all.insert(at, (qpn, scheduled)),
        }
    }

    /// Removes a queue pair and its deadline.
    pub(super) fn remove(&mut self, qpn: QpNum, deadlines: &mut Deadlines) -> Option<QueuePair> {
        let at = self.find(qpn).ok()?;
        let (_, mut gone) = self.all.remove(at);
        deadlines.set(qpn, &mut gone.deadline, None);
        Some(gone.qp)
    }

    pub(super) fn contains(&self, qpn: QpNum) -> bool {
        self.find(qpn).is_ok()
    }

    pub(super) fn get(&self, qpn: QpNum) -> Option<&QueuePair> {
        let at = self.find(qpn).ok()?;
        Some(&self.all[at].1.qp)
    }

    pub(super) fn get_mut(&mut self, qpn: QpNum) -> Option<&mut QueuePair> {
        self.get_scheduled(qpn).map(|scheduled| &mut scheduled.qp)
    }

    #[inline]
    pub(super) fn get_scheduled(&mut self, qpn: QpNum) -> Option<&mut ScheduledQueuePair> {
        let is_last = self.all.get(self.last).is_some_and(|(of, _)| *of == qpn);
        if !is_last {
            self.last = self.find(qpn).ok()?;
        }
        Some(&mut self.all[self.last].1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuePair> {
        self.all.iter().map(|(_, scheduled)| &scheduled.qp)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ScheduledQueuePair> {
        self.all.iter_mut().map(|(_, scheduled)| &mut **scheduled)
    }

    fn find(&self, qpn: QpNum) -> Result<usize, usize> {
        self.all.binary_search_by_key(&qpn, |(of, _)| *of)
    }
}
