//! Ports of a switch: queues, buffer, flow control, and transmission.
//!
//! What waits in the queues is the switch's own affair: the ports know a packet's length, class and priority only. A
//! frame on its way through a switch comes here four times:
//!
//! ```text
//!  link ──► receive ──► ingress of the switch ──► enqueue ══ queue ══► next ──► egress of the switch ──► finish ──► link
//!           (begin)                                                    (the link is idle)
//! ```
//!
//! Where packets are counted at their input, a copy for the very port where its packet came in passes the egress at once:
//! nearly all of them end there (multicast that does not go back, ACKs that acknowledge nothing new), and if they waited for the
//! link, two switches that pause each other would wait for ever.
//!
//! With flow control a packet's class chooses its queue, without it the priority that the ingress has set does.

use std::collections::VecDeque;
use std::sync::Arc;

use alfirk_ctrl::topology::{LinkAttributes, Pfc, Queueing, SharedBuffer, Switching};
use alfirk_roce::wire::MacAddr;

use super::buffer::{Buffer, NoRoom, Share};
use super::crossbar::Crossbar;
use super::pfc::{self, Arrival, Classified, Stopped};
use crate::engine::{
    wire_bytes, Context, Dequeued, DropReason, EgressQueues, PortMap, ETHERNET_HEADER,
};

/// The input port of what the switch itself sends; ports with links begin at 1.
const INTERNAL: u32 = 0;

/// The connected ports of a switch whose queues hold `Q`.
pub(super) struct Ports<Q, F> {
    ports: PortMap<Port<Q, F>, 0>,
    /// How much waits in their queues and for their links.
    held: usize,
    /// How many turns are to come of what has passed the egress ([`Ports::note`]).
    noted: usize,
    /// Ports that may have something for an idle link, in the order in which that became so.
    runnable: VecDeque<u32>,
    /// Input queues, in place of those of the ports.
    crossbar: Option<Crossbar<Stored<Q>>>,
    /// None where nothing is counted at the input: output queues of their own.
    buffer: Option<Buffer>,
    pfc: Option<Pfc>,
    /// The source of PAUSE frames.
    station: MacAddr,
    /// Counts batches of packets that leave the ingress together.
    batch: u64,
    /// The packet that is in a pipeline now.
    current: Current,
}

struct Port<Q, F> {
    rate_bps: u64,
    /// Whether its queue cannot run full while its link sends one frame, if it was empty before.
    is_deep: bool,
    /// How many packets would be before all others if those of which nothing leaves waited for their turns.
    notes: u32,
    queues: EgressQueues<Stored<Q>>,
    /// Frames that have passed the egress of the switch and wait for the link, with their class.
    ready: VecDeque<(u8, F)>,
    /// The last batch in which a packet was for it ([`Ports::claim`]).
    batch: u64,
    /// What the other end has stopped.
    stopped: Stopped,
    /// Whether a PAUSE waits for the link.
    tells: bool,
    /// When to say again that the other end must stop.
    refresh_at: Option<u64>,
}

struct Stored<Q> {
    packet: Q,
    share: Option<Arc<Share>>,
}

/// A packet on its way from [`Ports::receive`] to [`Ports::begin`], and what it occupies.
pub struct Ticket(Option<Arc<Share>>);

#[derive(Default)]
struct Current {
    /// Counts packets.
    number: u64,
    share: Option<Arc<Share>>,
}

/// There is nothing to wait for: the packet comes back, to pass the egress of the switch now.
pub(super) struct AtOnce<Q>(pub(super) Q);

