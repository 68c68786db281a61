//! The format's "type value object": operands, references and expressions.

use crate::serde_util::excerpt;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt;

/// A field of a header or metadata instance: `[header, field]`.
///
/// The hidden field `$valid$` is the header's validity, 1 bit wide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldRef {
    /// Name of the header or metadata instance.
    pub header: String,
    /// Name of the field, or [`FieldRef::VALID`].
    pub field: String,
}

impl FieldRef {
    /// The name of the hidden validity field.
    pub const VALID: &'static str = "$valid$";

    /// Creates a reference; whether the field exists is not checked.
    pub fn new(header: impl Into<String>, field: impl Into<String>) -> FieldRef {
        FieldRef {
            header: header.into(),
            field: field.into(),
        }
    }

    pub(crate) fn from_value(value: &Value) -> Result<FieldRef, String> {
        match strings(value).as_deref() {
            Some([header, field]) => Ok(FieldRef::new(*header, *field)),
            _ => Err(format!(
                "expected [header, field], found {}",
                excerpt(value)
            )),
        }
    }
}

impl fmt::Display for FieldRef {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}.{}", self.header, self.field)
    }
}

impl Serialize for FieldRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.header, &self.field).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FieldRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FieldRef, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match value {
            Value::Array(parts) => match <[Value; 2]>::try_from(parts) {
                Ok([Value::String(header), Value::String(field)]) => Ok(FieldRef { header, field }),
                Ok(parts) => FieldRef::from_value(&parts.to_vec().into()),
                Err(parts) => FieldRef::from_value(&parts.into()),
            },
            value => FieldRef::from_value(&value),
        }
        .map_err(D::Error::custom)
    }
}

/// An operand of a primitive, an input of a calculation, or a node of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A field of a header or metadata instance.
    Field(FieldRef),
    /// A constant.
    Hexstr {
        /// Big-endian hexadecimal number, such as `0x0800` or `-0x01`.
        value: String,
        /// Width in bits; present only in inputs of calculations.
        bitwidth: Option<u32>,
    },
    /// A boolean constant.
    Bool(bool),
    /// A string constant, such as the format of `log_msg`.
    Str(String),
    /// A header instance, by name.
    Header(String),
    /// A header stack, by name.
    HeaderStack(String),
    /// A header union, by name.
    HeaderUnion(String),
    /// A stack of header unions, by name.
    HeaderUnionStack(String),
    /// A [`Calculation`](crate::Calculation), by name.
    Calculation(String),
    /// A meter array, by name.
    MeterArray(String),
    /// A counter array, by name.
    CounterArray(String),
    /// A register array, by name.
    RegisterArray(String),
    /// An extern instance, by name.
    Extern(String),
    /// Bits of the packet that the parser has not extracted yet.
    Lookahead {
        /// Distance from the parser's position in bits.
        offset: u32,
        /// Number of bits.
        width: u32,
    },
    /// A register cell, read as part of an expression.
    Register {
        /// Name of the register array.
        array: String,
        /// Index of the cell.
        index: Box<Expr>,
    },
    /// A field of the last valid header of a stack.
    StackField {
        /// Name of the stack.
        stack: String,
        /// Name of the field.
        field: String,
    },
    /// A field of the last valid union of a stack of unions.
    UnionStackField {
        /// Name of the stack of unions.
        stack: String,
        /// Name of the member within the union.
        header: String,
        /// Name of the field.
        field: String,
    },
    /// An action's argument within an expression: index into [`Action::runtime_data`](crate::Action::runtime_data).
    Local(u32),
    /// An action's argument as operand of a primitive: index into [`Action::runtime_data`](crate::Action::runtime_data).
    RuntimeData(u32),
    /// The list of values that `log_msg` formats.
    ParametersVector(Vec<Expr>),
    /// Packet bytes that were not extracted; only as input of a calculation.
    Payload,
    /// `{"type": "expression", "value": {"op": ...}}`.
    Op(Box<Op>),
    /// `{"type": "expression", "value": {"type": ...}}`: in some places the format wraps an expression twice.
    Wrapped(Box<Expr>),
    /// A bare integer: the right side of `access_field` and `access_union_header`.
    Index(u32),
}

