//! A P4Runtime server in memory; tests inject faults into it.

use std::collections::{BTreeMap, BTreeSet};

use alfirk_p4runtime::p4::v1::{
    self, entity, packet_replication_engine_entry as pre, stream_message_request,
    stream_message_response, update, Entity, MasterArbitrationUpdate, PacketIn, PacketMetadata,
    StreamMessageRequest, StreamMessageResponse, TableEntry, Update, WriteRequest,
};
use alfirk_p4runtime::{Code, Message, Status};

use super::super::{registers, RegisterControl, Request, Response};
use super::faults::{refused, Kind};
use crate::tables::Program;

/// One switch: its entries by kind and key, its registers, and its faults.
pub(crate) struct FakeSwitch {
    program: Program,
    entries: BTreeMap<Vec<u8>, (String, Entity)>,
    /// The cookie of the running pipeline; `None` without one.
    pub(crate) cookie: Option<u64>,
    /// Content of REGISTER_AGG by group index; default: the PSN before the group's first one.
    pub(crate) last_acked: BTreeMap<u16, u32>,
    /// Message number (MSN) in REGISTER_AGG.
    pub(crate) last_acked_msn: u32,
    /// Content of REGISTER_ACK by group and path; default: the group's REGISTER_AGG.
    pub(crate) acked: BTreeMap<(u16, u16), u32>,
    /// Content of REGISTER_CLAIMED by group and path; default: REGISTER_AGG.
    pub(crate) claimed: BTreeMap<(u16, u16), u32>,
    /// Content of REGISTER_SENT for every group; `None`: that of REGISTER_AGG.
    pub(crate) sent_psn: Option<u32>,
    /// Content of REGISTER_SRC_PORT by group; default: `source`.
    pub(crate) sources: BTreeMap<u16, u32>,
    /// Content of REGISTER_SRC_PORT for groups that are not in `sources`.
    pub(crate) source: u32,
    /// Announced memory regions of the receivers, by slot.
    pub(crate) regions: BTreeMap<u32, u64>,
    /// Number of packets that are acknowledged just before the group's entry is withdrawn.
    pub(crate) last_minute: u32,
    /// Whether reads are rejected, as by servers that do not support them.
    pub(crate) refuse_reads: bool,
    /// Whether replication entries stay when a pipeline is set.
    pub(crate) keeps_replication: bool,
    /// Groups with initialised registers: index to number of paths and PSN.
    pub(crate) registers: BTreeMap<u16, (u8, u64)>,
    /// Number of received updates, including rejected ones.
    pub(crate) updates: usize,
    /// Frames that the controller sent by PacketOut, with their egress ports.
    pub(crate) sent: Vec<(u32, Vec<u8>)>,
    /// Feedback that the controller sent, without the PacketOut header.
    pub(crate) feedback: Vec<Vec<u8>>,
    /// Contents of counters: id, index and packets.
    pub(crate) counters: Vec<(u32, i64, i64)>,
    pub(crate) writes: usize,
    pub(crate) loads: usize,
    /// Numbers of the updates to reject, from 0: update `n` is the one that arrives while [`FakeSwitch::updates`] is `n`.
    pub(crate) refuse: BTreeSet<usize>,
    /// Number of PacketOuts to lose.
    pub(crate) lose_packets: usize,
    /// Whether the switch replies to no request.
    pub(crate) silent: bool,
    /// Whether the switch reports another controller as primary.
    pub(crate) has_primary: bool,
    /// Whether pipelines are rejected.
    pub(crate) refuse_pipeline: bool,
    /// Whether to skip checks whose time grows with the number of entries.
    pub(crate) trusting: bool,
}

impl FakeSwitch {
    pub(crate) fn new(program: Program) -> FakeSwitch {
        FakeSwitch {
            program,
            entries: BTreeMap::new(),
            cookie: None,
            last_acked: BTreeMap::new(),
            last_acked_msn: 0,
            acked: BTreeMap::new(),
            claimed: BTreeMap::new(),
            sent_psn: None,
            sources: BTreeMap::new(),
            source: 0,
            regions: BTreeMap::new(),
            last_minute: 0,
            refuse_reads: false,
            keeps_replication: false,
            registers: BTreeMap::new(),
            updates: 0,
            sent: Vec::new(),
            feedback: Vec::new(),
            counters: Vec::new(),
            writes: 0,
            loads: 0,
            refuse: BTreeSet::new(),
            lose_packets: 0,
            silent: false,
            has_primary: false,
            refuse_pipeline: false,
            trusting: false,
        }
    }

