//! Tests of the BfRuntime server, without gRPC: requests, packets, and random messages.

mod chip;
mod device;
mod translation;

use std::path::Path;
use std::sync::OnceLock;

use alfirk_bf_rt_json::{ids, Schema, Table, TableType};
use alfirk_bfrt::{Generation, Options, Port, Program, Service, StreamId};
use alfirk_bmv2::{Switch, SwitchOptions};
use alfirk_compiler::arch::Arch;
use alfirk_compiler::driver::{bf_rt_schema, compile, CompileOptions, Compiled};
use alfirk_compiler::preproc::DiskLoader;
use alfirk_p4rt::{Event, Programs, Server};
use alfirk_p4runtime::bfrt_proto::{
    data_field::{BoolArray, IntArray, Value},
    entity::Entity as Kind,
    key_field::{self, MatchType},
    set_forwarding_pipeline_config_request::Action,
    stream_message_response::Update as Sent,
    subscribe::Notifications,
    table_entry::Value as Key,
    update::Type,
    write_request::Atomicity,
    *,
};
use alfirk_p4runtime::{Code, Message, Status};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

const CLIENT: u32 = 3;
const NAME: &str = "bfrt";

/// Options for the program of the tests.
fn options() -> CompileOptions {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut options = CompileOptions::new(folder.join("test_data/bfrt.p4"));
    options.set_arch(Arch::TNA);
    let include = folder.join("../p4include");
    options.preprocessor.include_dirs.push(include);
    options
}

/// The program of the tests, compiled once.
fn program() -> &'static Compiled {
    static COMPILED: OnceLock<Compiled> = OnceLock::new();
    COMPILED.get_or_init(|| compile(&options()).unwrap_or_else(|error| panic!("{error}")))
}

/// The schema of the program, generated once.
fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        bf_rt_schema(&options(), &DiskLoader).unwrap_or_else(|error| panic!("{error}"))
    })
}

fn table(name: &str) -> &'static Table {
    let mut tables = schema().tables.iter();
    tables
        .find(|table| table.name == format!("pipe.Ingress.{name}"))
        .unwrap()
}

fn ports() -> Vec<Port> {
    (0..4)
        .map(|number| Port {
            number,
            interface: format!("veth{number}"),
            is_up: true,
            ..Port::default()
        })
        .collect()
}