/// An operator and its operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// The operator.
    pub op: Operator,
    /// First operand; `None` for unary operators.
    pub left: Option<Expr>,
    /// Second operand, or the only one of a unary operator.
    pub right: Expr,
    /// The condition of [`Operator::Ternary`].
    pub cond: Option<Expr>,
}

macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The operators of expressions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Operator { $($(#[$doc])* $name,)* }

        impl Operator {
            /// All operators.
            pub const ALL: &'static [Operator] = &[$(Operator::$name,)*];

            /// Returns the operator's text in the file.
            pub fn as_str(self) -> &'static str {
                match self { $(Operator::$name => $text,)* }
            }

            /// Returns the operator with that text.
            pub fn from_text(text: &str) -> Option<Operator> {
                match text { $($text => Some(Operator::$name),)* _ => None }
            }
        }
    };
}

operators! {
    /// Addition; the result is not reduced to a width.
    Add = "+",
    /// Subtraction; the result may be negative.
    Sub = "-",
    /// Multiplication.
    Mul = "*",
    /// Integer division.
    Div = "/",
    /// Remainder of integer division.
    Mod = "%",
    /// Left shift; the result is not reduced to a width.
    Shl = "<<",
    /// Right shift, arithmetic for signed numbers.
    Shr = ">>",
    /// Equality of numbers, booleans, headers or unions.
    Eq = "==",
    /// Inequality.
    Ne = "!=",
    /// Greater than.
    Gt = ">",
    /// Greater than or equal.
    Ge = ">=",
    /// Less than.
    Lt = "<",
    /// Less than or equal.
    Le = "<=",
    /// Logical conjunction; the right operand is evaluated only if the left one is true.
    And = "and",
    /// Logical disjunction; the right operand is evaluated only if the left one is false.
    Or = "or",
    /// Logical negation.
    Not = "not",
    /// Bitwise conjunction.
    BitAnd = "&",
    /// Bitwise disjunction.
    BitOr = "|",
    /// Bitwise exclusive or.
    BitXor = "^",
    /// Bitwise complement; a mask with `&` follows to reduce it to a width.
    BitNot = "~",
    /// Whether a header is valid.
    Valid = "valid",
    /// Whether a member of a header union is valid.
    ValidUnion = "valid_union",
    /// Data to boolean.
    D2b = "d2b",
    /// Boolean to data.
    B2d = "b2d",
    /// Wrap to a signed number of the right operand's width in bits.
    TwoCompMod = "two_comp_mod",
    /// Saturate to a signed number of the right operand's width in bits.
    SatCast = "sat_cast",
    /// Saturate to an unsigned number of the right operand's width in bits.
    UsatCast = "usat_cast",
    /// The conditional operator: `cond ? left : right`.
    Ternary = "?",
    /// Element of a header stack (left) at an index (right).
    DereferenceHeaderStack = "dereference_header_stack",
    /// Element of a stack of header unions (left) at an index (right).
    DereferenceUnionStack = "dereference_union_stack",
    /// Index of the last valid element of a stack: P4's `lastIndex`.
    LastStackIndex = "last_stack_index",
    /// Number of elements of a stack: P4's `size`.
    SizeStack = "size_stack",
    /// Field of a header (left) by its index in the header type (right).
    AccessField = "access_field",
    /// Member of a header union (left) by its index in the union type (right).
    AccessUnionHeader = "access_union_header",
}

impl Expr {
    /// Creates a reference to a field.
    pub fn field(header: impl Into<String>, field: impl Into<String>) -> Expr {
        Expr::Field(FieldRef::new(header, field))
    }

