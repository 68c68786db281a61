//! Control plane operations and their errors.

use std::sync::Arc;

use crate::builder::*;
use crate::p4::{run, P4};
use alfirk_bmv2::*;
use serde_json::{json, Value};

/// Returns a program with a table of two entries with idle timeouts, on a byte and a 16-bit number; `properties` are
/// its default action and entries.
fn text(properties: &str) -> String {
    let locals = format!(
        r#"@name(".forward") action forward(bit<9> port) {{ sm.egress_spec = port; }}
        @name(".nop") action nop() {{}}
        @name(".t") table t {{
            key = {{ hdr.h.a: exact @name("h.a"); hdr.h.b: ternary @name("h.b"); }}
            actions = {{ forward; nop; }}
            size = 2;
            support_timeout = true;
            {properties}
        }}"#
    );
    let program = P4 {
        fields: "bit<8> a; bit<16> b;",
        locals: &locals,
        ingress: "t.apply();",
        ..P4::default()
    };
    program.text()
}

fn load(text: &str) -> Switch {
    run(Arc::new(LoadedProgram::from_json(text).unwrap()))
}

fn with(properties: &str) -> Switch {
    load(&text(properties))
}

/// Returns a switch whose table has a default entry of a form that compilers do not generate.
fn with_default_entry(change: impl Fn(&mut Value)) -> Switch {
    let mut json: Value = serde_json::from_str(&text("default_action = forward(3);")).unwrap();
    let table = &mut json["pipelines"][0]["tables"][0];
    assert_eq!(table["name"], "t");
    change(&mut table["default_entry"]);
    load(&json.to_string())
}

fn ternary(value: u64, mask: u64) -> KeyMatch {
    KeyMatch::Ternary {
        value: value.to_be_bytes().to_vec(),
        mask: mask.to_be_bytes().to_vec(),
    }
}

#[test]
fn entries_are_read_back_in_canonical_form() {
    let mut switch = with("");
    let table = switch.table("t").unwrap();
    let key = [exact(7), ternary(0x1200, 0xff00)];
    let handle = switch
        .insert_entry(table, &key, 5, &run_action("forward", &[257]), 0, 99)
        .unwrap();
    let entry = switch.entry(table, handle).unwrap();
    assert_eq!(
        entry.key,
        [
            KeyMatch::Exact { value: vec![7] },
            KeyMatch::Ternary {
                value: vec![0x12, 0],
                mask: vec![0xff, 0]
            },
        ]
    );
    assert_eq!(
        entry.target,
        EntryTarget::Action {
            name: "forward".into(),
            args: vec![vec![1, 1]]
        }
    );
    assert_eq!(
        (
            entry.priority,
            entry.is_const,
            entry.counter,
            entry.last_hit
        ),
        (5, false, None, 99)
    );
    assert_eq!(switch.find_entry(table, &key, 5), Ok(handle));
    assert_eq!(switch.entries(table).unwrap(), [entry]);
    assert!(matches!(
        switch.find_entry(table, &key, 6),
        Err(ManageError::NoEntry { .. })
    ));
}

#[test]
fn entries_can_be_changed_and_removed() {
    let mut switch = with("");
    let table = switch.table("t").unwrap();
    let key = [exact(7), ternary(0, 0)];
    let handle = switch
        .insert_entry(table, &key, 5, &run_action("forward", &[2]), 0, 0)
        .unwrap();
    assert_eq!(switch.process(0, &[7, 0, 0], 0)[0].0, 2);
    switch
        .modify_entry(table, handle, &run_action("forward", &[3]))
        .unwrap();
    assert_eq!(switch.process(0, &[7, 0, 0], 0)[0].0, 3);
    switch.delete_entry(table, handle).unwrap();
    assert_eq!(switch.process(0, &[7, 0, 0], 0)[0].0, 0);
    assert!(matches!(
        switch.delete_entry(table, handle),
        Err(ManageError::NoEntry { .. })
    ));
    assert!(matches!(
        switch.modify_entry(table, handle, &run_action("nop", &[])),
        Err(ManageError::NoEntry { .. })
    ));
    switch
        .insert_entry(table, &key, 5, &run_action("forward", &[2]), 0, 0)
        .unwrap();
    switch.clear_table(table).unwrap();
    assert_eq!(switch.entries(table).unwrap(), []);
}

