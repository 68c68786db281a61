//! Robustness against malformed input. The programs are JSON, since their values are replaced by invalid ones.

use crate::builder::*;
use alfirk_bmv2::*;
use alfirk_test_budget::Cost;
use proptest::prelude::*;
use serde_json::{json, Value};
use std::sync::Arc;

/// Returns a program with every kind of object.
fn program_with_all_objects() -> Builder {
    let mut b = Builder::new();
    b.scalar("tmp", 16);
    b.header(
        "eth_t",
        &["eth"],
        json!([["dst", 48, false], ["src", 48, false], ["type", 16, false]]),
    );
    b.header("opt_t", &["opt"], json!([["len", 8, false], ["data", "*"]]));
    b.set("/header_types/3/max_length", json!(9));
    b.header(
        "tag_t",
        &["tags[0]", "tags[1]", "u.x"],
        json!([["more", 8, false], ["id", 72, true]]),
    );
    let tags = [b.header_id("tags[0]"), b.header_id("tags[1]")];
    b.add(
        "header_stacks",
        json!({"name": "tags", "header_type": "tag_t", "size": 2, "header_ids": tags}),
    );
    b.add(
        "header_union_types",
        json!({"name": "u_t", "headers": [["x", "tag_t"]]}),
    );
    let x = b.header_id("u.x");
    b.add(
        "header_unions",
        json!({"name": "u", "union_type": "u_t", "header_ids": [x]}),
    );
    b.add(
        "parse_vsets",
        json!({"name": "pvs", "compressed_bitwidth": 16}),
    );
    b.state(
        "start",
        json!([extract("eth")]),
        json!([field("eth", "type")]),
        json!([
            on("0x0001", json!("opt")),
            {"type": "parse_vset", "value": "pvs", "mask": null, "next_state": "tag"},
            on("0x0002", json!("tag")),
            default(Value::Null),
        ]),
    );
    b.state("opt", json!([
        {"op": "extract_VL", "parameters": [{"type": "regular", "value": "opt"}, operand(expr("*", json!({"type": "lookahead", "value": [0, 8]}), num(8)))]},
    ]), json!([]), json!([default(json!("tag"))]));
    b.set(
        "/parsers/0/parse_states/1/parser_ops/0/parameters/1",
        operand(expr("&", field("eth", "src"), num(0x48))),
    );
    b.state("tag", json!([
        {"op": "extract", "parameters": [{"type": "stack", "value": "tags"}]},
        {"op": "set", "parameters": [scalar("tmp"), {"type": "lookahead", "value": [3, 13]}]},
        {"op": "verify", "parameters": [expr("<", scalar("tmp"), num(8000)), num(6)]},
        {"op": "advance", "parameters": [expr("&", scalar("tmp"), num(0x10))]},
    ]), json!([{"type": "stack_field", "value": ["tags", "more"]}, {"type": "lookahead", "value": [0, 70]}]), json!([
        {"type": "hexstr", "value": "0x01000000000000000000", "mask": "0xff000000000000000000", "next_state": "tag"},
        default(Value::Null),
    ]));
    b.emits(&["eth", "opt", "tags[0]", "tags[1]", "u.x"]);
    b.add(
        "register_arrays",
        json!({"name": "r", "size": 16, "bitwidth": 80}),
    );
    b.add(
        "counter_arrays",
        json!({"name": "c", "size": 16, "is_direct": false}),
    );
    b.add(
        "meter_arrays",
        json!({"name": "m", "size": 16, "is_direct": false, "rate_count": 2, "type": "bytes"}),
    );
    b.add(
        "field_lists",
        json!({"id": 1, "name": "fl", "elements": [scalar("tmp")]}),
    );
    b.add(
        "learn_lists",
        json!({"id": 1, "name": "ll", "elements": [scalar("tmp"), field("tags[0]", "id")]}),
    );
    b.add("calculations", json!({"name": "calc", "algo": "csum16", "input": [field("eth", "src"), named("header", "tags[0]"), {"type": "payload", "value": null}]}));
    b.add("checksums", json!({"name": "ck", "target": ["eth", "type"], "type": "generic", "calculation": "calc", "verify": true, "update": true, "if_cond": expr("==", scalar("tmp"), num(3))}));
    let element = json!({"type": "expression", "value": {"op": "access_field", "left": {"type": "expression", "value": {"op": "dereference_header_stack", "left": named("header_stack", "tags"), "right": scalar("tmp")}}, "right": 1}});
    let act = b.action("act", &[("p", 9), ("w", 100)], json!([
        assign(standard("egress_spec"), arg(0)),
        assign(operand(element.clone()), operand(expr("+", json!({"type": "local", "value": 1}), num(1)))),
        assign(scalar("tmp"), operand(expr("^", element, scalar("tmp")))),
        call("register_write", json!([named("register_array", "r"), field("eth", "dst"), arg(1)])),
        call("register_read", json!([field("tags[1]", "id"), named("register_array", "r"), scalar("tmp")])),
        call("count", json!([named("counter_array", "c"), scalar("tmp")])),
        call("execute_meter", json!([named("meter_array", "m"), scalar("tmp"), field("tags[0]", "more")])),
        call("push", json!([named("header_stack", "tags"), scalar("tmp")])),
        call("pop", json!([named("header_stack", "tags"), field("tags[0]", "more")])),
        call("assign_header", json!([named("header", "u.x"), named("header", "tags[0]")])),
        call("assign_union", json!([named("header_union", "u"), named("header_union", "u")])),
        call("modify_field_with_hash_based_offset", json!([scalar("tmp"), num(1), named("calculation", "calc"), num(77)])),
        call("modify_field_rng_uniform", json!([field("tags[0]", "id"), num(1), num(9)])),
        call("generate_digest", json!([num(1), num(1)])),
        call("clone_ingress_pkt_to_egress", json!([num(3), num(1)])),
        call("resubmit", json!([operand(expr("&", scalar("tmp"), num(1)))])),
        call("truncate", json!([scalar("tmp")])),
        call("log_msg", json!([{"type": "string", "value": "x={}"}, {"type": "parameters_vector", "value": [scalar("tmp")]}])),
    ]));
    let stop = b.action(
        "stop",
        &[],
        json!([
            call(
                "mark_to_drop",
                json!([named("header", "standard_metadata")])
            ),
            call("exit", json!([]))
        ]),
    );
    b.table(
        "t",
        "range",
        json!([
            key("exact", "eth", "$valid$"),
            key("lpm", "eth", "dst"),
            key("ternary", "scalars", "tmp"),
            key("range", "standard_metadata", "ingress_port"),
        ]),
        &[("act", act), ("stop", stop)],
    );
    b.set("/pipelines/0/tables/0/default_entry", json!({"action_id": act, "action_const": false, "action_data": ["0x2", "0xffffffffffffffffffff"], "action_entry_const": false}));
    b.node("ingress", "conditionals", json!({"name": "if", "expression": expr("and", expr("!=", scalar("tmp"), num(5)), expr("<", expr("<<", scalar("tmp"), scalar("tmp")), hex("0xffffffffffffffffffff"))), "true_next": "t", "false_next": null}));
    b.start_at("ingress", "if");
    b.runs(
        "egress",
        json!([
            call(
                "clone_egress_pkt_to_egress",
                json!([
                    operand(expr("+", standard("instance_type"), num(3))),
                    num(1)
                ])
            ),
            call(
                "recirculate",
                json!([operand(expr("==", standard("instance_type"), num(0)))])
            ),
        ]),
    );
    b
}

