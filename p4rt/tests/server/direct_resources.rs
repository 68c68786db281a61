//! Direct counters and meters (P4Runtime § 9.1.8, § 9.3.1, § 9.4.1).

use alfirk_p4runtime::Code;

use crate::fixture::*;

fn key(dst: u8, more: &str) -> String {
    format!(r#"table_id: {L2} match {{ field_id: 1 exact {{ value: "\x{dst:02x}" }} }} {more}"#)
}

fn count(f: &Fixture, dst: u8) -> String {
    let read = f.read(&format!(
        "direct_counter_entry {{ table_entry {{ {} }} }}",
        key(dst, "")
    ));
    alfirk_p4runtime::text::to_string(&read[0])
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn counters_count_and_are_set() {
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, "")).unwrap();
    f.packet(1, &frame(5));
    f.packet(1, &frame(5));
    assert!(
        count(&f, 5).contains("data { byte_count: 42 packet_count: 2 }"),
        "{}",
        count(&f, 5)
    );
    let set = format!("direct_counter_entry {{ table_entry {{ {} }} data {{ packet_count: 10 byte_count: 100 }} }}", key(5, ""));
    f.modify(&set).unwrap();
    f.packet(1, &frame(5));
    assert!(count(&f, 5).contains("byte_count: 121 packet_count: 11"));
    let left_alone = format!(
        "direct_counter_entry {{ table_entry {{ {} }} }}",
        key(5, "")
    );
    f.modify(&left_alone).unwrap();
    assert!(count(&f, 5).contains("packet_count: 11"));
    assert_rejected(f.insert(&set), Code::InvalidArgument, "only be modified");
    assert_rejected(f.delete(&set), Code::InvalidArgument, "only be modified");
}

#[test]
fn counters_are_part_of_their_entry_on_request() {
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, "counter_data { packet_count: 7 byte_count: 70 }"))
        .unwrap();
    let read = f.read(&format!("table_entry {{ {} }}", key(5, "counter_data {}")));
    assert_eq!(
        read,
        [entity(&l2(
            5,
            3,
            "counter_data { packet_count: 7 byte_count: 70 }"
        ))]
    );
    assert_eq!(
        f.read(&format!("table_entry {{ {} }}", key(5, ""))),
        [entity(&l2(5, 3, ""))]
    );
    // MODIFY without counter data keeps the counter.
    f.modify(&l2(5, 4, "")).unwrap();
    assert!(count(&f, 5).contains("packet_count: 7"));
    f.modify(&l2(5, 4, "counter_data {}")).unwrap();
    assert!(count(&f, 5).contains("data { }"));
}

#[test]
fn wildcards_read_all_counters() {
    let mut f = Fixture::new();
    f.insert(&l2(5, 3, "")).unwrap();
    f.insert(&l2(6, 3, "")).unwrap();
    assert_eq!(f.read("direct_counter_entry {}").len(), 2);
    assert_eq!(
        f.read(&format!(
            "direct_counter_entry {{ table_entry {{ table_id: {L2} }} }}"
        ))
        .len(),
        2
    );
    let missing = format!(
        "direct_counter_entry {{ table_entry {{ {} }} }}",
        key(9, "")
    );
    assert_eq!(code(&f.try_read(&missing).unwrap_err()), Code::NotFound);
    let none = format!("direct_counter_entry {{ table_entry {{ table_id: {ROUTES} }} }}");
    let refused = f.try_read(&none).unwrap_err();
    assert_eq!(code(&refused), Code::InvalidArgument);
    assert!(
        refused.message.ends_with("has no direct counters"),
        "{}",
        refused.message
    );
}

fn acl(more: &str) -> String {
    format!("table_entry {{ table_id: {ACL} priority: 1 {more} }}")
}

const ACTION: &str = "action { action { action_id: 21257015 } }";
const RATES: &str = "cir: 1 cburst: 2 pir: 3 pburst: 4";

#[test]
fn direct_meters_are_set_with_their_entry_or_separately() {
    let mut f = Fixture::new();
    let with_rates = acl(&format!("{ACTION} meter_config {{ {RATES} }}"));
    f.insert(&with_rates).unwrap();
    let read = f.read(&acl("meter_config {}"));
    assert_eq!(read, [entity(&with_rates)]);
    // MODIFY without rates resets them.
    f.modify(&acl(ACTION)).unwrap();
    assert_eq!(f.read(&acl("meter_config {}")), [entity(&acl(ACTION))]);
    let of = format!("direct_meter_entry {{ table_entry {{ table_id: {ACL} priority: 1 }}");
    let set = format!("{of} config {{ {RATES} }} }}");
    f.modify(&set).unwrap();
    assert_eq!(f.read("direct_meter_entry {}"), [entity(&set)]);
    f.modify(&format!("{of} }}")).unwrap();
    assert_eq!(
        f.read("direct_meter_entry {}"),
        [entity(&format!("{of} }}"))]
    );
}

#[test]
fn invalid_resources_are_rejected() {
    let mut f = Fixture::new();
    assert_rejected(
        f.insert(&l2(5, 3, "meter_config {}")),
        Code::InvalidArgument,
        "no direct meter",
    );
    assert_rejected(
        f.insert(&acl(&format!("{ACTION} counter_data {{}}"))),
        Code::InvalidArgument,
        "no direct counter",
    );
    let meter = |rates: &str| acl(&format!("{ACTION} meter_config {{ {rates} }}"));
    assert_rejected(
        f.insert(&meter("eburst: 1")),
        Code::InvalidArgument,
        "excess burst",
    );
    assert_rejected(
        f.insert(&meter("cir: -1")),
        Code::InvalidArgument,
        "negative",
    );
    assert_rejected(
        f.insert(&meter("cir: 2 pir: 1")),
        Code::InvalidArgument,
        "peak",
    );
    assert_rejected(
        f.insert(&l2(5, 3, "counter_data { byte_count: -1 }")),
        Code::InvalidArgument,
        "negative",
    );
    assert_rejected(
        f.insert(&acl(&format!("{ACTION} meter_counter_data {{}}"))),
        Code::Unimplemented,
        "counters per colour",
    );
    // A failed insert leaves no entry.
    assert_eq!(f.read(&format!("table_entry {{ table_id: {ACL} }}")), []);
    assert_eq!(f.read(&format!("table_entry {{ table_id: {L2} }}")), []);
}
