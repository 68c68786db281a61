//! P4Runtime session with one switch: arbitration, pipeline, and an ordered queue of writes and register accesses.
//!
//! A session executes tasks on its switch and reports each as done or failed. One Write is pending at a time; updates
//! submitted meanwhile are combined in the next one, so that many concurrent registrations need few calls.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hasher;
use std::sync::Arc;

use alfirk_p4runtime::p4::v1::{
    entity, stream_message_request, stream_message_response, Entity, ForwardingPipelineConfig,
    MasterArbitrationUpdate, PacketIn, PacketOut, ReadRequest, StreamMessageRequest,
    StreamMessageResponse, Uint128, Update, WriteRequest,
};
use alfirk_p4runtime::Status;
use fnv::FnvHasher;

mod opening;
mod register_access;
mod round_trip;
mod writes;

use self::opening::Reading;
use self::register_access::RegisterTask;
use self::round_trip::RoundTrip;
use self::writes::{EndedTasks, Writes};
use super::config::ControllerConfig;
use super::error::{SwitchError, SwitchRequest};
use super::event::{Request, RequestId, Response};
use super::registers::RegisterControl;
use crate::constants::{
    PACKET_IN_FATAL_NAK, PACKET_IN_FEEDBACK, PACKET_IN_ICRC, PACKET_IN_MRP, PACKET_IN_PROBE,
    PACKET_IN_REGISTERS, PACKET_OUT_FORWARD, REGISTER_OP_READ,
};
use crate::tables::{Counts, PacketOutHeader, Program};

/// Id of a task; chosen by the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TaskId(pub(super) u64);

/// A task for one switch.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// Apply updates in this order. Deleting a missing entry succeeds; inserting an existing entry replaces it.
    Write(Vec<Update>),
    /// Access registers through the pipeline. The session sets the cookie, by which it matches a reply with its task.
    Registers(RegisterControl),
    /// Read the pipeline's counters; the result is a [`Notice::Counted`].
    Counters,
    /// Wait until frames sent from a port have arrived at the neighbour (`links.rs`). Executed by the controller, not a session.
    Flush {
        /// Egress port of the frames.
        port: u32,
    },
}

/// State that a switch had when its session opened.
#[derive(Debug)]
pub(super) struct InitialState {
    /// Whether the switch already ran this pipeline, so that it has kept tables and registers.
    pub(super) has_kept_state: bool,
    /// Entities read from the switch.
    pub(super) entities: Vec<Entity>,
}

/// Message of a session to its switch.
#[derive(Debug)]
pub(super) enum Output {
    Request(RequestId, Request),
    Stream(StreamMessageRequest),
}

/// Event that a session reports to the controller.
#[derive(Debug)]
pub(super) enum Notice {
    /// The switch runs the pipeline; the session accepts tasks.
    Open(InitialState),
    /// The switch has failed; all its tasks are reported as failed after this notice.
    Failed(SwitchError),
    /// A task has ended. The result is the value of a register access, and 0 for a Write.
    Done(TaskId, Result<u64, SwitchError>),
    /// A registration packet, with its ingress port.
    Mrp(u32, Vec<u8>),
    /// Result of [`Task::Counters`].
    Counted(TaskId, Result<Counts, SwitchError>),
    /// A frame of a group that the switch has passed to the controller.
    PuntedFrame {
        /// Why the switch has passed the frame: one of the `PACKET_IN_*` constants.
        reason: u8,
        /// Ingress port; for a frame whose ICRC is to be recomputed, the egress port.
        port: u32,
        payload: Vec<u8>,
    },
}

/// Data of the controller that all sessions use.
pub(super) struct Context<'a> {
    pub(super) config: &'a ControllerConfig,
    pub(super) program: &'a Program,
    /// The configured pipeline, with its [`fingerprint`] as cookie.
    pub(super) pipeline: &'a Arc<ForwardingPipelineConfig>,
}

impl Context<'_> {
    /// Cookie of the configured pipeline.
    fn cookie(&self) -> u64 {
        self.pipeline.cookie.map_or(0, |cookie| cookie.cookie)
    }
}

