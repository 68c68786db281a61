//! The BfRuntime server of one switch, without I/O.
//!
//! BfRuntime is the control interface of Tofino. [`Service`] executes its requests on the switch that a P4Runtime
//! server owns ([`alfirk_p4rt::Server`]), so both interfaces and Thrift see one state. Requests are method calls with
//! messages, and their results are returned; [`Service::poll`] returns messages for streams. Time is a parameter.
//!
//! The objects that clients access are described by a schema ([`alfirk_bf_rt_json`]): that of the program, which the
//! compiler writes, and that of the device ([`device`]).

mod arrays;
mod attributes;
mod cells;
mod copies;
pub mod device;
mod error;
mod idle;
mod match_table;
mod meters;
mod pktgen;
mod port_metadata;
mod ports;
mod pre;
mod profiles;
mod program;
mod read;
mod scope;
mod value_sets;
mod values;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use alfirk_bf_rt_json::{FieldContent, TypeName};
use alfirk_bmv2::{Digest, Switch};
use alfirk_p4rt::{Programs, Server};
use alfirk_p4runtime::{
    bfrt_proto::{
        data_field::Value,
        idle_timeout_notification::NotificationType,
        set_forwarding_pipeline_config_request::{Action, DevInitMode},
        stream_message_request,
        stream_message_response::Update as Sent,
        subscribe::Notifications,
        table_entry::Value as Key,
        write_request::Atomicity,
        DigestList, Error, ForwardingPipelineConfig, GetForwardingPipelineConfigResponse,
        IdleTimeoutNotification, NonP4Config, ReadRequest, ReadResponse,
        SetForwardingPipelineConfigRequest, SetForwardingPipelineConfigResponse,
        SetForwardingPipelineConfigResponseType, StreamMessageRequest, StreamMessageResponse,
        Subscribe, TableData, TableEntry, TargetDevice, WriteRequest, WriteResponse,
    },
    Code, Status,
};

pub use device::Generation;
pub use ports::{Port, PortCounters};
pub use program::Program;

use attributes::Attributes;
use copies::Copies;
use error::{detail, invalid, not_found, of_batch, Outcome};
use idle::Ageing;
use match_table::{MatchTable, View};
use pre::PreState;
use program::IndexedSchema;
use read::Source;
use scope::Scopes;
use write::Target;

/// Maximum number of results in a message of a Read.
const RESULTS_PER_MESSAGE: usize = 1000;
/// Maximum number of messages that wait for [`Service::poll`]; further digests and notifications are dropped.
const MAX_WAITING: usize = 4096;
/// Id of the pipe of the switch.
const PIPE: u32 = 0;
/// Direction, and parser, that stand for all.
const ALL: u32 = 0xff;

/// Identifies the stream of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(u64);

/// A message for a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The stream.
    pub stream: StreamId,
    /// The message.
    pub message: StreamMessageResponse,
}

/// Wishes of a client about a request, which it sends as metadata of gRPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether the response has the result of each part of the request. A Read then reports errors only there.
    pub errors_in_response: bool,
    /// Whether updates of entries that do not exist are accepted.
    pub ignores_not_found: bool,
}

/// A client with a stream.
#[derive(Clone, Debug, Default)]
struct Client {
    /// Id that the client chose; `None` before it subscribes.
    id: Option<u32>,
    notifications: Notifications,
}

/// The state that BfRuntime adds to the switch.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub generation: Generation,
    pub schema: Arc<IndexedSchema>,
    pub pre: PreState,
    pub ports: ports::Ports,
    pub generator: pktgen::Generator,
    pub attributes: BTreeMap<u32, Attributes>,
    pub copies: Copies,
    /// Ageing of the entries of tables, by table id.
    pub ageing: BTreeMap<u32, Ageing>,
}

impl Device {
    /// How entries of a table are described.
    fn view(&self, table: u32, now: u64, from_hardware: bool) -> View<'_> {
        View {
            chip: self.generation,
            now,
            ageing: self.ageing.get(&table),
            from_hardware,
        }
    }

    /// The scopes of a table.
    fn scopes_of(&self, table: u32) -> Outcome<Scopes> {
        let attributes = self.attributes.get(&table);
        Scopes::new(attributes.and_then(|own| own.scope.as_ref()))
    }

    fn new(generation: Generation) -> Device {
        Device {
            generation,
            schema: Arc::new(IndexedSchema::new(device::schema(generation))),
            pre: PreState::default(),
            ports: ports::Ports::new(generation),
            generator: pktgen::Generator::new(generation),
            attributes: BTreeMap::new(),
            copies: Copies::default(),
            ageing: BTreeMap::new(),
        }
    }
}

