//! Primitives on fields and extern objects.

use crate::builder::*;
use alfirk_bmv2::*;
use serde_json::{json, Value};

/// A header of `fields` that ingress changes by `primitives`; sent to port 1.
fn edits(fields: Value, primitives: &[Value]) -> Builder {
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
    let mut b = edits(
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
fn wide_fields_are_copied_and_computed_with() {
    let fields = json!([["a", 128, false], ["b", 128, false], ["c", 8, false]]);
    let h = |f: &str| field("h", f);
    let sum = operand(expr(
        "&",
        expr("+", h("a"), h("b")),
        hex(&format!("0x{}", "f".repeat(32))),
    ));
    let equal = operand(
        json!({"type": "expression", "value": {"op": "b2d", "left": null,
        "right": expr("==", h("a"), h("b"))}}),
    );
    let b = edits(fields, &[assign(h("c"), equal), assign(h("a"), sum)]);
    let mut frame = vec![0xff; 16];
    frame.extend([[0; 15].as_slice(), &[2], &[9]].concat());
    let got = out(&mut b.switch(), &frame);
    assert_eq!(got[..16], [[0; 15].as_slice(), &[1]].concat());
    assert_eq!(got[32], 0);
    let same = [[7; 32].as_slice(), &[9]].concat();
    assert_eq!(out(&mut b.switch(), &same)[32], 1);
}

#[test]
fn signed_fields_compare_and_shift_by_their_sign() {
    let fields = json!([
        ["a", 8, true],
        ["b", 8, true],
        ["less", 8, false],
        ["half", 8, true],
        ["big", 16, true]
    ]);
    let h = |f: &str| field("h", f);
    let less = operand(
        json!({"type": "expression", "value": {"op": "b2d", "left": null, "right": expr("<", h("a"), h("b"))}}),
    );
    let half = operand(expr(">>", h("a"), num(1)));
    let b = edits(
        fields,
        &[
            assign(h("less"), less),
            assign(h("half"), half),
            assign(h("big"), h("a")),
        ],
    );
    assert_eq!(
        out(&mut b.switch(), &[0xf0, 0x01, 0, 0, 0, 0]),
        [0xf0, 1, 1, 0xf8, 0xff, 0xf0]
    );
    assert_eq!(
        out(&mut b.switch(), &[0x7f, 0x80, 9, 0, 0, 0]),
        [0x7f, 0x80, 0, 0x3f, 0, 0x7f]
    );
}

#[test]
fn saturating_casts_stop_at_the_ends() {
    let fields = json!([
        ["a", 8, false],
        ["b", 8, false],
        ["sum", 8, false],
        ["diff", 8, false],
        ["s", 8, true],
        ["t", 8, true]
    ]);
    let h = |f: &str| field("h", f);
    let cast = |op: &str, inner: Value| operand(expr(op, inner, num(8)));
    let b = edits(
        fields,
        &[
            assign(h("sum"), cast("usat_cast", expr("+", h("a"), h("b")))),
            assign(h("diff"), cast("usat_cast", expr("-", h("a"), h("b")))),
            assign(h("s"), cast("sat_cast", expr("+", h("s"), h("t")))),
            assign(h("t"), cast("two_comp_mod", expr("-", h("t"), num(100)))),
        ],
    );
    assert_eq!(
        out(&mut b.switch(), &[200, 100, 0, 0, 100, 100]),
        [200, 100, 255, 100, 127, 0]
    );
    assert_eq!(
        out(&mut b.switch(), &[5, 10, 0, 0, 0x9c, 0x9c]),
        [5, 10, 15, 0, 0x80, 0x38]
    );
}

#[test]
fn saturating_fields_stop_at_the_ends() {
    let fields = json!([
        ["a", 8, false, true],
        ["b", 8, true, true],
        ["c", 16, false]
    ]);
    let h = |f: &str| field("h", f);
    let b = edits(
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
fn ternaries_choose_and_only_then_compute() {
    let fields = json!([["a", 8, false], ["b", 8, false]]);
    let h = |f: &str| field("h", f);
    let choose = json!({"type": "expression", "value": {"op": "?",
        "left": expr("+", h("b"), num(1)), "right": h("a"), "cond": expr(">", h("a"), num(9))}});
    let b = edits(fields, &[assign(h("b"), operand(choose))]);
    assert_eq!(out(&mut b.switch(), &[10, 20]), [10, 21]);
    assert_eq!(out(&mut b.switch(), &[9, 20]), [9, 9]);
}

#[test]
fn headers_appear_zeroed_and_vanish() {
    let mut b = Builder::new();
    b.header(
        "h_t",
        &["h", "g"],
        json!([["a", 8, false], ["b", 8, false]]),
    );
    b.extracts(&["h"]).emits(&["g", "h"]);
    b.runs(
        "ingress",
        json!([
            send_to(1),
            call("add_header", json!([named("header", "g")])),
            assign(field("g", "a"), field("h", "a")),
            // Adding a valid header changes nothing.
            call("add_header", json!([named("header", "g")])),
            call("remove_header", json!([named("header", "h")])),
        ]),
    );
    assert_eq!(b.switch().process(0, &[7, 8, 9], 0), [(1, vec![7, 0, 9])]);
}

#[test]
fn header_copies_take_over_validity() {
    let mut b = Builder::new();
    b.header("h_t", &["h", "g", "none"], json!([["a", 8, false]]));
    b.extracts(&["h"]).emits(&["h", "g"]);
    let header = |name: &str| named("header", name);
    b.runs(
        "ingress",
        json!([
            send_to(1),
            call("assign_header", json!([header("g"), header("h")])),
            call("assign_header", json!([header("h"), header("none")])),
        ]),
    );
    assert_eq!(b.switch().process(0, &[7, 9], 0), [(1, vec![7, 9])]);
    b.emits(&["h"]);
    assert_eq!(b.switch().process(0, &[7, 9], 0), [(1, vec![9])]);
}

#[test]
fn registers_keep_values_between_packets_and_ignore_wrong_indexes() {
    let fields = json!([["i", 8, false], ["v", 16, false]]);
    let mut b = edits(
        fields,
        &[
            call(
                "register_read",
                json!([
                    field("h", "v"),
                    named("register_array", "r"),
                    field("h", "i")
                ]),
            ),
            call(
                "register_write",
                json!([
                    named("register_array", "r"),
                    field("h", "i"),
                    operand(expr("+", field("h", "v"), num(300)))
                ]),
            ),
        ],
    );
    b.add(
        "register_arrays",
        json!({"name": "r", "size": 4, "bitwidth": 16}),
    );
    let mut switch = b.switch();
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
    assert_eq!(switch.read_register("r", 1).unwrap(), [1, 43], "cells wrap");
}

#[test]
fn registers_wider_than_a_word_work_alike() {
    let fields = json!([["i", 8, false], ["v", 96, false]]);
    let mut b = edits(
        fields,
        &[
            call(
                "register_write",
                json!([
                    named("register_array", "r"),
                    field("h", "i"),
                    field("h", "v")
                ]),
            ),
            assign(field("h", "v"), num(0)),
            call(
                "register_read",
                json!([field("h", "v"), named("register_array", "r"), num(2)]),
            ),
        ],
    );
    b.add(
        "register_arrays",
        json!({"name": "r", "size": 3, "bitwidth": 96}),
    );
    let mut switch = b.switch();
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
fn counters_count_packets_and_bytes_as_received() {
    let mut b = edits(
        json!([["i", 8, false]]),
        &[
            call("remove_header", json!([named("header", "h")])),
            call(
                "count",
                json!([named("counter_array", "c"), field("h", "i")]),
            ),
        ],
    );
    b.add(
        "counter_arrays",
        json!({"name": "c", "size": 2, "is_direct": false}),
    );
    let mut switch = b.switch();
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
fn meters_colour_by_rate() {
    let mut b = edits(
        json!([["i", 8, false], ["colour", 8, false]]),
        &[call(
            "execute_meter",
            json!([
                named("meter_array", "m"),
                field("h", "i"),
                field("h", "colour")
            ]),
        )],
    );
    b.add(
        "meter_arrays",
        json!({"name": "m", "size": 2, "is_direct": false, "rate_count": 2, "type": "packets"}),
    );
    let mut switch = b.switch();
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
fn hashes_are_reduced_and_offset() {
    let mut b = edits(
        json!([["a", 72, false], ["v", 32, false]]),
        &[call(
            "modify_field_with_hash_based_offset",
            json!([
                field("h", "v"),
                num(5),
                named("calculation", "c"),
                hex("0x100000000")
            ]),
        )],
    );
    b.add(
        "calculations",
        json!({"name": "c", "algo": "crc32", "input": [field("h", "a")]}),
    );
    let frame = [b"123456789".as_slice(), &[0; 4]].concat();
    let value =
        |b: &Builder| u32::from_be_bytes(out(&mut b.switch(), &frame)[9..13].try_into().unwrap());
    assert_eq!(value(&b), 0xcbf4_3926 + 5);
    b.set("/actions/0/primitives/1/parameters/3", num(1000));
    assert_eq!(value(&b), 0xcbf4_3926 % 1000 + 5);
    b.set("/actions/0/primitives/1/parameters/3", num(0));
    assert_eq!(value(&b), 5, "a maximum of zero counts as one");
    b.set("/calculations/0/algo", json!("crc16"));
    b.set("/actions/0/primitives/1/parameters/3", num(65536));
    assert_eq!(value(&b), 0xbb3d + 5);
}

#[test]
fn random_numbers_stay_in_range_and_repeat_with_the_seed() {
    let b = edits(
        json!([["v", 8, false]]),
        &[call(
            "modify_field_rng_uniform",
            json!([field("h", "v"), num(10), num(12)]),
        )],
    );
    let run = || {
        let mut switch = b.switch();
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
fn jumps_lead_to_the_primitive_of_that_number() {
    let h = |f: &str| field("h", f);
    let mut b = edits(
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
fn messages_are_filled_in_and_failed_assertions_drop() {
    let mut b = edits(
        json!([["a", 8, true]]),
        &[
            call(
                "log_msg",
                json!([{"type": "string", "value": "a={} of \\{{}\\}"}, {"type": "parameters_vector", "value": [field("h", "a"), num(7)]}]),
            ),
            call(
                "assert",
                json!([operand(
                    json!({"type": "expression", "value": {"op": "b2d", "left": null, "right": expr("!=", field("h", "a"), num(5))}})
                )]),
            ),
        ],
    );
    let mut fx = Effects::default();
    let mut switch = b.switch();
    switch.process_into(0, &[0xff], 0, &mut fx);
    assert_eq!(fx.logs, ["a=-1 of {7}"]);
    assert_eq!(fx.output.len(), 1);
    fx.clear();
    switch.process_into(0, &[5], 0, &mut fx);
    assert_eq!(fx.dropped, [DropReason::Assertion]);
    assert_eq!(fx.logs.len(), 2);
    b.set("/actions/0/primitives/1", call("log_msg", json!([{"type": "string", "value": "plain"}, {"type": "parameters_vector", "value": {}}])));
    fx.clear();
    b.switch().process_into(0, &[1], 0, &mut fx);
    assert_eq!(fx.logs, ["plain"]);
}

#[test]
fn primitives_of_p4_14_compute() {
    let names = [
        "x", "y", "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8",
    ];
    let fields: Vec<Value> = names.iter().map(|name| json!([name, 8, false])).collect();
    let h = |f: &str| field("h", f);
    let of_both = |op: &str, result: &str| call(op, json!([h(result), h("x"), h("y")]));
    let b = edits(
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
fn headers_are_copied_and_added_by_the_names_of_p4_14() {
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
fn drop_drops_and_so_does_what_was_assumed_in_vain() {
    let fields = json!([["a", 8, false]]);
    let mut fx = Effects::default();
    let b = edits(fields.clone(), &[call("drop", json!([]))]);
    b.switch().process_into(0, &[1], 0, &mut fx);
    assert!(fx.output.is_empty());

    let is_five = operand(
        json!({"type": "expression", "value": {"op": "b2d", "left": null, "right": expr("==", field("h", "a"), num(5))}}),
    );
    let mut switch = edits(fields, &[call("assume", json!([is_five]))]).switch();
    assert_eq!(out(&mut switch, &[5]), [5]);
    fx.clear();
    switch.process_into(0, &[6], 0, &mut fx);
    assert_eq!(fx.dropped, [DropReason::Assertion]);
}
