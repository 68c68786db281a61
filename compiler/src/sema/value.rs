//! Compile-time values, and the arithmetic on them (spec § 8, 18).
//!
//! The same functions fold constants in the type checker and evaluate constructor arguments when instances are elaborated, so both
//! agree. Integers of type `bit<W>` are kept in `0..2^W`, those of `int<W>` in `-2^(W-1)..2^(W-1)`.

use super::types::Type;
use crate::syntax::ast::{BinaryOp, DeclId, Name, UnaryOp};
use num_bigint::{BigInt, Sign};
use num_traits::{One, Signed, ToPrimitive, Zero};
use std::rc::Rc;

/// A compile-time value, interpreted by its type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A value of `bit<W>`, `int<W>` or `int`; also of a serializable enum or a `type` over these. The number of an enum need not be that
    /// of a member.
    Int(BigInt),
    /// A value of `bool`.
    Bool(bool),
    /// A value of `string`, escapes resolved.
    String(Name),
    /// A member of `error`, of `match_kind`, or of an enum without underlying type.
    Member(DeclId),
    /// A struct or valid header (fields in order of declaration), a tuple or a list.
    Aggregate(Rc<[Value]>),
    /// An invalid header or header union, `{#}`.
    InvalidHeader,
}

impl Value {
    /// Approximate memory of the value in bytes, without the values of its parts. Limits the total size of constants.
    pub fn bytes(&self) -> u64 {
        match self {
            Value::Int(n) => n.bits() / 8,
            Value::String(text) => text.len() as u64,
            Value::Aggregate(parts) => 16 * parts.len() as u64,
            _ => 0,
        }
    }

    /// The number of an [`Value::Int`]; `None` for other values.
    pub fn as_int(&self) -> Option<&BigInt> {
        match self {
            Value::Int(n) => Some(n),
            _ => None,
        }
    }

    /// The value of a [`Value::Bool`]; `None` for other values.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The number as `u32`; `None` for other values and for numbers out of range.
    pub fn as_u32(&self) -> Option<u32> {
        self.as_int().and_then(|n| n.to_u32())
    }
}

/// The reason why a constant expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// `x / 0` or `x % 0`.
    #[error("division by zero")]
    DivisionByZero,
    /// `/` or `%` with a negative operand, which P4 does not define.
    #[error("division is not defined for negative numbers")]
    NegativeDivision,
    /// A shift by a negative amount, such as `x << -1`.
    #[error("shift by a negative amount")]
    NegativeShift,
    /// A left shift of an `int` whose result would exceed the limit of compile-time numbers, such as `1 << 100000000`.
    #[error("shift amount is too large")]
    HugeShift,
    /// A product that would exceed the limit of compile-time numbers.
    #[error("the number is too large")]
    HugeNumber,
    /// A concatenation of strings that would exceed 65536 bytes.
    #[error("the string is longer than 65536 bytes")]
    HugeString,
    /// The operator has no compile-time result for these operands. The type checker reports wrong operand types itself.
    #[error("not a compile-time operation")]
    NotConstant,
}

/// Maximum width of `bit<W>`, `int<W>` and `varbit<W>`, and of compile-time numbers, in bits.
pub const MAX_WIDTH: u32 = 1 << 16;

/// Maximum length of a concatenated string, in bytes.
const MAX_STRING: usize = 1 << 16;

/// Maximum total size of the constant values of a program, in bytes (see [`Value::bytes`]).
pub const MAX_CONSTANT_BYTES: u64 = 64 << 20;

/// Wraps a number to the range of `ty` (modulo 2^W, two's complement), as casts do. Numbers of types without width are unchanged.
pub fn wrap(n: BigInt, ty: &Type) -> BigInt {
    match ty {
        Type::Bit(w) => modulo(n, *w),
        Type::Signed(w) => {
            let n = modulo(n, *w);
            if *w > 0 && n.bit(u64::from(*w) - 1) {
                n - (BigInt::one() << *w)
            } else {
                n
            }
        }
        _ => n,
    }
}

