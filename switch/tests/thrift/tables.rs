//! Thrift requests for entries, default actions and action profiles.

use alfirk_thrift::standard::*;
use serde_json::json;

use crate::{builder::*, error_code, exact, TestServer};

fn program() -> Builder {
    let mut b = Builder::new();
    b.header("h_t", &["h"], json!([["a", 8, false], ["b", 16, false]]));
    b.extracts(&["h"]).emits(&["h"]);
    let forward = b.action(
        "forward",
        &[("port", 9)],
        json!([assign(standard("egress_spec"), arg(0))]),
    );
    let nop = b.action("nop", &[], json!([]));
    let actions = [("forward", forward), ("nop", nop)];
    b.table("t", "exact", json!([key("exact", "h", "a")]), &actions);
    b.set("/pipelines/0/tables/0/max_size", json!(3));
    b.set("/pipelines/0/tables/0/with_counters", json!(true));
    b.set("/pipelines/0/tables/0/support_timeout", json!(true));
    b
}

fn ternary() -> Builder {
    let mut b = program();
    b.set(
        "/pipelines/0/tables/0/key",
        json!([key("ternary", "h", "b")]),
    );
    b.set("/pipelines/0/tables/0/match_type", json!("ternary"));
    b
}

fn ternary_key(key: [u8; 2], mask: [u8; 2]) -> Vec<BmMatchParam> {
    vec![BmMatchParam {
        r#type: BmMatchParamType::Ternary,
        ternary: Some(BmMatchParamTernary {
            key: key.to_vec(),
            mask: mask.to_vec(),
        }),
        ..Default::default()
    }]
}

const NO_OPTIONS: BmAddEntryOptions = BmAddEntryOptions { priority: None };

#[test]
fn handles_consist_of_the_lowest_free_slot_and_a_version() {
    let mut served = TestServer::new(&program());
    let mut client = served.client.standard();
    let mut add = |value: u8| {
        let port = vec![vec![0, value]];
        client
            .bm_mt_add_entry(0, "t", vec![exact(&[value])], "forward", port, NO_OPTIONS)
            .unwrap()
    };
    assert_eq!([add(1), add(2), add(3)], [0, 1, 2]);
    let mut client = served.client.standard();
    client.bm_mt_delete_entry(0, "t", 2).unwrap();
    client.bm_mt_delete_entry(0, "t", 0).unwrap();
    assert_eq!(
        error_code(client.bm_mt_delete_entry(0, "t", 0)),
        "INVALID_HANDLE"
    );
    let again = client.bm_mt_add_entry(0, "t", vec![exact(&[9])], "nop", vec![], NO_OPTIONS);
    assert_eq!(again.unwrap(), 1 << 24);
    assert_eq!(
        error_code(client.bm_mt_delete_entry(0, "t", 0)),
        "EXPIRED_HANDLE"
    );
    assert_eq!(
        error_code(client.bm_mt_get_entry(0, "t", 0)),
        "EXPIRED_HANDLE"
    );
    let listed = client.bm_mt_get_entries(0, "t").unwrap();
    let handles: Vec<_> = listed.iter().map(|entry| entry.entry_handle).collect();
    assert_eq!(handles, [1 << 24, 1]);
    assert_eq!(client.bm_mt_get_num_entries(0, "t").unwrap(), 2);
    client.bm_mt_clear_entries(0, "t", false).unwrap();
    let fresh = client.bm_mt_add_entry(0, "t", vec![exact(&[9])], "nop", vec![], NO_OPTIONS);
    assert_eq!(fresh.unwrap(), 0);
}

