//! Fast data plane: a Rust implementation of the compiled pipelines for the most frequent packets.
//!
//! The fast data plane works beside the pipelines of a switch, and handles the unicast and group packets of reliable
//! connections. It merges ACKs and NAKs by the rules of [`alfirk_aggregation`], with which the pipelines are compared
//! in tests. All other packets go through the pipelines: ARP, registration, datagrams, packets from and to the
//! controller, and packets to be dropped or rejected. So do packets of groups with other strategies than `tree` and
//! `neutral`, or with VLAN tags. The table entries are those of the controller ([`tables`]).
//!
//! The state of a group is either in the registers or in the fast data plane, never in both ([`registers`]). Before the
//! pipelines run, the state is written back to the registers. With the next packet of the group it is read again. Fast
//! data plane and pipelines differ only in computing time, and in the counters of tables and drops. The fast data plane
//! keeps only the drop counters that reports show.

mod fast_group;
mod registers;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_aggregation::{
    self as aggregation, classify, AckClass, CnpDrop, Copies, Feedback, Group, Notice, SentPacket,
};
use alfirk_contract::{self as contract, Drop};
use alfirk_ctrl::tables::{Program, Route};
use alfirk_p4rt::Server;
use alfirk_p4runtime::p4::v1::{
    entity, packet_replication_engine_entry as engine, update, Entity, MulticastGroupEntry,
    PacketReplicationEngineEntry, ReadRequest, TableEntry, Update, WriteRequest,
};
use alfirk_packet_io::frame::SharedBytes;
use alfirk_roce::host::{Packet, RcFrame};
use alfirk_roce::rc::RcHeaders;
use alfirk_roce::steady::StateVisitor;
use alfirk_roce::wire::{aeth, bth, ethernet, ipv4, MacAddr, NakCode, Opcode, Psn, Syndrome};

use fast_group::FastGroup;
use tables::Tables;

use crate::engine::FlowPosition;

/// Number of bytes after the BTH of a CNP (IBTA vol. 1, annex A17.9.3).
const CNP_PAYLOAD: usize = 16;

/// Fast data plane of one switch.
pub(super) struct FastPlane {
    program: Program,
    tables: Tables,
    /// Groups whose state is in the fast data plane instead of the registers, by group index.
    groups: BTreeMap<u16, FastGroup>,
    /// Indexes of the groups that only the pipelines can handle.
    pipeline_only: BTreeSet<u16>,
    /// Number of packets that the fast data plane has dropped since it last updated the pipelines' counters, by reason.
    /// Holds only reasons that reports show.
    drops: BTreeMap<Drop, u64>,
    /// Number of data flows so far, by which each new flow gets its number.
    flows: u64,
    /// Number of the newest flow at the last write of the controller. Queued packets of this flow and older flows may
    /// be rewritten differently from earlier packets of the same flow.
    past_flows: u64,
}

/// A packet that the fast data plane has queued at an output port.
pub(super) struct QueuedPacket {
    pub(super) port: u32,
    /// Length in bytes that counts towards the limit of the queue, as in the pipelines.
    pub(super) len: usize,
    frame: Option<Arc<RcFrame>>,
    egress: Egress,
}

impl QueuedPacket {
    /// Whether the packet sends no frame, and only updates the retransmission filter in the egress.
    pub(super) fn is_filter_update(&self) -> bool {
        self.frame.is_none()
    }

    /// Visits the state of the packet. `address`: the IPv4 address of a group, by its index.
    pub(super) fn visit_state(
        &mut self,
        visitor: &mut StateVisitor<'_>,
        address: impl Fn(u16) -> Option<Ipv4Addr>,
    ) {
        let QueuedPacket {
            port,
            len,
            frame,
            egress,
        } = self;
        visitor.same((*port).into());
        visitor.same(*len as u64);
        visitor.same(frame.is_some().into());
        if let Some(frame) = frame {
            visit_frame(frame, visitor);
        }
        match egress {
            Egress::Unchanged => visitor.same(0),
            Egress::Bridge { group } => visitor.same(1 << 16 | u64::from(*group)),
            Egress::Filter { group, queued } => {
                visitor.same(2 << 16 | u64::from(*group));
                visitor.enter(address(*group));
                queued.visit_state(visitor);
            }
        }
    }
}

