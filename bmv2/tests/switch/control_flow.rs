//! Conditions, and control flow after tables.

use crate::builder::*;
use crate::p4::P4;
use alfirk_bmv2::{LoadError, LoadedProgram, Switch};
use serde_json::{json, Value};

/// Returns a program with headers of two bytes: `h`, which every packet has, and `other`, which the parser states
/// `states` may extract after it.
fn program(locals: &str, ingress: &str, states: &str) -> Switch {
    let program = P4 {
        fields: "bit<8> a; bit<8> b;",
        headers: "h_t other;",
        states,
        locals,
        ingress,
        ..P4::default()
    };
    program.switch()
}

/// Sends packets that satisfy the condition to port 1, others to port 2.
fn branching_switch(condition: &str, states: &str) -> Switch {
    let ingress =
        format!("if ({condition}) {{ sm.egress_spec = 1; }} else {{ sm.egress_spec = 2; }}");
    program("", &ingress, states)
}

/// A table on the first byte, with empty actions.
const TABLE_WITH_EMPTY_ACTIONS: &str = r#"@name(".x") action x() {} @name(".y") action y() {}
    @name(".t") table t { key = { hdr.h.a: exact; } actions = { x; y; NoAction; } }"#;

fn mark(b: &mut Builder, name: &str, port: u64, next: Value) {
    let id = b.action(name, &[], json!([send_to(port)]));
    b.node("ingress", "tables", json!({
        "name": format!("tbl_{name}"), "key": [], "match_type": "exact", "type": "simple", "max_size": 1,
        "action_ids": [id], "actions": [name], "next_tables": {name: next},
        "default_entry": {"action_id": id, "action_const": true, "action_data": [], "action_entry_const": true},
    }));
}

/// Like [`branching_switch`], as JSON, for conditions and nodes that Alfirk's compiler does not generate.
fn branching_program(condition: Value) -> Builder {
    let mut b = Builder::new();
    b.header(
        "h_t",
        &["h", "other"],
        json!([["a", 8, false], ["b", 8, false]]),
    );
    b.extracts(&["h"]).emits(&["h"]);
    mark(&mut b, "yes", 1, Value::Null);
    mark(&mut b, "no", 2, Value::Null);
    b.node(
        "ingress",
        "conditionals",
        json!({"name": "cond", "expression": condition,
        "true_next": "tbl_yes", "false_next": "tbl_no"}),
    );
    b.start_at("ingress", "cond");
    b
}

#[test]
fn conditions_select_the_branch() {
    let cases = [
        (
            "hdr.h.a > 3 && hdr.h.a <= 9",
            [(3, 2), (4, 1), (9, 1), (10, 2)],
        ),
        (
            "hdr.h.a < 4 || hdr.h.a >= 9",
            [(3, 1), (4, 2), (8, 2), (9, 1)],
        ),
        (
            "!(hdr.h.a == 3 || !(hdr.h.a != 9))",
            [(3, 2), (9, 2), (4, 1), (0, 1)],
        ),
        (
            "hdr.h.isValid() && !hdr.other.isValid()",
            [(3, 1), (0, 1), (1, 1), (2, 1)],
        ),
        (
            "hdr.h.isValid() == hdr.other.isValid()",
            [(3, 2), (0, 2), (1, 2), (2, 2)],
        ),
        (
            "(int<16>)(bit<16>)hdr.h.a - 5 < 0",
            [(3, 1), (4, 1), (5, 2), (255, 2)],
        ),
    ];
    for (condition, expected) in cases {
        let mut switch = branching_switch(condition, "");
        for (byte, port) in expected {
            assert_eq!(
                switch.process(0, &[byte, 0], 0)[0].0,
                port,
                "{condition} at {byte}"
            );
        }
    }
}

#[test]
fn conditions_may_be_constant_and_have_negative_numbers() {
    let below = expr("<", expr("-", field("h", "a"), num(5)), num(0));
    let mut switch = branching_program(below).switch();
    for (byte, port) in [(4, 1), (5, 2), (255, 2)] {
        assert_eq!(switch.process(0, &[byte, 0], 0)[0].0, port, "{byte}");
    }
    let mut switch = branching_program(json!({"type": "bool", "value": false})).switch();
    assert_eq!(switch.process(0, &[1, 0], 0)[0].0, 2);
}

#[test]
fn headers_are_compared_by_all_fields() {
    let mut switch = branching_switch(
        "hdr.h == hdr.other",
        "state start { pkt.extract(hdr.h); pkt.extract(hdr.other); transition accept; }",
    );
    assert_eq!(switch.process(0, &[1, 2, 1, 2], 0)[0].0, 1);
    assert_eq!(switch.process(0, &[1, 2, 1, 3], 0)[0].0, 2);
    assert_eq!(
        switch.process(0, &[1, 2], 0)[0].0,
        2,
        "a valid header differs from an invalid one"
    );
}

