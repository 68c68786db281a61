//! Header stacks and unions.

use crate::builder::*;
use serde_json::{json, Value};

/// Tags until one has a zero, on a stack of three.
fn stacked(primitives: &[Value]) -> Builder {
    let mut b = Builder::new();
    b.scalar("i", 32);
    b.header(
        "tag_t",
        &["t[0]", "t[1]", "t[2]", "s[0]", "s[1]", "s[2]"],
        json!([["id", 8, false]]),
    );
    for (name, first) in [("t", "t[0]"), ("s", "s[0]")] {
        let id = b.header_id(first);
        b.add("header_stacks", json!({"name": name, "header_type": "tag_t", "size": 3, "header_ids": [id, id + 1, id + 2]}));
    }
    b.state(
        "start",
        json!([{"op": "extract", "parameters": [{"type": "stack", "value": "t"}]}]),
        json!([{"type": "stack_field", "value": ["t", "id"]}]),
        json!([on("0x00", Value::Null), default(json!("start"))]),
    );
    b.emits(&["t[0]", "t[1]", "t[2]", "s[0]", "s[1]", "s[2]"]);
    let mut all = vec![assign(standard("egress_spec"), standard("parser_error"))];
    all.extend_from_slice(primitives);
    b.runs("ingress", json!(all));
    b
}

fn element(stack: &str, index: Value) -> Value {
    let header = json!({"type": "expression", "value": {"op": "dereference_header_stack",
        "left": named("header_stack", stack), "right": index}});
    json!({"type": "expression", "value": {"op": "access_field", "left": header, "right": 0}})
}

#[test]
fn elements_fill_up_until_the_stack_is_full() {
    let mut switch = stacked(&[]).switch();
    assert_eq!(switch.process(0, &[5, 0, 9], 0), [(0, vec![5, 0, 9])]);
    assert_eq!(
        switch.process(0, &[5, 6, 7, 8, 0], 0),
        [(3, vec![5, 6, 7, 8, 0])],
        "StackOutOfBounds"
    );
}

#[test]
fn push_makes_room_in_front_and_pop_takes_away() {
    let stack = || named("header_stack", "t");
    let push = |n| {
        [
            call("push", json!([stack(), num(n)])),
            call("add_header", json!([named("header", "t[0]")])),
            assign(field("t[0]", "id"), num(0xaa)),
        ]
    };
    assert_eq!(
        stacked(&push(1)).switch().process(0, &[5, 0, 9], 0)[0].1,
        [0xaa, 5, 0, 9]
    );
    assert_eq!(
        stacked(&push(2)).switch().process(0, &[5, 0, 9], 0)[0].1,
        [0xaa, 5, 9],
        "the last fell off"
    );
    let pop = |n| [call("pop", json!([stack(), num(n)]))];
    assert_eq!(
        stacked(&pop(1)).switch().process(0, &[5, 6, 0, 9], 0)[0].1,
        [6, 0, 9]
    );
    assert_eq!(
        stacked(&pop(7)).switch().process(0, &[5, 6, 0, 9], 0)[0].1,
        [9]
    );
}

#[test]
fn elements_are_reached_by_computed_indexes() {
    let i = || scalar("i");
    let b = stacked(&[
        assign(
            i(),
            operand(
                json!({"type": "expression", "value": {"op": "last_stack_index", "left": null, "right": named("header_stack", "t")}}),
            ),
        ),
        assign(
            operand(element("t", i())),
            operand(expr("+", element("t", num(0)), i())),
        ),
        // Beyond the stack nothing is written, and zero is read.
        assign(operand(element("t", num(3))), num(1)),
        assign(
            field("t[0]", "id"),
            operand(expr(
                "+",
                element("t", num(9)),
                json!({"type": "expression", "value": {"op": "size_stack", "left": null, "right": named("header_stack", "t")}}),
            )),
        ),
    ]);
    assert_eq!(b.switch().process(0, &[5, 6, 0, 9], 0)[0].1, [3, 6, 7, 9]);
}

#[test]
fn the_last_element_can_be_read_and_written() {
    let last =
        || json!({"type": "expression", "value": {"type": "stack_field", "value": ["t", "id"]}});
    let b = stacked(&[assign(
        last(),
        operand(expr(
            "+",
            json!({"type": "stack_field", "value": ["t", "id"]}),
            num(4),
        )),
    )]);
    assert_eq!(b.switch().process(0, &[5, 0, 9], 0)[0].1, [5, 4, 9]);
}