/// A server with one client, which is bound to the program.
struct Fixture {
    server: Server,
    service: Service,
    stream: StreamId,
    /// Time of requests and packets in nanoseconds.
    now: u64,
    ports: Vec<Port>,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with(&program().json.to_text(), schema())
    }

    /// A server that runs a program in BMv2 JSON with this schema.
    fn with(json: &str, schema: &Schema) -> Fixture {
        let programs = Programs::default();
        let mut switch = Switch::new(SwitchOptions::default());
        switch.load(programs.load(json).unwrap());
        let text = schema.to_text().into_bytes();
        let known = Program::new(NAME.into(), text, json.as_bytes().to_vec()).unwrap();
        let mut server = Server::with_programs(switch, programs.clone());
        server.observe_digests();
        let mut service = Service::new(Some(known), Generation::One, programs);
        let stream = service.stream_open();
        let subscribe = Subscribe {
            notifications: Some(Notifications {
                enable_learn_notifications: true,
                enable_idletimeout_notifications: true,
                enable_entry_active_notifications: true,
                ..Default::default()
            }),
            ..Default::default()
        };
        service.stream_message(
            stream,
            StreamMessageRequest {
                client_id: CLIENT,
                update: Some(stream_message_request::Update::Subscribe(subscribe)),
            },
        );
        let mut fixture = Fixture {
            server,
            service,
            stream,
            now: 0,
            ports: ports(),
        };
        let Some(Sent::Subscribe(reply)) = fixture.sent() else {
            panic!("no reply to Subscribe");
        };
        assert_eq!(reply.status.unwrap().code, 0);
        fixture.set_pipeline(Action::Bind).unwrap();
        fixture
    }

    /// The next message on the client's stream.
    fn sent(&mut self) -> Option<Sent> {
        let message = self.service.poll()?;
        assert_eq!(message.stream, self.stream);
        message.message.update
    }

    fn set_pipeline(&mut self, action: Action) -> Result<(), Status> {
        let request = SetForwardingPipelineConfigRequest {
            client_id: CLIENT,
            action: action.into(),
            config: self.service.get_pipeline().config,
            ..Default::default()
        };
        self.service
            .set_pipeline(&mut self.server, &request)
            .map(drop)
    }

    fn write(&mut self, updates: Vec<Update>, atomicity: Atomicity) -> Result<(), Status> {
        let request = WriteRequest {
            client_id: CLIENT,
            updates,
            atomicity: atomicity.into(),
            ..Default::default()
        };
        let (server, options) = (&mut self.server, Options::default());
        let ports = &self.ports;
        let written = self
            .service
            .write(server, &request, options, ports, self.now);
        written.map(drop)
    }

    /// Writes one entry; returns the code of its error.
    fn entry(&mut self, kind: Type, entry: TableEntry) -> Result<(), Code> {
        let update = update(kind, entry);
        match self.write(vec![update], Atomicity::ContinueOnError) {
            Ok(()) => Ok(()),
            Err(status) => {
                assert_eq!(status.canonical_code(), Code::Unknown, "{status}");
                let detail = Error::decode(&*status.details[0].value).unwrap();
                Err(Code::try_from(detail.canonical_code).unwrap())
            }
        }
    }

    fn read(&self, entity: Kind) -> Result<Vec<Entity>, Status> {
        let request = ReadRequest {
            client_id: CLIENT,
            entities: vec![Entity {
                entity: Some(entity),
            }],
            ..Default::default()
        };
        let options = Options::default();
        let (parts, outcome) =
            self.service
                .read(&self.server, &request, options, &self.ports, self.now);
        outcome.map(|()| parts.into_iter().flat_map(|part| part.entities).collect())
    }

    /// Keys and data of the entries that a request reads from the memory of the chip.
    fn entries(&self, entry: TableEntry) -> Vec<TableEntry> {
        let flags = TableFlags {
            from_hw: true,
            ..Default::default()
        };
        let entry = TableEntry {
            table_flags: Some(flags),
            ..entry
        };
        let all = self.read(Kind::TableEntry(entry)).unwrap();
        let entries = all.into_iter().map(|entity| match entity.entity {
            Some(Kind::TableEntry(entry)) => entry,
            other => panic!("{other:?}"),
        });
        entries.collect()
    }

    /// Sends a frame into a port; returns the ports of the frames that leave.
    fn packet(&mut self, port: u32, dst: u64, src: u64) -> Vec<u32> {
        let mut frame = Vec::new();
        frame.extend(&dst.to_be_bytes()[2..]);
        frame.extend(&src.to_be_bytes()[2..]);
        frame.extend([0x08, 0x00]);
        frame.resize(64, 0);
        self.server.frame_in(port, &frame, self.now);
        let mut out = Vec::new();
        while let Some(event) = self.server.poll() {
            match event {
                Event::Output { port, .. } => out.push(port),
                Event::Enqueue(packet) => {
                    self.server.dequeue(packet, self.now, Default::default());
                }
                _ => {}
            }
        }
        for digest in self.server.take_digests() {
            self.service.digest(&digest);
        }
        out
    }
}

fn update(kind: Type, entry: TableEntry) -> Update {
    Update {
        r#type: kind.into(),
        entity: Some(Entity {
            entity: Some(Kind::TableEntry(entry)),
        }),
    }
}

fn exact(id: u32, value: &[u8]) -> KeyField {
    KeyField {
        field_id: id,
        match_type: Some(MatchType::Exact(key_field::Exact {
            value: value.to_vec(),
        })),
    }
}

fn stream(field_id: u32, bytes: &[u8]) -> DataField {
    DataField {
        field_id,
        value: Some(Value::Stream(bytes.to_vec())),
    }
}

fn of(table: &Table, fields: Vec<KeyField>, action: &str, data: Vec<DataField>) -> TableEntry {
    let specs = table.action_specs.iter().flatten();
    let action_id = specs
        .into_iter()
        .find(|spec| spec.name.ends_with(action) && !action.is_empty());
    TableEntry {
        table_id: table.id,
        value: (!fields.is_empty()).then_some(Key::Key(TableKey { fields })),
        data: Some(TableData {
            action_id: action_id.map_or(0, |spec| spec.id),
            fields: data,
        }),
        ..Default::default()
    }
}

/// An entry of the table `forward`.
fn forward(dst: u64, port: u8) -> TableEntry {
    let key = exact(1, &dst.to_be_bytes()[2..]);
    of(
        table("forward"),
        vec![key],
        "send",
        vec![stream(1, &[0, port])],
    )
}

