//! Headers of a P4 program as layers.

use scapy::p4::{Program, ProgramError};
use scapy::{parse_with, Layer};

/// A header of its own, `tunnel`, between Ethernet and IPv4; a stack of labels; options of variable length.
const JSON: &str = r#"{
  "header_types": [
    {"name": "eth_t", "id": 0, "fields": [["dst", 48, false], ["src", 48, false], ["type", 16, false]]},
    {"name": "tunnel_t", "id": 1, "fields": [["kind", 3, false], ["id", 13, false], ["next", 16, false]]},
    {"name": "label_t", "id": 2, "fields": [["value", 15, false], ["last", 1, false]]},
    {"name": "opt_t", "id": 3, "fields": [["len", 8, false], ["data", "*"]], "max_length": 16}
  ],
  "headers": [
    {"name": "ethernet", "id": 0, "header_type": "eth_t", "metadata": false},
    {"name": "tunnel", "id": 1, "header_type": "tunnel_t", "metadata": false},
    {"name": "label[0]", "id": 2, "header_type": "label_t", "metadata": false},
    {"name": "label[1]", "id": 3, "header_type": "label_t", "metadata": false},
    {"name": "opt", "id": 4, "header_type": "opt_t", "metadata": false}
  ],
  "header_stacks": [{"name": "label", "id": 0, "header_type": "label_t", "size": 2, "header_ids": [2, 3]}],
  "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [
    {"name": "start", "id": 0,
     "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "ethernet"}]}],
     "transition_key": [{"type": "field", "value": ["ethernet", "type"]}],
     "transitions": [
       {"type": "hexstr", "value": "0x1212", "mask": null, "next_state": "tunnel"},
       {"type": "default", "value": null, "mask": null, "next_state": null}]},
    {"name": "tunnel", "id": 1,
     "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "tunnel"}]}],
     "transition_key": [{"type": "field", "value": ["tunnel", "kind"]}],
     "transitions": [
       {"type": "hexstr", "value": "0x05", "mask": "0x05", "next_state": "labels"},
       {"type": "hexstr", "value": "0x02", "mask": null, "next_state": "opt"},
       {"type": "default", "value": null, "mask": null, "next_state": null}]},
    {"name": "labels", "id": 2,
     "parser_ops": [{"op": "extract", "parameters": [{"type": "stack", "value": "label"}]}],
     "transition_key": [{"type": "stack_field", "value": ["label", "last"]}],
     "transitions": [
       {"type": "hexstr", "value": "0x01", "mask": null, "next_state": null},
       {"type": "default", "value": null, "mask": null, "next_state": "labels"}]},
    {"name": "opt", "id": 3,
     "parser_ops": [{"op": "extract_VL", "parameters": [
       {"type": "regular", "value": "opt"},
       {"type": "expression", "value": {"type": "expression", "value": {"op": "<<",
         "left": {"type": "lookahead", "value": [0, 8]}, "right": {"type": "hexstr", "value": "0x03"}}}}]}],
     "transition_key": [], "transitions": [{"type": "default", "value": null, "mask": null, "next_state": null}]}
  ]}]
}"#;

fn shape(program: &Program, expression: &str) -> String {
    let packet = parse_with(expression, program.protocols()).unwrap();
    let bytes = packet.build().unwrap();
    let dissected = program.dissect(&bytes);
    assert_eq!(dissected.build().unwrap(), bytes);
    let names = dissected.layers().iter().map(Layer::name);
    names.collect::<Vec<_>>().join("/")
}

