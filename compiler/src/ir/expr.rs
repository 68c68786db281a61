//! Pure expressions over fields, action parameters and constants.

use num_bigint::BigInt;

use super::{CallId, FieldPlace, HeaderPlace, StackId, UnionId, UnionStackId};

/// The type of a number or boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// `bool`; one bit wide when stored.
    Bool,
    /// `bit<W>`, and also errors and enums.
    Bit(u32),
    /// `int<W>`.
    Int(u32),
}

impl Scalar {
    /// Width in bits of a stored value of this type.
    pub fn width(self) -> u32 {
        match self {
            Scalar::Bool => 1,
            Scalar::Bit(width) | Scalar::Int(width) => width,
        }
    }

    /// Whether values are two's-complement numbers.
    pub fn signed(self) -> bool {
        matches!(self, Scalar::Int(_))
    }
}

/// A unary operator. The result has the type of the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `!`, on `bool`.
    Not,
    /// `~`, on `bit<W>` and `int<W>`.
    Complement,
    /// `-`, modulo 2^W.
    Negate,
}

/// A binary operator. Both operands and the result have the same type unless documented otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `+`, modulo 2^W.
    Add,
    /// `-`, modulo 2^W.
    Sub,
    /// `*`, modulo 2^W.
    Mul,
    /// `/`, truncated towards zero.
    Div,
    /// `%`, the remainder of `/`.
    Mod,
    /// `|+|`, saturating addition.
    AddSat,
    /// `|-|`, saturating subtraction.
    SubSat,
    /// `<<`. The right operand may have any unsigned type.
    Shl,
    /// `>>`: arithmetic on `int<W>`, logical on `bit<W>`. The right operand may have any unsigned type.
    Shr,
    /// `&`, bitwise.
    And,
    /// `|`, bitwise.
    Or,
    /// `^`, bitwise.
    Xor,
    /// `++`. The result's width is the sum of the operands' widths.
    Concat,
    /// `==`, with a `bool` result. Also compares whole headers and unions.
    Eq,
    /// `!=`, with a `bool` result. Also compares whole headers and unions.
    Ne,
    /// `<`, with a `bool` result.
    Lt,
    /// `<=`, with a `bool` result.
    Le,
    /// `>`, with a `bool` result.
    Gt,
    /// `>=`, with a `bool` result.
    Ge,
    /// `&&` on `bool`. A target may evaluate both operands, since expressions have no side effects.
    LogicalAnd,
    /// `||` on `bool`. A target may evaluate both operands, since expressions have no side effects.
    LogicalOr,
}

/// A pure expression. Every node has its type, see [`Expr::scalar`].
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// An integer constant.
    Number {
        /// The value, within the range of the type.
        value: BigInt,
        /// The type, `bit<W>` or `int<W>`.
        ty: Scalar,
    },
    /// A boolean constant.
    Bool(bool),
    /// The value of a field.
    Field {
        /// The field.
        place: FieldPlace,
        /// Type of the field.
        ty: Scalar,
    },
    /// A run-time parameter of the action, which the table entry sets.
    Param {
        /// Position in [`super::Action::params`].
        index: usize,
        /// Type of the parameter.
        ty: Scalar,
    },
    /// Whether a header is valid.
    Valid(HeaderPlace),
    /// Whether a member of the union is valid.
    UnionValid(UnionId),
    /// A whole header; only as an operand of `Eq` and `Ne`.
    Header(HeaderPlace),
    /// A whole union; only as an operand of `Eq` and `Ne`.
    Union(UnionId),
    /// `lastIndex` of a header stack, the index of the element that was extracted last; of type `bit<32>`.
    LastIndex(StackId),
    /// `lastIndex` of a stack of header unions; of type `bit<32>`.
    UnionLastIndex(UnionStackId),
    /// Bits of the packet after the current position, which are not consumed; parsers only.
    Lookahead {
        /// Distance from the current position in bits.
        offset: u32,
        /// Number of bits.
        width: u32,
    },
    /// The result of a call of an extern; exists only between elaboration and the pass `externs`.
    Result {
        /// The call.
        call: CallId,
        /// Type of the result.
        ty: Scalar,
    },
    /// A unary operation.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// The operand.
        arg: Box<Expr>,
    },
    /// A binary operation.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// The left operand.
        left: Box<Expr>,
        /// The right operand.
        right: Box<Expr>,
    },
    /// The conditional expression `cond ? then : other`.
    Choose {
        /// The condition, a `bool`.
        cond: Box<Expr>,
        /// The value if the condition is true.
        then: Box<Expr>,
        /// The value if the condition is false.
        other: Box<Expr>,
    },
    /// A cast (P4_16 specification, "Casts"): truncates, extends by the source's sign, or reinterprets.
    Cast {
        /// Type of the result.
        to: Scalar,
        /// The operand.
        arg: Box<Expr>,
    },
    /// The bits `arg[high:low]`, of type `bit<high - low + 1>`.
    Slice {
        /// Position of the most significant bit, inclusive; 0 is the least significant bit of `arg`.
        high: u32,
        /// Position of the least significant bit.
        low: u32,
        /// The operand.
        arg: Box<Expr>,
    },
}

impl Expr {
    /// A constant of type `bit<width>`, with `value` modulo 2^width.
    pub fn bits(value: impl Into<BigInt>, width: u32) -> Expr {
        Expr::number(value, Scalar::Bit(width))
    }

