//! Calls of externs that are not part of v1model, which are kept with `--emit-externs`.

use crate::diag::Span;
use crate::ir::{Effect, ExternInstanceId, ExternOperand, Primitive};
use crate::names::join;
use crate::passes::builder::data::Data;
use crate::passes::externs::call::{Argument, ExternArg};
use crate::passes::externs::Lowering;

impl Lowering<'_> {
    /// Emits a call that the target must implement, with numbers, headers and strings as operands. Structured arguments are split.
    pub fn foreign_call(
        &mut self,
        name: String,
        instance: Option<ExternInstanceId>,
        given: &[ExternArg],
        span: Span,
        scope: &str,
    ) {
        let mut args = Vec::new();
        let mut copies = Vec::new();
        for bound in given {
            let data = match &bound.argument {
                Argument::Value(data) => data.clone(),
                Argument::Place(place) => match place.is_fixed() {
                    true => self.value_of(place, span),
                    false => {
                        let own = self.allocate(&bound.ty, &join(scope, "tmp"));
                        let old = self.read(place, &bound.ty, span, scope);
                        self.assign(&own, old, &bound.ty, span, scope);
                        let data = self.value_of(&own, span);
                        copies.push((place, data.clone(), &bound.ty));
                        data
                    }
                },
                Argument::Object(_) | Argument::Omitted => continue,
            };
            match data {
                Data::String(text) => args.push(ExternOperand::String(text.to_string())),
                Data::Header(place) => args.push(ExternOperand::Header(place)),
                data => args.extend(self.leaves(data, &bound.ty).into_iter().filter_map(|leaf| {
                    match leaf.data {
                        Data::Scalar(expr) => Some(ExternOperand::Expr(expr)),
                        Data::Header(place) => Some(ExternOperand::Header(place)),
                        _ => None,
                    }
                })),
            }
        }
        let call = Primitive::Extern {
            name,
            instance,
            args,
        };
        self.emit(span, Effect::Primitive(call));
        for (place, data, ty) in copies {
            self.assign(place, data, ty, span, scope);
        }
    }
}