    /// Creates a constant without a width.
    pub fn hex(value: impl Into<String>) -> Expr {
        Expr::Hexstr {
            value: value.into(),
            bitwidth: None,
        }
    }

    /// Creates an expression with one operand.
    pub fn unary(op: Operator, right: Expr) -> Expr {
        Expr::Op(Box::new(Op {
            op,
            left: None,
            right,
            cond: None,
        }))
    }

    /// Creates an expression with two operands.
    pub fn binary(op: Operator, left: Expr, right: Expr) -> Expr {
        Expr::Op(Box::new(Op {
            op,
            left: Some(left),
            right,
            cond: None,
        }))
    }

    /// Creates `cond ? left : right`.
    pub fn ternary(cond: Expr, left: Expr, right: Expr) -> Expr {
        let op = Operator::Ternary;
        Expr::Op(Box::new(Op {
            op,
            left: Some(left),
            right,
            cond: Some(cond),
        }))
    }

    /// Wraps the expression in another `expression` object, as primitives require of their operands.
    pub fn wrapped(self) -> Expr {
        Expr::Wrapped(Box::new(self))
    }

    /// Returns the expression without surrounding [`Expr::Wrapped`].
    pub fn unwrapped(&self) -> &Expr {
        let mut expr = self;
        while let Expr::Wrapped(inner) = expr {
            expr = inner;
        }
        expr
    }

    fn from_value(value: &Value) -> Result<Expr, String> {
        let object = match value {
            Value::Number(_) => return index(value).map(Expr::Index),
            Value::Object(object) => object,
            _ => {
                return Err(format!(
                    "expected an object with type and value, found {}",
                    excerpt(value)
                ))
            }
        };
        // Some compilers leave the inner object of an expression unwrapped.
        if object.contains_key("op") && !object.contains_key("type") {
            return Op::from_object(object).map(|op| Expr::Op(Box::new(op)));
        }
        let kind = object
            .get("type")
            .and_then(Value::as_str)
            .ok_or_else(|| format!("member type missing in {}", excerpt(value)))?;
        let content = object.get("value").unwrap_or(&Value::Null);
        let text = || {
            content.as_str().map(str::to_owned).ok_or_else(|| {
                format!(
                    "value of type {kind} must be a string, found {}",
                    excerpt(content)
                )
            })
        };
        Ok(match kind {
            "field" => Expr::Field(FieldRef::from_value(content)?),
            "hexstr" => {
                let bitwidth = match object.get("bitwidth") {
                    None | Some(Value::Null) => None,
                    Some(width) => Some(index(width)?),
                };
                Expr::Hexstr {
                    value: text()?,
                    bitwidth,
                }
            }
            "bool" => Expr::Bool(
                content
                    .as_bool()
                    .ok_or_else(|| format!("not a boolean: {}", excerpt(content)))?,
            ),
            "string" => Expr::Str(text()?),
            "header" => Expr::Header(text()?),
            "header_stack" => Expr::HeaderStack(text()?),
            "header_union" => Expr::HeaderUnion(text()?),
            "header_union_stack" => Expr::HeaderUnionStack(text()?),
            "calculation" => Expr::Calculation(text()?),
            "meter_array" => Expr::MeterArray(text()?),
            "counter_array" => Expr::CounterArray(text()?),
            "register_array" => Expr::RegisterArray(text()?),
            "extern" => Expr::Extern(text()?),
            "lookahead" => match content.as_array().map(Vec::as_slice) {
                Some([offset, width]) => Expr::Lookahead {
                    offset: index(offset)?,
                    width: index(width)?,
                },
                _ => {
                    return Err(format!(
                        "lookahead must be [offset, width], found {}",
                        excerpt(content)
                    ))
                }
            },
            "register" => match content.as_array().map(Vec::as_slice) {
                Some([Value::String(array), at]) => Expr::Register {
                    array: array.clone(),
                    index: Box::new(Expr::from_value(at)?),
                },
                _ => {
                    return Err(format!(
                        "register must be [array, index], found {}",
                        excerpt(content)
                    ))
                }
            },
            "stack_field" => match strings(content).as_deref() {
                Some([stack, field]) => Expr::StackField {
                    stack: (*stack).to_owned(),
                    field: (*field).to_owned(),
                },
                _ => {
                    return Err(format!(
                        "stack_field must be [stack, field], found {}",
                        excerpt(content)
                    ))
                }
            },
            "union_stack_field" => match strings(content).as_deref() {
                Some([stack, header, field]) => Expr::UnionStackField {
                    stack: (*stack).to_owned(),
                    header: (*header).to_owned(),
                    field: (*field).to_owned(),
                },
                _ => {
                    return Err(format!(
                        "union_stack_field must be [stack, header, field], found {}",
                        excerpt(content)
                    ));
                }
            },
            "local" => Expr::Local(index(content)?),
            "runtime_data" => Expr::RuntimeData(index(content)?),
            "parameters_vector" => match content {
                // p4c writes an empty object when log_msg has no arguments.
                Value::Object(_) | Value::Null => Expr::ParametersVector(Vec::new()),
                Value::Array(items) => Expr::ParametersVector(
                    items
                        .iter()
                        .map(Expr::from_value)
                        .collect::<Result<_, _>>()?,
                ),
                _ => {
                    return Err(format!(
                        "parameters_vector must be an array, found {}",
                        excerpt(content)
                    ))
                }
            },
            "payload" => Expr::Payload,
            "expression" => match content {
                Value::Object(inner) if inner.contains_key("op") => {
                    Expr::Op(Box::new(Op::from_object(inner)?))
                }
                inner => Expr::Wrapped(Box::new(Expr::from_value(inner)?)),
            },
            other => return Err(format!("unknown type {other:?} in {}", excerpt(value))),
        })
    }
}

