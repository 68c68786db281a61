//! What `Switch::set_trace` tells.

use crate::builder::*;
use alfirk_bmv2::*;
use serde_json::json;

/// A header of a byte, looked up in a table; its hits add one to it and forward it.
fn program() -> Builder {
    let mut b = Builder::new();
    b.header("h_t", &["h"], json!([["a", 8, false], ["wide", 72, false]]));
    b.extracts(&["h"]).emits(&["h"]);
    let forward = b.action(
        "forward",
        &[("port", 9)],
        json!([
            assign(standard("egress_spec"), arg(0)),
            assign(
                field("h", "a"),
                operand(expr("+", field("h", "a"), hex("0x1")))
            ),
        ]),
    );
    let discard = b.action(
        "discard",
        &[],
        json!([call(
            "mark_to_drop",
            json!([named("header", "standard_metadata")])
        )]),
    );
    b.table(
        "t",
        "exact",
        json!([key("exact", "h", "a")]),
        &[("forward", forward), ("discard", discard)],
    );
    b.set("/pipelines/0/tables/0/default_entry", json!({"action_id": discard, "action_const": false, "action_data": [], "action_entry_const": false}));
    b
}

fn traced(switch: &mut Switch, frame: &[u8]) -> Vec<String> {
    let mut fx = Effects::default();
    switch.process_into(1, frame, 0, &mut fx);
    fx.trace.iter().map(|line| line.text(false)).collect()
}

const FRAME: [u8; 12] = [7, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0xee, 0xff];

#[test]
fn the_way_of_a_packet_is_told_step_by_step() {
    let mut switch = program().switch();
    switch.set_trace(true);
    let table = switch.table("t").unwrap();
    switch
        .insert_entry(table, &[exact(7)], 0, &run_action("forward", &[3]), 0, 0)
        .unwrap();
    assert_eq!(
        traced(&mut switch, &FRAME),
        [
            "#1 in port 1, 12 bytes",
            "#1   parser start: h; 2 bytes of payload",
            "#1   table t [h.a = 0x7] hit entry 0: forward(port = 0x3)",
            "#1     standard_metadata.egress_spec: 0x0 > 0x3",
            "#1     h.a: 0x7 > 0x8",
            "#1   to port 3, priority 0",
            "#1   egress for port 3",
            "#1 out port 3, 12 bytes",
        ]
    );
    let mut short = traced(&mut switch, &[8]);
    assert_eq!(
        short.remove(1),
        "#2   parser start: ; 1 bytes of payload; PacketTooShort"
    );
    assert_eq!(short.pop().unwrap(), "#2 dropped: ingress");
    // Tracing goes on over a new program, until it is ended.
    let program = switch.program().unwrap().clone();
    switch.load(program);
    assert_eq!(traced(&mut switch, &FRAME)[0], "#1 in port 1, 12 bytes");
    switch.set_trace(false);
    assert!(traced(&mut switch, &FRAME).is_empty());
}

#[test]
fn traces_change_nothing_that_happens() {
    let run = |trace: bool| {
        let mut switch = program().switch();
        switch.set_trace(trace);
        let table = switch.table("t").unwrap();
        let handle = switch
            .insert_entry(table, &[exact(7)], 0, &run_action("forward", &[3]), 0, 0)
            .unwrap();
        let out = switch.process(1, &FRAME, 5);
        (out, switch.entry(table, handle).unwrap())
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn tools_get_an_object_for_each_step() {
    let mut switch = program().switch();
    switch.set_trace(true);
    let mut fx = Effects::default();
    switch.process_into(1, &FRAME, 0, &mut fx);
    let lines: Vec<serde_json::Value> = fx
        .trace
        .iter()
        .map(|line| serde_json::from_str(&line.json()).unwrap())
        .collect();
    assert_eq!(
        lines[0],
        json!({"packet": 1, "event": "in", "port": 1, "bytes": 12})
    );
    assert_eq!(
        lines[2],
        json!({"packet": 1, "event": "table", "table": "t", "key": [{"name": "h.a", "value": "0x7"}],
               "hit": false, "action": "discard", "data": []})
    );
    assert_eq!(
        lines.last().unwrap(),
        &json!({"packet": 1, "event": "dropped", "reason": "ingress"})
    );
}
