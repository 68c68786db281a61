//! Packet counters that show the cost of a [`Strategy`](super::Strategy), the way to find a group's minimum PSN. They are
//! not a part of a group's state.

use std::collections::VecDeque;

use alfirk_roce::steady::StateVisitor;

use super::{Copies, Feedback, Group, Port, QueuedPacket, SentPacket};

/// Packet counters, as the pipeline exports them (`Work` in `p4src/shared/constants.p4`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// ACKs and NAKs received.
    pub feedback: u64,
    /// ACKs and NAKs forwarded to the source.
    pub forwarded: u64,
    /// Passes of packets through the recirculation port.
    pub recirculations: u64,
    /// Packets sent to the controller.
    pub punts: u64,
}

impl Work {
    /// Visits the counters, as a part of the state of a simulation.
    pub fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        let Work {
            feedback,
            forwarded,
            recirculations,
            punts,
        } = self;
        visitor.counts([feedback, forwarded, recirculations, punts]);
    }
}

/// A group whose work is counted: [`Group::counted`]. Packets that cause no work are processed by methods of [`Group`].
#[derive(Debug)]
pub struct CountedGroup<'a> {
    pub(crate) group: &'a mut Group,
    pub(crate) work: &'a mut Work,
}

impl CountedGroup<'_> {
    /// Processes a data packet: [`Group::data`].
    pub fn data(&mut self, port: Port, psn: u32, now: u64) -> Vec<QueuedPacket> {
        let (mut queued, copies) = self.data_and_copies(port, psn, now);
        queued.extend(copies.into_iter().flat_map(Copies::queued));
        queued
    }

    /// Processes a data packet without allocating its copies: [`Group::data_and_copies`].
    pub fn data_and_copies(
        &mut self,
        port: Port,
        psn: u32,
        now: u64,
    ) -> (Vec<QueuedPacket>, Option<Copies>) {
        let mut queued = Vec::new();
        let out = (&mut queued, &mut *self.work);
        let copies = self.group.process_data(port, psn, now, out);
        (queued, copies)
    }

    /// Processes an ACK, or a NAK that is not fatal: [`Group::feedback`].
    pub fn feedback(&mut self, port: Port, feedback: Feedback, now: u64) -> Vec<QueuedPacket> {
        self.group
            .process_feedback((port, feedback), now, self.work)
    }

    /// Processes one queued packet: [`Group::dequeue`].
    pub fn dequeue(
        &mut self,
        queued: QueuedPacket,
        now: u64,
    ) -> (Option<SentPacket>, Vec<QueuedPacket>) {
        self.group.process_queued(queued, now, self.work)
    }

    /// Processes queued packets, and the packets that they cause, until none is left: [`Group::run`].
    pub fn run(&mut self, queued: Vec<QueuedPacket>, now: u64) -> Vec<SentPacket> {
        let mut sent = Vec::new();
        let mut queue = VecDeque::from(queued);
        while let Some(next) = queue.pop_front() {
            let (left, more) = self.dequeue(next, now);
            sent.extend(left);
            queue.extend(more);
        }
        sent
    }
}