#[test]
fn entries_are_returned_with_the_length_of_their_fields() {
    let mut served = TestServer::new(&ternary());
    let mut client = served.client.standard();
    let options = BmAddEntryOptions { priority: Some(7) };
    let key = ternary_key([0x12, 0x34], [0xff, 0]);
    let port = vec![vec![0, 5]];
    let entry = client
        .bm_mt_add_entry(0, "t", key.clone(), "forward", port, options.clone())
        .unwrap();
    let shown = client.bm_mt_get_entry(0, "t", entry).unwrap();
    // Bits outside of the mask are cleared; parameters are in the shortest form.
    assert_eq!(shown.match_key, ternary_key([0x12, 0], [0xff, 0]));
    assert_eq!(shown.options, options);
    assert_eq!(
        shown.action_entry.action_type,
        BmActionEntryType::ActionData
    );
    assert_eq!(shown.action_entry.action_name.as_deref(), Some("forward"));
    assert_eq!(shown.action_entry.action_data, Some(vec![vec![5]]));
    assert_eq!(shown.life, None);
    let found = client.bm_mt_get_entry_from_key(0, "t", key.clone(), options);
    assert_eq!(found.unwrap(), shown);
    let other = client.bm_mt_get_entry_from_key(0, "t", key, NO_OPTIONS);
    assert_eq!(error_code(other), "BAD_MATCH_KEY");
    let mut after = served.end();
    let sent = after.server.switch_mut().process(0, &[1, 0x12, 0x99], 0);
    assert_eq!(sent[0].0, 5);
}

#[test]
fn entries_of_tables_without_priorities_have_no_priority() {
    let mut served = TestServer::new(&program());
    let mut client = served.client.standard();
    let options = BmAddEntryOptions { priority: Some(7) };
    let entry = client.bm_mt_add_entry(0, "t", vec![exact(&[1])], "nop", vec![], options);
    let shown = client.bm_mt_get_entry(0, "t", entry.unwrap()).unwrap();
    assert_eq!(shown.options.priority, Some(-1));
}

#[test]
fn invalid_entries_are_rejected_with_bmv2_s_codes() {
    let mut served = TestServer::new(&program());
    let mut client = served.client.standard();
    let mut add = |table: &str, key: &[u8], action: &str, data: &[&[u8]]| {
        let data = data.iter().map(|d| d.to_vec()).collect();
        client.bm_mt_add_entry(0, table, vec![exact(key)], action, data, NO_OPTIONS)
    };
    assert_eq!(error_code(add("x", &[1], "nop", &[])), "INVALID_TABLE_NAME");
    assert_eq!(error_code(add("t", &[1], "x", &[])), "INVALID_ACTION_NAME");
    assert_eq!(
        error_code(add("t", &[1], "forward", &[])),
        "BAD_ACTION_DATA"
    );
    assert_eq!(
        error_code(add("t", &[1], "forward", &[&[2, 0]])),
        "BAD_ACTION_DATA"
    );
    assert_eq!(error_code(add("t", &[0, 1], "nop", &[])), "BAD_MATCH_KEY");
    for value in 1..=3 {
        add("t", &[value], "nop", &[]).unwrap();
    }
    assert_eq!(error_code(add("t", &[1], "nop", &[])), "DUPLICATE_ENTRY");
    assert_eq!(error_code(add("t", &[4], "nop", &[])), "TABLE_FULL");
    let modified = client.bm_mt_modify_entry(0, "t", 9, "nop", vec![]);
    assert_eq!(error_code(modified), "INVALID_HANDLE");
    assert_eq!(
        error_code(client.bm_mt_indirect_delete_entry(0, "t", 0)),
        "WRONG_TABLE_TYPE"
    );
    let rates = client.bm_mt_get_meter_rates(0, "t", 0);
    assert_eq!(error_code(rates), "METERS_DISABLED");
}

