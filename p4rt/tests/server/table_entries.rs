//! Inserting, modifying, deleting and reading entries (P4Runtime § 9.1).

use alfirk_p4runtime::Code;

use crate::fixture::*;

fn key(dst: u8) -> String {
    format!(
        r#"table_entry {{ table_id: {L2} match {{ field_id: 1 exact {{ value: "\x{dst:02x}" }} }} }}"#
    )
}

fn acl(priority: i32, matches: &str, action: u32) -> String {
    format!("table_entry {{ table_id: {ACL} priority: {priority} {matches} action {{ action {{ action_id: {action} }} }} }}")
}

#[test]
fn entries_apply_to_packets_as_soon_as_they_are_written() {
    let mut f = Fixture::new();
    assert_eq!(f.ports(1, &frame(5)), [0]);
    f.insert(&l2(5, 3, "")).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [3]);
    f.modify(&l2(5, 4, "")).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [4]);
    f.delete(&key(5)).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [0]);
}

#[test]
fn written_groups_are_read() {
    let mut f = Fixture::new();
    let entry = l2(5, 3, r#"metadata: "mine" idle_timeout_ns: 1000"#);
    f.insert(&entry).unwrap();
    f.insert(&l2(6, 3, "controller_metadata: 77")).unwrap();
    assert_eq!(f.read(&key(5)), [entity(&entry)]);
    assert_eq!(
        f.read(&format!("table_entry {{ table_id: {L2} }}")).len(),
        2
    );
    // A read of all tables includes the const entry of another table.
    assert_eq!(f.read("table_entry {}").len(), 3);
    assert_eq!(f.read(&key(9)), []);
}

#[test]
fn reads_are_filtered() {
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, r#"metadata: "mine""#)).unwrap();
    f.insert(&l2(6, 3, "controller_metadata: 77")).unwrap();
    let flood = format!(
        r#"table_entry {{ table_id: {L2} match {{ field_id: 1 exact {{ value: "\x07" }} }}
           action {{ action {{ action_id: {FLOOD} params {{ param_id: 1 value: "\x01" }} }} }} }}"#
    );
    f.insert(&flood).unwrap();
    let read = |filter: &str| f.read(&format!("table_entry {{ table_id: {L2} {filter} }}"));
    assert_eq!(
        read(r#"metadata: "mine""#),
        [entity(&l2(5, 3, r#"metadata: "mine""#))]
    );
    assert_eq!(read("controller_metadata: 77").len(), 1);
    assert_eq!(
        read(&format!("action {{ action {{ action_id: {FLOOD} }} }}")),
        [entity(&flood)]
    );
}

#[test]
fn existence_is_checked() {
    let mut f = Fixture::new();
    assert_rejected(f.modify(&l2(5, 3, "")), Code::NotFound, "ingress.l2");
    assert_rejected(f.delete(&key(5)), Code::NotFound, "ingress.l2");
    f.insert(&l2(5, 3, "")).unwrap();
    assert_rejected(f.insert(&l2(5, 4, "")), Code::AlreadyExists, "ingress.l2");
    assert_eq!(f.ports(1, &frame(5)), [3]);
}

#[test]
fn a_full_table_rejects_inserts() {
    let mut f = Fixture::new();
    for dst in 1..=4 {
        f.insert(&l2(dst, 1, "")).unwrap();
    }
    assert_rejected(
        f.insert(&l2(5, 1, "")),
        Code::ResourceExhausted,
        "4 entries",
    );
}

#[test]
fn larger_priorities_win() {
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, "")).unwrap();
    let all_from_1 = r#"match { field_id: 3 optional { value: "\x01" } }"#;
    let low_kinds = r#"match { field_id: 2 range { low: "\x00" high: "\x0f\xff" } }"#;
    f.insert(&acl(10, all_from_1, DROP)).unwrap();
    f.insert(&acl(20, low_kinds, NO_ACTION)).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [3]);
    // Without an entry of l2, the packet is dropped.
    assert!(f.ports(1, &kind_frame(6, 0x86dd)).is_empty());
    let read = f.read(&format!("table_entry {{ table_id: {ACL} priority: 20 }}"));
    assert_eq!(read, [entity(&acl(20, low_kinds, NO_ACTION))]);
}

