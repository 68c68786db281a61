//! Proto3 JSON of messages, in the form in which p4c writes `*.p4info.json`: camel case, 64-bit numbers as strings,
//! bytes in base64.

use prost::{Message, Name};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::Value;
use thiserror::Error;

use crate::descriptor;

/// Error of parsing JSON that is not a message of the expected type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a {message} in JSON: {reason}")]
pub struct ParseError {
    /// Full name of the expected message, such as `p4.config.v1.P4Info`.
    pub message: String,
    /// The cause of the error, with line and column.
    pub reason: String,
}

/// Prints a message as JSON, indented by two spaces.
pub fn to_string<M: Message + Name>(message: &M) -> String {
    serde_json::to_string_pretty(&to_value(message)).expect("a JSON value prints")
}

/// Converts a message to a JSON value; map fields are sorted by key.
pub fn to_value<M: Message + Name>(message: &M) -> Value {
    let descriptor = descriptor::of::<M>();
    let mut value = serde_json::to_value(descriptor::to_dynamic(message, descriptor.clone()))
        .expect("P4Runtime messages hold nothing that JSON cannot");
    sort_maps(&mut value, &descriptor);
    value
}

/// Parses a message from proto3 JSON. Field names may be in camel case or as in the protobuf files.
pub fn parse<M: Message + Name + Default>(text: &str) -> Result<M, ParseError> {
    let error = |reason: String| ParseError {
        message: M::full_name(),
        reason,
    };
    let mut source = serde_json::Deserializer::from_str(text);
    let dynamic = DynamicMessage::deserialize(descriptor::of::<M>(), &mut source)
        .map_err(|e| error(e.to_string()))?;
    source.end().map_err(|e| error(e.to_string()))?;
    dynamic.transcode_to().map_err(|e| error(e.to_string()))
}

/// Sorts map fields by key. The reflection library keeps them in hash order, which would make the output random.
fn sort_maps(value: &mut Value, message: &MessageDescriptor) {
    let Value::Object(members) = value else {
        return;
    };
    for (name, value) in members {
        let Some(field) = message.get_field_by_json_name(name) else {
            continue;
        };
        let Kind::Message(inner) = field.kind() else {
            continue;
        };
        match value {
            Value::Object(entries) if field.is_map() => {
                entries.sort_keys();
                sort_each(entries.values_mut(), &inner.map_entry_value_field());
            }
            Value::Array(items) => sort_each(items.iter_mut(), &field),
            single => sort_maps(single, &inner),
        }
    }
}

fn sort_each<'a>(values: impl Iterator<Item = &'a mut Value>, field: &FieldDescriptor) {
    if let Kind::Message(message) = field.kind() {
        for value in values {
            sort_maps(value, &message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::config::v1::{P4EnumTypeSpec, P4Info, P4TypeInfo, Table};

    #[test]
    fn maps_are_sorted_and_round_trip() {
        let enums: Vec<String> = (0..40).map(|i| format!("e{i:02}")).collect();
        let info = P4Info {
            tables: vec![Table {
                size: 7,
                is_const_table: true,
                ..Default::default()
            }],
            type_info: Some(P4TypeInfo {
                enums: enums
                    .iter()
                    .map(|e| (e.clone(), P4EnumTypeSpec::default()))
                    .collect(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let value = to_value(&info);
        assert_eq!(value["tables"][0]["size"], "7");
        assert_eq!(value["tables"][0]["isConstTable"], true);
        let printed: Vec<_> = value["typeInfo"]["enums"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        assert_eq!(printed, enums);
        assert_eq!(parse(&to_string(&info)), Ok(info));
    }

    #[test]
    fn errors_have_position_and_cause() {
        let error = parse::<P4Info>("{\"tables\": [{\"preamble\": 3}]}").unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
        assert!(parse::<P4Info>("{} x").is_err());
    }
}