#[test]
fn default_actions_are_set_shown_and_reset() {
    let mut b = program();
    let nop = json!({"action_id": 1, "action_const": false, "action_data": [], "action_entry_const": false});
    b.set("/pipelines/0/tables/0/default_entry", nop);
    let mut served = TestServer::new(&b);
    let mut client = served.client.standard();
    let name = |entry: BmActionEntry| entry.action_name.unwrap_or_default();
    assert_eq!(name(client.bm_mt_get_default_entry(0, "t").unwrap()), "nop");
    let port = vec![vec![1, 0xff]];
    client
        .bm_mt_set_default_action(0, "t", "forward", port)
        .unwrap();
    let shown = client
        .bm_mt_get_entry_from_key(0, "t", vec![], NO_OPTIONS)
        .unwrap();
    assert_eq!(name(shown.action_entry), "forward");
    client.bm_mt_reset_default_entry(0, "t").unwrap();
    assert_eq!(name(client.bm_mt_get_default_entry(0, "t").unwrap()), "nop");

    b.set(
        "/pipelines/0/tables/0/default_entry/action_const",
        json!(true),
    );
    let mut served = TestServer::new(&b);
    let set = served
        .client
        .standard()
        .bm_mt_set_default_action(0, "t", "forward", vec![vec![1]]);
    assert_eq!(error_code(set), "DEFAULT_ACTION_IS_CONST");
    b.set(
        "/pipelines/0/tables/0/default_entry/action_entry_const",
        json!(true),
    );
    let mut served = TestServer::new(&b);
    let set = served
        .client
        .standard()
        .bm_mt_set_default_action(0, "t", "nop", vec![]);
    assert_eq!(error_code(set), "DEFAULT_ENTRY_IS_CONST");
}

#[test]
fn direct_counters_and_timeouts_are_removed_with_their_entry() {
    let mut served = TestServer::new(&program());
    let mut client = served.client.standard();
    let entry = client.bm_mt_add_entry(0, "t", vec![exact(&[1])], "nop", vec![], NO_OPTIONS);
    let entry = entry.unwrap();
    let value = BmCounterValue {
        bytes: 3,
        packets: -1,
    };
    client
        .bm_mt_write_counter(0, "t", entry, value.clone())
        .unwrap();
    assert_eq!(client.bm_mt_read_counter(0, "t", entry).unwrap(), value);
    client.bm_mt_reset_counters(0, "t").unwrap();
    let read = client.bm_mt_read_counter(0, "t", entry).unwrap();
    assert_eq!(read, BmCounterValue::default());
    // Each request takes one millisecond here.
    client.bm_mt_set_entry_ttl(0, "t", entry, 500).unwrap();
    let life = client.bm_mt_get_entry(0, "t", entry).unwrap().life;
    let expected = BmMtEntryLife {
        timeout_ms: 500,
        time_since_hit_ms: 1,
    };
    assert_eq!(life, Some(expected));
}

fn with_profile() -> Builder {
    let mut b = program();
    b.set("/pipelines/0/tables/0/type", json!("indirect_ws"));
    b.set("/pipelines/0/tables/0/action_profile", json!("p"));
    b.set("/pipelines/0/tables/0/with_counters", json!(false));
    let selector = json!({"algo": "crc16", "input": [field("h", "b")]});
    let profile = json!([{"name": "p", "id": 0, "max_size": 16, "selector": selector}]);
    b.set("/pipelines/0/action_profiles", profile);
    b
}

