//! Translated types (`@p4runtime_translation`): values written by the controller, seen by packets and returned by
//! reads.

use std::sync::{Arc, OnceLock};

use alfirk_compiler::driver::Compiled;
use alfirk_p4rt::Programs;
use alfirk_p4runtime::{
    p4::v1::{
        set_forwarding_pipeline_config_request::Action, stream_message_request,
        stream_message_response, ForwardingPipelineConfig, PacketMetadata, PacketOut,
    },
    Code,
};

use crate::fixture::*;

const SET_NAME: u32 = 0x0100_0001;
const SEND: u32 = 0x0100_0002;
const SET_LABEL: u32 = 0x0100_0003;
const BY_NAME: u32 = 0x0200_0001;
const BY_PORT: u32 = 0x0200_0002;
const BY_LABEL: u32 = 0x0200_0003;
const FIXED: u32 = 0x0200_0004;
const SHARED: u32 = 0x0200_0005;
const PROFILE: u32 = 0x1100_0001;

fn program() -> &'static Compiled {
    static COMPILED: OnceLock<Compiled> = OnceLock::new();
    COMPILED.get_or_init(|| compiled("test_data/translation.p4"))
}

fn config() -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4info: Some(program().p4info.clone()),
        p4_device_config: program().json.to_text().into_bytes().into(),
        ..Default::default()
    }
}

fn running() -> Fixture {
    let mut f = Fixture::without_pipeline();
    f.set_pipeline(Action::VerifyAndCommit, Some(config()))
        .unwrap();
    f
}

fn action(id: u32, value: &str) -> String {
    format!("action {{ action_id: {id} params {{ param_id: 1 value: \"{value}\" }} }}")
}

fn exact(table: u32, key: &str, more: &str) -> String {
    format!(
        "table_entry {{ table_id: {table} match {{ field_id: 1 exact {{ value: \"{key}\" }} }} {more} }}"
    )
}

fn by_name(key: &str, name: &str) -> String {
    let action = action(SET_NAME, name);
    exact(BY_NAME, key, &format!("action {{ {action} }}"))
}

fn by_label(key: &str, name: &str) -> String {
    let action = action(SET_NAME, name);
    exact(BY_LABEL, key, &format!("action {{ {action} }}"))
}

/// Sends a packet; returns its port and the bytes behind the operation.
fn sent(f: &mut Fixture, packet: [u8; 4]) -> (u32, [u8; 3]) {
    let (frames, _) = f.packet(7, &packet);
    let [(port, frame)] = &frames[..] else {
        panic!("{frames:?}");
    };
    (*port, [frame[1], frame[2], frame[3]])
}

#[test]
fn p4info_marks_translated_types() {
    let info = &program().p4info;
    let types = &info.type_info.as_ref().unwrap().new_types;
    for name in ["name_t", "port_t", "label_t", "same_t"] {
        assert!(types.contains_key(name), "{name}");
    }
    let key = |table: u32, at: usize| {
        let mut tables = info.tables.iter();
        let table = tables.find(|t| t.preamble.as_ref().unwrap().id == table);
        let field = &table.unwrap().match_fields[at];
        let name = field.type_name.as_ref().map(|name| name.name.as_str());
        (field.bitwidth, name)
    };
    assert_eq!(key(BY_NAME, 0), (0, Some("name_t")));
    assert_eq!(key(BY_PORT, 0), (32, Some("port_t")));
    assert_eq!(key(BY_LABEL, 0), (0, Some("label_t")));
}

