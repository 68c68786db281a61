//! Warnings about programs that are legal, but probably not as intended.
//!
//! The lints run only on programs without errors. `unused` reports declarations without a use. `flow` is a dataflow analysis: it reports
//! values read before they are written, and fields of headers that cannot be valid.

mod flow;
mod state;
mod unused;

use super::checked::CheckedProgram;
use crate::diag::{Diagnostic, Diagnostics};
use crate::syntax::ast::*;
use rustc_hash::FxHashSet;

/// Runs all lints.
pub(super) fn lint(
    checked: &CheckedProgram,
    used: &FxHashSet<DeclId>,
    diagnostics: &mut Diagnostics,
) {
    if checked.main.is_some() {
        unused::unused(checked, used, diagnostics);
    }
    flow::flow(checked, diagnostics);
}

/// Reports a warning, unless `@noWarn` of an enclosing declaration disables it.
fn warn(
    checked: &CheckedProgram,
    diagnostics: &mut Diagnostics,
    enclosing: Option<DeclId>,
    diagnostic: Diagnostic,
) {
    let mut at = enclosing;
    while let Some(def) = at.and_then(|id| checked.opt_def(id)) {
        let off = def.kind.annotations().iter().any(|a| {
            diagnostic
                .warning
                .is_some_and(|warning| a.silences(warning))
        });
        if off {
            return;
        }
        at = def.parent;
    }
    diagnostics.report(diagnostic);
}