/// The BfRuntime server of one switch.
#[derive(Debug)]
pub struct Service {
    program: Option<Arc<Program>>,
    device: Device,
    programs: Programs,
    clients: BTreeMap<StreamId, Client>,
    /// Ids of clients that are bound to the program.
    bound: BTreeSet<u32>,
    messages: VecDeque<Message>,
    next_stream: u64,
    next_list: u32,
    /// Time of the next check for idle entries, in nanoseconds; `None` if no table has it enabled.
    next_idle_check: Option<u64>,
    /// Whether a program is loaded without interruption (`HITLESS`): clients write its entries, while the old program
    /// processes packets.
    is_pending: bool,
}

impl Service {
    /// Creates a server. `program` is the program that the switch runs; `None` if it runs none, or its schema is not
    /// known. Programs of clients are loaded through `programs`.
    pub fn new(
        program: Option<Arc<Program>>,
        generation: Generation,
        programs: Programs,
    ) -> Service {
        Service {
            program,
            device: Device::new(generation),
            programs,
            clients: BTreeMap::new(),
            bound: BTreeSet::new(),
            messages: VecDeque::new(),
            next_stream: 1,
            next_list: 1,
            next_idle_check: None,
            is_pending: false,
        }
    }

    /// Opens a stream.
    pub fn stream_open(&mut self) -> StreamId {
        let stream = StreamId(self.next_stream);
        self.next_stream += 1;
        self.clients.insert(stream, Client::default());
        stream
    }

    /// Closes a stream; its client is no longer bound.
    pub fn stream_close(&mut self, stream: StreamId) {
        let client = self.clients.remove(&stream);
        if let Some(id) = client.and_then(|client| client.id) {
            self.bound.remove(&id);
        }
        self.messages.retain(|message| message.stream != stream);
    }

    /// Processes a message of a stream.
    pub fn stream_message(&mut self, stream: StreamId, message: StreamMessageRequest) {
        match message.update {
            Some(stream_message_request::Update::Subscribe(subscribe)) => {
                let id = message.client_id;
                // A client that connects again may do so before its old stream is closed.
                for (other, client) in &mut self.clients {
                    if *other != stream && client.id == Some(id) {
                        client.id = None;
                        self.bound.remove(&id);
                    }
                }
                if let Some(client) = self.clients.get_mut(&stream) {
                    client.id = Some(id);
                    client.notifications = subscribe.notifications.unwrap_or_default();
                }
                let reply = Subscribe {
                    status: Some(Status::default()),
                    ..subscribe
                };
                self.send(stream, Sent::Subscribe(reply));
            }
            // Digests are not sent again, so acknowledgements have no effect.
            Some(stream_message_request::Update::DigestAck(_)) | None => {}
        }
    }

    /// The next message for a stream; `None` when there are no more.
    pub fn poll(&mut self) -> Option<Message> {
        self.messages.pop_front()
    }

    /// The time of the next call of [`Service::handle_timeout`], in nanoseconds; `None` if none is needed.
    pub fn poll_timeout(&self) -> Option<u64> {
        let generator = self.device.generator.poll_timeout();
        self.next_idle_check.into_iter().chain(generator).min()
    }

    fn send(&mut self, stream: StreamId, update: Sent) {
        let is_vital = matches!(
            update,
            Sent::Subscribe(_) | Sent::SetForwardingPipelineConfigResponse(_)
        );
        if is_vital || self.messages.len() < MAX_WAITING {
            let message = StreamMessageResponse {
                update: Some(update),
            };
            self.messages.push_back(Message { stream, message });
        }
    }

    /// The program that a request refers to.
    fn program_of(&self, client: u32, name: &str) -> Outcome<Arc<Program>> {
        let program = self.program.as_ref().ok_or_else(|| {
            Status::new(
                Code::FailedPrecondition,
                "the schema of the program is not known",
            )
        })?;
        match name.is_empty() {
            false if name != program.name => {
                Err(not_found(format!("no program has the name {name}")))
            }
            true if !self.bound.contains(&client) => Err(Status::new(
                Code::FailedPrecondition,
                format!("client {client} is not bound to a program"),
            )),
            _ => Ok(Arc::clone(program)),
        }
    }

