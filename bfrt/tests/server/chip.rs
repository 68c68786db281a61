//! Tests of what the chip has besides tables: scopes, copies of the driver, ageing, key masks, port metadata, filters.

use alfirk_bf_rt_json::{ids, Table, TableType};
use alfirk_p4runtime::bfrt_proto::{
    data_field::Value,
    entity::Entity as Kind,
    idle_table::IdleTableMode,
    idle_timeout_notification::NotificationType,
    key_field::{MatchType, Ternary},
    mode::PredefinedMode,
    mode::Scope,
    set_forwarding_pipeline_config_request::{Action, DevInitMode},
    stream_message_response::Update as Sent,
    table_attribute::Attribute,
    table_entry::Value as Key,
    update::Type,
    write_request::Atomicity,
    ByteCountAdj, DataField, DynKeyMask, Entity, EntryScope, IdleTable, KeyField, KeyFieldMask,
    Mode, SetForwardingPipelineConfigRequest, TableAttribute, TableEntry, TableFlags,
    TableOperation, TargetDevice, Update,
};
use alfirk_p4runtime::Code;

use super::{exact, forward, of, schema, stream, table, Fixture};

const MS: u64 = 1_000_000;

fn entity(kind: Kind) -> Entity {
    Entity { entity: Some(kind) }
}

fn attribute_update(table: &Table, attribute: Attribute) -> Update {
    let kind = Kind::TableAttribute(TableAttribute {
        table_id: table.id,
        attribute: Some(attribute),
    });
    Update {
        r#type: Type::Modify.into(),
        entity: Some(entity(kind)),
    }
}

impl Fixture {
    fn set(&mut self, table: &Table, attribute: Attribute) -> Result<(), Code> {
        let update = attribute_update(table, attribute);
        let written = self.write(vec![update], Atomicity::ContinueOnError);
        written.map_err(|status| {
            let detail: alfirk_p4runtime::bfrt_proto::Error =
                alfirk_p4runtime::Message::decode(&*status.details[0].value).unwrap();
            Code::try_from(detail.canonical_code).unwrap()
        })
    }

