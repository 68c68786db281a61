//! Primitives on fields and extern objects.

use crate::builder::*;
use crate::p4::P4;
use alfirk_bmv2::*;
use serde_json::{json, Value};

/// Returns a switch with a header of `fields` that ingress changes; packets are sent to port 1.
fn editing_switch(fields: &str, ingress: &str) -> Switch {
    editing_switch_with(fields, "", ingress)
}

/// Like [`editing_switch`], with additional declarations.
fn editing_switch_with(fields: &str, locals: &str, ingress: &str) -> Switch {
    let program = P4 {
        fields,
        locals,
        ingress: &format!("sm.egress_spec = 1; {ingress}"),
        ..P4::default()
    };
    program.switch()
}

/// Like [`editing_switch`], as JSON, for primitives and forms of them that Alfirk's compiler does not generate.
fn editing_program(fields: Value, primitives: &[Value]) -> Builder {
    let mut b = Builder::new();
    b.header("h_t", &["h"], fields)
        .extracts(&["h"])
        .emits(&["h"]);
    let mut all = vec![send_to(1)];
    all.extend_from_slice(primitives);
    b.runs("ingress", json!(all));
    b
}

fn out(switch: &mut Switch, frame: &[u8]) -> Vec<u8> {
    let mut output = switch.process(5, frame, 0);
    assert_eq!(output.len(), 1, "one frame leaves");
    output.remove(0).1
}

#[test]
fn assignments_wrap_to_the_width_of_the_field() {
    let fields = json!([
        ["a", 8, false],
        ["b", 8, false],
        ["n", 4, false],
        ["m", 4, true]
    ]);
    let h = |f: &str| field("h", f);
    let sum = operand(expr("+", h("a"), h("b")));
    let mut b = editing_program(
        fields,
        &[
            assign(h("n"), h("b")),
            assign(h("m"), h("b")),
            assign(h("a"), sum),
        ],
    );
    assert_eq!(out(&mut b.switch(), &[0xff, 0x2c, 0]), [0x2b, 0x2c, 0xcc]);
    b.set(
        "/actions/0/primitives/3",
        assign(h("a"), operand(expr("-", h("b"), h("a")))),
    );
    assert_eq!(out(&mut b.switch(), &[0xff, 0x2c, 0]), [0x2d, 0x2c, 0xcc]);
}

#[test]
fn wide_fields_are_copied_and_added() {
    let mut switch = editing_switch(
        "bit<128> a; bit<128> b; bit<8> c;",
        "hdr.h.c = hdr.h.a == hdr.h.b ? 8w1 : 0; hdr.h.a = hdr.h.a + hdr.h.b;",
    );
    let mut frame = vec![0xff; 16];
    frame.extend([[0; 15].as_slice(), &[2], &[9]].concat());
    let got = out(&mut switch, &frame);
    assert_eq!(got[..16], [[0; 15].as_slice(), &[1]].concat());
    assert_eq!(got[32], 0);
    let same = [[7; 32].as_slice(), &[9]].concat();
    assert_eq!(out(&mut switch, &same)[32], 1);
}

#[test]
fn signed_fields_compare_and_shift_by_their_sign() {
    let mut switch = editing_switch(
        "int<8> a; int<8> b; bit<8> less; int<8> half; int<16> big;",
        "hdr.h.less = hdr.h.a < hdr.h.b ? 8w1 : 0;
         hdr.h.half = hdr.h.a >> 1;
         hdr.h.big = (int<16>)hdr.h.a;",
    );
    assert_eq!(
        out(&mut switch, &[0xf0, 0x01, 0, 0, 0, 0]),
        [0xf0, 1, 1, 0xf8, 0xff, 0xf0]
    );
    assert_eq!(
        out(&mut switch, &[0x7f, 0x80, 9, 0, 0, 0]),
        [0x7f, 0x80, 0, 0x3f, 0, 0x7f]
    );
}

