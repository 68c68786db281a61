//! The parser: transitions, lookahead, value sets, lengths and errors.

use crate::builder::*;
use crate::p4::P4;
use serde_json::{json, Value};

const SEND: &str = "sm.egress_spec = 1;";
/// Sends the packet to the port whose number is the parser's error.
const PORT_FROM_ERROR: &str = "
    if (sm.parser_error == error.PacketTooShort) { sm.egress_spec = 1; }
    else if (sm.parser_error == error.HeaderTooShort) { sm.egress_spec = 4; }";

/// Sends the packet to the port whose number is the parser's error.
fn port_from_error(b: &mut Builder) {
    b.runs(
        "ingress",
        json!([assign(standard("egress_spec"), standard("parser_error"))]),
    );
}

#[test]
fn transitions_are_tried_in_order_with_masks() {
    let program = P4 {
        fields: "bit<4> a; bit<12> b;",
        headers: "h_t x; h_t y;",
        states: "
    state start {
        pkt.extract(hdr.h);
        transition select(hdr.h.a, hdr.h.b) {
            (1, 0x234): accept;
            (1, _): parse_x;
            (_, 0x200 &&& 0xf00): parse_y;
            default: accept;
        }
    }
    state parse_x { pkt.extract(hdr.x); transition accept; }
    state parse_y { pkt.extract(hdr.y); transition accept; }",
        ingress: SEND,
        deparser: Some("pkt.emit(hdr.x);"),
        ..P4::default()
    };
    let mut switch = program.switch();
    assert_eq!(
        switch.process(0, &[0x12, 0x34, 5, 6], 0)[0].1,
        [5, 6],
        "accepted after h"
    );
    assert_eq!(
        switch.process(0, &[0x12, 0x35, 5, 6, 7], 0)[0].1,
        [5, 6, 7],
        "x is parsed"
    );
    assert_eq!(
        switch.process(0, &[0x22, 0x35, 5, 6, 7], 0)[0].1,
        [7],
        "y is parsed and not sent"
    );
    assert_eq!(switch.process(0, &[0x23, 0x35, 5, 6, 7], 0)[0].1, [5, 6, 7]);
}

#[test]
fn keys_may_be_wider_than_eight_bytes() {
    let program = P4 {
        fields: "bit<80> a;",
        types: "header x_t { bit<8> a; }",
        headers: "x_t x;",
        states: "
    state start {
        pkt.extract(hdr.h);
        transition select(hdr.h.a) {
            0x0102030405060708090a: parse_x;
            default: accept;
        }
    }
    state parse_x { pkt.extract(hdr.x); transition accept; }",
        ingress: SEND,
        deparser: Some(""),
        ..P4::default()
    };
    let mut switch = program.switch();
    assert_eq!(
        switch.process(0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], 0)[0].1,
        [12]
    );
    assert_eq!(
        switch.process(0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 11, 12], 0)[0].1,
        [11, 12]
    );
}