/// What the egress does with a queued packet.
enum Egress {
    /// Sends the packet as it is.
    Unchanged,
    /// Rewrites the headers of a packet of a multicast group for its receiver.
    Bridge { group: u16 },
    /// Sends the packet if the group's retransmission filter accepts it.
    Filter {
        group: u16,
        queued: aggregation::QueuedPacket,
    },
}

/// A packet that has passed the retransmission filter, and that must still be rewritten for its receiver.
pub(super) struct FilteredPacket {
    port: u32,
    frame: Arc<RcFrame>,
    group: Option<u16>,
}

impl FilteredPacket {
    /// Length of the frame in bytes and its position in its flow. They are enough to send the frame as a follower: a frame
    /// of a train of alike frames, which has no event of its own in the simulation. `None` for a frame that is not part of a flow.
    pub(super) fn follower(&self) -> Option<(usize, FlowPosition)> {
        Some((self.frame.frame_len(), flow_position(&self.frame)?))
    }
}

/// Error for a packet that the compiled pipelines must handle; returns the packet.
pub(super) struct NeedsPipeline(pub(super) Packet);

impl FastPlane {
    /// Whether the fast data plane processes packets as the pipelines of the program do. It has the optional parts of
    /// `p4src/v1model`, so a program of the core profile runs in the pipelines alone.
    pub(super) fn supports(program: &Program) -> bool {
        program.has_optional_parts()
    }

    /// Creates the fast data plane of a program without table entries. `flows`: number of flows that were numbered so
    /// far.
    pub(super) fn new(program: Program, flows: u64) -> FastPlane {
        FastPlane {
            program,
            tables: Tables::default(),
            groups: BTreeMap::new(),
            pipeline_only: BTreeSet::new(),
            drops: BTreeMap::new(),
            flows,
            past_flows: flows,
        }
    }

    /// Number of data flows that were numbered so far.
    pub(super) fn flows(&self) -> u64 {
        self.flows
    }

    /// Writes the state of all groups and the drop counters back to the registers, because the pipelines are about to
    /// run.
    pub(super) fn write_back(&mut self, server: &mut Server) {
        for (index, group) in std::mem::take(&mut self.groups) {
            registers::store(
                &mut server.switch_mut(),
                self.program.sizes.paths,
                index,
                group,
            );
        }
        for (reason, count) in std::mem::take(&mut self.drops) {
            registers::count_drops(&mut server.switch_mut(), reason, count);
        }
    }

    /// Applies a write request that the switch has accepted.
    pub(super) fn apply_write(&mut self, request: &WriteRequest) {
        self.pipeline_only.clear();
        self.past_flows = self.flows;
        for update in &request.updates {
            self.tables.apply(&self.program, update);
        }
    }