#[test]
fn entry_forwards_packets_and_is_read_with_its_counter() {
    let mut fixture = Fixture::new();
    assert!(fixture.packet(1, 0xa, 0xb).is_empty());
    assert_eq!(fixture.entry(Type::Insert, forward(0xa, 2)), Ok(()));
    assert_eq!(fixture.packet(1, 0xa, 0xb), [2]);
    let entries = fixture.entries(of(table("forward"), vec![], "", vec![]));
    let [entry] = &entries[..] else {
        panic!("{entries:?}");
    };
    assert_eq!(entry.value, forward(0xa, 2).value);
    let data = entry.data.as_ref().unwrap();
    assert!(data.fields.contains(&stream(1, &[0, 2])));
    let packets = 1u64.to_be_bytes();
    assert!(data.fields.contains(&stream(ids::COUNTER_PKTS, &packets)));
    // The chip counts the frame check sequence.
    let bytes = 68u64.to_be_bytes();
    assert!(data.fields.contains(&stream(ids::COUNTER_BYTES, &bytes)));
    let handle = TableEntry {
        data: None,
        ..forward(0xa, 2)
    };
    assert_eq!(fixture.entry(Type::Delete, handle), Ok(()));
    assert!(fixture.packet(1, 0xa, 0xb).is_empty());
}

#[test]
fn parameter_without_a_value_is_0() {
    let mut fixture = Fixture::new();
    let key = KeyField {
        field_id: 1,
        match_type: Some(MatchType::Ternary(key_field::Ternary {
            value: vec![0; 6],
            mask: vec![0xff; 6],
        })),
    };
    let no_data = of(table("classify"), vec![key], "mark", vec![]);
    assert_eq!(fixture.entry(Type::Insert, no_data), Ok(()));
    let entries = fixture.entries(of(table("classify"), vec![], "", vec![]));
    let data = entries[0].data.as_ref().unwrap();
    assert_eq!(data.fields, [stream(1, &[0, 0])]);
}

#[test]
fn refusals_have_the_codes_that_clients_map_to_exceptions() {
    let mut fixture = Fixture::new();
    for dst in 0..4 {
        assert_eq!(fixture.entry(Type::Insert, forward(dst, 1)), Ok(()));
    }
    let mut refused = |kind, entry| fixture.entry(kind, entry).unwrap_err();
    assert_eq!(refused(Type::Insert, forward(0, 1)), Code::AlreadyExists);
    assert_eq!(
        refused(Type::Insert, forward(9, 1)),
        Code::ResourceExhausted
    );
    assert_eq!(refused(Type::Delete, forward(9, 1)), Code::NotFound);
    assert_eq!(refused(Type::Modify, forward(9, 1)), Code::NotFound);
    let unknown = TableEntry {
        table_id: 77,
        ..forward(9, 1)
    };
    assert_eq!(refused(Type::Insert, unknown), Code::NotFound);
    let wide = of(
        table("forward"),
        vec![exact(1, &[0; 6])],
        "send",
        vec![stream(1, &[2, 0])],
    );
    assert_eq!(refused(Type::Modify, wide), Code::InvalidArgument);
    let default_only = of(table("forward"), vec![exact(1, &[0; 6])], "drop", vec![]);
    assert_eq!(refused(Type::Modify, default_only), Code::InvalidArgument);
}

#[test]
fn failed_atomic_batch_changes_nothing() {
    let mut fixture = Fixture::new();
    let batch = || {
        vec![
            update(Type::Insert, forward(1, 1)),
            update(Type::Delete, forward(5, 1)),
            update(Type::Insert, forward(2, 1)),
        ]
    };
    fixture
        .write(batch(), Atomicity::RollbackOnError)
        .unwrap_err();
    let all = || of(table("forward"), vec![], "", vec![]);
    assert!(fixture.entries(all()).is_empty());
    let status = fixture
        .write(batch(), Atomicity::ContinueOnError)
        .unwrap_err();
    let codes = status.details.iter();
    let codes: Vec<i32> = codes
        .map(|detail| Error::decode(&*detail.value).unwrap().canonical_code)
        .collect();
    assert_eq!(codes, [0, Code::NotFound as i32, 0]);
    assert_eq!(fixture.entries(all()).len(), 2);
}