    /// Executes a Write.
    ///
    /// # Errors
    /// The client is not bound, or updates failed; the status then has an error for each update.
    pub fn write(
        &mut self,
        server: &mut Server,
        request: &WriteRequest,
        options: Options,
        ports: &[Port],
        now: u64,
    ) -> Result<WriteResponse, Status> {
        let program = self.program_of(request.client_id, &request.p4_name)?;
        let is_atomic = match &request.updates[..] {
            [] => true,
            [update] => write::is_atomic(&program, update),
            _ => false,
        };
        let rolls_back = !is_atomic && request.atomicity() != Atomicity::ContinueOnError;
        let mut writer = server.target_switch_mut();
        let before = rolls_back.then(|| (writer.fork(), self.device.clone()));
        let mut errors: Vec<Error> = Vec::with_capacity(request.updates.len());
        let mut has_failed = false;
        for update in &request.updates {
            let outcome = Target {
                switch: &mut writer,
                program: &program,
                device: &mut self.device,
                ports,
                now,
                target: request.target.as_ref(),
            }
            .update(update);
            let mut error = detail(&outcome);
            let is_ignored = |status: &Status| {
                options.ignores_not_found && status.canonical_code() == Code::NotFound
            };
            let is_failure = outcome.err().is_some_and(|status| !is_ignored(&status));
            if !is_failure {
                error.canonical_code = Code::Ok.into();
            }
            errors.push(error);
            has_failed |= is_failure;
            if is_failure && rolls_back {
                break;
            }
        }
        if let (true, Some((switch, device))) = (has_failed, before) {
            *writer = switch;
            self.device = device;
        }
        drop(writer);
        self.schedule_idle_check(now);
        let status = match options.errors_in_response || options.ignores_not_found {
            _ if has_failed => return Err(of_batch(&errors)),
            true => errors,
            false => Vec::new(),
        };
        Ok(WriteResponse { status })
    }

    /// Executes a Read. Results of valid entities are returned even if others fail.
    ///
    /// # Errors
    /// The client is not bound, or entities are invalid; the status then has an error for each entity.
    pub fn read(
        &self,
        server: &Server,
        request: &ReadRequest,
        options: Options,
        ports: &[Port],
        now: u64,
    ) -> (Vec<ReadResponse>, Result<(), Status>) {
        let program = match self.program_of(request.client_id, &request.p4_name) {
            Ok(program) => program,
            Err(status) => return (Vec::new(), Err(status)),
        };
        let source = Source {
            switch: server.target_switch(),
            program: &program,
            device: &self.device,
            ports,
            now,
            target: request.target.as_ref(),
        };
        let mut results = Vec::new();
        let errors: Vec<Error> = request
            .entities
            .iter()
            .map(|entity| detail(&source.entity(entity, &mut results)))
            .collect();
        let mut parts: Vec<ReadResponse> = Vec::new();
        while !results.is_empty() {
            let rest = results.split_off(results.len().min(RESULTS_PER_MESSAGE));
            parts.push(ReadResponse {
                entities: std::mem::replace(&mut results, rest),
                status: Vec::new(),
            });
        }
        let has_failed = errors.iter().any(|error| error.canonical_code != 0);
        if options.errors_in_response {
            match parts.last_mut() {
                Some(last) => last.status = errors,
                None => parts.push(ReadResponse {
                    entities: Vec::new(),
                    status: errors,
                }),
            }
            return (parts, Ok(()));
        }
        let outcome = match has_failed {
            true => Err(of_batch(&errors)),
            false => Ok(()),
        };
        (parts, outcome)
    }

    /// Returns the program, its schema and that of the device.
    pub fn get_pipeline(&self) -> GetForwardingPipelineConfigResponse {
        let config = self.program.iter().map(|program| {
            use alfirk_p4runtime::bfrt_proto::forwarding_pipeline_config::Profile;
            ForwardingPipelineConfig {
                p4_name: program.name.clone(),
                bfruntime_info: program.text.clone(),
                profiles: vec![Profile {
                    profile_name: "pipe".to_owned(),
                    context: Vec::new(),
                    binary: program.binary.clone(),
                    pipe_scope: vec![0],
                }],
            }
        });
        GetForwardingPipelineConfigResponse {
            config: config.collect(),
            non_p4_config: Some(NonP4Config {
                bfruntime_info: self.device.schema.to_text().into_bytes(),
            }),
        }
    }

