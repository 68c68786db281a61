//! Fast data plane: a Rust implementation of the compiled pipelines for the most frequent packets.
//!
//! It stands beside the pipelines of a switch, and takes from them the unicast and group packets of reliable connections; the rules of
//! feedback are those of [`alfirk_aggregation`], which the pipelines are held against. Everything else goes through the pipelines: ARP,
//! registration, datagrams, what the controller sends and asks for, groups of other strategies than `tree` and `neutral` or with VLAN tags, and
//! whatever is to be dropped or refused. The tables are those that the controller writes ([`tables`]).
//!
//! A group's state is in the registers or here, never in both ([`registers`]): before the pipelines run, it goes back to the registers, and
//! with the next packet it comes here again. Nothing shows which of the two a switch has but the time that it takes, and
//! the counters of tables and drops, which the pipelines alone keep (but those that reports show).

mod group;
mod registers;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_aggregation::{
    self as aggregation, classify, AckClass, CnpDrop, Copies, Feedback, Group, Notice, Sent,
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
use alfirk_roce::wire::{aeth, bth, ethernet, ipv4, MacAddr, NakCode, Opcode, Psn, Syndrome};

use group::Native;
use tables::Tables;

use crate::engine::Place;

/// Bytes behind the BTH of a CNP (IBTA annex A17.9.3).
const CNP_PAYLOAD: usize = 16;

/// The fast plane of one switch.
pub(super) struct Plane {
    program: Program,
    tables: Tables,
    /// The groups whose state is here, by index.
    groups: BTreeMap<u16, Native>,
    /// Those that the pipelines handle.
    foreign: BTreeSet<u16>,
    /// Packets dropped by the reasons that reports show, since the counters were last brought up to date.
    drops: BTreeMap<Drop, u64>,
    /// Counts flows of data, so that no two have the same number.
    flows: u64,
    /// The last of them when the controller wrote last: what is still queued of it may leave in another way than those before it did.
    past_flows: u64,
}

/// What waits in an output queue.
pub(super) struct Waiting {
    pub(super) port: u32,
    /// Bytes in the queue, as the pipelines count them.
    pub(super) len: usize,
    frame: Option<Arc<RcFrame>>,
    then: Then,
}

impl Waiting {
    /// Whether nothing leaves when its turn comes: the egress only learns from it.
    pub(super) fn is_note(&self) -> bool {
        self.frame.is_none()
    }
}

enum Then {
    /// It leaves as it is.
    Leave,
    /// It leaves as a group's packet: through the bridge's exit.
    Exit { group: u16 },
    /// The group's rules say what becomes of it.
    Ask {
        group: u16,
        queued: aggregation::Queued,
    },
}

/// What has passed the retransmission filter, and has still to be rewritten.
pub(super) struct Leaving {
    port: u32,
    frame: Arc<RcFrame>,
    group: Option<u16>,
}

impl Leaving {
    /// Bytes of the frame, and its place in its flow.
    pub(super) fn follower(&self) -> Option<(usize, Place)> {
        Some((self.frame.frame_len(), place(&self.frame)?))
    }
}

/// The pipelines are to handle this packet.
pub(super) struct NotTaken(pub(super) Packet);

impl Plane {
    /// One for a program without entries. Flows are counted on from `flows`.
    pub(super) fn new(program: Program, flows: u64) -> Plane {
        Plane {
            program,
            tables: Tables::default(),
            groups: BTreeMap::new(),
            foreign: BTreeSet::new(),
            drops: BTreeMap::new(),
            flows,
            past_flows: flows,
        }
    }

    /// How many flows there have been.
    pub(super) fn flows(&self) -> u64 {
        self.flows
    }

    /// The pipelines are about to run: state and counters go back to them.
    pub(super) fn hand_over(&mut self, server: &mut Server) {
        for (index, group) in std::mem::take(&mut self.groups) {
            registers::store(server.switch_mut(), self.program.sizes.paths, index, group);
        }
        for (reason, count) in std::mem::take(&mut self.drops) {
            registers::count_drops(server.switch_mut(), reason, count);
        }
    }

    /// The controller has written this, and the switch has taken it.
    pub(super) fn written(&mut self, request: &WriteRequest) {
        self.foreign.clear();
        self.past_flows = self.flows;
        for update in &request.updates {
            self.tables.apply(&self.program, update);
        }
    }

