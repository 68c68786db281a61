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
use crate::diag::{Diagnostics, ErrorReported};
use crate::syntax::ast::P4Program;
use checker::Checker;

/// Resolves names, checks types and evaluates constants.
///
/// # Errors
/// The program has errors, here or in earlier phases.
pub fn check(
    program: P4Program,
    arch: Arch,
    diagnostics: &mut Diagnostics,
) -> Result<CheckedProgram, ErrorReported> {
    let Checked { program, errors } = check_despite_errors(program, arch, diagnostics);
    match errors {
        None => Ok(program),
        Some(reported) => Err(reported),
    }
}

/// A program after the checks, with or without errors.
#[derive(Debug)]
pub struct Checked {
    /// The typed program. With errors, types and resolutions are incomplete: editors can query the program, but no pass can lower it.
    pub program: CheckedProgram,
    /// The proof of errors; `None` for a correct program.
    pub errors: Option<ErrorReported>,
}

/// Checks a program like [`check`], but returns the typed program in spite of errors, for editors.
pub fn check_despite_errors(
    program: P4Program,
    arch: Arch,
    diagnostics: &mut Diagnostics,
) -> Checked {
    diagnostics.enter("sema");
    let mut checker = Checker::new(&program, arch, diagnostics);
    for decl in &program.decls {
        checker.declaration(decl);
    }
    let (mut out, used) = checker.finish();
    out.program = program;
    if !diagnostics.has_errors() {
        diagnostics.enter("lint");
        lint::lint(&out, &used, diagnostics);
    }
    let errors = diagnostics.error_reported();
    Checked {
        program: out,
        errors,
    }
}
