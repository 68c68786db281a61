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
    /// Width in storage, in bits.
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

/// Operators with one operand, whose type is also that of the result unless documented otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `!` on bool.
    Not,
    /// `~`.
    Complement,
    /// `-`, modulo 2^W.
    Negate,
}

/// Operators with two operands of one type, which is also that of the result unless documented otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    /// `|+|`.
    AddSat,
    /// `|-|`.
    SubSat,
    /// The right operand may have any unsigned type.
    Shl,
    /// Arithmetic on `int<W>`. The right operand may have any unsigned type.
    Shr,
    And,
    Or,
    Xor,
    /// `++`; the operands' widths add up.
    Concat,
    /// Comparison, with a `bool` result, as all comparisons.
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// `&&`; both operands may be evaluated, neither has effects.
    LogicalAnd,
    LogicalOr,
}

/// A pure expression. Every node has its type, see [`Expr::scalar`].
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number within the range of its type.
    Number { value: BigInt, ty: Scalar },
    /// A boolean.
    Bool(bool),
    /// The value of a field.
    Field { place: FieldPlace, ty: Scalar },
    /// An action's run-time parameter by position.
    Param { index: usize, ty: Scalar },
    /// Whether a header is valid.
    Valid(HeaderPlace),
    /// Whether a member of the union is valid.
    UnionValid(UnionId),
    /// A whole header; only as an operand of `Eq` and `Ne`.
    Header(HeaderPlace),
    /// A whole union; only as an operand of `Eq` and `Ne`.
    Union(UnionId),
    /// Index of the element extracted last, `bit<32>`.
    LastIndex(StackId),
    /// The same for a stack of unions.
    UnionLastIndex(UnionStackId),
    /// Bits of the packet after the current position, without consuming them; parsers only.
    Lookahead { offset: u32, width: u32 },
    /// The result of an extern's call; only between elaboration and the pass `externs`.
    Result { call: CallId, ty: Scalar },
    /// One operand.
    Unary { op: UnaryOp, arg: Box<Expr> },
    /// Two operands.
    Binary {
        op: BinaryOp,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// `cond ? then : other`.
    Choose {
        cond: Box<Expr>,
        then: Box<Expr>,
        other: Box<Expr>,
    },
    /// A conversion as by a P4 cast: truncation, extension by the source's sign, reinterpretation.
    Cast { to: Scalar, arg: Box<Expr> },
    /// `arg[high:low]`, `bit<high-low+1>`.
    Slice { high: u32, low: u32, arg: Box<Expr> },
}

impl Expr {
    /// A number of type `bit<width>`; truncated when too large.
    pub fn bits(value: impl Into<BigInt>, width: u32) -> Expr {
        Expr::number(value, Scalar::Bit(width))
    }

    /// A number of any type, wrapped into its range.
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

    /// The negation of a boolean.
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

    /// Whether the value is constant.
    pub fn is_constant(&self) -> bool {
        matches!(self, Expr::Number { .. } | Expr::Bool(_))
    }

    /// The type of the value. Whole headers and unions have none.
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

    /// Whether the tree is higher than `height` operators.
    pub fn is_taller(&self, height: usize) -> bool {
        let below = |arg: &Expr| height == 0 || arg.is_taller(height - 1);
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

/// `2^width - 1`.
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
