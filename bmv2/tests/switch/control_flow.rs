//! Conditions, and where tables lead.

use crate::builder::*;
use alfirk_bmv2::{LoadError, LoadedProgram};
use serde_json::{json, Value};

fn mark(b: &mut Builder, name: &str, port: u64, next: Value) {
    let id = b.action(name, &[], json!([send_to(port)]));
    b.node("ingress", "tables", json!({
        "name": format!("tbl_{name}"), "key": [], "match_type": "exact", "type": "simple", "max_size": 1,
        "action_ids": [id], "actions": [name], "next_tables": {name: next},
        "default_entry": {"action_id": id, "action_const": true, "action_data": [], "action_entry_const": true},
    }));
}

fn branches(condition: Value) -> Builder {
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

fn valid(header: &str) -> Value {
    json!({"type": "expression", "value": {"op": "d2b", "left": null, "right": field(header, "$valid$")}})
}

fn not(a: Value) -> Value {
    json!({"type": "expression", "value": {"op": "not", "left": null, "right": a}})
}

#[test]
fn conditions_choose_the_way() {
    let a = || field("h", "a");
    let cases = [
        (
            expr("and", expr(">", a(), num(3)), expr("<=", a(), num(9))),
            [(3, 2), (4, 1), (9, 1), (10, 2)],
        ),
        (
            expr("or", expr("<", a(), num(4)), expr(">=", a(), num(9))),
            [(3, 1), (4, 2), (8, 2), (9, 1)],
        ),
        (
            not(expr(
                "or",
                expr("==", a(), num(3)),
                not(expr("!=", a(), num(9))),
            )),
            [(3, 2), (9, 2), (4, 1), (0, 1)],
        ),
        (
            expr("and", valid("h"), not(valid("other"))),
            [(3, 1), (0, 1), (1, 1), (2, 1)],
        ),
        (
            expr("==", valid("h"), valid("other")),
            [(3, 2), (0, 2), (1, 2), (2, 2)],
        ),
        (
            json!({"type": "bool", "value": false}),
            [(3, 2), (0, 2), (1, 2), (2, 2)],
        ),
        (
            expr("<", expr("-", a(), num(5)), num(0)),
            [(3, 1), (4, 1), (5, 2), (255, 2)],
        ),
    ];
    for (condition, expected) in cases {
        let mut switch = branches(condition.clone()).switch();
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
fn headers_are_compared_by_all_fields() {
    let mut b = branches(expr("==", named("header", "h"), named("header", "other")));
    b.set(
        "/parsers/0/parse_states/0/parser_ops",
        json!([extract("h"), extract("other")]),
    );
    b.emits(&["h", "other"]);
    let mut switch = b.switch();
    assert_eq!(switch.process(0, &[1, 2, 1, 2], 0)[0].0, 1);
    assert_eq!(switch.process(0, &[1, 2, 1, 3], 0)[0].0, 2);
    assert_eq!(
        switch.process(0, &[1, 2], 0)[0].0,
        2,
        "an invalid header equals nothing"
    );
}

#[test]
fn hit_and_miss_lead_to_different_nodes() {
    let mut b = Builder::new();
    b.header("h_t", &["h"], json!([["a", 8, false]]));
    b.extracts(&["h"]).emits(&["h"]);
    mark(&mut b, "hit", 1, Value::Null);
    mark(&mut b, "miss", 2, Value::Null);
    let nop = b.action("nop", &[], json!([]));
    b.table(
        "t",
        "exact",
        json!([key("exact", "h", "a")]),
        &[("nop", nop)],
    );
    b.set(
        "/pipelines/0/tables/2/next_tables",
        json!({"__HIT__": "tbl_hit", "__MISS__": "tbl_miss"}),
    );
    let mut switch = b.switch();
    let table = switch.table("t").unwrap();
    switch
        .insert_entry(table, &[exact(5)], 0, &run_action("nop", &[]), 0, 0)
        .unwrap();
    assert_eq!(switch.process(0, &[5], 0)[0].0, 1);
    assert_eq!(switch.process(0, &[6], 0)[0].0, 2);
    switch.set_default(table, &run_action("nop", &[])).unwrap();
    assert_eq!(
        switch.process(0, &[6], 0)[0].0,
        2,
        "a default action is still a miss"
    );
}

#[test]
fn the_action_run_decides_where_to_go() {
    let mut b = Builder::new();
    b.header("h_t", &["h"], json!([["a", 8, false]]));
    b.extracts(&["h"]).emits(&["h"]);
    mark(&mut b, "one", 1, Value::Null);
    mark(&mut b, "two", 2, Value::Null);
    mark(&mut b, "none", 3, Value::Null);
    let (x, y) = (b.action("x", &[], json!([])), b.action("y", &[], json!([])));
    b.table(
        "t",
        "exact",
        json!([key("exact", "h", "a")]),
        &[("x", x), ("y", y)],
    );
    b.set(
        "/pipelines/0/tables/3/next_tables",
        json!({"x": "tbl_one", "y": "tbl_two"}),
    );
    b.set("/pipelines/0/tables/3/base_default_next", json!("tbl_none"));
    let mut switch = b.switch();
    let table = switch.table("t").unwrap();
    switch
        .insert_entry(table, &[exact(5)], 0, &run_action("y", &[]), 0, 0)
        .unwrap();
    assert_eq!(switch.process(0, &[5], 0)[0].0, 2);
    assert_eq!(switch.process(0, &[6], 0)[0].0, 3, "no action ran");
    switch.set_default(table, &run_action("x", &[])).unwrap();
    assert_eq!(switch.process(0, &[6], 0)[0].0, 1);
}

#[test]
fn exit_ends_the_pipeline_but_not_the_packet() {
    let mut b = Builder::new();
    b.header("h_t", &["h"], json!([["a", 8, false]]));
    b.extracts(&["h"]).emits(&["h"]);
    mark(&mut b, "late", 2, Value::Null);
    mark(&mut b, "early", 1, json!("tbl_late"));
    b.set(
        "/actions/1/primitives",
        json!([send_to(1), {"op": "exit", "parameters": []}]),
    );
    b.start_at("ingress", "tbl_early");
    b.runs("egress", json!([assign(field("h", "a"), num(9))]));
    assert_eq!(b.switch().process(0, &[5], 0), [(1, vec![9])]);
}

#[test]
fn action_calls_and_shared_ends_work() {
    let mut b = branches(expr("==", field("h", "a"), num(1)));
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
fn control_flow_in_circles_ends_with_a_drop() {
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
fn dangling_names_are_named() {
    let mut b = branches(expr("==", field("h", "a"), num(1)));
    b.set("/pipelines/0/conditionals/0/true_next", json!("nowhere"));
    match LoadedProgram::from_json(&b.text()) {
        Err(LoadError::Undefined { name, .. }) => assert_eq!(name, "nowhere"),
        other => panic!("{other:?}"),
    }
}
