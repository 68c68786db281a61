//! Checksums verified after the parser and updated before the deparser.

use crate::builder::*;
use serde_json::{json, Value};

/// Sixteen bits of checksum over a number and perhaps the payload; egress_spec is checksum_error.
fn summed(payload: bool, verify: bool, condition: Value) -> Builder {
    let mut b = Builder::new();
    b.header("h_t", &["h"], json!([["n", 16, false], ["sum", 16, false]]));
    b.extracts(&["h"]).emits(&["h"]);
    b.runs(
        "ingress",
        json!([assign(standard("egress_spec"), standard("checksum_error"))]),
    );
    let mut input = vec![field("h", "n")];
    if payload {
        input.push(json!({"type": "payload", "value": null}));
    }
    b.add(
        "calculations",
        json!({"name": "calc", "algo": "csum16", "input": input}),
    );
    b.add(
        "checksums",
        json!({"name": "cksum", "target": ["h", "sum"], "type": "generic",
        "calculation": "calc", "verify": verify, "update": !verify, "if_cond": condition}),
    );
    b
}

#[test]
fn wrong_checksums_are_told_to_ingress() {
    let mut switch = summed(false, true, json!({"type": "bool", "value": true})).switch();
    assert_eq!(switch.process(0, &[0x12, 0x34, 0xed, 0xcb], 0)[0].0, 0);
    assert_eq!(switch.process(0, &[0x12, 0x34, 0xed, 0xcc], 0)[0].0, 1);
}

#[test]
fn checksums_of_headers_that_are_not_there_are_not_verified() {
    let mut switch = summed(false, true, json!({"type": "bool", "value": true})).switch();
    assert_eq!(switch.process(0, &[0x12], 0), [(0, vec![0x12])]);
}

#[test]
fn conditions_decide_about_checksums() {
    let odd = expr("==", expr("&", field("h", "n"), num(1)), num(1));
    let mut switch = summed(false, true, odd.clone()).switch();
    assert_eq!(switch.process(0, &[0, 2, 0, 0], 0)[0].0, 0);
    assert_eq!(switch.process(0, &[0, 3, 0, 0], 0)[0].0, 1);
    let mut switch = summed(false, false, odd).switch();
    assert_eq!(switch.process(0, &[0, 2, 0, 0], 0)[0].1, [0, 2, 0, 0]);
    assert_eq!(switch.process(0, &[0, 3, 0, 0], 0)[0].1, [0, 3, 0xff, 0xfc]);
}

#[test]
fn the_payload_is_summed_even_at_odd_lengths() {
    let mut switch = summed(true, false, Value::Null).switch();
    let out = switch.process(0, &[0x00, 0x01, 0, 0, 0xf2, 0x03, 0xf4], 0);
    assert_eq!(out[0].1, [0x00, 0x01, 0x19, 0xfa, 0xf2, 0x03, 0xf4]);
}