    /// Reads all table entries again, after a write request of which the switch has accepted an unknown part.
    pub(super) fn read_all(&mut self, server: &Server, now: u64) {
        let pattern = |entity| Entity {
            entity: Some(entity),
        };
        let everything = ReadRequest {
            device_id: server.switch().options().device_id,
            entities: vec![
                pattern(entity::Entity::TableEntry(TableEntry::default())),
                pattern(entity::Entity::PacketReplicationEngineEntry(
                    PacketReplicationEngineEntry {
                        r#type: Some(engine::Type::MulticastGroupEntry(
                            MulticastGroupEntry::default(),
                        )),
                    },
                )),
            ],
            ..ReadRequest::default()
        };
        self.tables = Tables::default();
        self.pipeline_only.clear();
        self.past_flows = self.flows;
        for entity in server.read(&everything, now).unwrap_or_default().entities {
            let update = Update {
                r#type: update::Type::Insert.into(),
                entity: Some(entity),
            };
            self.tables.apply(&self.program, &update);
        }
    }

    /// Visits the state of all groups, and the counters. The tables change only by writes of the controller.
    pub(super) fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        let FastPlane {
            program: _,
            tables: _,
            groups,
            pipeline_only,
            drops,
            flows,
            past_flows,
        } = self;
        visitor.same(groups.len() as u64);
        for (index, group) in groups {
            visitor.same((*index).into());
            group.visit_state(visitor);
        }
        visitor.same(pipeline_only.len() as u64);
        visitor.same(drops.len() as u64);
        visitor.counts(drops.values_mut());
        visitor.same(*flows);
        visitor.same(*past_flows);
    }

    /// IPv4 address of the group with this index, if its state is in the fast data plane.
    pub(super) fn address(&self, group: u16) -> Option<Ipv4Addr> {
        self.groups.get(&group).map(FastGroup::address)
    }

    /// IPv4 addresses of all groups.
    pub(super) fn groups(&self) -> Vec<Ipv4Addr> {
        self.tables.group_addresses().collect()
    }

    /// Returns the state of a group, from the fast data plane or from the registers. `None` if there is no such group,
    /// if its entries are incomplete, or if it has strategies other than `tree` and `neutral`.
    pub(super) fn read_group(&self, server: &Server, mcst_id: Ipv4Addr, now: u64) -> Option<Group> {
        let index = self.tables.group(mcst_id)?;
        if let Some(fast_group) = self.groups.get(&index) {
            return Some(fast_group.model.clone());
        }
        let entries = self.tables.group_entries(index)?;
        let paths = self.program.sizes.paths;
        let fast_group = registers::load(server.switch(), paths, index, entries, now / 1_000);
        Some(fast_group.into_parts().0)
    }

    /// Processes a packet that arrives at `port`, and adds the copies to be queued to `waiting` in order. `send_follower` tries
    /// to send a copy at once as a follower (a frame without visible effect), given its port, length and position in
    /// the flow. It is called for each copy that certainly passes the egress. It returns whether it has sent the copy,
    /// which is then not queued.
    pub(super) fn ingress(
        &mut self,
        server: &mut Server,
        port: u32,
        packet: Packet,
        now: u64,
        send_follower: impl FnMut(u32, usize, FlowPosition) -> bool,
        waiting: &mut Vec<QueuedPacket>,
    ) -> Result<(), NeedsPipeline> {
        let frame = match packet {
            Packet::Rc(frame) => frame,
            // A host that builds frames itself.
            Packet::Bytes(bytes) => match RcFrame::read(&bytes.bytes()) {
                Some(frame) => Arc::new(frame),
                None => return Err(NeedsPipeline(Packet::Bytes(bytes))),
            },
        };
        let owner = self.tables.owner(port);
        if owner.is_some_and(|owner| owner != frame.outer.ipv4.source) {
            return needs_pipeline(frame);
        }
        let to = frame.outer.ipv4.destination;
        match self.tables.group(to) {
            Some(index) if self.load_group(server, index, now) => {
                self.group_ingress(port, index, frame, now, send_follower, waiting)
            }
            Some(_) => needs_pipeline(frame),
            None if to.is_multicast() => needs_pipeline(frame),
            None => self.unicast(frame, waiting),
        }
    }

    /// Routes a unicast packet and adds it to `waiting`.
    fn unicast(
        &self,
        mut frame: Arc<RcFrame>,
        waiting: &mut Vec<QueuedPacket>,
    ) -> Result<(), NeedsPipeline> {
        let outer = &mut Arc::make_mut(&mut frame).outer;
        let route = match outer.ipv4.ttl {
            0 | 1 => None,
            _ => self.tables.route(outer.ipv4.destination),
        };
        let port = match route {
            Some(Route::ToHost { port, mac }) => {
                outer.ethernet.source = virtual_mac();
                outer.ethernet.destination = mac;
                Some(port)
            }
            Some(Route::ToSwitch { port }) => Some(port),
            Some(Route::Ecmp { group, size, seed }) => {
                let index = next_hop_hash(seed, outer) % size.max(1);
                self.tables.next_hop(group, index)
            }
            Some(Route::NoRoute) | None => None,
        };
        let Some(port) = port else {
            return needs_pipeline(frame);
        };
        outer.ipv4.ttl -= 1;
        waiting.push(QueuedPacket {
            port,
            len: frame.frame_len(),
            frame: Some(frame),
            egress: Egress::Unchanged,
        });
        Ok(())
    }

    /// Makes the state of a group available in the fast data plane: reads it from the registers unless it is there
    /// already. Returns false if only the pipelines can handle the group.
    fn load_group(&mut self, server: &Server, index: u16, now: u64) -> bool {
        if self.groups.contains_key(&index) {
            return true;
        }
        if self.pipeline_only.contains(&index) {
            return false;
        }
        let entries = self.tables.group_entries(index);
        let entries = entries.filter(|_| !registers::has_tags(server.switch(), index));
        let Some(entries) = entries else {
            self.pipeline_only.insert(index);
            return false;
        };
        let paths = self.program.sizes.paths;
        let loaded = registers::load(server.switch(), paths, index, entries, now / 1_000);
        self.groups.insert(index, loaded);
        true
    }

    /// Processes a packet of a multicast group, whose state is in the fast data plane.
    fn group_ingress(
        &mut self,
        port: u32,
        index: u16,
        mut frame: Arc<RcFrame>,
        now: u64,
        mut send_follower: impl FnMut(u32, usize, FlowPosition) -> bool,
        waiting: &mut Vec<QueuedPacket>,
    ) -> Result<(), NeedsPipeline> {
        let Some(group) = self.groups.get_mut(&index) else {
            return needs_pipeline(frame);
        };
        let kind = packet_kind(&frame);
        let Some(kind) = kind.filter(|kind| group.admits(port, &frame, *kind)) else {
            return needs_pipeline(frame);
        };
        let entered = Arc::make_mut(&mut frame);
        group.enter(port, entered);
        entered.place = None;
        if !matches!(kind, Kind::Data) {
            feedback_frame(entered, contract::FEEDBACK_TTL);
        }
        if matches!(kind, Kind::Data) {
            group.set_flow_position(port, &mut frame, &mut self.flows);
        }

        let len = frame.frame_len();
        let psn = frame.headers.bth.psn.get();
        let micros = now / 1_000;
        let (queued, copies) = match kind {
            Kind::Data => group.counted().data_and_copies(port, psn, micros),
            Kind::Feedback(feedback) => (group.counted().feedback(port, feedback, micros), None),
            Kind::Notice(Notice::Cnp) => {
                let queued = group.model.cnp(port, micros);
                if let Err(Some(reason)) = queued {
                    *self.drops.entry(cnp_drop(reason)).or_default() += 1;
                }
                (queued.into_iter().collect(), None)
            }
            Kind::Notice(notice) => (group.model.notice(port, notice, micros), None),
        };
        let place = flow_position(&frame)
            .filter(|place| !place.requests_reply && place.flow > self.past_flows);
        let last = queued.len() + copies.as_ref().map_or(0, Copies::count);
        let copies = copies.into_iter().flat_map(Copies::queued);
        let copies = copies.filter(|copy| match (copy, place) {
            // The retransmission filter does not drop these copies.
            (
                &aggregation::QueuedPacket::Copy {
                    path,
                    is_retransmission: false,
                    ..
                },
                Some(place),
            ) => !send_follower(group.model.ports()[path], len, place),
            _ => true,
        });
        let mut frame = Some(frame);
        for (number, queued) in queued.into_iter().chain(copies).enumerate() {
            let own = |frame: &mut Option<Arc<RcFrame>>| match number + 1 == last {
                true => frame.take(),
                false => frame.clone(),
            };
            let (to, len, frame) = match &queued {
                aggregation::QueuedPacket::Copy { path, .. } => {
                    (group.model.ports()[*path], len, own(&mut frame))
                }
                aggregation::QueuedPacket::UpdateFilter { path, .. } => {
                    (group.model.ports()[*path], len, None)
                }
                aggregation::QueuedPacket::Drop => (port, len, None),
                aggregation::QueuedPacket::Transmit(SentPacket::Feedback {
                    port: to,
                    feedback,
                }) => {
                    let mut frame = own(&mut frame);
                    let mut len = len;
                    if let Some(frame) = &mut frame {
                        let frame = Arc::make_mut(frame);
                        if matches!(kind, Kind::Data) {
                            len = ack_len(len, &frame.headers);
                            make_ack(frame);
                        }
                        write_feedback(frame, *feedback);
                    }
                    (*to, len, frame)
                }
                aggregation::QueuedPacket::Transmit(SentPacket::Notice { port: to, notice }) => {
                    let mut frame = own(&mut frame);
                    if let (Some(frame), Notice::SelectiveNak { psn, reports }) =
                        (&mut frame, *notice)
                    {
                        let last = group.model.last_acked.point.psn;
                        let headers = &mut Arc::make_mut(frame).headers;
                        write_selective_nak(
                            headers,
                            psn,
                            reports,
                            group.is_to_host(*to).then_some(last),
                        );
                    }
                    (*to, len, frame)
                }
                // With the strategy `tree` there are no packets of other kinds.
                _ => continue,
            };
            waiting.push(QueuedPacket {
                port: to,
                len,
                frame,
                egress: match queued {
                    aggregation::QueuedPacket::Transmit(_) => Egress::Bridge { group: index },
                    queued => Egress::Filter {
                        group: index,
                        queued,
                    },
                },
            });
        }
        Ok(())
    }

    /// Processes a packet that leaves its queue: applies the retransmission filter. Returns the packet that is to be
    /// rewritten and sent; `None` if the filter discards it.
    pub(super) fn egress(
        &mut self,
        server: &mut Server,
        waiting: QueuedPacket,
    ) -> Option<FilteredPacket> {
        let QueuedPacket {
            port,
            frame,
            egress,
            ..
        } = waiting;
        let group = match egress {
            Egress::Unchanged => None,
            Egress::Bridge { group } => Some(group),
            Egress::Filter { group, queued } => {
                let passes = match self.groups.get_mut(&group) {
                    Some(fast_group) => fast_group.filter(queued),
                    None => registers::filter(
                        &mut server.switch_mut(),
                        self.program.sizes.paths,
                        group,
                        queued,
                    ),
                };
                if !passes {
                    if frame.is_some() {
                        *self.drops.entry(Drop::AlreadyAcked).or_default() += 1;
                    }
                    return None;
                }
                Some(group)
            }
        };
        let mut frame = frame?;
        if frame.place.is_some_and(|(flow, _)| flow <= self.past_flows) {
            Arc::make_mut(&mut frame).place = None;
        }
        Some(FilteredPacket { port, frame, group })
    }

    /// Rewrites a packet for its receiver, and sets the congestion mark if the queue is long. `depth`: number of
    /// packets that remain in the queue.
    pub(super) fn rewrite(
        &self,
        server: &mut Server,
        leaving: FilteredPacket,
        depth: u32,
    ) -> Packet {
        let FilteredPacket {
            port,
            mut frame,
            group,
        } = leaving;
        if let Some(index) = group {
            match self.groups.get(&index) {
                Some(fast_group) => fast_group.exit(port, &mut frame),
                None => {
                    let delivery = self.tables.delivery(server.switch(), index, port);
                    if let Some(delivery) = delivery {
                        delivery.apply(Arc::make_mut(&mut frame));
                    }
                }
            }
        }
        self.mark_congestion(server, port, depth, &mut frame);
        Packet::Rc(frame)
    }

    /// Sets the ECN congestion mark of a packet if `depth`, the number of packets that remain in its queue, is too
    /// large (`ecn_marking.p4`).
    fn mark_congestion(
        &self,
        server: &mut Server,
        port: u32,
        depth: u32,
        frame: &mut Arc<RcFrame>,
    ) {
        let ecn = frame.outer.ipv4.tos & ipv4::ECN_MASK;
        if ecn == contract::ECN_NOT_ECT || ecn == contract::ECN_CE {
            return;
        }
        let Some(profile) = self.tables.marking(port) else {
            return;
        };
        let marked = match depth {
            depth if depth >= profile.max => true,
            depth if depth > profile.min => {
                let dice = server.switch_mut().random(0, 0xffff) as u32;
                dice < (depth - profile.min).wrapping_mul(profile.rise)
            }
            _ => false,
        };
        if marked {
            Arc::make_mut(frame).outer.ipv4.tos |= contract::ECN_CE;
        }
    }
}

