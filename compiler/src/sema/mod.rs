//! Semantic analysis: names, types and compile-time values.
//!
//! [`check`] traverses the tree once, in order, as P4 requires names to be declared before they are used. It reports all errors that do not
//! depend on the target, and asks the architecture for its table properties. It returns the [`CheckedProgram`].

mod annotations;
mod args;
mod blocks;
mod builtin;
mod call;
mod checked;
mod checker;
mod construct;
mod convert;
mod decl;
mod expr;
mod lint;
mod operator;
mod stmt;
mod table;
#[cfg(test)]
mod tests;
mod typeref;
mod types;
pub mod value;

pub use checked::*;
pub(crate) use table::LANGUAGE_PROPERTIES;
pub use types::*;
pub use value::{FoldError, Value, MAX_WIDTH};

use crate::arch::Arch;
use crate::diag::Diagnostics;
use crate::syntax::ast::P4Program;
use checker::Checker;

/// Resolves names, checks types and evaluates constants. The result is usable by later phases only if `diagnostics` has no errors.
pub fn check(program: P4Program, arch: Arch, diagnostics: &mut Diagnostics) -> CheckedProgram {
    let mut checker = Checker::new(&program, arch, diagnostics);
    for decl in &program.decls {
        checker.declaration(decl);
    }
    let (mut out, used) = checker.finish();
    out.program = program;
    if !diagnostics.has_errors() {
        lint::lint(&out, &used, diagnostics);
    }
    out
}