/// Whether the number is in the range of `ty`; always true for types without width.
pub fn fits(n: &BigInt, ty: &Type) -> bool {
    match ty {
        Type::Bit(_) | Type::Signed(_) => wrap(n.clone(), ty) == *n,
        _ => true,
    }
}

fn modulo(n: BigInt, width: u32) -> BigInt {
    if n.sign() != Sign::Minus && n.bits() <= u64::from(width) {
        return n;
    }
    let mask = (BigInt::one() << width) - 1;
    n & mask
}

/// Evaluates a unary operator on an operand of type `ty`.
///
/// # Errors
/// The operator is not defined for this operand.
pub fn unary(op: UnaryOp, operand: &Value, ty: &Type) -> Result<Value, FoldError> {
    Ok(match (op, operand) {
        (UnaryOp::Not, Value::Bool(b)) => Value::Bool(!b),
        (UnaryOp::Complement, Value::Int(n)) => Value::Int(wrap(-(n + BigInt::one()), ty)),
        (UnaryOp::Minus, Value::Int(n)) => Value::Int(wrap(-n, ty)),
        (UnaryOp::Plus, Value::Int(n)) => Value::Int(n.clone()),
        _ => return Err(FoldError::NotConstant),
    })
}

/// Evaluates a binary operator on two operands with their types. Shifts and concatenations have operands of different types; the result
/// of other operators has the type of the left one.
///
/// # Errors
/// The operator is not defined for these operands, such as a division by zero, or the result is too large.
pub fn binary(
    op: BinaryOp,
    left: (&Value, &Type),
    right: (&Value, &Type),
) -> Result<Value, FoldError> {
    let ty = left.1;
    match (left.0, right.0) {
        (Value::Int(a), Value::Int(b)) => integers(op, a, b, ty, right.1),
        (Value::Bool(a), Value::Bool(b)) => Ok(Value::Bool(match op {
            BinaryOp::And => *a && *b,
            BinaryOp::Or => *a || *b,
            BinaryOp::Eq => a == b,
            BinaryOp::Ne => a != b,
            _ => return Err(FoldError::NotConstant),
        })),
        (Value::String(a), Value::String(b))
            if op == BinaryOp::Concat && a.len() + b.len() > MAX_STRING =>
        {
            Err(FoldError::HugeString)
        }
        (Value::String(a), Value::String(b)) if op == BinaryOp::Concat => {
            Ok(Value::String(format!("{a}{b}").into()))
        }
        (a, b) => Ok(Value::Bool(match op {
            BinaryOp::Eq => a == b,
            BinaryOp::Ne => a != b,
            _ => return Err(FoldError::NotConstant),
        })),
    }
}

fn integers(
    op: BinaryOp,
    a: &BigInt,
    b: &BigInt,
    ty: &Type,
    right: &Type,
) -> Result<Value, FoldError> {
    let number = match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => {
            if a.bits() + b.bits() > u64::from(MAX_WIDTH) * 2 {
                return Err(FoldError::HugeNumber);
            }
            a * b
        }
        BinaryOp::Div | BinaryOp::Mod => {
            if b.is_zero() {
                return Err(FoldError::DivisionByZero);
            }
            if a.is_negative() || b.is_negative() {
                return Err(FoldError::NegativeDivision);
            }
            if op == BinaryOp::Div {
                a / b
            } else {
                a % b
            }
        }
        BinaryOp::AddSat => return Ok(Value::Int(saturate(a + b, ty))),
        BinaryOp::SubSat => return Ok(Value::Int(saturate(a - b, ty))),
        BinaryOp::Shl | BinaryOp::Shr => return shift(op, a, b, ty).map(Value::Int),
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitXor => a ^ b,
        BinaryOp::BitOr => a | b,
        BinaryOp::Concat => {
            let (Some(wa), Some(wb)) = (ty.bits(), right.bits()) else {
                return Err(FoldError::NotConstant);
            };
            let joined = (modulo(a.clone(), wa) << wb) | modulo(b.clone(), wb);
            let ty = if matches!(ty, Type::Signed(_)) {
                Type::Signed(wa + wb)
            } else {
                Type::Bit(wa + wb)
            };
            return Ok(Value::Int(wrap(joined, &ty)));
        }
        BinaryOp::Le => return Ok(Value::Bool(a <= b)),
        BinaryOp::Ge => return Ok(Value::Bool(a >= b)),
        BinaryOp::Lt => return Ok(Value::Bool(a < b)),
        BinaryOp::Gt => return Ok(Value::Bool(a > b)),
        BinaryOp::Ne => return Ok(Value::Bool(a != b)),
        BinaryOp::Eq => return Ok(Value::Bool(a == b)),
        BinaryOp::And | BinaryOp::Or => return Err(FoldError::NotConstant),
    };
    Ok(Value::Int(wrap(number, ty)))
}

