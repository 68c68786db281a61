//! Operators on values, with constant folding.

use num_bigint::BigInt;

use super::data::Data;
use super::Builder;
use crate::diag::{Code, Span};
use crate::ir::{self, Expr, Scalar};
use crate::sema::{value, Type, Value};
use crate::syntax::ast::{BinaryOp, UnaryOp};

impl Builder<'_> {
    /// Applies a unary operator to a number or boolean.
    pub fn unary(&mut self, op: UnaryOp, arg: Data, span: Span) -> Data {
        if let Some((constant, ty)) = constant(&arg) {
            return match value::unary(op, &constant, &ty) {
                Ok(result) => self.number(&result, &ty, span),
                Err(why) => self.report_fold_error(span, why),
            };
        }
        let Data::Scalar(arg) = arg else {
            return self.no_data(span, "the operand of a unary operator is not a number");
        };
        Data::Scalar(match op {
            UnaryOp::Not => arg.not(),
            UnaryOp::Complement => Expr::unary(ir::UnaryOp::Complement, arg),
            UnaryOp::Minus => Expr::unary(ir::UnaryOp::Negate, arg),
            UnaryOp::Plus => arg,
        })
    }

    /// Applies a binary operator to two numbers or booleans.
    pub fn binary(&mut self, op: BinaryOp, left: Data, right: Data, span: Span) -> Data {
        if let (Some((a, a_ty)), Some((b, b_ty))) = (constant(&left), constant(&right)) {
            return match value::binary(op, (&a, &a_ty), (&b, &b_ty)) {
                Ok(result) => self.number(&result, &result_type(op, &a_ty, &b_ty), span),
                Err(why) => self.report_fold_error(span, why),
            };
        }
        // A shift amount may be an integer without a width.
        let amount = match (&right, op) {
            (Data::Int(amount), BinaryOp::Shl | BinaryOp::Shr) => {
                Some(Expr::bits(amount.clone(), (amount.bits() as u32).max(8)))
            }
            _ => None,
        };
        let (Data::Scalar(left), Some(right)) = (left, amount.or_else(|| right.expr().cloned()))
        else {
            return self.no_data(span, "an operand of a binary operator is not a number");
        };
        Data::Scalar(match op {
            BinaryOp::Div | BinaryOp::Mod => self.divide(op == BinaryOp::Div, left, right, span),
            _ => binary(op, left, right),
        })
    }

    /// Converts a number or boolean to type `int`. A number computed at run time becomes an `int<W>` that is wide enough for its value.
    pub fn cast_int(&self, data: Data) -> Data {
        match data {
            Data::Scalar(Expr::Number { value, .. }) => Data::Int(value),
            Data::Scalar(Expr::Bool(value)) => Data::Int(BigInt::from(u8::from(value))),
            Data::Scalar(expr) => Data::Scalar(match expr.scalar() {
                Some(Scalar::Bit(width)) => cast(expr, Scalar::Int(width + 1)),
                _ => expr,
            }),
            other => other,
        }
    }

    /// Negates an integer of type `int`.
    pub fn negate_int(&mut self, arg: Data, span: Span) -> Data {
        self.binary_int(BinaryOp::Sub, Data::Int(BigInt::ZERO), arg, span)
    }

    /// Applies a binary operator to two integers of type `int`, of which at least one is computed at run time. The result is an `int<W>` that
    /// is wide enough for all values.
    pub fn binary_int(&mut self, op: BinaryOp, left: Data, right: Data, span: Span) -> Data {
        if constant(&left).is_some() && constant(&right).is_some() {
            return self.binary(op, left, right, span);
        }
        if let (BinaryOp::Shl | BinaryOp::Shr, Data::Int(amount)) = (op, &right) {
            let more = match op {
                BinaryOp::Shl => u32::try_from(amount).unwrap_or(value::MAX_WIDTH),
                _ => 0,
            };
            return match as_signed(left) {
                Some((left, width)) if more <= value::MAX_WIDTH - width => {
                    let left = cast(left, Scalar::Int(width + more));
                    self.binary(op, Data::Scalar(left), right, span)
                }
                _ => self.too_wide(span),
            };
        }
        let (Some((left, a)), Some((right, b))) = (as_signed(left), as_signed(right)) else {
            return self.no_data(span, "an operand of type int has no width");
        };
        let width = match op {
            BinaryOp::Add | BinaryOp::Sub => a.max(b) + 1,
            BinaryOp::Mul => a + b,
            BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor
            | BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => a.max(b),
            _ => {
                let message = format!(
                    "`{}` of integers without a width must be known at compile time on this target",
                    op.as_str()
                );
                return self.target(span, message).into();
            }
        };
        if width > value::MAX_WIDTH {
            return self.too_wide(span);
        }
        let wide = Scalar::Int(width);
        Data::Scalar(binary(op, cast(left, wide), cast(right, wide)))
    }

    /// Reports an integer of type `int` that may exceed the maximum width.
    fn too_wide(&mut self, span: Span) -> Data {
        self.error(
            Code::LIMIT,
            span,
            format!(
                "this integer may need more than {} bits: cast its operands to a type with a width",
                value::MAX_WIDTH
            ),
        )
        .into()
    }

    /// Converts a number or boolean to the type `to`.
    pub fn cast_scalar(&self, data: Data, to: Scalar) -> Data {
        match data {
            Data::Int(number) if to == Scalar::Bool => Data::boolean(number != BigInt::ZERO),
            Data::Int(number) => Data::Scalar(Expr::number(number, to)),
            Data::Scalar(expr) => Data::Scalar(cast(expr, to)),
            other => other,
        }
    }

    /// The bits `high` to `low` of a number.
    pub fn slice(&self, data: Data, high: u32, low: u32) -> Data {
        match data {
            Data::Int(number) => Data::Scalar(Expr::bits(number >> low, high - low + 1)),
            Data::Scalar(expr) => Data::Scalar(slice(expr, high, low)),
            other => other,
        }
    }

    /// `cond ? then : other` of numbers and booleans.
    pub fn choose(&self, cond: Expr, then: Expr, other: Expr) -> Expr {
        choose(cond, then, other)
    }

    /// Reports a constant expression that cannot be evaluated.
    fn report_fold_error(&mut self, span: Span, why: value::FoldError) -> Data {
        self.error(
            Code::EVALUATION,
            span,
            format!("the constant expression has no value: {why}"),
        )
        .into()
    }

    /// A value of the checker as a constant of type `ty`.
    fn number(&mut self, value: &Value, ty: &Type, span: Span) -> Data {
        match (value, ty) {
            (Value::Bool(value), _) => Data::boolean(*value),
            (Value::String(text), _) => Data::String(text.clone()),
            (Value::Int(value), Type::Bit(width)) => {
                Data::Scalar(Expr::bits(value.clone(), *width))
            }
            (Value::Int(value), Type::Signed(width)) => {
                Data::Scalar(Expr::number(value.clone(), Scalar::Int(*width)))
            }
            (Value::Int(value), _) => Data::Int(value.clone()),
            _ => self.no_data(span, "the result of an operator is not a number"),
        }
    }
}