#[test]
fn registers_have_their_parts_as_fields() {
    let mut fixture = Fixture::new();
    let cell = |index: u8| vec![exact(ids::REGISTER_INDEX, &[0, 0, 0, index])];
    let values = vec![stream(1, &[0, 0, 0, 7]), stream(2, &[0, 0, 1, 0])];
    let entry = of(table("pairs"), cell(0), "", values.clone());
    assert_eq!(fixture.entry(Type::Modify, entry), Ok(()));
    fixture.packet(1, 0xa, 0xb);
    let read = fixture.entries(of(table("pairs"), cell(0), "", vec![]));
    let fields = &read[0].data.as_ref().unwrap().fields;
    assert_eq!(fields[..], [stream(1, &[0, 0, 0, 8]), values[1].clone()]);
    let beyond = of(table("pairs"), cell(16), "", values);
    assert_eq!(
        fixture.entry(Type::Modify, beyond),
        Err(Code::InvalidArgument)
    );
}

#[test]
fn groups_choose_members_whose_digests_reach_the_client() {
    let mut fixture = Fixture::new();
    let member = of(
        table("members"),
        vec![exact(ids::ACTION_MEMBER_ID, &[0, 0, 0, 5])],
        "learn",
        vec![],
    );
    assert_eq!(fixture.entry(Type::Insert, member), Ok(()));
    let list = |values: &[u32]| DataField {
        field_id: ids::ACTION_MEMBER_ID,
        value: Some(Value::IntArrVal(IntArray {
            val: values.to_vec(),
        })),
    };
    let states = DataField {
        field_id: ids::ACTION_MEMBER_STATUS,
        value: Some(Value::BoolArrVal(BoolArray { val: vec![true] })),
    };
    let group = |data| {
        let key = vec![exact(ids::SELECTOR_GROUP_ID, &[0, 0, 0, 1])];
        of(table("groups"), key, "", data)
    };
    assert_eq!(
        fixture.entry(Type::Insert, group(vec![list(&[6]), states.clone()])),
        Err(Code::NotFound)
    );
    assert_eq!(
        fixture.entry(Type::Insert, group(vec![list(&[5]), states])),
        Ok(())
    );
    let choice = of(
        table("choose"),
        vec![exact(1, &[0, 0])],
        "",
        vec![stream(ids::SELECTOR_GROUP_ID, &[0, 0, 0, 1])],
    );
    assert_eq!(fixture.entry(Type::Insert, choice), Ok(()));
    assert_eq!(fixture.entry(Type::Insert, forward(0xa, 2)), Ok(()));
    fixture.packet(3, 0xa, 0xb);
    let Some(Sent::Digest(digest)) = fixture.sent() else {
        panic!("no digest");
    };
    assert_eq!(digest.digest_id, schema().learn_filters[0].id);
    assert_eq!(
        digest.data[0].fields,
        [stream(1, &[0, 0, 0, 0, 0, 0xb]), stream(2, &[0, 3])]
    );
}

#[test]
fn loading_a_pipeline_clears_the_tables_and_answers_on_the_stream() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.entry(Type::Insert, forward(0xa, 2)), Ok(()));
    fixture
        .set_pipeline(Action::VerifyAndWarmInitBeginAndEnd)
        .unwrap();
    assert!(matches!(
        fixture.sent(),
        Some(Sent::SetForwardingPipelineConfigResponse(_))
    ));
    let all = of(table("forward"), vec![], "", vec![]);
    assert!(fixture.entries(all).is_empty());
}

#[test]
fn client_that_is_not_bound_can_neither_read_nor_write() {
    let mut fixture = Fixture::new();
    fixture.service.stream_close(fixture.stream);
    let read = fixture.read(Kind::TableUsage(TableUsage::default()));
    assert_eq!(read.unwrap_err().canonical_code(), Code::FailedPrecondition);
}