    /// Binds a client to the program, or loads another program.
    ///
    /// # Errors
    /// The program does not exist, or cannot be loaded.
    pub fn set_pipeline(
        &mut self,
        server: &mut Server,
        request: &SetForwardingPipelineConfigRequest,
    ) -> Result<SetForwardingPipelineConfigResponse, Status> {
        use SetForwardingPipelineConfigResponseType as Kind;
        let action = Action::try_from(request.action).unwrap_or(Action::Bind);
        let client = request.client_id;
        let kind = match action {
            Action::Bind => {
                let name = request.config.first().map_or("", |config| &config.p4_name);
                let own = self.program.as_ref().map_or("", |program| &program.name);
                if name.is_empty() || name != own {
                    return Err(not_found(format!("no program has the name {name:?}")));
                }
                let is_subscribed = self.clients.values().any(|own| own.id == Some(client));
                if !is_subscribed {
                    return Err(Status::new(
                        Code::FailedPrecondition,
                        format!("client {client} has not subscribed"),
                    ));
                }
                self.bound.insert(client);
                return Ok(SetForwardingPipelineConfigResponse::default());
            }
            Action::Verify => {
                self.parse(request)?;
                return Ok(SetForwardingPipelineConfigResponse::default());
            }
            Action::VerifyAndWarmInitBegin => {
                self.load(server, request)?;
                // With the mode `FAST_RECONFIG` a program runs as soon as it is loaded.
                if request.dev_init_mode() == DevInitMode::FastReconfig {
                    self.start(server);
                }
                Kind::WarmInitStarted
            }
            Action::VerifyAndWarmInitBeginAndEnd => {
                self.load(server, request)?;
                self.start(server);
                Kind::WarmInitFinished
            }
            Action::WarmInitEnd => {
                self.start(server);
                Kind::WarmInitFinished
            }
            Action::ReconcileAndWarmInitEnd => {
                return Err(error::unsupported(
                    "this switch does not reconcile programs",
                ))
            }
        };
        let response = SetForwardingPipelineConfigResponse {
            set_forwarding_pipeline_config_response_type: kind.into(),
        };
        let of_client = |own: &&StreamId| self.clients[own].id == Some(client);
        let stream = self.clients.keys().find(of_client).copied();
        if let Some(stream) = stream {
            self.send(stream, Sent::SetForwardingPipelineConfigResponse(response));
        }
        Ok(response)
    }

    /// The program in a request.
    fn parse(&self, request: &SetForwardingPipelineConfigRequest) -> Outcome<Arc<Program>> {
        let [config] = &request.config[..] else {
            return Err(invalid(format!(
                "a switch runs one program; the request has {}",
                request.config.len()
            )));
        };
        let binary = match &config.profiles[..] {
            [profile] => profile.binary.clone(),
            profiles => {
                let count = profiles.len();
                return Err(invalid(format!(
                    "a program has one profile; the request has {count}"
                )));
            }
        };
        let name = config.p4_name.clone();
        Program::new(name, config.bfruntime_info.clone(), binary)
            .map_err(|why| invalid(format!("bfruntime_info is not a schema: {why}")))
    }

    fn load(
        &mut self,
        server: &mut Server,
        request: &SetForwardingPipelineConfigRequest,
    ) -> Outcome {
        let program = self.parse(request)?;
        let text = std::str::from_utf8(&program.binary)
            .map_err(|_| invalid("the binary of the profile is not BMv2 JSON"))?;
        let loaded = self.programs.load(text);
        let loaded = loaded.map_err(|why| invalid(format!("the program is invalid: {why}")))?;
        if std::mem::take(&mut self.is_pending) {
            server.discard();
        }
        if !server.load_beside(loaded) {
            return Err(Status::new(
                Code::FailedPrecondition,
                "another control plane has loaded a program that does not run yet",
            ));
        }
        let mut writer = server.target_switch_mut();
        if let Ok(engine) = writer.pre_mut() {
            engine.clear_groups();
            for session in engine.sessions() {
                // The session is in the list of sessions.
                let _ = engine.delete_session(session);
            }
        }
        drop(writer);
        let known = self.program.as_ref().map(|program| program.name.clone());
        if known.as_ref() != Some(&program.name) {
            self.bound.clear();
        }
        let mut device = Device::new(self.device.generation);
        if request.dev_init_mode() == DevInitMode::Hitless {
            device.ports.clone_from(&self.device.ports);
            device.attributes.clone_from(&self.device.attributes);
        }
        self.device = device;
        self.program = Some(program);
        self.next_idle_check = None;
        self.is_pending = true;
        Ok(())
    }

    /// Starts the program that was loaded last, if it does not run yet.
    fn start(&mut self, server: &mut Server) {
        if std::mem::take(&mut self.is_pending) {
            server.swap();
            let modes = self.device.ports.modes();
            server.target_switch_mut().set_port_modes(modes);
        }
    }

