//! P4 expressions over the values at a stop, for conditions, watches and hovers.

use std::path::Path;

use alfirk_compiler::driver::{CompileOptions, Session};
use alfirk_compiler::preproc::{MemoryLoader, SourceLoader};
use alfirk_compiler::syntax::ast::{BinaryOp, Decl, Expr, ExprKind, UnaryOp};
use num_bigint::BigInt;
use num_traits::{One, Signed, ToPrimitive, Zero};

/// A value of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A Boolean.
    Bool(bool),
    /// A text, such as the name of a switch.
    Text(String),
    /// A number.
    Number {
        /// The number.
        value: BigInt,
        /// Width in bits; `None` for a constant without a width.
        bits: Option<u32>,
        /// Whether the number is in two's complement.
        signed: bool,
    },
}

/// Maximum shift distance, and maximum width of results in bits.
const MAX_BITS: u32 = 1 << 16;

impl Value {
    /// Returns an unsigned number of `bits` bits.
    pub fn bits(value: BigInt, bits: u32) -> Value {
        Value::Number {
            value,
            bits: Some(bits),
            signed: false,
        }
    }

    /// Returns the value as text: `true`, `false`, or hexadecimal.
    pub fn text(&self) -> String {
        match self {
            Value::Bool(value) => value.to_string(),
            Value::Text(text) => text.clone(),
            Value::Number { value, .. } if value.is_negative() => {
                format!("-{:#x}", value.magnitude())
            }
            Value::Number { value, .. } => format!("{value:#x}"),
        }
    }

    /// Returns the type as P4 writes it.
    pub fn type_name(&self) -> String {
        match self {
            Value::Bool(_) => "bool".to_owned(),
            Value::Text(_) => "string".to_owned(),
            Value::Number { bits: None, .. } => "int".to_owned(),
            Value::Number {
                bits: Some(bits),
                signed,
                ..
            } => format!("{}<{bits}>", if *signed { "int" } else { "bit" }),
        }
    }

    /// Whether a condition with this value holds: a number holds unless it is 0.
    pub fn holds(&self) -> bool {
        match self {
            Value::Bool(value) => *value,
            Value::Text(text) => !text.is_empty(),
            Value::Number { value, .. } => !value.is_zero(),
        }
    }

    /// Returns the value as a number; `true` is 1, and a text 0.
    pub fn number(&self) -> BigInt {
        match self {
            Value::Bool(value) => BigInt::from(u8::from(*value)),
            Value::Text(_) => BigInt::zero(),
            Value::Number { value, .. } => value.clone(),
        }
    }
}

/// The names that an expression may use.
pub trait Names {
    /// Returns the value of a variable, such as `["hdr", "ipv4", "ttl"]`.
    ///
    /// # Errors
    /// There is no such variable, or it has no value here.
    fn variable(&self, path: &[String]) -> Result<Value, String>;

    /// Returns whether a header is valid.
    ///
    /// # Errors
    /// There is no such header.
    fn is_valid(&self, path: &[String]) -> Result<bool, String>;

    /// Returns the value of a register's cell.
    ///
    /// # Errors
    /// There is no such register or cell.
    fn cell(&self, path: &[String], index: &BigInt) -> Result<Value, String>;
}

/// An expression that was parsed.
#[derive(Debug)]
pub struct Expression(Node);

/// A node of an expression.
#[derive(Debug)]
enum Node {
    Value(Value),
    Variable(Vec<String>),
    /// An element: the name of the array, the name of the whole if it is a constant index, and the index.
    Element(Vec<String>, Option<Vec<String>>, Box<Node>),
    IsValid(Vec<String>),
    /// Bits of a number: the number, the upper and the lower bound.
    Slice(Box<[Node; 3]>),
    Unary(UnaryOp, Box<Node>),
    Binary(BinaryOp, Box<[Node; 2]>),
    /// Condition, and the values if it holds or not.
    Ternary(Box<[Node; 3]>),
}

