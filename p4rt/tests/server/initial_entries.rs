//! Initial entries of the program: `entries` and `const entries` (P4_16 § 14.2.1.4, P4Runtime § 9.1.4 and § 9.1.5).

use std::sync::OnceLock;

use alfirk_compiler::driver::Compiled;
use alfirk_p4runtime::{
    p4::v1::{
        entity::Entity as Kind, set_forwarding_pipeline_config_request::Action,
        ForwardingPipelineConfig, TableEntry,
    },
    Code,
};

use crate::fixture::*;

const FORWARD: u32 = 0x0100_0001;
const RANKED: u32 = 0x0200_0001;
const EXACTLY: u32 = 0x0200_0002;
const SMALLEST: u32 = 0x0200_0003;
const UNRANKED: u32 = 0x0200_0004;
const FIXED: u32 = 0x0200_0005;
const MAX_PRIORITY: i32 = i32::MAX;

fn program() -> &'static Compiled {
    static COMPILED: OnceLock<Compiled> = OnceLock::new();
    COMPILED.get_or_init(|| compiled("test_data/initial_entries.p4"))
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

fn entries(f: &Fixture, table: u32) -> Vec<TableEntry> {
    let all = f.read(&format!("table_entry {{ table_id: {table} }}"));
    let entries = all.into_iter().filter_map(|entity| match entity.entity {
        Some(Kind::TableEntry(entry)) => Some(entry),
        _ => None,
    });
    entries.collect()
}

/// Returns priority, constness and port of each entry.
fn shown(f: &Fixture, table: u32) -> Vec<(i32, bool, u8)> {
    let port = |entry: &TableEntry| {
        let action = entry.action.as_ref()?.r#type.as_ref()?;
        match action {
            alfirk_p4runtime::p4::v1::table_action::Type::Action(action) => {
                action.params[0].value.last().copied()
            }
            _ => None,
        }
    };
    let entries = entries(f, table).into_iter();
    let shown = entries.map(|entry| (entry.priority, entry.is_const, port(&entry).unwrap_or(0)));
    shown.collect()
}

fn to(port: u8) -> String {
    format!(
        r#"action {{ action {{ action_id: {FORWARD} params {{ param_id: 1 value: "\x{port:02x}" }} }} }}"#
    )
}

fn ternary(table: u32, value: u8, mask: u8, priority: i32, more: &str) -> String {
    let key = match mask {
        0 => String::new(),
        _ => format!(
            r#"match {{ field_id: 1 ternary {{ value: "\x{value:02x}" mask: "\x{mask:02x}" }} }}"#
        ),
    };
    format!("table_entry {{ table_id: {table} {key} priority: {priority} {more} }}")
}

fn exact(table: u32, value: u8, more: &str) -> String {
    format!(
        r#"table_entry {{ table_id: {table} match {{ field_id: 1 exact {{ value: "\x{value:02x}" }} }} {more} }}"#
    )
}

#[test]
fn priorities_are_those_of_the_program() {
    let f = running();
    assert_eq!(shown(&f, RANKED), [(20, true, 1), (10, false, 2)]);
    assert_eq!(shown(&f, EXACTLY), [(0, false, 3), (0, true, 4)]);
    // In P4Runtime the largest priority wins, even where the smallest wins in the program.
    let smallest = [(MAX_PRIORITY - 1, false, 5), (MAX_PRIORITY - 6, false, 6)];
    assert_eq!(shown(&f, SMALLEST), smallest);
    let unranked = [(201, false, 5), (101, false, 6), (1, false, 7)];
    assert_eq!(shown(&f, UNRANKED), unranked);
    assert_eq!(shown(&f, FIXED), [(2, true, 5), (1, true, 6)]);
}

#[test]
fn p4info_marks_tables_with_initial_entries() {
    let info = &program().p4info;
    let kinds = info.tables.iter().map(|table| {
        let id = table.preamble.as_ref().map_or(0, |preamble| preamble.id);
        (id, table.is_const_table, table.has_initial_entries)
    });
    let mut kinds: Vec<_> = kinds.collect();
    kinds.sort_unstable();
    let expected = [RANKED, EXACTLY, SMALLEST, UNRANKED].map(|id| (id, false, true));
    assert_eq!(kinds[..4], expected);
    assert_eq!(kinds[4], (FIXED, true, true));
}

#[test]
fn entries_that_are_not_const_can_be_modified_and_deleted() {
    let mut f = running();
    assert_eq!(f.ports(0, &[1, 0xb0]), [2]);
    f.modify(&ternary(RANKED, 0, 0, 10, &to(7))).unwrap();
    assert_eq!(f.ports(0, &[1, 0xb0]), [7]);
    f.delete(&ternary(RANKED, 0, 0, 10, "")).unwrap();
    assert_eq!(f.ports(0, &[1, 0xb0]), [9]);
    assert_rejected(
        f.delete(&ternary(RANKED, 0, 0, 10, "")),
        Code::NotFound,
        "ranked",
    );
    f.insert(&ternary(RANKED, 0, 0, 10, &to(8))).unwrap();
    assert_eq!(shown(&f, RANKED), [(20, true, 1), (10, false, 8)]);

    f.modify(&exact(EXACTLY, 1, &to(7))).unwrap();
    assert_eq!(f.ports(0, &[2, 1]), [7]);
    f.delete(&exact(EXACTLY, 1, "")).unwrap();
    assert_eq!(f.ports(0, &[2, 1]), [9]);
}

