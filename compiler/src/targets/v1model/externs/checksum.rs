//! Calls that verify and update checksums.

use super::algorithm::algorithm_named;
use crate::diag::{Code, Span};
use crate::ir::{self, CalculationInput, Checksum};
use crate::passes::builder::data::{Data, Place};
use crate::passes::externs::call::{Argument, ExternArg, Region};
use crate::passes::externs::{enum_member, Lowering};
use crate::passes::inlined::Pending;

impl Lowering<'_> {
    /// Lowers a call of `verify_checksum`, `update_checksum` or their variants with payload.
    pub fn checksum(&mut self, name: &str, args: &[ExternArg], span: Span) {
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
        let Ok(condition) = self.number_at(args, 0, span) else {
            return;
        };
        let target = match &args[2].argument {
            Argument::Place(Place::Scalar(place, _)) => place.fixed(),
            Argument::Value(Data::Scalar(ir::Expr::Field { place, .. })) => place.fixed(),
            _ => None,
        };
        let Some(target) = target else {
            self.target(args[2].span, "the checksum must be a field of a header");
            return;
        };
        let algorithm = args[3]
            .data()
            .and_then(|data| enum_member(self, data, &args[3].ty));
        let Some(algorithm) = algorithm.and_then(|name| algorithm_named(&name)) else {
            let message = "the algorithm must be a member of HashAlgorithm known at compile time";
            self.error(Code::NOT_CONSTANT, args[3].span, message);
            return;
        };
        let Some(data) = args[1].data().cloned() else {
            self.impossible(span, "the data of a checksum is not a value");
            return;
        };
        let mut inputs = self.calculation_inputs(data, &args[1].ty, args[1].span, None);
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
        self.emit(span, Pending::Checksum(Box::new(checksum)));
    }
}