fn shift(op: BinaryOp, a: &BigInt, b: &BigInt, ty: &Type) -> Result<BigInt, FoldError> {
    if b.is_negative() {
        return Err(FoldError::NegativeShift);
    }
    if op == BinaryOp::Shr {
        // Arithmetic shift: right shifts of negative numbers keep the sign. Shifting by more than all bits changes nothing.
        let amount = b.to_u64().unwrap_or(u64::MAX).min(a.bits() + 1);
        return Ok(wrap(a >> amount, ty));
    }
    if let Some(width) = ty.bits() {
        let amount = b.to_u64().unwrap_or(u64::MAX);
        return Ok(if amount >= u64::from(width) {
            BigInt::zero()
        } else {
            wrap(a << amount, ty)
        });
    }
    match b.to_u64() {
        Some(amount) if a.bits() + amount <= u64::from(MAX_WIDTH) * 2 => Ok(a << amount),
        _ if a.is_zero() => Ok(BigInt::zero()),
        _ => Err(FoldError::HugeShift),
    }
}

fn saturate(n: BigInt, ty: &Type) -> BigInt {
    let (min, max) = match ty {
        Type::Bit(w) => (BigInt::zero(), (BigInt::one() << *w) - 1),
        Type::Signed(w) if *w > 0 => (
            -(BigInt::one() << (*w - 1)),
            (BigInt::one() << (*w - 1)) - 1,
        ),
        _ => return n,
    };
    n.clamp(min, max)
}

/// Evaluates the slice `value[hi:lo]` of a number of type `ty`: bits `lo` to `hi` inclusive, as an unsigned number.
///
/// # Errors
/// The value is not a number, or `hi < lo`.
pub fn slice(value: &Value, ty: &Type, hi: u32, lo: u32) -> Result<Value, FoldError> {
    let (Value::Int(n), true) = (value, hi >= lo) else {
        return Err(FoldError::NotConstant);
    };
    let n = match ty.bits() {
        Some(width) => modulo(n.clone(), width),
        None => n.clone(),
    };
    Ok(Value::Int(modulo(n >> lo, hi - lo + 1)))
}

/// Casts a value from type `from` to type `to`. The caller checks that the cast exists, and replaces `type`s and serializable enums by
/// their underlying types.
pub fn cast(value: &Value, from: &Type, to: &Type) -> Result<Value, FoldError> {
    Ok(match (value, to) {
        (Value::Int(n), Type::Bool) if from.is_numeric() => Value::Bool(!n.is_zero()),
        (Value::Bool(b), Type::Bit(_) | Type::Int | Type::Signed(_)) => {
            Value::Int(BigInt::from(u8::from(*b)))
        }
        (Value::Int(n), Type::Bit(_) | Type::Signed(_) | Type::Int) => {
            Value::Int(wrap(n.clone(), to))
        }
        (value, _) => value.clone(),
    })
}
