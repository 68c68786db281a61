//! The controller's P4Runtime requests in BfRuntime (`alfirk_ctrl::bfrt`), executed by this server.

use alfirk_bf_rt_json::Schema;
use alfirk_ctrl::bfrt::{Translation, TranslationError};
use alfirk_p4runtime::p4::config::v1::P4Info;
use alfirk_p4runtime::p4::v1::{
    self, entity::Entity as Kind, field_match, packet_replication_engine_entry::Type as Pre,
    replica::PortKind, table_action, Entity,
};
use alfirk_p4runtime::{Code, Message, Status};

use super::{program, schema, Fixture, CLIENT, NAME};

struct Controlled {
    fixture: Fixture,
    translation: Translation,
}

impl Controlled {
    fn new() -> Controlled {
        let fixture = Fixture::new();
        let schemas = fixture.service.get_pipeline();
        let device = schemas.non_p4_config.unwrap().bfruntime_info;
        let device = Schema::parse(&device).unwrap();
        let p4info = &program().p4info;
        let translation = Translation::new(p4info, schema(), &device, CLIENT, NAME).unwrap();
        Controlled {
            fixture,
            translation,
        }
    }

    /// Executes a Write; returns the code of each update.
    fn write(&mut self, updates: &[v1::Update]) -> Vec<Code> {
        let request = v1::WriteRequest {
            updates: updates.to_vec(),
            ..Default::default()
        };
        let written = self.translation.write(&request);
        let Fixture {
            server, service, ..
        } = &mut self.fixture;
        let result = service.write(server, &written.request, Default::default(), &[], 0);
        match self.translation.written(&written, result) {
            Ok(()) => vec![Code::Ok; updates.len()],
            Err(status) => codes(&status),
        }
    }

    fn read(&mut self, kind: Kind) -> Result<Vec<Kind>, Status> {
        let request = v1::ReadRequest {
            entities: vec![Entity { entity: Some(kind) }],
            ..Default::default()
        };
        let request = self.translation.read(&request)?;
        let Fixture {
            server, service, ..
        } = &self.fixture;
        let (responses, outcome) = service.read(server, &request, Default::default(), &[], 0);
        outcome?;
        let entities = self.translation.entities(&responses);
        Ok(entities.into_iter().filter_map(|own| own.entity).collect())
    }

    /// The ports and replication ids of the groups of the switch, as its replication engine has them.
    fn copies(&self) -> Vec<(u32, u16, Vec<u32>)> {
        let engine = self.fixture.server.switch().pre().unwrap();
        let nodes = engine.nodes();
        let nodes = nodes.map(|(_, node)| (node.group.unwrap_or(0), node.rid, node.ports.clone()));
        let mut nodes: Vec<_> = nodes.collect();
        nodes.sort();
        nodes
    }
}

fn codes(status: &Status) -> Vec<Code> {
    let details = status.details.iter();
    let errors = details.map(|any| v1::Error::decode(&*any.value).unwrap());
    errors
        .map(|error| Code::try_from(error.canonical_code).unwrap())
        .collect()
}

fn p4info() -> &'static P4Info {
    &program().p4info
}

fn table_id(name: &str) -> u32 {
    let mut own = p4info().tables.iter().filter_map(|t| t.preamble.as_ref());
    own.find(|own| own.alias == name).unwrap().id
}

fn action_id(name: &str) -> u32 {
    let mut own = p4info().actions.iter().filter_map(|t| t.preamble.as_ref());
    own.find(|own| own.alias == name).unwrap().id
}

fn update(kind: v1::update::Type, entity: Kind) -> v1::Update {
    v1::Update {
        r#type: kind.into(),
        entity: Some(Entity {
            entity: Some(entity),
        }),
    }
}

fn insert(entity: &Kind) -> v1::Update {
    update(v1::update::Type::Insert, entity.clone())
}

fn entry(table: &str, fields: Vec<field_match::FieldMatchType>, action: &str, arg: u8) -> Kind {
    let fields = (1..).zip(fields);
    Kind::TableEntry(v1::TableEntry {
        table_id: table_id(table),
        r#match: fields
            .map(|(id, value)| v1::FieldMatch {
                field_id: id,
                field_match_type: Some(value),
            })
            .collect(),
        action: Some(v1::TableAction {
            r#type: Some(table_action::Type::Action(v1::Action {
                action_id: action_id(action),
                params: vec![v1::action::Param {
                    param_id: 1,
                    value: vec![arg],
                }],
            })),
        }),
        priority: if table == "classify" { 7 } else { 0 },
        ..Default::default()
    })
}