#[test]
fn lookahead_reads_without_moving() {
    let program = P4 {
        fields: "bit<8> a;",
        metadata: "bit<12> next; bit<100> wide;",
        states: "
    state start {
        meta.next = pkt.lookahead<bit<16>>()[11:0];
        meta.wide = pkt.lookahead<bit<100>>();
        pkt.extract(hdr.h);
        transition select(pkt.lookahead<bit<8>>()) {
            0x77: again;
            default: accept;
        }
    }
    state again { pkt.extract(hdr.h); transition accept; }",
        ingress: "sm.egress_spec = 1; hdr.h.a = meta.next[7:0] + (bit<8>)(meta.wide >> 92);",
        ..P4::default()
    };
    let mut switch = program.switch();
    let frame = [0x12, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(switch.process(0, &frame, 0)[0].1[..2], [0x15, 0x03]);
    let mut frame = frame;
    frame[1] = 0x77;
    assert_eq!(
        switch.process(0, &frame, 0)[0].1.len(),
        12,
        "the second extract took a byte"
    );
}

#[test]
fn errors_end_the_parser_with_their_number() {
    let run = |ops: Value, frame: &[u8]| {
        let mut b = Builder::new();
        b.header("h_t", &["h"], json!([["a", 16, false]]));
        b.scalar("tmp", 40);
        b.state("start", ops, json!([]), json!([default(Value::Null)]));
        port_from_error(&mut b);
        b.switch().process(0, frame, 0)[0].clone()
    };
    let one = [extract("h")];
    assert_eq!(run(json!(one), &[1, 2, 3]), (0, vec![3]));
    assert_eq!(
        run(json!(one), &[1]),
        (1, vec![1]),
        "PacketTooShort keeps what was not parsed"
    );
    let lookahead = json!([{"op": "set", "parameters": [scalar("tmp"), {"type": "lookahead", "value": [0, 40]}]}]);
    assert_eq!(run(lookahead, &[1, 2, 3, 4]).0, 1);
    let verify = json!([extract("h"), {"op": "verify", "parameters": [expr("==", field("h", "a"), num(1)), num(77)]}, extract("h")]);
    assert_eq!(run(verify.clone(), &[0, 2, 3, 4]), (77, vec![3, 4]));
    assert_eq!(run(verify, &[0, 1, 3, 4]), (0, vec![]));
    let advance = |bits: u64| json!([{"op": "advance", "parameters": [num(bits)]}]);
    assert_eq!(run(advance(16), &[1, 2, 3]), (0, vec![3]));
    assert_eq!(run(advance(12), &[1, 2, 3]).0, 6, "ParserInvalidArgument");
    assert_eq!(run(advance(32), &[1, 2, 3]).0, 1);
    assert_eq!(
        run(json!([{"op": "shift", "parameters": [1]}]), &[1, 2]),
        (0, vec![2])
    );
}

/// Alfirk's compiler rejects such a program.
#[test]
fn loops_without_progress_time_out() {
    let mut b = Builder::new();
    b.state(
        "start",
        json!([]),
        json!([]),
        json!([default(json!("start"))]),
    );
    port_from_error(&mut b);
    assert_eq!(b.switch().process(0, &[1], 0)[0].0, 5, "ParserTimeout");
}

fn varbit() -> Builder {
    let mut b = Builder::new();
    b.header("len_t", &["len"], json!([["bytes", 8, false]]));
    b.header(
        "opt_t",
        &["opt", "copy"],
        json!([
            ["kind", 4, false],
            ["pad", 4, false],
            ["data", "*"],
            ["last", 8, false]
        ]),
    );
    b.set("/header_types/3/max_length", json!(6));
    b.state("start", json!([
        extract("len"),
        {"op": "extract_VL", "parameters": [{"type": "regular", "value": "opt"}, operand(expr("*", field("len", "bytes"), num(8)))]},
    ]), json!([]), json!([default(Value::Null)]));
    b.emits(&["opt"]);
    port_from_error(&mut b);
    b
}

#[test]
fn variable_lengths_are_extracted_and_emitted() {
    let program = P4 {
        fields: "bit<8> bytes;",
        types: "header opt_t { bit<4> kind; bit<4> pad; varbit<32> data; bit<8> last; }",
        headers: "opt_t opt;",
        states: "
    state start {
        pkt.extract(hdr.h);
        pkt.extract(hdr.opt, (bit<32>)hdr.h.bytes * 8);
        transition accept;
    }",
        ingress: PORT_FROM_ERROR,
        deparser: Some("pkt.emit(hdr.opt);"),
        ..P4::default()
    };
    let mut switch = program.switch();
    assert_eq!(
        switch.process(0, &[3, 0x12, 7, 8, 9, 0xaa, 0xbb], 0),
        [(0, vec![0x12, 7, 8, 9, 0xaa, 0xbb])]
    );
    assert_eq!(
        switch.process(0, &[0, 0x12, 0xaa, 0xbb], 0),
        [(0, vec![0x12, 0xaa, 0xbb])]
    );
    assert_eq!(
        switch.process(0, &[3, 0x12, 7, 8, 9], 0)[0].0,
        1,
        "PacketTooShort"
    );
    assert_eq!(
        switch.process(0, &[5, 0x12, 1, 2, 3, 4, 5, 6], 0)[0].0,
        4,
        "HeaderTooShort"
    );
}

#[test]
fn variable_lengths_are_copied_and_hashed() {
    let mut b = varbit();
    let header = |name: &str| named("header", name);
    b.emits(&["opt", "copy"]);
    b.set(
        "/actions/0/primitives",
        json!([
            call("assign_header", json!([header("copy"), header("opt")])),
            assign(field("copy", "kind"), num(0)),
        ]),
    );
    let mut switch = b.switch();
    assert_eq!(
        switch.process(0, &[2, 0x12, 7, 8, 0xaa], 0)[0].1,
        [0x12, 7, 8, 0xaa, 0x02, 7, 8, 0xaa]
    );
    b.set(
        "/actions/0/primitives",
        json!([
            call("add_header", json!([header("copy")])),
            call(
                "assign_VL",
                json!([field("copy", "data"), field("opt", "data")])
            ),
        ]),
    );
    assert_eq!(
        b.switch().process(0, &[2, 0x12, 7, 8, 0xaa], 0)[0].1,
        [0x12, 7, 8, 0xaa, 0, 7, 8, 0]
    );
    b.add(
        "calculations",
        json!({"name": "c", "algo": "xor16", "input": [field("opt", "data"), constant_of_width("0xff", 8)]}),
    );
    b.set(
        "/actions/0/primitives",
        json!([call(
            "modify_field_with_hash_based_offset",
            json!([
                field("opt", "last"),
                num(0),
                named("calculation", "c"),
                num(256)
            ])
        ),]),
    );
    b.emits(&["opt"]);
    assert_eq!(
        b.switch().process(0, &[1, 0x12, 7, 0xaa], 0)[0].1,
        [0x12, 7, 0xff]
    );
}

fn constant_of_width(value: &str, bits: u32) -> Value {
    json!({"type": "hexstr", "value": value, "bitwidth": bits})
}

#[test]
fn the_length_may_come_from_the_header_itself() {
    let mut b = Builder::new();
    b.header(
        "opt_t",
        &["opt"],
        json!([["bytes", 8, false], ["data", "*"]]),
    );
    b.set("/header_types/2/max_length", json!(9));
    b.set(
        "/header_types/2/length_exp",
        operand(expr("*", json!({"type": "local", "value": 0}), num(8))),
    );
    b.extracts(&["opt"]).emits(&[]);
    b.runs("ingress", json!([send_to(1)]));
    assert_eq!(b.switch().process(0, &[2, 7, 8, 9], 0)[0].1, [9]);
}

#[test]
fn value_sets_are_filled_at_run_time() {
    let program = P4 {
        fields: "bit<4> a; bit<12> b;",
        types: "header x_t { bit<8> a; }",
        headers: "x_t x;",
        states: "
    @name(\".pvs\") value_set<tuple<bit<4>, bit<12>>>(2) pvs;
    state start {
        pkt.extract(hdr.h);
        transition select(hdr.h.a, hdr.h.b) {
            pvs: parse_x;
            default: accept;
        }
    }
    state parse_x { pkt.extract(hdr.x); transition accept; }",
        ingress: SEND,
        deparser: Some(""),
        ..P4::default()
    };
    let mut switch = program.switch();
    let left =
        |switch: &mut alfirk_bmv2::Switch, a, b| switch.process(0, &[a, b, 9, 9], 0)[0].1.len();
    assert_eq!(left(&mut switch, 0x12, 0x34), 2);
    switch
        .set_value_set("pvs", &[vec![0x12, 0x34], vec![5]])
        .unwrap();
    assert_eq!(
        switch.value_set("pvs").unwrap(),
        [vec![0x12, 0x34], vec![5]]
    );
    assert_eq!(left(&mut switch, 0x12, 0x34), 1);
    assert_eq!(left(&mut switch, 0x00, 0x05), 1);
    assert_eq!(left(&mut switch, 0x12, 0x35), 2);
    assert!(switch
        .set_value_set("pvs", &[vec![1], vec![2], vec![3]])
        .is_err());
    assert!(switch.set_value_set("pvs", &[vec![1, 0, 0]]).is_err());
}

/// A mask in a value set, which Alfirk's compiler does not generate.
#[test]
fn value_sets_may_have_masks() {
    let mut b = Builder::new();
    b.header("h_t", &["h"], json!([["a", 4, false], ["b", 12, false]]));
    b.header("x_t", &["x"], json!([["a", 8, false]]));
    b.add(
        "parse_vsets",
        json!({"name": "pvs", "compressed_bitwidth": 16, "max_size": 2}),
    );
    let set = |mask: Value| json!({"type": "parse_vset", "value": "pvs", "mask": mask, "next_state": "x"});
    b.state(
        "start",
        json!([extract("h")]),
        json!([field("h", "a"), field("h", "b")]),
        json!([set(json!("0x000fff")), default(Value::Null)]),
    );
    b.state(
        "x",
        json!([extract("x")]),
        json!([]),
        json!([default(Value::Null)]),
    );
    b.runs("ingress", json!([send_to(1)]));
    b.emits(&[]);
    let mut switch = b.switch();
    switch.set_value_set("pvs", &[vec![0x12, 0x34]]).unwrap();
    let left = switch.process(0, &[0xf2, 0x34, 9, 9], 0)[0].1.len();
    assert_eq!(left, 1, "the mask covers the first part");
}

#[test]
fn the_parser_can_call_primitives_and_assign() {
    let mut b = Builder::new();
    b.scalar("tmp", 8);
    b.header("h_t", &["h", "g"], json!([["a", 8, false]]));
    b.state("start", json!([
        extract("h"),
        {"op": "set", "parameters": [scalar("tmp"), operand(expr("+", field("h", "a"), num(250)))]},
        {"op": "primitive", "parameters": [call("assign_header", json!([named("header", "g"), named("header", "h")]))]},
        {"op": "set", "parameters": [field("g", "a"), scalar("tmp")]},
        {"op": "set", "parameters": [field("h", "a"), num(3)]},
    ]), json!([]), json!([default(Value::Null)]));
    b.emits(&["h", "g"]);
    b.runs("ingress", json!([send_to(1)]));
    assert_eq!(b.switch().process(0, &[7], 0)[0].1, [3, 1]);
}