#[test]
fn saturating_arithmetic_stops_at_the_limits() {
    let mut switch = editing_switch(
        "bit<8> a; bit<8> b; bit<8> sum; bit<8> diff; int<8> s; int<8> t;",
        "hdr.h.sum = hdr.h.a |+| hdr.h.b;
         hdr.h.diff = hdr.h.a |-| hdr.h.b;
         hdr.h.s = hdr.h.s |+| hdr.h.t;
         hdr.h.t = hdr.h.t - 100;",
    );
    assert_eq!(
        out(&mut switch, &[200, 100, 0, 0, 100, 100]),
        [200, 100, 255, 100, 127, 0]
    );
    assert_eq!(
        out(&mut switch, &[5, 10, 0, 0, 0x9c, 0x9c]),
        [5, 10, 15, 0, 0x80, 0x38]
    );
}

#[test]
fn saturating_fields_stop_at_the_limits() {
    let fields = json!([
        ["a", 8, false, true],
        ["b", 8, true, true],
        ["c", 16, false]
    ]);
    let h = |f: &str| field("h", f);
    let b = editing_program(
        fields,
        &[
            assign(h("a"), operand(expr("+", h("a"), h("c")))),
            assign(h("b"), operand(expr("-", h("b"), h("c")))),
        ],
    );
    assert_eq!(out(&mut b.switch(), &[200, 100, 0, 50]), [250, 50, 0, 50]);
    assert_eq!(out(&mut b.switch(), &[200, 100, 1, 0]), [255, 0x80, 1, 0]);
}

#[test]
fn ternaries_evaluate_only_the_selected_operand() {
    let mut switch = editing_switch(
        "bit<8> a; bit<8> b;",
        "hdr.h.b = hdr.h.a > 9 ? hdr.h.b + 1 : hdr.h.a;",
    );
    assert_eq!(out(&mut switch, &[10, 20]), [10, 21]);
    assert_eq!(out(&mut switch, &[9, 20]), [9, 9]);
}

#[test]
fn headers_are_added_zeroed_and_removed() {
    let program = P4 {
        fields: "bit<8> a; bit<8> b;",
        headers: "h_t g;",
        // `setValid` on a valid header changes nothing.
        ingress: "sm.egress_spec = 1;
                  hdr.g.setValid();
                  hdr.g.a = hdr.h.a;
                  hdr.g.setValid();
                  hdr.h.setInvalid();",
        deparser: Some("pkt.emit(hdr.g); pkt.emit(hdr.h);"),
        ..P4::default()
    };
    let mut switch = program.switch();
    assert_eq!(switch.process(0, &[7, 8, 9], 0), [(1, vec![7, 0, 9])]);
}

#[test]
fn header_assignment_copies_validity() {
    let mut program = P4 {
        fields: "bit<8> a;",
        headers: "h_t g; h_t none;",
        ingress: "sm.egress_spec = 1; hdr.g = hdr.h; hdr.h = hdr.none;",
        deparser: Some("pkt.emit(hdr.h); pkt.emit(hdr.g);"),
        ..P4::default()
    };
    assert_eq!(program.switch().process(0, &[7, 9], 0), [(1, vec![7, 9])]);
    program.deparser = Some("pkt.emit(hdr.h);");
    assert_eq!(program.switch().process(0, &[7, 9], 0), [(1, vec![9])]);
}

#[test]
fn registers_keep_values_and_ignore_indexes_out_of_range() {
    let mut switch = editing_switch_with(
        "bit<8> i; bit<16> v;",
        "@name(\".r\") register<bit<16>>(4) r;",
        "r.read(hdr.h.v, (bit<32>)hdr.h.i); r.write((bit<32>)hdr.h.i, hdr.h.v + 300);",
    );
    assert_eq!(out(&mut switch, &[1, 9, 9]), [1, 0, 0]);
    assert_eq!(out(&mut switch, &[1, 9, 9]), [1, 1, 44]);
    assert_eq!(
        out(&mut switch, &[4, 9, 9]),
        [4, 9, 9],
        "beyond the array nothing is read"
    );
    assert_eq!(switch.read_register("r", 1).unwrap(), [2, 88]);
    switch.write_register("r", 1, &[0xff, 0xff]).unwrap();
    assert_eq!(out(&mut switch, &[1, 0, 0]), [1, 0xff, 0xff]);
    assert_eq!(switch.read_register("r", 1).unwrap(), [1, 43]);
}

