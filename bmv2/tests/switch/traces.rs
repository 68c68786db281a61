//! Traces and logs: `Switch::set_trace` and `Switch::set_log`.

use std::sync::Arc;

use crate::builder::{exact, run_action};
use crate::p4::P4;
use alfirk_bmv2::*;
use serde_json::json;

/// A header of a byte, looked up in a table; a hit adds one to it and forwards the packet.
const LOOKUP: P4<'_> = P4 {
    fields: "bit<8> a; bit<72> wide;",
    locals: TABLE,
    ingress: "t.apply();",
    types: "",
    headers: "",
    metadata: "",
    states: "",
    verify: "",
    egress: "",
    update: "",
    deparser: None,
};
const TABLE: &str = r#"@name(".forward") action forward(bit<9> port) {
        sm.egress_spec = port;
        hdr.h.a = hdr.h.a + 1;
    }
    @name(".discard") action discard() { mark_to_drop(sm); }
    @name(".t") table t {
        key = { hdr.h.a: exact @name("h.a"); }
        actions = { forward; discard; }
        default_action = discard();
    }"#;

/// Returns the log's lines, without the packet's number.
fn log_lines(switch: &mut Switch, frame: &[u8]) -> Vec<String> {
    let mut fx = Effects::default();
    switch.process_into(1, frame, 0, &mut fx);
    let lines = fx.log.iter().map(|line| line.step.to_string());
    lines.collect()
}

/// Returns the same program with a condition and a register around its table.
fn switch_with_notes() -> Switch {
    let program = P4 {
        types: "@name(\".r\") register<bit<8>>(2) r;",
        ingress: "if (hdr.h.a != 9) { t.apply(); }",
        egress: "r.write(1, hdr.h.a); r.write(2, 0); r.read(hdr.h.a, 1);",
        ..LOOKUP
    };
    let mut switch = Switch::new(SwitchOptions::default());
    crate::builder::load(
        &mut switch,
        Arc::new(LoadedProgram::with_notes(&program.text()).unwrap()),
    );
    let table = switch.table("t").unwrap();
    switch
        .insert_entry(table, &[exact(7)], 0, &run_action("forward", &[3]), 0, 0)
        .unwrap();
    switch
}

#[test]
fn the_log_equals_that_of_bmv2() {
    let mut switch = switch_with_notes();
    switch.set_log(true);
    assert_eq!(
        log_lines(&mut switch, &FRAME),
        [
            "Processing packet received on port 1",
            "Parser 'parser': start",
            "Parser 'parser' entering state 'start'",
            "Extracting header 'h'",
            "Parser state 'start' has no switch, going to default next state",
            "Bytes parsed: 10",
            "Parser 'parser': end",
            "Pipeline 'ingress': start",
            "test.p4(22) Condition \"hdr.h.a != 9\" (node_2) is true",
            "Applying table 't'",
            "Looking up key:\n* h.a                 : 07\n",
            "Table 't': hit with handle 0",
            "Dumping entry 0\nMatch key:\n* h.a                 : EXACT     07\nAction entry: forward - 3,\n",
            "Action entry is forward - 3,",
            "Action forward",
            "test.p4(13) Primitive sm.egress_spec = port",
            "test.p4(14) Primitive hdr.h.a = hdr.h.a + 1",
            "Pipeline 'ingress': end",
            "Egress port is 3",
            "Pipeline 'egress': start",
            "Applying table 'tbl_test25'",
            "Looking up key:\n",
            "Table 'tbl_test25': miss",
            "Action entry is test25 - ",
            "Action test25",
            "test.p4(25) Primitive r.write(1, hdr.h.a)",
            "Wrote register 'r' at index 1 with value 8",
            "test.p4(25) Primitive r.write(2, 0)",
            "Attempted to access register 'r' with size 2 at out-of-bounds index 2.",
            "test.p4(25) Primitive r.read(hdr.h.a, 1)",
            "Read register 'r' at index 1 read value 8",
            "Pipeline 'egress': end",
            "Deparser 'deparser': start",
            "Deparsing header 'h'",
            "Deparser 'deparser': end",
            "Transmitting packet of size 12 out of port 3",
        ]
    );
    let dropped = log_lines(&mut switch, &[8]);
    assert!(dropped.contains(&"Exception while parsing: PacketTooShort".to_owned()));
    let end = &dropped[dropped.len() - 2..];
    assert_eq!(
        end,
        [
            "Egress port is 511",
            "Dropping packet at the end of ingress"
        ]
    );
    let nine = [&[9], &FRAME[1..]].concat();
    let condition = "test.p4(22) Condition \"hdr.h.a != 9\" (node_2) is false";
    assert!(log_lines(&mut switch, &nine).contains(&condition.to_owned()));
    switch.set_log(false);
    assert!(log_lines(&mut switch, &FRAME).is_empty());
}

