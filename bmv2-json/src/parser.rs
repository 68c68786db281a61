//! Parsers, value sets and deparsers.

use crate::expr::Expr;
use crate::primitive::PrimitiveCall;
use crate::serde_util::excerpt;
use crate::SourceInfo;
use serde::de::Error;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{json, Value};

/// A parser: a state machine that extracts headers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parser {
    /// `parser` for `simple_switch`.
    pub name: String,
    /// Number, unique among parsers.
    pub id: i64,
    /// Name of the first state; `None` only in empty P4_14 parsers.
    pub init_state: Option<String>,
    /// States, which refer to each other by name.
    #[serde(default)]
    pub parse_states: Vec<ParseState>,
}

/// A state of a parser: its statements, then a `select`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ParseState {
    /// Name of the state, unique within the parser.
    pub name: String,
    /// Number, unique within the parser.
    pub id: i64,
    /// Position of the state in the P4 source. Not in BMv2's own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Statements, in order.
    #[serde(default)]
    pub parser_ops: Vec<ParserStatement>,
    /// Cases of the `select`, the first match wins.
    #[serde(default)]
    pub transitions: Vec<Transition>,
    /// Operands of the `select`: fields, fields of stacks and lookaheads, each padded to whole bytes and concatenated.
    #[serde(default)]
    pub transition_key: Vec<Expr>,
}

/// A statement of a parse state, with its position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParserStatement {
    /// What the statement does.
    #[serde(flatten)]
    pub op: ParserOp,
    /// Position in the P4 source. Not in BMv2's own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

/// The operation of a statement of a parse state.
#[derive(Clone, Debug, PartialEq)]
pub enum ParserOp {
    /// Extract a header of fixed length, and advance past it.
    Extract(ExtractTarget),
    /// Extract a header; the expression is the length of its variable-length field in bits.
    ExtractVl(ExtractTarget, Expr),
    /// Assign the second operand to the first, a field.
    Set(Expr, Expr),
    /// Transition to reject with the error of the second operand, unless the first is true.
    Verify(Expr, Expr),
    /// Skip bytes (deprecated in favour of `Advance`).
    Shift(u32),
    /// Skip bits.
    Advance(Expr),
    /// Execute a primitive of actions, such as `assign`.
    Primitive(Box<PrimitiveCall>),
}

/// Header that `extract` writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtractTarget {
    /// The header instance of that name.
    Regular(String),
    /// The next element of a header stack.
    Stack(String),
    /// A member of the next element of a stack of unions.
    UnionStack {
        /// Name of the stack of unions.
        stack: String,
        /// Name of the member within the union.
        header: String,
    },
}

impl ExtractTarget {
    fn to_value(&self) -> Value {
        match self {
            ExtractTarget::Regular(name) => json!({"type": "regular", "value": name}),
            ExtractTarget::Stack(name) => json!({"type": "stack", "value": name}),
            ExtractTarget::UnionStack { stack, header } => {
                json!({"type": "union_stack", "value": [stack, header]})
            }
        }
    }

    fn from_value(value: &Value) -> Result<ExtractTarget, String> {
        let fail = || format!("cannot extract to {}", excerpt(value));
        let target = value.get("value").ok_or_else(fail)?;
        let name = || target.as_str().map(str::to_owned).ok_or_else(fail);
        match value.get("type").and_then(Value::as_str) {
            Some("regular") => Ok(ExtractTarget::Regular(name()?)),
            Some("stack") => Ok(ExtractTarget::Stack(name()?)),
            Some("union_stack") => match target.as_array().map(Vec::as_slice) {
                Some([Value::String(stack), Value::String(header)]) => {
                    Ok(ExtractTarget::UnionStack {
                        stack: stack.clone(),
                        header: header.clone(),
                    })
                }
                _ => Err(fail()),
            },
            _ => Err(fail()),
        }
    }
}

impl Serialize for ParserOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn call<S: Serializer>(
            serializer: S,
            op: &'static str,
            parameters: &impl Serialize,
        ) -> Result<S::Ok, S::Error> {
            let mut object = serializer.serialize_struct("ParserOp", 2)?;
            object.serialize_field("parameters", parameters)?;
            object.serialize_field("op", op)?;
            object.end()
        }
        match self {
            ParserOp::Extract(target) => call(serializer, "extract", &[target.to_value()]),
            ParserOp::ExtractVl(target, length) => {
                call(serializer, "extract_VL", &(target.to_value(), length))
            }
            ParserOp::Set(left, right) => call(serializer, "set", &[left, right]),
            ParserOp::Verify(cond, error) => call(serializer, "verify", &[cond, error]),
            ParserOp::Shift(bytes) => call(serializer, "shift", &[bytes]),
            ParserOp::Advance(bits) => call(serializer, "advance", &[bits]),
            ParserOp::Primitive(primitive) => call(serializer, "primitive", &[primitive]),
        }
    }
}