#[test]
fn errors_of_entries_name_the_cause() {
    let mut switch = with("");
    let table = switch.table("t").unwrap();
    let forward = run_action("forward", &[1]);
    let mut insert = |key: &[KeyMatch], target: &EntryTarget| {
        switch.insert_entry(table, key, 1, target, 0, 0).map(|_| ())
    };
    let good = [exact(7), ternary(0, 0)];
    assert!(matches!(
        insert(&good[..1], &forward),
        Err(ManageError::KeyCount {
            expected: 2,
            got: 1,
            ..
        })
    ));
    let fault = |r: Result<(), ManageError>| match r {
        Err(ManageError::Key { key, fault, .. }) => (key, fault),
        other => panic!("{other:?}"),
    };
    let wide = [exact(256), ternary(0, 0)];
    assert_eq!(
        fault(insert(&wide, &forward)),
        ("h.a".to_owned(), KeyFault::TooWide { bits: 8 })
    );
    let beyond = [exact(1), ternary(3, 1)];
    assert_eq!(fault(insert(&beyond, &forward)).1, KeyFault::BeyondMask);
    let kind = [ternary(1, 1), ternary(0, 0)];
    assert!(matches!(
        fault(insert(&kind, &forward)).1,
        KeyFault::Kind { .. }
    ));
    assert!(matches!(
        insert(&good, &run_action("forward", &[])),
        Err(ManageError::ArgCount {
            expected: 1,
            got: 0,
            ..
        })
    ));
    assert!(matches!(
        insert(&good, &run_action("forward", &[512])),
        Err(ManageError::ArgTooWide { bits: 9, .. })
    ));
    assert!(matches!(
        insert(&good, &run_action("other", &[])),
        Err(ManageError::ActionNotInTable { .. })
    ));
    assert!(matches!(
        insert(&good, &EntryTarget::Member(1)),
        Err(ManageError::WrongTarget { .. })
    ));
    insert(&good, &forward).unwrap();
    assert!(matches!(
        insert(&good, &forward),
        Err(ManageError::EntryExists { .. })
    ));
    insert(&[exact(8), ternary(0, 0)], &forward).unwrap();
    assert!(matches!(
        insert(&[exact(9), ternary(0, 0)], &forward),
        Err(ManageError::TableFull { size: 2, .. })
    ));
    assert!(matches!(
        switch.table("u"),
        Err(ManageError::Unknown { .. })
    ));
    assert!(matches!(
        Switch::new(SwitchOptions::default()).table("t"),
        Err(ManageError::NoProgram)
    ));
}

#[test]
fn tables_without_a_key_have_no_entries() {
    let with = |default: &str| {
        let locals = format!(
            r#"@name(".forward") action forward(bit<9> port) {{ sm.egress_spec = port; }}
            @name(".t") table t {{ actions = {{ forward; }} {default} }}"#
        );
        let program = P4 {
            fields: "bit<8> a;",
            locals: &locals,
            ingress: "t.apply();",
            ..P4::default()
        };
        program.switch()
    };
    let mut switch = with("");
    let table = switch.table("t").unwrap();
    let rejected = switch.insert_entry(table, &[], 0, &run_action("forward", &[1]), 0, 0);
    assert!(matches!(rejected, Err(ManageError::NoKey { .. })));
    switch
        .set_default(table, &run_action("forward", &[4]))
        .unwrap();
    assert_eq!(switch.process(0, &[1], 0)[0].0, 4);
    // A const default action with arguments is part of the code.
    let mut switch = with("const default_action = forward(7);");
    assert_eq!(switch.process(0, &[1], 0)[0].0, 7);
}

