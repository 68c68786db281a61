//! Action profile members and groups (P4Runtime § 9.2).

use alfirk_p4runtime::Code;

use crate::fixture::*;

fn member(id: u32, port: u8) -> String {
    format!(
        r#"action_profile_member {{ action_profile_id: {SELECTOR} member_id: {id}
           action {{ action_id: {FORWARD} params {{ param_id: 1 value: "\x{port:02x}" }} }} }}"#
    )
}

fn group(id: u32, members: &str) -> String {
    format!("action_profile_group {{ action_profile_id: {SELECTOR} group_id: {id} {members} }}")
}

fn one(id: u32) -> String {
    format!("members {{ member_id: {id} weight: 1 }}")
}

fn entry(action: &str) -> String {
    format!(
        r#"table_entry {{ table_id: {ECMP} match {{ field_id: 1 exact {{ value: "\x08\x00" }} }} action {{ {action} }} }}"#
    )
}

#[test]
fn entries_may_refer_to_members_and_groups() {
    let mut f = Fixture::new();
    assert_rejected(
        f.insert(&entry("action_profile_member_id: 1")),
        Code::NotFound,
        "member 1",
    );
    f.insert(&member(1, 3)).unwrap();
    f.insert(&entry("action_profile_member_id: 1")).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [3]);
    f.modify(&member(1, 4)).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [4]);
    f.insert(&member(2, 6)).unwrap();
    f.insert(&group(1, &one(2))).unwrap();
    f.modify(&entry("action_profile_group_id: 1")).unwrap();
    assert_eq!(f.ports(1, &frame(5)), [6]);
    assert_eq!(
        f.read("action_profile_member {}"),
        [entity(&member(1, 4)), entity(&member(2, 6))]
    );
    assert_eq!(
        f.read("action_profile_group {}"),
        [entity(&group(1, &one(2)))]
    );
    assert_eq!(
        f.read(&format!("table_entry {{ table_id: {ECMP} }}")),
        [entity(&entry("action_profile_group_id: 1"))]
    );
}

#[test]
fn objects_in_use_are_not_deleted() {
    let mut f = Fixture::new();
    f.insert(&member(1, 3)).unwrap();
    f.insert(&group(1, &one(1))).unwrap();
    f.insert(&entry("action_profile_group_id: 1")).unwrap();
    assert_rejected(
        f.delete(&member(1, 3)),
        Code::FailedPrecondition,
        "member 1",
    );
    assert_rejected(f.delete(&group(1, "")), Code::FailedPrecondition, "group 1");
    f.delete(&entry("")).unwrap();
    f.delete(&group(1, "")).unwrap();
    f.delete(&member(1, 3)).unwrap();
    assert_eq!(f.read("action_profile_member {}"), []);
}

#[test]
fn existence_is_checked() {
    let mut f = Fixture::new();
    assert_rejected(f.modify(&member(1, 3)), Code::NotFound, "member 1");
    assert_rejected(f.delete(&member(1, 3)), Code::NotFound, "member 1");
    assert_rejected(f.modify(&group(1, "")), Code::NotFound, "group 1");
    assert_rejected(f.insert(&group(1, &one(1))), Code::NotFound, "member 1");
    f.insert(&member(1, 3)).unwrap();
    assert_rejected(f.insert(&member(1, 3)), Code::AlreadyExists, "member 1");
    f.insert(&group(1, &one(1))).unwrap();
    assert_rejected(f.insert(&group(1, "")), Code::AlreadyExists, "group 1");
}

#[test]
fn groups_are_limited_in_size() {
    let mut f = Fixture::new();
    for id in 1..=5 {
        f.insert(&member(id, 3)).unwrap();
    }
    assert_rejected(
        f.insert(&group(1, "max_size: 5")),
        Code::InvalidArgument,
        "max_size 5",
    );
    f.insert(&group(1, "max_size: 2 members { member_id: 1 weight: 2 }"))
        .unwrap();
    assert_rejected(
        f.modify(&group(1, "max_size: 3")),
        Code::InvalidArgument,
        "cannot change",
    );
    let heavy = "max_size: 2 members { member_id: 1 weight: 3 }";
    assert_rejected(
        f.modify(&group(1, heavy)),
        Code::ResourceExhausted,
        "above the limit 2",
    );
    let five: String = (1..=5).map(one).collect();
    assert_rejected(
        f.insert(&group(2, &five)),
        Code::ResourceExhausted,
        "above the limit 4",
    );
    assert_rejected(
        f.insert(&group(2, "members { member_id: 1 }")),
        Code::InvalidArgument,
        "weight 0",
    );
    assert_rejected(
        f.insert(&group(2, &format!("{} {}", one(1), one(1)))),
        Code::InvalidArgument,
        "occurs twice",
    );
}