impl Expression {
    /// Parses an expression of P4.
    ///
    /// # Errors
    /// The text is not an expression.
    pub fn parse(text: &str) -> Result<Expression, String> {
        const FILE: &str = "expression";
        let not_expression = || format!("`{text}` is not a P4 expression");
        if text.contains([';', '\n']) || text.trim_start().starts_with('#') {
            return Err(not_expression());
        }
        let mut files = MemoryLoader::default();
        let text_of_names = with_switch_as_name(text);
        files.add(FILE, format!("const bit<1> watched = {text_of_names};\n"));
        let mut session = Session::new(CompileOptions::new(Path::new(FILE)));
        let loader: &dyn SourceLoader = &files;
        let tree = session.tree(loader).map_err(|_| not_expression())?;
        if session.diagnostics.has_errors() {
            return Err(not_expression());
        }
        match &tree.decls[..] {
            [Decl::Const(decl)] => Ok(Expression(node(&decl.value)?)),
            _ => Err(not_expression()),
        }
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// A name is unknown, or an operator cannot be applied to its operands.
    pub fn evaluate(&self, names: &dyn Names) -> Result<Value, String> {
        evaluate(&self.0, names)
    }
}

/// Name of the variable `switch` of expressions, which is a keyword of P4.
pub const SWITCH: &str = "__switch";

/// Returns an expression with [`SWITCH`] in place of `switch`, except in strings and within other names.
fn with_switch_as_name(text: &str) -> String {
    let mut out = String::new();
    let mut is_string = false;
    let mut rest = text;
    while !rest.is_empty() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let length = match rest.find(|c: char| !is_name(c)) {
            Some(0) => rest.chars().next().map_or(1, char::len_utf8),
            Some(length) => length,
            None => rest.len(),
        };
        let (word, after) = rest.split_at(length);
        is_string ^= word == "\"";
        out += match word {
            "switch" if !is_string => SWITCH,
            word => word,
        };
        rest = after;
    }
    out
}

/// Returns the components of a name; an element of a header stack is one component, `stack[0]`.
fn path(expr: &Expr) -> Option<Vec<String>> {
    match &expr.kind {
        ExprKind::Name(name) => Some(vec![name.name.name.to_string()]),
        ExprKind::Member(base, member) => {
            let mut path = path(base)?;
            path.push(member.name.to_string());
            Some(path)
        }
        ExprKind::Index(base, index) => {
            let ExprKind::Int(index) = &index.kind else {
                return None;
            };
            let mut path = path(base)?;
            let last = path.last_mut()?;
            *last = format!("{last}[{}]", index.value);
            Some(path)
        }
        _ => None,
    }
}

/// Returns the node of an expression of the compiler.
fn node(expr: &Expr) -> Result<Node, String> {
    let boxed = |expr: &Expr| node(expr).map(Box::new);
    Ok(match &expr.kind {
        ExprKind::Int(literal) => Node::Value(Value::Number {
            value: literal.value.clone(),
            bits: literal.width.map(|width| width.bits),
            signed: literal.width.is_some_and(|width| width.signed),
        }),
        ExprKind::Bool(value) => Node::Value(Value::Bool(*value)),
        ExprKind::String(text) => Node::Value(Value::Text(text.to_string())),
        ExprKind::Name(_) | ExprKind::Member(..) => {
            Node::Variable(path(expr).ok_or("only names have members here")?)
        }
        ExprKind::Index(base, index) => {
            let of = path(base).ok_or("only registers and header stacks have an index here")?;
            Node::Element(of, path(expr), boxed(index)?)
        }
        ExprKind::Call(call) => {
            let is_valid = match &call.callee.kind {
                ExprKind::Member(base, method) if &*method.name == "isValid" => path(base),
                _ => None,
            };
            let header = is_valid.ok_or("the only call in an expression is `header.isValid()`")?;
            Node::IsValid(header)
        }
        ExprKind::Slice { base, hi, lo } => {
            Node::Slice(Box::new([node(base)?, node(hi)?, node(lo)?]))
        }
        ExprKind::Unary(op, operand) => Node::Unary(*op, boxed(operand)?),
        ExprKind::Binary(op, a, b) => Node::Binary(*op, Box::new([node(a)?, node(b)?])),
        ExprKind::Ternary(condition, a, b) => {
            Node::Ternary(Box::new([node(condition)?, node(a)?, node(b)?]))
        }
        _ => return Err("this kind of expression cannot be evaluated in the debugger".to_owned()),
    })
}