/// Position of a packet in its flow; `None` for a packet that is not part of a flow.
fn flow_position(frame: &RcFrame) -> Option<FlowPosition> {
    let (flow, number) = frame.place?;
    let requests_reply = frame.headers.bth.ack_req;
    Some(FlowPosition {
        flow,
        number,
        requests_reply,
    })
}

/// Visits the state of a frame, which may be shared.
fn visit_frame(frame: &mut Arc<RcFrame>, visitor: &mut StateVisitor<'_>) {
    match visitor.shifts() {
        true => Arc::make_mut(frame).visit_state(visitor),
        false => RcFrame::clone(frame).visit_state(visitor),
    }
}

/// Returns the error that passes a packet on to the pipelines.
fn needs_pipeline(frame: Arc<RcFrame>) -> Result<(), NeedsPipeline> {
    Err(NeedsPipeline(Packet::Rc(frame)))
}

/// Kind of a group's packet, among those that the fast data plane handles.
#[derive(Clone, Copy)]
enum Kind {
    Data,
    Feedback(Feedback),
    /// A CNP or a selective NAK. The pipelines handle a fatal NAK, because it also goes to the controller.
    Notice(Notice),
}

/// Returns the kind of a group's packet; `None` if the pipelines must handle it.
fn packet_kind(frame: &RcFrame) -> Option<Kind> {
    let headers = &frame.headers;
    let opcode = headers.bth.opcode;
    let payload = frame.payload.len();
    if let Some(reth) = &headers.reth {
        if reth.rkey == contract::MR_INFO_RKEY {
            return None;
        }
    }
    match (opcode, headers.aeth) {
        (Opcode::Cnp, _) if payload == CNP_PAYLOAD => Some(Kind::Notice(Notice::Cnp)),
        (_, None) if opcode.is_send() || opcode.is_write() => Some(Kind::Data),
        (Opcode::Acknowledge, Some(aeth)) if payload == 0 => {
            match classify(headers.bth.psn.get(), aeth) {
                Some(AckClass::Feedback(feedback)) => Some(Kind::Feedback(feedback)),
                Some(AckClass::Notice(notice @ Notice::SelectiveNak { .. })) => {
                    Some(Kind::Notice(notice))
                }
                Some(AckClass::Notice(_)) | None => None,
            }
        }
        _ => None,
    }
}