fn running_switch(b: &Builder) -> Switch {
    let mut switch = b.switch();
    switch.set_value_set("pvs", &[vec![0x12, 0x34]]).unwrap();
    let pre = switch.pre_mut().unwrap();
    pre.set_group(
        7,
        &[Replica { port: 1, rid: 1 }, Replica { port: 2, rid: 9 }],
    )
    .unwrap();
    pre.set_session(
        3,
        CloneSession {
            group: Some(7),
            truncate_bytes: 20,
            ..CloneSession::default()
        },
    )
    .unwrap();
    switch
}

#[test]
fn the_program_with_all_objects_runs() {
    let mut switch = running_switch(&program_with_all_objects());
    let frame = [
        &[0; 12][..],
        &[0, 2, 1],
        &[0; 9],
        &[0; 10],
        &[0, 6],
        &[5; 40],
    ]
    .concat();
    let mut fx = Effects::default();
    switch.process_into(4, &frame, 1_000_000, &mut fx);
    assert!(!fx.output.is_empty());
    assert!(!fx.digests.is_empty());
}

proptest! {
    #![proptest_config(Cost::Packets.cases())]

    #[test]
    fn any_frame_is_processed_without_a_panic(
        kind in 0u16..3, mut frame in proptest::collection::vec(any::<u8>(), 0..120), port in any::<u32>(), now in any::<u64>(),
    ) {
        let mut switch = running_switch(&program_with_all_objects());
        if frame.len() > 14 {
            frame[12..14].copy_from_slice(&kind.to_be_bytes());
        }
        let mut fx = Effects::default();
        for _ in 0..2 {
            switch.process_into(port, &frame, now, &mut fx);
        }
    }

    /// Replaces a random leaf of the JSON by another leaf of its kind, or by an invalid value.
    #[test]
    fn any_program_loads_or_is_rejected_without_a_panic(
        picks in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..6), 1..4),
        frame in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut json: Value = serde_json::from_str(&program_with_all_objects().text()).unwrap();
        let mut paths = Vec::new();
        leaves(&json, String::new(), &mut paths);
        for (at, from, how) in picks {
            let other = json.pointer(from.get(&paths[..]).as_str()).cloned();
            let Some(leaf) = json.pointer_mut(at.get(&paths[..]).as_str()) else { continue };
            *leaf = match how {
                0 | 1 => other.unwrap_or(Value::Null),
                2 => Value::Null,
                3 => json!(0xffff_ffffu32),
                4 => json!("0xffffffffffffffffffffffffffffffffffff"),
                _ => json!([]),
            };
        }
        if let Ok(program) = LoadedProgram::from_json(&json.to_string()) {
            let mut switch = Switch::new(SwitchOptions::default());
            crate::builder::load(&mut switch, Arc::new(program));
            switch.process(1, &frame, 0);
        }
    }
}

