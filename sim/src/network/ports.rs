//! The output ports of a switch: queues, frames that are ready for the link, and who has its turn.
//!
//! What waits in the queues is the switch's own affair: the ports know its length and its priority only. A frame on
//! its way through a switch comes here twice:
//!
//! ```text
//!  ingress ──► enqueue ══ queue ══► next ──► egress of the switch ──► finish ══ ready ══► link
//!                                   (the link is idle)
//! ```

use std::collections::VecDeque;

use crate::engine::{Context, Dequeued, DropReason, EgressQueues, PortMap};

/// The connected output ports of a switch whose queues hold `Q`.
pub(super) struct OutputPorts<Q> {
    ports: PortMap<Port<Q>, 0>,
    /// Ports that may have something for an idle link, in the order in which that became so.
    runnable: VecDeque<u32>,
}

struct Port<Q> {
    queues: EgressQueues<Q>,
    /// Frames that have passed the egress of the switch and wait for the link.
    ready: VecDeque<Vec<u8>>,
}

/// Nothing is connected to the port: the packet comes back.
pub(super) struct Unconnected<Q>(pub(super) Q);

impl<Q> OutputPorts<Q> {
    /// Ports with empty queues. `limits` gives each connected port and its queues' common limit in bytes.
    pub(super) fn new(limits: impl IntoIterator<Item = (u32, usize)>) -> OutputPorts<Q> {
        let mut ports = PortMap::new();
        for (port, limit) in limits {
            let queues = EgressQueues::new(limit);
            let ready = VecDeque::new();
            ports.add(port, Port { queues, ready });
        }
        OutputPorts {
            ports,
            runnable: VecDeque::new(),
        }
    }

    /// Puts a packet of `len` bytes into the queue of its priority at a port, or counts it as dropped if there is no
    /// room.
    pub(super) fn enqueue<M>(
        &mut self,
        number: u32,
        priority: u8,
        len: usize,
        packet: Q,
        ctx: &mut Context<'_, M>,
    ) -> Result<(), Unconnected<Q>> {
        let Some(port) = self.ports.get_mut(number) else {
            return Err(Unconnected(packet));
        };
        match port.queues.push(priority, packet, len, ctx.now()) {
            Ok(()) => self.runnable.push_back(number),
            Err(_full) => ctx.count_drop(number, len, DropReason::QueueFull),
        }
        Ok(())
    }

    /// Takes a frame that has passed the egress of the switch. An unconnected port swallows what it is given, as an
    /// interface without carrier does.
    pub(super) fn finish(&mut self, number: u32, frame: Vec<u8>) {
        if let Some(port) = self.ports.get_mut(number) {
            port.ready.push_back(frame);
            self.runnable.push_back(number);
        }
    }

    /// The link of a port can take the next frame.
    pub(super) fn idle(&mut self, number: u32) {
        self.runnable.push_back(number);
    }

    /// Gives idle links the frames that are ready, until a port has to have its next packet pass the egress of the
    /// switch: that packet and what it saw in its queue.
    pub(super) fn next<M>(&mut self, ctx: &mut Context<'_, M>) -> Option<Dequeued<Q>> {
        while let Some(number) = self.runnable.pop_front() {
            let Some(port) = self.ports.get_mut(number) else {
                continue;
            };
            if !ctx.can_transmit(number) {
                continue;
            }
            if let Some(frame) = port.ready.pop_front() {
                ctx.transmit(number, frame);
            } else if let Some(next) = port.queues.pop() {
                // The egress of the switch may drop the packet: then the next one has its turn.
                self.runnable.push_back(number);
                return Some(next);
            }
        }
        None
    }

    /// Throws away whatever the ports hold.
    pub(super) fn clear(&mut self) {
        for port in self.ports.values_mut() {
            port.queues.clear();
            port.ready.clear();
        }
    }
}
