//! The NIC of a host, driven by the engine: frames, timers and messages, each of which ends with the sends that are
//! possible.

use alfirk_roce::host::{HostEvent, Packet};
use alfirk_roce::rc::QueuePair;

use super::{HostNode, PORT};
use crate::frame::is_acknowledgement;
use crate::network::message::Message;
use crate::network::scratch;
use crate::network::{Ctx, Fidelity};

impl HostNode {
    /// Delay in nanoseconds from the arrival of a frame to its delivery: the delay of the NIC, or 0 with flow control.
    pub(in crate::network) fn reception_delay(&self) -> u64 {
        match &self.flow_control {
            Some(_) => 0,
            None => self.model.nic_delay,
        }
    }

    /// Whether the host may announce followers, which are frames without visible effect: only without flow control.
    pub(in crate::network) fn expects_followers(&self) -> bool {
        self.flow_control.is_none()
    }

    /// Handles `count` followers (frames without visible effect): `first` and the next frames of its flow. All of them
    /// are packets of a reliable connection.
    pub(in crate::network) fn on_followers(&mut self, count: usize, first: &Packet) {
        if let (true, Packet::Rc(first)) = (self.alive, first) {
            self.host.handle_followers(first, count as u64);
        }
    }

    pub(in crate::network) fn on_frame(&mut self, frame: Packet, ctx: &mut Ctx<'_>) {
        if !self.alive {
            return;
        }
        if let Some(control) = &mut self.flow_control {
            if control.apply_if_pause(PORT, &frame, ctx) {
                return self.finish_event(ctx);
            }
        }
        let is_acknowledgement = match &frame {
            Packet::Rc(frame) => frame.headers.aeth.is_some(),
            Packet::Bytes(frame) => is_acknowledgement(frame),
        };
        self.acks_received += u64::from(is_acknowledgement);
        if self.flow_control.is_none() {
            let deadline = self.host.qp_deadline();
            self.host.handle_packet(ctx.now(), &frame);
            // Most packets are data without an ACK request that do not end a message.
            let nothing_follows = self.host.is_quiet() && self.host.qp_deadline() == deadline;
            if !nothing_follows {
                self.finish_event(ctx);
            }
            if let Packet::Rc(rc) = &frame {
                if rc.place.is_some() {
                    let room = self.host.silent_followers(rc);
                    ctx.expect_followers(&frame, u32::try_from(room).unwrap_or(u32::MAX));
                }
            }
            if let Packet::Bytes(frame) = frame {
                let buffer = frame.into_parts().0;
                scratch::with(|scratch| scratch.server.recycle(buffer));
            }
            return;
        }
        let message = Message::NicReceived { frame };
        ctx.send(ctx.node(), message, self.model.nic_delay);
    }

    pub(in crate::network) fn on_idle(&mut self, ctx: &mut Ctx<'_>) {
        self.finish_event(ctx);
    }

    pub(in crate::network) fn on_wake(&mut self, ctx: &mut Ctx<'_>) {
        if !self.alive {
            return;
        }
        if self.host.poll_timeout().is_some_and(|at| at <= ctx.now()) {
            self.host.handle_timeout(ctx.now());
        }
        let application = &mut self.application;
        if application.poll_timeout().is_some_and(|at| at <= ctx.now()) {
            application.handle_timeout(&mut self.host, ctx.now());
            self.collect(ctx.now(), ctx);
        }
        self.finish_event(ctx);
    }

    pub(in crate::network) fn on_message(&mut self, message: Message, ctx: &mut Ctx<'_>) {
        if !self.alive {
            return;
        }
        match message {
            Message::NicReceived { frame } => self.host.handle_packet(ctx.now(), &frame),
            Message::AppPosted { event, seen_at } => self.handled(&event, seen_at, ctx),
            Message::PostMulticast { data } => {
                self.application.multicast(&mut self.host, ctx.now(), data);
                self.collect(ctx.now(), ctx);
            }
            Message::PostFirst { id, data } => self.started(id, data, ctx),
            Message::LegHandled { id } => {
                let left = self.application.left(id);
                self.report(id, left, ctx);
            }
            _ => unreachable!("no node sends this to a host"),
        }
        self.finish_event(ctx);
    }

    /// Finishes the handling of any event: passes events to the application, sends frames if the link is idle, and sets
    /// the timer.
    pub(super) fn finish_event(&mut self, ctx: &mut Ctx<'_>) {
        if !self.alive {
            return;
        }
        while let Some(event) = self.host.poll_event() {
            let handling = self.model.handling_ns(event.received_bytes());
            let seen_at = ctx.now().max(self.free_at) + handling;
            self.free_at = seen_at + self.relaying_ns(&event);
            let delay = self.free_at - ctx.now() + self.model.post_delay;
            let event = Box::new(event);
            ctx.send(ctx.node(), Message::AppPosted { event, seen_at }, delay);
        }
        if let Some(control) = &mut self.flow_control {
            control.handle_timeout(PORT, ctx);
        }
        while ctx.can_transmit(PORT) && self.next_frame_at <= ctx.now() {
            let Some(frame) = self.next_frame(ctx.now()) else {
                break;
            };
            self.next_frame_at = ctx.now() + self.model.packet_interval;
            if begins_period(&frame) {
                ctx.mark_period();
            }
            ctx.transmit(PORT, frame);
        }
        if !ctx.can_transmit(PORT) && self.has_frames() {
            ctx.await_idle(PORT);
        }
        let control = self.flow_control.as_ref();
        let alarms = [
            (self.next_frame_at > ctx.now()).then_some(self.next_frame_at),
            control.and_then(|control| control.poll_timeout(ctx.now())),
            self.host.poll_timeout(),
            self.application.poll_timeout(),
        ];
        if let Some(at) = alarms.into_iter().flatten().min() {
            ctx.wake_at(at);
        }
    }

    /// Whether there may be frames to send when the link is idle.
    fn has_frames(&self) -> bool {
        !self.host.is_quiet() || self.hostile.is_some() || self.flow_control.is_some()
    }

    /// Additional time in nanoseconds that the application takes if it must forward the message of this event.
    fn relaying_ns(&self, event: &HostEvent) -> u64 {
        let costs = self.model.relaying_ns(event.received_bytes());
        match costs > 0 && self.application.relays(event) {
            true => costs,
            false => 0,
        }
    }

    /// Returns the next frame for an idle link: of a queue pair, or else a hostile one. `None` if there is none.
    fn next_frame(&mut self, now: u64) -> Option<Packet> {
        let (host, hostile, fidelity) = (&mut self.host, &mut self.hostile, self.model.fidelity);
        let mut next = || {
            let honest = match fidelity {
                Fidelity::Exact => host.poll_split(now).map(Packet::from),
                Fidelity::Fast => host.poll_packet(now),
            };
            honest.or_else(|| {
                let hostile = hostile.as_mut()?;
                let group = hostile.target().mcst_id;
                let is_group = |qp: &&QueuePair| qp.remote().is_some_and(|end| end.ip == group);
                if let Some(qp) = host.qps().find(is_group) {
                    hostile.set_position(qp.rq_psn().prev());
                }
                Some(hostile.frame().into())
            })
        };
        match &mut self.flow_control {
            None => next(),
            Some(control) => control.next(next, now),
        }
    }
}

/// Whether a frame that a host sends marks the begin of a possible period of a steady state: a packet within a message
/// that requests an ACK, which a source sends at regular intervals.
fn begins_period(frame: &Packet) -> bool {
    let Packet::Rc(frame) = frame else {
        return false;
    };
    let bth = &frame.headers.bth;
    bth.ack_req && bth.opcode.is_middle()
}