/// A binary operation on expressions; `&&` and `||` are simplified for constant operands.
pub fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    let op = match op {
        BinaryOp::And => return and(left, right),
        BinaryOp::Or => return or(left, right),
        BinaryOp::Mul => ir::BinaryOp::Mul,
        BinaryOp::Div => ir::BinaryOp::Div,
        BinaryOp::Mod => ir::BinaryOp::Mod,
        BinaryOp::Add => ir::BinaryOp::Add,
        BinaryOp::Sub => ir::BinaryOp::Sub,
        BinaryOp::AddSat => ir::BinaryOp::AddSat,
        BinaryOp::SubSat => ir::BinaryOp::SubSat,
        BinaryOp::Shl => ir::BinaryOp::Shl,
        BinaryOp::Shr => ir::BinaryOp::Shr,
        BinaryOp::Le => ir::BinaryOp::Le,
        BinaryOp::Ge => ir::BinaryOp::Ge,
        BinaryOp::Lt => ir::BinaryOp::Lt,
        BinaryOp::Gt => ir::BinaryOp::Gt,
        BinaryOp::Ne => ir::BinaryOp::Ne,
        BinaryOp::Eq => ir::BinaryOp::Eq,
        BinaryOp::BitAnd => ir::BinaryOp::And,
        BinaryOp::BitXor => ir::BinaryOp::Xor,
        BinaryOp::BitOr => ir::BinaryOp::Or,
        BinaryOp::Concat => ir::BinaryOp::Concat,
    };
    Expr::binary(op, left, right)
}

/// `cond ? then : other` of numbers and booleans, simplified for a constant condition or equal values.
pub fn choose(cond: Expr, then: Expr, other: Expr) -> Expr {
    match cond {
        Expr::Bool(true) => then,
        Expr::Bool(false) => other,
        _ if then == other => then,
        cond => Expr::Choose {
            cond: Box::new(cond),
            then: Box::new(then),
            other: Box::new(other),
        },
    }
}