#[test]
fn members_and_groups_choose_actions() {
    let mut served = TestServer::new(&with_profile());
    let mut client = served.client.standard();
    let mut member = |port: u8| {
        let data = vec![vec![port]];
        client
            .bm_mt_act_prof_add_member(0, "p", "forward", data)
            .unwrap()
    };
    assert_eq!([member(4), member(5)], [0, 1]);
    let mut client = served.client.standard();
    assert_eq!(client.bm_mt_act_prof_create_group(0, "p").unwrap(), 0);
    let key = vec![exact(&[1])];
    let added = client.bm_mt_indirect_ws_add_entry(0, "t", key.clone(), 0, NO_OPTIONS);
    assert_eq!(error_code(added), "EMPTY_GRP");
    client
        .bm_mt_act_prof_add_member_to_group(0, "p", 1, 0)
        .unwrap();
    let again = client.bm_mt_act_prof_add_member_to_group(0, "p", 1, 0);
    assert_eq!(error_code(again), "MBR_ALREADY_IN_GRP");
    let taken = client.bm_mt_act_prof_remove_member_from_group(0, "p", 0, 0);
    assert_eq!(error_code(taken), "MBR_NOT_IN_GRP");
    client
        .bm_mt_indirect_ws_add_entry(0, "t", key, 0, NO_OPTIONS)
        .unwrap();
    let member = client.bm_mt_indirect_add_entry(0, "t", vec![exact(&[2])], 0, NO_OPTIONS);
    assert_eq!(member.unwrap(), 1);
    let entries = client.bm_mt_get_entries(0, "t").unwrap();
    assert_eq!(entries[0].action_entry.grp_handle, Some(0));
    assert_eq!(entries[1].action_entry.mbr_handle, Some(0));
    let groups = client.bm_mt_act_prof_get_groups(0, "p").unwrap();
    assert_eq!(groups[0].mbr_handles, [1]);
    assert_eq!(
        error_code(client.bm_mt_act_prof_delete_member(0, "p", 0)),
        "MBR_STILL_USED"
    );
    assert_eq!(
        error_code(client.bm_mt_act_prof_delete_group(0, "p", 0)),
        "GRP_STILL_USED"
    );
    let unknown = client.bm_mt_act_prof_get_member(0, "p", 7);
    assert_eq!(error_code(unknown), "INVALID_MBR_HANDLE");
    let missing = client.bm_mt_act_prof_get_member(0, "q", 0);
    assert_eq!(error_code(missing), "INVALID_ACTION_PROFILE_NAME");
    client
        .bm_mt_act_prof_modify_member(0, "p", 0, "forward", vec![vec![6]])
        .unwrap();
    let mut after = served.end();
    let mut switch = after.server.switch_mut();
    assert_eq!(switch.process(0, &[1, 0, 0], 0)[0].0, 5);
    assert_eq!(switch.process(0, &[2, 0, 0], 0)[0].0, 6);
}

#[test]
fn without_a_program_there_are_no_tables() {
    let switch = alfirk_bmv2::Switch::new(Default::default());
    let mut served = TestServer::with(switch, "", Default::default());
    let mut client = served.client.standard();
    assert_eq!(
        error_code(client.bm_mt_get_num_entries(0, "t")),
        "INVALID_TABLE_NAME"
    );
    assert_eq!(client.bm_mt_get_entries(0, "t").unwrap(), []);
    client.bm_reset_state().unwrap();
    assert_eq!(client.bm_get_config().unwrap(), "");
}

/// Mutable entries of the program can be changed, const ones cannot.
#[test]
fn mutable_entries_of_the_program_can_be_changed() {
    let mut program = ternary();
    let entry = |value: &str, mask: &str, priority: i64, is_const: bool| {
        json!({
            "match_key": [{"match_type": "ternary", "key": value, "mask": mask}],
            "action_entry": {"action_id": 1, "action_data": []},
            "priority": priority,
            "is_const": is_const,
        })
    };
    let entries = json!([
        entry("0x1200", "0xff00", 5, true),
        entry("0x0", "0x0", 9, false)
    ]);
    program.set("/pipelines/0/tables/0/entries", entries);
    program.set("/pipelines/0/tables/0/const_entries", json!(false));
    let mut served = TestServer::new(&program);
    let mut client = served.client.standard();
    let listed = client.bm_mt_get_entries(0, "t").unwrap();
    let priorities: Vec<_> = listed.iter().map(|entry| entry.options.priority).collect();
    assert_eq!(priorities, [Some(5), Some(9)]);
    let (fixed, free) = (listed[0].entry_handle, listed[1].entry_handle);
    let port = || vec![vec![0, 5]];
    let rejected = client.bm_mt_modify_entry(0, "t", fixed, "forward", port());
    assert_eq!(error_code(rejected), "IMMUTABLE_TABLE_ENTRIES");
    let rejected = client.bm_mt_delete_entry(0, "t", fixed);
    assert_eq!(error_code(rejected), "IMMUTABLE_TABLE_ENTRIES");
    client
        .bm_mt_modify_entry(0, "t", free, "forward", port())
        .unwrap();
    client.bm_mt_delete_entry(0, "t", free).unwrap();
    let options = BmAddEntryOptions { priority: Some(7) };
    let key = ternary_key([0, 0], [0, 0]);
    client
        .bm_mt_add_entry(0, "t", key, "forward", port(), options)
        .unwrap();
    assert_eq!(client.bm_mt_get_num_entries(0, "t").unwrap(), 2);
}
