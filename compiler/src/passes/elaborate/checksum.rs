//! The controls that verify and update checksums.

use std::rc::Rc;

use super::call::{Argument, Bound};
use super::data::{Data, Place};
use super::externs::{fixed, value};
use super::frame::{Binding, ControlInstance};
use super::{ops, Elaborator, Region};
use crate::diag::Span;
use crate::ir::{self, Algorithm, CalculationInput, Checksum, Stmt, StmtKind};
use crate::sema::{DefKind, Type};
use crate::syntax::ast::Name;

impl Elaborator<'_> {
    /// Collects the checksums of a control, which may hold nothing else.
    pub fn checksum_block(
        &mut self,
        instance: &Rc<ControlInstance>,
        region: Region,
        arguments: Vec<Binding>,
    ) {
        self.region = region;
        let code = self.block(|this| this.apply_top(instance, arguments));
        self.collect_checksums(&code, &ir::Expr::Bool(true));
    }

    /// A call of one of the checksum functions.
    pub fn checksum(&mut self, name: &str, args: &[(Option<Name>, Bound)], span: Span) {
        let verify = name.starts_with("verify");
        let right = if verify {
            Region::Verify
        } else {
            Region::Compute
        };
        if self.region != right {
            let control = if verify {
                "VerifyChecksum"
            } else {
                "ComputeChecksum"
            };
            self.target(
                span,
                format!("{name} can be called only in the {control} control"),
            );
            return;
        }
        let Some(condition) = value(args, 0) else {
            return;
        };
        let target = match &args[2].1.argument {
            Argument::Place(Place::Scalar(place, _)) => fixed(*place),
            Argument::Value(Data::Scalar(ir::Expr::Field { place, .. })) => fixed(*place),
            _ => None,
        };
        let Some(target) = target else {
            self.target(args[2].1.span, "the checksum must be a field of a header");
            return;
        };
        let Some(algorithm) = self.checksum_algorithm(&args[3].1) else {
            return;
        };
        let Argument::Value(data) = args[1].1.argument.clone() else {
            return;
        };
        let mut inputs = self.calculation_inputs(data, &args[1].1.ty, args[1].1.span, None);
        if name.ends_with("_with_payload") {
            inputs.push(CalculationInput::Payload);
        }
        let calculation = self.calculation(algorithm, inputs, span);
        let source = self.source(span);
        self.program.checksums.push(Checksum {
            verify,
            condition,
            target,
            calculation,
            source,
        });
        // Marks the place among the statements, for the conditions around it.
        self.emit(span, StmtKind::Checksum(self.program.checksums.len() - 1));
    }

    fn checksum_algorithm(&mut self, bound: &Bound) -> Option<Algorithm> {
        let (Type::Enum(nominal), Argument::Value(data)) = (&bound.ty, &bound.argument) else {
            return None;
        };
        let index = usize::try_from(data.constant()?).ok()?;
        match &self.checked.def(nominal.id).kind {
            DefKind::Enum(decl) => Algorithm::from_name(&decl.members.get(index)?.name.name),
            _ => None,
        }
    }

    /// Adds the conditions of the statements around them; whatever else is there cannot be done at this place.
    fn collect_checksums(&mut self, code: &[Stmt], around: &ir::Expr) {
        for stmt in code {
            match &stmt.kind {
                StmtKind::Checksum(index) => {
                    let checksum = &mut self.program.checksums[*index];
                    let own = std::mem::replace(&mut checksum.condition, ir::Expr::Bool(true));
                    checksum.condition = ops::and(around.clone(), own);
                }
                StmtKind::If {
                    cond, then, other, ..
                } => {
                    self.collect_checksums(then, &ops::and(around.clone(), cond.clone()));
                    self.collect_checksums(other, &ops::and(around.clone(), cond.clone().not()));
                }
                _ => {
                    let what = format!(
                        "{}:{}: {}",
                        stmt.source.file, stmt.source.line, stmt.source.fragment
                    );
                    let message = format!(
                        "a checksum control may hold only calls of checksum functions on this target, and {what} is none"
                    );
                    let what = crate::diag::Diagnostic::global(crate::diag::Code::TARGET, message);
                    self.diagnostics.report(what);
                }
            }
        }
    }
}
