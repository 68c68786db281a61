//! Batches and their atomicity (P4Runtime § 12.2).

use alfirk_p4runtime::{
    p4::v1::{update::Type, write_request::Atomicity, *},
    Code,
};

use crate::fixture::*;

/// A valid update, an invalid one (no such entry), a valid one.
fn batch() -> Vec<Update> {
    vec![
        update(Type::Insert, &l2(5, 3, "")),
        update(Type::Modify, &l2(6, 3, "")),
        update(Type::Insert, &l2(7, 3, "")),
    ]
}

fn codes(status: &alfirk_p4runtime::Status) -> Vec<Code> {
    status.update_errors().iter().map(code).collect()
}

fn all_entities(f: &Fixture) -> Vec<Entity> {
    [
        "table_entry { counter_data {} meter_config {} }",
        "table_entry { is_default_action: true }",
        "register_entry {}",
        "counter_entry {}",
        "meter_entry {}",
        "value_set_entry {}",
        "digest_entry {}",
        "action_profile_member {}",
        "action_profile_group {}",
        "packet_replication_engine_entry { multicast_group_entry {} }",
        "packet_replication_engine_entry { clone_session_entry {} }",
    ]
    .iter()
    .flat_map(|filter| f.read(filter))
    .collect()
}

#[test]
fn continue_on_error_applies_valid_updates() {
    let mut f = Fixture::new();
    let status = f
        .write_all(Atomicity::ContinueOnError, batch())
        .unwrap_err();
    assert_eq!(status.canonical_code(), Code::Unknown);
    assert_eq!(codes(&status), [Code::Ok, Code::NotFound, Code::Ok]);
    assert_eq!(
        f.read(&format!("table_entry {{ table_id: {L2} }}")).len(),
        2
    );
}

#[test]
fn the_other_modes_apply_all_or_nothing() {
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let mut f = Fixture::new();
        let status = f.write_all(atomicity, batch()).unwrap_err();
        assert_eq!(
            codes(&status),
            [Code::Aborted, Code::NotFound, Code::Aborted]
        );
        assert_eq!(f.read(&format!("table_entry {{ table_id: {L2} }}")), []);
        f.write_all(atomicity, vec![batch().remove(0), batch().remove(2)])
            .unwrap();
        assert_eq!(
            f.read(&format!("table_entry {{ table_id: {L2} }}")).len(),
            2
        );
    }
}

#[test]
fn a_batch_may_be_applied_in_steps_with_packets_between() {
    for (atomicity, after_one_step) in [
        (Atomicity::ContinueOnError, 1),
        (Atomicity::RollbackOnError, 1),
        (Atomicity::DataplaneAtomic, 3),
    ] {
        let mut f = Fixture::new();
        let request = f.write_request(
            atomicity,
            (5..8)
                .map(|dst| update(Type::Insert, &l2(dst, 3, "")))
                .collect(),
        );
        let mut batch = f.server.begin_write(request).unwrap();
        let mut steps = 1;
        let mut result = f.server.continue_write(&mut batch, 1, 0);
        let forwarded = (5..8).filter(|dst| f.ports(1, &frame(*dst)) == [3]).count();
        assert_eq!(forwarded, after_one_step, "{atomicity:?}");
        while result.is_none() {
            steps += 1;
            result = f.server.continue_write(&mut batch, 1, 0);
        }
        assert_eq!(result, Some(Ok(WriteResponse {})));
        assert_eq!(steps, 4 - after_one_step, "{atomicity:?}");
    }
}

#[test]
fn an_error_in_a_later_step_is_reported_and_rolled_back() {
    for (atomicity, expected, left) in [
        (
            Atomicity::ContinueOnError,
            [Code::Ok, Code::NotFound, Code::Ok],
            2,
        ),
        (
            Atomicity::RollbackOnError,
            [Code::Aborted, Code::NotFound, Code::Aborted],
            0,
        ),
    ] {
        let mut f = Fixture::new();
        let request = f.write_request(atomicity, batch());
        let mut batch = f.server.begin_write(request).unwrap();
        let status = loop {
            if let Some(result) = f.server.continue_write(&mut batch, 1, 0) {
                break result.unwrap_err();
            }
        };
        assert_eq!(codes(&status), expected);
        assert_eq!(
            f.read(&format!("table_entry {{ table_id: {L2} }}")).len(),
            left
        );
    }
}

