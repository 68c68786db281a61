//! Egress queues of one port, with strict priority and tail drop. The limit is in bytes.

use std::collections::VecDeque;

use alfirk_roce::steady::StateVisitor;

/// Error: the packet does not fit into its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFull;

/// Egress queues of one port: one queue per priority, with a common limit in bytes.
///
/// A packet that does not fit is dropped (tail drop). An empty port accepts any packet, so that a limit smaller than a
/// packet does not block the port.
#[derive(Debug)]
pub struct EgressQueues<T> {
    /// Queues by priority. The highest priority that has packets is served first.
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

/// A queued packet with its length and the time of its enqueueing.
#[derive(Debug)]
struct Entry<T> {
    packet: T,
    len: usize,
    enqueued_at: u64,
    depth_at_enqueue: u32,
}

/// A packet taken from its queue, with the times and depths that P4 programs can read.
#[derive(Debug, PartialEq, Eq)]
pub struct DequeuedPacket<T> {
    /// The packet.
    pub packet: T,
    /// Time at which the packet was enqueued, in nanoseconds.
    pub enqueued_at: u64,
    /// Number of packets that were in the queue when this packet was enqueued.
    pub depth_at_enqueue: u32,
    /// Number of packets that remained in the queue when this packet was dequeued.
    pub depth_at_dequeue: u32,
}

impl<T> EgressQueues<T> {
    /// Creates the queues of a port; `limit` is the maximum number of bytes in all queues.
    pub fn new(limit: usize) -> Self {
        EgressQueues {
            queues: Vec::new(),
            packets: 0,
            bytes: 0,
            limit,
        }
    }

    /// Enqueues a packet of `len` bytes at time `now`. Higher priorities are served first.
    pub fn push(&mut self, priority: u8, packet: T, len: usize, now: u64) -> Result<(), QueueFull> {
        if self.packets > 0 && self.bytes + len > self.limit {
            return Err(QueueFull);
        }
        self.add(priority, packet, len, now);
        Ok(())
    }

    /// Enqueues a packet of `len` bytes at time `now`, if the queue of its priority then has at most `limit` bytes. The
    /// common limit does not apply.
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

    /// Visits the state of the queues, with `visit_packet` for each packet.
    pub(crate) fn visit_state(
        &mut self,
        visitor: &mut StateVisitor<'_>,
        mut visit_packet: impl FnMut(&mut T, &mut StateVisitor<'_>),
    ) {
        for (priority, queue) in self.queues.iter_mut().enumerate() {
            for entry in &mut queue.entries {
                visitor.same(priority as u64);
                visitor.same(entry.len as u64);
                visitor.same(entry.depth_at_enqueue.into());
                entry.enqueued_at = visitor.time(entry.enqueued_at);
                visit_packet(&mut entry.packet, visitor);
            }
        }
        visitor.same(self.packets.into());
    }

    /// Dequeues the next packet; `None` if all queues are empty.
    pub fn pop(&mut self) -> Option<DequeuedPacket<T>> {
        self.pop_unless(|_| false)
    }

    /// Dequeues the next packet of a priority for which `is_stopped` is false; `None` if there is none.
    pub fn pop_unless(&mut self, is_stopped: impl Fn(u8) -> bool) -> Option<DequeuedPacket<T>> {
        let queues = self.queues.iter_mut().enumerate().rev();
        let mut ready = queues
            .filter(|(number, queue)| !queue.entries.is_empty() && !is_stopped(*number as u8));
        let (_, queue) = ready.next()?;
        let entry = queue.entries.pop_front()?;
        queue.bytes -= entry.len;
        self.packets -= 1;
        self.bytes -= entry.len;
        Some(DequeuedPacket {
            packet: entry.packet,
            enqueued_at: entry.enqueued_at,
            depth_at_enqueue: entry.depth_at_enqueue,
            depth_at_dequeue: queue.entries.len() as u32,
        })
    }

    /// Whether all queues are empty.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Number of packets in all queues.
    pub fn len(&self) -> u32 {
        self.packets
    }

    /// Number of bytes in all queues.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.queues.clear();
        self.packets = 0;
        self.bytes = 0;
    }
}
