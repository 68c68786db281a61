//! Schedules: the order of one member's sends, and of its receives, across its edges.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.
//! A *flow* is the slices that cross one edge. The *root* has rank 0 and the data at the start.

use super::connection::Connection;

/// Largest number of messages that a send schedule keeps in flight.
///
/// RDMC keeps one block of about a megabyte in flight. Several small blocks keep links busy during the round trip of an
/// acknowledgement. Several large ones would share the link and all complete late.
const MAX_IN_FLIGHT: usize = 4;
/// Number of bytes in flight from which on a send schedule posts no further message.
const MAX_BYTES_IN_FLIGHT: u64 = 256 * 1024;

/// Number of blocks of `block` bytes, at least 1, that the sender of a schedule keeps in flight. A receiver should be
/// ready for the same number.
pub fn max_blocks_in_flight(block: u32) -> u32 {
    let blocks = MAX_BYTES_IN_FLIGHT.div_ceil(block.max(1).into());
    blocks.min(MAX_IN_FLIGHT as u64) as u32
}

/// A send schedule: the order of a member's sends over several connections, and the number of messages and bytes in
/// flight.
pub(super) struct SendSchedule {
    /// For each step: index of the outgoing connection that sends in it.
    order: Vec<usize>,
    next: usize,
    /// Number of messages that are posted and not acknowledged.
    unacknowledged: usize,
    bytes: u64,
}

impl SendSchedule {
    /// Creates one schedule for each priority among the connections' flows. Sets in each connection the index of its
    /// schedule: `None` if its flow has no steps.
    pub(super) fn of(connections: &mut [Connection]) -> Vec<SendSchedule> {
        let mut priorities: Vec<u8> = Vec::new();
        let mut order: Vec<Vec<(u32, usize)>> = Vec::new();
        for (index, connection) in connections.iter_mut().enumerate() {
            let flow = &connection.flow;
            if flow.steps.is_empty() {
                connection.schedule = None;
                continue;
            }
            let known = priorities.iter().position(|p| *p == flow.priority);
            let schedule = known.unwrap_or_else(|| {
                priorities.push(flow.priority);
                order.push(Vec::new());
                order.len() - 1
            });
            connection.schedule = Some(schedule);
            order[schedule].extend(flow.steps.iter().map(|step| (*step, index)));
        }
        let schedules = order.into_iter().map(|mut order| {
            order.sort_unstable();
            SendSchedule {
                order: order.into_iter().map(|(_, index)| index).collect(),
                next: 0,
                unacknowledged: 0,
                bytes: 0,
            }
        });
        schedules.collect()
    }

    /// Index of the connection that sends the next message; `None` if all are sent, and while too many messages or
    /// bytes are in flight.
    pub(super) fn next_connection(&self) -> Option<usize> {
        let connection = self.order.get(self.next).copied();
        connection
            .filter(|_| self.unacknowledged < MAX_IN_FLIGHT && self.bytes < MAX_BYTES_IN_FLIGHT)
    }

    /// Records that the next message of the schedule was posted; `bytes` is its length.
    pub(super) fn posted(&mut self, bytes: u64) {
        self.next += 1;
        self.unacknowledged += 1;
        self.bytes += bytes;
    }

    /// Records that a message of this schedule, `bytes` bytes long, was acknowledged.
    pub(super) fn acknowledged(&mut self, bytes: u64) {
        self.unacknowledged = self.unacknowledged.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// The order in which a member receives blocks from several connections.
#[derive(Default)]
pub(super) struct ReceiveSchedule {
    /// For each step: index of the incoming connection, and index of the slice in its flow.
    order: Vec<(usize, usize)>,
    /// Number of steps whose receive has been posted.
    posted: usize,
}

impl ReceiveSchedule {
    /// Creates the order of arrival for a member's incoming connections; empty if their flows have no steps.
    pub(super) fn of(incoming: &[Connection]) -> ReceiveSchedule {
        let mut order: Vec<(u32, usize, usize)> = Vec::new();
        for (index, connection) in incoming.iter().enumerate() {
            let steps = connection.flow.steps.iter().enumerate();
            order.extend(steps.map(|(nth, step)| (*step, index, nth)));
        }
        order.sort_unstable();
        ReceiveSchedule {
            order: order.into_iter().map(|entry| (entry.1, entry.2)).collect(),
            posted: 0,
        }
    }

    /// Index of the connection that needs the next receive; `None` if `limit` blocks of the schedule have
    /// a posted receive that has not completed.
    pub(super) fn next(&mut self, incoming: &[Connection], limit: usize) -> Option<usize> {
        let arrived: usize = incoming.iter().map(|c| c.completed).sum();
        while self.posted < arrived.saturating_add(limit) {
            let (connection, nth) = *self.order.get(self.posted)?;
            self.posted += 1;
            // The receive of a first block may have been posted before the plan was known.
            if incoming[connection].receives <= nth {
                return Some(connection);
            }
        }
        None
    }
}
