//! Divisions. Those by powers of two become shifts and masks; others are recorded for the pass `divisions` of [`crate::passes`].

use num_bigint::BigInt;

use super::Builder;
use crate::diag::Span;
use crate::ir::{self, Expr, Scalar};
use crate::passes::inlined::Division;

impl Builder<'_> {
    /// `left / right` if `quotient`, else `left % right`, of operands that are not both constant.
    pub fn divide(&mut self, quotient: bool, left: Expr, right: Expr, span: Span) -> Expr {
        if let Some(simple) = without_division(quotient, &left, &right) {
            return simple;
        }
        let op = match quotient {
            true => ir::BinaryOp::Div,
            false => ir::BinaryOp::Mod,
        };
        let known = self.into.divisions.iter().any(|known| known.span == span);
        if !known {
            self.into.divisions.push(Division {
                span,
                quotient,
                left: left.clone(),
                right: right.clone(),
            });
        }
        Expr::binary(op, left, right)
    }
}

/// A division of zero, or of a `bit<W>` by a power of two, without the division; `None` for other divisions.
fn without_division(quotient: bool, left: &Expr, right: &Expr) -> Option<Expr> {
    if matches!(left, Expr::Number { value, .. } if *value == BigInt::ZERO) {
        return Some(left.clone());
    }
    let Expr::Number {
        value,
        ty: Scalar::Bit(width),
    } = right
    else {
        return None;
    };
    let zeros = value.trailing_zeros()?;
    if value.bits() != zeros + 1 {
        return None;
    }
    Some(match (quotient, zeros) {
        (true, 0) => left.clone(),
        (false, 0) => Expr::bits(0, *width),
        (true, zeros) => Expr::binary(ir::BinaryOp::Shr, left.clone(), Expr::bits(zeros, 32)),
        (false, _) => Expr::binary(
            ir::BinaryOp::And,
            left.clone(),
            Expr::bits(value - 1, *width),
        ),
    })
}
