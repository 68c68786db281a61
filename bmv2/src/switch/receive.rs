//! Received packets that machine code processes. A packet for one port without a queue passes parser, ingress, egress and
//! deparser on one machine, without decisions in between.

use super::direct::empty_queue;
use super::egress::egress_values;
use super::{instance, Processor};
use crate::effects::{Effects, Packet};
use crate::exec::verdict::{Part, Verdict};
use crate::jit::V1model;
use crate::program::IngressValues;

impl Processor<'_> {
    /// Processes a received packet, whose words are not cleared, by machine code.
    #[inline]
    pub(super) fn received_compiled(
        &mut self,
        code: V1model,
        mut packet: Box<Packet>,
        metadata: IngressValues,
        now: u64,
        fx: &mut Effects,
    ) {
        let program = self.program;
        program.layout.clear_varbits(&mut packet.words);
        let [port, length, ..] = metadata;
        packet.ctx.start(length as usize, port, now);
        let direct = self.direct.take();
        let queues = u64::from(self.priority_queues);
        let drop_port = self.drop_port;
        let mut run = code.start(self.machine_parts(), &mut packet);
        let verdict = run.ingress(&Part::Received(metadata));
        let payload = run.payload();
        if let (Some(Verdict::Unicast(port)), Some(direct)) = (verdict, direct) {
            let priority = run.get(program.intrinsic.priority);
            if direct.contains(port) && fx.enqueued.is_empty() && priority < queues {
                run.set(program.intrinsic.instance_type, instance::NORMAL);
                let to = (port, u8::try_from(priority).unwrap_or(u8::MAX));
                let values = egress_values(to, run.length(), drop_port, now, empty_queue(now));
                let mut out = fx.spare.pop().unwrap_or_default();
                let headers = run.egress(&values, true, &mut out);
                packet.payload = payload;
                self.end_egress(&mut packet, port, headers, true, out, fx);
                return self.pool.recycle(packet);
            }
        }
        packet.payload = payload;
        self.direct = direct;
        self.decide(packet, verdict, now, fx);
    }
}