    /// What of a write the switch has taken is not known: everything is read again.
    pub(super) fn reread(&mut self, server: &Server, now: u64) {
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
        self.foreign.clear();
        self.past_flows = self.flows;
        for entity in server.read(&everything, now).unwrap_or_default().entities {
            let update = Update {
                r#type: update::Type::Insert.into(),
                entity: Some(entity),
            };
            self.tables.apply(&self.program, &update);
        }
    }

    /// The addresses of all groups.
    pub(super) fn groups(&self) -> Vec<Ipv4Addr> {
        self.tables.group_addresses().collect()
    }

    /// What is kept of a group, here or in the registers; `None` if there is no such group, if its entries are not all there, or if it
    /// is one of other strategies than `tree` and `neutral`.
    pub(super) fn look(&self, server: &Server, mcst_id: Ipv4Addr, now: u64) -> Option<Group> {
        let index = self.tables.group(mcst_id)?;
        if let Some(native) = self.groups.get(&index) {
            return Some(native.model.clone());
        }
        let plan = self.tables.plan(index)?;
        let paths = self.program.sizes.paths;
        let native = registers::load(server.switch(), paths, index, plan, now / 1_000);
        Some(native.into_model())
    }

    /// A packet comes in. What is to be queued goes to `waiting`, in this order; but not copies that have left already: `goes` is
    /// asked of each that passes the egress whenever it leaves, by its port, its length and its place in its flow.
    pub(super) fn ingress(
        &mut self,
        server: &mut Server,
        port: u32,
        packet: Packet,
        now: u64,
        goes: impl FnMut(u32, usize, Place) -> bool,
        waiting: &mut Vec<Waiting>,
    ) -> Result<(), NotTaken> {
        let frame = match packet {
            Packet::Rc(frame) => frame,
            // From a host that makes its frames by itself.
            Packet::Bytes(bytes) => match RcFrame::read(&bytes.bytes()) {
                Some(frame) => Arc::new(frame),
                None => return Err(NotTaken(Packet::Bytes(bytes))),
            },
        };
        let owner = self.tables.owner(port);
        if owner.is_some_and(|owner| owner != frame.outer.ipv4.source) {
            return not_taken(frame);
        }
        let to = frame.outer.ipv4.destination;
        match self.tables.group(to) {
            Some(index) if self.has_group(server, index, now) => {
                self.group_ingress(port, index, frame, now, goes, waiting)
            }
            Some(_) => not_taken(frame),
            None if to.is_multicast() => not_taken(frame),
            None => self.unicast(frame, waiting),
        }
    }

