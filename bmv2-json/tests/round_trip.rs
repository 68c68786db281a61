//! A parsed file is printed unchanged, in p4c's key order; malformed files are rejected without a panic.

use alfirk_bmv2_json::*;
use proptest::prelude::*;

/// Each kind of object of the format, written by hand in p4c's layout and key order.
const EVERYTHING: &str = include_str!("everything.json");

#[test]
fn a_program_with_every_object_is_printed_unchanged() {
    let program = BmV2Json::from_text(EVERYTHING).unwrap();
    assert_eq!(program.to_text(), EVERYTHING);
}

#[test]
fn unknown_and_missing_keys_are_accepted() {
    let text =
        r#"{"header_types": [{"name": "h", "id": 0, "novelty": {"x": [1]}}], "future": null}"#;
    let program = BmV2Json::from_text(text).unwrap();
    assert_eq!(program.header_types[0].name, "h");
    assert!(program.pipelines.is_empty());
}

#[test]
fn default_transitions_without_a_type_are_accepted() {
    let text = r#"{"value": "default", "mask": null, "next_state": "s"}"#;
    let transition: Transition = serde_json::from_str(text).unwrap();
    assert_eq!(transition.on, TransitionOn::Default);
    assert_eq!(transition.next_state.as_deref(), Some("s"));
}

#[test]
fn a_field_may_have_a_number_as_its_sign_flag() {
    let field: HeaderField = serde_json::from_str(r#"["f", 1, 0]"#).unwrap();
    assert_eq!(field, HeaderField::bits("f", 1, false));
}

#[test]
fn an_empty_object_is_an_empty_parameters_vector() {
    let expr: Expr = serde_json::from_str(r#"{"type": "parameters_vector", "value": {}}"#).unwrap();
    assert_eq!(expr, Expr::ParametersVector(Vec::new()));
}

#[test]
fn wrapping_is_kept_and_can_be_removed() {
    let inner = Expr::binary(Operator::Add, Expr::Local(0), Expr::hex("0x01"));
    let wrapped = inner.clone().wrapped();
    let text = serde_json::to_string(&wrapped).unwrap();
    assert_eq!(serde_json::from_str::<Expr>(&text).unwrap(), wrapped);
    assert_eq!(wrapped.unwrapped(), &inner);
}

#[test]
fn errors_have_the_line_and_the_cause() {
    let text = "{\n\"actions\": [{\"name\": \"a\", \"id\": 0, \"primitives\": [\n{\"op\": \"assign\", \"parameters\": [{\"type\": \"fjeld\", \"value\": 1}]}]}]}";
    let message = BmV2Json::from_text(text).unwrap_err().to_string();
    assert!(
        message.contains("unknown type \"fjeld\"") && message.contains("line 3"),
        "{message}"
    );
}

#[test]
fn deep_nesting_is_rejected() {
    let text = format!("{{\"force_arith\":\n{}", "[".repeat(1_000_000));
    assert!(matches!(
        BmV2Json::from_text(&text),
        Err(ReadError::TooDeep { line: 2 })
    ));
}

#[test]
fn expressions_deeper_than_the_usual_limit_of_serde_json_are_read() {
    let mut expr = Expr::Bool(true);
    for _ in 0..250 {
        expr = Expr::binary(Operator::And, expr, Expr::Bool(false));
    }
    let conditional = Conditional {
        name: "c".into(),
        id: 0,
        source_info: None,
        expression: expr,
        true_next: None,
        false_next: None,
    };
    let pipeline = Pipeline {
        name: "ingress".into(),
        conditionals: vec![conditional],
        ..Default::default()
    };
    let program = BmV2Json {
        pipelines: vec![pipeline],
        ..Default::default()
    };
    assert_eq!(BmV2Json::from_text(&program.to_text()).unwrap(), program);
}

#[test]
fn hexadecimal_constants_keep_sign_and_width() {
    assert_eq!(
        decode_hex("0x0aba03").unwrap(),
        (false, vec![0x0a, 0xba, 0x03])
    );
    assert_eq!(decode_hex("-0x1f2").unwrap(), (true, vec![0x01, 0xf2]));
    assert_eq!(decode_hex("ff").unwrap(), (false, vec![0xff]));
    assert_eq!(decode_hex("0x").unwrap(), (false, vec![]));
    assert!(decode_hex("0x0g").is_err());
    assert!(decode_hex("0xé").is_err());
}

proptest! {
    #[test]
    fn truncated_or_changed_text_never_panics(at in 0..EVERYTHING.len(), byte in any::<u8>()) {
        let mut bytes = EVERYTHING.as_bytes().to_vec();
        bytes[at] = byte;
        let _ = BmV2Json::from_text(&String::from_utf8_lossy(&bytes));
        let _ = BmV2Json::from_text(&String::from_utf8_lossy(&EVERYTHING.as_bytes()[..at]));
    }
}