#[test]
fn the_priority_is_part_of_an_entry_s_identity() {
    let mut f = Fixture::new();
    f.insert(&acl(1, "", DROP)).unwrap();
    f.insert(&acl(2, "", DROP)).unwrap();
    assert_rejected(f.insert(&acl(2, "", NO_ACTION)), Code::AlreadyExists, "acl");
    assert_rejected(
        f.insert(&acl(0, "", DROP)),
        Code::InvalidArgument,
        "priority above 0",
    );
    assert_rejected(
        f.insert(&acl(-1, "", DROP)),
        Code::InvalidArgument,
        "priority above 0",
    );
    assert_rejected(
        f.insert(&l2(5, 3, "priority: 1")),
        Code::InvalidArgument,
        "no priorities",
    );
    f.insert(&acl(i32::MAX, "", DROP)).unwrap();
    assert_eq!(
        f.read(&format!("table_entry {{ table_id: {ACL} }}")).len(),
        3
    );
}

#[test]
fn byte_strings_are_returned_in_canonical_form() {
    let mut f = Fixture::new();
    let long = format!(
        r#"table_entry {{ table_id: {L2} match {{ field_id: 1 exact {{ value: "\x00\x00\x00\x00\x00\x05" }} }}
           action {{ action {{ action_id: {FORWARD} params {{ param_id: 1 value: "\x00\x00\x03" }} }} }} }}"#
    );
    f.insert(&long).unwrap();
    assert_eq!(f.read(&key(5)), [entity(&l2(5, 3, ""))]);
}

#[test]
fn malformed_entries_are_rejected() {
    let mut f = Fixture::new();
    let mut invalid =
        |text: String, why: &str| assert_rejected(f.insert(&text), Code::InvalidArgument, why);
    invalid(
        "table_entry { table_id: 1 }".into(),
        "no table has id 0x00000001",
    );
    invalid("table_entry {}".into(), "no table has id");
    invalid(
        format!("table_entry {{ table_id: {L2} }}"),
        "key field eth.dst is missing",
    );
    invalid(key(5), "has no action");
    let with_action = |action: &str| {
        format!(
            r#"table_entry {{ table_id: {L2} match {{ field_id: 1 exact {{ value: "\x05" }} }} action {{ {action} }} }}"#
        )
    };
    invalid(with_action("action { action_id: 9 }"), "no action has id");
    invalid(
        with_action(&format!("action {{ action_id: {FORWARD} }}")),
        "parameter port is missing",
    );
    let forward =
        |params: &str| with_action(&format!("action {{ action_id: {FORWARD} {params} }}"));
    invalid(
        forward(r#"params { param_id: 1 value: "\x02\x00" }"#),
        "needs 10 bits",
    );
    invalid(
        forward(r#"params { param_id: 2 value: "\x02" }"#),
        "no parameter has id 2",
    );
    let twice = r#"params { param_id: 1 value: "\x02" } params { param_id: 1 value: "\x02" }"#;
    invalid(forward(twice), "occurs twice");
    invalid(
        with_action("action_profile_member_id: 1"),
        "entries need an action, not a member, group or action set",
    );
    invalid(l2(5, 3, "is_const: true"), "const entries");
    invalid(
        l2(5, 3, "time_since_last_hit {}"),
        "has_time_since_last_hit must not be set in WriteRequest",
    );
    invalid(
        l2(5, 3, "idle_timeout_ns: -1"),
        "idle_timeout_ns must be a positive value",
    );
}

#[test]
fn actions_are_allowed_only_in_their_scope() {
    let mut f = Fixture::new();
    let miss = format!(
        r#"table_entry {{ table_id: {L2} match {{ field_id: 1 exact {{ value: "\x05" }} }}
           action {{ action {{ action_id: {MISS} }} }} }}"#
    );
    assert_rejected(
        f.insert(&miss),
        Code::PermissionDenied,
        "not allowed in table entries",
    );
    let drop = format!("table_entry {{ table_id: {L2} is_default_action: true action {{ action {{ action_id: {DROP} }} }} }}");
    assert_rejected(
        f.modify(&drop),
        Code::PermissionDenied,
        "not allowed in the default entry",
    );
}