    fn attribute(&self, table: &Table, which: Attribute) -> Attribute {
        let request = Kind::TableAttribute(TableAttribute {
            table_id: table.id,
            attribute: Some(which),
        });
        let mut read = self.read(request).unwrap().into_iter();
        match read.next().and_then(|entity| entity.entity) {
            Some(Kind::TableAttribute(found)) => found.attribute.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn operation(&mut self, table: &Table, operation: &str) {
        let kind = Kind::TableOperation(TableOperation {
            table_id: table.id,
            table_operations_type: operation.to_owned(),
        });
        let update = Update {
            r#type: Type::Modify.into(),
            entity: Some(entity(kind)),
        };
        self.write(vec![update], Atomicity::ContinueOnError)
            .unwrap();
    }

    fn load(&mut self, action: Action, mode: DevInitMode) {
        let config = match action {
            Action::WarmInitEnd => Vec::new(),
            _ => self.service.get_pipeline().config,
        };
        let request = SetForwardingPipelineConfigRequest {
            client_id: super::CLIENT,
            action: action.into(),
            dev_init_mode: mode.into(),
            config,
            ..Default::default()
        };
        self.service
            .set_pipeline(&mut self.server, &request)
            .unwrap();
    }

    /// The data fields of an entry, from the memory of the chip or from the driver's copy.
    fn fields(&self, entry: &TableEntry, from_hw: bool) -> Vec<DataField> {
        let request = TableEntry {
            data: None,
            table_flags: Some(TableFlags {
                from_hw,
                ..Default::default()
            }),
            ..entry.clone()
        };
        let read = self.read(Kind::TableEntry(request)).unwrap();
        let Some(Kind::TableEntry(read)) = &read[0].entity else {
            panic!("{read:?}");
        };
        read.data.as_ref().unwrap().fields.clone()
    }
}

/// An entry of a table whose key is the destination address.
fn by_destination(name: &str, dst: u64, action: &str, data: Vec<DataField>) -> TableEntry {
    let key = exact(1, &dst.to_be_bytes()[2..]);
    of(table(name), vec![key], action, data)
}

fn packets(count: u64) -> DataField {
    stream(ids::COUNTER_PKTS, &count.to_be_bytes())
}

#[test]
fn the_driver_copies_counters_only_on_request() {
    let mut fixture = Fixture::new();
    let entry = forward(0xa, 2);
    fixture.entry(Type::Insert, entry.clone()).unwrap();
    fixture.packet(1, 0xa, 0xb);
    assert!(fixture.fields(&entry, true).contains(&packets(1)));
    assert!(fixture.fields(&entry, false).contains(&packets(0)));
    fixture.operation(table("forward"), "SyncCounters");
    assert!(fixture.fields(&entry, false).contains(&packets(1)));
    fixture.packet(1, 0xa, 0xb);
    assert!(fixture.fields(&entry, false).contains(&packets(1)));
    // A deleted entry leaves nothing to the next one with its key.
    fixture.entry(Type::Delete, entry.clone()).unwrap();
    fixture.entry(Type::Insert, entry.clone()).unwrap();
    assert!(fixture.fields(&entry, false).contains(&packets(0)));
}

#[test]
fn registers_start_with_their_initial_values_and_return_to_them() {
    let mut fixture = Fixture::new();
    let register = table("initial");
    let cell = of(
        register,
        vec![exact(ids::REGISTER_INDEX, &[0, 0, 0, 3])],
        "",
        vec![],
    );
    let value = |low: u8, high: u8| vec![stream(1, &[0, 0, 0, low]), stream(2, &[0, 0, 0, high])];
    assert_eq!(fixture.fields(&cell, true), value(5, 7));
    assert_eq!(fixture.fields(&cell, false), value(5, 7));
    let written = TableEntry {
        data: of(register, vec![], "", value(8, 9)).data,
        ..cell.clone()
    };
    fixture.entry(Type::Insert, written).unwrap();
    assert_eq!(fixture.fields(&cell, false), value(8, 9));
    let all = of(register, vec![], "", vec![]);
    fixture.entry(Type::Delete, all).unwrap();
    assert_eq!(fixture.fields(&cell, true), value(5, 7));
}

#[test]
fn direct_registers_of_an_entry_are_set_when_it_is_inserted() {
    let mut fixture = Fixture::new();
    let fields = |entry: &TableEntry, fixture: &Fixture| {
        let mut fields = fixture.fields(entry, true);
        fields
            .retain(|field| matches!(&field.value, Some(Value::Stream(bytes)) if bytes.len() == 4));
        fields
    };
    let own = table("remembered");
    let of_cell = |wanted: &str| {
        let mut all = own.data_fields();
        all.find(|(_, field)| field.name.ends_with(wanted))
            .unwrap()
            .1
            .id
    };
    let cell = |low: u8, high: u8| {
        let (first, second) = (of_cell("low"), of_cell("high"));
        vec![
            stream(first, &[0, 0, 0, low]),
            stream(second, &[0, 0, 0, high]),
        ]
    };
    let plain = by_destination("remembered", 0xa, "remember", vec![]);
    fixture.entry(Type::Insert, plain.clone()).unwrap();
    assert_eq!(fields(&plain, &fixture), cell(1, 2));
    fixture.packet(1, 0xa, 0xb);
    assert_eq!(fields(&plain, &fixture), cell(2, 2));
    fixture.entry(Type::Delete, plain).unwrap();
    // The first packet does not reset what the client has set.
    let set = by_destination("remembered", 0xb, "remember", cell(8, 9));
    fixture.entry(Type::Insert, set.clone()).unwrap();
    fixture.packet(1, 0xb, 0xb);
    assert_eq!(fields(&set, &fixture), cell(9, 9));
}

#[test]
fn a_key_mask_ignores_bits_of_entries_and_packets() {
    let mut fixture = Fixture::new();
    let own = table("forward");
    let mask = |mask: [u8; 6]| {
        Attribute::DynKeyMask(DynKeyMask {
            fields: vec![KeyFieldMask {
                field_id: 1,
                mask: mask.to_vec(),
            }],
        })
    };
    let low = [0, 0, 0, 0, 0, 0xff];
    fixture.entry(Type::Insert, forward(0x10a, 2)).unwrap();
    assert_eq!(fixture.set(own, mask(low)), Err(Code::InvalidArgument));
    fixture.entry(Type::Delete, forward(0x10a, 2)).unwrap();
    fixture.set(own, mask(low)).unwrap();
    assert_eq!(fixture.attribute(own, mask([0; 6])), mask(low));
    fixture.entry(Type::Insert, forward(0x10a, 2)).unwrap();
    assert_eq!(
        fixture.entry(Type::Insert, forward(0x20a, 3)),
        Err(Code::AlreadyExists)
    );
    assert_eq!(fixture.packet(1, 0x50a, 1), [2]);
    assert!(fixture.packet(1, 0x10b, 1).is_empty());
    let all = of(own, vec![], "", vec![]);
    fixture.entry(Type::Delete, all).unwrap();
    fixture.set(own, mask([0xff; 6])).unwrap();
    fixture.entry(Type::Insert, forward(0x10a, 2)).unwrap();
    assert!(fixture.packet(1, 0x50a, 1).is_empty());
    // Tables without the attribute refuse it.
    assert_eq!(
        fixture.set(table("detect"), mask(low)),
        Err(Code::InvalidArgument)
    );
}

#[test]
fn metadata_of_a_port_reaches_its_packets() {
    let mut fixture = Fixture::new();
    let mut tables = schema().tables.iter();
    let own = tables
        .find(|table| table.table_type == TableType::PortMetadata)
        .unwrap();
    let port = |number: u8| exact(ids::PORT_METADATA_PORT, &[0, number]);
    let entry = |number: u8, group: u8| {
        let data = vec![stream(1, &[0, group]), stream(2, &[1, 2, 3, 4])];
        of(own, vec![port(number)], "", data)
    };
    // Above a level of 1, packets are dropped.
    let thresholds = vec![
        stream(ids::WRED_MIN, &[0, 0, 0, 0]),
        stream(ids::WRED_MAX, &[0, 0, 0, 1]),
        DataField {
            field_id: ids::WRED_PROBABILITY,
            value: Some(Value::FloatVal(0.0)),
        },
    ];
    fixture.entry(Type::Insert, forward(0xa, 2)).unwrap();
    let limit = by_destination("detect", 0xa, "limit", thresholds.clone());
    fixture.entry(Type::Insert, limit.clone()).unwrap();
    for field in &thresholds {
        assert!(fixture.fields(&limit, true).contains(field), "{field:?}");
    }
    assert_eq!(fixture.packet(1, 0xa, 0xb), [2]);
    fixture.entry(Type::Insert, entry(1, 3)).unwrap();
    assert!(fixture.packet(1, 0xa, 0xb).is_empty());
    assert_eq!(fixture.packet(2, 0xa, 0xb), [2]);
    assert_eq!(
        fixture.entry(Type::Insert, entry(1, 3)),
        Err(Code::AlreadyExists)
    );
    assert_eq!(
        fixture.entry(Type::Modify, entry(2, 3)),
        Err(Code::NotFound)
    );
    fixture.entry(Type::Modify, entry(1, 0)).unwrap();
    assert_eq!(fixture.entries(of(own, vec![], "", vec![])).len(), 1);
    assert_eq!(fixture.packet(1, 0xa, 0xb), [2]);
    fixture.entry(Type::Modify, entry(1, 3)).unwrap();
    fixture
        .entry(Type::Delete, of(own, vec![], "", vec![]))
        .unwrap();
    assert_eq!(fixture.packet(1, 0xa, 0xb), [2]);
    // Another entry has a profile of its own, which drops nothing until it is set.
    fixture.entry(Type::Insert, entry(1, 3)).unwrap();
    fixture.entry(Type::Insert, forward(0xb, 2)).unwrap();
    let unlimited = by_destination("detect", 0xb, "limit", vec![]);
    fixture.entry(Type::Insert, unlimited.clone()).unwrap();
    assert_eq!(fixture.packet(1, 0xb, 0xb), [2]);
    let none = stream(ids::WRED_MAX, &[0xff, 0, 0, 0]);
    assert!(fixture.fields(&unlimited, true).contains(&none));
}

#[test]
fn a_meter_adds_the_adjustment_to_the_length_of_packets() {
    let mut fixture = Fixture::new();
    let rate = |kilobits: u64| {
        let rates = [
            (ids::METER_CIR_KBPS, 1),
            (ids::METER_PIR_KBPS, 1),
            (ids::METER_CBS_KBITS, kilobits),
            (ids::METER_PBS_KBITS, kilobits),
        ];
        rates
            .map(|(id, value)| stream(id, &value.to_be_bytes()))
            .to_vec()
    };
    fixture.entry(Type::Insert, forward(0xa, 2)).unwrap();
    // A burst of 125 bytes has room for one packet of 64.
    let police = by_destination("metered", 0xa, "police", rate(1));
    fixture.entry(Type::Insert, police.clone()).unwrap();
    assert_eq!(fixture.packet(1, 0xa, 1), [2]);
    assert!(fixture.packet(1, 0xa, 1).is_empty());
    let adjust = |bytes| {
        Attribute::ByteCountAdj(ByteCountAdj {
            byte_count_adjust: bytes,
        })
    };
    fixture.set(table("metered"), adjust(-60)).unwrap();
    assert_eq!(fixture.attribute(table("metered"), adjust(0)), adjust(-60));
    fixture.entry(Type::Modify, police).unwrap();
    for _ in 0..31 {
        assert_eq!(fixture.packet(1, 0xa, 1), [2]);
    }
    assert!(fixture.packet(1, 0xa, 1).is_empty());
    // Without rates, the greatest rate of the chip is read.
    let unlimited = by_destination("metered", 0xb, "police", vec![]);
    fixture.entry(Type::Insert, unlimited.clone()).unwrap();
    let greatest = stream(ids::METER_CIR_KBPS, &5_195_848_221u64.to_be_bytes());
    assert!(fixture.fields(&unlimited, true).contains(&greatest));
}

#[test]
fn entries_of_one_scope_are_read_by_its_pipes() {
    let mut fixture = Fixture::new();
    let own = table("forward");
    let read = |fixture: &Fixture, pipe_id: u32| {
        let request = TableEntry {
            data: None,
            entry_tgt: Some(TargetDevice {
                pipe_id,
                ..Default::default()
            }),
            table_flags: Some(TableFlags {
                from_hw: true,
                ..Default::default()
            }),
            ..forward(0xa, 2)
        };
        let read = fixture.read(Kind::TableEntry(request));
        read.map(drop).map_err(|_| ())
    };
    fixture.entry(Type::Insert, forward(0xa, 2)).unwrap();
    assert_eq!(read(&fixture, 0xffff), Ok(()));
    assert_eq!(read(&fixture, 0), Ok(()));
    let single = Some(Mode {
        scope: Some(Scope::Predef(PredefinedMode::Single.into())),
        args: 0,
    });
    let scope = Attribute::EntryScope(EntryScope {
        pipe_scope: single,
        ..Default::default()
    });
    fixture.set(own, scope.clone()).unwrap();
    assert_eq!(read(&fixture, 0), Ok(()));
    assert_eq!(read(&fixture, 1), Err(()));
    assert_eq!(read(&fixture, 0xffff), Err(()));
    let Attribute::EntryScope(found) = fixture.attribute(own, scope) else {
        panic!("not a scope");
    };
    assert_eq!(found.pipe_scope, single);
    assert!(found.gress_scope.is_some_and(|mode| mode.scope.is_some()));
    let elsewhere = TableEntry {
        entry_tgt: Some(TargetDevice {
            pipe_id: 1,
            ..Default::default()
        }),
        ..forward(0xb, 2)
    };
    assert_eq!(fixture.entry(Type::Insert, elsewhere), Err(Code::NotFound));
}

#[test]
fn members_of_a_value_set_have_masks() {
    let mut fixture = Fixture::new();
    let mut tables = schema().tables.iter();
    let own = tables
        .find(|table| table.table_type == TableType::ParserValueSet)
        .unwrap();
    let member = |value: [u8; 2], mask: [u8; 2]| {
        let field = KeyField {
            field_id: own.key[0].id,
            match_type: Some(MatchType::Ternary(Ternary {
                value: value.to_vec(),
                mask: mask.to_vec(),
            })),
        };
        of(own, vec![field], "", vec![])
    };
    fixture.entry(Type::Insert, forward(0xa, 2)).unwrap();
    let others = member([0x90, 0], [0xf0, 0]);
    fixture.entry(Type::Insert, others.clone()).unwrap();
    assert_eq!(fixture.packet(1, 0xa, 1), [2]);
    // The test's packets have the type 0x0800.
    let own_kind = member([0x08, 0], [0xff, 0]);
    fixture.entry(Type::Insert, own_kind.clone()).unwrap();
    assert!(fixture.packet(1, 0xa, 1).is_empty());
    assert_eq!(
        fixture.entry(Type::Insert, own_kind.clone()),
        Err(Code::AlreadyExists)
    );
    let all = fixture.entries(of(own, vec![], "", vec![]));
    assert_eq!(all.len(), 2);
    assert_eq!(all[1].value, own_kind.value);
    fixture.entry(Type::Delete, own_kind).unwrap();
    assert_eq!(fixture.packet(1, 0xa, 1), [2]);
    let exact = member([0x08, 0], [0xff, 0xff]);
    fixture.entry(Type::Insert, exact).unwrap();
    assert!(fixture.packet(1, 0xa, 1).is_empty());
}

#[test]
fn packets_are_processed_by_the_old_entries_until_a_hitless_load_ends() {
    let mut fixture = Fixture::new();
    fixture.entry(Type::Insert, forward(0xa, 2)).unwrap();
    fixture.load(Action::VerifyAndWarmInitBegin, DevInitMode::Hitless);
    assert_eq!(fixture.packet(1, 0xa, 1), [2]);
    assert!(fixture
        .entries(of(table("forward"), vec![], "", vec![]))
        .is_empty());
    fixture.entry(Type::Insert, forward(0xa, 3)).unwrap();
    assert_eq!(fixture.packet(1, 0xa, 1), [2]);
    // Another load discards what was written for the first one.
    fixture.load(Action::VerifyAndWarmInitBegin, DevInitMode::Hitless);
    fixture.entry(Type::Insert, forward(0xb, 3)).unwrap();
    fixture.load(Action::WarmInitEnd, DevInitMode::Hitless);
    assert!(fixture.packet(1, 0xa, 1).is_empty());
    assert_eq!(fixture.packet(1, 0xb, 1), [3]);
    // Without this mode, entries are gone at once.
    fixture.load(Action::VerifyAndWarmInitBegin, DevInitMode::FastReconfig);
    assert!(fixture.packet(1, 0xb, 1).is_empty());
}

fn idle(mode: IdleTableMode, enable: bool) -> Attribute {
    Attribute::IdleTable(IdleTable {
        ttl_query_interval: 1000,
        max_ttl: 10_000,
        min_ttl: 100,
        idle_table_mode: mode.into(),
        enable,
    })
}

#[test]
fn clients_are_notified_when_an_entry_becomes_idle_and_when_it_is_hit() {
    let mut fixture = Fixture::new();
    let own = table("forward");
    let mut entry = forward(0xa, 2);
    let ttl = stream(ids::ENTRY_TTL, &2000u32.to_be_bytes());
    entry.data.as_mut().unwrap().fields.push(ttl);
    fixture.entry(Type::Insert, entry.clone()).unwrap();
    fixture
        .set(own, idle(IdleTableMode::IdleTableNotifyMode, true))
        .unwrap();
    let kinds = |fixture: &mut Fixture, now: u64| {
        let mut kinds = Vec::new();
        fixture.service.handle_timeout(&mut fixture.server, now);
        while let Some(sent) = fixture.sent() {
            let Sent::IdleTimeoutNotification(notification) = sent else {
                panic!("{sent:?}");
            };
            let key = notification.table_entry.clone().unwrap().value;
            assert!(matches!(key, Some(Key::Key(_))));
            kinds.push(notification.r#type());
        }
        kinds
    };
    assert_eq!(kinds(&mut fixture, 1000 * MS), []);
    assert_eq!(
        kinds(&mut fixture, 2000 * MS),
        [NotificationType::EntryIdle]
    );
    assert_eq!(kinds(&mut fixture, 9000 * MS), []);
    fixture.now = 9500 * MS;
    fixture.packet(1, 0xa, 0xb);
    assert_eq!(
        kinds(&mut fixture, 10_000 * MS),
        [NotificationType::EntryActive]
    );
    assert_eq!(
        kinds(&mut fixture, 12_000 * MS),
        [NotificationType::EntryIdle]
    );
}

#[test]
fn hit_states_are_cleared_when_they_are_copied() {
    let mut fixture = Fixture::new();
    let own = table("forward");
    let entry = forward(0xa, 2);
    fixture
        .set(own, idle(IdleTableMode::IdleTablePollMode, true))
        .unwrap();
    fixture.entry(Type::Insert, entry.clone()).unwrap();
    let is_active = |fixture: &Fixture, from_hw| {
        let fields = fixture.fields(&entry, from_hw);
        let state = fields.into_iter();
        let mut state = state.filter(|field| field.field_id == ids::ENTRY_HIT_STATE);
        state.next().unwrap().value == Some(Value::StrVal("ENTRY_ACTIVE".into()))
    };
    assert!(!is_active(&fixture, true));
    fixture.now = 5;
    fixture.packet(1, 0xa, 0xb);
    assert!(is_active(&fixture, true) && !is_active(&fixture, false));
    fixture.now = 6;
    fixture.operation(own, "UpdateHitState");
    assert!(is_active(&fixture, false) && !is_active(&fixture, true));
    fixture.operation(own, "UpdateHitState");
    assert!(!is_active(&fixture, false));
}
