//! Protobuf text format, in the form in which p4c writes `*.p4info.txt`.
//!
//! Output equals that of the official text printer: fields by number, one line per scalar, a block per message, maps by
//! key, `Any` expanded where its type is known.

use std::fmt::Write;

use prost::{Message, Name};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage, Value};
use thiserror::Error;

use crate::descriptor;

/// Error of parsing text that is not a message of the expected type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a {message} in text format: {reason}")]
pub struct ParseError {
    /// Full name of the expected message, such as `p4.config.v1.P4Info`.
    pub message: String,
    /// The cause of the error, with its position in the text.
    pub reason: String,
}

/// Prints a message in text format. The text ends with a newline, unless the message is empty.
pub fn to_string<M: Message + Name>(message: &M) -> String {
    let mut out = String::new();
    let message = descriptor::to_dynamic(message, descriptor::of_p4info::<M>());
    print_message(&message, 0, &mut out);
    out
}

/// Parses a message from text format. Comments, lists and `<>` blocks are supported.
pub fn parse<M: Message + Name + Default>(text: &str) -> Result<M, ParseError> {
    let error = |reason: String| ParseError {
        message: M::full_name(),
        reason,
    };
    let dynamic = DynamicMessage::parse_text_format(descriptor::of::<M>(), text)
        .map_err(|e| error(e.to_string()))?;
    dynamic.transcode_to().map_err(|e| error(e.to_string()))
}

fn print_message(message: &DynamicMessage, depth: usize, out: &mut String) {
    if let Some((url, body)) = expand_any(message) {
        open(&format!("[{url}]"), depth, out);
        print_message(&body, depth + 1, out);
        close(depth, out);
        return;
    }
    let mut fields: Vec<_> = message.fields().collect();
    fields.sort_by_key(|(field, _)| field.number());
    for (field, value) in fields {
        match value {
            Value::List(items) => {
                for item in items {
                    print_field(&field, item, depth, out);
                }
            }
            Value::Map(entries) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                let kind = field.kind();
                let entry = kind.as_message().expect("a map field holds entries");
                for (key, value) in entries {
                    open(field.name(), depth, out);
                    let key = Value::from(key.clone());
                    print_field(&entry.map_entry_key_field(), &key, depth + 1, out);
                    print_field(&entry.map_entry_value_field(), value, depth + 1, out);
                    close(depth, out);
                }
            }
            value => print_field(&field, value, depth, out),
        }
    }
}

fn print_field(field: &FieldDescriptor, value: &Value, depth: usize, out: &mut String) {
    if let Value::Message(message) = value {
        open(field.name(), depth, out);
        print_message(message, depth + 1, out);
        close(depth, out);
        return;
    }
    indent(depth, out);
    out.push_str(field.name());
    out.push_str(": ");
    match value {
        Value::String(text) => quote(text.as_bytes(), out),
        Value::Bytes(bytes) => quote(bytes, out),
        Value::EnumNumber(number) => match field.kind() {
            Kind::Enum(kind) if kind.get_value(*number).is_some() => {
                out.push_str(kind.get_value(*number).expect("just looked up").name())
            }
            _ => write_number(number, out),
        },
        Value::Bool(value) => write_number(value, out),
        Value::I32(value) => write_number(value, out),
        Value::I64(value) => write_number(value, out),
        Value::U32(value) => write_number(value, out),
        Value::U64(value) => write_number(value, out),
        Value::F32(value) => write_number(value, out),
        Value::F64(value) => write_number(value, out),
        Value::Message(_) | Value::List(_) | Value::Map(_) => {
            unreachable!("lists, maps and messages are printed by their own code")
        }
    }
    out.push('\n');
}

fn expand_any(message: &DynamicMessage) -> Option<(String, DynamicMessage)> {
    if message.descriptor().full_name() != "google.protobuf.Any" {
        return None;
    }
    let any: prost_types::Any = message.transcode_to().ok()?;
    let name = any.type_url.rsplit('/').next()?;
    let body = descriptor::pool().get_message_by_name(name)?;
    let body = DynamicMessage::decode(body, any.value.as_slice()).ok()?;
    Some((any.type_url, body))
}

