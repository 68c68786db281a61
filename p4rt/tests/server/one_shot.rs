//! Entries with their own action set (P4Runtime § 9.2.3).

use alfirk_p4runtime::Code;

use crate::fixture::*;

fn action(port: u8, more: &str) -> String {
    format!(
        r#"action_profile_actions {{ action {{ action_id: {FORWARD} params {{ param_id: 1 value: "\x{port:02x}" }} }} {more} }}"#
    )
}

fn entry(set: &str) -> String {
    format!(
        r#"table_entry {{ table_id: {ECMP} match {{ field_id: 1 exact {{ value: "\x08\x00" }} }}
           action {{ action_profile_action_set {{ {set} }} }} }}"#
    )
}

fn key() -> String {
    format!(
        r#"table_entry {{ table_id: {ECMP} match {{ field_id: 1 exact {{ value: "\x08\x00" }} }} }}"#
    )
}

#[test]
fn an_action_set_is_applied_and_read_as_written() {
    let mut f = Fixture::new();
    let two = entry(&format!(
        "{} {}",
        action(3, "weight: 1"),
        action(4, "weight: 2")
    ));
    f.insert(&two).unwrap();
    let ports: std::collections::BTreeSet<u32> =
        (0..32).flat_map(|dst| f.ports(1, &frame(dst))).collect();
    assert_eq!(ports.into_iter().collect::<Vec<_>>(), [3, 4]);
    assert_eq!(f.read(&key()), [entity(&two)]);
    // Members and groups of a one-shot are not shown.
    assert_eq!(f.read("action_profile_member {}"), []);
    assert_eq!(f.read("action_profile_group {}"), []);

    let other = entry(&action(6, "weight: 1"));
    f.modify(&other).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [6]);
    f.delete(&key()).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [0]);
    let profile = f.server.switch().profile("ingress.selector").unwrap();
    assert_eq!(f.server.switch().members(profile).unwrap(), []);
    assert_eq!(f.server.switch().groups(profile).unwrap(), []);
}

#[test]
fn one_shots_and_members_cannot_be_mixed() {
    let member = format!("action_profile_member {{ action_profile_id: {SELECTOR} member_id: 1 action {{ action_id: {NO_ACTION} }} }}");
    let mut f = Fixture::new();
    f.insert(&member).unwrap();
    assert_rejected(
        f.insert(&entry(&action(3, "weight: 1"))),
        Code::InvalidArgument,
        "not both",
    );
    f.delete(&member).unwrap();
    f.insert(&entry(&action(3, "weight: 1"))).unwrap();
    assert_rejected(f.insert(&member), Code::InvalidArgument, "in one shot");
}

#[test]
fn a_rejected_action_set_leaves_no_members() {
    let mut f = Fixture::new();
    assert_rejected(
        f.insert(&entry(&action(3, ""))),
        Code::InvalidArgument,
        "weight 0",
    );
    assert_rejected(
        f.insert(&entry(&action(3, "weight: 5"))),
        Code::InvalidArgument,
        "above the limit 4",
    );
    let random = format!("{} action_selection_mode: RANDOM", action(3, "weight: 1"));
    assert_rejected(
        f.insert(&entry(&random)),
        Code::Unimplemented,
        "selection mode",
    );
    let wrong = r#"action_profile_actions { action { action_id: 5 } weight: 1 }"#;
    assert_rejected(
        f.insert(&entry(wrong)),
        Code::InvalidArgument,
        "no action has id",
    );
    let profile = f.server.switch().profile("ingress.selector").unwrap();
    assert_eq!(f.server.switch().members(profile).unwrap(), []);
    f.insert(&entry(&action(3, "weight: 1"))).unwrap();
    assert_rejected(
        f.modify(&entry(&action(3, "weight: 5"))),
        Code::InvalidArgument,
        "above the limit 4",
    );
    assert_eq!(f.read(&key()), [entity(&entry(&action(3, "weight: 1")))]);
    assert_eq!(f.server.switch().members(profile).unwrap().len(), 1);
}
