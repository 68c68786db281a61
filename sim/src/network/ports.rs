//! Ports of a switch: queues, buffer, flow control, and transmission.
//!
//! The ports use only the length, class and priority of queued packets; their content belongs to the switch. A frame
//! passes through the ports four times on its way through a switch:
//!
//! ```text
//!  link ──► receive ──► ingress of the switch ──► enqueue ══ queue ══► next ──► egress of the switch ──► finish ──► link
//!           (begin)                                                    (the link is idle)
//! ```
//!
//! The *turn* of a packet comes when its link is idle and it is the first in its queue; then it passes the egress. A
//! packet without an outgoing frame may pass the egress early, if that makes no visible difference. Its turn stays due.
//!
//! With a buffer that is accounted by ingress port, a copy for the port at which its packet arrived passes the egress
//! at once. Nearly all such copies end there: multicast is not sent back, and most ACKs acknowledge nothing new. If
//! they waited for the link, two switches that pause each other would deadlock.
//!
//! With flow control, the class of a packet selects its queue. Without it, the priority that the ingress has set does.

use std::collections::VecDeque;
use std::sync::Arc;

use alfirk_ctrl::topology::{LinkAttributes, Pfc, Queueing, SharedBuffer, Switching};
use alfirk_roce::steady::StateVisitor;
use alfirk_roce::wire::MacAddr;

use super::buffer::{Buffer, BufferFull, Charge};
use super::crossbar::Crossbar;
use super::pfc::{self, Arrival, ClassifiedFrame, StoppedClasses};
use crate::engine::{
    wire_bytes, Context, DequeuedPacket, DropReason, EgressQueues, PortMap, ETHERNET_HEADER,
};

/// Number used as the ingress port of packets that the switch itself sends. Ports with links have numbers from 1.
const INTERNAL: u32 = 0;

/// The ports of a switch that have a link. `Q` is the type of queued packets, `F` that of frames.
pub(super) struct Ports<Q, F> {
    ports: PortMap<Port<Q, F>, 0>,
    /// Number of packets in output queues, plus the number of frames that have passed the egress and wait for their
    /// link.
    waiting: usize,
    /// Number of turns, over all ports, that are still due for packets which have passed the egress early
    /// ([`Ports::reserve_turn`]).
    due_turns: usize,
    /// Ports that may have a frame for an idle link, in the order in which they became so.
    runnable: VecDeque<u32>,
    /// Crossbar with input queues, which then replace the output queues of the ports; `None` for a switch with output
    /// queues.
    crossbar: Option<Crossbar<StoredPacket<Q>>>,
    /// Buffer that is accounted by ingress port; `None` if each output queue has its own limit.
    buffer: Option<Buffer>,
    pfc: Option<Pfc>,
    /// Source MAC address of PAUSE frames.
    mac: MacAddr,
    /// Number of the current batch: the packets that leave the ingress together.
    batch: u64,
    /// The packet that is in a pipeline now.
    current: CurrentPacket,
}

struct Port<Q, F> {
    rate_bps: u64,
    /// Whether the queue, when empty, cannot become full while the link sends one frame.
    is_deep: bool,
    /// Number of turns that are still due at this port for packets which have passed the egress early
    /// ([`Ports::reserve_turn`]).
    due_turns: u32,
    queues: EgressQueues<StoredPacket<Q>>,
    /// Frames that have passed the egress of the switch and wait for the link, each with its class.
    ready: VecDeque<(u8, F)>,
    /// Number of the last batch that has claimed this port with [`Ports::claim`].
    batch: u64,
    /// Classes that the other end of the link has stopped.
    stopped: StoppedClasses,
    /// Whether a PAUSE frame must be sent, to stop or resume the other end.
    pause_due: bool,
    /// Time at which the PAUSE that stops the other end must be sent again, in nanoseconds; `None` if it is not
    /// stopped.
    refresh_at: Option<u64>,
}

struct StoredPacket<Q> {
    packet: Q,
    charge: Option<Arc<Charge>>,
}

/// Buffer charge (the bytes that a packet occupies) of a packet between [`Ports::receive`] and [`Ports::begin`]; `None`
/// inside if the packet is not charged.
pub struct PendingCharge(Option<Arc<Charge>>);

#[derive(Default)]
struct CurrentPacket {
    /// Number of the packet, by which copies of one packet are recognised.
    number: u64,
    charge: Option<Arc<Charge>>,
}

