//! Received packets that machine code processes. A packet for one port without a queue passes parser, ingress, egress and
//! deparser on one machine, without decisions in between.

use super::copies::valid_priority;
use super::direct::empty_queue;
use super::egress::egress_values;
use super::{instance, Processor};
use crate::effects::{get, set, Effects, Packet};
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
        let (queues, drop_port) = (self.priority_queues, self.drop_port);
        let mut run = code.start(self.machine_parts(), &mut packet);
        let verdict = run.ingress(&Part::Received(metadata));
        let payload = run.payload();
        if let (Some(Verdict::Unicast(port)), Some(direct)) = (verdict, direct) {
            let priority = get(run.words(), program.intrinsic.priority);
            let priority = valid_priority(priority, queues).filter(|_| fx.enqueued.is_empty());
            if let (Some(priority), true) = (priority, direct.contains(port)) {
                set(
                    run.words(),
                    program.intrinsic.instance_type,
                    instance::NORMAL,
                );
                let to = (port, priority);
                let values = egress_values(to, run.length(), drop_port, now, empty_queue(now));
                let mut out = fx.spare.pop().unwrap_or_default();
                let headers = run.egress(&values, true, &mut out);
                packet.payload = payload;
                let recirculated = self.end_egress(&mut packet, port, headers, true, out, fx);
                self.pool.recycle(packet);
                return self.recirculate(recirculated, Some(direct), now, fx);
            }
        }
        packet.payload = payload;
        self.direct = direct;
        self.decide(packet, verdict, now, fx);
    }
}