/// The bits `high` to `low` of a number, folded for constants.
pub fn slice(expr: Expr, high: u32, low: u32) -> Expr {
    match expr {
        Expr::Number { value, .. } => Expr::bits(value >> low, high - low + 1),
        expr if low == 0 && expr.scalar() == Some(Scalar::Bit(high + 1)) => expr,
        expr => Expr::Slice {
            high,
            low,
            arg: Box::new(expr),
        },
    }
}

/// `left && right`, simplified for constant operands.
pub fn and(left: Expr, right: Expr) -> Expr {
    match (left, right) {
        (Expr::Bool(true), other) | (other, Expr::Bool(true)) => other,
        (Expr::Bool(false), _) | (_, Expr::Bool(false)) => Expr::Bool(false),
        (left, right) => Expr::binary(ir::BinaryOp::LogicalAnd, left, right),
    }
}

/// The conjunction of all terms, as a balanced tree, so that it is not deeply nested.
pub fn all(mut terms: Vec<Expr>) -> Expr {
    while terms.len() > 1 {
        let mut rest = terms.into_iter();
        let mut pairs = Vec::with_capacity(rest.len().div_ceil(2));
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => and(left, right),
                None => left,
            });
        }
        terms = pairs;
    }
    terms.pop().unwrap_or(Expr::Bool(true))
}

/// `left || right`, simplified for constant operands.
pub fn or(left: Expr, right: Expr) -> Expr {
    match (left, right) {
        (Expr::Bool(false), other) | (other, Expr::Bool(false)) => other,
        (Expr::Bool(true), _) | (_, Expr::Bool(true)) => Expr::Bool(true),
        (left, right) => Expr::binary(ir::BinaryOp::LogicalOr, left, right),
    }
}

/// A conversion to the type `to`, omitted if the expression has this type.
pub fn cast(expr: Expr, to: Scalar) -> Expr {
    match expr {
        expr if expr.scalar() == Some(to) => expr,
        // Convert the width first, so that the number is extended by the sign of its own type.
        expr => match (expr.scalar(), to) {
            (Some(Scalar::Bit(from)), Scalar::Int(width)) if from != width => {
                convert(convert(expr, Scalar::Bit(width)), to)
            }
            (Some(Scalar::Int(from)), Scalar::Bit(width)) if from != width => {
                convert(convert(expr, Scalar::Int(width)), to)
            }
            _ => convert(expr, to),
        },
    }
}

/// A conversion to the type `to` in one step, folded for constants.
fn convert(expr: Expr, to: Scalar) -> Expr {
    match expr {
        Expr::Number { value, .. } => Expr::number(value, to),
        Expr::Bool(value) => Expr::number(u8::from(value), to),
        expr => Expr::Cast {
            to,
            arg: Box::new(expr),
        },
    }
}

/// A constant as a value of the checker, with its type; `None` for other values.
fn constant(data: &Data) -> Option<(Value, Type)> {
    Some(match data {
        Data::Int(value) => (Value::Int(value.clone()), Type::Int),
        Data::Scalar(Expr::Bool(value)) => (Value::Bool(*value), Type::Bool),
        Data::Scalar(Expr::Number { value, ty }) => (Value::Int(value.clone()), type_of(*ty)),
        Data::String(text) => (Value::String(text.clone()), Type::String),
        _ => return None,
    })
}

/// An integer of type `int` as an `int<W>`, and its width W; `None` for a value that is not a signed number.
fn as_signed(data: Data) -> Option<(Expr, u32)> {
    match data {
        Data::Int(value) => {
            let width = value.bits() as u32 + 1;
            Some((Expr::number(value, Scalar::Int(width)), width))
        }
        Data::Scalar(expr) => match expr.scalar()? {
            Scalar::Int(width) => Some((expr, width)),
            _ => None,
        },
        _ => None,
    }
}

/// The P4 type of an IR type.
fn type_of(scalar: Scalar) -> Type {
    match scalar {
        Scalar::Bool => Type::Bool,
        Scalar::Bit(width) => Type::Bit(width),
        Scalar::Int(width) => Type::Signed(width),
    }
}

/// The type of the result of a binary operation on constants.
fn result_type(op: BinaryOp, left: &Type, right: &Type) -> Type {
    match (op, left, right) {
        (BinaryOp::Concat, Type::Bit(a), b) => Type::Bit(a + b.bits().unwrap_or(0)),
        (BinaryOp::Concat, Type::Signed(a), b) => Type::Signed(a + b.bits().unwrap_or(0)),
        _ => left.clone(),
    }
}
