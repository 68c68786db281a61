//! Elaboration of the blocks of the architecture's package, in the order of processing, with bindings of their parameters.

mod tofino;
mod v1model;

use std::rc::Rc;

use super::builder::Builder;
use super::elaborate::frame::Instance;
use super::elaborate::Elaborator;
use super::Options;
use crate::diag::{Code, Diagnostic, Diagnostics, SourceMap};
use crate::sema::{ArgSource, CallInfo, CheckedProgram};
use crate::syntax::ast::Arg;

/// Elaborates the blocks of a program's package. The result must not be used if errors are reported.
pub fn elaborate<'a>(
    checked: &'a CheckedProgram,
    sources: &'a SourceMap,
    diagnostics: &'a mut Diagnostics,
    options: &'a Options,
) -> Builder<'a> {
    let build = Builder::new(checked, sources, diagnostics, options);
    let mut elaborator = Elaborator::new(build);
    match checked.main() {
        Some(main) => {
            elaborator.top_instances();
            match options.arch.is_tofino() {
                false => elaborator.v1model(main),
                true => elaborator.tofino(main),
            }
        }
        None => {
            let what =
                Diagnostic::global(Code::PACKAGE_RULE, "the program has no instance named main")
                    .help("end it with V1Switch(...) main;");
            elaborator.diagnostics.report_error(what);
        }
    }
    elaborator.finish()
}

impl Elaborator<'_> {
    /// The block instances of a package, in the order of its parameters; an element is `None` for an omitted argument. `None` after a
    /// reported error.
    fn package_arguments(
        &mut self,
        call: &CallInfo,
        args: &[Arg],
    ) -> Option<Vec<Option<Instance>>> {
        let top = Rc::clone(&self.top);
        (call.args.iter())
            .map(|arg| match arg.source {
                ArgSource::Arg(index) => Some(Some(self.instance_of(&args[index].value, &top)?)),
                _ => Some(None),
            })
            .collect()
    }
}