impl<Q, F: Classified> Ports<Q, F> {
    /// Ports with empty queues; `links` gives each connected port and its link. PAUSE frames come from `station`.
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
                is_deep: burst(&links, link) <= u128::from(link.queue_bytes),
                notes: 0,
                queues: EgressQueues::new(link.queue_bytes as usize),
                ready: VecDeque::new(),
                batch: 0,
                stopped: Stopped::default(),
                tells: false,
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
            held: 0,
            noted: 0,
            runnable: VecDeque::new(),
            crossbar,
            buffer: counts.then(|| Buffer::new(shared, switching.pfc, links)),
            pfc: switching.pfc,
            station,
            batch: 0,
            current: Current::default(),
        }
    }

    /// Whether what comes in is counted before it has passed the ingress.
    pub(super) fn counts_at_input(&self) -> bool {
        self.buffer.is_some()
    }

    /// A frame has come in at a port. `None` if it goes no further: it was a PAUSE, or there is no room for it.
    pub(super) fn receive<M>(
        &mut self,
        number: u32,
        frame: &F,
        ctx: &mut Context<'_, M, F>,
    ) -> Option<Ticket> {
        let Some(buffer) = &mut self.buffer else {
            return Some(Ticket(None));
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
        let taken = buffer.take(number, class, frame.len());
        self.tell_changes();
        match taken {
            Ok(share) => Some(Ticket(Some(Arc::new(share)))),
            Err(NoRoom) => {
                ctx.count_drop(number, frame.len(), DropReason::InputFull);
                None
            }
        }
    }

    /// A received packet passes the ingress of the switch now: what is enqueued until the next call, or until
    /// [`Ports::next`], are its copies.
    pub(super) fn begin(&mut self, ticket: Ticket) {
        self.end();
        self.current.share = ticket.0;
    }

    /// The copies of the packet that was in a pipeline are in queues or gone.
    fn end(&mut self) {
        self.current.number += 1;
        let last = self.current.share.take().and_then(Arc::into_inner);
        if let (Some(share), Some(buffer)) = (last, &mut self.buffer) {
            buffer.give_back(share);
            self.tell_changes();
        }
    }

    fn tell_changes(&mut self) {
        let Some(buffer) = &mut self.buffer else {
            return;
        };
        for number in buffer.changed() {
            if let Some(port) = self.ports.get_mut(number) {
                port.tells = true;
                self.runnable.push_back(number);
            }
        }
    }

    /// Queues a copy of `len` bytes for a port, or counts it as dropped if there is no room. It comes back if nothing is
    /// connected to the port, or if it turns around there.
    pub(super) fn enqueue<M>(
        &mut self,
        number: u32,
        priority: u8,
        len: usize,
        packet: Q,
        ctx: &mut Context<'_, M, F>,
    ) -> Result<(), AtOnce<Q>> {
        let Some(port) = self.ports.get_mut(number) else {
            return Err(AtOnce(packet));
        };
        let now = ctx.now();
        let share = self.current.share.clone();
        let queue = match self.pfc {
            Some(_) => share.as_ref().map_or(0, |share| share.class),
            None => priority,
        };
        let from = share.as_ref().map_or(INTERNAL, |share| share.port);
        if from == number {
            return Err(AtOnce(packet));
        }
        let stored = Stored { packet, share };
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
                self.held += usize::from(self.crossbar.is_none());
                self.runnable.push_back(number);
            }
            Err(_full) => ctx.count_drop(number, len, DropReason::QueueFull),
        }
        Ok(())
    }

    /// Whether a packet for a port would leave its queue as soon as it was there: then it can pass the egress of the switch and go on the
    /// link without having been in it. Not so where packets are counted on their way, nor behind one for another port that has its turn first.
    pub(super) fn is_free<M>(&self, number: u32, ctx: &Context<'_, M, F>) -> bool {
        self.runnable.is_empty()
            && self.is_clear(number)
            && ctx.can_transmit(number)
            && (self.noted == 0 || self.ports.get(number).is_some_and(|port| port.notes == 0))
    }

    /// A batch of packets begins: of each port one can be claimed.
    pub(super) fn begin_batch(&mut self) {
        self.batch += 1;
    }

    /// Whether a port is free, and nothing else of the batch is for it.
    pub(super) fn claim<M>(&mut self, number: u32, ctx: &Context<'_, M, F>) -> bool {
        let is_free = self.is_free(number, ctx);
        let port = self.ports.get_mut(number).filter(|_| is_free);
        port.is_some_and(|port| std::mem::replace(&mut port.batch, self.batch) != self.batch)
    }

    /// A packet has passed the egress of the switch for a port that was free, as if it had been in its queue: then the port has its turn
    /// again, and with what has become of the packet.
    pub(super) fn turned(&mut self, number: u32, frame: Option<F>) {
        self.runnable.push_back(number);
        if let Some(frame) = frame {
            self.finish(number, frame);
        }
    }

    /// Whether nothing waits for the link of a port that leaves there, nor is counted on its way.
    #[inline]
    pub(super) fn is_clear(&self, number: u32) -> bool {
        let is_empty = |port: &Port<Q, F>| port.queues.is_empty() && port.ready.is_empty();
        self.buffer.is_none() && (self.held == 0 || self.ports.get(number).is_some_and(is_empty))
    }

    /// Whether what has passed the egress of the switch for a port can go on the link now.
    pub(super) fn passes_on<M>(&self, number: u32, ctx: &Context<'_, M, F>) -> bool {
        let is_first = |port: &Port<Q, F>| port.ready.is_empty();
        self.buffer.is_none()
            && ctx.can_transmit(number)
            && self.ports.get(number).is_some_and(is_first)
    }

    /// Whether a packet of which nothing leaves can pass the egress of the switch before its turn has come, because no difference can be
    /// seen: nothing passes there for its port until then, and its place in the queue is not missed. [`Ports::note`] keeps its turn.
    pub(super) fn is_first(&self, number: u32) -> bool {
        self.is_clear(number) && self.ports.get(number).is_some_and(|port| port.is_deep)
    }

    /// Such a packet has passed the egress, and its turn is still to come: what comes for the port meanwhile is behind it.
    pub(super) fn note(&mut self, number: u32) {
        if let Some(port) = self.ports.get_mut(number) {
            port.notes += 1;
            self.noted += 1;
            self.runnable.push_back(number);
        }
    }

    /// A frame that no observer sees has gone on the link of a port that was clear: what had its turn before has had it.
    #[inline]
    pub(super) fn gone(&mut self, number: u32) {
        if self.noted > 0 {
            if let Some(port) = self.ports.get_mut(number) {
                self.noted -= std::mem::take(&mut port.notes) as usize;
            }
        }
    }

    /// Takes a frame that has passed the egress of the switch. An unconnected port swallows what it is given, as an
    /// interface without carrier does.
    pub(super) fn finish(&mut self, number: u32, frame: F) {
        let share = self.current.share.as_ref();
        let class = share.map_or(0, |share| share.class);
        if let Some(port) = self.ports.get_mut(number) {
            port.ready.push_back((class, frame));
            self.held += 1;
            self.runnable.push_back(number);
        }
    }

    /// Whether [`Ports::next`] may have something to do.
    pub(super) fn is_runnable(&self) -> bool {
        !self.runnable.is_empty()
    }

    /// The link of a port can take the next frame.
    pub(super) fn idle(&mut self, number: u32) {
        self.runnable.push_back(number);
    }

    /// Gives idle links the frames that are ready, until a port has to have its next packet pass the egress of the
    /// switch: that packet and what it saw in its queue.
    pub(super) fn next<M>(&mut self, ctx: &mut Context<'_, M, F>) -> Option<Dequeued<Q>> {
        self.end();
        while let Some(number) = self.runnable.pop_front() {
            if let Some(next) = self.serve(number, ctx) {
                // The egress of the switch may drop the packet: then the next one has its turn.
                self.runnable.push_back(number);
                self.current.share = next.packet.share;
                return Some(Dequeued {
                    packet: next.packet.packet,
                    enqueued_at: next.enqueued_at,
                    depth_at_enqueue: next.depth_at_enqueue,
                    depth_at_dequeue: next.depth_at_dequeue,
                });
            }
        }
        None
    }

    fn serve<M>(
        &mut self,
        number: u32,
        ctx: &mut Context<'_, M, F>,
    ) -> Option<Dequeued<Stored<Q>>> {
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
            // Others have waited for the input longer.
            crossbar.finished(number);
            self.runnable.extend(crossbar.wanted_beside(number, input));
            self.runnable.push_back(number);
            return None;
        }
        if let (true, Some(pfc), Some(buffer)) = (port.tells, self.pfc, &self.buffer) {
            let stops = buffer.is_paused(number);
            port.tells = false;
            port.refresh_at = stops.then(|| now + pfc::refresh_interval(port.rate_bps));
            if stops {
                ctx.count_pause(number);
            }
            ctx.transmit(number, pfc::frame(self.station, pfc.class, stops).into());
            self.await_idle(number, ctx);
            return None;
        }
        if let Some((_, frame)) = ready.and_then(|at| port.ready.remove(at)) {
            self.held -= 1;
            ctx.transmit(number, frame);
            self.await_idle(number, ctx);
            return None;
        }
        if port.notes > 0 {
            port.notes -= 1;
            self.noted -= 1;
            self.runnable.push_back(number);
            return None;
        }
        match &mut self.crossbar {
            None => {
                let next = port.queues.pop_unless(is_stopped)?;
                self.held -= 1;
                Some(next)
            }
            Some(crossbar) => {
                let next = crossbar.grant(number, is_stopped)?;
                // The packet behind this one may be free to go elsewhere.
                let input = crossbar.source(number)?;
                self.runnable.extend(crossbar.wanted_beside(number, input));
                Some(next)
            }
        }
    }

    /// The link of a port is busy. If packets wait for it, or hold an input as long as it is, the port has its turn after that.
    fn await_idle<M>(&self, number: u32, ctx: &mut Context<'_, M, F>) {
        let is_waiting = |port: &Port<Q, F>| {
            port.tells || port.notes > 0 || !port.ready.is_empty() || !port.queues.is_empty()
        };
        if self.crossbar.is_some() || self.ports.get(number).is_some_and(is_waiting) {
            ctx.await_idle(number);
        }
    }

    /// When to call [`Ports::handle_timeout`].
    pub(super) fn poll_timeout(&self, now: u64) -> Option<u64> {
        self.pfc?;
        let alarms = self
            .ports
            .iter()
            .flat_map(|(_, port)| [port.refresh_at, port.stopped.poll_timeout(now)]);
        alarms.flatten().min()
    }

    /// Does what is due: sends PAUSE again to those who must stop, and lets go on what was stopped long enough.
    pub(super) fn handle_timeout<M>(&mut self, ctx: &mut Context<'_, M, F>) {
        if self.pfc.is_none() {
            return;
        }
        let now = ctx.now();
        for (number, port) in self.ports.iter_mut() {
            if port.refresh_at.is_some_and(|at| at <= now) {
                port.refresh_at = None;
                port.tells = true;
            }
            let over = port.stopped.expire(now);
            ctx.count_paused(number, over.unwrap_or(0));
            self.runnable.push_back(number);
        }
    }

    /// Throws away whatever the ports hold.
    pub(super) fn clear(&mut self) {
        for port in self.ports.values_mut() {
            port.queues.clear();
            port.ready.clear();
            port.notes = 0;
            port.tells = false;
            port.refresh_at = None;
        }
        (self.held, self.noted) = (0, 0);
        if let Some(crossbar) = &mut self.crossbar {
            crossbar.clear();
        }
    }
}

/// How many bytes may come for a port while its link sends one frame: of each frame that comes in, one copy.
fn burst(links: &[(u32, LinkAttributes)], out: &LinkAttributes) -> u128 {
    let frame = |link: &LinkAttributes| wire_bytes(link.mtu as usize + ETHERNET_HEADER);
    let rate = |link: &LinkAttributes| u128::from(link.rate_bps);
    let meanwhile = |link| u128::from(frame(out)) * rate(link) / rate(out).max(1);
    let of_each = links
        .iter()
        .map(|(_, link)| u128::from(frame(link)) + meanwhile(link));
    of_each.sum::<u128>() + u128::from(frame(out))
}

#[cfg(test)]
mod tests;