#[test]
fn rollback_restores_every_kind_of_entity() {
    let mut f = Fixture::new();
    let member = format!("action_profile_member {{ action_profile_id: {SELECTOR} member_id: 1 action {{ action_id: {NO_ACTION} }} }}");
    let group = |members: &str| {
        format!("action_profile_group {{ action_profile_id: {SELECTOR} group_id: 1 {members} }}")
    };
    let acl = |more: &str| {
        format!("table_entry {{ table_id: {ACL} priority: 1 action {{ action {{ action_id: {NO_ACTION} }} }} {more} }}")
    };
    let multicast = |port: u32| {
        format!("packet_replication_engine_entry {{ multicast_group_entry {{ multicast_group_id: 1 replicas {{ egress_port: {port} }} }} }}")
    };
    let session = "packet_replication_engine_entry { clone_session_entry { session_id: 1 replicas { egress_port: 1 } } }";
    let register = |v: u8| {
        format!("register_entry {{ register_id: {REGISTER} data {{ bitstring: \"\\x{v:02x}\" }} }}")
    };
    let counter =
        |v: u8| format!("counter_entry {{ counter_id: {COUNTER} data {{ packet_count: {v} }} }}");
    let meter = |v: u8| format!("meter_entry {{ meter_id: {METER} config {{ pir: {v} }} }}");
    let set = |v: &str| format!("value_set_entry {{ value_set_id: {VALUE_SET} {v} }}");
    let digest =
        |v: u8| format!("digest_entry {{ digest_id: {DIGEST} config {{ max_list_size: {v} }} }}");
    let default = |action: u32| {
        format!("table_entry {{ table_id: {L2} is_default_action: true action {{ action {{ action_id: {action} }} }} }}")
    };
    for text in [
        l2(5, 3, r#"metadata: "m" counter_data { packet_count: 3 }"#),
        l2(6, 3, ""),
        acl("meter_config { pir: 9 }"),
        member.clone(),
        group("members { member_id: 1 weight: 2 }"),
        multicast(4),
        session.to_owned(),
        digest(3),
    ] {
        f.insert(&text).unwrap();
    }
    for text in [
        register(1),
        counter(1),
        meter(1),
        set(r#"members { match { field_id: 1 exact { value: "x" } } }"#),
        default(MISS),
    ] {
        f.modify(&text).unwrap();
    }
    let before = all_entities(&f);
    let direct = |v: u8| {
        format!(
            r#"direct_counter_entry {{ table_entry {{ table_id: {L2} match {{ field_id: 1 exact {{ value: "\x05" }} }} }} data {{ packet_count: {v} }} }}"#
        )
    };
    let mut updates: Vec<Update> = [
        direct(9),
        l2(5, 8, "counter_data { packet_count: 1 }"),
        acl("meter_config { pir: 1 }"),
        format!("direct_meter_entry {{ table_entry {{ table_id: {ACL} priority: 1 }} }}"),
        group(""),
        multicast(5),
        register(2),
        counter(2),
        meter(2),
        set(""),
        digest(4),
        default(NO_ACTION),
    ]
    .iter()
    .map(|text| update(Type::Modify, text))
    .collect();
    for text in [
        l2(5, 0, ""),
        l2(6, 0, ""),
        acl(""),
        group(""),
        member,
        multicast(0),
        session.to_owned(),
        digest(0),
    ] {
        updates.push(update(Type::Delete, &text));
    }
    updates.push(update(Type::Insert, &l2(9, 1, "")));
    updates.push(update(Type::Delete, &l2(1, 1, "")));
    let status = f
        .write_all(Atomicity::RollbackOnError, updates)
        .unwrap_err();
    assert_eq!(
        codes(&status).last(),
        Some(&Code::NotFound),
        "{}",
        status.message
    );
    // Entries that were deleted and restored follow the others; the order is not part of the state.
    let sorted = |mut entities: Vec<Entity>| {
        entities.sort_by_key(alfirk_p4runtime::text::to_string);
        entities
    };
    assert_eq!(sorted(all_entities(&f)), sorted(before));
}

#[test]
fn malformed_requests_are_rejected_as_a_whole() {
    let mut f = Fixture::new();
    let empty = f
        .write_all(Atomicity::ContinueOnError, vec![Update::default()])
        .unwrap_err();
    assert_eq!(codes(&empty), [Code::InvalidArgument]);
    let untyped = Update {
        r#type: 0,
        entity: Some(entity(&l2(5, 3, ""))),
    };
    let status = f
        .write_all(Atomicity::ContinueOnError, vec![untyped])
        .unwrap_err();
    assert_eq!(codes(&status), [Code::InvalidArgument]);
    let request = WriteRequest {
        device_id: DEVICE,
        election_id: id(1),
        atomicity: 9,
        ..Default::default()
    };
    let status = f.server.write(&request, 0).unwrap_err();
    assert_eq!(status.canonical_code(), Code::InvalidArgument);
    assert_eq!(status.update_errors(), []);
}