fn virtual_mac() -> MacAddr {
    let [_, _, mac @ ..] = contract::VIRTUAL_MAC.to_be_bytes();
    MacAddr(mac)
}

/// Hash of a packet's addresses, by which one of several next hops is chosen (`ipv4_routing.p4`).
fn next_hop_hash(seed: u16, outer: &alfirk_roce::host::Outer) -> u16 {
    let mut bytes = [0; 15];
    bytes[..2].copy_from_slice(&seed.to_be_bytes());
    bytes[2..6].copy_from_slice(&outer.ipv4.source.octets());
    bytes[6..10].copy_from_slice(&outer.ipv4.destination.octets());
    bytes[10] = outer.ipv4.protocol;
    bytes[11..13].copy_from_slice(&outer.udp.source_port.to_be_bytes());
    bytes[13..].copy_from_slice(&outer.udp.destination_port.to_be_bytes());
    alfirk_bmv2::crc16(&bytes)
}

/// Length in bytes that counts towards the limit of the queue, for a data packet that becomes an ACK to its sender. It
/// includes the payload, which the pipelines remove only in egress.
fn ack_len(len: usize, headers: &RcHeaders) -> usize {
    use alfirk_roce::wire::{aeth, icrc, reth};
    let reth = headers.reth.map_or(0, |_| reth::HEADER_LEN);
    len + aeth::HEADER_LEN + icrc::TRAILER_LEN - reth
}

