//! From ingress to the queues: copies for the ports of a group, and clones.

use std::sync::Arc;

use super::{instance, Machine};
use crate::drop_reason::DropReason;
use crate::effects::{get, set, Effects, Held, Original, Packet, Queued};
use crate::exec::run::CloneRequest;
use crate::pre::{CloneSession, Replica};
use crate::steps::Step;
use crate::trace::TraceEvent;

/// Packets that one frame may leave behind for the queues: a multicast group of every port, and more.
const MAX_ENQUEUED: usize = 1 << 16;

/// Where a packet is queued: a [`Queued`] without it.
struct Queue {
    port: u32,
    priority: u8,
    len: usize,
    generation: u64,
}

impl Queue {
    fn with(self, packet: Held) -> Queued {
        let Queue {
            port,
            priority,
            len,
            generation,
        } = self;
        Queued {
            port,
            priority,
            len,
            generation,
            packet,
        }
    }
}

impl Machine<'_> {
    pub fn enqueue(
        &mut self,
        port: u32,
        priority: Option<u8>,
        packet: Box<Packet>,
        fx: &mut Effects,
    ) {
        let rid = get(&packet.words, self.program.intrinsic.egress_rid);
        match self.queue_of(port, priority, rid, &packet, fx) {
            Some(queue) => fx.enqueued.push(queue.with(Held::Own(packet))),
            None => self.pool.take_back(packet),
        }
    }

    /// The queue for a packet, or for a copy of it with such a replication id; `None` if it is dropped.
    fn queue_of(
        &mut self,
        port: u32,
        priority: Option<u8>,
        rid: u64,
        packet: &Packet,
        fx: &mut Effects,
    ) -> Option<Queue> {
        if fx.enqueued.len() >= MAX_ENQUEUED {
            self.tell_dropped(DropReason::TooManyCopies, fx);
            return None;
        }
        let own = get(&packet.words, self.program.intrinsic.priority);
        let priority = priority.map_or(own, u64::from);
        if priority >= u64::from(self.priority_queues) {
            self.log(|| Step::Priority);
            self.tell_dropped(DropReason::Priority, fx);
            return None;
        }
        let priority = u8::try_from(priority).unwrap_or(u8::MAX);
        self.tell(|| TraceEvent::Queued {
            port,
            priority,
            rid,
        });
        Some(Queue {
            port,
            priority,
            len: packet.ctx.length.max(0) as usize,
            generation: self.generation,
        })
    }

    pub(super) fn multicast(&mut self, packet: Box<Packet>, group: u32, fx: &mut Effects) {
        let mut replicas = std::mem::take(&mut self.state.scratch);
        replicas.clear();
        replicas.extend_from_slice(self.state.pre.replicas(group).unwrap_or_default());
        if replicas.is_empty() {
            self.log(|| Step::NoGroup(group));
            fx.dropped.push(DropReason::NoGroup);
            self.tell(|| TraceEvent::Dropped {
                reason: DropReason::NoGroup.name(),
            });
        }
        self.replicate(&replicas, None, packet, fx);
        self.state.scratch = replicas;
    }

    /// One copy per replica.
    fn replicate(
        &mut self,
        replicas: &[Replica],
        priority: Option<u8>,
        packet: Box<Packet>,
        fx: &mut Effects,
    ) {
        let number = packet.ctx.number;
        let of = Arc::new(Original(packet));
        for &Replica { port, rid } in replicas {
            self.log(|| Step::Replicate { port });
            let copy = self.copy_number(&of.0, number);
            if let Some(queue) = self.queue_of(port, priority, rid.into(), &of.0, fx) {
                let of = Arc::clone(&of);
                fx.enqueued.push(queue.with(Held::Copy { of, rid, copy }));
            }
        }
        if let Some(Original(packet)) = Arc::into_inner(of) {
            self.pool.take_back(packet);
        }
    }

    /// A packet that leaves its queue: if it is a copy, that is made now.
    pub fn take(&mut self, held: Held) -> Box<Packet> {
        let (of, rid, copy) = match held {
            Held::Own(packet) => return packet,
            Held::Copy { of, rid, copy } => (of, rid, copy),
        };
        let mut packet = match Arc::try_unwrap(of) {
            // The last one is the packet itself.
            Ok(Original(packet)) => packet,
            Err(of) => self.pool.copy(&of.0, self.program),
        };
        packet.ctx.copy = copy;
        let field = self.program.intrinsic.egress_rid;
        set(&mut packet.words, field, u64::from(rid));
        packet
    }

    /// A clone of the packet as it came into ingress; it is parsed anew.
    pub(super) fn clone_ingress(
        &mut self,
        packet: &Packet,
        port: u64,
        clone: CloneRequest,
        fx: &mut Effects,
    ) {
        let Some(session) = self.state.pre.session(clone.session).cloned() else {
            return;
        };
        let program = self.program;
        let Some(frame) = packet.frame.clone() else {
            return;
        };
        self.tell(|| TraceEvent::Cloned {
            session: clone.session,
        });
        let mut copy = self.pool.packet(program, frame);
        self.number_copy(&mut copy, packet.ctx.number);
        set(&mut copy.words, program.intrinsic.ingress_port, port);
        self.parse(&mut copy, packet.ctx.now);
        self.forget_all_but(clone.list, packet, &mut copy, instance::INGRESS_CLONE);
        // The packet itself goes on.
        if let Some(recorder) = &mut self.state.recorder {
            recorder.follow(packet.ctx.number, packet.ctx.copy, &packet.words);
        }
        self.send_clones(&session, copy, fx);
    }

    /// A clone of the packet as egress left it. It is neither deparsed nor parsed.
    pub(super) fn clone_egress(&mut self, packet: &Packet, clone: CloneRequest, fx: &mut Effects) {
        let Some(session) = self.state.pre.session(clone.session).cloned() else {
            return;
        };
        self.tell(|| TraceEvent::Cloned {
            session: clone.session,
        });
        let program = self.program;
        let mut copy = self.pool.copy(packet, program);
        self.number_copy(&mut copy, packet.ctx.number);
        self.forget_all_but(clone.list, packet, &mut copy, instance::EGRESS_CLONE);
        self.send_clones(&session, copy, fx);
    }

    /// Leaves a clone what a field list names of the packet's metadata, and says what the clone is.
    fn forget_all_but(&self, list: u32, packet: &Packet, clone: &mut Packet, what: u64) {
        let program = self.program;
        clone.ctx.forget();
        clone.words[..program.layout.metadata_end].fill(0);
        self.keep(&packet.words, &mut clone.words, list);
        set(&mut clone.words, program.intrinsic.instance_type, what);
    }

    fn send_clones(&mut self, session: &CloneSession, mut packet: Box<Packet>, fx: &mut Effects) {
        if session.truncate_bytes > 0 {
            packet.ctx.truncate = Some(u64::from(session.truncate_bytes));
        }
        let group = session
            .group
            .and_then(|group| self.state.pre.replicas(group));
        let mut replicas = group.unwrap_or_default().to_vec();
        if let Some(number) = session.group {
            let what = "MGID";
            self.log(|| Step::CloneTo { what, number });
        }
        for replica in &session.replicas {
            let (what, number) = ("egress port", replica.port);
            self.log(|| Step::CloneTo { what, number });
        }
        replicas.extend_from_slice(&session.replicas);
        // BMv2 knows no classes, so clones of any find a queue.
        let class = session.class_of_service.min(self.priority_queues - 1);
        let class = u8::try_from(class).unwrap_or(u8::MAX);
        self.replicate(&replicas, (class > 0).then_some(class), packet, fx);
    }
}