impl Op {
    fn from_object(object: &Map<String, Value>) -> Result<Op, String> {
        let text = object.get("op").and_then(Value::as_str).unwrap_or_default();
        let operand = |name: &str| match object.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => Expr::from_value(value).map(Some),
        };
        Op::new(text, operand("left")?, operand("right")?, operand("cond")?)
    }

    fn new(
        text: &str,
        left: Option<Expr>,
        right: Option<Expr>,
        cond: Option<Expr>,
    ) -> Result<Op, String> {
        let op = Operator::from_text(text).ok_or_else(|| format!("unknown operator {text:?}"))?;
        let right = right.ok_or_else(|| format!("operator {text:?} has no right operand"))?;
        Ok(Op {
            op,
            left,
            right,
            cond,
        })
    }
}

fn index(value: &Value) -> Result<u32, String> {
    value
        .as_u64()
        .and_then(|n| u32::try_from(n).ok())
        .ok_or_else(|| {
            format!(
                "expected a 32-bit unsigned integer, found {}",
                excerpt(value)
            )
        })
}

fn strings(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Expr, D::Error> {
        Ok(match ReadExpr::deserialize(deserializer)? {
            ReadExpr::Typed(expr) => expr,
            ReadExpr::Bare(op) => Expr::Op(Box::new(op)),
        })
    }
}

/// An expression in a file, with or without `type`.
enum ReadExpr {
    Typed(Expr),
    /// An operator with its operands, which is the `value` of an `expression`.
    Bare(Op),
}