#[test]
fn registers_may_be_wider_than_a_word() {
    let mut switch = editing_switch_with(
        "bit<8> i; bit<96> v;",
        "@name(\".r\") register<bit<96>>(3) r;",
        "r.write((bit<32>)hdr.h.i, hdr.h.v); hdr.h.v = 0; r.read(hdr.h.v, 2);",
    );
    let value: Vec<u8> = (1..=12).collect();
    let frame = [&[2], &value[..]].concat();
    assert_eq!(out(&mut switch, &frame), frame);
    assert_eq!(switch.read_register("r", 2).unwrap(), value);
    assert_eq!(
        out(&mut switch, &[&[7], &[1; 12][..]].concat())[1..],
        value[..]
    );
}

#[test]
fn counters_count_packets_and_received_bytes() {
    let program = P4 {
        fields: "bit<8> i;",
        metadata: "bit<8> i;",
        locals: "@name(\".c\") counter(2, CounterType.packets_and_bytes) c;",
        ingress: "meta.i = hdr.h.i; hdr.h.setInvalid(); c.count((bit<32>)meta.i);",
        ..P4::default()
    };
    let mut switch = program.switch();
    for frame in [&[1, 0, 0][..], &[1], &[9, 0]] {
        switch.process(0, frame, 0);
    }
    assert_eq!(
        switch.read_counter("c", 1).unwrap(),
        Counter {
            packets: 2,
            bytes: 4
        }
    );
    assert_eq!(switch.read_counter("c", 0).unwrap(), Counter::default());
    assert!(matches!(
        switch.read_counter("c", 2),
        Err(ManageError::IndexOutOfRange { .. })
    ));
}

#[test]
fn meters_mark_packets_by_rate() {
    let mut switch = editing_switch_with(
        "bit<8> i; bit<8> colour;",
        "@name(\".m\") meter(2, MeterType.packets) m;",
        "m.execute_meter((bit<32>)hdr.h.i, hdr.h.colour);",
    );
    assert_eq!(out(&mut switch, &[1, 9]), [1, 0], "green without rates");
    let config = MeterConfig {
        cir: 1,
        cburst: 1,
        pir: 2,
        pburst: 2,
    };
    switch.write_meter("m", 1, Some(config), 0).unwrap();
    let colours: Vec<u8> = (0..3).map(|_| out(&mut switch, &[1, 9])[1]).collect();
    assert_eq!(colours, [0, 1, 2]);
    assert_eq!(out(&mut switch, &[5, 9]), [5, 9], "no meter, no colour");
    let wrong = MeterConfig {
        cir: 3,
        pir: 2,
        ..config
    };
    assert!(matches!(
        switch.write_meter("m", 1, Some(wrong), 0),
        Err(ManageError::MeterRates { .. })
    ));
}

#[test]
fn hashes_are_reduced_modulo_the_maximum_and_offset() {
    let value = |algorithm: &str, max: &str| {
        let program = P4 {
            fields: "bit<72> a; bit<32> v;",
            metadata: "bit<64> zero;",
            ingress: &format!(
                "sm.egress_spec = 1;
                 hash(hdr.h.v, HashAlgorithm.{algorithm}, 64w5, {{ hdr.h.a }}, {max});"
            ),
            ..P4::default()
        };
        let frame = [b"123456789".as_slice(), &[0; 4]].concat();
        let got = out(&mut program.switch(), &frame);
        u32::from_be_bytes(got[9..13].try_into().unwrap())
    };
    assert_eq!(value("crc32", "64w0x100000000"), 0xcbf4_3926 + 5);
    assert_eq!(value("crc32", "64w1000"), 0xcbf4_3926 % 1000 + 5);
    assert_eq!(
        value("crc32", "meta.zero"),
        5,
        "a maximum of zero counts as one"
    );
    assert_eq!(value("crc16", "64w65536"), 0xbb3d + 5);
}