fn evaluate(node: &Node, names: &dyn Names) -> Result<Value, String> {
    let eval = |node: &Node| evaluate(node, names);
    match node {
        Node::Value(value) => Ok(value.clone()),
        Node::Variable(path) => names.variable(path),
        Node::Element(of, whole, index) => match whole.as_ref().map(|path| names.variable(path)) {
            Some(Ok(value)) => Ok(value),
            _ => names.cell(of, &eval(index)?.number()),
        },
        Node::IsValid(header) => Ok(Value::Bool(names.is_valid(header)?)),
        Node::Slice(parts) => {
            let [base, hi, lo] = &**parts;
            let value = eval(base)?.number();
            let bound = |node: &Node| {
                let bound = eval(node)?.number().to_u32();
                bound
                    .filter(|bound| *bound < MAX_BITS)
                    .ok_or_else(|| "a bound of the slice is out of range".to_owned())
            };
            let (hi, lo) = (bound(hi)?, bound(lo)?);
            if hi < lo {
                return Err(format!("the slice [{hi}:{lo}] has its lower bound first"));
            }
            Ok(Value::bits(
                wrapped(&(value >> lo), hi - lo + 1, false),
                hi - lo + 1,
            ))
        }
        Node::Unary(op, operand) => unary(*op, eval(operand)?),
        Node::Binary(op, operands) => {
            let [a, b] = &**operands;
            match op {
                BinaryOp::And => Ok(Value::Bool(eval(a)?.holds() && eval(b)?.holds())),
                BinaryOp::Or => Ok(Value::Bool(eval(a)?.holds() || eval(b)?.holds())),
                op => binary(*op, &eval(a)?, &eval(b)?),
            }
        }
        Node::Ternary(parts) => match eval(&parts[0])?.holds() {
            true => eval(&parts[1]),
            false => eval(&parts[2]),
        },
    }
}

/// Returns the low `bits` bits of a number, as a signed or unsigned number.
pub fn wrapped(value: &BigInt, bits: u32, signed: bool) -> BigInt {
    let modulus = BigInt::one() << bits;
    let low = ((value % &modulus) + &modulus) % &modulus;
    match signed && bits > 0 && low.bit(u64::from(bits - 1)) {
        true => low - modulus,
        false => low,
    }
}

fn number(value: BigInt, bits: Option<u32>, signed: bool) -> Value {
    let value = bits.map_or_else(|| value.clone(), |bits| wrapped(&value, bits, signed));
    Value::Number {
        value,
        bits,
        signed,
    }
}

fn unary(op: UnaryOp, operand: Value) -> Result<Value, String> {
    match (op, operand) {
        (UnaryOp::Not, operand) => Ok(Value::Bool(!operand.holds())),
        (_, Value::Bool(_)) => Err("a Boolean is not a number".to_owned()),
        (_, Value::Text(_)) => Err("a text is not a number".to_owned()),
        (
            op,
            Value::Number {
                value,
                bits,
                signed,
            },
        ) => Ok(match op {
            UnaryOp::Minus => number(-value, bits, signed),
            UnaryOp::Complement => number(-value - 1, bits, signed),
            UnaryOp::Plus | UnaryOp::Not => number(value, bits, signed),
        }),
    }
}

