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
    queues: Vec<Queue<T>>,
    packets: u32,
    bytes: usize,
    limit: usize,
}

#[derive(Debug)]
struct Queue<T> {
    entries: VecDeque<Entry<T>>,
    bytes: usize,
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
        self.add(priority, packet, len, now);
        Ok(())
    }

    /// The same with a limit of so many bytes for the packet's own queue, in place of the one for all.
    pub fn push_within(
        &mut self,
        limit: usize,
        priority: u8,
        packet: T,
        len: usize,
        now: u64,
    ) -> Result<(), QueueFull> {
        let queue = self.queues.get(usize::from(priority));
        let bytes = queue.map_or(0, |queue| queue.bytes);
        if bytes > 0 && bytes + len > limit {
            return Err(QueueFull);
        }
        self.add(priority, packet, len, now);
        Ok(())
    }

    fn add(&mut self, priority: u8, packet: T, len: usize, now: u64) {
        let index = usize::from(priority);
        if self.queues.len() <= index {
            self.queues.resize_with(index + 1, || Queue {
                entries: VecDeque::new(),
                bytes: 0,
            });
        }
        let queue = &mut self.queues[index];
        let depth_at_enqueue = queue.entries.len() as u32;
        queue.entries.push_back(Entry {
            packet,
            len,
            enqueued_at: now,
            depth_at_enqueue,
        });
        queue.bytes += len;
        self.packets += 1;
        self.bytes += len;
    }

    /// The next packet to send.
    pub fn pop(&mut self) -> Option<Dequeued<T>> {
        self.pop_unless(|_| false)
    }

    /// The same, of the queues whose priority is not stopped.
    pub fn pop_unless(&mut self, is_stopped: impl Fn(u8) -> bool) -> Option<Dequeued<T>> {
        let queues = self.queues.iter_mut().enumerate().rev();
        let mut ready = queues
            .filter(|(number, queue)| !queue.entries.is_empty() && !is_stopped(*number as u8));
        let (_, queue) = ready.next()?;
        let entry = queue.entries.pop_front()?;
        queue.bytes -= entry.len;
        self.packets -= 1;
        self.bytes -= entry.len;
        Some(Dequeued {
            packet: entry.packet,
            enqueued_at: entry.enqueued_at,
            depth_at_enqueue: entry.depth_at_enqueue,
            depth_at_dequeue: queue.entries.len() as u32,
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
