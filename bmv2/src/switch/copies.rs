//! Enqueueing of packets after ingress: multicast copies and clones.

use std::sync::Arc;

use super::{instance, Processor};
use crate::drop_reason::DropReason;
use crate::effects::{get, set, Effects, Packet, Queued, QueuedPacket, SharedPacket};
use crate::exec::run::CloneRequest;
use crate::pre::{CloneSession, Replica};
use crate::steps::Step;
use crate::trace::TraceEvent;

/// Maximum number of packets that one frame can enqueue. A multicast group with every port needs fewer.
pub(super) const MAX_ENQUEUED: usize = 1 << 16;

/// Destination of a packet: the fields of a [`Queued`] except the packet.
struct Queue {
    port: u32,
    priority: u8,
    len: usize,
    generation: u64,
}

impl Queue {
    fn with(self, packet: QueuedPacket) -> Queued {
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

impl Processor<'_> {
    pub fn enqueue(
        &mut self,
        port: u32,
        priority: Option<u8>,
        packet: Box<Packet>,
        fx: &mut Effects,
    ) {
        let rid = get(&packet.words, self.program.intrinsic.egress_rid);
        match self.queue_of(port, priority, (rid, packet.ctx.copy), &packet, fx) {
            Some(queue) => fx.enqueued.push(queue.with(QueuedPacket::Own(packet))),
            None => self.pool.recycle(packet),
        }
    }

    /// Returns the queue of a packet, or of its copy with this replication id and number. If the packet must be dropped,
    /// records this and returns `None`.
    fn queue_of(
        &mut self,
        port: u32,
        priority: Option<u8>,
        copy: (u64, u32),
        packet: &Packet,
        fx: &mut Effects,
    ) -> Option<Queue> {
        Some(Queue {
            port,
            priority: self.queue_priority(port, priority, copy, packet, fx)?,
            len: packet.ctx.length.max(0) as usize,
            generation: self.generation,
        })
    }

    /// Returns the priority of a packet, or of its copy with this replication id and number, at a port. If the packet must be
    /// dropped, records this and returns `None`.
    pub(super) fn queue_priority(
        &mut self,
        port: u32,
        priority: Option<u8>,
        (rid, copy): (u64, u32),
        packet: &Packet,
        fx: &mut Effects,
    ) -> Option<u8> {
        if fx.enqueued.len() >= MAX_ENQUEUED {
            self.record_drop(DropReason::TooManyCopies, fx);
            return None;
        }
        let own = get(&packet.words, self.program.intrinsic.priority);
        let priority = priority.map_or(own, u64::from);
        let Some(priority) = valid_priority(priority, self.priority_queues) else {
            self.log(|| Step::Priority);
            self.record_drop(DropReason::Priority, fx);
            return None;
        };
        if let Some(recorder) = &mut self.state.recorder {
            recorder.queued(port, priority, rid, copy);
        }
        Some(priority)
    }

    pub(super) fn multicast(&mut self, mut packet: Box<Packet>, group: u32, fx: &mut Effects) {
        let mut replicas = std::mem::take(&mut self.state.scratch);
        replicas.clear();
        replicas.extend_from_slice(self.state.pre.replicas(group).unwrap_or_default());
        self.record(|| TraceEvent::Multicast {
            group,
            replicas: replicas.len(),
        });
        if replicas.is_empty() {
            self.log(|| Step::NoGroup(group));
            fx.dropped.push(DropReason::NoGroup);
            self.record(|| TraceEvent::Dropped {
                reason: DropReason::NoGroup.name(),
            });
        }
        match self.replicate_directly(&replicas, &mut packet, fx) {
            true => self.pool.recycle(packet),
            false => self.replicate(&replicas, None, packet, fx),
        }
        self.state.scratch = replicas;
    }

    /// Enqueues one copy of the packet for each replica.
    fn replicate(
        &mut self,
        replicas: &[Replica],
        priority: Option<u8>,
        packet: Box<Packet>,
        fx: &mut Effects,
    ) {
        let number = packet.ctx.number;
        let of = Arc::new(SharedPacket(packet));
        for &Replica { port, rid } in replicas {
            self.log(|| Step::Replicate { port });
            let copy = self.copy_number(&of.0, number);
            if let Some(queue) = self.queue_of(port, priority, (rid.into(), copy), &of.0, fx) {
                let of = Arc::clone(&of);
                fx.enqueued
                    .push(queue.with(QueuedPacket::Copy { of, rid, copy }));
            }
        }
        if let Some(SharedPacket(packet)) = Arc::into_inner(of) {
            self.pool.recycle(packet);
        }
    }

    /// Returns the packet of a queue entry; a multicast copy is created now.
    pub fn take(&mut self, queued: QueuedPacket) -> Box<Packet> {
        let (of, rid, copy) = match queued {
            QueuedPacket::Own(packet) => return packet,
            QueuedPacket::Copy { of, rid, copy } => (of, rid, copy),
        };
        let mut packet = match Arc::try_unwrap(of) {
            // The last copy reuses the packet itself.
            Ok(SharedPacket(packet)) => packet,
            Err(of) => self.pool.copy(&of.0, self.code()),
        };
        packet.ctx.copy = copy;
        let field = self.program.intrinsic.egress_rid;
        set(&mut packet.words, field, u64::from(rid));
        packet
    }

    /// Clones the packet as it was received by ingress; the clone is parsed again.
    pub(super) fn clone_ingress(&mut self, packet: &Packet, clone: CloneRequest, fx: &mut Effects) {
        let Some(session) = self.clone_session(clone.session) else {
            return;
        };
        let program = self.program;
        let Some(frame) = packet.frame.clone() else {
            return;
        };
        let mut copy = self.pool.packet(self.code(), frame);
        self.number_copy(&mut copy, packet.ctx.number);
        self.record(|| TraceEvent::Cloned {
            session: clone.session,
            as_copy: copy.ctx.copy,
        });
        let port = packet.ctx.ingress_port;
        set(&mut copy.words, program.intrinsic.ingress_port, port);
        self.parse(&mut copy, packet.ctx.now);
        self.reset_clone_metadata(clone.list, packet, &mut copy, instance::INGRESS_CLONE);
        self.send_clones(&session, copy, packet, fx);
    }

    /// Clones the packet at the end of egress. The clone is neither deparsed nor parsed.
    pub(super) fn clone_egress(&mut self, packet: &Packet, clone: CloneRequest, fx: &mut Effects) {
        let Some(session) = self.clone_session(clone.session) else {
            return;
        };
        let mut copy = self.pool.copy(packet, self.code());
        self.number_copy(&mut copy, packet.ctx.number);
        self.record(|| TraceEvent::Cloned {
            session: clone.session,
            as_copy: copy.ctx.copy,
        });
        self.reset_clone_metadata(clone.list, packet, &mut copy, instance::EGRESS_CLONE);
        self.send_clones(&session, copy, packet, fx);
    }

    /// Returns a clone session. If there is none, records this.
    pub fn clone_session(&mut self, session: u32) -> Option<CloneSession> {
        let found = self.state.pre.session(session).cloned();
        if found.is_none() {
            self.record(|| TraceEvent::NoSession { session });
        }
        found
    }

    /// Selects the packet to which the following steps belong.
    pub fn select(&mut self, packet: &Packet) {
        if let Some(recorder) = &mut self.state.recorder {
            recorder.select_packet(packet.ctx.number, packet.ctx.copy, &packet.words);
        }
    }

    /// Resets the metadata of a clone, except for the fields of the field list. Sets the instance type to `what`.
    fn reset_clone_metadata(&self, list: u32, packet: &Packet, clone: &mut Packet, what: u64) {
        let program = self.program;
        clone.ctx.clear_requests();
        clone.words[..program.layout.metadata_end].fill(0);
        self.keep(&packet.words, &mut clone.words, list);
        set(&mut clone.words, program.intrinsic.instance_type, what);
    }

    /// Sends a clone to the ports of its session. Then its original continues.
    fn send_clones(
        &mut self,
        session: &CloneSession,
        mut packet: Box<Packet>,
        original: &Packet,
        fx: &mut Effects,
    ) {
        self.select(&packet);
        if session.truncate_bytes > 0 {
            packet.ctx.truncate = u64::from(session.truncate_bytes);
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
        // BMv2 has no classes, so every clone must get a valid queue.
        let class = session.class_of_service.min(self.priority_queues - 1);
        let class = u8::try_from(class).unwrap_or(u8::MAX);
        self.replicate(&replicas, (class > 0).then_some(class), packet, fx);
        self.select(original);
    }
}

/// Returns a priority if there is a queue for it, of this number of queues.
#[inline]
pub(super) fn valid_priority(priority: u64, queues: u32) -> Option<u8> {
    let is_valid = priority < u64::from(queues);
    is_valid.then(|| u8::try_from(priority).unwrap_or(u8::MAX))
}