#[test]
fn hashes_depend_on_the_bits_of_valid_fields_only() {
    let value = |algorithm: &str, fields: &str, inputs: &str| {
        let program = P4 {
            fields: &format!("{fields} bit<64> v;"),
            types: "header g_t { bit<24> x; }",
            headers: "g_t g;",
            metadata: "bit<64> max;",
            ingress: &format!(
                "sm.egress_spec = 1;
                 meta.max = 64w1 << 63;
                 hash(hdr.h.v, HashAlgorithm.{algorithm}, 64w0, {inputs}, meta.max);"
            ),
            ..P4::default()
        };
        let frame: Vec<u8> = (0..31u8).map(|i| i.wrapping_mul(37) ^ 5).collect();
        out(&mut program.switch(), &frame)[15..23].to_vec()
    };
    for algorithm in ["crc16", "crc32", "csum16", "xor16", "identity"] {
        let whole = value(algorithm, "bit<120> a;", "{ hdr.h.a }");
        assert_ne!(whole, [0; 8], "{algorithm}");
        let fields = "bit<3> a; bit<13> b; bit<93> c; bit<11> d;";
        for inputs in [
            "{ hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d }",
            "{ hdr.h.a, hdr.h.b, hdr.g.x, hdr.h.c, hdr.h.d }",
        ] {
            assert_eq!(
                value(algorithm, fields, inputs),
                whole,
                "{algorithm} of {inputs}"
            );
        }
    }
}

#[test]
fn random_numbers_stay_in_range_and_repeat_with_the_seed() {
    let run = || {
        let mut switch = editing_switch("bit<8> v;", "random(hdr.h.v, 10, 12);");
        (0..50)
            .map(|_| out(&mut switch, &[0])[0])
            .collect::<Vec<_>>()
    };
    let values = run();
    assert!(values.iter().all(|v| (10..=12).contains(v)));
    assert!([10, 11, 12].iter().all(|v| values.contains(v)));
    assert_eq!(values, run());
}

#[test]
fn jumps_lead_to_the_primitive_of_their_number() {
    let h = |f: &str| field("h", f);
    let mut b = editing_program(
        json!([["a", 8, false], ["b", 8, false]]),
        &[
            call("_jump_if_zero", json!([h("a"), num(4)])),
            assign(h("b"), num(1)),
            call("_jump", json!([num(5)])),
            assign(h("b"), num(2)),
        ],
    );
    assert_eq!(out(&mut b.switch(), &[0, 9]), [0, 2]);
    assert_eq!(out(&mut b.switch(), &[3, 9]), [3, 1]);
    b.set("/actions/0/primitives/3/parameters/0", num(6));
    assert!(LoadedProgram::from_json(&b.text()).is_err());
}

#[test]
fn log_messages_contain_their_arguments() {
    let logged = |text: &str, values: Value| {
        let message = json!([
            {"type": "string", "value": text},
            {"type": "parameters_vector", "value": values}
        ]);
        let b = editing_program(json!([["a", 8, true]]), &[call("log_msg", message)]);
        let mut fx = Effects::default();
        b.switch().process_into(0, &[0xff], 0, &mut fx);
        assert_eq!(fx.output.len(), 1);
        fx.logs
    };
    let values = json!([field("h", "a"), num(7)]);
    assert_eq!(logged("a={} of \\{{}\\}", values), ["a=-1 of {7}"]);
    // p4c writes an empty object for a message without arguments.
    assert_eq!(logged("plain", json!({})), ["plain"]);
}

