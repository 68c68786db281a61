//! Schedules: the order of a member's sends and of its receives across edges.

use super::connection::Connection;

/// The most messages of a schedule in flight when another one is posted, and the most bytes of them. RDMC keeps one block of about a
/// megabyte in flight. Several small blocks keep links busy during the round trip of an acknowledgement. Several large ones would
/// share the link and all complete late.
const AT_ONCE: usize = 4;
const BYTES_AT_ONCE: u64 = 256 * 1024;

/// Number of blocks of `block` bytes, at least 1, that a scheduled sender keeps in flight. A receiver should be ready for as many.
pub fn blocks_at_once(block: u32) -> u32 {
    let blocks = BYTES_AT_ONCE.div_ceil(block.max(1).into());
    blocks.min(AT_ONCE as u64) as u32
}

/// The sends of one schedule, in order.
pub(super) struct Lane {
    /// By step: index of the outgoing connection that sends.
    turns: Vec<usize>,
    next: usize,
    /// Number of messages in flight.
    unacknowledged: usize,
    bytes: u64,
}

impl Lane {
    /// Makes the schedules of some connections, and sets each connection's schedule index.
    pub(super) fn of(connections: &mut [Connection]) -> Vec<Lane> {
        let mut priorities: Vec<u8> = Vec::new();
        let mut turns: Vec<Vec<(u32, usize)>> = Vec::new();
        for (index, connection) in connections.iter_mut().enumerate() {
            let flow = &connection.flow;
            if flow.steps.is_empty() {
                connection.lane = None;
                continue;
            }
            let known = priorities.iter().position(|p| *p == flow.priority);
            let lane = known.unwrap_or_else(|| {
                priorities.push(flow.priority);
                turns.push(Vec::new());
                turns.len() - 1
            });
            connection.lane = Some(lane);
            turns[lane].extend(flow.steps.iter().map(|step| (*step, index)));
        }
        let lanes = turns.into_iter().map(|mut turns| {
            turns.sort_unstable();
            Lane {
                turns: turns.into_iter().map(|(_, index)| index).collect(),
                next: 0,
                unacknowledged: 0,
                bytes: 0,
            }
        });
        lanes.collect()
    }

    /// The connection that sends next; `None` while too much is in flight.
    pub(super) fn turn(&self) -> Option<usize> {
        let turn = self.turns.get(self.next).copied();
        turn.filter(|_| self.unacknowledged < AT_ONCE && self.bytes < BYTES_AT_ONCE)
    }

    /// Records that the next message is posted, of `bytes` bytes.
    pub(super) fn posted(&mut self, bytes: u64) {
        self.next += 1;
        self.unacknowledged += 1;
        self.bytes += bytes;
    }

    /// Records that a message of `bytes` bytes is acknowledged.
    pub(super) fn acknowledged(&mut self, bytes: u64) {
        self.unacknowledged = self.unacknowledged.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// The order in which scheduled blocks arrive at a member.
#[derive(Default)]
pub(super) struct Arrivals {
    /// By step: index of the incoming connection, and index of the slice within its flow.
    turns: Vec<(usize, usize)>,
    /// Steps whose receive has been posted.
    posted: usize,
}

impl Arrivals {
    /// The order for some incoming connections; empty without a schedule.
    pub(super) fn of(incoming: &[Connection]) -> Arrivals {
        let mut turns: Vec<(u32, usize, usize)> = Vec::new();
        for (index, connection) in incoming.iter().enumerate() {
            let steps = connection.flow.steps.iter().enumerate();
            turns.extend(steps.map(|(nth, step)| (*step, index, nth)));
        }
        turns.sort_unstable();
        Arrivals {
            turns: turns.into_iter().map(|turn| (turn.1, turn.2)).collect(),
            posted: 0,
        }
    }

    /// The connection that needs the next receive, if fewer than `most` scheduled blocks are awaited.
    pub(super) fn next(&mut self, incoming: &[Connection], most: usize) -> Option<usize> {
        let arrived: usize = incoming.iter().map(|c| c.completed).sum();
        while self.posted < arrived.saturating_add(most) {
            let (connection, nth) = *self.turns.get(self.posted)?;
            self.posted += 1;
            // The receive of a first block may have been posted before the plan was known.
            if incoming[connection].receives <= nth {
                return Some(connection);
            }
        }
        None
    }
}
