//! Pass: divisions.
//!
//! Input: the inlined program, with a list of divisions whose operands are not both constant. Output: the same program. Invariant: operands
//! of a division at run time are variables with constant values; other divisions are reported.
//!
//! p4c does not support division at run time for its software switch, so programs that are accepted here are also accepted by p4c. p4c
//! propagates constants into variables to an extent that is not specified. Divisions of variables with constant values are therefore kept.

use std::collections::BTreeSet;

use super::inlined::{BlockCode, InlinedProgram, Stmt, StmtKind};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::ir::{walk, Effect, Expr, FieldRef};

/// Reports divisions at run time, except those whose operands may be constant.
pub fn refuse(program: &InlinedProgram, diagnostics: &mut Diagnostics) {
    if program.divisions.is_empty() {
        return;
    }
    let constants = Constants::of(program);
    for division in &program.divisions {
        if constants.may_be_constant(&division.left) && constants.may_be_constant(&division.right) {
            continue;
        }
        let sign = match division.quotient {
            true => "/",
            false => "%",
        };
        let message = format!("`{sign}` needs operands that are known at compile time");
        diagnostics.report(
            Diagnostic::error(Code::NOT_CONSTANT, division.span, message)
                .note("at run time, numbers can be divided by constant powers of two only"),
        );
    }
}

/// Fields to which a statement assigns a constant, or the value of another such field.
#[derive(Default)]
struct Constants(BTreeSet<FieldRef>);

impl Constants {
    fn of(program: &InlinedProgram) -> Constants {
        let mut assigned: Vec<(FieldRef, &Expr)> = Vec::new();
        for body in bodies(program) {
            walk(body, &mut |stmt| {
                if let StmtKind::Effect(Effect::Assign { target, value }) = &stmt.kind {
                    assigned.extend(target.fixed().map(|field| (field, value)));
                }
            });
        }
        let mut constants = Constants::default();
        loop {
            let before = constants.0.len();
            assigned.retain(|(target, value)| {
                let known = constants.may_be_constant(value);
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

    /// Whether an expression may have a constant value: its fields are in the set.
    fn may_be_constant(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Number { .. } | Expr::Bool(_) => true,
            Expr::Field { place, .. } => {
                (place.fixed()).is_some_and(|field| self.0.contains(&field))
            }
            Expr::Unary { arg, .. } | Expr::Cast { arg, .. } | Expr::Slice { arg, .. } => {
                self.may_be_constant(arg)
            }
            Expr::Binary { left, right, .. } => {
                self.may_be_constant(left) && self.may_be_constant(right)
            }
            Expr::Choose { then, other, .. } => {
                self.may_be_constant(then) || self.may_be_constant(other)
            }
            Expr::Param { .. }
            | Expr::Valid(_)
            | Expr::UnionValid(_)
            | Expr::Header(_)
            | Expr::Union(_)
            | Expr::LastIndex(_)
            | Expr::UnionLastIndex(_)
            | Expr::Lookahead { .. }
            | Expr::Result { .. } => false,
        }
    }
}

/// The bodies whose assignments are searched: those of parsers, controls and actions.
fn bodies(program: &InlinedProgram) -> impl Iterator<Item = &Vec<Stmt>> {
    let states = program.blocks.iter().flat_map(|block| match &block.code {
        BlockCode::Parser(states) => &states[..],
        BlockCode::Control(_) | BlockCode::Checksums(_) | BlockCode::Deparser(_) => &[],
    });
    let controls = program.controls().map(|(_, body)| body);
    (states.filter_map(|state| Some(&state.code.as_ref()?.body)))
        .chain(controls)
        .chain(&program.action_bodies)
}
