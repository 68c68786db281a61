//! Parser, tables, actions and deparser on plain packets.

use crate::builder::*;
use crate::p4::P4;
use alfirk_bmv2::*;
use serde_json::json;

/// Returns a switch with a header of a byte and a 16-bit number, forwarded by a table over the byte or some of its
/// bits.
fn forwarder(key: &str) -> Switch {
    let table = format!(
        "@name(\".forward\") action forward(bit<9> port) {{ sm.egress_spec = port; }}
    @name(\".discard\") action discard() {{ mark_to_drop(sm); }}
    @name(\".t\") table t {{
        key = {{ {key}; }}
        actions = {{ forward; discard; }}
        default_action = discard();
        size = 8;
    }}"
    );
    let program = P4 {
        fields: "bit<8> a; bit<16> b;",
        locals: &table,
        ingress: "t.apply();",
        ..P4::default()
    };
    program.switch()
}

#[test]
fn exact_entries_choose_the_port_and_the_payload_is_kept() {
    let mut switch = forwarder("hdr.h.a: exact");
    let table = switch.table("t").unwrap();
    switch
        .insert_entry(table, &[exact(7)], 0, &run_action("forward", &[3]), 0, 0)
        .unwrap();
    assert_eq!(
        switch.process(1, &[7, 1, 2, 0xee, 0xff], 0),
        [(3, vec![7, 1, 2, 0xee, 0xff])]
    );
    assert_eq!(switch.process(1, &[8, 1, 2, 0xee, 0xff], 0), []);
}

#[test]
fn the_longest_prefix_wins() {
    let mut switch = forwarder("hdr.h.a: lpm");
    let table = switch.table("t").unwrap();
    for (value, prefix_len, port) in [(0x00, 0, 1), (0xa0, 4, 2), (0xa8, 5, 3), (0xa9, 8, 4)] {
        let key = KeyMatch::Lpm {
            value: vec![value],
            prefix_len,
        };
        switch
            .insert_entry(table, &[key], 0, &run_action("forward", &[port]), 0, 0)
            .unwrap();
    }
    for (byte, port) in [(0x12, 1), (0xa3, 2), (0xae, 3), (0xa9, 4)] {
        assert_eq!(
            switch.process(1, &[byte, 0, 0], 0),
            [(port, vec![byte, 0, 0])]
        );
    }
}

#[test]
fn fields_of_width_0_are_zero_and_occupy_no_bits() {
    let mut b = Builder::new();
    b.scalar("none", 0).scalar("s", 8);
    let fields = json!([["a", 8, false], ["z", 0, false], ["b", 8, false]]);
    b.header("h_t", &["h", "g"], fields);
    b.extracts(&["h", "g"]).emits(&["h", "g"]);
    b.add(
        "field_lists",
        json!({"id": 1, "name": "list", "elements": [scalar("none"), scalar("s")]}),
    );
    let sum = expr(
        "+",
        field("h", "z"),
        expr("+", field("h", "b"), scalar("none")),
    );
    let act = b.action(
        "act",
        &[("none", 0), ("port", 9)],
        json!([
            assign(scalar("none"), num(9)),
            assign(field("g", "z"), num(1)),
            assign(field("h", "z"), arg(0)),
            assign(field("h", "a"), operand(sum)),
            call(
                "assign_header",
                json!([named("header", "g"), named("header", "h")])
            ),
            assign(standard("egress_spec"), arg(1)),
        ]),
    );
    let keys = json!([key("exact", "h", "z"), key("exact", "h", "a")]);
    b.table("t", "exact", keys, &[("act", act)]);
    let mut switch = b.switch();
    let table = switch.table("t").unwrap();
    switch
        .insert_entry(
            table,
            &[exact(0), exact(5)],
            0,
            &run_action("act", &[0, 3]),
            0,
            0,
        )
        .unwrap();
    assert_eq!(
        switch.process(0, &[5, 6, 7, 8, 9], 0),
        [(3, vec![6, 6, 6, 6, 9])]
    );
}

#[test]
fn bits_outside_of_the_programs_mask_are_ignored_in_entries() {
    let mut switch = forwarder("hdr.h.a & 0xf0: exact");
    let table = switch.table("t").unwrap();
    let (key, forward) = ([exact(0x1f)], run_action("forward", &[3]));
    let entry = switch.insert_entry(table, &key, 0, &forward, 0, 0).unwrap();
    assert_eq!(switch.process(1, &[0x12, 0, 0], 0)[0].0, 3);
    // The masked bits do not distinguish entries.
    assert_eq!(switch.find_entry(table, &[exact(0x15)], 0), Ok(entry));
    assert!(switch
        .insert_entry(table, &[exact(0x10)], 0, &forward, 0, 0)
        .is_err());
}

#[test]
fn the_smallest_priority_wins_then_the_oldest_entry() {
    let mut switch = forwarder("hdr.h.a: ternary");
    let table = switch.table("t").unwrap();
    for (value, mask, priority, port) in [
        (0x00, 0x00, 9, 1),
        (0x80, 0x80, 5, 2),
        (0x81, 0x81, 5, 3),
        (0x01, 0x0f, 2, 4),
    ] {
        let key = KeyMatch::Ternary {
            value: vec![value],
            mask: vec![mask],
        };
        switch
            .insert_entry(
                table,
                &[key],
                priority,
                &run_action("forward", &[port]),
                0,
                0,
            )
            .unwrap();
    }
    for (byte, port) in [(0x12, 1), (0x82, 2), (0x83, 2), (0x81, 4)] {
        assert_eq!(switch.process(1, &[byte, 0, 0], 0)[0].0, port, "{byte:#x}");
    }
}

#[test]
fn short_packets_reach_ingress_unparsed() {
    let mut b = Builder::new();
    b.header("h_t", &["h"], json!([["a", 8, false], ["b", 16, false]]));
    b.extracts(&["h"]).emits(&["h"]);
    b.runs(
        "ingress",
        json!([assign(standard("egress_spec"), standard("parser_error"))]),
    );
    assert_eq!(b.switch().process(1, &[1, 2], 0), [(1, vec![1, 2])]);
}