    /// Sends a digest of the data plane to all clients that are bound and want digests.
    pub fn digest(&mut self, digest: &Digest) {
        let Some(program) = self.program.clone() else {
            return;
        };
        let filter = program
            .schema
            .learn_filters
            .iter()
            .find(|filter| program::own_name(&filter.name) == digest.name);
        let Some(filter) = filter else {
            return;
        };
        let fields = filter.fields.iter().zip(&digest.fields);
        let fields = fields.map(|(field, bytes)| match &field.content {
            FieldContent::Type(ty) if ty.name == TypeName::Bool => values::field(
                field.id,
                Value::BoolVal(bytes.iter().any(|byte| *byte != 0)),
            ),
            FieldContent::Type(ty) => {
                let bits = ty.bits().unwrap_or(8 * bytes.len() as u32);
                values::stream(field.id, values::padded(bytes, bits))
            }
            FieldContent::Container(_) => values::stream(field.id, bytes.clone()),
        });
        let list = DigestList {
            digest_id: filter.id,
            list_id: self.next_list,
            data: vec![TableData {
                action_id: 0,
                fields: fields.collect(),
            }],
            target: Some(own_pipe()),
        };
        self.next_list = self.next_list.wrapping_add(1);
        self.notify(
            |wishes| wishes.enable_learn_notifications,
            Sent::Digest(list),
        );
    }

    /// Sends a message to all bound clients with these wishes.
    fn notify(&mut self, is_wanted: impl Fn(&Notifications) -> bool, update: Sent) {
        let streams: Vec<StreamId> = self
            .clients
            .iter()
            .filter(|(_, client)| client.id.is_some_and(|id| self.bound.contains(&id)))
            .filter(|(_, client)| is_wanted(&client.notifications))
            .map(|(stream, _)| *stream)
            .collect();
        for stream in streams {
            self.send(stream, update.clone());
        }
    }

    /// Sets the time of the next check for idle entries: that of the next sweep over a table.
    fn schedule_idle_check(&mut self, now: u64) {
        let tables = self.device.ageing.values();
        let next = tables.filter_map(|ageing| ageing.next_sweep(now)).min();
        let due = self.next_idle_check.filter(|due| *due <= now);
        self.next_idle_check = next.map(|next| due.unwrap_or(next));
    }

    /// Generates packets and notifies clients of idle entries, if it is time. Returns whether packets were generated.
    pub fn handle_timeout(&mut self, server: &mut Server, now: u64) -> bool {
        self.notify_idle(server, now);
        self.device.generator.generate(server, now)
    }

    /// Notifies clients of idle entries, if it is time.
    fn notify_idle(&mut self, server: &mut Server, now: u64) {
        if self.next_idle_check.is_none_or(|due| due > now) {
            return;
        }
        self.next_idle_check = None;
        self.schedule_idle_check(now);
        let Some(program) = self.program.clone() else {
            return;
        };
        let switch = server.switch();
        let tables = self.device.ageing.iter_mut();
        let notifications: Vec<IdleTimeoutNotification> = tables
            .filter(|(_, ageing)| ageing.is_enabled())
            .filter_map(|(id, ageing)| {
                let found = MatchTable::new(program.table(*id)?, switch).ok()?;
                Some(changes(switch, &found, ageing, now))
            })
            .flatten()
            .collect();
        for notification in notifications {
            let kind = notification.r#type();
            self.notify(
                |wishes| match kind {
                    NotificationType::EntryActive => wishes.enable_entry_active_notifications,
                    NotificationType::EntryIdle => wishes.enable_idletimeout_notifications,
                },
                Sent::IdleTimeoutNotification(notification),
            );
        }
    }
}

/// The notifications of entries of a table that have become idle, or were hit again.
fn changes(
    switch: &Switch,
    table: &MatchTable,
    ageing: &mut Ageing,
    now: u64,
) -> Vec<IdleTimeoutNotification> {
    let handles = switch.entry_handles(table.id).unwrap_or_default();
    let entries = handles.into_iter();
    let entries = entries.filter_map(|handle| switch.entry(table.id, handle).ok());
    let changes = entries.filter_map(|entry| {
        let kind = ageing.change(&entry, now)?;
        let entry = TableEntry {
            table_id: table.table.id,
            value: Some(Key::Key(table.key_of(&entry))),
            ..TableEntry::default()
        };
        Some(IdleTimeoutNotification {
            target: Some(own_pipe()),
            table_entry: Some(entry),
            r#type: kind.into(),
        })
    });
    changes.collect()
}

/// The target of notifications: the only pipe.
fn own_pipe() -> TargetDevice {
    TargetDevice {
        device_id: 0,
        pipe_id: PIPE,
        direction: ALL,
        prsr_id: ALL,
    }
}