fn open(name: &str, depth: usize, out: &mut String) {
    indent(depth, out);
    out.push_str(name);
    out.push_str(" {\n");
}

fn close(depth: usize, out: &mut String) {
    indent(depth, out);
    out.push_str("}\n");
}

fn indent(depth: usize, out: &mut String) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

fn write_number(value: impl std::fmt::Display, out: &mut String) {
    write!(out, "{value}").expect("a String takes all writes");
}

/// Appends a quoted string with C escapes as protobuf writes them: octal for bytes that are not printable ASCII.
fn quote(bytes: &[u8], out: &mut String) {
    out.push('"');
    for &byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' => out.push_str("\\\""),
            b'\'' => out.push_str("\\'"),
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7e => out.push(char::from(byte)),
            other => write!(out, "\\{other:03o}").expect("a String takes all writes"),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::config::v1::{
        match_field, p4_data_type_spec, p4_struct_type_spec, MatchField, P4DataTypeSpec, P4Info,
        P4NamedType, P4StructTypeSpec, P4TypeInfo, Preamble, Table,
    };

    fn sample() -> P4Info {
        let named = |name: &str| P4DataTypeSpec {
            type_spec: Some(p4_data_type_spec::TypeSpec::Struct(P4NamedType {
                name: name.into(),
            })),
        };
        let structs = ["zeta", "alpha", "mid"].map(|name| {
            (
                name.to_owned(),
                P4StructTypeSpec {
                    members: vec![p4_struct_type_spec::Member {
                        name: "m".into(),
                        type_spec: Some(named("other")),
                    }],
                    ..Default::default()
                },
            )
        });
        P4Info {
            tables: vec![Table {
                preamble: Some(Preamble {
                    id: 33554433,
                    name: "ingress.routes".into(),
                    alias: "routes".into(),
                    annotations: vec!["@brief(\"a 'b'\\n\")".into(), "@hidden".into()],
                    ..Default::default()
                }),
                match_fields: vec![MatchField {
                    id: 1,
                    name: "dst".into(),
                    bitwidth: 32,
                    r#match: Some(match_field::Match::MatchType(
                        match_field::MatchType::Lpm.into(),
                    )),
                    ..Default::default()
                }],
                size: 1024,
                ..Default::default()
            }],
            type_info: Some(P4TypeInfo {
                structs: structs.into(),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn repeated_messages_are_blocks_and_maps_are_sorted() {
        let text = to_string(&sample());
        let head = r#"tables {
  preamble {
    id: 33554433
    name: "ingress.routes"
    alias: "routes"
    annotations: "@brief(\"a \'b\'\\n\")"
    annotations: "@hidden"
  }
  match_fields {
    id: 1
    name: "dst"
    bitwidth: 32
    match_type: LPM
  }
  size: 1024
}
type_info {
  structs {
    key: "alpha"
    value {
"#;
        assert_eq!(&text[..head.len()], head);
        let alpha = text.find("\"alpha\"").unwrap();
        let mid = text.find("\"mid\"").unwrap();
        let zeta = text.find("\"zeta\"").unwrap();
        assert!(alpha < mid && mid < zeta);
    }

    #[test]
    fn printed_text_parses_to_the_same_message() {
        assert_eq!(parse::<P4Info>(&to_string(&sample())), Ok(sample()));
    }

    #[test]
    fn bytes_and_any_round_trip() {
        let error = crate::p4::v1::Error {
            canonical_code: 5,
            message: "no".into(),
            details: Some(crate::pack(&crate::p4::v1::PacketMetadata {
                metadata_id: 1,
                value: vec![0, 0xff, b'"', 7],
            })),
            ..Default::default()
        };
        let text = to_string(&error);
        assert!(text.contains("value: \"\\000\\377\\\"\\007\""), "{text}");
        assert!(text.contains("p4.v1.PacketMetadata] {"), "{text}");
        assert_eq!(parse(&text), Ok(error));
    }

    #[test]
    fn bad_text_names_the_message() {
        let error = parse::<P4Info>("tables { preamble { ident: 1 } }").unwrap_err();
        assert!(error.to_string().contains("p4.config.v1.P4Info"), "{error}");
        assert!(error.to_string().contains("ident"), "{error}");
    }
}
