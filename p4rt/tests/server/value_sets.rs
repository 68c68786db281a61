//! Parser value sets (P4Runtime § 9.6).

use alfirk_p4runtime::Code;

use crate::fixture::*;

fn set(kinds: &[u16]) -> String {
    let members: String = kinds
        .iter()
        .map(|kind| {
            let [high, low] = kind.to_be_bytes();
            format!(r#" members {{ match {{ field_id: 1 exact {{ value: "\x{high:02x}\x{low:02x}" }} }} }}"#)
        })
        .collect();
    format!("value_set_entry {{ value_set_id: {VALUE_SET}{members} }}")
}

#[test]
fn members_decide_parser_transitions() {
    let mut f = Fixture::new();
    // A packet with the mark is parsed as one with an address, and then routed.
    f.insert(&format!(
        r#"table_entry {{ table_id: {ROUTES} match {{ field_id: 1 lpm {{ value: "\x0a\x00\x00\x00" prefix_len: 8 }} }}
           action {{ action {{ action_id: {FORWARD} params {{ param_id: 1 value: "\x08" }} }} }} }}"#
    ))
    .unwrap();
    assert_eq!(f.ports(1, &frame(5)), [0]);
    f.modify(&set(&[0x0800, 0x86dd])).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [8]);
    assert_eq!(
        f.read("value_set_entry {}"),
        [entity(&set(&[0x0800, 0x86dd]))]
    );
    f.modify(&set(&[])).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [0]);
    assert_eq!(f.read("value_set_entry {}"), [entity(&set(&[]))]);
}

#[test]
fn invalid_sets_are_rejected() {
    let mut f = Fixture::new();
    assert_rejected(
        f.insert(&set(&[])),
        Code::InvalidArgument,
        "only be modified",
    );
    assert_rejected(
        f.modify(&set(&[1, 2, 3])),
        Code::ResourceExhausted,
        "2 members",
    );
    assert_rejected(
        f.modify(&set(&[0x101, 0x101])),
        Code::AlreadyExists,
        "occurs twice",
    );
    assert_rejected(
        f.modify("value_set_entry { value_set_id: 5 }"),
        Code::InvalidArgument,
        "no value set",
    );
}