#[test]
fn strings_in_keys_and_parameters_map_to_data_plane_values() {
    let mut f = running();
    // 0 and 2 are mapped by the program; the others are allocated in the order of writes.
    f.insert(&by_name("", "first")).unwrap();
    f.insert(&by_name("first", "second")).unwrap();
    f.insert(&by_name("pinned", "")).unwrap();
    assert_eq!(sent(&mut f, [1, 0, 0, 0]).1[0], 1, "first is 1");
    assert_eq!(
        sent(&mut f, [1, 1, 0, 0]).1[0],
        3,
        "second is 3, for 2 is pinned"
    );
    assert_eq!(sent(&mut f, [1, 2, 0, 0]).1[0], 0, "the program says so");
    assert_eq!(
        f.read(&format!("table_entry {{ table_id: {BY_NAME} }}")),
        [
            entity(&by_name("", "first")),
            entity(&by_name("first", "second")),
            entity(&by_name("pinned", ""))
        ]
    );
    let one = exact(BY_NAME, "first", "");
    assert_eq!(f.read(&one), [entity(&by_name("first", "second"))]);
    assert_eq!(f.read(&exact(BY_NAME, "unused", "")), []);
    assert_rejected(
        f.delete(&exact(BY_NAME, "unused", "")),
        Code::NotFound,
        "no value \"unused\"",
    );
    f.modify(&by_name("first", "pinned")).unwrap();
    assert_eq!(sent(&mut f, [1, 1, 0, 0]).1[0], 2);
    f.delete(&one).unwrap();
    assert_eq!(sent(&mut f, [1, 1, 0, 0]).1[0], 1);
}

#[test]
fn exhaustion_is_reported_and_ends_when_entries_are_deleted() {
    let mut f = running();
    f.insert(&by_name("a", "b")).unwrap();
    assert_rejected(
        f.insert(&by_name("c", "a")),
        Code::ResourceExhausted,
        "type name_t has no free value in the data plane for \"c\": all 4 of bit<2> are in use",
    );
    f.delete(&exact(BY_NAME, "a", "")).unwrap();
    f.insert(&by_name("c", "d")).unwrap();
    let all = format!("table_entry {{ table_id: {BY_NAME} }}");
    assert_eq!(f.read(&all), [entity(&by_name("c", "d"))]);
}

#[test]
fn servers_that_share_programs_have_values_of_their_own() {
    let programs = Programs::default();
    let start = || {
        let mut f = Fixture::sharing(&programs);
        f.set_pipeline(Action::VerifyAndCommit, Some(config()))
            .unwrap();
        f
    };
    let (mut one, mut two) = (start(), start());
    // Each uses all free values.
    one.insert(&by_name("a", "b")).unwrap();
    two.insert(&by_name("c", "d")).unwrap();
    let program = |f: &Fixture| f.server.switch().program().unwrap().clone();
    assert!(Arc::ptr_eq(&program(&one), &program(&two)));
}

/// Writes a string for each of thousands of entries, repeatedly: values of deleted entries are reused.
#[test]
fn values_do_not_run_out_while_few_are_used() {
    let mut f = running();
    for round in 0..12 {
        for n in 0..1000 {
            let key = format!("label-{round}-{n}");
            f.insert(&by_label(&key, "pinned")).unwrap();
            f.delete(&exact(BY_LABEL, &key, "")).unwrap();
        }
    }
    f.insert(&by_label("kept", "pinned")).unwrap();
    let all = format!("table_entry {{ table_id: {BY_LABEL} }}");
    assert_eq!(f.read(&all), [entity(&by_label("kept", "pinned"))]);
}

#[test]
fn numbers_beyond_the_data_plane_are_translated() {
    let mut f = running();
    let wide = "\\x12\\x34\\x56\\x78";
    let to = |port: &str| format!("action {{ {} }}", action(SEND, port));
    let entry = |key: &str, port: &str| {
        format!(
            "table_entry {{ table_id: {BY_PORT} priority: 3 {key} {} }}",
            to(port)
        )
    };
    let key = "match { field_id: 1 optional { value: \"\\x07\" } }";
    f.insert(&entry(key, "\\x03")).unwrap();
    assert_eq!(
        sent(&mut f, [2, 0, 0, 0]).0,
        3,
        "small numbers are themselves"
    );
    f.modify(&entry(key, wide)).unwrap();
    assert_eq!(
        sent(&mut f, [2, 0, 0, 0]).0,
        256,
        "others are given from the middle up"
    );
    let all = format!("table_entry {{ table_id: {BY_PORT} }}");
    assert_eq!(f.read(&all), [entity(&entry(key, wide))]);
    // The counter's cell has the controller's index, too.
    let cell = "counter_entry { counter_id: 0x12000001 index { index: 0x12345678 } }";
    let read = "counter_entry { counter_id: 0x12000001 index { index: 0x12345678 } data { packet_count: 1 byte_count: 4 } }";
    assert_eq!(f.read(cell), [entity(read)]);
    let own =
        "counter_entry { counter_id: 0x12000001 index { index: 3 } data { packet_count: 1 byte_count: 4 } }";
    let found = f.read("counter_entry { counter_id: 0x12000001 }");
    assert!(found.contains(&entity(own)) && found.contains(&entity(read)));
    assert_rejected(
        f.modify(&entry(key, "\\x01\\x00\\x00\\x00\\x00")),
        Code::InvalidArgument,
        "port_t",
    );
}