#[test]
fn the_log_names_actions_without_source_locations() {
    fn without_source_locations(json: &mut serde_json::Value) {
        match json {
            serde_json::Value::Object(members) => {
                members.remove("source_info");
                members.values_mut().for_each(without_source_locations);
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(without_source_locations),
            _ => {}
        }
    }
    let mut json = serde_json::from_str(&LOOKUP.text()).unwrap();
    without_source_locations(&mut json);
    let mut switch = Switch::new(SwitchOptions::default());
    let program = LoadedProgram::with_notes(&json.to_string()).unwrap();
    crate::builder::load(&mut switch, Arc::new(program));
    switch.set_log(true);
    let lines = log_lines(&mut switch, &FRAME);
    assert!(lines.contains(&"Primitive (no source info)".to_owned()));
}

#[test]
fn the_log_numbers_packets_and_their_copies() {
    let program = P4 {
        fields: "bit<8> unused;",
        states: "state start { transition accept; }",
        ingress: "sm.mcast_grp = 4;",
        ..P4::default()
    };
    let mut switch = program.switch();
    let replica = |port| Replica { port, rid: 0 };
    let copies = [replica(5), replica(6)];
    switch.pre_mut().unwrap().set_group(4, &copies).unwrap();
    switch.set_log(true);
    let mut fx = Effects::default();
    switch.process_into(1, &[1], 0, &mut fx);
    switch.process_into(1, &[1], 0, &mut fx);
    let lines: Vec<String> = fx.log.iter().map(|line| line.to_string()).collect();
    let with = |text: &str| {
        lines
            .iter()
            .filter(|l| l.contains(text))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        with("Transmitting"),
        [
            "[0.1] [cxt 0] Transmitting packet of size 1 out of port 5",
            "[0.2] [cxt 0] Transmitting packet of size 1 out of port 6",
            "[1.1] [cxt 0] Transmitting packet of size 1 out of port 5",
            "[1.2] [cxt 0] Transmitting packet of size 1 out of port 6",
        ]
    );
    assert_eq!(
        with("Multicast requested")[1],
        "[1.0] [cxt 0] Multicast requested for packet"
    );
    assert_eq!(with("Replicating packet on port 6").len(), 2);
}

#[test]
fn the_log_continues_counting_with_a_new_program() {
    let mut switch = LOOKUP.switch();
    switch.set_log(true);
    switch.process(1, &FRAME, 0);
    let program = switch.program().unwrap().clone();
    crate::builder::load(&mut switch, program);
    let mut fx = Effects::default();
    switch.process_into(1, &FRAME, 0, &mut fx);
    assert_eq!(fx.log[0].packet, 1);
}

#[test]
fn notes_do_not_change_behaviour() {
    let run = |log: bool| {
        let mut switch = switch_with_notes();
        switch.set_log(log);
        (
            switch.process(1, &FRAME, 5),
            switch.read_register("r", 1).unwrap(),
        )
    };
    assert_eq!(run(true), run(false));
    assert_eq!(
        run(true),
        (vec![(3, [&[8], &FRAME[1..]].concat())], vec![8])
    );
}

fn trace_lines(switch: &mut Switch, frame: &[u8]) -> Vec<String> {
    let mut fx = Effects::default();
    switch.process_into(1, frame, 0, &mut fx);
    fx.trace.iter().map(|line| line.text(false)).collect()
}

const FRAME: [u8; 12] = [7, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0xee, 0xff];

#[test]
fn a_trace_has_every_step_of_a_packet() {
    let mut switch = LOOKUP.switch();
    switch.set_trace(true);
    let table = switch.table("t").unwrap();
    switch
        .insert_entry(table, &[exact(7)], 0, &run_action("forward", &[3]), 0, 0)
        .unwrap();
    assert_eq!(
        trace_lines(&mut switch, &FRAME),
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
    let mut short = trace_lines(&mut switch, &[8]);
    assert_eq!(
        short.remove(1),
        "#2   parser start: ; 1 bytes of payload; PacketTooShort"
    );
    assert_eq!(short.pop().unwrap(), "#2 dropped: ingress");
    // Tracing continues with a new program until it is turned off.
    let program = switch.program().unwrap().clone();
    crate::builder::load(&mut switch, program);
    assert_eq!(
        trace_lines(&mut switch, &FRAME)[0],
        "#1 in port 1, 12 bytes"
    );
    switch.set_trace(false);
    assert!(trace_lines(&mut switch, &FRAME).is_empty());
}

#[test]
fn traces_do_not_change_behaviour() {
    let run = |trace: bool| {
        let mut switch = LOOKUP.switch();
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
fn each_step_is_a_json_object() {
    let mut switch = LOOKUP.switch();
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