/// A parser of Tofino extracts and skips metadata of the chip in front of a packet: they are neither layers nor payload.
#[test]
fn metadata_of_tofino_are_not_in_packets() {
    let intrinsic = r#"{"op": "extract", "parameters": [{"type": "regular", "value": "intrinsic"}]},
        {"op": "advance", "parameters": [{"type": "hexstr", "value": "0xWIDTH"}]},
        {"op": "extract", "parameters": [{"type": "regular", "value": "ethernet"}]}"#;
    let ethernet = r#"{"op": "extract", "parameters": [{"type": "regular", "value": "ethernet"}]}"#;
    let header =
        r#"{"name": "intrinsic", "id": 5, "header_type": "intrinsic_t", "metadata": false},"#;
    let header_type = r#"{"name": "intrinsic_t", "id": 4, "fields": [["port", 64, false]]},"#;
    for (arch, width) in [("tna", "40"), ("t2na", "c0")] {
        let json = JSON
            .replacen(ethernet, &intrinsic.replace("WIDTH", width), 1)
            .replacen("\"headers\": [", &format!("\"headers\": [{header}"), 1)
            .replacen(
                "\"header_types\": [",
                &format!("\"architecture\": \"{arch}\", \"header_types\": [{header_type}"),
                1,
            );
        let program = Program::from_json(&json).unwrap();
        assert_eq!(
            shape(
                &program,
                "ethernet(type=0x1212)/tunnel(kind=7)/label(last=1)/Raw(\"abc\")"
            ),
            "ethernet/tunnel/label/Raw"
        );
        // A packet that is shorter than its first header.
        assert_eq!(shape(&program, "Raw(\"abc\")"), "Raw");
    }
}

#[test]
fn a_users_own_headers_are_built_shown_and_dissected() {
    let program = Program::from_json(JSON).unwrap();
    let expression = r#"ethernet(dst="02:00:00:00:00:02", type=0x1212)/tunnel(kind=7, id=0x123)/label(value=5)/label(last=1)/"abc""#;
    let packet = parse_with(expression, program.protocols()).unwrap();
    let bytes = packet.build().unwrap();
    assert_eq!(bytes[14..], *b"\xe1\x23\0\0\0\x0a\0\x01abc");
    let shown = program.dissect(&bytes).show();
    assert!(
        shown.contains("###[ tunnel ]###\n    kind      = 7\n    id        = 0x123\n"),
        "{shown}"
    );
    assert_eq!(
        shape(&program, expression),
        "ethernet/tunnel/label/label/Raw"
    );
}

#[test]
fn the_programs_parser_is_followed() {
    let program = Program::from_json(JSON).unwrap();
    for (expression, expected) in [
        (r#"ethernet(type=5)/"abc""#, "ethernet/Raw"),
        (r#"ethernet(type=0x1212)/tunnel(kind=1)"#, "ethernet/tunnel"),
        (
            r#"ethernet(type=0x1212)/tunnel(kind=2)/opt(len=2, data=b"\x01\x02")/"x""#,
            "ethernet/tunnel/opt/Raw",
        ),
        // Too short for its own length.
        (
            r#"ethernet(type=0x1212)/tunnel(kind=2)/opt(len=9)"#,
            "ethernet/tunnel/Raw",
        ),
        // A loop without a last label ends with the packet.
        (
            r#"ethernet(type=0x1212)/tunnel(kind=5)/label()/label()"#,
            "ethernet/tunnel/label/label",
        ),
    ] {
        assert_eq!(shape(&program, expression), expected, "{expression}");
    }
}

#[test]
fn any_bytes_are_dissected() {
    let program = Program::from_json(JSON).unwrap();
    for length in 0..40 {
        for value in [0, 1, 0x12, 0xff] {
            let bytes = vec![value; length];
            assert_eq!(program.dissect(&bytes).build().unwrap(), bytes);
        }
    }
}

#[test]
fn headers_that_are_no_layers_are_errors() {
    let with = |fields: &str| {
        let json = format!(
            r#"{{"header_types": [{{"name": "t", "id": 0, "fields": [{fields}]}}],
                 "headers": [{{"name": "h", "id": 0, "header_type": "t"}}]}}"#
        );
        Program::from_json(&json).unwrap_err()
    };
    assert!(matches!(
        with(r#"["a", 3, false]"#),
        ProgramError::Unaligned(_, 3)
    ));
    assert!(matches!(
        with(r#"["a", "*"], ["b", 8, false]"#),
        ProgramError::VarbitInside(..)
    ));
    assert!(matches!(
        Program::from_json("{"),
        Err(ProgramError::Json(_))
    ));
}
