//! Processing to completion: packets for ports without queues pass egress directly after ingress.
//!
//! Such a packet needs no queue entry, and its copies are one after the other in the same memory, where only what egress has
//! changed is restored. The effects are those of a queue that is served at once: egress passes happen in the order in which
//! the packets would be enqueued.

use super::copies::{valid_priority, MAX_ENQUEUED};
use super::egress::egress_values;
use super::pool::Code;
use super::{Processor, Switch};
use crate::effects::{get, set, Effects, Packet, QueueState};
use crate::exec::deparse::Deparsed;
use crate::exec::run::NOT_TRUNCATED;
use crate::jit::V1model;
use crate::pre::Replica;

/// The ports without queues, whose packets pass egress directly.
#[derive(Clone, Debug, Default)]
pub(super) struct DirectPorts {
    /// Whether any port is direct.
    any: bool,
    /// The ports with queues up to [`MAX_PORT`]: one bit per port number.
    queued: Vec<u64>,
}

/// Maximum number of a direct port. Packets for ports beyond it are enqueued.
const MAX_PORT: u32 = 0xffff;

/// Maximum number of recirculations of a packet without a queue entry. One that recirculates more often lets others pass.
const MAX_DIRECT_RECIRCULATIONS: u32 = 64;

impl DirectPorts {
    #[inline]
    pub(super) fn contains(&self, port: u32) -> bool {
        let word = self.queued.get(port as usize / 64).copied().unwrap_or(0);
        self.any && port <= MAX_PORT && word >> (port % 64) & 1 == 0
    }
}

impl Switch {
    /// Sets the ports that have queues. All other ports become direct: the caller would take each packet from their
    /// queues at once, so packets for them pass egress during [`Switch::ingress`], with the state of an empty queue.
    /// Clones, recirculated copies of multicast packets, and packets of programs for Tofino are enqueued nevertheless. Until
    /// the first call no port is direct.
    pub fn set_queued_ports(&mut self, ports: impl IntoIterator<Item = u32>) {
        let DirectPorts { any, queued } = &mut self.direct;
        *any = true;
        queued.fill(0);
        for port in ports.into_iter().filter(|port| *port <= MAX_PORT) {
            let at = port as usize / 64;
            if queued.len() <= at {
                queued.resize(at + 1, 0);
            }
            queued[at] |= 1 << (port % 64);
        }
    }
}

impl<'a> Processor<'a> {
    /// Returns whether the current packet passes egress at once if it is sent to these ports. Packets that it causes are
    /// enqueued afterwards.
    fn take_direct(&mut self, ports: impl IntoIterator<Item = u32>, fx: &Effects) -> bool {
        let Some(direct) = self.direct.take() else {
            return false;
        };
        // A clone of the packet that is enqueued already must pass egress first.
        fx.enqueued.is_empty() && ports.into_iter().all(|port| direct.contains(port))
    }

    /// Sends a packet to a port after ingress: to egress, or to its queue.
    pub(super) fn forward(&mut self, port: u32, mut packet: Box<Packet>, fx: &mut Effects) {
        let direct = self.direct;
        if !self.take_direct([port], fx) {
            return self.enqueue(port, None, packet, fx);
        }
        let now = packet.ctx.now;
        let rid = get(&packet.words, self.program.intrinsic.egress_rid);
        let priority = self.queue_priority(port, None, (rid, packet.ctx.copy), &packet, fx);
        let recirculated = priority.and_then(|priority| {
            let to = (port, priority);
            self.run_egress(&mut packet, to, now, empty_queue(now), true, fx)
        });
        self.pool.recycle(packet);
        self.recirculate(recirculated, direct, now, fx);
    }

    /// Runs ingress on a recirculated packet, if there is one. It passes egress at once again, unless it has recirculated often
    /// or other packets wait. `direct`: the direct ports; `None` if it must be enqueued.
    #[inline]
    pub(super) fn recirculate(
        &mut self,
        packet: Option<Box<Packet>>,
        direct: Option<&'a DirectPorts>,
        now: u64,
        fx: &mut Effects,
    ) {
        let Some(packet) = packet else { return };
        self.recirculated += 1;
        if self.recirculated <= MAX_DIRECT_RECIRCULATIONS {
            self.direct = direct;
        }
        self.ingress(packet, now, fx);
    }