/// Changes a data packet into an ACK to its sender, without payload (`data_to_ack.p4`).
fn make_ack(frame: &mut RcFrame) {
    frame.place = None;
    let bth = bth::Repr {
        opcode: Opcode::Acknowledge,
        solicited: false,
        pad_count: 0,
        ack_req: false,
        ..frame.headers.bth
    };
    frame.headers = RcHeaders::plain(bth);
    frame.payload = SharedBytes::default();
    feedback_frame(frame, contract::ACK_TTL);
}

/// Sets the header fields that are equal in all ACKs, NAKs and CNPs of a group (`feedback_frame.p4`).
fn feedback_frame(frame: &mut RcFrame, ttl: u8) {
    let outer = &mut frame.outer;
    outer.ethernet = ethernet::Repr {
        destination: virtual_mac(),
        source: virtual_mac(),
        ethertype: ethernet::ETHERTYPE_IPV4,
    };
    outer.ipv4 = ipv4::Repr {
        tos: 0,
        identification: 0,
        dont_fragment: true,
        ttl,
        source: outer.ipv4.destination,
        ..outer.ipv4
    };
    outer.udp.source_port = contract::FEEDBACK_UDP_SOURCE_PORT;
    let bth = &mut frame.headers.bth;
    let is_cnp = bth.opcode == Opcode::Cnp;
    *bth = bth::Repr {
        migrated: true,
        becn: is_cnp,
        ..bth::Repr::new(bth.opcode, bth.dest_qp, bth.psn)
    };
    if is_cnp {
        bth.psn = Psn::new(0);
        frame.payload = SharedBytes::copy(&[0; CNP_PAYLOAD]);
    }
}