impl<'de> Deserialize<'de> for ReadExpr {
    /// Reads fields, constants and operators without a [`Value`] between, if `type` or `op` is the first member: most of
    /// a program consists of them. All else is read as [`Value`].
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ReadExpr, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = ReadExpr;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object with type and value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReadExpr, A::Error> {
                match map.next_key::<String>()?.as_deref() {
                    Some("type") => {
                        let kind: Value = map.next_value()?;
                        read_typed(kind, map).map(ReadExpr::Typed)
                    }
                    Some("op") => {
                        let op: Value = map.next_value()?;
                        read_op(op, map)
                    }
                    first => {
                        let mut object = Map::new();
                        if let Some(name) = first {
                            object.insert(name.to_owned(), map.next_value()?);
                        }
                        read_any(object, map)
                    }
                }
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<ReadExpr, E> {
                read_scalar(number.into())
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<ReadExpr, E> {
                read_scalar(number.into())
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<ReadExpr, E> {
                read_scalar(number.into())
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<ReadExpr, E> {
                read_scalar(value.into())
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ReadExpr, E> {
                read_scalar(text.into())
            }

            fn visit_unit<E: Error>(self) -> Result<ReadExpr, E> {
                read_scalar(Value::Null)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ReadExpr, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                read_scalar(Value::Array(all))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// Reads a value that is not an object.
fn read_scalar<E: Error>(value: Value) -> Result<ReadExpr, E> {
    let expr = Expr::from_value(&value).map_err(E::custom)?;
    Ok(ReadExpr::Typed(expr))
}

/// Reads the rest of an object whose first members are in `object`.
fn read_any<'de, A: MapAccess<'de>>(
    mut object: Map<String, Value>,
    mut map: A,
) -> Result<ReadExpr, A::Error> {
    while let Some((name, value)) = map.next_entry()? {
        object.insert(name, value);
    }
    if object.contains_key("op") && !object.contains_key("type") {
        let op = Op::from_object(&object).map_err(A::Error::custom)?;
        return Ok(ReadExpr::Bare(op));
    }
    read_scalar(Value::Object(object))
}

/// Reads the rest of an object whose first member is its `type`.
fn read_typed<'de, A: MapAccess<'de>>(kind: Value, mut map: A) -> Result<Expr, A::Error> {
    let mut object = Map::new();
    let mut content = None;
    let is_usual = matches!(kind.as_str(), Some("field" | "hexstr" | "expression"));
    while let Some(name) = map.next_key::<String>()? {
        match (&*name, kind.as_str()) {
            ("value", Some("field")) => content = Some(Expr::Field(map.next_value()?)),
            ("value", Some("expression")) => {
                content = Some(match map.next_value()? {
                    ReadExpr::Bare(op) => Expr::Op(Box::new(op)),
                    ReadExpr::Typed(expr) => Expr::Wrapped(Box::new(expr)),
                });
            }
            ("value" | "bitwidth", _) => {
                object.insert(name, map.next_value()?);
            }
            _ if is_usual => {
                map.next_value::<IgnoredAny>()?;
            }
            _ => {
                object.insert(name, map.next_value()?);
            }
        }
    }
    match content {
        Some(expr) => Ok(expr),
        None => {
            object.insert("type".to_owned(), kind);
            Expr::from_value(&Value::Object(object)).map_err(A::Error::custom)
        }
    }
}

/// Reads the rest of an object whose first member is `op`.
fn read_op<'de, A: MapAccess<'de>>(text: Value, mut map: A) -> Result<ReadExpr, A::Error> {
    let (mut left, mut right, mut cond) = (None, None, None);
    while let Some(name) = map.next_key::<String>()? {
        match &*name {
            "left" => left = map.next_value::<Option<Expr>>()?,
            "right" => right = map.next_value::<Option<Expr>>()?,
            "cond" => cond = map.next_value::<Option<Expr>>()?,
            _ => {
                map.next_value::<IgnoredAny>()?;
            }
        }
    }
    let op = Op::new(text.as_str().unwrap_or_default(), left, right, cond);
    op.map(ReadExpr::Bare).map_err(A::Error::custom)
}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn tagged<S: Serializer, T: Serialize + ?Sized>(
            serializer: S,
            kind: &'static str,
            value: &T,
        ) -> Result<S::Ok, S::Error> {
            let mut object = serializer.serialize_struct("Expr", 2)?;
            object.serialize_field("type", kind)?;
            object.serialize_field("value", value)?;
            object.end()
        }
        let s = serializer;
        match self {
            Expr::Field(field) => tagged(s, "field", field),
            Expr::Hexstr {
                value,
                bitwidth: None,
            } => tagged(s, "hexstr", value),
            Expr::Hexstr {
                value,
                bitwidth: Some(width),
            } => {
                let mut object = s.serialize_struct("Expr", 3)?;
                object.serialize_field("type", "hexstr")?;
                object.serialize_field("value", value)?;
                object.serialize_field("bitwidth", width)?;
                object.end()
            }
            Expr::Bool(value) => tagged(s, "bool", value),
            Expr::Str(value) => tagged(s, "string", value),
            Expr::Header(name) => tagged(s, "header", name),
            Expr::HeaderStack(name) => tagged(s, "header_stack", name),
            Expr::HeaderUnion(name) => tagged(s, "header_union", name),
            Expr::HeaderUnionStack(name) => tagged(s, "header_union_stack", name),
            Expr::Calculation(name) => tagged(s, "calculation", name),
            Expr::MeterArray(name) => tagged(s, "meter_array", name),
            Expr::CounterArray(name) => tagged(s, "counter_array", name),
            Expr::RegisterArray(name) => tagged(s, "register_array", name),
            Expr::Extern(name) => tagged(s, "extern", name),
            Expr::Lookahead { offset, width } => tagged(s, "lookahead", &(offset, width)),
            Expr::Register { array, index } => tagged(s, "register", &(array, index)),
            Expr::StackField { stack, field } => tagged(s, "stack_field", &(stack, field)),
            Expr::UnionStackField {
                stack,
                header,
                field,
            } => tagged(s, "union_stack_field", &(stack, header, field)),
            Expr::Local(index) => tagged(s, "local", index),
            Expr::RuntimeData(index) => tagged(s, "runtime_data", index),
            Expr::ParametersVector(items) => tagged(s, "parameters_vector", items),
            Expr::Payload => tagged(s, "payload", &()),
            Expr::Op(op) => tagged(s, "expression", op),
            Expr::Wrapped(inner) => tagged(s, "expression", inner),
            Expr::Index(index) => s.serialize_u32(*index),
        }
    }
}

impl Serialize for Op {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = 3 + usize::from(self.cond.is_some());
        let mut object = serializer.serialize_struct("Op", fields)?;
        object.serialize_field("op", self.op.as_str())?;
        object.serialize_field("left", &self.left)?;
        object.serialize_field("right", &self.right)?;
        if let Some(cond) = &self.cond {
            object.serialize_field("cond", cond)?;
        }
        object.end()
    }
}

impl<'de> Deserialize<'de> for Op {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Op, D::Error> {
        match ReadExpr::deserialize(deserializer)? {
            ReadExpr::Bare(op) => Ok(op),
            ReadExpr::Typed(_) => Err(D::Error::custom("expected an object with op")),
        }
    }
}

/// Error of [`decode_hex`]: the text that is not a hexadecimal constant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a hexadecimal constant")]
pub struct HexError(pub String);

/// Parses a `hexstr` (`0x1f`, `-0x01`, the `0x` is optional) to its sign, true for minus, and its magnitude in big
/// endian.
///
/// The number of bytes is that of the digits, rounded up, so leading zeros are kept.
///
/// # Errors
/// When a character is not a hexadecimal digit. The empty string is zero.
pub fn decode_hex(text: &str) -> Result<(bool, Vec<u8>), HexError> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let digits = rest
        .strip_prefix("0x")
        .or_else(|| rest.strip_prefix("0X"))
        .unwrap_or(rest);
    let mut bytes = vec![0; digits.len().div_ceil(2)];
    for (i, c) in digits.bytes().rev().enumerate() {
        let digit = (c as char)
            .to_digit(16)
            .ok_or_else(|| HexError(text.to_owned()))? as u8;
        let at = bytes.len() - 1 - i / 2;
        bytes[at] |= digit << (4 * (i % 2));
    }
    Ok((negative, bytes))
}
