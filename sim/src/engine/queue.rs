//! The queues of one output port: strict priority, drop-tail in bytes.

use std::collections::VecDeque;

/// The packet was refused: its queue had no room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFull;

/// The queues of one port, one per priority, sharing a limit in bytes.
///
/// A packet that does not fit is refused whole (drop-tail); an empty port takes any packet, so a limit
/// smaller than a packet does not block the port for ever.
#[derive(Debug)]
pub struct EgressQueues<T> {
    /// Indexed by priority; the highest non-empty one is served first.
    queues: Vec<VecDeque<Entry<T>>>,
    packets: u32,
    bytes: usize,
    limit: usize,
}

#[derive(Debug)]
struct Entry<T> {
    packet: T,
    len: usize,
    enqueued_at: u64,
    depth_at_enqueue: u32,
}

/// A packet taken from its queue, with what it saw there.
#[derive(Debug, PartialEq, Eq)]
pub struct Dequeued<T> {
    pub packet: T,
    /// When it came in (ns).
    pub enqueued_at: u64,
    /// Packets before it in its own queue when it came in.
    pub depth_at_enqueue: u32,
    /// Packets left in its own queue now that it leaves.
    pub depth_at_dequeue: u32,
}

impl<T> EgressQueues<T> {
    /// Queues that hold at most `limit` bytes together.
    pub fn new(limit: usize) -> Self {
        EgressQueues {
            queues: Vec::new(),
            packets: 0,
            bytes: 0,
            limit,
        }
    }

    /// Adds a packet of `len` bytes at `now`. Larger priorities are served first.
    pub fn push(&mut self, priority: u8, packet: T, len: usize, now: u64) -> Result<(), QueueFull> {
        if self.packets > 0 && self.bytes + len > self.limit {
            return Err(QueueFull);
        }
        let index = usize::from(priority);
        if self.queues.len() <= index {
            self.queues.resize_with(index + 1, VecDeque::new);
        }
        let queue = &mut self.queues[index];
        let depth_at_enqueue = queue.len() as u32;
        queue.push_back(Entry {
            packet,
            len,
            enqueued_at: now,
            depth_at_enqueue,
        });
        self.packets += 1;
        self.bytes += len;
        Ok(())
    }

    /// The next packet to send.
    pub fn pop(&mut self) -> Option<Dequeued<T>> {
        let queue = self.queues.iter_mut().rev().find(|q| !q.is_empty())?;
        let entry = queue.pop_front()?;
        self.packets -= 1;
        self.bytes -= entry.len;
        Some(Dequeued {
            packet: entry.packet,
            enqueued_at: entry.enqueued_at,
            depth_at_enqueue: entry.depth_at_enqueue,
            depth_at_dequeue: queue.len() as u32,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Packets in all queues.
    pub fn len(&self) -> u32 {
        self.packets
    }

    /// Bytes in all queues.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Throws everything away, as at a restart.
    pub fn clear(&mut self) {
        self.queues.clear();
        self.packets = 0;
        self.bytes = 0;
    }
}
