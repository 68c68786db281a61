//! Packets that leave empty queues one after the other. The copies of a packet pass egress in the same memory, in which only
//! what egress has changed is restored, as the copies for direct ports do (`direct.rs`).

use super::direct::{empty_queue, restore};
use super::{Processor, Switch};
use crate::effects::{Effects, Queued, QueuedPacket};
use std::collections::VecDeque;
use std::sync::Arc;

impl Switch {
    /// Processes packets that leave empty queues, from the front of the list on, as [`Switch::egress`] does with each. Removes
    /// them from the list.
    ///
    /// Stops after a packet that has effects besides a frame or a drop: packets to be enqueued, or digests. Returns the number
    /// of frames in `fx.output` before the effects of this packet; `None` if no packet has such effects.
    pub fn egress_all(
        &mut self,
        packets: &mut VecDeque<Queued>,
        now: u64,
        fx: &mut Effects,
    ) -> Option<usize> {
        loop {
            let stopped = self.egress_copies(packets, now, fx);
            if stopped.is_some() {
                return stopped;
            }
            let sent = fx.output.len();
            self.egress(packets.pop_front()?, now, empty_queue(now), fx);
            if has_more(fx) {
                return Some(sent);
            }
        }
    }

    /// If the first packets are copies of one packet, processes all of these except the last by machine code. Result as of
    /// [`Switch::egress_all`].
    fn egress_copies(
        &mut self,
        packets: &mut VecDeque<Queued>,
        now: u64,
        fx: &mut Effects,
    ) -> Option<usize> {
        let is_current = packets.front()?.generation == self.generation;
        if !is_current || !begins_with_copies(packets) || self.program()?.compiled().is_none() {
            return None;
        }
        let mut m = self.processor()?;
        m.direct = None;
        m.send_copies_of(packets, now, fx)
    }
}

impl Processor<'_> {
    /// Sends the copies of one packet at the front of the list, except the last. Result as of [`Switch::egress_all`].
    fn send_copies_of(
        &mut self,
        packets: &mut VecDeque<Queued>,
        now: u64,
        fx: &mut Effects,
    ) -> Option<usize> {
        let QueuedPacket::Copy { of, .. } = &packets.front()?.packet else {
            return None;
        };
        let code = self.code_of_copies(&of.0)?;
        let of = Arc::clone(of);
        let original = &of.0;
        let mut packet = self.pool.copy(original, self.code());
        let mut stopped = None;
        while begins_with_copies(packets) {
            packet.ctx.now = now;
            let next = || match begins_with_copies(packets).then(|| packets.pop_front())?? {
                Queued {
                    port,
                    priority,
                    packet: QueuedPacket::Copy { rid, .. },
                    ..
                } => Some((port, rid, priority)),
                _ => None,
            };
            let unusual = self.send_copies(code, next, &mut packet, original, fx);
            let Some((port, headers, out)) = unusual else {
                break;
            };
            let sent = fx.output.len();
            let recirculated = self.end_egress(&mut packet, port, headers, false, out, fx);
            self.recirculate(recirculated, None, now, fx);
            if has_more(fx) {
                stopped = Some(sent);
                break;
            }
            restore(self.code(), original, &mut packet.words);
            packet.ctx.copy_from(&original.ctx);
        }
        self.pool.recycle(packet);
        stopped
    }
}

/// Returns whether the first two packets are copies of one packet.
#[inline]
fn begins_with_copies(packets: &VecDeque<Queued>) -> bool {
    let packet = |at: usize| packets.get(at).map(|queued| &queued.packet);
    match (packet(0), packet(1)) {
        (Some(QueuedPacket::Copy { of, .. }), Some(QueuedPacket::Copy { of: next, .. })) => {
            Arc::ptr_eq(of, next)
        }
        _ => false,
    }
}

/// Returns whether there are effects that must be handled before a further packet leaves its queue.
fn has_more(fx: &Effects) -> bool {
    !fx.enqueued.is_empty() || !fx.digests.is_empty()
}