#[test]
fn malformed_ids_are_rejected() {
    let mut f = Fixture::new();
    assert_rejected(
        f.insert(&member(0, 3)),
        Code::InvalidArgument,
        "ids start at 1",
    );
    assert_rejected(
        f.insert("action_profile_member { member_id: 1 }"),
        Code::InvalidArgument,
        "no action profile",
    );
    let no_action =
        format!("action_profile_member {{ action_profile_id: {SELECTOR} member_id: 1 }}");
    assert_rejected(f.insert(&no_action), Code::InvalidArgument, "no action");
    let direct = format!("action {{ action_id: {NO_ACTION} }}");
    assert_rejected(
        f.insert(&entry(&direct)),
        Code::InvalidArgument,
        "member, group or action set",
    );
    let wrong = f
        .try_read("action_profile_group { group_id: 1 }")
        .unwrap_err();
    assert_eq!(code(&wrong), Code::InvalidArgument);
}

#[test]
fn members_whose_watch_port_is_down_are_not_chosen() {
    let mut f = Fixture::new();
    f.insert(&member(1, 3)).unwrap();
    f.insert(&member(2, 4)).unwrap();
    let watched = r#"members { member_id: 1 weight: 1 watch_port: "\x03" } members { member_id: 2 weight: 1 watch_port: "\x04" }"#;
    f.insert(&group(1, watched)).unwrap();
    f.insert(&entry("action_profile_group_id: 1")).unwrap();
    let before: std::collections::BTreeSet<u32> =
        (0..32).flat_map(|dst| f.ports(1, &frame(dst))).collect();
    assert_eq!(before.into_iter().collect::<Vec<_>>(), [3, 4]);
    f.server.set_port(3, false);
    assert!((0..32).all(|dst| f.ports(1, &frame(dst)) == [4]));
    f.server.set_port(3, true);
    assert!((0..32).any(|dst| f.ports(1, &frame(dst)) == [3]));
}

/// The program allows four members of weight 1 per group, and 16 in all groups.
#[test]
fn the_size_of_a_selector_limits_all_groups_together() {
    let mut f = Fixture::new();
    f.insert(&member(1, 3)).unwrap();
    f.insert(&member(2, 4)).unwrap();
    let weighing =
        |id: u32, weight: i32| group(id, &format!("members {{ member_id: 1 weight: {weight} }}"));
    assert_rejected(
        f.insert(&weighing(1, 5)),
        Code::ResourceExhausted,
        "the sum of weights is 5, above the limit 4",
    );
    for id in 1..=4 {
        f.insert(&weighing(id, 4)).unwrap();
    }
    assert_rejected(
        f.insert(&weighing(5, 1)),
        Code::ResourceExhausted,
        "the sum of weights of all groups would be 17, above its size of 16",
    );
    // Modifying a group counts the difference only.
    f.modify(&weighing(1, 3)).unwrap();
    f.insert(&weighing(5, 1)).unwrap();
    assert_rejected(
        f.modify(&weighing(1, 4)),
        Code::ResourceExhausted,
        "would be 17",
    );
    f.delete(&weighing(5, 1)).unwrap();
    f.modify(&weighing(1, 4)).unwrap();
}

#[test]
fn a_selectors_size_does_not_limit_members() {
    let mut f = Fixture::new();
    for id in 1..=40 {
        f.insert(&member(id, 3)).unwrap();
    }
    f.insert(&group(1, &one(40))).unwrap();
}

#[test]
fn a_selector_may_count_members() {
    use alfirk_p4runtime::p4::{
        config::v1::action_profile::{SelectorSizeSemantics, SumOfMembers},
        v1::set_forwarding_pipeline_config_request::Action,
    };
    let mut f = Fixture::without_pipeline();
    let mut config = config();
    let info = config.p4info.as_mut().unwrap();
    info.action_profiles[0].selector_size_semantics =
        Some(SelectorSizeSemantics::SumOfMembers(SumOfMembers {
            max_member_weight: 100,
        }));
    f.set_pipeline(Action::VerifyAndCommit, Some(config))
        .unwrap();
    for id in 1..=5 {
        f.insert(&member(id, 3)).unwrap();
    }
    let of = |ids: &[u32]| {
        let members = ids
            .iter()
            .map(|id| format!("members {{ member_id: {id} weight: 100 }}"));
        members.collect::<String>()
    };
    assert_rejected(
        f.insert(&group(1, &of(&[1, 2, 3, 4, 5]))),
        Code::ResourceExhausted,
        "the number of members is 5, above the limit 4",
    );
    for id in 1..=4 {
        f.insert(&group(id, &of(&[1, 2, 3, 4]))).unwrap();
    }
    assert_rejected(
        f.insert(&group(5, &of(&[1]))),
        Code::ResourceExhausted,
        "the number of members of all groups would be 17, above its size of 16",
    );
}