    /// Every entry and register, as text.
    pub(crate) fn contents(&self) -> Vec<String> {
        self.entries
            .values()
            .map(|(text, _)| text.clone())
            .collect()
    }

    /// Entries of one table, or of the replication engine by `multicast group` and `clone session`.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.contents()
            .iter()
            .filter(|text| text.starts_with(what))
            .count()
    }

    pub(crate) fn request(&mut self, request: &Request) -> Option<Result<Response, Status>> {
        if self.silent {
            return None;
        }
        Some(match request {
            Request::SetPipeline(..) if self.refuse_pipeline => {
                Err(Status::new(Code::InvalidArgument, "no such pipeline"))
            }
            Request::SetPipeline(_, config) => {
                self.loads += 1;
                let keeps = self.keeps_replication;
                self.entries
                    .retain(|_, (text, _)| keeps && !text.starts_with("table"));
                self.registers.clear();
                self.last_acked.clear();
                self.cookie = config.cookie.as_ref().map(|cookie| cookie.cookie);
                Ok(Response::SetPipeline)
            }
            Request::GetPipeline(_) => match self.cookie {
                Some(cookie) => Ok(Response::Pipeline(Some(cookie))),
                None => Err(Status::new(Code::FailedPrecondition, "no pipeline")),
            },
            Request::Read(_) if self.refuse_reads => {
                Err(Status::new(Code::Unimplemented, "no reads"))
            }
            Request::Write(write) => self.write(write).map(|()| Response::Write),
            Request::Read(read) => Ok(Response::Read(vec![self.read(read)])),
        })
    }

    /// Like `request`, with a fault: a write is rejected completely or in its last update, other requests completely.
    pub(super) fn request_with(
        &mut self,
        request: &Request,
        fault: Option<Kind>,
    ) -> Option<Result<Response, Status>> {
        let refused = match (request, fault) {
            (Request::Write(write), Some(Kind::Refuse)) => 0..write.updates.len(),
            (Request::Write(write), Some(Kind::RefuseLast)) => {
                write.updates.len() - 1..write.updates.len()
            }
            (_, Some(Kind::Refuse | Kind::RefuseLast)) => {
                return Some(Err(Status::new(Code::ResourceExhausted, "fake")));
            }
            _ => 0..0,
        };
        self.refuse.extend(refused.map(|n| self.updates + n));
        let result = self.request(request);
        if fault.is_some() {
            self.refuse.clear();
        }
        result
    }

    /// Like `stream`, with a fault: a register access is rejected.
    pub(super) fn stream_with(
        &mut self,
        message: &StreamMessageRequest,
        fault: Option<Kind>,
    ) -> Vec<StreamMessageResponse> {
        match (&message.update, fault) {
            (
                Some(stream_message_request::Update::Packet(packet)),
                Some(Kind::Refuse | Kind::RefuseLast),
            ) => {
                let access = registers::parse(&packet.payload).unwrap();
                vec![packet_in(1, 1, refused(access).to_bytes().to_vec())]
            }
            _ => self.stream(message),
        }
    }

    pub(crate) fn stream(&mut self, message: &StreamMessageRequest) -> Vec<StreamMessageResponse> {
        if self.silent {
            return Vec::new();
        }
        let update = match message.update.as_ref().unwrap() {
            stream_message_request::Update::Arbitration(request) => {
                let code = match self.has_primary {
                    true => Code::AlreadyExists,
                    false => Code::Ok,
                };
                stream_message_response::Update::Arbitration(MasterArbitrationUpdate {
                    status: Some(Status::new(code, "")),
                    ..request.clone()
                })
            }
            stream_message_request::Update::Packet(_) if self.lose_packets > 0 => {
                self.lose_packets -= 1;
                return Vec::new();
            }
            stream_message_request::Update::Packet(packet) => {
                let header = self.program.packet_io.packet_out_header(packet).unwrap();
                if header.kind == crate::constants::PACKET_OUT_FORWARD {
                    self.sent.push((header.egress_port, packet.payload.clone()));
                    return Vec::new();
                }
                if header.kind == crate::constants::PACKET_OUT_FEEDBACK {
                    self.feedback.push(packet.payload.clone());
                    return Vec::new();
                }
                let request = registers::parse(&packet.payload).unwrap();
                return vec![packet_in(1, 1, self.access(request).to_bytes().to_vec())];
            }
            other => panic!("unexpected: {other:?}"),
        };
        vec![StreamMessageResponse {
            update: Some(update),
        }]
    }

    /// Restarts the switch: it loses its pipeline, entries and registers.
    pub(crate) fn restart(&mut self) {
        self.entries.clear();
        self.registers.clear();
        self.last_acked.clear();
        self.cookie = None;
    }

    /// Removes all entries of a kind.
    pub(crate) fn discard(&mut self, what: &str) {
        self.entries.retain(|_, (text, _)| !text.starts_with(what));
    }

    /// Applies an update of another controller.
    pub(crate) fn force(&mut self, update: &Update) {
        self.apply(update).unwrap();
    }

    /// Copies missing entries from another switch.
    pub(crate) fn copy_entries(&mut self, other: &FakeSwitch) {
        for (key, entry) in &other.entries {
            self.entries
                .entry(key.clone())
                .or_insert_with(|| entry.clone());
        }
    }

    /// Executes a register access; only registers that the controller reads are stored.
    fn access(&mut self, request: RegisterControl) -> RegisterControl {
        use crate::constants::{
            REGISTER_ACK, REGISTER_AGG, REGISTER_CLAIMED, REGISTER_OP_INIT_GROUP,
            REGISTER_OP_INIT_REGIONS, REGISTER_OP_READ, REGISTER_OP_WRITE, REGISTER_SENT,
            REGISTER_SRC_PORT,
        };
        let mut answer = request;
        match (request.op, request.reg) {
            (REGISTER_OP_INIT_GROUP, _) => {
                self.registers
                    .insert(request.group, (request.count, request.value));
                self.last_acked.remove(&request.group);
                self.sources.remove(&request.group);
            }
            (REGISTER_OP_WRITE, REGISTER_AGG) => {
                let psn = (request.value >> 24) as u32 & 0xff_ffff;
                self.last_acked.insert(request.group, psn);
            }
            (REGISTER_OP_WRITE, REGISTER_SRC_PORT) => {
                let port = u32::try_from(request.value).unwrap();
                self.sources.insert(request.group, port);
            }
            (REGISTER_OP_READ, REGISTER_SRC_PORT) => {
                let source = self.sources.get(&request.group).copied();
                answer.value = u64::from(source.unwrap_or(self.source));
            }
            (REGISTER_OP_READ, REGISTER_SENT) => {
                let last_acked = self.last_acked(request.group);
                answer.value = u64::from(self.sent_psn.unwrap_or(last_acked));
            }
            (REGISTER_OP_READ, REGISTER_CLAIMED) => {
                let key = (request.group, request.index);
                let last_acked = self.last_acked(request.group);
                answer.value = u64::from(self.claimed.get(&key).copied().unwrap_or(last_acked));
            }
            (REGISTER_OP_INIT_REGIONS, _) => {
                let first = u32::from(request.group) << 16 | u32::from(request.index);
                for slot in first..first + u32::from(request.count) {
                    self.regions.remove(&slot);
                }
            }
            (REGISTER_OP_READ, REGISTER_AGG) => {
                let last_acked = self.last_acked(request.group);
                answer.value = u64::from(last_acked) << 24 | u64::from(self.last_acked_msn);
            }
            (REGISTER_OP_READ, REGISTER_ACK) => {
                let key = (request.group, request.index);
                let last_acked = self.last_acked(request.group);
                let acked = self.acked.get(&key).copied().unwrap_or(last_acked);
                answer.value = u64::from(acked) << 8 | u64::from(request.index);
            }
            other => panic!("unexpected: {other:?}"),
        }
        answer
    }

    fn last_acked(&self, group: u16) -> u32 {
        let (_, first) = self.registers.get(&group).copied().unwrap_or((0, 1));
        let before = (first as u32).wrapping_sub(1) & 0xff_ffff;
        self.last_acked.get(&group).copied().unwrap_or(before)
    }

    fn read(&self, read: &v1::ReadRequest) -> v1::ReadResponse {
        let wanted = |entity: &Entity| {
            read.entities.iter().any(|pattern| {
                use entity::Entity::{
                    MeterEntry, PacketReplicationEngineEntry as Engine, TableEntry,
                };
                match (&pattern.entity, &entity.entity) {
                    (Some(TableEntry(pattern)), Some(TableEntry(entry))) => {
                        pattern.table_id == entry.table_id
                    }
                    (Some(MeterEntry(pattern)), Some(MeterEntry(entry))) => {
                        pattern.meter_id == entry.meter_id
                    }
                    (Some(Engine(pattern)), Some(Engine(entry))) => {
                        let kind = |e: &v1::PacketReplicationEngineEntry| {
                            std::mem::discriminant(e.r#type.as_ref().unwrap())
                        };
                        kind(pattern) == kind(entry)
                    }
                    _ => false,
                }
            })
        };
        let entities = self.entries.values().map(|(_, entity)| entity);
        let asked = |id: u32| {
            read.entities.iter().any(|pattern| {
                matches!(&pattern.entity, Some(entity::Entity::CounterEntry(c)) if c.counter_id == id)
            })
        };
        let counters = self.counters.iter().filter(|(id, ..)| asked(*id));
        let counters = counters.map(|(counter_id, index, packet_count)| Entity {
            entity: Some(entity::Entity::CounterEntry(v1::CounterEntry {
                counter_id: *counter_id,
                index: Some(v1::Index { index: *index }),
                data: Some(v1::CounterData {
                    packet_count: *packet_count,
                    ..v1::CounterData::default()
                }),
            })),
        });
        v1::ReadResponse {
            entities: entities
                .filter(|e| wanted(e))
                .cloned()
                .chain(counters)
                .collect(),
        }
    }

    fn write(&mut self, write: &WriteRequest) -> Result<(), Status> {
        self.writes += 1;
        let results: Vec<v1::Error> = write
            .updates
            .iter()
            .map(|update| match self.apply(update) {
                Ok(()) => v1::Error::ok(),
                Err(code) => Status::new(code, "fake").into(),
            })
            .collect();
        match results.iter().all(|result| result.canonical_code == 0) {
            true => Ok(()),
            false => Err(Status::of_updates(&results)),
        }
    }

    fn apply(&mut self, update: &Update) -> Result<(), Code> {
        self.updates += 1;
        if self.refuse.contains(&(self.updates - 1)) {
            return Err(Code::ResourceExhausted);
        }
        let (key, text) = self.show(update);
        let is_there = self.entries.contains_key(&key);
        match update.r#type() {
            update::Type::Insert if is_there => return Err(Code::AlreadyExists),
            update::Type::Insert => {
                self.check(update);
                self.entries
                    .insert(key, (text, update.entity.clone().unwrap()));
            }
            // All cells of a meter exist, with or without a rate.
            update::Type::Modify if text.starts_with("meter") => {
                let entity = update.entity.clone().unwrap();
                match text.ends_with("nothing") {
                    true => self.entries.remove(&key),
                    false => self.entries.insert(key, (text, entity)),
                };
            }
            _ if !is_there => return Err(Code::NotFound),
            update::Type::Modify => {
                self.entries
                    .insert(key, (text, update.entity.clone().unwrap()));
            }
            update::Type::Delete => {
                if self.last_minute > 0 && text.starts_with("table ingress.group_lookup.groups") {
                    for last_acked in self.last_acked.values_mut() {
                        *last_acked += self.last_minute;
                    }
                }
                self.entries.remove(&key);
            }
            update::Type::Unspecified => return Err(Code::InvalidArgument),
        }
        Ok(())
    }

    /// Checks that a group is complete when its entry in `groups` is written, which must be the last write.
    fn check(&self, update: &Update) {
        if self.trusting || self.program.describe(update) != "table ingress.group_lookup.groups" {
            return;
        }
        let group = value(table_entry(update), 1);
        let paths = self.registers[&u16::try_from(group).unwrap()].0;
        let mft = format!("table ingress.group_lookup.mft {group:x} ");
        assert_eq!(self.count(&mft), usize::from(paths));
        assert_eq!(self.count(&format!("multicast group {} ", group + 1)), 1);
    }

    /// Key of the update's entity, and its text.
    fn show(&self, update: &Update) -> (Vec<u8>, String) {
        let what = self.program.describe(update);
        match update.entity.as_ref().unwrap().entity.as_ref().unwrap() {
            entity::Entity::TableEntry(entry) => {
                let key = TableEntry {
                    action: None,
                    ..entry.clone()
                };
                let fields: Vec<String> = entry.r#match.iter().map(show_match).collect();
                let text = format!("{what} {} -> {}", fields.join(" "), show_action(entry));
                (key.encode_to_vec(), text)
            }
            entity::Entity::PacketReplicationEngineEntry(entry) => {
                let replicas = match entry.r#type.as_ref().unwrap() {
                    pre::Type::MulticastGroupEntry(group) => &group.replicas,
                    pre::Type::CloneSessionEntry(session) => &session.replicas,
                };
                let replicas: Vec<String> = replicas
                    .iter()
                    .map(|replica| match replica.port_kind {
                        Some(v1::replica::PortKind::EgressPort(port)) => {
                            format!("{port}/{}", replica.instance)
                        }
                        _ => "?".to_owned(),
                    })
                    .collect();
                (
                    what.clone().into_bytes(),
                    format!("{what} -> {}", replicas.join(" ")),
                )
            }
            entity::Entity::MeterEntry(entry) => {
                let rate = entry.config.as_ref().map_or_else(
                    || "nothing".to_owned(),
                    |config| format!("{}/s, {}", config.pir, config.pburst),
                );
                (what.clone().into_bytes(), format!("{what} -> {rate}"))
            }
            other => panic!("unexpected: {other:?}"),
        }
    }
}