impl<'de> Deserialize<'de> for ParserOp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ParserOp, D::Error> {
        #[derive(Deserialize)]
        struct Raw {
            op: String,
            #[serde(default)]
            parameters: Vec<Value>,
        }
        let raw = Raw::deserialize(deserializer)?;
        let expr = |value: Value| serde_json::from_value::<Expr>(value).map_err(D::Error::custom);
        let target = |value: &Value| ExtractTarget::from_value(value).map_err(D::Error::custom);
        let count = raw.parameters.len();
        let mut parameters = raw.parameters.into_iter();
        let mut next = || parameters.next().unwrap_or_default();
        let expected = match raw.op.as_str() {
            "set" | "verify" | "extract_VL" => 2,
            _ => 1,
        };
        if count < expected {
            return Err(D::Error::custom(format!(
                "parser op {} needs {expected} parameters, found {count}",
                raw.op
            )));
        }
        Ok(match raw.op.as_str() {
            "extract" => ParserOp::Extract(target(&next())?),
            "extract_VL" => ParserOp::ExtractVl(target(&next())?, expr(next())?),
            "set" => ParserOp::Set(expr(next())?, expr(next())?),
            "verify" => ParserOp::Verify(expr(next())?, expr(next())?),
            "shift" => {
                let bytes = next();
                let n = bytes.as_u64().and_then(|n| u32::try_from(n).ok());
                ParserOp::Shift(n.ok_or_else(|| {
                    D::Error::custom(format!("shift by {} bytes", excerpt(&bytes)))
                })?)
            }
            "advance" => ParserOp::Advance(expr(next())?),
            "primitive" => {
                ParserOp::Primitive(serde_json::from_value(next()).map_err(D::Error::custom)?)
            }
            other => return Err(D::Error::custom(format!("unknown parser op {other:?}"))),
        })
    }
}

/// One case of a state's `select`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Condition of the case.
    pub on: TransitionOn,
    /// Name of the next state; `None` ends the parser with accept.
    pub next_state: Option<String>,
    /// Position of the case, or of the `transition` statement, in the P4 source. Not in BMv2's own format.
    pub source_info: Option<SourceInfo>,
}

/// Condition of a transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransitionOn {
    /// Matches every key.
    Default,
    /// The key equals `value` under `mask`.
    Hexstr {
        /// Hexadecimal value, padded like [`ParseState::transition_key`].
        value: String,
        /// Hexadecimal mask of the bits to compare, padded the same way; `None` compares all bits.
        mask: Option<String>,
    },
    /// The key equals a member of a value set under `mask`.
    ParseVset {
        /// Name of the [`ParseVset`].
        name: String,
        /// Hexadecimal mask of the bits to compare; `None` compares all bits.
        mask: Option<String>,
    },
}

impl Serialize for Transition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, value, mask) = match &self.on {
            TransitionOn::Default => ("default", None, &None),
            TransitionOn::Hexstr { value, mask } => ("hexstr", Some(value), mask),
            TransitionOn::ParseVset { name, mask } => ("parse_vset", Some(name), mask),
        };
        let fields = 4 + usize::from(self.source_info.is_some());
        let mut object = serializer.serialize_struct("Transition", fields)?;
        object.serialize_field("type", kind)?;
        object.serialize_field("value", &value)?;
        object.serialize_field("mask", mask)?;
        object.serialize_field("next_state", &self.next_state)?;
        match &self.source_info {
            Some(info) => object.serialize_field("source_info", info)?,
            None => object.skip_field("source_info")?,
        }
        object.end()
    }
}

impl<'de> Deserialize<'de> for Transition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Transition, D::Error> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(rename = "type", default)]
            kind: Option<String>,
            #[serde(default)]
            value: Option<String>,
            #[serde(default)]
            mask: Option<String>,
            #[serde(default)]
            next_state: Option<String>,
            #[serde(default)]
            source_info: Option<SourceInfo>,
        }
        let raw = Raw::deserialize(deserializer)?;
        let on = match (raw.kind.as_deref(), raw.value) {
            // Before version 2.8 transitions had no type, and a default had the value "default".
            (Some("default"), _) | (None, None) => TransitionOn::Default,
            (None, Some(value)) if value == "default" => TransitionOn::Default,
            (None, Some(value)) | (Some("hexstr"), Some(value)) => TransitionOn::Hexstr {
                value,
                mask: raw.mask,
            },
            (Some("parse_vset"), Some(name)) => TransitionOn::ParseVset {
                name,
                mask: raw.mask,
            },
            (Some(kind), None) => {
                return Err(D::Error::custom(format!(
                    "transition of type {kind:?} without a value"
                )));
            }
            (Some(kind), _) => {
                return Err(D::Error::custom(format!(
                    "unknown transition type {kind:?}"
                )));
            }
        };
        Ok(Transition {
            on,
            next_state: raw.next_state,
            source_info: raw.source_info,
        })
    }
}

/// A parser value set: values that the control plane writes and a `select` matches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ParseVset {
    /// Name of the value set.
    pub name: String,
    /// Number, unique among value sets.
    pub id: i64,
    /// Width of the values in bits, without padding.
    pub compressed_bitwidth: u32,
    /// Maximum number of members; `None` if the file has no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_size: Option<u64>,
}

/// A deparser: emits headers, followed by the rest of the packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Deparser {
    /// `deparser` for `simple_switch`.
    pub name: String,
    /// Number, unique among deparsers.
    pub id: i64,
    /// Position of the control in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Header instances in the order of their emission; invalid ones are skipped.
    #[serde(default)]
    pub order: Vec<String>,
    /// Calls of `log_msg`, `assert`, `assume` and `truncate` in the deparser.
    #[serde(default)]
    pub primitives: Vec<PrimitiveCall>,
}
