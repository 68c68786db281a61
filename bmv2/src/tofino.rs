//! Packet processing in the Tofino Native Architecture ("P4_16 Intel Tofino Native Architecture, Public Version").
//!
//! Ingress and egress have separate headers and metadata. A parser finds intrinsic metadata in front of the packet.
//! The output of a deparser, and the header that a mirror or resubmission adds in front, are bytes for the next
//! parser.
//!
//! Differences to the chip:
//! - The depth of queues is in packets, not in cells.
//! - `ucast_egress_port` is 0x1ff until a program assigns it; a packet that has this value at the end is not sent.
//! - Metadata is initially zero, and fields are never invalid, except `mirror_type`, `resubmit_type` and `digest_type`: these equal no
//!   value until a program assigns them. A multicast group of 0 means no group, as long as there is no group 0. If there is one, the
//!   fields are 0xffff until a program assigns them, and that value means no group.

use crate::drop_reason::DropReason;
use crate::effects::{get, set, set_unassigned, Effects, Output, Packet, QueueState, Queued};
use crate::exec::deparse::emit;
use crate::exec::parse::{log, parse_with};
use crate::frame::SharedFrame;
use crate::pre::{CloneSession, Replica, Selection};
use crate::program::{Chip, Gress, Meta, Tofino};
use crate::state::State;
use crate::steps::Step;
use crate::switch::{PortMode, Processor};
use crate::trace::TraceEvent;
use alfirk_packet_io::wire::ETHERNET_FCS;

/// Value of `ucast_egress_port` by which the packet has no egress port.
const NO_PORT: u64 = 0x1ff;

/// Multicast group of a packet without one, if there is a group 0.
const NO_GROUP: u64 = 0xffff;

/// Bits of Tofino's `drop_ctl` metadata field.
mod drop {
    pub const UNICAST_MULTICAST_RESUBMIT: u64 = 1;
    pub const COPY_TO_CPU: u64 = 2;
    pub const MIRROR: u64 = 4;
}

/// Bits of Tofino's `parser_err` metadata field.
mod parser_error {
    pub const NO_MATCH: u64 = 0x0001;
    pub const PARTIAL_HEADER: u64 = 0x0002;
    pub const COUNTER_RANGE: u64 = 0x0004;
    pub const TIMEOUT: u64 = 0x0008;
}

/// Distance between the numbers of a port in two neighbouring pipes of Tofino.
pub const PORTS_PER_PIPE: u32 = 128;

/// Maximum number of resubmissions per packet, and of recirculations without a queue. The chip has no limit, but
/// processes other packets between them.
const MAX_ROUNDS: u32 = 1000;

impl Chip {
    /// Returns the length in bytes of the port or resubmission metadata, which follows the intrinsic metadata at the
    /// ingress parser.
    fn port_metadata_bytes(self) -> usize {
        match self {
            Chip::Tofino => 8,
            Chip::Tofino2 => 24,
        }
    }

    /// Returns whether a port recirculates: ports of each pipe whose packets enter ingress again.
    fn recirculates(self, port: u32) -> bool {
        let of_pipe = port % PORTS_PER_PIPE;
        match self {
            Chip::Tofino => (68..72).contains(&of_pipe),
            Chip::Tofino2 => (6..8).contains(&of_pipe),
        }
    }
}

/// Copies bytes to the start of a buffer, up to the length of the shorter one.
fn copy_start(from: &[u8], to: &mut [u8]) {
    let bytes = from.len().min(to.len());
    to[..bytes].copy_from_slice(&from[..bytes]);
}

/// Value of a multicast group's field by which the packet has no group.
fn no_group(state: &State) -> u64 {
    match state.pre.replicas(0) {
        Some(_) => NO_GROUP,
        None => 0,
    }
}

/// Length in bytes of the ingress intrinsic metadata, if a program does not declare it.
const INGRESS_METADATA_BYTES: usize = 8;