/// A PacketIn with this frame.
pub(crate) fn packet_in(reason: u8, port: u32, payload: Vec<u8>) -> StreamMessageResponse {
    let values = [u64::from(reason), 0, u64::from(port)];
    let metadata = values
        .into_iter()
        .zip(1..)
        .map(|(value, metadata_id)| PacketMetadata {
            metadata_id,
            value: alfirk_p4runtime::bytestring::encode(value),
        });
    let packet = PacketIn {
        payload,
        metadata: metadata.collect(),
    };
    StreamMessageResponse {
        update: Some(stream_message_response::Update::Packet(packet)),
    }
}

fn table_entry(update: &Update) -> &TableEntry {
    match update.entity.as_ref().unwrap().entity.as_ref().unwrap() {
        entity::Entity::TableEntry(entry) => entry,
        other => panic!("unexpected: {other:?}"),
    }
}

/// An action parameter by id.
fn value(entry: &TableEntry, id: u32) -> u64 {
    let action = match entry.action.as_ref().and_then(|a| a.r#type.as_ref()) {
        Some(v1::table_action::Type::Action(action)) => action,
        other => panic!("unexpected: {other:?}"),
    };
    let param = action.params.iter().find(|p| p.param_id == id).unwrap();
    number(&param.value)
}

fn number(bytes: &[u8]) -> u64 {
    assert!(alfirk_p4runtime::bytestring::is_canonical(bytes));
    bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

fn show_match(field: &v1::FieldMatch) -> String {
    use v1::field_match::FieldMatchType::{Exact, Lpm};
    match field.field_match_type.as_ref().unwrap() {
        Exact(exact) => format!("{:x}", number(&exact.value)),
        Lpm(lpm) => {
            let ip = std::net::Ipv4Addr::from(u32::try_from(number(&lpm.value)).unwrap());
            format!("{ip}/{}", lpm.prefix_len)
        }
        other => panic!("unexpected: {other:?}"),
    }
}

fn show_action(entry: &TableEntry) -> String {
    match entry.action.as_ref().and_then(|a| a.r#type.as_ref()) {
        Some(v1::table_action::Type::Action(action)) => {
            let params: Vec<String> = action
                .params
                .iter()
                .map(|p| format!("{:x}", number(&p.value)))
                .collect();
            format!("{:x}({})", action.action_id & 0xff, params.join(", "))
        }
        _ => "nothing".to_owned(),
    }
}