    /// Sends one copy of a packet to each replica by direct egress passes. Returns false, without effect, if a copy must
    /// be enqueued.
    pub(super) fn replicate_directly(
        &mut self,
        replicas: &[Replica],
        packet: &mut Packet,
        fx: &mut Effects,
    ) -> bool {
        let ports = replicas.iter().map(|replica| replica.port);
        // In traces, all copies are made before the first egress pass. Too many copies are refused one by one when they are
        // enqueued.
        let must_enqueue = self.state.recorder.is_some() || replicas.len() > MAX_ENQUEUED;
        if must_enqueue || !self.take_direct(ports, fx) {
            return false;
        }
        let Some((last, others)) = replicas.split_last() else {
            return true;
        };
        if !others.is_empty() {
            let now = packet.ctx.now;
            let backup = self.pool.backup(packet, self.code());
            let mut left = others;
            while let Some((replica, after)) = left.split_first() {
                let code = self.code_of_copies(packet).zip(self.priority_of(packet));
                match code.filter(|_| fx.enqueued.len() < MAX_ENQUEUED) {
                    Some((code, priority)) => match self.send_copies(
                        code,
                        || {
                            let (replica, after) = left.split_first()?;
                            left = after;
                            Some((replica.port, replica.rid, priority))
                        },
                        packet,
                        &backup,
                        fx,
                    ) {
                        Some((port, headers, out)) => {
                            let recirculated =
                                self.end_egress(packet, port, headers, false, out, fx);
                            self.recirculate(recirculated, None, now, fx);
                        }
                        None => break,
                    },
                    None => {
                        self.send_replica(replica, packet, false, fx);
                        left = after;
                    }
                }
                restore(self.code(), &backup, &mut packet.words);
                packet.ctx.copy_from(&backup.ctx);
            }
            self.pool.recycle(backup);
        }
        self.send_replica(last, packet, true, fx);
        true
    }

    /// Returns machine code, if the copies of a packet are sent after egress unless they request more there.
    pub(super) fn code_of_copies(&self, packet: &Packet) -> Option<V1model> {
        let is_plain = packet.ctx.truncate == NOT_TRUNCATED
            && packet.ctx.recirculate == 0
            && self.program.deparser.code.is_none();
        self.v1model().filter(|_| is_plain)
    }

    /// Returns the priority of a packet; `None` if there is no queue for it.
    fn priority_of(&self, packet: &Packet) -> Option<u8> {
        let priority = get(&packet.words, self.program.intrinsic.priority);
        valid_priority(priority, self.priority_queues)
    }

    /// Sends copies of a packet on one machine, and restores the packet after each. `next` returns port, replication id and
    /// priority of the next copy, or `None` after the last one. If a copy requests more in egress than to be sent, no other
    /// follows; returns its port, where its headers are, and the buffer for its frame, as [`Processor::end_egress`] receives
    /// them.
    #[inline(always)]
    pub(super) fn send_copies(
        &mut self,
        code: V1model,
        mut next: impl FnMut() -> Option<(u32, u16, u8)>,
        packet: &mut Packet,
        backup: &Packet,
        fx: &mut Effects,
    ) -> Option<(u32, Option<Deparsed>, Vec<u8>)> {
        let (program, compiled) = self.code();
        let drop_port = self.drop_port;
        let now = packet.ctx.now;
        let length = packet.ctx.length;
        let mut run = code.start(self.machine_parts(), packet);
        while let Some((port, rid, priority)) = next() {
            set(run.words(), program.intrinsic.egress_rid, rid.into());
            let to = (port, priority);
            let values = egress_values(to, length as u64, drop_port, now, empty_queue(now));
            let mut out = fx.spare.pop().unwrap_or_default();
            match run.egress(&values, false, &mut out) {
                Some(headers) if !run.has_requests() => {
                    fx.send(port, run.copy(headers, out));
                }
                headers => return Some((port, headers, out)),
            }
            restore((program, compiled), backup, run.words());
            run.restart(length);
        }
        None
    }

    /// Sends a copy of a packet to a replica. Words that are not restored and, after the last copy, the frame have any
    /// contents afterwards.
    fn send_replica(
        &mut self,
        replica: &Replica,
        packet: &mut Packet,
        is_last: bool,
        fx: &mut Effects,
    ) {
        let now = packet.ctx.now;
        let (port, rid) = (replica.port, u64::from(replica.rid));
        let Some(priority) = self.queue_priority(port, None, (rid, 0), packet, fx) else {
            return;
        };
        set(&mut packet.words, self.program.intrinsic.egress_rid, rid);
        let to = (port, priority);
        let recirculated = self.run_egress(packet, to, now, empty_queue(now), is_last, fx);
        self.recirculate(recirculated, None, now, fx);
    }
}

/// Restores the words that egress may have changed.
#[inline]
pub(super) fn restore((program, compiled): Code, backup: &Packet, words: &mut [u64]) {
    let layout = &program.layout;
    layout.copy_restored(compiled, &backup.words, words);
    debug_assert!(
        layout.are_live_words_equal(&backup.words, words),
        "egress has written words that are not restored"
    );
}

/// The state of a queue that a packet enters and leaves at the same time.
#[inline]
pub(super) fn empty_queue(now: u64) -> QueueState {
    QueueState {
        enq_timestamp: now,
        ..QueueState::default()
    }
}