#[test]
fn failed_assertions_drop_the_packet_and_keep_earlier_messages() {
    let mut switch = editing_switch(
        "bit<8> a;",
        "log_msg(\"a={}\", { hdr.h.a }); assert(hdr.h.a != 5);",
    );
    let mut fx = Effects::default();
    switch.process_into(0, &[4], 0, &mut fx);
    assert_eq!(
        (fx.output.len(), &fx.logs[..]),
        (1, &["a=4".to_owned()][..])
    );
    fx.clear();
    switch.process_into(0, &[5], 0, &mut fx);
    assert_eq!(fx.dropped, [DropReason::Assertion]);
    assert_eq!(fx.logs.len(), 2);
}

#[test]
fn texts_logged_in_ingress_are_effects_of_ingress() {
    let mut switch = editing_switch(
        "bit<8> a;",
        "log_msg(\"a={}\", { hdr.h.a }); if (hdr.h.a == 1) mark_to_drop(sm); if (hdr.h.a == 2) sm.mcast_grp = 1;",
    );
    let group = [1, 2].map(|port| Replica { port, rid: 0 });
    switch.pre_mut().unwrap().set_group(1, &group).unwrap();
    for is_direct in [false, true] {
        for (a, enqueued) in [(0, 1), (1, 0), (2, 2)] {
            let mut fx = Effects::default();
            switch.ingress(0, &[a], 0, &mut fx);
            let sent = fx.enqueued.len() + fx.output.len();
            assert_eq!((sent, &fx.logs[..]), (enqueued, &[format!("a={a}")][..]));
        }
        if !is_direct {
            switch.set_queued_ports([]);
        }
    }
}

#[test]
fn arithmetic_primitives_of_p4_14_work() {
    let names = [
        "x", "y", "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8",
    ];
    let fields: Vec<Value> = names.iter().map(|name| json!([name, 8, false])).collect();
    let h = |f: &str| field("h", f);
    let of_both = |op: &str, result: &str| call(op, json!([h(result), h("x"), h("y")]));
    let b = editing_program(
        json!(fields),
        &[
            of_both("add", "r0"),
            of_both("subtract", "r1"),
            of_both("bit_xor", "r2"),
            of_both("bit_or", "r3"),
            of_both("bit_and", "r4"),
            call("shift_left", json!([h("r5"), h("x"), num(2)])),
            call("shift_right", json!([h("r6"), h("x"), num(2)])),
            call("add_to_field", json!([h("r7"), num(3)])),
            call("subtract_from_field", json!([h("r8"), num(3)])),
            call("no_op", json!([])),
        ],
    );
    assert_eq!(
        out(&mut b.switch(), &[0xf3, 0x05, 0, 0, 0, 0, 0, 0, 0, 0xfe, 1]),
        [0xf3, 0x05, 0xf8, 0xee, 0xf6, 0xf7, 0x01, 0xcc, 0x3c, 0x01, 0xfe]
    );
}

#[test]
fn header_primitives_of_p4_14_work() {
    let mut b = Builder::new();
    b.header("h_t", &["a", "b", "c"], json!([["x", 8, false]]))
        .extracts(&["a"])
        .emits(&["a", "b", "c"]);
    let header = |name: &str| named("header", name);
    b.runs(
        "ingress",
        json!([
            send_to(1),
            call("copy_header", json!([header("b"), header("a")])),
            call("add_header_fast", json!([header("c")])),
            call("modify_field", json!([field("c", "x"), num(3)])),
        ]),
    );
    assert_eq!(out(&mut b.switch(), &[7, 9]), [7, 7, 3, 9]);
}

#[test]
fn drop_primitive_of_p4_14_works() {
    let mut fx = Effects::default();
    let b = editing_program(json!([["a", 8, false]]), &[call("drop", json!([]))]);
    b.switch().process_into(0, &[1], 0, &mut fx);
    assert!(fx.output.is_empty());
}

#[test]
fn a_failed_assumption_drops_the_packet() {
    let mut fx = Effects::default();
    let mut switch = editing_switch("bit<8> a;", "assume(hdr.h.a == 5);");
    assert_eq!(out(&mut switch, &[5]), [5]);
    switch.process_into(0, &[6], 0, &mut fx);
    assert_eq!(fx.dropped, [DropReason::Assertion]);
}