impl Processor<'_> {
    /// Processes a frame that was received on a port, in ingress up to the queues.
    pub(crate) fn tofino_in(
        &mut self,
        tofino: &Tofino,
        port: u32,
        frame: &[u8],
        now: u64,
        fx: &mut Effects,
    ) {
        if self.port_modes.get(&port) == Some(&PortMode::Disabled) {
            fx.dropped.push(DropReason::PortDisabled);
            return;
        }
        let mut front = vec![0; tofino.chip.port_metadata_bytes()];
        if let Some(metadata) = self.state.port_metadata.get(&port) {
            copy_start(metadata, &mut front);
        }
        let mut resubmitted = false;
        let mut number = None;
        for _ in 0..MAX_ROUNDS {
            match self.tofino_ingress(tofino, port, (frame, &front, resubmitted), number, now, fx) {
                Some((data, packet_number)) => {
                    front.fill(0);
                    copy_start(&data, &mut front);
                    resubmitted = true;
                    number = Some(packet_number);
                }
                None => return,
            }
        }
        fx.dropped.push(DropReason::EndlessLoop);
    }

    /// Runs one pass of ingress. If the packet is resubmitted, returns the resubmitted data, and the packet's number
    /// for traces.
    fn tofino_ingress(
        &mut self,
        tofino: &Tofino,
        port: u32,
        (frame, front, resubmitted): (&[u8], &[u8], bool),
        number: Option<u64>,
        now: u64,
        fx: &mut Effects,
    ) -> Option<(Vec<u8>, u64)> {
        let md = &tofino.ingress_metadata;
        let mut packet = self.pool.cleared(self.code());
        let words = &mut packet.words;
        set(words, md.ingress_port, u64::from(port));
        set(words, md.resubmit_flag, u64::from(resubmitted));
        set(words, md.mac_tstamp, now);
        set(words, md.global_tstamp, now);
        set(words, md.ucast_egress_port, NO_PORT);
        for kind in [md.mirror_type, md.resubmit_type, md.digest_type] {
            set_unassigned(words, kind);
        }
        let no_group = no_group(self.state);
        set(words, md.mcast_grp_a, no_group);
        set(words, md.mcast_grp_b, no_group);
        if let Some(recorder) = &mut self.state.recorder {
            packet.ctx.number = number.unwrap_or_else(|| recorder.begin(frame));
            packet.ctx.copy = match number {
                Some(number) => recorder.copy_number(number),
                None => 0,
            };
            let as_copy = packet.ctx.copy;
            if resubmitted {
                recorder.record(TraceEvent::Resubmitted { as_copy });
            }
            recorder.select_packet(packet.ctx.number, packet.ctx.copy, &packet.words);
            if !resubmitted {
                let bytes = frame.len();
                recorder.record(TraceEvent::In { port, bytes });
            }
            recorder.log(|| Step::Received {
                port: u64::from(port),
            });
        }
        let mut bytes = self.header_bytes(&packet, md.header, INGRESS_METADATA_BYTES);
        bytes.extend_from_slice(front);
        bytes.extend_from_slice(frame);
        self.pool.fill(&mut packet, &bytes);
        packet.ctx.start(frame.len(), 0, now);
        if !self.tofino_parse(&tofino.ingress, md.parser_err, &mut packet) {
            self.drop(packet, DropReason::ParserError, fx);
            return None;
        }
        if !self.tofino_gress(
            &tofino.ingress,
            "ingress",
            "ingress deparser",
            &mut packet,
            fx,
        ) {
            return None;
        }
        let drop_ctl = get(&packet.words, md.drop_ctl);
        if packet.ctx.digest != 0 {
            let list = packet.ctx.digest;
            self.log(|| Step::Learn { list });
            self.digest(&packet.words, list, fx);
        }
        if let Some(mirror) = packet.ctx.clone.filter(|_| drop_ctl & drop::MIRROR == 0) {
            let mut copy = self.front(tofino, &packet, mirror.list);
            copy.extend_from_slice(frame);
            self.mirror(tofino, &packet, mirror.session, copy, fx);
        }
        let is_dropped = drop_ctl & drop::UNICAST_MULTICAST_RESUBMIT != 0;
        if packet.ctx.resubmit != 0 && !is_dropped {
            self.log(|| Step::Resubmit);
            let data = self.front(tofino, &packet, packet.ctx.resubmit);
            let number = packet.ctx.number;
            self.pool.recycle(packet);
            return Some((data, number));
        }
        self.tofino_traffic(tofino, packet, drop_ctl, fx);
        None
    }

    /// Selects the packet's destinations after ingress: unicast, multicast, the CPU.
    fn tofino_traffic(
        &mut self,
        tofino: &Tofino,
        packet: Box<Packet>,
        drop_ctl: u64,
        fx: &mut Effects,
    ) {
        let md = &tofino.ingress_metadata;
        let of = |field: Option<Meta>| get(&packet.words, field);
        let mut replicas = Vec::new();
        if drop_ctl & drop::UNICAST_MULTICAST_RESUBMIT == 0 {
            let unicast = of(md.ucast_egress_port);
            if unicast != NO_PORT {
                replicas.push(Replica {
                    port: unicast as u32,
                    rid: 0,
                });
            }
            let no_group = no_group(self.state);
            for group in [md.mcast_grp_a, md.mcast_grp_b].map(of) {
                if group == no_group {
                    continue;
                }
                let group = group as u32;
                self.log(|| Step::Multicast);
                let packet = Selection {
                    xid: of(md.level1_exclusion_id) as u16,
                    rid: of(md.rid) as u16,
                    yid: of(md.level2_exclusion_id) as u16,
                    hash1: of(md.level1_mcast_hash) as u16,
                    hash2: of(md.level2_mcast_hash) as u16,
                    hashes_rid: tofino.chip == Chip::Tofino2,
                };
                match self.state.pre.copies_for(group, packet) {
                    Some(copies) => replicas.extend(copies),
                    None => {
                        self.log(|| Step::NoGroup(group));
                        fx.dropped.push(DropReason::NoGroup);
                    }
                }
            }
        }
        let to_cpu = of(md.copy_to_cpu) != 0 && drop_ctl & drop::COPY_TO_CPU == 0;
        let cpu_port = self.state.copy_to_cpu_port.or(self.cpu_port);
        if let Some(port) = cpu_port.filter(|_| to_cpu) {
            replicas.push(Replica { port, rid: 0 });
        }
        if replicas.is_empty() {
            self.log(|| Step::Dropped("ingress"));
            return self.drop(packet, DropReason::Ingress, fx);
        }
        let queue = of(md.qid).min(u64::from(self.priority_queues.saturating_sub(1))) as u8;
        let bypass = of(md.bypass_egress) != 0;
        let mut packet = packet;
        let bytes = self.tofino_deparse(&tofino.ingress, &mut packet);
        if let Some(reason) = packet.ctx.fault {
            return self.drop(packet, reason, fx);
        }
        let (number, now) = (packet.ctx.number, packet.ctx.now);
        let received = packet.ctx.ingress_length;
        self.pool.recycle(packet);
        if bypass {
            for replica in replicas {
                self.send(tofino, replica.port, bytes.clone(), now, fx);
            }
            return;
        }
        let frame = self.pool.frame(&bytes);
        for replica in replicas {
            self.tofino_enqueue(
                tofino,
                replica,
                queue,
                (SharedFrame::clone(&frame), received),
                (number, now),
                fx,
            );
        }
    }

    /// Enqueues a packet for a port. `received`: bytes that the packet had when it was received, before the ingress deparser.
    fn tofino_enqueue(
        &mut self,
        tofino: &Tofino,
        replica: Replica,
        queue: u8,
        (frame, received): (SharedFrame, usize),
        (number, now): (u64, u64),
        fx: &mut Effects,
    ) {
        let length = frame.len();
        let mut copy = self.pool.packet(self.code(), frame);
        copy.ctx.start(length, 0, now);
        self.log(|| Step::Replicate { port: replica.port });
        self.number_copy(&mut copy, number);
        let md = &tofino.egress_metadata;
        set(&mut copy.words, md.egress_rid, u64::from(replica.rid));
        let bytes = received + ETHERNET_FCS as usize;
        set(&mut copy.words, md.pkt_length, bytes as u64);
        self.enqueue(replica.port, Some(queue), copy, fx);
    }

    /// Enqueues a mirrored packet, with its header in front, for the ports of its session.
    fn mirror(
        &mut self,
        tofino: &Tofino,
        packet: &Packet,
        session: u32,
        mut bytes: Vec<u8>,
        fx: &mut Effects,
    ) {
        let Some(CloneSession {
            replicas,
            group,
            truncate_bytes,
            class_of_service,
        }) = self.clone_session(session)
        else {
            return;
        };
        // Each copy gets a number when it is enqueued.
        let as_copy = 0;
        self.record(|| TraceEvent::Cloned { session, as_copy });
        if truncate_bytes > 0 {
            bytes.truncate(truncate_bytes as usize);
        }
        let of_group = group.and_then(|group| self.state.pre.replicas(group));
        let mut copies = of_group.unwrap_or_default().to_vec();
        copies.extend(replicas);
        let queue = class_of_service.min(self.priority_queues.saturating_sub(1)) as u8;
        let frame = self.pool.frame(&bytes);
        let of = (packet.ctx.number, packet.ctx.now);
        for replica in copies {
            let frame = (SharedFrame::clone(&frame), bytes.len());
            self.tofino_enqueue(tofino, replica, queue, frame, of, fx);
        }
        self.select(packet);
    }

    /// Processes a packet that leaves its queue, in egress.
    pub(crate) fn tofino_egress(
        &mut self,
        tofino: &Tofino,
        queued: Queued,
        now: u64,
        queue: QueueState,
        fx: &mut Effects,
    ) {
        let md = &tofino.egress_metadata;
        let Queued {
            port,
            priority,
            packet,
            ..
        } = queued;
        let mut packet = self.take(packet);
        let Some(frame) = packet.frame.take() else {
            return self.pool.recycle(packet);
        };
        let words = &mut packet.words;
        set(words, md.egress_port, u64::from(port));
        set(words, md.enq_qdepth, u64::from(queue.enq_qdepth));
        set(words, md.deq_qdepth, u64::from(queue.deq_qdepth));
        set(words, md.enq_tstamp, queue.enq_timestamp);
        let waited = now.saturating_sub(queue.enq_timestamp);
        set(words, md.deq_timedelta, waited);
        set(words, md.egress_qid, u64::from(priority));
        set(words, md.global_tstamp, now);
        set_unassigned(words, md.mirror_type);
        if let Some(recorder) = &mut self.state.recorder {
            recorder.select_packet(packet.ctx.number, packet.ctx.copy, &packet.words);
            recorder.record(TraceEvent::Egress { port });
        }
        let mut bytes = self.header_bytes(&packet, md.header, 0);
        bytes.extend_from_slice(frame.bytes());
        self.pool.fill(&mut packet, &bytes);
        packet.ctx.start(frame.len(), 0, now);
        drop(frame);
        if !self.tofino_parse(&tofino.egress, md.parser_err, &mut packet) {
            return self.drop(packet, DropReason::ParserError, fx);
        }
        if !self.tofino_gress(&tofino.egress, "egress", "egress deparser", &mut packet, fx) {
            return;
        }
        let drop_ctl = get(&packet.words, md.drop_ctl);
        let mirror = packet.ctx.clone.filter(|_| drop_ctl & drop::MIRROR == 0);
        let bytes = self.tofino_deparse(&tofino.egress, &mut packet);
        if let Some(reason) = packet.ctx.fault {
            return self.drop(packet, reason, fx);
        }
        if let Some(mirror) = mirror {
            let mut copy = self.front(tofino, &packet, mirror.list);
            copy.extend_from_slice(&bytes);
            self.mirror(tofino, &packet, mirror.session, copy, fx);
        }
        if drop_ctl & drop::UNICAST_MULTICAST_RESUBMIT != 0 {
            self.log(|| Step::Dropped("egress"));
            return self.drop(packet, DropReason::Egress, fx);
        }
        self.pool.recycle(packet);
        self.send(tofino, port, bytes, now, fx);
    }

    /// Sends a frame to a port, or recirculates it if the port is a recirculation port or in loopback.
    fn send(&mut self, tofino: &Tofino, port: u32, frame: Vec<u8>, now: u64, fx: &mut Effects) {
        let mode = self.port_modes.get(&port).copied();
        if mode == Some(PortMode::Disabled) {
            self.record(|| TraceEvent::Dropped {
                reason: DropReason::PortDisabled.name(),
            });
            fx.dropped.push(DropReason::PortDisabled);
            return;
        }
        if mode == Some(PortMode::Loopback) || tofino.chip.recirculates(port) {
            if frame.len() > crate::switch::MAX_RECIRCULATED {
                fx.dropped.push(DropReason::TooLong);
                return;
            }
            self.recirculated += 1;
            if self.recirculated > MAX_ROUNDS {
                fx.dropped.push(DropReason::EndlessLoop);
                return;
            }
            self.log(|| Step::Recirculate);
            // It arrives as a new packet.
            self.record(|| TraceEvent::Recirculated { as_copy: 0 });
            return self.tofino_in(tofino, port, &frame, now, fx);
        }
        let bytes = frame.len();
        self.record(|| TraceEvent::Out { port, bytes });
        self.log(|| Step::Sent { bytes, port });
        let frame = frame.into();
        fx.output.push(Output { port, frame });
    }

    /// Runs a parser. Returns false when the packet must be dropped: the parser failed, and the program does not
    /// read `parser_err`.
    fn tofino_parse(&mut self, gress: &Gress, field: Option<Meta>, packet: &mut Packet) -> bool {
        let Packet {
            words,
            frame: Some(frame),
            payload,
            ctx,
        } = packet
        else {
            return false;
        };
        let (parser, program) = (&gress.parser, self.program);
        log(self.state, || Step::ParserStart);
        let tofino = self.program.tofino.as_ref();
        let is_ingress = tofino.is_some_and(|of| std::ptr::eq(gress, &raw const of.ingress));
        let block = match is_ingress {
            true => "ingress parser",
            false => "egress parser",
        };
        self.enter_block(block);
        let code = (self.compiled, parser);
        let (error, cursor) = parse_with(program, code, self.state, words, frame, ctx);
        *payload = cursor;
        if error != parser.errors.no_error {
            log(self.state, || Step::ParserError(program.error_name(error)));
        }
        log(self.state, || Step::ParserEnd);
        if let Some(recorder) = &mut self.state.recorder {
            recorder.parsed(program, words, cursor);
            recorder.leave_block(block);
        }
        let bits = match error {
            error if error == parser.errors.no_error => 0,
            error if error == parser.errors.packet_too_short => parser_error::PARTIAL_HEADER,
            error if error == parser.errors.parser_timeout => parser_error::TIMEOUT,
            error if error == parser.errors.counter_range => parser_error::COUNTER_RANGE,
            _ => parser_error::NO_MATCH,
        };
        set(words, field, bits);
        bits == 0 || field.is_some()
    }

    /// Runs the control of ingress or egress, and the code of its deparser. Returns false when the packet was dropped.
    fn tofino_gress(
        &mut self,
        gress: &Gress,
        control: &'static str,
        deparser: &'static str,
        packet: &mut Box<Packet>,
        fx: &mut Effects,
    ) -> bool {
        packet.ctx.accessed.clear();
        for (name, code) in [(control, gress.control), (deparser, gress.deparse)] {
            // `exit` ends the control, but not the deparser.
            packet.ctx.exit = false;
            if packet.ctx.fault.is_none() {
                self.run_pipeline(packet, name, code);
            }
        }
        fx.logs.append(&mut packet.ctx.logs);
        match packet.ctx.fault {
            None => true,
            Some(reason) => {
                self.record(|| TraceEvent::Dropped {
                    reason: reason.name(),
                });
                fx.dropped.push(reason);
                false
            }
        }
    }

    /// Runs the deparser, and returns the bytes of the packet that it emits.
    fn tofino_deparse(&mut self, gress: &Gress, packet: &mut Packet) -> Vec<u8> {
        let headers = self.run_deparser(&gress.deparser, packet);
        let rest = Packet::rest(&packet.frame, packet.payload);
        let mut bytes = Vec::with_capacity(headers + rest.bytes().len());
        bytes.extend_from_slice(&self.state.headers[..headers]);
        bytes.extend_from_slice(rest.bytes());
        bytes
    }

    /// Returns the bytes of a metadata header as the parser expects them. If the program does not declare the header,
    /// they are `zeros` zero bytes.
    fn header_bytes(&mut self, packet: &Packet, header: Option<u16>, zeros: usize) -> Vec<u8> {
        let Some(header) = header else {
            return vec![0; zeros];
        };
        let header = &self.program.layout.headers[usize::from(header)];
        let mut bytes = vec![0; header.bytes + crate::exec::join::SLACK];
        let length = emit(header, &packet.words, &mut bytes);
        bytes.truncate(length);
        bytes
    }

    /// Returns the header that a mirror or resubmission adds in front of a packet: the concatenated fields of a field
    /// list.
    fn front(&self, tofino: &Tofino, packet: &Packet, list: u32) -> Vec<u8> {
        let Some(front) = tofino.fronts.get(&list) else {
            return Vec::new();
        };
        let mut bytes = vec![0; front.bytes + crate::exec::join::SLACK];
        front.join.write(&packet.words, &mut bytes);
        bytes.truncate(front.bytes);
        bytes
    }
}
