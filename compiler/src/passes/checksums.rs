//! Pass: checksums.
//!
//! Input: the bodies of controls that verify and update checksums. Output: a list of checksums. Invariants: each checksum has its complete
//! condition, and the controls contain only checksums and conditions.

use super::builder::ops;
use super::inlined::{Pending, Stmt, StmtKind};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::ir::{Checksum, Expr};

/// Collects checksums with the conditions of the enclosing statements, and reports other statements.
pub fn lower(body: Vec<Stmt>, into: &mut Vec<Checksum>, diagnostics: &mut Diagnostics) {
    collect(body, &Expr::Bool(true), into, diagnostics);
}

/// Collects the checksums of a body, which runs if `condition` is true.
fn collect(
    body: Vec<Stmt>,
    condition: &Expr,
    into: &mut Vec<Checksum>,
    diagnostics: &mut Diagnostics,
) {
    for stmt in body {
        match stmt.kind {
            StmtKind::Own(Pending::Checksum(mut checksum)) => {
                let own = std::mem::replace(&mut checksum.condition, Expr::Bool(true));
                checksum.condition = ops::and(condition.clone(), own);
                into.push(*checksum);
            }
            StmtKind::If {
                cond, then, other, ..
            } => {
                let holds = ops::and(condition.clone(), cond.clone());
                collect(then, &holds, into, diagnostics);
                let fails = ops::and(condition.clone(), cond.not());
                collect(other, &fails, into, diagnostics);
            }
            _ => {
                let what = format!(
                    "{}:{}: {}",
                    stmt.source.file, stmt.source.line, stmt.source.fragment
                );
                let message = format!(
                    "a checksum control may hold only calls of checksum functions on this target; {what} is not one"
                );
                diagnostics.report(Diagnostic::global(Code::TARGET, message));
            }
        }
    }
}
