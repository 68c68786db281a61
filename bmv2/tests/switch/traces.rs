//! Traces and logs: `Switch::set_trace` and `Switch::set_log`.

use std::sync::Arc;

use crate::builder::{exact, run_action};
use crate::p4::P4;
use alfirk_bmv2::trace::{FrameFilter, TraceEvent};
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
            "#1   table t [h.a = 0x7] hit entry 0: forward(port = 0x3)  (test.p4:17)",
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
fn blocks_are_traced_on_request() {
    let mut switch = LOOKUP.switch();
    switch.set_trace(true);
    switch.set_block_trace(true);
    let table = switch.table("t").unwrap();
    switch
        .insert_entry(table, &[exact(7)], 0, &run_action("forward", &[3]), 0, 0)
        .unwrap();
    let mut blocks = |frame: &[u8]| {
        let mut fx = Effects::default();
        switch.process_into(1, frame, 0, &mut fx);
        let events = fx.trace.into_iter();
        let blocks = events.filter_map(|line| match line.event {
            TraceEvent::Block { block, starts } => Some((block, starts)),
            _ => None,
        });
        blocks.collect::<Vec<_>>()
    };
    let both = |block| [(block, true), (block, false)];
    let all = ["parser", "ingress", "egress", "deparser"].map(both);
    assert_eq!(blocks(&FRAME), all.concat());
    // Dropped by ingress, and by a parser error, after which ingress runs.
    let first_two = all[..2].concat();
    assert_eq!(blocks(&[&[9], &FRAME[1..]].concat()), first_two);
    assert_eq!(blocks(&[8]), first_two);
}

#[test]
fn a_filter_chooses_the_packets_that_are_traced() {
    let mut switch = LOOKUP.switch();
    switch.observe(0, Some(FrameFilter::new(|frame| frame[0] == 9)));
    assert!(trace_lines(&mut switch, &FRAME).is_empty());
    let chosen = trace_lines(&mut switch, &[&[9], &FRAME[1..]].concat());
    assert_eq!(chosen.first().unwrap(), "#2 in port 1, 12 bytes");
    assert_eq!(chosen.last().unwrap(), "#2 dropped: ingress");
    switch.observe(0, None);
    assert!(!trace_lines(&mut switch, &FRAME).is_empty());
}

#[test]
fn scripts_of_choices_replace_random_numbers_and_undefined_values() {
    let program = P4 {
        fields: "bit<8> a; bit<8> b;",
        ingress: "bit<8> unset; random(hdr.h.a, 1, 3); hdr.h.b = unset; sm.egress_spec = 2;",
        ..P4::default()
    };
    let mut switch = program.switch();
    switch.set_trace(true);
    let mut run = |script: &[u64], fills_undefined| {
        switch.script_choices(script.to_vec(), fills_undefined);
        let out = switch.process(1, &[0, 0], 0);
        (out[0].1.clone(), switch.take_choices())
    };
    assert_eq!(run(&[], false).0, [1, 0]);
    assert_eq!(run(&[2], true).0, [3, 0xff]);
    let (_, made) = run(&[1], false);
    assert_eq!((made.len(), made[0].value, made[0].alternatives), (1, 2, 3));
    assert!(!made[0].is_cut);
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
               "hit": false, "entries": 0, "action": "discard", "data": [],
               "source": {"file": "test.p4", "line": 17, "column": 23, "text": "t"}})
    );
    assert_eq!(
        lines.last().unwrap(),
        &json!({"packet": 1, "event": "dropped", "reason": "ingress"})
    );
}

#[test]
fn a_trace_of_a_program_with_notes_has_statements_and_their_effects() {
    let mut switch = switch_with_notes();
    switch.set_trace(true);
    let lines = trace_lines(&mut switch, &FRAME);
    assert_eq!(
        lines[2..],
        [
            "#1   if (hdr.h.a != 9) true  (test.p4:22)",
            "#1   table t [h.a = 0x7] hit entry 0: forward(port = 0x3)  (test.p4:17)",
            "#1     sm.egress_spec = port  (test.p4:13)",
            "#1     standard_metadata.egress_spec: 0x0 > 0x3",
            "#1     hdr.h.a = hdr.h.a + 1  (test.p4:14)",
            "#1     h.a: 0x7 > 0x8",
            "#1   to port 3, priority 0",
            "#1   egress for port 3",
            "#1     r.write(1, hdr.h.a)  (test.p4:25)",
            "#1     write register r[1]: 0x8",
            "#1     r.write(2, 0)  (test.p4:25)",
            "#1     register r[2]: no such cell, 2 cells",
            "#1     r.read(hdr.h.a, 1)  (test.p4:25)",
            "#1     read register r[1]: 0x8",
            "#1 out port 3, 12 bytes",
        ]
    );
}

