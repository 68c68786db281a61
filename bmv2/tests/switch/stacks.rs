//! Header stacks and unions.

use crate::builder::*;
use crate::p4::P4;
use alfirk_bmv2::Switch;
use serde_json::{json, Value};

/// Returns a switch that parses tags until one is zero, into a stack of three. Packets go to port 3 if the stack was
/// too small. Another stack is emitted after it.
fn stacked(ingress: &str) -> Switch {
    let program = P4 {
        fields: "bit<8> unused;",
        types: "header tag_t { bit<8> id; }",
        headers: "tag_t[3] t; tag_t[3] s;",
        states: "state start {
            pkt.extract(hdr.t.next);
            transition select(hdr.t.last.id) { 0: accept; default: start; }
        }",
        ingress: &format!(
            "sm.egress_spec = sm.parser_error == error.StackOutOfBounds ? 9w3 : 0; {ingress}"
        ),
        deparser: Some("pkt.emit(hdr.t); pkt.emit(hdr.s);"),
        ..P4::default()
    };
    program.switch()
}

/// Like [`stacked`], as JSON. Alfirk's compiler turns computed indexes into branches, and P4 has `last` in parsers
/// only.
fn stacked_json(primitives: &[Value]) -> Builder {
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
fn elements_are_extracted_until_the_stack_is_full() {
    let mut switch = stacked("");
    assert_eq!(switch.process(0, &[5, 0, 9], 0), [(0, vec![5, 0, 9])]);
    assert_eq!(
        switch.process(0, &[5, 6, 7, 8, 0], 0),
        [(3, vec![5, 6, 7, 8, 0])],
        "StackOutOfBounds"
    );
}

#[test]
fn push_inserts_and_pop_removes_elements() {
    let out = |ingress: &str, frame: &[u8]| stacked(ingress).process(0, frame, 0).remove(0).1;
    let push = |n: u32| {
        let ingress = format!("hdr.t.push_front({n}); hdr.t[0].setValid(); hdr.t[0].id = 0xaa;");
        out(&ingress, &[5, 0, 9])
    };
    assert_eq!(push(1), [0xaa, 5, 0, 9]);
    assert_eq!(push(2), [0xaa, 5, 9], "the last fell off");
    let pop = |n: u32| out(&format!("hdr.t.pop_front({n});"), &[5, 6, 0, 9]);
    assert_eq!(pop(1), [6, 0, 9]);
    assert_eq!(pop(7), [9]);
}

#[test]
fn elements_are_accessed_by_computed_indexes() {
    let i = || scalar("i");
    let b = stacked_json(&[
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
        // Beyond the stack, writes are ignored and reads return zero.
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
    let b = stacked_json(&[assign(
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
fn stacks_are_copied() {
    let mut switch = stacked("hdr.s = hdr.t;");
    assert_eq!(switch.process(0, &[5, 0, 9], 0)[0].1, [5, 0, 5, 0, 9]);
}

#[test]
fn elements_at_computed_indexes_are_copied() {
    let header = |stack: &str, i: Value| {
        operand(
            json!({"type": "expression", "value": {"op": "dereference_header_stack", "left": named("header_stack", stack), "right": i}}),
        )
    };
    let b = stacked_json(&[
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

/// Returns a switch with unions of a one-byte and a two-byte member; output begins with `first`, then `second`.
fn unions(headers: &str, states: &str, ingress: &str, [first, second]: [&str; 2]) -> Switch {
    let program = P4 {
        fields: "bit<8> unused;",
        types:
            "header a_t { bit<8> x; } header b_t { bit<16> x; } header_union u_t { a_t a; b_t b; }",
        headers,
        states,
        ingress,
        deparser: Some(&format!("pkt.emit(hdr.{first}); pkt.emit(hdr.{second});")),
        ..P4::default()
    };
    program.switch()
}

#[test]
fn at_most_one_member_of_a_union_is_valid() {
    let mut switch = unions(
        "u_t u; u_t v;",
        "state start { pkt.extract(hdr.u.a); transition accept; }",
        "sm.egress_spec = (hdr.u.isValid() ? 9w1 : 0) + (hdr.v.isValid() ? 9w2 : 0);
         hdr.v = hdr.u;
         hdr.u.b.setValid();
         hdr.u.b.x = 0x0102;",
        ["u", "v"],
    );
    assert_eq!(switch.process(0, &[7, 9], 0), [(1, vec![1, 2, 7, 9])]);
}

#[test]
fn elements_of_union_stacks_are_pushed_and_read() {
    let mut switch = unions(
        "u_t[2] us;",
        "state start {
             pkt.extract(hdr.us.next.b);
             transition select(hdr.us.last.b.x) { 1: more; default: accept; }
         }
         state more { pkt.extract(hdr.us.next.a); transition accept; }",
        "sm.egress_spec = 1; hdr.us.push_front(1);",
        ["us", "h"],
    );
    assert_eq!(switch.process(0, &[0, 1, 7, 9], 0)[0].1, [0, 1, 9]);
    assert_eq!(switch.process(0, &[0, 2, 7, 9], 0)[0].1, [0, 2, 7, 9]);
}

#[test]
fn stacks_of_unions_are_copied() {
    let mut switch = unions(
        "u_t[2] us; u_t[2] vs;",
        "state start {
             pkt.extract(hdr.us.next.a);
             pkt.extract(hdr.us.next.b);
             transition accept;
         }",
        "sm.egress_spec = 1; hdr.vs = hdr.us; hdr.us.pop_front(1);",
        ["us", "vs"],
    );
    let out = switch.process(0, &[7, 1, 2, 9], 0);
    assert_eq!(out, [(1, vec![1, 2, 7, 1, 2, 9])]);
}