/// Error of [`Ports::enqueue`] for a packet that is not queued, and that must pass the egress of the switch now.
pub(super) struct NotQueued<Q>(pub(super) Q);

impl<Q, F: ClassifiedFrame> Ports<Q, F> {
    /// Creates ports with empty queues. `links`: number and link of each connected port. `station`: source MAC address
    /// of PAUSE frames.
    pub(super) fn new(
        links: impl IntoIterator<Item = (u32, LinkAttributes)>,
        switching: Switching,
        shared: Option<SharedBuffer>,
        station: MacAddr,
    ) -> Ports<Q, F> {
        let links: Vec<_> = links.into_iter().collect();
        let mut ports = PortMap::new();
        for (number, link) in &links {
            let port = Port {
                rate_bps: link.rate_bps,
                is_deep: max_burst_bytes(&links, link) <= u128::from(link.queue_bytes),
                due_turns: 0,
                queues: EgressQueues::new(link.queue_bytes as usize),
                ready: VecDeque::new(),
                batch: 0,
                stopped: StoppedClasses::default(),
                pause_due: false,
                refresh_at: None,
            };
            ports.add(*number, port);
        }
        let crossbar = match switching.queueing {
            Queueing::Output => None,
            Queueing::Input { speedup } => Some(Crossbar::new(true, speedup)),
            Queueing::Voq { speedup } => Some(Crossbar::new(false, speedup)),
        };
        let counts = crossbar.is_some() || shared.is_some();
        Ports {
            ports,
            waiting: 0,
            due_turns: 0,
            runnable: VecDeque::new(),
            crossbar,
            buffer: counts.then(|| Buffer::new(shared, switching.pfc, links)),
            pfc: switching.pfc,
            mac: station,
            batch: 0,
            current: CurrentPacket::default(),
        }
    }