#[test]
fn fields_of_metadata_have_their_names_in_the_source() {
    let program = P4 {
        fields: "bit<8> a;",
        metadata: "bit<8> doubled;",
        locals: "bit<8> sum;",
        ingress: "sum = hdr.h.a + 1; meta.doubled = sum + hdr.h.a; if (meta.doubled != 9) { sm.egress_spec = 2; }",
        ..P4::default()
    };
    let mut switch = Switch::new(SwitchOptions::default());
    let program = LoadedProgram::with_notes(&program.text()).unwrap();
    crate::builder::load(&mut switch, Arc::new(program));
    switch.set_trace(true);
    let lines = trace_lines(&mut switch, &[7]);
    for expected in ["#1     meta.doubled: 0x0 > 0xf", "#1     I.sum: 0x0 > 0x8"] {
        assert!(lines.contains(&expected.to_owned()), "{lines:#?}");
    }
}

/// Returns the lines about table entries that did not win.
fn losers(switch: &mut Switch, frame: &[u8]) -> Vec<String> {
    let mut lines = trace_lines(switch, frame);
    lines.retain(|line| line.contains(" entry ") && !line.contains(" hit "));
    lines
}

#[test]
fn entries_that_did_not_win_are_explained() {
    let table = |kind: &str| {
        format!(
            r#"@name(".forward") action forward(bit<9> port) {{ sm.egress_spec = port; }}
            @name(".t") table t {{
                key = {{ hdr.h.a: {kind} @name("h.a"); hdr.h.b: exact @name("h.b"); }}
                actions = {{ forward; }}
            }}"#
        )
    };
    let switch = |kind: &str, keys: &[(KeyMatch, u8, i32)]| {
        let locals = table(kind);
        let program = P4 {
            fields: "bit<16> a; bit<8> b;",
            locals: &locals,
            ingress: "t.apply();",
            ..P4::default()
        };
        let mut switch = program.switch();
        switch.set_trace(true);
        let table = switch.table("t").unwrap();
        for (key, b, priority) in keys {
            let keys = [key.clone(), exact(u64::from(*b))];
            let action = run_action("forward", &[3]);
            switch
                .insert_entry(table, &keys, *priority, &action, 0, 0)
                .unwrap();
        }
        switch
    };
    let prefix = |value: [u8; 2], prefix_len| KeyMatch::Lpm {
        value: value.to_vec(),
        prefix_len,
    };
    let mut routes = switch(
        "lpm",
        &[
            (prefix([0x0a, 0], 8), 1, 0),
            (prefix([0x0a, 0x70], 12), 1, 0),
            (prefix([0x0b, 0], 8), 2, 0),
        ],
    );
    assert_eq!(
        losers(&mut routes, &[0x0a, 0x7f, 1]),
        ["#1     entry 0 matches too, with a shorter prefix (/8)"]
    );
    assert_eq!(
        losers(&mut routes, &[0x0b, 0x7f, 1]),
        [
            "#2     entry 0 has h.a = 0xa00/8, the packet 0xb7f",
            "#2     entry 1 has h.a = 0xa70/12, the packet 0xb7f",
            "#2     entry 2 has h.b = 0x2, the packet 0x1",
        ]
    );
    let masked = |value: [u8; 2], mask: [u8; 2]| KeyMatch::Ternary {
        value: value.to_vec(),
        mask: mask.to_vec(),
    };
    let mut rules = switch(
        "ternary",
        &[
            (masked([0x0a, 0], [0xff, 0]), 1, 20),
            (masked([0, 0], [0, 0]), 1, 30),
            (masked([0x0a, 1], [0xff, 1]), 1, 10),
        ],
    );
    assert_eq!(
        losers(&mut rules, &[0x0a, 0x00, 1]),
        ["#1     entry 1 matches too, with a lower priority"]
    );
    assert_eq!(
        losers(&mut rules, &[0x0a, 0x00, 9]),
        [
            "#2     entry 0 has h.b = 0x1, the packet 0x9",
            "#2     entry 1 has h.b = 0x1, the packet 0x9",
            "#2     entry 2 has h.a = 0xa01 &&& 0xff01, the packet 0xa00",
        ]
    );
}

