//! The default entry, which applies on a miss (P4Runtime § 9.1.3).

use alfirk_p4runtime::Code;

use crate::fixture::*;

fn default(table: u32, more: &str) -> String {
    format!("table_entry {{ table_id: {table} is_default_action: true {more} }}")
}

fn forward(port: u8) -> String {
    format!(
        r#"action {{ action {{ action_id: {FORWARD} params {{ param_id: 1 value: "\x{port:02x}" }} }} }}"#
    )
}

#[test]
fn the_default_entry_is_modified_and_reset() {
    let mut f = Fixture::new();
    let initial = default(
        L2,
        &format!("action {{ action {{ action_id: {NO_ACTION} }} }}"),
    );
    assert_eq!(f.read(&default(L2, "")), [entity(&initial)]);
    let changed = default(L2, &format!("{} metadata: \"x\"", forward(9)));
    f.modify(&changed).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [9]);
    assert_eq!(f.read(&default(L2, "")), [entity(&changed)]);
    f.modify(&default(L2, "")).unwrap();
    assert_eq!(f.read(&default(L2, "")), [entity(&initial)]);
    assert_eq!(f.ports(1, &frame(5)), [0]);
}

#[test]
fn the_default_entry_cannot_be_inserted_or_deleted() {
    let mut f = Fixture::new();
    let entry = default(L2, &forward(9));
    assert_rejected(f.insert(&entry), Code::InvalidArgument, "only be modified");
    assert_rejected(f.delete(&entry), Code::InvalidArgument, "only be modified");
    let with_key = default(L2, r#"match { field_id: 1 exact { value: "\x05" } }"#);
    assert_rejected(f.modify(&with_key), Code::InvalidArgument, "no key");
    assert_rejected(
        f.modify(&default(L2, "priority: 1")),
        Code::InvalidArgument,
        "no priority",
    );
    assert_rejected(
        f.modify(&default(L2, "idle_timeout_ns: 1")),
        Code::InvalidArgument,
        "no idle timeout",
    );
    assert_eq!(f.read(&format!("table_entry {{ table_id: {L2} }}")), []);
}

#[test]
fn const_default_entries_and_those_of_indirect_tables_cannot_be_set() {
    let mut f = Fixture::new();
    assert_rejected(
        f.modify(&default(ROUTES, &forward(9))),
        Code::PermissionDenied,
        "const in the program",
    );
    assert_rejected(
        f.modify(&default(ECMP, &forward(9))),
        Code::InvalidArgument,
        "action profile",
    );
}

#[test]
fn a_wildcard_reads_all_defaults() {
    let f = Fixture::new();
    assert_eq!(f.read("table_entry { is_default_action: true }").len(), 5);
}