fn leaves(value: &Value, path: String, out: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(k, v)| {
                leaves(
                    v,
                    format!("{path}/{}", k.replace('~', "~0").replace('/', "~1")),
                    out,
                )
            });
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(i, v)| leaves(v, format!("{path}/{i}"), out)),
        _ => out.push(path.clone()),
    }
    if !path.is_empty() {
        out.push(path);
    }
}

#[test]
fn programs_beyond_the_limits_are_rejected() {
    let rejected = |pointer: &str, value: Value| {
        let mut b = program_with_all_objects();
        b.set(pointer, value);
        assert!(LoadedProgram::from_json(&b.text()).is_err(), "{pointer}");
    };
    rejected("/register_arrays/0/size", json!(u64::MAX));
    rejected("/counter_arrays/0/size", json!(1u64 << 40));
    rejected("/header_types/2/fields/0/1", json!(100_000_000));
    rejected("/header_types/3/max_length", json!(1u64 << 60));
    rejected("/header_types/3/max_length", Value::Null);
    rejected("/actions/0/runtime_data/0/bitwidth", json!(u32::MAX));
    rejected("/__meta__/version", json!([3, 0]));
    rejected("/pipelines/0/name", json!("MyIngress"));
    rejected("/parsers/0/init_state", json!("nowhere"));
}
