//! Egress, the deparser, and the decisions at the end of egress.

use super::{instance, move_logs, Processor, MAX_RECIRCULATED};
use crate::drop_reason::DropReason;
use crate::effects::{get, set, set_all, Effects, Packet, QueueState, Queued};
use crate::exec::deparse::{deparse, Deparsed};
use crate::exec::run::NOT_TRUNCATED;
use crate::frame::{Frame, SharedFrame};
use crate::program::{Deparser, EgressValues};
use crate::steps::Step;
use crate::trace::TraceEvent;
use alfirk_packet_io::frame::SplitFrame;

impl Processor<'_> {
    /// Does what follows the egress pipeline, unless machine code has: sends the requested clone, and runs the deparser. Returns
    /// where the headers are; `None` if the packet was dropped.
    #[inline(never)]
    fn deparse(&mut self, packet: &mut Packet, fx: &mut Effects) -> Option<Deparsed> {
        let program = self.program;
        move_logs(&mut packet.ctx, fx);
        if let Some(reason) = packet.ctx.fault {
            self.record_drop(reason, fx);
            return None;
        }
        if let Some(clone) = packet.ctx.clone.take() {
            self.log(|| Step::Cloning("egress"));
            self.clone_egress(packet, clone, fx);
        }
        let spec = get(&packet.words, program.intrinsic.egress_spec);
        if spec == u64::from(self.drop_port) {
            self.log(|| Step::Dropped("egress"));
            self.record_drop(DropReason::Egress, fx);
            return None;
        }
        self.enter_block("deparser");
        let length = self.run_deparser(&program.deparser, packet);
        self.leave_block("deparser");
        Some(Deparsed::Buffer(length))
    }

    /// Runs a deparser on a packet, and records the fields that it changes. Returns the length in bytes of the headers, which are
    /// at the front of `state.headers`.
    pub fn run_deparser(&mut self, deparser: &Deparser, packet: &mut Packet) -> usize {
        let Packet {
            words,
            frame,
            payload,
            ctx,
        } = packet;
        let rest = Packet::rest(frame, *payload);
        let code = (self.compiled, deparser);
        let length = deparse(self.program, code, self.state, words, rest, ctx);
        self.record_changes(packet);
        length
    }

    /// Takes a packet from its queue entry, and runs egress on it.
    pub(super) fn egress(&mut self, queued: Queued, now: u64, queue: QueueState, fx: &mut Effects) {
        let Queued {
            port,
            priority,
            packet,
            ..
        } = queued;
        let mut packet = self.take(packet);
        let recirculated = self.run_egress(&mut packet, (port, priority), now, queue, true, fx);
        self.recirculate(recirculated, None, now, fx);
        self.pool.recycle(packet);
    }

    /// Runs egress and deparser, and the decisions at the end of egress, on a packet for a port and a priority. `is_last`: the
    /// frame may be taken, since no other copy is made of this packet. Returns the packet that is recirculated, if it is.
    #[must_use]
    pub(super) fn run_egress(
        &mut self,
        packet: &mut Packet,
        (port, priority): (u32, u8),
        now: u64,
        queue: QueueState,
        is_last: bool,
        fx: &mut Effects,
    ) -> Option<Box<Packet>> {
        packet.ctx.now = now;
        let length = packet.ctx.length as u64;
        let metadata = egress_values((port, priority), length, self.drop_port, now, queue);
        let mut out = fx.spare.pop().unwrap_or_default();
        let headers = match self.v1model() {
            Some(code) => {
                let mut run = code.start(self.machine_parts(), packet);
                run.egress(&metadata, is_last, &mut out)
            }
            None => {
                let fields = self.program.intrinsic.egress_fields();
                set_all(&mut packet.words, &fields, &metadata);
                if let Some(recorder) = &mut self.state.recorder {
                    recorder.select_packet(packet.ctx.number, packet.ctx.copy, &packet.words);
                    recorder.record(TraceEvent::Egress { port });
                }
                self.run_pipeline(packet, "egress", self.program.egress);
                None
            }
        };
        self.end_egress(packet, port, headers, is_last, out, fx)
    }

    /// Sends a packet after egress, and does what it has requested there. `headers`: where they are; `None` if the deparser has
    /// not run. `out`: the buffer of the frame to be sent. Returns the packet that is recirculated instead of sent, if it is.
    #[must_use]
    #[inline(always)]
    pub(super) fn end_egress(
        &mut self,
        packet: &mut Packet,
        port: u32,
        headers: Option<Deparsed>,
        is_last: bool,
        out: Vec<u8>,
        fx: &mut Effects,
    ) -> Option<Box<Packet>> {
        let headers = match headers {
            Some(headers) => Some(headers),
            None => self.deparse(packet, fx),
        };
        let Some(headers) = headers else {
            fx.spare.push(out);
            return None;
        };
        move_logs(&mut packet.ctx, fx);
        if let Some(reason) = packet.ctx.fault {
            self.record_drop(reason, fx);
            fx.spare.push(out);
            return None;
        }
        let Packet {
            words,
            frame,
            payload,
            ctx,
        } = packet;
        let payload = *payload;
        let intrinsic = &self.program.intrinsic;
        let frame = frame.get_or_insert_default();
        let mut out = match (headers, own_frame(frame, is_last)) {
            #[cfg(feature = "jit")]
            (Deparsed::InPlace, Some(frame)) => frame.take(out),
            #[cfg(feature = "jit")]
            (Deparsed::InPlace, None) => frame.copy_with_headers(0, &[], out),
            #[cfg(feature = "jit")]
            (Deparsed::Output, _) => frame.copy_after(payload, out),
            (Deparsed::Buffer(length), Some(frame)) => {
                frame.take_output(payload, &self.state.headers[..length], out)
            }
            // Other copies of the packet share the frame.
            (Deparsed::Buffer(length), None) => {
                frame.copy_with_headers(payload, &self.state.headers[..length], out)
            }
        };
        if ctx.truncate != NOT_TRUNCATED {
            out.truncate(usize::try_from(ctx.truncate).unwrap_or(usize::MAX));
        }
        if ctx.recirculate != 0 {
            if out.len() > MAX_RECIRCULATED {
                self.record_drop(DropReason::TooLong, fx);
                return None;
            }
            let length = out.len() as u64;
            let mut fresh = self.pool.cleared(self.code());
            self.pool.adopt(&mut fresh, out, &mut fx.spare);
            let number = ctx.number;
            self.keep(words, &mut fresh.words, ctx.recirculate);
            let words = &mut fresh.words;
            set(words, intrinsic.instance_type, instance::RECIRCULATED);
            set(words, intrinsic.packet_length, length);
            self.log(|| Step::Recirculate);
            self.number_copy(&mut fresh, number);
            self.record(|| TraceEvent::Recirculated {
                as_copy: fresh.ctx.copy,
            });
            return Some(fresh);
        }
        self.output(port, out, fx);
        None
    }

    /// Adds a frame that leaves the switch to the effects.
    #[inline(always)]
    fn output(&mut self, port: u32, frame: SplitFrame, fx: &mut Effects) {
        if self.state.recorder.is_some() {
            let bytes = frame.len();
            self.record(|| TraceEvent::Out { port, bytes });
            self.log(|| Step::Sent { bytes, port });
        }
        fx.send(port, frame);
    }
}

/// Returns the frame of a packet if it may be changed: no further copy is made of the packet, and no other packet shares it.
#[inline]
fn own_frame(frame: &mut SharedFrame, is_last: bool) -> Option<&mut Frame> {
    match is_last {
        true => SharedFrame::get_mut(frame),
        false => None,
    }
}

/// Returns the metadata of a packet of `length` bytes that leaves a queue.
#[inline(always)]
pub(super) fn egress_values(
    (port, priority): (u32, u8),
    length: u64,
    drop_port: u32,
    now: u64,
    queue: QueueState,
) -> EgressValues {
    let at = now / 1000;
    let enqueued = queue.enq_timestamp / 1000;
    [
        port.into(),
        // Not the drop port, so that the packet is sent unless egress drops it.
        u64::from(drop_port) + 1,
        length,
        at,
        enqueued,
        queue.enq_qdepth.into(),
        at.saturating_sub(enqueued),
        queue.deq_qdepth.into(),
        priority.into(),
    ]
}