    /// A constant of type `ty`, with `value` wrapped into the range of the type.
    pub fn number(value: impl Into<BigInt>, ty: Scalar) -> Expr {
        let value = wrap(&value.into(), ty);
        match ty {
            Scalar::Bool => Expr::Bool(value != BigInt::ZERO),
            _ => Expr::Number { value, ty },
        }
    }

    /// The value of a field of type `ty`.
    pub fn field(place: impl Into<FieldPlace>, ty: Scalar) -> Expr {
        Expr::Field {
            place: place.into(),
            ty,
        }
    }

    /// A unary operation.
    pub fn unary(op: UnaryOp, arg: Expr) -> Expr {
        Expr::Unary {
            op,
            arg: Box::new(arg),
        }
    }

    /// A binary operation.
    pub fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
        Expr::Binary {
            op,
            left: Box::new(left),
            right: Box::new(right),
        }
    }

    /// The logical negation of a boolean, simplified for constants and negations.
    #[allow(clippy::should_implement_trait)]
    pub fn not(self) -> Expr {
        match self {
            Expr::Bool(value) => Expr::Bool(!value),
            Expr::Unary {
                op: UnaryOp::Not,
                arg,
            } => *arg,
            other => Expr::unary(UnaryOp::Not, other),
        }
    }

    /// Whether the expression is a constant node; constant operations are not evaluated.
    pub fn is_constant(&self) -> bool {
        matches!(self, Expr::Number { .. } | Expr::Bool(_))
    }

    /// The type of the expression; `None` for whole headers and unions.
    pub fn scalar(&self) -> Option<Scalar> {
        Some(match self {
            Expr::Number { ty, .. }
            | Expr::Field { ty, .. }
            | Expr::Param { ty, .. }
            | Expr::Result { ty, .. } => *ty,
            Expr::Bool(_) | Expr::Valid(_) | Expr::UnionValid(_) => Scalar::Bool,
            Expr::Header(_) | Expr::Union(_) => return None,
            Expr::LastIndex(_) | Expr::UnionLastIndex(_) => Scalar::Bit(32),
            Expr::Lookahead { width, .. } => Scalar::Bit(*width),
            Expr::Unary { arg, .. } => arg.scalar()?,
            Expr::Binary { op, left, right } => match op {
                BinaryOp::Eq
                | BinaryOp::Ne
                | BinaryOp::Lt
                | BinaryOp::Le
                | BinaryOp::Gt
                | BinaryOp::Ge
                | BinaryOp::LogicalAnd
                | BinaryOp::LogicalOr => Scalar::Bool,
                BinaryOp::Concat => match left.scalar()? {
                    Scalar::Int(width) => Scalar::Int(width + right.scalar()?.width()),
                    left => Scalar::Bit(left.width() + right.scalar()?.width()),
                },
                _ => left.scalar()?,
            },
            Expr::Choose { then, .. } => then.scalar()?,
            Expr::Cast { to, .. } => *to,
            Expr::Slice { high, low, .. } => Scalar::Bit(high - low + 1),
        })
    }

    /// Whether the expression nests more than `height` operators.
    pub fn is_deeper_than(&self, height: usize) -> bool {
        let below = |arg: &Expr| height == 0 || arg.is_deeper_than(height - 1);
        match self {
            Expr::Unary { arg, .. } | Expr::Cast { arg, .. } | Expr::Slice { arg, .. } => {
                below(arg)
            }
            Expr::Binary { left, right, .. } => below(left) || below(right),
            Expr::Choose { cond, then, other } => below(cond) || below(then) || below(other),
            _ => false,
        }
    }

    /// Visits this node and its descendants in pre-order.
    pub fn walk(&self, visit: &mut impl FnMut(&Expr)) {
        visit(self);
        match self {
            Expr::Unary { arg, .. } | Expr::Cast { arg, .. } | Expr::Slice { arg, .. } => {
                arg.walk(visit)
            }
            Expr::Binary { left, right, .. } => {
                left.walk(visit);
                right.walk(visit);
            }
            Expr::Choose { cond, then, other } => {
                cond.walk(visit);
                then.walk(visit);
                other.walk(visit);
            }
            _ => {}
        }
    }
}

/// The mask of the `width` low bits, `2^width - 1`.
pub fn mask(width: u32) -> BigInt {
    (BigInt::from(1) << width) - 1
}

/// Wraps a number into the range of a type, modulo 2^W.
pub fn wrap(value: &BigInt, ty: Scalar) -> BigInt {
    let width = ty.width();
    let low = value & mask(width);
    match ty {
        Scalar::Int(_) if width > 0 && low.bit(u64::from(width) - 1) => {
            low - (BigInt::from(1) << width)
        }
        _ => low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrap_gives_twos_complement() {
        assert_eq!(wrap(&BigInt::from(-1), Scalar::Bit(8)), BigInt::from(255));
        assert_eq!(wrap(&BigInt::from(255), Scalar::Int(8)), BigInt::from(-1));
        assert_eq!(wrap(&BigInt::from(-129), Scalar::Int(8)), BigInt::from(127));
        assert_eq!(wrap(&BigInt::from(256), Scalar::Bit(8)), BigInt::from(0));
    }

    #[test]
    fn concat_adds_widths() {
        let both = Expr::binary(BinaryOp::Concat, Expr::bits(1, 4), Expr::bits(2, 12));
        assert_eq!(both.scalar(), Some(Scalar::Bit(16)));
    }
}