    /// Visits the state of the ports, with `visit_packet` for each queued packet. Buffers that are accounted by ingress
    /// port, and input queues, are not supported.
    pub(super) fn visit_state(
        &mut self,
        visitor: &mut StateVisitor<'_>,
        mut visit_packet: impl FnMut(&mut Q, &mut StateVisitor<'_>),
    ) {
        let Ports {
            ports,
            waiting,
            due_turns,
            runnable,
            crossbar,
            buffer,
            pfc,
            mac: _,
            batch: _,
            current: _,
        } = self;
        if crossbar.is_some() || buffer.is_some() || pfc.is_some() {
            visitor.unsupported();
        }
        visitor.same(*waiting as u64);
        visitor.same(*due_turns as u64);
        visitor.same(runnable.len() as u64);
        for number in runnable {
            visitor.same((*number).into());
        }
        for port in ports.values_mut() {
            visitor.same(port.due_turns.into());
            port.queues.visit_state(visitor, |stored, visitor| {
                visit_packet(&mut stored.packet, visitor);
            });
            visitor.same(port.ready.len() as u64);
            for (class, frame) in &mut port.ready {
                visitor.same((*class).into());
                frame.visit_state(visitor);
            }
        }
    }

    /// Whether the switch has a buffer that is accounted by ingress port: frames are charged to it on arrival, before
    /// the ingress.
    pub(super) fn counts_at_input(&self) -> bool {
        self.buffer.is_some()
    }

    /// Handles a frame that arrives at a port. Returns the frame's buffer charge; `None` if the frame ends here,
    /// because it is a PAUSE frame or the buffer is full.
    pub(super) fn receive<M>(
        &mut self,
        number: u32,
        frame: &F,
        ctx: &mut Context<'_, M, F>,
    ) -> Option<PendingCharge> {
        let Some(buffer) = &mut self.buffer else {
            return Some(PendingCharge(None));
        };
        let class = match (frame.read(), self.pfc) {
            (Arrival::Pause(pause), Some(_)) => {
                let port = self.ports.get_mut(number)?;
                let over = port.stopped.apply(&pause, port.rate_bps, ctx.now());
                ctx.count_paused(number, over.unwrap_or(0));
                self.runnable.push_back(number);
                return None;
            }
            (Arrival::Pause(_), None) => 0,
            (Arrival::Packet(class), _) => class,
        };
        let taken = buffer.charge(number, class, frame.len());
        self.schedule_pauses();
        match taken {
            Ok(charge) => Some(PendingCharge(Some(Arc::new(charge)))),
            Err(BufferFull) => {
                ctx.count_drop(number, frame.len(), DropReason::InputFull);
                None
            }
        }
    }

    /// Begins the ingress processing of a received packet. Packets that are enqueued before the next call of this
    /// function or of [`Ports::next`] are copies of this packet.
    pub(super) fn begin(&mut self, pending_charge: PendingCharge) {
        self.end_packet();
        self.current.charge = pending_charge.0;
    }

    /// Ends the processing of the current packet, all of whose copies are queued or dropped. Releases its charge if it
    /// has no copies.
    fn end_packet(&mut self) {
        self.current.number += 1;
        let last = self.current.charge.take().and_then(Arc::into_inner);
        if let (Some(charge), Some(buffer)) = (last, &mut self.buffer) {
            buffer.release(charge);
            self.schedule_pauses();
        }
    }

    /// Marks the ports whose pause has begun or ended, so that they send a PAUSE frame.
    fn schedule_pauses(&mut self) {
        let Some(buffer) = &mut self.buffer else {
            return;
        };
        for number in buffer.changed() {
            if let Some(port) = self.ports.get_mut(number) {
                port.pause_due = true;
                self.runnable.push_back(number);
            }
        }
    }

    /// Queues a copy of `len` bytes for a port, or counts it as dropped if there is no space. Returns the copy if the
    /// port has no link, or if its packet arrived at the same port.
    pub(super) fn enqueue<M>(
        &mut self,
        number: u32,
        priority: u8,
        len: usize,
        packet: Q,
        ctx: &mut Context<'_, M, F>,
    ) -> Result<(), NotQueued<Q>> {
        let Some(port) = self.ports.get_mut(number) else {
            return Err(NotQueued(packet));
        };
        let now = ctx.now();
        let charge = self.current.charge.clone();
        let queue = match self.pfc {
            Some(_) => charge.as_ref().map_or(0, |charge| charge.class),
            None => priority,
        };
        let from = charge.as_ref().map_or(INTERNAL, |charge| charge.port);
        if from == number {
            return Err(NotQueued(packet));
        }
        let stored = StoredPacket { packet, charge };
        let limit = self.buffer.as_ref().map(|buffer| buffer.queue_limit(queue));
        let pushed = match (&mut self.crossbar, limit) {
            (Some(crossbar), _) => {
                crossbar.push((from, queue, self.current.number), number, stored, now);
                Ok(())
            }
            (None, None) => port.queues.push(queue, stored, len, now),
            (None, Some(limit)) => {
                let limit = limit.map_or(usize::MAX, |limit| limit as usize);
                port.queues.push_within(limit, queue, stored, len, now)
            }
        };
        match pushed {
            Ok(()) => {
                self.waiting += usize::from(self.crossbar.is_none());
                self.runnable.push_back(number);
            }
            Err(_full) => ctx.count_drop(number, len, DropReason::QueueFull),
        }
        Ok(())
    }

    /// Whether a packet for a port would leave its queue at once, so that it can pass the egress and go on the link
    /// without being queued. False with a buffer accounted by ingress port, while any port may have something to send,
    /// and while turns are due at this port.
    pub(super) fn is_free<M>(&self, number: u32, ctx: &Context<'_, M, F>) -> bool {
        self.runnable.is_empty()
            && self.is_clear(number)
            && ctx.can_transmit(number)
            && (self.due_turns == 0
                || self
                    .ports
                    .get(number)
                    .is_some_and(|port| port.due_turns == 0))
    }

    /// Begins a batch of packets that leave the ingress together. Each port can be claimed once per batch.
    pub(super) fn begin_batch(&mut self) {
        self.batch += 1;
    }

    /// Claims a port for a packet of the current batch. Returns false if the port is not free, or if another packet of
    /// the batch has claimed it.
    pub(super) fn claim<M>(&mut self, number: u32, ctx: &Context<'_, M, F>) -> bool {
        let is_free = self.is_free(number, ctx);
        let port = self.ports.get_mut(number).filter(|_| is_free);
        port.is_some_and(|port| std::mem::replace(&mut port.batch, self.batch) != self.batch)
    }

    /// Records that a packet for a free port has passed the egress of the switch without being queued, as if in its
    /// turn. `frame`: the outgoing frame, if any.
    pub(super) fn finish_turn(&mut self, number: u32, frame: Option<F>) {
        self.runnable.push_back(number);
        if let Some(frame) = frame {
            self.finish(number, frame);
        }
    }

    /// Whether a port has no queued packet and no frame that waits for its link, and the buffer is not accounted by
    /// ingress port.
    #[inline]
    pub(super) fn is_clear(&self, number: u32) -> bool {
        let is_empty = |port: &Port<Q, F>| port.queues.is_empty() && port.ready.is_empty();
        self.buffer.is_none() && (self.waiting == 0 || self.ports.get(number).is_some_and(is_empty))
    }

    /// Whether a frame that has passed the egress can go on the port's link now.
    pub(super) fn may_transmit<M>(&self, number: u32, ctx: &Context<'_, M, F>) -> bool {
        let is_first = |port: &Port<Q, F>| port.ready.is_empty();
        self.buffer.is_none()
            && ctx.can_transmit(number)
            && self.ports.get(number).is_some_and(is_first)
    }

    /// Whether a packet without an outgoing frame may pass the egress of the switch before its turn, without a visible
    /// difference. This needs an empty queue that cannot become full before the turn comes. [`Ports::reserve_turn`]
    /// keeps the turn.
    pub(super) fn may_pass_early(&self, number: u32) -> bool {
        self.is_clear(number) && self.ports.get(number).is_some_and(|port| port.is_deep)
    }

    /// Records that a packet without an outgoing frame has passed the egress before its turn. The turn stays due, and
    /// precedes the turns of later packets for the port.
    pub(super) fn reserve_turn(&mut self, number: u32) {
        if let Some(port) = self.ports.get_mut(number) {
            port.due_turns += 1;
            self.due_turns += 1;
            self.runnable.push_back(number);
        }
    }

    /// Records that a follower (a frame without visible effect, see `engine/train.rs`) was sent on the link of a port
    /// without queued packets. Turns that were due before it have passed.
    #[inline]
    pub(super) fn follower_sent(&mut self, number: u32) {
        if self.due_turns > 0 {
            if let Some(port) = self.ports.get_mut(number) {
                self.due_turns -= std::mem::take(&mut port.due_turns) as usize;
            }
        }
    }

    /// Accepts a frame that has passed the egress, and keeps it until its link is idle. A frame for a port without a
    /// link is lost, as on an interface without carrier.
    pub(super) fn finish(&mut self, number: u32, frame: F) {
        let charge = self.current.charge.as_ref();
        let class = charge.map_or(0, |charge| charge.class);
        if let Some(port) = self.ports.get_mut(number) {
            port.ready.push_back((class, frame));
            self.waiting += 1;
            self.runnable.push_back(number);
        }
    }

    /// Whether a port may have something to send, so that [`Ports::next`] must be called.
    pub(super) fn is_runnable(&self) -> bool {
        !self.runnable.is_empty()
    }

    /// Records that the link of a port is idle, so that it can accept the next frame.
    pub(super) fn idle(&mut self, number: u32) {
        self.runnable.push_back(number);
    }

    /// Sends waiting frames on idle links. Stops when a port's next packet must pass the egress of the switch, and
    /// returns that packet with the data of its queueing.
    pub(super) fn next<M>(&mut self, ctx: &mut Context<'_, M, F>) -> Option<DequeuedPacket<Q>> {
        self.end_packet();
        while let Some(number) = self.runnable.pop_front() {
            if let Some(next) = self.serve(number, ctx) {
                // The egress of the switch may drop the packet; then the port's next packet has its turn.
                self.runnable.push_back(number);
                self.current.charge = next.packet.charge;
                return Some(DequeuedPacket {
                    packet: next.packet.packet,
                    enqueued_at: next.enqueued_at,
                    depth_at_enqueue: next.depth_at_enqueue,
                    depth_at_dequeue: next.depth_at_dequeue,
                });
            }
        }
        None
    }

    /// Sends waiting frames of one port, until its link is busy or its next packet must pass the egress. Returns that
    /// packet.
    fn serve<M>(
        &mut self,
        number: u32,
        ctx: &mut Context<'_, M, F>,
    ) -> Option<DequeuedPacket<StoredPacket<Q>>> {
        let port = self.ports.get_mut(number)?;
        if !ctx.can_transmit(number) {
            self.await_idle(number, ctx);
            return None;
        }
        let now = ctx.now();
        let stopped = &port.stopped;
        let is_stopped = |class| stopped.is_stopped(class, now);
        let ready = port.ready.iter().position(|(class, _)| !is_stopped(*class));
        let crossed = self.crossbar.as_ref().and_then(|all| all.source(number));
        if let (None, Some(input), Some(crossbar)) = (ready, crossed, &mut self.crossbar) {
            // Other outputs have waited for this input longer.
            crossbar.release_output(number);
            self.runnable
                .extend(crossbar.other_wanted_outputs(number, input));
            self.runnable.push_back(number);
            return None;
        }
        if let (true, Some(pfc), Some(buffer)) = (port.pause_due, self.pfc, &self.buffer) {
            let stops = buffer.is_paused(number);
            port.pause_due = false;
            port.refresh_at = stops.then(|| now + pfc::refresh_interval(port.rate_bps));
            if stops {
                ctx.count_pause(number);
            }
            ctx.transmit(number, pfc::frame(self.mac, pfc.class, stops).into());
            self.await_idle(number, ctx);
            return None;
        }
        if let Some((_, frame)) = ready.and_then(|at| port.ready.remove(at)) {
            self.waiting -= 1;
            ctx.transmit(number, frame);
            self.await_idle(number, ctx);
            return None;
        }
        if port.due_turns > 0 {
            port.due_turns -= 1;
            self.due_turns -= 1;
            self.runnable.push_back(number);
            return None;
        }
        match &mut self.crossbar {
            None => {
                let next = port.queues.pop_unless(is_stopped)?;
                self.waiting -= 1;
                Some(next)
            }
            Some(crossbar) => {
                let next = crossbar.grant(number, is_stopped)?;
                // The next packet of the input may be for another idle output.
                let input = crossbar.source(number)?;
                self.runnable
                    .extend(crossbar.other_wanted_outputs(number, input));
                Some(next)
            }
        }
    }

    /// Requests a call of the switch when the link of a port is idle, if packets or frames wait for the link. With a
    /// crossbar, always requests the call, because an input is occupied until then.
    fn await_idle<M>(&self, number: u32, ctx: &mut Context<'_, M, F>) {
        let is_waiting = |port: &Port<Q, F>| {
            port.pause_due
                || port.due_turns > 0
                || !port.ready.is_empty()
                || !port.queues.is_empty()
        };
        if self.crossbar.is_some() || self.ports.get(number).is_some_and(is_waiting) {
            ctx.await_idle(number);
        }
    }

    /// Time in nanoseconds at which [`Ports::handle_timeout`] must be called; `None` without a pending timeout.
    pub(super) fn poll_timeout(&self, now: u64) -> Option<u64> {
        self.pfc?;
        let alarms = self
            .ports
            .iter()
            .flat_map(|(_, port)| [port.refresh_at, port.stopped.poll_timeout(now)]);
        alarms.flatten().min()
    }

    /// Sends PAUSE frames again where they are due, and ends stops that have expired.
    pub(super) fn handle_timeout<M>(&mut self, ctx: &mut Context<'_, M, F>) {
        if self.pfc.is_none() {
            return;
        }
        let now = ctx.now();
        for (number, port) in self.ports.iter_mut() {
            if port.refresh_at.is_some_and(|at| at <= now) {
                port.refresh_at = None;
                port.pause_due = true;
            }
            let over = port.stopped.expire(now);
            ctx.count_paused(number, over.unwrap_or(0));
            self.runnable.push_back(number);
        }
    }

    /// Removes all packets and frames.
    pub(super) fn clear(&mut self) {
        for port in self.ports.values_mut() {
            port.queues.clear();
            port.ready.clear();
            port.due_turns = 0;
            port.pause_due = false;
            port.refresh_at = None;
        }
        (self.waiting, self.due_turns) = (0, 0);
        if let Some(crossbar) = &mut self.crossbar {
            crossbar.clear();
        }
    }
}

/// Maximum number of bytes that can be queued for port `out` while its link sends one frame: one copy of each frame
/// that arrives meanwhile.
fn max_burst_bytes(links: &[(u32, LinkAttributes)], out: &LinkAttributes) -> u128 {
    let frame = |link: &LinkAttributes| wire_bytes(link.mtu as usize + ETHERNET_HEADER);
    let rate = |link: &LinkAttributes| u128::from(link.rate_bps);
    let bytes_meanwhile = |link| u128::from(frame(out)) * rate(link) / rate(out).max(1);
    let of_each = links
        .iter()
        .map(|(_, link)| u128::from(frame(link)) + bytes_meanwhile(link));
    of_each.sum::<u128>() + u128::from(frame(out))
}

#[cfg(test)]
mod tests;
