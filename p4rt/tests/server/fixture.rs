//! A server that runs a small program with one object of each kind: `test_data/p4runtime.p4`.

use std::{path::Path, sync::OnceLock};

use alfirk_bmv2::{QueueState, Switch, SwitchOptions};
use alfirk_compiler::driver::{compile, CompileOptions, Compiled};
use alfirk_p4rt::{ClientId, Event, Programs, Server};
use alfirk_p4runtime::{
    p4::{config::v1::P4Info, v1::*},
    text, Status,
};

pub const DEVICE: u64 = 7;
pub const CPU_PORT: u32 = 510;

pub const L2: u32 = 0x0200_0001;
pub const ROUTES: u32 = 0x0200_0002;
pub const ACL: u32 = 0x0200_0003;
pub const ECMP: u32 = 0x0200_0004;
pub const KINDS: u32 = 0x0200_0005;
/// Id of `NoAction`, derived from its name in every program.
pub const NO_ACTION: u32 = 21_257_015;
pub const FORWARD: u32 = 0x0100_0002;
pub const FLOOD: u32 = 0x0100_0003;
pub const DROP: u32 = 0x0100_0004;
pub const LEARN: u32 = 0x0100_0005;
pub const MISS: u32 = 0x0100_0006;
pub const SELECTOR: u32 = 0x1100_0001;
pub const COUNTER: u32 = 0x1200_0001;
pub const METER: u32 = 0x1400_0001;
pub const REGISTER: u32 = 0x1600_0001;
/// Id derived from the name, since structs take no `@id`.
pub const DIGEST: u32 = 389_049_336;
pub const VALUE_SET: u32 = 0x0300_0001;

/// Compiles a program of this crate.
pub fn compiled(source: &str) -> Compiled {
    let rooms = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut options = CompileOptions::new(rooms.join("p4rt").join(source));
    let include = rooms.join("p4include");
    options.preprocessor.include_dirs.push(include);
    compile(&options).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns `test_data/p4runtime.p4`, compiled once.
fn program() -> &'static Compiled {
    static COMPILED: OnceLock<Compiled> = OnceLock::new();
    COMPILED.get_or_init(|| compiled("test_data/p4runtime.p4"))
}

/// Returns its BMv2 JSON.
pub fn device_config() -> String {
    program().json.to_text()
}

/// Returns its P4Info.
pub fn p4info() -> P4Info {
    program().p4info.clone()
}

pub fn config() -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4info: Some(p4info()),
        p4_device_config: device_config().into_bytes().into(),
        cookie: Some(forwarding_pipeline_config::Cookie { cookie: 99 }),
    }
}

pub fn id(low: u64) -> Option<Uint128> {
    Some(Uint128 { high: 0, low })
}

/// Creates a server without a pipeline.
pub fn bare() -> Server {
    sharing(&Programs::default())
}

/// Creates a server without a pipeline, which shares the cache `programs` with others.
fn sharing(programs: &Programs) -> Server {
    let switch = Switch::new(SwitchOptions {
        device_id: DEVICE,
        cpu_port: Some(CPU_PORT),
        ..SwitchOptions::default()
    });
    Server::with_programs(switch, programs.clone())
}

/// A server with a primary, which sends all requests of the tests.
pub struct Fixture {
    pub server: Server,
    pub primary: ClientId,
    /// Election id of the primary, which its requests have.
    pub election_id: Option<Uint128>,
    pub now: u64,
}

impl Fixture {
    /// Creates a fixture with the program running.
    pub fn new() -> Fixture {
        let mut fixture = Fixture::without_pipeline();
        fixture
            .set_pipeline(
                set_forwarding_pipeline_config_request::Action::VerifyAndCommit,
                Some(config()),
            )
            .unwrap();
        fixture
    }

    pub fn without_pipeline() -> Fixture {
        Fixture::sharing(&Programs::default())
    }

    /// Creates a fixture without a pipeline, whose server shares the cache `programs` with others.
    pub fn sharing(programs: &Programs) -> Fixture {
        let mut server = sharing(programs);
        let primary = server.stream_open();
        server.stream_message(primary, arbitration(id(1)), 0);
        while server.poll().is_some() {}
        Fixture {
            server,
            primary,
            election_id: id(1),
            now: 0,
        }
    }