fn forward(dst: u8, port: u8) -> Kind {
    let key = field_match::FieldMatchType::Exact(field_match::Exact { value: vec![dst] });
    entry("forward", vec![key], "send", port)
}

fn classify(src: u8) -> Kind {
    let fields = vec![
        field_match::FieldMatchType::Ternary(field_match::Ternary {
            value: vec![src],
            mask: vec![0xff],
        }),
        field_match::FieldMatchType::Range(field_match::Range {
            low: vec![8, 0],
            high: vec![8, 6],
        }),
    ];
    entry("classify", fields, "mark", 5)
}

fn all_of(table: &str) -> Kind {
    Kind::TableEntry(v1::TableEntry {
        table_id: table_id(table),
        ..Default::default()
    })
}

fn group(id: u32, replicas: &[(u32, u32)]) -> Kind {
    let replicas = replicas.iter().map(|(instance, port)| v1::Replica {
        instance: *instance,
        #[allow(deprecated)]
        port_kind: Some(PortKind::EgressPort(*port)),
        ..Default::default()
    });
    replication(Pre::MulticastGroupEntry(v1::MulticastGroupEntry {
        multicast_group_id: id,
        replicas: replicas.collect(),
        ..Default::default()
    }))
}

fn replication(entry: Pre) -> Kind {
    Kind::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
        r#type: Some(entry),
    })
}

#[test]
fn written_entries_work_and_are_read_back() {
    let mut switch = Controlled::new();
    let entries = [forward(0xa, 2), classify(0xb)];
    assert_eq!(
        switch.write(&entries.clone().map(|e| insert(&e))),
        [Code::Ok; 2]
    );
    assert_eq!(switch.fixture.packet(1, 0xa, 0xb), [2]);
    for (table, entry) in ["forward", "classify"].into_iter().zip(entries) {
        assert_eq!(switch.read(all_of(table)), Ok(vec![entry]));
    }
    let gone = update(v1::update::Type::Delete, forward(0xa, 2));
    assert_eq!(switch.write(std::slice::from_ref(&gone)), [Code::Ok]);
    assert_eq!(switch.write(&[gone]), [Code::NotFound]);
    assert_eq!(switch.read(all_of("forward")), Ok(vec![]));
    assert!(switch.fixture.packet(1, 0xa, 0xb).is_empty());
}

#[test]
fn each_update_has_its_own_result() {
    let mut switch = Controlled::new();
    let strange = Kind::TableEntry(v1::TableEntry {
        table_id: 99,
        ..Default::default()
    });
    let wide = forward(1, 2);
    let Kind::TableEntry(mut wide) = wide else {
        unreachable!()
    };
    wide.r#match[0].field_match_type =
        Some(field_match::FieldMatchType::Exact(field_match::Exact {
            value: vec![1; 7],
        }));
    let updates = [
        insert(&forward(1, 2)),
        insert(&strange),
        insert(&forward(1, 3)),
        insert(&group(1, &[(1, 2)])),
        insert(&Kind::TableEntry(wide)),
        insert(&forward(2, 3)),
    ];
    let expected = [
        Code::Ok,
        Code::NotFound,
        Code::AlreadyExists,
        Code::Ok,
        Code::InvalidArgument,
        Code::Ok,
    ];
    assert_eq!(switch.write(&updates), expected);
    let entries = switch.read(all_of("forward")).unwrap();
    assert_eq!(entries, [forward(1, 2), forward(2, 3)]);
}

