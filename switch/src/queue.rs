//! The queues of one port, for a link that does not accept every packet immediately.
//!
//! As in BMv2, there is one queue per priority, and the highest is served first. A queue has a maximum number of
//! packets; packets for a full queue are dropped. A queue may have a rate, which determines when its packets are
//! due. The depths that programs read count the packets of all queues of the port.

use std::collections::VecDeque;

use alfirk_bmv2::QueueState;

/// The queues of one port, one per priority.
#[derive(Debug)]
pub struct PortQueues<T> {
    /// Queues, indexed by priority; at least one.
    queues: Vec<Queue<T>>,
    len: usize,
    /// Whether any queue has a rate limit, or depth 0.
    is_limited: bool,
    /// Number of packets dropped because their queue was full.
    pub dropped: u64,
}

#[derive(Debug)]
struct Queue<T> {
    packets: VecDeque<Waiting<T>>,
    /// Maximum number of packets in the queue.
    depth: usize,
    /// Minimum interval between two packets in nanoseconds; 0 without a rate limit.
    interval: u64,
    /// Earliest time in nanoseconds at which the last queued packet may leave.
    last_due: u64,
}

/// A packet in a queue.
#[derive(Debug)]
struct Waiting<T> {
    packet: T,
    /// Time in nanoseconds at which the packet was queued.
    since: u64,
    /// Earliest time in nanoseconds at which the packet may leave the queue.
    due: u64,
    /// Number of packets in all queues of the port when the packet was queued.
    depth: u32,
}

impl<T> PortQueues<T> {
    /// Creates `priorities` queues (at least one) for `depth` packets each, without rate limits.
    pub fn new(priorities: usize, depth: usize) -> PortQueues<T> {
        let queue = || Queue {
            packets: VecDeque::new(),
            depth,
            interval: 0,
            last_due: 0,
        };
        let mut queues = PortQueues {
            queues: (0..priorities.max(1)).map(|_| queue()).collect(),
            len: 0,
            is_limited: false,
            dropped: 0,
        };
        queues.update_is_limited();
        queues
    }

    /// Sets the maximum number of packets in the queue of one priority, or in all queues. Packets that are queued
    /// remain. Returns false for an unknown priority.
    #[allow(dead_code)]
    pub fn set_depth(&mut self, priority: Option<usize>, depth: usize) -> bool {
        self.change(priority, |queue| queue.depth = depth)
    }

    /// Sets the rate limit of the queue of one priority, or of all queues; 0 for no limit. Packets that are queued
    /// leave as planned. Returns false for an unknown priority.
    #[allow(dead_code)]
    pub fn set_rate(&mut self, priority: Option<usize>, packets_per_second: u64) -> bool {
        let interval = 1_000_000_000u64
            .checked_div(packets_per_second)
            .unwrap_or(0);
        self.change(priority, |queue| queue.interval = interval)
    }

    #[allow(dead_code)]
    fn change(&mut self, priority: Option<usize>, change: impl FnMut(&mut Queue<T>)) -> bool {
        let chosen = match priority {
            None => &mut self.queues[..],
            Some(priority) => match self.queues.get_mut(priority) {
                Some(queue) => std::slice::from_mut(queue),
                None => return false,
            },
        };
        chosen.iter_mut().for_each(change);
        self.update_is_limited();
        true
    }

    fn update_is_limited(&mut self) {
        self.is_limited = self.queues.iter().any(|q| q.interval > 0 || q.depth == 0);
    }

    /// Returns whether the queues may delay or drop a packet although the link is idle.
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Queues a packet. A priority that is too high counts as the highest priority. A packet for a full queue is
    /// counted and returned.
    pub fn push(&mut self, priority: u8, packet: T, now: u64) -> Option<T> {
        let highest = self.queues.len() - 1;
        let queue = &mut self.queues[usize::from(priority).min(highest)];
        if queue.packets.len() >= queue.depth {
            self.dropped += 1;
            return Some(packet);
        }
        queue.last_due = queue.last_due.saturating_add(queue.interval).max(now);
        queue.packets.push_back(Waiting {
            packet,
            since: now,
            due: queue.last_due,
            depth: u32::try_from(self.len).unwrap_or(u32::MAX),
        });
        self.len += 1;
        None
    }