/// Random messages, whose ids are mostly valid, neither panic nor leave the server without an answer.
#[test]
fn random_messages_are_answered() {
    let device = Schema::parse(
        &Fixture::new()
            .service
            .get_pipeline()
            .non_p4_config
            .unwrap()
            .bfruntime_info,
    );
    let device = device.unwrap();
    let tables: Vec<&Table> = schema().tables.iter().chain(&device.tables).collect();
    let mut chance = ChaCha8Rng::seed_from_u64(7);
    let mut fixture = Fixture::new();
    for _ in 0..4000 {
        let table = tables[chance.next_u32() as usize % tables.len()];
        if matches!(table.table_type, TableType::Other(_)) {
            continue;
        }
        let entry = random_entry(&mut chance, table);
        let kind = Type::try_from(chance.next_u32() as i32 % 7).unwrap_or(Type::Insert);
        let atomicity = match chance.next_u32() % 16 {
            0 => Atomicity::RollbackOnError,
            _ => Atomicity::ContinueOnError,
        };
        let _ = fixture.write(vec![update(kind, entry.clone())], atomicity);
        if chance.next_u32() % 4 == 0 {
            let _ = fixture.read(Kind::TableEntry(entry));
        }
        if chance.next_u32() % 16 == 0 {
            let source = u64::from(chance.next_u32() % 4);
            fixture.packet(chance.next_u32() % 4, source, source);
        }
        while fixture.service.poll().is_some() {}
    }
}

fn random_bytes(chance: &mut ChaCha8Rng, bits: Option<u32>) -> Vec<u8> {
    let length = match chance.next_u32() % 8 {
        0 => chance.next_u32() % 10,
        _ => bits.unwrap_or(8).div_ceil(8),
    };
    // Small numbers, so that entries meet.
    let mut bytes = vec![0; length as usize];
    if let Some(last) = bytes.last_mut() {
        *last = match chance.next_u32() % 8 {
            0 => chance.next_u32() as u8,
            _ => chance.next_u32() as u8 % 4,
        };
    }
    bytes
}

fn random_entry(chance: &mut ChaCha8Rng, table: &Table) -> TableEntry {
    let mut fields = Vec::new();
    for field in &table.key {
        let bits = field.ty.bits();
        let value = random_bytes(chance, bits);
        let other = random_bytes(chance, bits);
        let match_type = match chance.next_u32() % 8 {
            0 => None,
            1 => Some(MatchType::Lpm(key_field::Lpm {
                value,
                prefix_len: chance.next_u32() as i32 % 50,
            })),
            2 => Some(MatchType::Range(key_field::Range {
                low: value,
                high: other,
            })),
            3 => Some(MatchType::Ternary(key_field::Ternary {
                value,
                mask: other,
            })),
            _ => Some(MatchType::Exact(key_field::Exact { value })),
        };
        fields.push(KeyField {
            field_id: field.id + u32::from(chance.next_u32() % 32 == 0),
            match_type,
        });
    }
    let specs: Vec<u32> = table
        .action_specs
        .iter()
        .flatten()
        .map(|spec| spec.id)
        .collect();
    let mut data: Vec<u32> = table.data_fields().map(|(_, field)| field.id).collect();
    data.extend([1, 2]);
    let action_id = match specs.is_empty() || chance.next_u32() % 8 == 0 {
        true => 0,
        false => specs[chance.next_u32() as usize % specs.len()],
    };
    let fields_of_data = (0..chance.next_u32() % 4).map(|_| {
        let field_id = data[chance.next_u32() as usize % data.len()];
        let number = chance.next_u32() % 4;
        let bits = table.data_fields().find(|(_, field)| field.id == field_id);
        let bits = bits.and_then(|(_, field)| match &field.content {
            alfirk_bf_rt_json::FieldContent::Type(ty) => ty.bits(),
            alfirk_bf_rt_json::FieldContent::Container(_) => None,
        });
        let value = match chance.next_u32() % 6 {
            0 => Value::BoolVal(number % 2 == 0),
            1 => Value::IntArrVal(IntArray {
                val: vec![number, number / 2],
            }),
            2 => Value::BoolArrVal(BoolArray {
                val: vec![true, false],
            }),
            3 => Value::FloatVal(f32::from_bits(chance.next_u32())),
            _ => Value::Stream(random_bytes(chance, bits)),
        };
        DataField {
            field_id,
            value: Some(value),
        }
    });
    let fields_of_data = fields_of_data.collect();
    TableEntry {
        table_id: table.id,
        value: (chance.next_u32() % 16 != 0).then_some(Key::Key(TableKey { fields })),
        data: Some(TableData {
            action_id,
            fields: fields_of_data,
        }),
        is_default_entry: chance.next_u32() % 16 == 0,
        table_flags: Some(TableFlags {
            mod_del: chance.next_u32() % 2 == 0,
            ..Default::default()
        }),
        ..Default::default()
    }
}