#[test]
fn stacks_and_their_elements_are_copied() {
    let b = stacked(&[call(
        "assign_header_stack",
        json!([named("header_stack", "s"), named("header_stack", "t")]),
    )]);
    assert_eq!(b.switch().process(0, &[5, 0, 9], 0)[0].1, [5, 0, 5, 0, 9]);
    let header = |stack: &str, i: Value| {
        operand(
            json!({"type": "expression", "value": {"op": "dereference_header_stack", "left": named("header_stack", stack), "right": i}}),
        )
    };
    let b = stacked(&[
        assign(scalar("i"), num(1)),
        call(
            "assign_header",
            json!([header("s", scalar("i")), named("header", "t[0]")]),
        ),
        call("add_header", json!([header("s", num(2))])),
        call("remove_header", json!([header("t", scalar("i"))])),
        call("remove_header", json!([header("t", num(8))])),
    ]);
    assert_eq!(b.switch().process(0, &[5, 0, 9], 0)[0].1, [5, 5, 0, 9]);
}

/// Unions of these names, each with a member a and a member b, sent in that order.
fn unions_named(names: &[&str]) -> Builder {
    let members = |member: &str| -> Vec<String> {
        names
            .iter()
            .map(|name| format!("{name}.{member}"))
            .collect()
    };
    let mut b = Builder::new();
    for (member, bits) in [("a", 8), ("b", 16)] {
        let headers = members(member);
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        b.header(
            &format!("{member}_t"),
            &headers,
            json!([["x", bits, false]]),
        );
    }
    b.add(
        "header_union_types",
        json!({"name": "u_t", "headers": [["a", "a_t"], ["b", "b_t"]]}),
    );
    let mut sent = Vec::new();
    for name in names {
        let both = [format!("{name}.a"), format!("{name}.b")];
        let ids = both.each_ref().map(|header| b.header_id(header));
        b.add(
            "header_unions",
            json!({"name": name, "union_type": "u_t", "header_ids": ids}),
        );
        sent.extend(both);
    }
    let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
    b.emits(&sent);
    b
}

fn unions() -> Builder {
    unions_named(&["u", "v"])
}

#[test]
fn one_member_of_a_union_is_valid_at_most() {
    let mut b = unions();
    b.extracts(&["u.a"]);
    let union = |name: &str| named("header_union", name);
    let valid = |name: &str| {
        json!({"type": "expression", "value": {"op": "b2d", "left": null, "right":
        {"type": "expression", "value": {"op": "valid_union", "left": null, "right": union(name)}}}})
    };
    b.runs(
        "ingress",
        json!([
            assign(
                standard("egress_spec"),
                operand(expr("+", valid("u"), expr("*", valid("v"), num(2))))
            ),
            call("assign_union", json!([union("v"), union("u")])),
            call("add_header", json!([named("header", "u.b")])),
            assign(field("u.b", "x"), num(0x0102)),
        ]),
    );
    assert_eq!(b.switch().process(0, &[7, 9], 0), [(1, vec![1, 2, 7, 9])]);
}

#[test]
fn stacks_of_unions_work() {
    let mut b = unions();
    let ids: Vec<u64> = (0..2).collect();
    b.add(
        "header_union_stacks",
        json!({"name": "us", "union_type": "u_t", "size": 2, "header_union_ids": ids}),
    );
    let next = |member: &str| json!({"op": "extract", "parameters": [{"type": "union_stack", "value": ["us", member]}]});
    b.state(
        "start",
        json!([next("b")]),
        json!([{"type": "union_stack_field", "value": ["us", "b", "x"]}]),
        json!([on("0x0001", json!("a")), default(Value::Null)]),
    );
    b.state(
        "a",
        json!([next("a")]),
        json!([]),
        json!([default(Value::Null)]),
    );
    b.runs(
        "ingress",
        json!([
            send_to(1),
            call("push", json!([named("header_union_stack", "us"), num(1)]))
        ]),
    );
    let mut switch = b.switch();
    assert_eq!(switch.process(0, &[0, 1, 7, 9], 0)[0].1, [0, 1, 9]);
    assert_eq!(switch.process(0, &[0, 2, 7, 9], 0)[0].1, [0, 2, 7, 9]);
}

#[test]
fn stacks_of_unions_are_copied() {
    let mut b = unions_named(&["u0", "u1", "v0", "v1"]);
    for (stack, ids) in [("us", [0, 1]), ("vs", [2, 3])] {
        b.add(
            "header_union_stacks",
            json!({"name": stack, "union_type": "u_t", "size": 2, "header_union_ids": ids}),
        );
    }
    let next = |member: &str| json!({"op": "extract", "parameters": [{"type": "union_stack", "value": ["us", member]}]});
    b.state(
        "start",
        json!([next("a"), next("b")]),
        json!([]),
        json!([default(Value::Null)]),
    );
    let stack = |name: &str| named("header_union_stack", name);
    b.runs(
        "ingress",
        json!([
            send_to(1),
            call("assign_union_stack", json!([stack("vs"), stack("us")])),
            call("pop", json!([stack("us"), num(1)])),
        ]),
    );
    let out = b.switch().process(0, &[7, 1, 2, 9], 0);
    assert_eq!(out, [(1, vec![1, 2, 7, 1, 2, 9])]);
}