    fn unicast(&self, mut frame: Arc<RcFrame>, waiting: &mut Vec<Waiting>) -> Result<(), NotTaken> {
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
                let index = hash(seed, outer) % size.max(1);
                self.tables.next_hop(group, index)
            }
            Some(Route::NoRoute) | None => None,
        };
        let Some(port) = port else {
            return not_taken(frame);
        };
        outer.ipv4.ttl -= 1;
        waiting.push(Waiting {
            port,
            len: frame.frame_len(),
            frame: Some(frame),
            then: Then::Leave,
        });
        Ok(())
    }

    /// Whether the state of a group is here, or can come here from the registers.
    fn has_group(&mut self, server: &Server, index: u16, now: u64) -> bool {
        if self.groups.contains_key(&index) {
            return true;
        }
        if self.foreign.contains(&index) {
            return false;
        }
        let plan = self.tables.plan(index);
        let plan = plan.filter(|_| !registers::has_tags(server.switch(), index));
        let Some(plan) = plan else {
            self.foreign.insert(index);
            return false;
        };
        let paths = self.program.sizes.paths;
        let loaded = registers::load(server.switch(), paths, index, plan, now / 1_000);
        self.groups.insert(index, loaded);
        true
    }

    fn group_ingress(
        &mut self,
        port: u32,
        index: u16,
        mut frame: Arc<RcFrame>,
        now: u64,
        mut goes: impl FnMut(u32, usize, Place) -> bool,
        waiting: &mut Vec<Waiting>,
    ) -> Result<(), NotTaken> {
        let Some(group) = self.groups.get_mut(&index) else {
            return not_taken(frame);
        };
        let kind = kind(&frame);
        let Some(kind) = kind.filter(|kind| group.admits(port, &frame, *kind)) else {
            return not_taken(frame);
        };
        let entered = Arc::make_mut(&mut frame);
        group.enter(port, entered);
        entered.place = None;
        if !matches!(kind, Kind::Data) {
            feedback_frame(entered, contract::FEEDBACK_TTL);
        }
        if matches!(kind, Kind::Data) {
            group.place(port, &mut frame, &mut self.flows);
        }

        let len = frame.frame_len();
        let psn = frame.headers.bth.psn.get();
        let micros = now / 1_000;
        let (queued, copies) = match kind {
            Kind::Data => group.model.data_and_copies(port, psn, micros),
            Kind::Feedback(feedback) => (group.model.feedback(port, feedback, micros), None),
            Kind::Notice(Notice::Cnp) => {
                let queued = group.model.cnp(port, micros);
                if let Err(Some(reason)) = queued {
                    *self.drops.entry(cnp_drop(reason)).or_default() += 1;
                }
                (queued.into_iter().collect(), None)
            }
            Kind::Notice(notice) => (group.model.notice(port, notice, micros), None),
        };
        let place = place(&frame).filter(|place| !place.asks && place.flow > self.past_flows);
        let last = queued.len() + copies.as_ref().map_or(0, Copies::count);
        let copies = copies.into_iter().flat_map(Copies::queued);
        let copies = copies.filter(|copy| match (copy, place) {
            // The retransmission filter lets these pass.
            (
                &aggregation::Queued::Copy {
                    path,
                    is_retransmission: false,
                    ..
                },
                Some(place),
            ) => !goes(group.model.ports()[path], len, place),
            _ => true,
        });
        let mut frame = Some(frame);
        for (number, queued) in queued.into_iter().chain(copies).enumerate() {
            let own = |frame: &mut Option<Arc<RcFrame>>| match number + 1 == last {
                true => frame.take(),
                false => frame.clone(),
            };
            let (to, len, frame) = match &queued {
                aggregation::Queued::Copy { path, .. } => {
                    (group.model.ports()[*path], len, own(&mut frame))
                }
                aggregation::Queued::UpdateFilter { path, .. } => {
                    (group.model.ports()[*path], len, None)
                }
                aggregation::Queued::Drop => (port, len, None),
                aggregation::Queued::Transmit(Sent::Feedback { port: to, feedback }) => {
                    let mut frame = own(&mut frame);
                    let mut len = len;
                    if let Some(frame) = &mut frame {
                        let frame = Arc::make_mut(frame);
                        if matches!(kind, Kind::Data) {
                            len = answered_len(len, &frame.headers);
                            make_answer(frame);
                        }
                        say(frame, *feedback);
                    }
                    (*to, len, frame)
                }
                aggregation::Queued::Transmit(Sent::Notice { port: to, notice }) => {
                    let mut frame = own(&mut frame);
                    if let (Some(frame), Notice::SelectiveNak { psn, reports }) =
                        (&mut frame, *notice)
                    {
                        let last = group.model.last_acked.point.psn;
                        let headers = &mut Arc::make_mut(frame).headers;
                        say_lost(headers, psn, reports, group.is_to_host(*to).then_some(last));
                    }
                    (*to, len, frame)
                }
                // With a tree nothing else comes of these packets.
                _ => continue,
            };
            waiting.push(Waiting {
                port: to,
                len,
                frame,
                then: match queued {
                    aggregation::Queued::Transmit(_) => Then::Exit { group: index },
                    queued => Then::Ask {
                        group: index,
                        queued,
                    },
                },
            });
        }
        Ok(())
    }

    /// A packet leaves its queue. Gives what goes on the link, if anything does.
    pub(super) fn egress(&mut self, server: &mut Server, waiting: Waiting) -> Option<Leaving> {
        let Waiting {
            port, frame, then, ..
        } = waiting;
        let group = match then {
            Then::Leave => None,
            Then::Exit { group } => Some(group),
            Then::Ask { group, queued } => {
                let passes = match self.groups.get_mut(&group) {
                    Some(native) => native.filter(queued),
                    None => registers::filter(
                        server.switch_mut(),
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
        Some(Leaving { port, frame, group })
    }

    /// The frame as it leaves; `depth` is the number of packets that remain in its queue.
    pub(super) fn rewrite(&self, server: &mut Server, leaving: Leaving, depth: u32) -> Packet {
        let Leaving {
            port,
            mut frame,
            group,
        } = leaving;
        if let Some(index) = group {
            match self.groups.get(&index) {
                Some(native) => native.exit(port, &mut frame),
                None => {
                    let delivery = self.tables.delivery(server.switch(), index, port);
                    if let Some(delivery) = delivery {
                        delivery.apply(Arc::make_mut(&mut frame));
                    }
                }
            }
        }
        self.mark(server, port, depth, &mut frame);
        Packet::Rc(frame)
    }

    /// Marks a packet that has waited behind too many (`ecn_marking.p4`).
    fn mark(&self, server: &mut Server, port: u32, depth: u32, frame: &mut Arc<RcFrame>) {
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

/// Where a packet is in its flow.
fn place(frame: &RcFrame) -> Option<Place> {
    let (flow, number) = frame.place?;
    let asks = frame.headers.bth.ack_req;
    Some(Place { flow, number, asks })
}

fn not_taken(frame: Arc<RcFrame>) -> Result<(), NotTaken> {
    Err(NotTaken(Packet::Rc(frame)))
}

/// What a group's packet is; `None` for what the pipelines are to see.
#[derive(Clone, Copy)]
enum Kind {
    Data,
    Feedback(Feedback),
    /// None that goes to the controller.
    Notice(Notice),
}

fn kind(frame: &RcFrame) -> Option<Kind> {
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

/// The number by which one of several ways is chosen (`ipv4_routing.p4`).
fn hash(seed: u16, outer: &alfirk_roce::host::Outer) -> u16 {
    let mut bytes = [0; 15];
    bytes[..2].copy_from_slice(&seed.to_be_bytes());
    bytes[2..6].copy_from_slice(&outer.ipv4.source.octets());
    bytes[6..10].copy_from_slice(&outer.ipv4.destination.octets());
    bytes[10] = outer.ipv4.protocol;
    bytes[11..13].copy_from_slice(&outer.udp.source_port.to_be_bytes());
    bytes[13..].copy_from_slice(&outer.udp.destination_port.to_be_bytes());
    alfirk_bmv2::crc16(&bytes)
}

/// How long the pipelines take data to be that has become its answer: its payload is cut off behind the queue only.
fn answered_len(len: usize, headers: &RcHeaders) -> usize {
    use alfirk_roce::wire::{aeth, icrc, reth};
    let reth = headers.reth.map_or(0, |_| reth::HEADER_LEN);
    len + aeth::HEADER_LEN + icrc::TRAILER_LEN - reth
}

/// Data becomes an empty answer to its sender (`data_to_ack.p4`).
fn make_answer(frame: &mut RcFrame) {
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

/// The fields that all feedback of a group has alike (`feedback_frame.p4`).
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

/// A selective NAK, as it leaves to a switch; to a host, to which `last` was last acknowledged, so that it acknowledges nothing.
fn say_lost(headers: &mut RcHeaders, lost: u32, reports: u8, last: Option<u32>) {
    let syndrome = Syndrome::Nak(NakCode::Selective);
    let (psn, msn) = match last {
        Some(last) => (aggregation::Space::PSN.next(last), lost),
        None => (lost, reports.into()),
    };
    headers.bth.psn = Psn::new(psn);
    headers.aeth = Some(aeth::Repr { syndrome, msn });
}

/// The counter of a CNP that does not pass.
fn cnp_drop(reason: CnpDrop) -> Drop {
    match reason {
        CnpDrop::Own => Drop::OwnCnp,
        CnpDrop::Limited => Drop::CnpLimited,
        CnpDrop::Filtered => Drop::CnpFiltered,
    }
}

/// The packet says this.
fn say(frame: &mut RcFrame, feedback: Feedback) {
    let (psn, aeth) = feedback.to_aeth();
    frame.headers.bth.psn = Psn::new(psn);
    frame.headers.aeth = Some(aeth);
    frame.fit();
}

/// Whether the group's packets between switches have this address at both ends.
fn is_between_switches(frame: &RcFrame, mcst_id: Ipv4Addr) -> bool {
    frame.outer.ipv4.source == mcst_id
}
