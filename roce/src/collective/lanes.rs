//! Schedules: the sends of a member that go out one after the other, and the blocks that come to it, whatever edge they take.

use super::connection::Connection;

/// How many messages of a schedule, and bytes of them, may be on their way when another one is posted. RDMC has one, of a megabyte or
/// so; with some small ones links do not idle while an acknowledgement comes back. Large ones would share the link, and each
/// be there when all are.
const AT_ONCE: usize = 4;
const BYTES_AT_ONCE: u64 = 256 * 1024;

/// How many blocks of so many bytes, at least 1, a member of a schedule sends at a time, and does best to be ready for.
pub fn blocks_at_once(block: u32) -> u32 {
    let blocks = BYTES_AT_ONCE.div_ceil(block.max(1).into());
    blocks.min(AT_ONCE as u64) as u32
}

/// The sends of one schedule.
pub(super) struct Lane {
    /// Which outgoing connection has its turn, by step.
    turns: Vec<usize>,
    next: usize,
    /// Messages that are not acknowledged, and their bytes.
    unacknowledged: usize,
    bytes: u64,
}

impl Lane {
    /// The schedules of some connections; each connection says which one it belongs to.
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

    /// The connection whose turn it is, unless too much is under way.
    pub(super) fn turn(&self) -> Option<usize> {
        let turn = self.turns.get(self.next).copied();
        turn.filter(|_| self.unacknowledged < AT_ONCE && self.bytes < BYTES_AT_ONCE)
    }

    /// What has its turn is posted, so many bytes.
    pub(super) fn posted(&mut self, bytes: u64) {
        self.next += 1;
        self.unacknowledged += 1;
        self.bytes += bytes;
    }

    /// A message of so many bytes is acknowledged.
    pub(super) fn acknowledged(&mut self, bytes: u64) {
        self.unacknowledged = self.unacknowledged.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// The order in which the blocks of a schedule come to a member.
#[derive(Default)]
pub(super) struct Arrivals {
    /// By step: the connection, by its index, and which of its slices, from 0.
    turns: Vec<(usize, usize)>,
    /// How many of them have had their receive.
    posted: usize,
}

impl Arrivals {
    /// That of some incoming connections; empty where there is no schedule.
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

    /// The connection that the next receive is for, if fewer than `most` blocks of the schedule are waited for.
    pub(super) fn next(&mut self, incoming: &[Connection], most: usize) -> Option<usize> {
        let arrived: usize = incoming.iter().map(|c| c.completed).sum();
        while self.posted < arrived.saturating_add(most) {
            let (connection, nth) = *self.turns.get(self.posted)?;
            self.posted += 1;
            // A first block has its receive before it is known which blocks come.
            if incoming[connection].receives <= nth {
                return Some(connection);
            }
        }
        None
    }
}