    pub fn set_pipeline(
        &mut self,
        action: set_forwarding_pipeline_config_request::Action,
        config: Option<ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        let request = SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: self.election_id,
            action: action.into(),
            config,
            ..Default::default()
        };
        self.server
            .set_forwarding_pipeline_config(&request, self.now)
            .map(|_| ())
    }

    pub fn write_all(
        &mut self,
        atomicity: write_request::Atomicity,
        updates: Vec<Update>,
    ) -> Result<(), Status> {
        let request = self.write_request(atomicity, updates);
        self.server.write(&request, self.now).map(|_| ())
    }

    /// Sends a write request of the primary.
    pub fn write_request(
        &self,
        atomicity: write_request::Atomicity,
        updates: Vec<Update>,
    ) -> WriteRequest {
        WriteRequest {
            device_id: DEVICE,
            election_id: self.election_id,
            updates,
            atomicity: atomicity.into(),
            ..Default::default()
        }
    }

    /// Writes one update in text format, such as `table_entry { ... }`; the error is that of the update.
    pub fn write(&mut self, kind: update::Type, entity: &str) -> Result<(), Error> {
        let result = self.write_all(Default::default(), vec![update(kind, entity)]);
        result.map_err(|status| {
            status
                .update_errors()
                .into_iter()
                .next()
                .unwrap_or_else(|| status.into())
        })
    }

    pub fn insert(&mut self, entity: &str) -> Result<(), Error> {
        self.write(update::Type::Insert, entity)
    }

    pub fn modify(&mut self, entity: &str) -> Result<(), Error> {
        self.write(update::Type::Modify, entity)
    }

    pub fn delete(&mut self, entity: &str) -> Result<(), Error> {
        self.write(update::Type::Delete, entity)
    }

    pub fn try_read(&self, entity: &str) -> Result<Vec<Entity>, Error> {
        let request = ReadRequest {
            device_id: DEVICE,
            entities: vec![text::parse(entity).unwrap()],
            ..Default::default()
        };
        let result = self
            .server
            .read(&request, self.now)
            .map(|response| response.entities);
        result.map_err(|status| {
            status
                .update_errors()
                .into_iter()
                .next()
                .unwrap_or_else(|| status.into())
        })
    }

    /// Reads entities; the filter is in text format.
    pub fn read(&self, entity: &str) -> Vec<Entity> {
        self.try_read(entity).unwrap()
    }

    /// Processes a frame, and returns the frames and messages that result.
    pub fn packet(
        &mut self,
        port: u32,
        frame: &[u8],
    ) -> (Vec<(u32, Vec<u8>)>, Vec<StreamMessageResponse>) {
        self.server.frame_in(port, frame, self.now);
        self.settle()
    }

    pub fn settle(&mut self) -> (Vec<(u32, Vec<u8>)>, Vec<StreamMessageResponse>) {
        let (mut frames, mut messages) = (Vec::new(), Vec::new());
        while let Some(event) = self.server.poll() {
            match event {
                Event::Enqueue(packet) => {
                    self.server.dequeue(packet, self.now, QueueState::default())
                }
                Event::Output { port, frame } => frames.push((port, frame.into_bytes())),
                Event::Stream { message, .. } => messages.push(*message),
                Event::Close { client, status } => panic!("{client:?} is closed: {status}"),
            }
        }
        (frames, messages)
    }

    /// Processes a frame, and returns the egress ports of the resulting frames.
    pub fn ports(&mut self, port: u32, frame: &[u8]) -> Vec<u32> {
        self.packet(port, frame)
            .0
            .into_iter()
            .map(|(port, _)| port)
            .collect()
    }

    pub fn message(&mut self, update: stream_message_request::Update) {
        let message = StreamMessageRequest {
            update: Some(update),
        };
        self.server.stream_message(self.primary, message, self.now);
    }
}

pub fn arbitration(election_id: Option<Uint128>) -> StreamMessageRequest {
    StreamMessageRequest {
        update: Some(stream_message_request::Update::Arbitration(
            MasterArbitrationUpdate {
                device_id: DEVICE,
                election_id,
                ..Default::default()
            },
        )),
    }
}

pub fn entity(text: &str) -> Entity {
    text::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub fn update(kind: update::Type, text: &str) -> Update {
    Update {
        r#type: kind.into(),
        entity: Some(entity(text)),
    }
}

/// Returns an entry of `l2` that forwards `dst` to `port`, with more fields of the entry appended.
pub fn l2(dst: u8, port: u8, more: &str) -> String {
    format!(
        r#"table_entry {{ table_id: {L2} match {{ field_id: 1 exact {{ value: "\x{dst:02x}" }} }}
           action {{ action {{ action_id: {FORWARD} params {{ param_id: 1 value: "\x{port:02x}" }} }} }} {more} }}"#
    )
}

/// Returns a frame to a host whose address is one byte.
pub fn frame(dst: u8) -> Vec<u8> {
    kind_frame(dst, 0x0800)
}

pub fn kind_frame(dst: u8, kind: u16) -> Vec<u8> {
    let mut frame = vec![0, 0, 0, 0, 0, dst, 0, 0, 0, 0, 0, 0xee];
    frame.extend(kind.to_be_bytes());
    frame.extend(b"payload");
    frame
}

pub fn code(error: &Error) -> alfirk_p4runtime::Code {
    error.to_status().canonical_code()
}

/// Asserts that an update is rejected with a code and a message that contains `why`.
#[track_caller]
pub fn assert_rejected(result: Result<(), Error>, expected: alfirk_p4runtime::Code, why: &str) {
    let error = result.expect_err("the update must be rejected");
    assert_eq!(code(&error), expected, "{}", error.message);
    assert!(error.message.contains(why), "{}", error.message);
}