#[test]
fn const_default_actions_and_entries_cannot_be_changed() {
    let mut switch = with(
        "const default_action = forward(3);
         const entries = {
             (1, 0x1234): forward(5);
             (1, 0x1200 &&& 0xff00): forward(4);
         }",
    );
    assert_eq!(switch.process(0, &[1, 0x12, 0x35], 0)[0].0, 4);
    assert_eq!(switch.process(0, &[1, 0x12, 0x34], 0)[0].0, 5);
    assert_eq!(switch.process(0, &[2, 0x12, 0x34], 0)[0].0, 3);
    let table = switch.table("t").unwrap();
    assert!(switch.table_info(table).unwrap().const_entries);
    let entries = switch.entries(table).unwrap();
    assert!(entries.len() == 2 && entries.iter().all(|e| e.is_const));
    let rejected = switch.insert_entry(
        table,
        &[exact(9), ternary(0, 0)],
        1,
        &run_action("nop", &[]),
        0,
        0,
    );
    assert!(matches!(rejected, Err(ManageError::ConstEntries { .. })));
    assert!(matches!(
        switch.delete_entry(table, entries[0].handle),
        Err(ManageError::ConstEntries { .. })
    ));
    assert!(matches!(
        switch.set_default(table, &run_action("nop", &[])),
        Err(ManageError::ConstDefault { .. })
    ));
}

#[test]
fn defaults_can_be_set_and_reset() {
    // The action is const, its arguments are not.
    let mut switch = with_default_entry(|entry| entry["action_const"] = json!(true));
    let table = switch.table("t").unwrap();
    assert!(matches!(
        switch.set_default(table, &run_action("nop", &[])),
        Err(ManageError::ConstDefault { .. })
    ));
    switch
        .set_default(table, &run_action("forward", &[6]))
        .unwrap();
    assert_eq!(switch.process(0, &[2, 0, 0], 0)[0].0, 6);
    assert_eq!(
        switch.default_entry(table).unwrap(),
        Some(EntryTarget::Action {
            name: "forward".into(),
            args: vec![vec![6]]
        })
    );
    switch.reset_default(table).unwrap();
    assert_eq!(switch.process(0, &[2, 0, 0], 0)[0].0, 3);
    // Without a default entry.
    let switch = with_default_entry(|entry| *entry = Value::Null);
    let table = switch.table("t").unwrap();
    assert_eq!(switch.default_entry(table).unwrap(), None);
}

#[test]
fn an_idle_entry_is_reported_again_after_every_timeout() {
    let mut switch = with("");
    let table = switch.table("t").unwrap();
    let handle = switch
        .insert_entry(
            table,
            &[exact(7), ternary(0, 0)],
            1,
            &run_action("nop", &[]),
            100,
            0,
        )
        .unwrap();
    assert_eq!(switch.idle_entries(50), (vec![], Some(100)));
    switch.process(0, &[7, 0, 0], 60);
    assert_eq!(switch.idle_entries(100), (vec![], Some(160)));
    assert_eq!(switch.idle_entries(160), (vec![(table, handle)], Some(260)));
    assert_eq!(switch.idle_entries(259), (vec![], Some(260)));
    assert_eq!(switch.idle_entries(260), (vec![(table, handle)], Some(360)));
    switch.process(0, &[7, 0, 0], 300);
    assert_eq!(switch.idle_entries(360), (vec![], Some(400)));
    assert_eq!(switch.idle_entries(700), (vec![(table, handle)], Some(800)));
    switch.set_idle_timeout(table, handle, 0, 700).unwrap();
    assert_eq!(switch.idle_entries(10_000), (vec![], None));
}

#[test]
fn objects_of_the_program_are_described() {
    let switch = with("");
    let table = switch.table("t").unwrap();
    let info = switch.table_info(table).unwrap();
    let keys: Vec<_> = info
        .keys
        .iter()
        .map(|k| (k.name.as_str(), k.bits))
        .collect();
    assert_eq!(keys, [("h.a", 8), ("h.b", 16)]);
    assert!(info.has_priorities && info.idle_timeout && !info.const_entries && info.size == 2);
    let action = switch.action_info(info.actions[0]).unwrap();
    assert_eq!(
        (action.name.as_str(), action.params[0].bits),
        ("forward", 9)
    );
    assert_eq!(switch.action("forward").unwrap(), info.actions[0]);
    assert_eq!(switch.tables(), [table]);
}