/// Writes PSN and AETH of a selective NAK. For a NAK to a switch, `last` is `None`, and the fields hold the lost PSN
/// and the number of reports. For a NAK to a host, `last` is the host's last acknowledged PSN. The NAK's PSN is then
/// the one after `last`, so that the NAK acknowledges nothing.
fn write_selective_nak(headers: &mut RcHeaders, lost: u32, reports: u8, last: Option<u32>) {
    let syndrome = Syndrome::Nak(NakCode::Selective);
    let (psn, msn) = match last {
        Some(last) => (aggregation::Space::PSN.next(last), lost),
        None => (lost, reports.into()),
    };
    headers.bth.psn = Psn::new(psn);
    headers.aeth = Some(aeth::Repr { syndrome, msn });
}

/// Returns the drop counter for a CNP that was not forwarded for this reason.
fn cnp_drop(reason: CnpDrop) -> Drop {
    match reason {
        CnpDrop::Own => Drop::OwnCnp,
        CnpDrop::Limited => Drop::CnpLimited,
        CnpDrop::Filtered => Drop::CnpFiltered,
    }
}

/// Writes PSN and AETH of an ACK or NAK into the packet.
fn write_feedback(frame: &mut RcFrame, feedback: Feedback) {
    let (psn, aeth) = feedback.to_aeth();
    frame.headers.bth.psn = Psn::new(psn);
    frame.headers.aeth = Some(aeth);
    frame.set_lengths();
}

/// Whether a group's packet has come from another switch, which is recognised by the group's address as its source.
fn is_between_switches(frame: &RcFrame, mcst_id: Ipv4Addr) -> bool {
    frame.outer.ipv4.source == mcst_id
}
