//! Send schedules: the order of one member's sends across its edges.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.
//! A *flow* is the slices that cross one edge. The *root* has rank 0 and the data at the start.

use super::plan::Flow;

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

/// A send schedule: the order of a member's sends over several flows, and the number of messages and bytes in flight.
#[derive(Debug)]
pub(super) struct SendSchedule {
    /// For each step: index of the outgoing flow that sends in it.
    order: Vec<usize>,
    next: usize,
    /// Number of messages that are posted and not acknowledged.
    unacknowledged: usize,
    bytes: u64,
}

impl SendSchedule {
    /// Creates one schedule for each priority among the flows of a plan. Returns them, and for each flow the index of
    /// its schedule: `None` if the flow has no steps.
    pub(super) fn of(flows: &[Flow]) -> (Vec<SendSchedule>, Vec<Option<usize>>) {
        let mut priorities: Vec<u8> = Vec::new();
        let mut order: Vec<Vec<(u32, usize)>> = Vec::new();
        let mut of_flow = Vec::new();
        for (index, flow) in flows.iter().enumerate() {
            if flow.steps.is_empty() {
                of_flow.push(None);
                continue;
            }
            let known = priorities.iter().position(|p| *p == flow.priority);
            let schedule = known.unwrap_or_else(|| {
                priorities.push(flow.priority);
                order.push(Vec::new());
                order.len() - 1
            });
            of_flow.push(Some(schedule));
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
        (schedules.collect(), of_flow)
    }

    /// Index of the flow that sends the next message; `None` if all are sent, and while too many messages or bytes are
    /// in flight.
    pub(super) fn next_flow(&self) -> Option<usize> {
        let flow = self.order.get(self.next).copied();
        flow.filter(|_| self.unacknowledged < MAX_IN_FLIGHT && self.bytes < MAX_BYTES_IN_FLIGHT)
    }

    /// Records that the next message of the schedule was posted; `bytes` is its length.
    pub(super) fn record_post(&mut self, bytes: u64) {
        self.next += 1;
        self.unacknowledged += 1;
        self.bytes += bytes;
    }

    /// Records that a message of this schedule, `bytes` bytes long, was acknowledged.
    pub(super) fn record_acknowledgement(&mut self, bytes: u64) {
        self.unacknowledged = self.unacknowledged.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
