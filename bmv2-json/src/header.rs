//! Header types, instances, stacks, unions and enums.

use crate::expr::Expr;
use crate::SourceInfo;
use serde::de::Error;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A header or struct type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeaderType {
    /// Name of the type, referenced by [`Header::header_type`].
    pub name: String,
    /// Number, unique among header types.
    pub id: i64,
    /// Fields in the order of the wire, without padding.
    #[serde(default)]
    pub fields: Vec<HeaderField>,
    /// Length of the variable-length field in bits (P4_14 only; in P4_16 it is an operand of `extract_VL`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_exp: Option<Expr>,
    /// Greatest length of the whole header in bytes, when it has a variable-length field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
}

/// A field of a [`HeaderType`]: `[name, width, signed]`, or `[name, "*"]` for a varbit.
///
/// A fourth element, true for fields that saturate instead of wrapping, is read by BMv2, but written only by compilers
/// of P4_14.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderField {
    /// Name, unique within the type.
    pub name: String,
    /// Width in bits, fixed or variable.
    pub width: FieldWidth,
    /// Whether the field is an `int<N>` in two's complement.
    pub signed: bool,
    /// Values beyond the field's range saturate.
    pub saturating: bool,
}

/// Width of a header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldWidth {
    /// A fixed number of bits.
    Bits(u32),
    /// A varbit; [`HeaderType::max_length`] determines its greatest length.
    Variable,
}

impl HeaderField {
    /// Creates a field of `width` bits.
    pub fn bits(name: impl Into<String>, width: u32, signed: bool) -> HeaderField {
        HeaderField {
            name: name.into(),
            width: FieldWidth::Bits(width),
            signed,
            saturating: false,
        }
    }

    /// Creates a variable-length field.
    pub fn varbit(name: impl Into<String>) -> HeaderField {
        HeaderField {
            name: name.into(),
            width: FieldWidth::Variable,
            signed: false,
            saturating: false,
        }
    }
}

impl Serialize for HeaderField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        seq.serialize_element(&self.name)?;
        match self.width {
            FieldWidth::Bits(width) => {
                seq.serialize_element(&width)?;
                seq.serialize_element(&self.signed)?;
                if self.saturating {
                    seq.serialize_element(&true)?;
                }
            }
            FieldWidth::Variable => seq.serialize_element("*")?,
        }
        seq.end()
    }
}

impl<'de> Deserialize<'de> for HeaderField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HeaderField, D::Error> {
        let parts = Vec::<Value>::deserialize(deserializer)?;
        let fail = || {
            D::Error::custom(
                "a header field must be [name, width], [name, width, signed] or [name, \"*\"]",
            )
        };
        let name = parts
            .first()
            .and_then(Value::as_str)
            .ok_or_else(fail)?
            .to_owned();
        let width = match parts.get(1) {
            Some(Value::String(star)) if star == "*" => FieldWidth::Variable,
            Some(Value::Number(n)) => FieldWidth::Bits(
                n.as_u64()
                    .and_then(|n| u32::try_from(n).ok())
                    .ok_or_else(fail)?,
            ),
            _ => return Err(fail()),
        };
        let flag = |at: usize| match parts.get(at) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            // p4c writes 0 for booleans.
            Some(Value::Number(n)) => Ok(n.as_u64() != Some(0)),
            Some(_) => Err(fail()),
        };
        let (signed, saturating) = (flag(2)?, flag(3)?);
        Ok(HeaderField {
            name,
            width,
            signed,
            saturating,
        })
    }
}

/// A header or metadata instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Name of the instance, such as `ipv4` or `scalars`; references use it.
    pub name: String,
    /// Number, unique among instances; stacks and unions list it.
    pub id: i64,
    /// Position of the declaration in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Name of the [`HeaderType`].
    pub header_type: String,
    /// Whether the instance is metadata, which is always valid and initially zero.
    #[serde(default)]
    pub metadata: bool,
    /// Whether p4lang's PI library leaves the instance out of its program description; this switch ignores it.
    #[serde(default = "yes")]
    pub pi_omit: bool,
}

fn yes() -> bool {
    true
}

/// A header stack: an array of header instances of one type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeaderStack {
    /// Name of the stack, such as `vlan`.
    pub name: String,
    /// Number, unique among header stacks.
    pub id: i64,
    /// Name of the elements' [`HeaderType`].
    pub header_type: String,
    /// Number of elements; `None` means the length of `header_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// [`Header::id`] of each element, the first element first.
    pub header_ids: Vec<i64>,
}

/// The type of a header union: at most one member is valid at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeaderUnionType {
    /// Name of the type, referenced by [`HeaderUnion::union_type`].
    pub name: String,
    /// Number, unique among header union types.
    pub id: i64,
    /// Name and header type of each member.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
}

/// An instance of a header union.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeaderUnion {
    /// Name of the instance.
    pub name: String,
    /// Number, unique among header unions.
    pub id: i64,
    /// Name of the [`HeaderUnionType`].
    pub union_type: String,
    /// [`Header::id`] of each member's instance, in the order of the type's members.
    pub header_ids: Vec<i64>,
    /// Whether p4lang's PI library leaves the instance out of its program description; this switch ignores it.
    #[serde(default = "yes")]
    pub pi_omit: bool,
}

/// A stack of header unions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeaderUnionStack {
    /// Name of the stack.
    pub name: String,
    /// Number, unique among stacks of header unions.
    pub id: i64,
    /// Name of the elements' [`HeaderUnionType`].
    pub union_type: String,
    /// Number of elements; `None` means the length of `header_union_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// [`HeaderUnion::id`] of each element, the first element first.
    pub header_union_ids: Vec<i64>,
}

/// An enum without underlying type; expressions contain the numbers of its members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Enum {
    /// Name of the type.
    pub name: String,
    /// Name and number of each member.
    #[serde(default)]
    pub entries: Vec<(String, u64)>,
}