#[test]
fn masks_match_whole_translated_values() {
    let mut f = running();
    let to = format!("action {{ {} }}", action(SEND, "\\x03"));
    let entry = |field: u32, value: &str, mask: &str| {
        format!(
            "table_entry {{ table_id: {BY_PORT} priority: 3
             match {{ field_id: {field} ternary {{ value: \"{value}\" mask: \"{mask}\" }} }} {to} }}"
        )
    };
    let whole = entry(2, "\\x01\\x00\\x00", "\\xff\\xff\\xff\\xff");
    f.insert(&whole).unwrap();
    let all = format!("table_entry {{ table_id: {BY_PORT} }}");
    assert_eq!(f.read(&all), [entity(&whole)]);
    assert_eq!(sent(&mut f, [2, 0, 0x01, 0x00]).0, 3);
    assert_rejected(
        f.insert(&entry(2, "\\x01", "\\x01")),
        Code::InvalidArgument,
        "match one whole value",
    );
    // Masks work where the controller's numbers equal the data plane's.
    let masked = entry(3, "\\x12\\x00", "\\xff\\x00");
    f.insert(&masked).unwrap();
    assert_eq!(sent(&mut f, [2, 0, 0x12, 0x77]).0, 3);
}

#[test]
fn packets_to_and_from_the_controller_are_translated() {
    let mut f = running();
    let out = |value: &[u8]| {
        let metadata = |metadata_id, value: &[u8]| PacketMetadata {
            metadata_id,
            value: value.to_vec(),
        };
        stream_message_request::Update::Packet(PacketOut {
            payload: vec![0, 1, 2, 3],
            metadata: vec![metadata(1, value), metadata(2, &[0])],
        })
    };
    f.message(out(&[3]));
    assert_eq!(f.settle().0, [(3, vec![0, 1, 2, 3])]);
    // A packet-out has the same mapping of ports as the entries.
    let send = format!(
        "table_entry {{ table_id: {BY_PORT} priority: 1 action {{ {} }} }}",
        action(SEND, "\\x00\\x0f\\x42\\x40")
    );
    f.insert(&send).unwrap();
    f.message(out(&[0x0f, 0x42, 0x40]));
    assert_eq!(f.settle().0, [(256, vec![0, 1, 2, 3])]);
    for (port, shown) in [(7, vec![7]), (256, vec![0x0f, 0x42, 0x40])] {
        let (_, messages) = f.packet(port, &[4, 0, 0, 0]);
        let Some(stream_message_response::Update::Packet(packet)) = &messages[0].update else {
            panic!("{messages:?}");
        };
        assert_eq!(packet.metadata[0].value, shown);
        assert_eq!(packet.payload, [4, 0, 0, 0]);
    }
}

#[test]
fn digests_registers_members_and_value_sets_are_translated() {
    let mut f = running();
    f.insert("digest_entry { digest_id: 0 }").unwrap_err();
    let digest = program().p4info.digests[0].preamble.as_ref().unwrap().id;
    f.insert(&format!(
        "digest_entry {{ digest_id: {digest} config {{}} }}"
    ))
    .unwrap();
    let member = format!(
        "action_profile_member {{ action_profile_id: {PROFILE} member_id: 1 {} }}",
        action(SET_LABEL, "red")
    );
    f.insert(&member).unwrap();
    let read = f.read(&format!(
        "action_profile_member {{ action_profile_id: {PROFILE} }}"
    ));
    assert_eq!(read, [entity(&member)]);
    f.insert(&exact(
        SHARED,
        "\\x09",
        "action { action_profile_member_id: 1 }",
    ))
    .unwrap();
    // 1 and 3 are mapped by the program.
    let (frames, messages) = f.packet(7, &[9, 0, 0, 0]);
    assert_eq!(frames, [(5, vec![9, 0, 0, 2])]);
    let Some(stream_message_response::Update::Digest(list)) = &messages[0].update else {
        panic!("{messages:?}");
    };
    let expected = "struct { members { bitstring: \"\\x07\" } members { struct { members { bitstring: \"red\" } } } }";
    assert_eq!(
        list.data,
        [alfirk_p4runtime::text::parse(expected).unwrap()]
    );
    let cell = |value: &str| {
        format!("register_entry {{ register_id: 0x16000001 index {{ index: 1 }} data {{ bitstring: \"{value}\" }} }}")
    };
    let index = "register_entry { register_id: 0x16000001 index { index: 1 } }";
    assert_eq!(f.read(index), [entity(&cell("red"))]);
    f.modify(&cell("blue")).unwrap();
    assert_eq!(f.read(index), [entity(&cell("blue"))]);

    let set = |label: &str| {
        format!("value_set_entry {{ value_set_id: 0x03000001 members {{ match {{ field_id: 1 exact {{ value: \"{label}\" }} }} }} }}")
    };
    f.modify(&set("red")).unwrap();
    assert_eq!(sent(&mut f, [6, 0, 0, 2]).1[0], 1);
    assert_eq!(sent(&mut f, [6, 0, 0, 5]).1[0], 0);
    let read = f.read("value_set_entry { value_set_id: 0x03000001 }");
    assert_eq!(read, [entity(&set("red"))]);
}

#[test]
fn entries_of_the_program_keep_their_values() {
    let mut f = running();
    let own = exact(
        FIXED,
        "1",
        &format!("is_const: true action {{ {} }}", action(SET_LABEL, "3")),
    );
    assert_eq!(
        f.read(&format!("table_entry {{ table_id: {FIXED} }}")),
        [entity(&own)]
    );
    f.insert(&by_label("a", "pinned")).unwrap();
    f.insert(&by_label("b", "pinned")).unwrap();
    for (value, hits) in [(1, false), (2, true), (3, false), (4, true)] {
        let found = sent(&mut f, [3, 0, 0, value]).1[0];
        assert_eq!(found, if hits { 2 } else { 0 }, "{value}");
    }
}

#[test]
fn reconciliation_keeps_values_and_a_commit_clears_them() {
    let mut f = running();
    f.insert(&by_label("a", "pinned")).unwrap();
    f.insert(&by_label("b", "pinned")).unwrap();
    f.delete(&exact(BY_LABEL, "a", "")).unwrap();
    f.set_pipeline(Action::ReconcileAndCommit, Some(config()))
        .unwrap();
    assert_eq!(sent(&mut f, [3, 0, 0, 4]).1[0], 2, "b is 4 still");
    let all = format!("table_entry {{ table_id: {BY_LABEL} }}");
    assert_eq!(f.read(&all), [entity(&by_label("b", "pinned"))]);
    f.set_pipeline(Action::VerifyAndCommit, Some(config()))
        .unwrap();
    f.insert(&by_label("b", "pinned")).unwrap();
    assert_eq!(sent(&mut f, [3, 0, 0, 2]).1[0], 2);
}

#[test]
fn values_that_are_not_utf_8_are_rejected() {
    let mut f = running();
    assert_rejected(
        f.insert(&by_name("\\xff\\xfe", "a")),
        Code::InvalidArgument,
        "key field name: a value of type name_t must be UTF-8 text",
    );
    let long = "x".repeat(5000);
    assert_rejected(
        f.insert(&by_name(&long, "a")),
        Code::InvalidArgument,
        "5000 bytes",
    );
    let mut config = config();
    let types = config.p4info.as_mut().unwrap().type_info.as_mut().unwrap();
    let name = types.new_types.get_mut("name_t").unwrap();
    name.annotations =
        vec!["@p4runtime_translation_mappings({ { \"a\", 1 }, { \"b\", 1 } })".into()];
    let refusal = f
        .set_pipeline(Action::VerifyAndCommit, Some(config))
        .unwrap_err();
    assert!(refusal.message.contains("name_t"), "{}", refusal.message);
}