/// State of a session.
#[derive(Debug)]
enum State {
    /// Not connected, or failed.
    Closed { why: String },
    /// Waiting for the arbitration response since `since`, until `deadline`.
    Arbitrating { since: u64, deadline: u64 },
    /// Connected, but another controller is primary.
    Backup { why: String },
    /// Reading the pipeline cookie, until `deadline`.
    ReadingCookie { request: RequestId, deadline: u64 },
    /// Reading the entities, until `deadline`.
    ReadingEntities { reading: Reading, deadline: u64 },
    /// Loading the pipeline, until `deadline`.
    Loading { request: RequestId, deadline: u64 },
    /// Accepting tasks.
    Open,
}

impl State {
    /// Checks that the session accepts tasks; the error is the reason why it does not.
    fn check_open(&self) -> Result<(), &str> {
        Err(match self {
            State::Closed { why } | State::Backup { why } => why,
            State::Arbitrating { .. } => "being connected",
            State::ReadingCookie { .. } => "its pipeline is being read",
            State::ReadingEntities { .. } => "its entries are being read",
            State::Loading { .. } => "its pipeline is being loaded",
            State::Open => return Ok(()),
        })
    }

    fn is_open(&self) -> bool {
        matches!(self, State::Open)
    }
}

/// P4Runtime session with one switch.
#[derive(Debug)]
pub(super) struct Session {
    name: String,
    device_id: u64,
    state: State,
    next_request: u64,
    next_cookie: u32,
    writes: Writes,
    /// Pending register accesses, by cookie.
    registers: BTreeMap<u32, RegisterTask>,
    /// Register accesses that wait until fewer than `register_access::WINDOW` are pending.
    waiting_registers: VecDeque<(TaskId, RegisterControl)>,
    /// Pending reads of counters, each with its deadline.
    counting: BTreeMap<RequestId, (TaskId, u64)>,
    /// Pending reads of registers by P4Runtime, each with its deadline.
    register_reads: BTreeMap<RequestId, (TaskId, RegisterControl, u64)>,
    /// Round-trip time of messages on the stream.
    round_trip: RoundTrip,
    outputs: VecDeque<Output>,
    notices: VecDeque<Notice>,
}

impl Session {
    pub(super) fn new(name: String, device_id: u64) -> Session {
        Session {
            name,
            device_id,
            state: State::Closed {
                why: "not connected yet".to_owned(),
            },
            next_request: 0,
            next_cookie: 0,
            writes: Writes::default(),
            registers: BTreeMap::new(),
            waiting_registers: VecDeque::new(),
            counting: BTreeMap::new(),
            register_reads: BTreeMap::new(),
            round_trip: RoundTrip::default(),
            outputs: VecDeque::new(),
            notices: VecDeque::new(),
        }
    }