#[test]
fn an_invalid_header_equals_nothing() {
    let equal = || expr("==", named("header", "h"), named("header", "other"));
    let mut b = branching_program(equal());
    assert_eq!(b.switch().process(0, &[1, 2], 0)[0].0, 2);
    b.set("/parsers/0/parse_states/0/parser_ops", json!([]));
    assert_eq!(
        b.switch().process(0, &[1, 2], 0)[0].0,
        2,
        "both are invalid"
    );
}

#[test]
fn hit_and_miss_lead_to_different_nodes() {
    let mut switch = program(
        TABLE_WITH_EMPTY_ACTIONS,
        "if (t.apply().hit) { sm.egress_spec = 1; } else { sm.egress_spec = 2; }",
        "",
    );
    let table = switch.table("t").unwrap();
    switch
        .insert_entry(table, &[exact(5)], 0, &run_action("x", &[]), 0, 0)
        .unwrap();
    assert_eq!(switch.process(0, &[5, 0], 0)[0].0, 1);
    assert_eq!(switch.process(0, &[6, 0], 0)[0].0, 2);
    switch.set_default(table, &run_action("x", &[])).unwrap();
    assert_eq!(
        switch.process(0, &[6, 0], 0)[0].0,
        2,
        "a default action is still a miss"
    );
}

#[test]
fn the_action_selects_the_next_node() {
    let mut switch = program(
        TABLE_WITH_EMPTY_ACTIONS,
        "switch (t.apply().action_run) {
             x: { sm.egress_spec = 1; }
             y: { sm.egress_spec = 2; }
             default: { sm.egress_spec = 3; }
         }",
        "",
    );
    let table = switch.table("t").unwrap();
    switch
        .insert_entry(table, &[exact(5)], 0, &run_action("y", &[]), 0, 0)
        .unwrap();
    assert_eq!(switch.process(0, &[5, 0], 0)[0].0, 2);
    assert_eq!(switch.process(0, &[6, 0], 0)[0].0, 3, "none of both ran");
    switch.set_default(table, &run_action("x", &[])).unwrap();
    assert_eq!(switch.process(0, &[6, 0], 0)[0].0, 1);
}

#[test]
fn a_miss_without_default_action_continues_at_base_default_next() {
    let mut b = Builder::new();
    b.header("h_t", &["h"], json!([["a", 8, false]]));
    b.extracts(&["h"]).emits(&["h"]);
    mark(&mut b, "one", 1, Value::Null);
    mark(&mut b, "none", 3, Value::Null);
    let x = b.action("x", &[], json!([]));
    b.table("t", "exact", json!([key("exact", "h", "a")]), &[("x", x)]);
    let table = "/pipelines/0/tables/2";
    b.set(&format!("{table}/next_tables"), json!({"x": "tbl_one"}));
    b.set(&format!("{table}/base_default_next"), json!("tbl_none"));
    assert_eq!(b.switch().process(0, &[6], 0)[0].0, 3);
}

#[test]
fn exit_ends_the_pipeline_and_the_packet_is_sent() {
    let program = P4 {
        fields: "bit<8> a;",
        locals: "action early() { sm.egress_spec = 1; exit; }
                 table t { actions = { early; } default_action = early(); }",
        ingress: "t.apply(); sm.egress_spec = 2;",
        egress: "hdr.h.a = 9;",
        ..P4::default()
    };
    assert_eq!(program.switch().process(0, &[5], 0), [(1, vec![9])]);
}

#[test]
fn action_calls_and_shared_successors_work() {
    let mut b = branching_program(expr("==", field("h", "a"), num(1)));
    let add = b.action(
        "add",
        &[],
        json!([assign(
            field("h", "b"),
            operand(expr("+", field("h", "b"), num(1)))
        )]),
    );
    b.node(
        "ingress",
        "action_calls",
        json!({"name": "call", "action_id": add, "next_node": null}),
    );
    b.set("/pipelines/0/tables/0/next_tables", json!({"yes": "call"}));
    b.set("/pipelines/0/tables/1/next_tables", json!({"no": "call"}));
    assert_eq!(b.switch().process(0, &[1, 5], 0), [(1, vec![1, 6])]);
    assert_eq!(b.switch().process(0, &[2, 5], 0), [(2, vec![2, 6])]);
}

#[test]
fn endless_control_flow_drops_the_packet() {
    let mut b = Builder::new();
    b.extracts(&[]);
    mark(&mut b, "a", 1, json!("tbl_b"));
    mark(&mut b, "b", 1, json!("tbl_a"));
    b.start_at("ingress", "tbl_a");
    let mut fx = alfirk_bmv2::Effects::default();
    b.switch().process_into(0, &[1], 0, &mut fx);
    assert_eq!(fx.dropped, [alfirk_bmv2::DropReason::EndlessLoop]);
}

#[test]
fn errors_name_undefined_objects() {
    let mut b = branching_program(expr("==", field("h", "a"), num(1)));
    b.set("/pipelines/0/conditionals/0/true_next", json!("nowhere"));
    match LoadedProgram::from_json(&b.text()) {
        Err(LoadError::Undefined { name, .. }) => assert_eq!(name, "nowhere"),
        other => panic!("{other:?}"),
    }
}