fn binary(op: BinaryOp, a: &Value, b: &Value) -> Result<Value, String> {
    if let (Value::Text(_), _) | (_, Value::Text(_)) = (a, b) {
        return match op {
            BinaryOp::Eq => Ok(Value::Bool(a == b)),
            BinaryOp::Ne => Ok(Value::Bool(a != b)),
            _ => Err("texts can be compared by `==` and `!=` only".to_owned()),
        };
    }
    let (x, y) = (a.number(), b.number());
    let width = |value: &Value| match value {
        Value::Number { bits, signed, .. } => (*bits, *signed),
        Value::Bool(_) | Value::Text(_) => (Some(1), false),
    };
    let ((a_bits, a_signed), (b_bits, b_signed)) = (width(a), width(b));
    let (bits, signed) = match a_bits {
        Some(bits) => (Some(bits), a_signed),
        None => (b_bits, b_signed),
    };
    let shift = || {
        let distance = y.to_u32().filter(|distance| *distance <= MAX_BITS);
        distance.ok_or_else(|| "the shift distance is out of range".to_owned())
    };
    let value = match op {
        BinaryOp::Eq => return Ok(Value::Bool(x == y)),
        BinaryOp::Ne => return Ok(Value::Bool(x != y)),
        BinaryOp::Lt => return Ok(Value::Bool(x < y)),
        BinaryOp::Le => return Ok(Value::Bool(x <= y)),
        BinaryOp::Gt => return Ok(Value::Bool(x > y)),
        BinaryOp::Ge => return Ok(Value::Bool(x >= y)),
        BinaryOp::Div | BinaryOp::Mod if y.is_zero() => {
            return Err("division by zero".to_owned());
        }
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Mod => x % y,
        BinaryOp::BitAnd => x & y,
        BinaryOp::BitOr => x | y,
        BinaryOp::BitXor => x ^ y,
        BinaryOp::Shl => return Ok(number(x << shift()?, a_bits, a_signed)),
        BinaryOp::Shr => return Ok(number(x >> shift()?, a_bits, a_signed)),
        BinaryOp::Concat => match (a_bits, b_bits) {
            (Some(a), Some(b)) if a + b <= MAX_BITS => {
                return Ok(Value::bits((x << b) | wrapped(&y, b, false), a + b));
            }
            _ => return Err("`++` needs operands with a width".to_owned()),
        },
        _ => return Err("this operator cannot be evaluated in the debugger".to_owned()),
    };
    Ok(number(value, bits, signed))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ttl;

    impl Names for Ttl {
        fn variable(&self, path: &[String]) -> Result<Value, String> {
            match path.join(".").as_str() {
                "hdr.ip.ttl" => Ok(Value::bits(64.into(), 8)),
                SWITCH => Ok(Value::Text("c1".to_owned())),
                other => Err(format!("no {other}")),
            }
        }

        fn is_valid(&self, path: &[String]) -> Result<bool, String> {
            Ok(path.join(".") == "hdr.ip")
        }

        fn cell(&self, _: &[String], index: &BigInt) -> Result<Value, String> {
            Ok(Value::bits(index * 10, 32))
        }
    }

    fn text(expression: &str) -> String {
        let value = Expression::parse(expression).and_then(|parsed| parsed.evaluate(&Ttl));
        value.map_or_else(|error| format!("error: {error}"), |value| value.text())
    }

    #[test]
    fn expressions_have_the_values_of_p4() {
        for (expression, value) in [
            ("hdr.ip.ttl", "0x40"),
            ("hdr.ip.ttl + 0xc0", "0x0"),
            ("hdr.ip.ttl - 65", "0xff"),
            ("hdr.ip.ttl[6:4]", "0x4"),
            ("hdr.ip.ttl == 64 && hdr.ip.isValid()", "true"),
            ("hdr.tcp.isValid() || hdr.ip.ttl > 100", "false"),
            ("~hdr.ip.ttl", "0xbf"),
            ("!(hdr.ip.ttl == 0)", "true"),
            ("8w5 ++ 8w1", "0x501"),
            ("r[7]", "0x46"),
            ("r[hdr.ip.ttl]", "0x280"),
            ("true ? 1 : 2", "0x1"),
            ("hdr.ip.ttl / 0", "error: division by zero"),
            ("hdr.ip.tos", "error: no hdr.ip.tos"),
            ("1 +", "error: `1 +` is not a P4 expression"),
            (
                "1; const bit<1> y = 2",
                "error: `1; const bit<1> y = 2` is not a P4 expression",
            ),
            (r#"switch == "c1""#, "true"),
            (r#"switch != "switch" && hdr.ip.ttl == 64"#, "true"),
            (
                r#"switch + 1"#,
                "error: texts can be compared by `==` and `!=` only",
            ),
            ("1 << 99999999", "error: the shift distance is out of range"),
        ] {
            assert_eq!(text(expression), value, "{expression}");
        }
    }
}