    pub(super) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(super) fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let state = match self.state {
            State::Arbitrating { deadline, .. }
            | State::ReadingCookie { deadline, .. }
            | State::ReadingEntities { deadline, .. }
            | State::Loading { deadline, .. } => Some(deadline),
            State::Closed { .. } | State::Backup { .. } | State::Open => None,
        };
        let write = self.writes.deadline();
        let registers = self.registers.values().map(|r| r.deadline).min();
        let counting = self.counting.values().map(|(_, deadline)| *deadline).min();
        let reads = self.register_reads.values().map(|(.., deadline)| *deadline);
        let reads = reads.min();
        [state, write, registers, counting, reads]
            .into_iter()
            .flatten()
            .min()
    }

    /// Checks that the session accepts tasks; the error is the reason why it does not.
    pub(super) fn check_open(&self) -> Result<(), &str> {
        self.state.check_open()
    }

    /// Round-trip time of a message to the switch, in nanoseconds; `None` before the first measurement.
    pub(super) fn round_trip(&self) -> Option<u64> {
        self.round_trip.ns()
    }

    /// Whether the session is being opened.
    pub(super) fn is_starting(&self) -> bool {
        matches!(
            self.state,
            State::Arbitrating { .. }
                | State::ReadingCookie { .. }
                | State::ReadingEntities { .. }
                | State::Loading { .. }
        )
    }

    /// Starts a new connection; the state of an earlier one is discarded.
    pub(super) fn up(&mut self, now: u64, context: &Context) {
        if !matches!(self.state, State::Closed { .. }) {
            self.down("replaced by a new connection");
        }
        let election_id = election_id(context.config);
        self.outputs.push_back(Output::Stream(StreamMessageRequest {
            update: Some(stream_message_request::Update::Arbitration(
                MasterArbitrationUpdate {
                    device_id: self.device_id,
                    election_id: Some(election_id),
                    ..MasterArbitrationUpdate::default()
                },
            )),
        }));
        self.state = State::Arbitrating {
            since: now,
            deadline: now + context.config.request_timeout_ns,
        };
    }

    /// Closes the session, because the connection has ended.
    pub(super) fn down(&mut self, why: &str) {
        self.state = State::Closed {
            why: why.to_owned(),
        };
        self.notices.push_back(Notice::Failed(self.lost_error()));
        self.fail_all_tasks();
    }

    /// Fails the session until the switch reconnects.
    pub(super) fn fail(&mut self, error: SwitchError) {
        self.state = State::Closed {
            why: error.to_string(),
        };
        self.notices.push_back(Notice::Failed(error));
        self.fail_all_tasks();
    }

    pub(super) fn submit(&mut self, now: u64, context: &Context, id: TaskId, task: Task) {
        if !self.state.is_open() {
            let lost = Err(self.lost_error());
            self.notices.push_back(match task {
                Task::Counters => Notice::Counted(id, lost.map(|()| Counts::default())),
                _ => Notice::Done(id, lost.map(|()| 0)),
            });
            return;
        }
        match task {
            Task::Counters => {
                let request = self.read(context.program.counters.entities_to_read());
                let deadline = now + context.config.request_timeout_ns;
                self.counting.insert(request, (id, deadline));
            }
            Task::Write(updates) if updates.is_empty() => {
                self.notices.push_back(Notice::Done(id, Ok(0)));
            }
            Task::Write(updates) => {
                self.writes.push(id, updates);
                self.send_writes(now, context);
            }
            // Executed by the controller.
            Task::Flush { .. } => self.notices.push_back(Notice::Done(id, Ok(0))),
            Task::Registers(access) => {
                let arrays = context.program.group_registers.as_ref();
                let arrays = arrays.filter(|_| access.op == REGISTER_OP_READ);
                if let Some(wanted) = arrays.and_then(|arrays| arrays.entities_to_read(&access)) {
                    let request = self.read(wanted);
                    let deadline = now + context.config.request_timeout_ns;
                    self.register_reads.insert(request, (id, access, deadline));
                    return;
                }
                self.waiting_registers.push_back((id, access));
                self.send_registers(now, context);
            }
        }
    }

    /// Sends a frame from a port of the switch; dropped if the switch is not connected.
    pub(super) fn send_frame(&mut self, context: &Context, egress_port: u32, frame: Vec<u8>) {
        let header = PacketOutHeader {
            kind: PACKET_OUT_FORWARD,
            egress_port,
        };
        self.send_packet(context, header, frame);
    }

    /// Sends a PacketOut to the pipeline; dropped if the switch is not connected.
    pub(super) fn send_packet(
        &mut self,
        context: &Context,
        header: PacketOutHeader,
        payload: Vec<u8>,
    ) {
        if self.state.is_open() {
            let packet = context.program.packet_io.packet_out(header, payload);
            self.outputs
                .push_back(Output::Stream(packet_message(packet)));
        }
    }

    pub(super) fn reply(
        &mut self,
        now: u64,
        context: &Context,
        request: RequestId,
        result: Result<Response, Status>,
    ) {
        match self.state {
            State::Loading {
                request: expected, ..
            } if expected == request => match result {
                Ok(_) => self.read_entities(now, context, false),
                Err(status) => self.fail(SwitchError::Pipeline {
                    switch: self.name.clone(),
                    status,
                }),
            },
            State::ReadingCookie {
                request: expected, ..
            } if expected == request => match result {
                Ok(Response::Pipeline(Some(cookie))) if cookie == context.cookie() => {
                    self.read_entities(now, context, true);
                }
                // Another, no or an unknown pipeline: load this one.
                _ => self.load(now, context),
            },
            State::ReadingEntities { ref reading, .. } if reading.awaits(request) => {
                self.read_done(now, context, request, result);
            }
            _ if self.counting.contains_key(&request) => self.counted(context, request, result),
            _ if self.register_reads.contains_key(&request) => {
                self.register_read(context, request, result);
            }
            _ => {
                // Otherwise the reply is late, or belongs to an earlier connection.
                if let Some(write) = self.writes.take_replied(request) {
                    let done = self
                        .writes
                        .finish(write, result, &self.name, context.program);
                    self.written(done);
                    self.send_writes(now, context);
                }
            }
        }
    }

    pub(super) fn stream(&mut self, now: u64, context: &Context, message: StreamMessageResponse) {
        match message.update {
            Some(stream_message_response::Update::Arbitration(update)) => {
                self.arbitration(now, context, &update);
            }
            Some(stream_message_response::Update::Packet(packet)) => {
                self.packet_in(now, context, packet);
                self.start_registers(now, context);
            }
            Some(stream_message_response::Update::Error(error)) => {
                tracing::warn!(
                    switch = self.name,
                    code = error.canonical_code,
                    "{}",
                    error.message
                );
            }
            _ => {}
        }
    }

    pub(super) fn timeout(&mut self, now: u64, context: &Context) {
        match self.state {
            State::Arbitrating { deadline, .. } if deadline <= now => {
                self.fail(self.timeout_error(context, SwitchRequest::Arbitration));
            }
            State::ReadingCookie { deadline, .. } if deadline <= now => {
                self.fail(self.timeout_error(context, SwitchRequest::GetPipeline));
            }
            State::ReadingEntities { deadline, .. } if deadline <= now => {
                self.fail(self.timeout_error(context, SwitchRequest::Read));
            }
            State::Loading { deadline, .. } if deadline <= now => {
                self.fail(self.timeout_error(context, SwitchRequest::SetPipeline));
            }
            _ => {}
        }
        if let Some(write) = self.writes.take_expired(now) {
            let error = self.timeout_error(context, SwitchRequest::Write);
            let done = self.writes.fail(write, &error);
            self.written(done);
            self.send_writes(now, context);
        }
        self.send_registers(now, context);
        let late = self.counting.iter().filter(|(_, (_, at))| *at <= now);
        for request in late.map(|(request, _)| *request).collect::<Vec<_>>() {
            if let Some((task, _)) = self.counting.remove(&request) {
                let error = self.timeout_error(context, SwitchRequest::Read);
                self.notices.push_back(Notice::Counted(task, Err(error)));
            }
        }
        let late = (self.register_reads.iter()).filter(|(_, (.., at))| *at <= now);
        for request in late.map(|(request, _)| *request).collect::<Vec<_>>() {
            if let Some((task, ..)) = self.register_reads.remove(&request) {
                let error = self.timeout_error(context, SwitchRequest::Read);
                self.notices.push_back(Notice::Done(task, Err(error)));
            }
        }
    }

    fn read(&mut self, entities: impl IntoIterator<Item = entity::Entity>) -> RequestId {
        let request = self.next_request();
        let entities = entities.into_iter().map(|entity| Entity {
            entity: Some(entity),
        });
        let body = ReadRequest {
            device_id: self.device_id,
            entities: entities.collect(),
            ..ReadRequest::default()
        };
        self.outputs
            .push_back(Output::Request(request, Request::Read(body)));
        request
    }

    fn counted(&mut self, context: &Context, request: RequestId, result: Result<Response, Status>) {
        let Some((task, _)) = self.counting.remove(&request) else {
            return;
        };
        let counts = match result {
            Ok(Response::Read(messages)) => {
                let entities = messages.iter().flat_map(|message| &message.entities);
                Ok(context.program.counters.counts(entities))
            }
            Ok(_) => Ok(Counts::default()),
            Err(status) => Err(SwitchError::Call {
                switch: self.name.clone(),
                call: SwitchRequest::Read,
                status,
            }),
        };
        self.notices.push_back(Notice::Counted(task, counts));
    }

    fn packet_in(&mut self, now: u64, context: &Context, packet: PacketIn) {
        let Some(header) = context.program.packet_io.packet_in(&packet) else {
            tracing::warn!(switch = self.name, "PacketIn without the pipeline's header");
            return;
        };
        match header.reason {
            PACKET_IN_REGISTERS => self.register_reply(now, &packet),
            _ if !self.state.is_open() => {}
            PACKET_IN_MRP => {
                self.notices
                    .push_back(Notice::Mrp(header.ingress_port, packet.payload));
            }
            PACKET_IN_FEEDBACK | PACKET_IN_PROBE | PACKET_IN_ICRC | PACKET_IN_FATAL_NAK => {
                self.notices.push_back(Notice::PuntedFrame {
                    reason: header.reason,
                    port: header.ingress_port,
                    payload: packet.payload,
                });
            }
            reason => tracing::debug!(switch = self.name, reason, "PacketIn ignored"),
        }
    }

    /// Sends the next Write, if none is pending and updates are queued.
    fn send_writes(&mut self, now: u64, context: &Context) {
        let request = RequestId(self.next_request + 1);
        let deadline = now + context.config.request_timeout_ns;
        let limit = context.config.batch_limit;
        let device_id = self.device_id;
        let body = || WriteRequest {
            device_id,
            election_id: Some(election_id(context.config)),
            ..WriteRequest::default()
        };
        let Some(body) = self.writes.next(request, deadline, limit, body) else {
            return;
        };
        self.next_request += 1;
        self.outputs
            .push_back(Output::Request(request, Request::Write(body)));
    }

    fn written(&mut self, done: EndedTasks) {
        for (task, result) in done {
            self.notices
                .push_back(Notice::Done(task, result.map(|()| 0)));
        }
    }

    /// Fails all pending tasks.
    fn fail_all_tasks(&mut self) {
        self.outputs.clear();
        let writes = std::mem::take(&mut self.writes).into_tasks();
        let registers = std::mem::take(&mut self.registers)
            .into_values()
            .map(|r| r.task);
        let waiting = std::mem::take(&mut self.waiting_registers)
            .into_iter()
            .map(|(task, _)| task);
        let reads = std::mem::take(&mut self.register_reads)
            .into_values()
            .map(|(task, ..)| task);
        let lost = self.lost_error();
        for (task, _) in std::mem::take(&mut self.counting).into_values() {
            self.notices
                .push_back(Notice::Counted(task, Err(lost.clone())));
        }
        for task in writes
            .chain(registers)
            .chain(waiting)
            .chain(reads)
            .collect::<std::collections::BTreeSet<_>>()
        {
            self.notices
                .push_back(Notice::Done(task, Err(lost.clone())));
        }
    }

    fn lost_error(&self) -> SwitchError {
        SwitchError::Lost {
            switch: self.name.clone(),
            why: self.check_open().err().unwrap_or_default().to_owned(),
        }
    }

    fn timeout_error(&self, context: &Context, call: SwitchRequest) -> SwitchError {
        let ns = match call {
            SwitchRequest::RegisterAccess => {
                context.config.register_retry_ns * u64::from(context.config.register_attempts)
            }
            _ => context.config.request_timeout_ns,
        };
        SwitchError::Timeout {
            switch: self.name.clone(),
            call,
            seconds: ns as f64 / 1e9,
        }
    }

    fn next_request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }
}

fn packet_message(packet: PacketOut) -> StreamMessageRequest {
    StreamMessageRequest {
        update: Some(stream_message_request::Update::Packet(packet)),
    }
}

fn election_id(config: &ControllerConfig) -> Uint128 {
    Uint128 {
        high: (config.election_id >> 64) as u64,
        low: config.election_id as u64,
    }
}

/// Hash of a pipeline configuration (64-bit FNV-1a), stored by the switch as its cookie.
pub(super) fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    /// Switches store the cookie, and a controller that restarts compares it: the hash must not change.
    #[test]
    fn the_fingerprint_is_fnv_1a() {
        assert_eq!(super::fingerprint(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(super::fingerprint(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