#[test]
fn groups_change_with_their_nodes() {
    use v1::update::Type::{Delete, Insert, Modify};
    let mut switch = Controlled::new();
    let mut write = |kind, group: Kind| {
        let code = switch.write(&[update(kind, group)])[0];
        (code, switch.copies())
    };
    assert_eq!(write(Modify, group(4, &[])).0, Code::NotFound);
    let (code, copies) = write(Insert, group(4, &[(0, 1), (1, 2), (1, 3)]));
    assert_eq!(code, Code::Ok);
    assert_eq!(copies, [(4, 0, vec![1]), (4, 1, vec![2, 3])]);
    assert_eq!(
        write(Insert, group(4, &[(9, 9)])),
        (Code::AlreadyExists, copies)
    );
    let (code, copies) = write(Modify, group(4, &[(1, 2), (7, 1)]));
    assert_eq!(code, Code::Ok);
    assert_eq!(copies, [(4, 1, vec![2]), (4, 7, vec![1])]);
    assert_eq!(write(Insert, group(5, &[(1, 1)])).0, Code::Ok);
    assert_eq!(
        write(Delete, group(4, &[])),
        (Code::Ok, vec![(5, 1, vec![1])])
    );
    let all = replication(Pre::MulticastGroupEntry(Default::default()));
    assert_eq!(switch.read(all), Ok(vec![group(5, &[(1, 1)])]));
}

#[test]
fn another_controller_continues_with_the_groups_of_the_switch() {
    let mut switch = Controlled::new();
    assert_eq!(switch.write(&[insert(&group(4, &[(1, 2)]))]), [Code::Ok]);
    switch.translation = Controlled::new().translation;
    let all = replication(Pre::MulticastGroupEntry(Default::default()));
    switch.read(all).unwrap();
    let changed = update(v1::update::Type::Modify, group(4, &[(2, 3)]));
    assert_eq!(switch.write(&[changed]), [Code::Ok]);
    assert_eq!(switch.copies(), [(4, 2, vec![3])]);
}

#[test]
fn mirror_sessions_and_cells_are_read_back() {
    let mut switch = Controlled::new();
    let session = |length| {
        replication(Pre::CloneSessionEntry(v1::CloneSessionEntry {
            session_id: 9,
            #[allow(deprecated)]
            replicas: vec![v1::Replica {
                port_kind: Some(PortKind::EgressPort(3)),
                ..Default::default()
            }],
            packet_length_bytes: length,
            ..Default::default()
        }))
    };
    let all = replication(Pre::CloneSessionEntry(Default::default()));
    assert_eq!(switch.write(&[insert(&session(80))]), [Code::Ok]);
    assert_eq!(switch.read(all.clone()), Ok(vec![session(80)]));
    let whole = update(v1::update::Type::Modify, session(0));
    assert_eq!(switch.write(&[whole]), [Code::Ok]);
    assert_eq!(switch.read(all), Ok(vec![session(0)]));

    switch.fixture.packet(1, 0xa, 0xb);
    let counter = p4info().counters[0].preamble.as_ref().unwrap().id;
    let index = Some(v1::Index { index: 1 });
    let cell = switch.read(Kind::CounterEntry(v1::CounterEntry {
        counter_id: counter,
        index,
        data: None,
    }));
    let [Kind::CounterEntry(cell)] = &cell.unwrap()[..] else {
        panic!("no cell");
    };
    assert_eq!((cell.index, cell.data.unwrap().packet_count), (index, 1));

    let register = p4info().registers[0].preamble.as_ref().unwrap().id;
    let cell = switch.read(Kind::RegisterEntry(v1::RegisterEntry {
        register_id: register,
        index: Some(v1::Index { index: 0 }),
        data: None,
    }));
    let [Kind::RegisterEntry(cell)] = &cell.unwrap()[..] else {
        panic!("no cell");
    };
    let Some(v1::p4_data::Data::Struct(pair)) = &cell.data.as_ref().unwrap().data else {
        panic!("{cell:?}");
    };
    let values = pair.members.iter().map(|part| part.data.clone().unwrap());
    let number = |byte| v1::p4_data::Data::Bitstring(vec![byte]);
    assert_eq!(values.collect::<Vec<_>>(), [number(1), number(0)]);
}

#[test]
fn a_schema_of_another_program_is_refused() {
    let (device, other) = (Schema::default(), Schema::default());
    let refused = Translation::new(p4info(), &other, &device, CLIENT, NAME);
    let expected = TranslationError {
        kind: "table",
        name: "Ingress.forward".to_owned(),
    };
    assert_eq!(refused.unwrap_err(), expected);
}