#[test]
fn modify_without_action_keeps_the_action() {
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, r#"metadata: "old""#)).unwrap();
    f.modify(&format!(
        r#"table_entry {{ table_id: {L2} match {{ field_id: 1 exact {{ value: "\x05" }} }} metadata: "new" }}"#
    ))
    .unwrap();
    assert_eq!(f.read(&key(5)), [entity(&l2(5, 3, r#"metadata: "new""#))]);
}

#[test]
fn delete_uses_only_the_key() {
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, "")).unwrap();
    let nonsense = format!(
        r#"table_entry {{ table_id: {L2} match {{ field_id: 1 exact {{ value: "\x05" }} }} action {{ action_profile_group_id: 4 }}
           idle_timeout_ns: -7 counter_data {{ byte_count: -1 }} }}"#
    );
    f.delete(&nonsense).unwrap();
    assert_eq!(f.read(&key(5)), []);
}

#[test]
fn const_tables_are_read_but_not_written() {
    let mut f = Fixture::new();
    let entry = |action: &str| {
        format!(
            r#"table_entry {{ table_id: {KINDS} match {{ field_id: 1 exact {{ value: "\x88\xcc" }} }} {action} }}"#
        )
    };
    let drop = format!("action {{ action {{ action_id: {DROP} }} }}");
    assert_rejected(
        f.insert(&entry(&drop)),
        Code::PermissionDenied,
        "const in the program",
    );
    assert_rejected(
        f.modify(&entry(&drop)),
        Code::PermissionDenied,
        "const in the program",
    );
    assert_rejected(
        f.delete(&entry("")),
        Code::PermissionDenied,
        "const in the program",
    );
    let shown = entity(&entry(&format!("{drop} is_const: true")));
    assert_eq!(
        f.read(&format!("table_entry {{ table_id: {KINDS} }}")),
        [shown]
    );
    assert!(f.ports(1, &kind_frame(5, 0x88cc)).is_empty());
}

#[test]
fn a_failed_read_names_each_request() {
    let f = Fixture::new();
    let error = f.try_read("table_entry { table_id: 1 }").unwrap_err();
    assert_eq!(code(&error), Code::InvalidArgument);
    let request = alfirk_p4runtime::p4::v1::ReadRequest {
        device_id: DEVICE,
        entities: vec![
            entity("table_entry {}"),
            Default::default(),
            entity("extern_entry {}"),
        ],
        ..Default::default()
    };
    let mut entities = 0;
    let status = f
        .server
        .read_parts(&request, 0, &mut |part| entities += part.entities.len())
        .unwrap_err();
    assert_eq!(entities, 1);
    let codes: Vec<_> = status.update_errors().iter().map(code).collect();
    assert_eq!(
        codes,
        [Code::Ok, Code::InvalidArgument, Code::Unimplemented]
    );
    assert_eq!(status.canonical_code(), Code::Unknown);
}

/// As in PI, all priorities from 1 to 2^31 - 1 are distinct.
#[test]
fn all_priorities_are_distinct() {
    let mut f = Fixture::new();
    let key = r#"match { field_id: 1 ternary { value: "\x01" mask: "\xff" } }"#;
    for priority in [1, 2, i32::MAX - 1, i32::MAX] {
        f.insert(&acl(priority, key, NO_ACTION)).unwrap();
        let one = format!("table_entry {{ table_id: {ACL} priority: {priority} }}");
        assert_eq!(f.read(&one), [entity(&acl(priority, key, NO_ACTION))]);
    }
    for priority in [i32::MAX, 1, 2, i32::MAX - 1] {
        f.delete(&acl(priority, key, NO_ACTION)).unwrap();
    }
    assert_eq!(f.read(&format!("table_entry {{ table_id: {ACL} }}")), []);
}

#[test]
fn another_priority_is_another_entry() {
    let mut f = Fixture::new();
    let key = r#"match { field_id: 1 ternary { value: "\x01" mask: "\xff" } }"#;
    f.insert(&acl(5, key, NO_ACTION)).unwrap();
    for priority in [4, 6] {
        assert_rejected(f.modify(&acl(priority, key, DROP)), Code::NotFound, "acl");
        assert_rejected(f.delete(&acl(priority, key, DROP)), Code::NotFound, "acl");
    }
    assert_rejected(
        f.insert(&acl(5, key, DROP)),
        Code::AlreadyExists,
        "equal entry",
    );
}
