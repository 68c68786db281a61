//! The queues of one port, for links of limited rate.
//!
//! As in BMv2: one queue per priority, the highest goes first; each holds a number of packets, and
//! what comes to a full one is dropped. Depths, as programs see them, count the whole port.

use std::collections::VecDeque;

use crate::QueueState;

/// Packets on their way to a port.
#[derive(Debug)]
pub struct PortQueues<T> {
    /// By priority.
    queues: Vec<VecDeque<Waiting<T>>>,
    /// Packets that each queue holds.
    limit: usize,
    len: usize,
    /// Packets that came to a full queue.
    pub dropped: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    packet: T,
    since: u64,
    depth: u32,
}

impl<T> PortQueues<T> {
    /// `priorities` queues (at least one) of `limit` packets each.
    pub fn new(priorities: usize, limit: usize) -> PortQueues<T> {
        PortQueues {
            queues: (0..priorities.max(1)).map(|_| VecDeque::new()).collect(),
            limit,
            len: 0,
            dropped: 0,
        }
    }

    /// Adds a packet; priorities beyond the highest count as the highest. A packet for a full queue
    /// is dropped and counted.
    pub fn push(&mut self, priority: u8, packet: T, now: u64) {
        let highest = self.queues.len() - 1;
        let queue = &mut self.queues[usize::from(priority).min(highest)];
        if queue.len() >= self.limit {
            self.dropped += 1;
            return;
        }
        queue.push_back(Waiting {
            packet,
            since: now,
            depth: u32::try_from(self.len).unwrap_or(u32::MAX),
        });
        self.len += 1;
    }

    /// The packet whose turn it is, and what its program may know of the queue.
    pub fn pop(&mut self) -> Option<(T, QueueState)> {
        let next = self.queues.iter_mut().rev().find_map(VecDeque::pop_front)?;
        self.len -= 1;
        let state = QueueState {
            enq_timestamp: next.since,
            enq_qdepth: next.depth,
            deq_qdepth: u32::try_from(self.len).unwrap_or(u32::MAX),
        };
        Some((next.packet, state))
    }

    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_goes_first_and_each_in_order() {
        let mut queues = PortQueues::new(3, 8);
        for (priority, packet) in [(0, "a"), (2, "b"), (1, "c"), (9, "d"), (0, "e")] {
            queues.push(priority, packet, 7);
        }
        let mut order = Vec::new();
        while let Some((packet, state)) = queues.pop() {
            assert_eq!(state.enq_timestamp, 7);
            order.push((packet, state.enq_qdepth, state.deq_qdepth));
        }
        assert_eq!(
            order,
            [
                ("b", 1, 4),
                ("d", 3, 3),
                ("c", 2, 2),
                ("a", 0, 1),
                ("e", 4, 0)
            ]
        );
        assert!(queues.is_empty());
    }

    #[test]
    fn full_queues_drop_what_comes() {
        let mut queues = PortQueues::new(2, 2);
        for packet in 0..5 {
            queues.push(0, packet, 0);
        }
        queues.push(1, 9, 0);
        assert_eq!(queues.dropped, 3);
        let left: Vec<_> = std::iter::from_fn(|| queues.pop())
            .map(|(p, _)| p)
            .collect();
        assert_eq!(left, [9, 0, 1]);
    }
}