    /// Takes the next packet that may leave, with the queue state that the P4 program reads; `None` if no packet may
    /// leave yet.
    pub fn pop(&mut self, now: u64) -> Option<(T, QueueState)> {
        let mut queues = self.queues.iter_mut().rev();
        let due = |waiting: &Waiting<T>| waiting.due <= now;
        let queue = queues.find(|queue| queue.packets.front().is_some_and(due))?;
        let next = queue.packets.pop_front()?;
        self.len -= 1;
        let state = QueueState {
            enq_timestamp: next.since,
            enq_qdepth: next.depth,
            deq_qdepth: u32::try_from(self.len).unwrap_or(u32::MAX),
        };
        Some((next.packet, state))
    }

    /// Returns the earliest time in nanoseconds at which a packet may leave; `None` if the queues are empty.
    pub fn due_at(&self) -> Option<u64> {
        let first = self.queues.iter().filter_map(|queue| queue.packets.front());
        first.map(|waiting| waiting.due).min()
    }

    /// Returns the number of queued packets.
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
    fn the_highest_priority_is_served_first_and_each_in_order() {
        let mut queues = PortQueues::new(3, 8);
        for (priority, packet) in [(0, "a"), (2, "b"), (1, "c"), (9, "d"), (0, "e")] {
            queues.push(priority, packet, 7);
        }
        let mut order = Vec::new();
        while let Some((packet, state)) = queues.pop(7) {
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
    fn full_queues_drop_packets() {
        let mut queues = PortQueues::new(2, 2);
        for packet in 0..5 {
            queues.push(0, packet, 0);
        }
        queues.push(1, 9, 0);
        assert_eq!(queues.dropped, 3);
        let left: Vec<_> = std::iter::from_fn(|| queues.pop(7))
            .map(|(p, _)| p)
            .collect();
        assert_eq!(left, [9, 0, 1]);
    }

    #[test]
    fn packets_of_a_queue_with_a_rate_become_due_one_by_one() {
        let mut queues = PortQueues::new(2, 8);
        assert!(!queues.is_limited());
        assert!(queues.set_rate(Some(1), 1000));
        assert!(queues.is_limited());
        assert!(!queues.set_rate(Some(2), 1));
        for packet in ["a", "b"] {
            queues.push(1, packet, 5);
        }
        queues.push(0, "c", 6);
        let pop = |queues: &mut PortQueues<_>, now| queues.pop(now).map(|(packet, _)| packet);
        assert_eq!(queues.due_at(), Some(6));
        assert_eq!(
            pop(&mut queues, 6),
            Some("c"),
            "the higher priority is not due"
        );
        assert_eq!(pop(&mut queues, 1_000_000), Some("a"));
        assert_eq!(queues.due_at(), Some(2_000_000));
        // Also after the rate has been removed.
        assert!(queues.set_rate(None, 0));
        assert!(!queues.is_limited());
        queues.push(1, "d", 1_000_001);
        assert_eq!(pop(&mut queues, 1_999_999), None);
        assert_eq!(pop(&mut queues, 2_000_000), Some("b"));
        assert_eq!(pop(&mut queues, 2_000_000), Some("d"));
    }

    #[test]
    fn a_new_depth_applies_to_later_packets() {
        let mut queues = PortQueues::new(2, 3);
        for packet in 0..3 {
            queues.push(0, packet, 0);
        }
        assert!(queues.set_depth(Some(0), 1));
        queues.push(0, 3, 0);
        queues.push(1, 4, 0);
        assert_eq!((queues.len(), queues.dropped), (4, 1));
        assert!(queues.set_depth(None, 0));
        assert!(
            queues.is_limited(),
            "a queue of depth 0 must drop the packet"
        );
        queues.push(1, 5, 0);
        assert_eq!((queues.len(), queues.dropped), (4, 2));
    }
}