#[test]
fn const_entries_cannot_be_changed_but_others_can() {
    let mut f = running();
    let entry = |more: &str| ternary(RANKED, 0xa0, 0xf0, 20, more);
    assert_rejected(
        f.modify(&entry(&to(7))),
        Code::PermissionDenied,
        "const in the program",
    );
    assert_rejected(
        f.delete(&entry("")),
        Code::PermissionDenied,
        "const in the program",
    );
    assert_rejected(
        f.delete(&entry("is_const: true")),
        Code::InvalidArgument,
        "is_const",
    );
    assert_rejected(f.insert(&entry(&to(7))), Code::AlreadyExists, "equal entry");
    f.modify(&entry("counter_data { packet_count: 5 }"))
        .unwrap();
    let read = f.read(&format!(
        "table_entry {{ table_id: {RANKED} priority: 20 counter_data {{}} }}"
    ));
    let Some(Kind::TableEntry(read)) = &read[0].entity else {
        panic!("{read:?}");
    };
    assert_eq!(read.counter_data.map(|data| data.packet_count), Some(5));
    assert_rejected(
        f.modify(&exact(EXACTLY, 2, &to(7))),
        Code::PermissionDenied,
        "const",
    );
    assert_rejected(
        f.insert(&ternary(FIXED, 1, 0xff, 5, &to(7))),
        Code::PermissionDenied,
        "const in the program",
    );
}

#[test]
fn entries_are_inserted_between_those_of_the_program() {
    let mut f = running();
    assert_eq!(f.ports(0, &[1, 0xa5]), [1]);
    f.insert(&ternary(RANKED, 0xa5, 0xff, 15, &to(5))).unwrap();
    assert_eq!(f.ports(0, &[1, 0xa5]), [1], "20 wins over 15");
    f.insert(&ternary(RANKED, 0xa5, 0xff, 21, &to(6))).unwrap();
    assert_eq!(f.ports(0, &[1, 0xa5]), [6], "21 wins over 20");
    f.delete(&ternary(RANKED, 0xa5, 0xff, 21, "")).unwrap();
    f.insert(&ternary(RANKED, 0xb5, 0xff, 9, &to(5))).unwrap();
    assert_eq!(f.ports(0, &[1, 0xb5]), [2], "10 wins over 9");
    assert_rejected(
        f.insert(&ternary(RANKED, 0xc5, 0xff, 9, &to(5))),
        Code::ResourceExhausted,
        "full",
    );
    let between = ternary(SMALLEST, 0xa5, 0xff, MAX_PRIORITY - 3, &to(8));
    f.insert(&between).unwrap();
    assert_eq!(f.ports(0, &[3, 0xa5]), [5]);
    f.delete(&ternary(SMALLEST, 0xa0, 0xf0, MAX_PRIORITY - 1, ""))
        .unwrap();
    assert_eq!(f.ports(0, &[3, 0xa5]), [8]);
}

#[test]
fn setting_a_pipeline_again_restores_its_initial_entries() {
    let mut f = running();
    f.delete(&ternary(RANKED, 0, 0, 10, "")).unwrap();
    f.modify(&exact(EXACTLY, 1, &to(7))).unwrap();
    f.set_pipeline(Action::VerifyAndCommit, Some(config()))
        .unwrap();
    assert_eq!(shown(&f, RANKED), [(20, true, 1), (10, false, 2)]);
    assert_eq!(shown(&f, EXACTLY), [(0, false, 3), (0, true, 4)]);
}

#[test]
fn reconciliation_keeps_changes_and_deletions() {
    let mut f = running();
    f.delete(&ternary(RANKED, 0, 0, 10, "")).unwrap();
    f.modify(&exact(EXACTLY, 1, &to(7))).unwrap();
    f.insert(&exact(EXACTLY, 8, &to(6))).unwrap();
    f.set_pipeline(Action::ReconcileAndCommit, Some(config()))
        .unwrap();
    assert_eq!(shown(&f, RANKED), [(20, true, 1)]);
    let kept = [(0, false, 7), (0, true, 4), (0, false, 6)];
    assert_eq!(shown(&f, EXACTLY), kept);
}

/// The BMv2 JSON format cannot express that entries are not const; the P4Info can.
#[test]
fn p4info_makes_entries_of_p4c_s_device_config_mutable() {
    let mut f = Fixture::without_pipeline();
    let mut config = config();
    let mut json: serde_json::Value = serde_json::from_slice(&config.p4_device_config).unwrap();
    for pipeline in json["pipelines"].as_array_mut().unwrap() {
        for table in pipeline["tables"].as_array_mut().unwrap() {
            let table = table.as_object_mut().unwrap();
            table.remove("const_entries");
            let entries = table.get_mut("entries").and_then(|e| e.as_array_mut());
            for (rank, entry) in (1..).zip(entries.into_iter().flatten()) {
                entry.as_object_mut().unwrap().remove("is_const");
                entry["priority"] = rank.into();
            }
        }
    }
    config.p4_device_config = json.to_string().into_bytes().into();
    f.set_pipeline(Action::VerifyAndCommit, Some(config.clone()))
        .unwrap();
    assert_eq!(shown(&f, RANKED), [(2, false, 1), (1, false, 2)]);
    assert_eq!(shown(&f, FIXED), [(2, true, 5), (1, true, 6)]);
    f.modify(&ternary(RANKED, 0xa0, 0xf0, 2, &to(7))).unwrap();
    f.delete(&ternary(RANKED, 0, 0, 1, "")).unwrap();
    assert_eq!(f.ports(0, &[1, 0xa5]), [7]);
    f.insert(&ternary(RANKED, 0xa5, 0xff, 3, &to(6))).unwrap();
    assert_eq!(f.ports(0, &[1, 0xa5]), [6]);
    f.set_pipeline(Action::ReconcileAndCommit, Some(config))
        .unwrap();
    let kept = [(2, false, 7), (3, false, 6)];
    assert_eq!(shown(&f, RANKED), kept);
}
