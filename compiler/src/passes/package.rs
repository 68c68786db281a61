//! Elaboration of the package `main`. The target elaborates its blocks ([`crate::targets::Target::elaborate`]).

use std::rc::Rc;

use super::builder::Builder;
use super::elaborate::frame::Instance;
use super::elaborate::Elaborator;
use super::Options;
use crate::diag::{Diagnostics, SourceMap};
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
            options.arch.target().elaborate(&mut elaborator, main);
        }
        None => options.arch.report_missing_main(elaborator.diagnostics),
    }
    elaborator.finish()
}

impl Elaborator<'_> {
    /// The block instances of a package, in the order of its parameters; an element is `None` for an omitted argument. `None` after a
    /// reported error.
    pub fn package_arguments(
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
