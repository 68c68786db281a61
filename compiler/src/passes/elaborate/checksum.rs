//! The controls that verify and update checksums.

use std::rc::Rc;

use super::call::{Argument, Bound};
use super::externs::value;
use super::frame::{Binding, ControlInstance};
use super::{Elaborator, Region};
use crate::diag::Span;
use crate::ir::{self, Algorithm, CalculationInput, Checksum};
use crate::passes::builder::data::{Data, Place};
use crate::passes::inlined::{BlockCode, StmtKind};
use crate::sema::{DefKind, Type};
use crate::syntax::ast::Name;

impl Elaborator<'_> {
    /// A control that verifies or updates checksums.
    pub fn checksum_block(
        &mut self,
        instance: &Rc<ControlInstance>,
        region: Region,
        arguments: Vec<Binding>,
    ) {
        self.region = region;
        let body = self.block(|this| this.apply_top(instance, arguments));
        let name = match region {
            Region::Verify => "verify_checksum",
            _ => "compute_checksum",
        };
        self.add_block(name, instance.decl.name.span, BlockCode::Checksums(body));
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
            Argument::Place(Place::Scalar(place, _)) => place.fixed(),
            Argument::Value(Data::Scalar(ir::Expr::Field { place, .. })) => place.fixed(),
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
        let checksum = Checksum {
            verify,
            condition,
            target,
            calculation,
            source,
        };
        self.emit(span, StmtKind::Checksum(Box::new(checksum)));
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
}
