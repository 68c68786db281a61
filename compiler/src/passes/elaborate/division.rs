//! Division. p4c has none at run time for BMv2: what is left of it when constants are known is an error there, and
//! here too, so that a program that we take is one that p4c takes.

use std::collections::BTreeSet;

use num_bigint::BigInt;

use super::Elaborator;
use crate::diag::{Code, Diagnostic, Span};
use crate::ir::{self, Expr, FieldPlace, HeaderPlace, Scalar, Stmt, StmtKind};

/// A division of operands that are not both known where it stands.
#[derive(Debug)]
pub struct Division {
    span: Span,
    /// `/`, or else `%`.
    quotient: bool,
    left: Expr,
    right: Expr,
}

impl Elaborator<'_> {
    /// `left / right`, or else `left % right`, of operands that are not both known.
    pub fn divide(&mut self, quotient: bool, left: Expr, right: Expr, span: Span) -> Expr {
        if let Some(simple) = without_division(quotient, &left, &right) {
            return simple;
        }
        let op = match quotient {
            true => ir::BinaryOp::Div,
            false => ir::BinaryOp::Mod,
        };
        let known = self.divisions.iter().any(|known| known.span == span);
        if !known {
            self.divisions.push(Division {
                span,
                quotient,
                left: left.clone(),
                right: right.clone(),
            });
        }
        Expr::binary(op, left, right)
    }

    /// Reports the divisions that are left to the target. Those of variables that are constants stay: p4c replaces
    /// variables by what they hold, and how far it sees is not for us to guess.
    pub fn refuse_divisions(&mut self) {
        if self.divisions.is_empty() {
            return;
        }
        let constants = Constants::of(&self.program);
        for division in std::mem::take(&mut self.divisions) {
            if constants.may_be(&division.left) && constants.may_be(&division.right) {
                continue;
            }
            let sign = match division.quotient {
                true => "/",
                false => "%",
            };
            let message = format!("`{sign}` needs operands that are known at compile time");
            self.diagnostics.report(
                Diagnostic::error(Code::NOT_CONSTANT, division.span, message)
                    .note("at run time, numbers can be divided by constant powers of two only"),
            );
        }
    }
}

/// Divisions of zero, and of a `bit<W>` by a power of two, are none.
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

/// Fields that some statement gives a constant, or the value of fields of this kind.
#[derive(Default)]
struct Constants(BTreeSet<ir::FieldRef>);

impl Constants {
    fn of(program: &ir::FlatProgram) -> Constants {
        let mut assigned = Vec::new();
        for state in program.parsers.iter().flat_map(|parser| &parser.states) {
            assignments(&state.body, &mut assigned);
        }
        for pipeline in &program.pipelines {
            assignments(&pipeline.body, &mut assigned);
        }
        for action in &program.actions {
            assignments(&action.body, &mut assigned);
        }
        let mut constants = Constants::default();
        loop {
            let before = constants.0.len();
            assigned.retain(|(target, value)| {
                let known = constants.may_be(value);
                if known {
                    constants.0.insert(*target);
                }
                !known
            });
            if constants.0.len() == before {
                return constants;
            }
        }
    }

    /// Whether the value may be known at compile time.
    fn may_be(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Number { .. } | Expr::Bool(_) => true,
            Expr::Field { place, .. } => fixed(place).is_some_and(|field| self.0.contains(&field)),
            Expr::Unary { arg, .. } | Expr::Cast { arg, .. } | Expr::Slice { arg, .. } => {
                self.may_be(arg)
            }
            Expr::Binary { left, right, .. } => self.may_be(left) && self.may_be(right),
            Expr::Choose { then, other, .. } => self.may_be(then) || self.may_be(other),
            Expr::Param { .. }
            | Expr::Valid(_)
            | Expr::UnionValid(_)
            | Expr::Header(_)
            | Expr::Union(_)
            | Expr::LastIndex(_)
            | Expr::UnionLastIndex(_)
            | Expr::Lookahead { .. } => false,
        }
    }
}

/// The field of a place that does not change while packets pass.
fn fixed(place: &FieldPlace) -> Option<ir::FieldRef> {
    match place.header {
        HeaderPlace::Fixed(header) => Some(ir::FieldRef {
            header,
            field: place.field,
        }),
        _ => None,
    }
}

fn assignments<'s>(body: &'s [Stmt], into: &mut Vec<(ir::FieldRef, &'s Expr)>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Assign { target, value } => {
                into.extend(fixed(target).map(|field| (field, value)));
            }
            StmtKind::If { then, other, .. } => {
                assignments(then, into);
                assignments(other, into);
            }
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => assignments(body, into),
            StmtKind::Apply(apply) => apply.bodies().for_each(|body| assignments(body, into)),
            _ => {}
        }
    }
}