#[test]
fn entries_are_compared_under_the_programs_own_mask_of_a_key() {
    let program = P4 {
        fields: "bit<8> a;",
        locals: r#"@name(".forward") action forward(bit<9> port) { sm.egress_spec = port; }
            @name(".t") table t {
                key = { hdr.h.a & 0xf0: ternary @name("h.a"); }
                actions = { forward; }
            }"#,
        ingress: "t.apply();",
        ..P4::default()
    };
    let mut switch = program.switch();
    switch.set_trace(true);
    let table = switch.table("t").unwrap();
    for priority in [1, 2] {
        let key = KeyMatch::Ternary {
            value: vec![0x70],
            mask: vec![0xff],
        };
        let action = run_action("forward", &[3]);
        switch
            .insert_entry(table, &[key], priority, &action, 0, 0)
            .unwrap();
    }
    assert_eq!(
        losers(&mut switch, &[0x7f]),
        ["#1     entry 1 matches too, with a lower priority"]
    );
}

#[test]
fn copies_stand_below_their_originals() {
    let program = P4 {
        fields: "bit<8> a;",
        ingress: "if (sm.instance_type == 0) { clone(CloneType.I2E, 5); } sm.mcast_grp = 4;",
        ..P4::default()
    };
    let mut switch = program.switch();
    let replica = |port| Replica { port, rid: 1 };
    let pre = switch.pre_mut().unwrap();
    pre.set_group(4, &[replica(6), replica(7)]).unwrap();
    let session = CloneSession {
        replicas: vec![replica(9)],
        ..CloneSession::default()
    };
    pre.set_session(5, session).unwrap();
    switch.set_trace(true);
    let mut fx = Effects::default();
    switch.process_into(1, &[1], 0, &mut fx);
    switch.process_into(1, &[2], 0, &mut fx);
    let trees = alfirk_bmv2::trace::trees(&fx.trace);
    assert_eq!(trees.len(), 2);
    let sent = |tree: &alfirk_bmv2::trace::PacketTree| match tree.steps.last() {
        Some(alfirk_bmv2::trace::TraceEvent::Out { port, .. }) => Some(*port),
        _ => None,
    };
    for tree in &trees {
        let [clone, first, second] = &tree.copies[..] else {
            panic!("a clone and two replicas: {tree:#?}");
        };
        assert_eq!((sent(tree), sent(clone)), (None, None));
        assert_eq!(clone.copies.len(), 1);
        assert_eq!(
            [&clone.copies[0], first, second].map(sent),
            [Some(9), Some(6), Some(7)]
        );
    }
    let text = serde_json::to_string(&trees[0]).unwrap();
    assert!(
        text.contains(r#""event":"cloned","session":5,"as_copy":1"#),
        "{text}"
    );
}

#[test]
fn a_clone_without_a_session_is_shown() {
    let program = P4 {
        fields: "bit<8> a;",
        ingress: "clone(CloneType.I2E, 7); sm.egress_spec = 2;",
        ..P4::default()
    };
    let mut switch = program.switch();
    switch.set_trace(true);
    let lines = trace_lines(&mut switch, &[1]);
    let expected = "#1   no clone: there is no clone session 7".to_owned();
    assert!(lines.contains(&expected), "{lines:#?}");
}

#[test]
fn a_digest_is_shown_with_its_fields() {
    let program = P4 {
        fields: "bit<8> a; bit<16> b;",
        ingress: "digest<h_t>(1, hdr.h); sm.egress_spec = 2;",
        ..P4::default()
    };
    let mut switch = program.switch();
    switch.set_trace(true);
    let lines = trace_lines(&mut switch, &[1, 0x12, 0x34]);
    let expected = "#1   digest h_t: 0x1, 0x1234".to_owned();
    assert!(lines.contains(&expected), "{lines:#?}");
}
