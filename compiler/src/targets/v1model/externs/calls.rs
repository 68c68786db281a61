//! Calls of v1model's externs.

use crate::passes::externs::call::{Argument, Call, Callee, ExternArg, Region};
use crate::passes::externs::digest::DigestKey;
use crate::passes::externs::{LoweredObject, Lowering};
use num_bigint::BigInt;

use crate::diag::{Code, Diagnostic, Span};
use crate::ir::{self, Effect, FieldRef, MeterId, Primitive};
use crate::passes::builder::data::{Data, Place};
use crate::sema::Type;
use crate::targets::v1model::STANDARD_METADATA;

impl Lowering<'_> {
    /// Emits the statements of a call.
    pub fn v1model_call(&mut self, call: &Call) {
        match &call.callee {
            Callee::Function(name) => self.v1model_function(name, call),
            Callee::Method(id, method) => {
                self.v1model_method(self.lowered_object(*id), method, call)
            }
            Callee::This(_) => {
                self.impossible(call.span, "an extern of v1model has an abstract method");
            }
        }
    }

    /// Lowers a call of an extern function.
    fn v1model_function(&mut self, name: &str, call: &Call) {
        let (args, span, scope) = (&call.args[..], call.span, &*call.scope);
        match name {
            "mark_to_drop" => self.mark_to_drop(args, span, scope),
            "hash" => self.hash(args, span, scope),
            "random" => {
                let (Ok(low), Ok(high)) =
                    (self.number_at(args, 1, span), self.number_at(args, 2, span))
                else {
                    return;
                };
                self.with_target(&args[0], span, scope, |target| Primitive::Random {
                    target,
                    low,
                    high,
                });
            }
            "digest" => self.digest(args, span, scope),
            "clone" | "clone3" | "clone_preserving_field_list" => self.clone_packet(args, span),
            "resubmit" | "resubmit_preserving_field_list" => {
                if self.only_in(Region::Ingress, name, span) {
                    let fields = self.field_list(args, 0, span);
                    self.emit(span, Effect::Primitive(Primitive::Resubmit { fields }));
                }
            }
            "recirculate" | "recirculate_preserving_field_list" => {
                if self.only_in(Region::Egress, name, span) {
                    let fields = self.field_list(args, 0, span);
                    self.emit(span, Effect::Primitive(Primitive::Recirculate { fields }));
                }
            }
            "truncate" => {
                if let Ok(length) = self.number_at(args, 0, span) {
                    self.emit(span, Effect::Primitive(Primitive::Truncate(length)));
                }
            }
            "verify_checksum"
            | "verify_checksum_with_payload"
            | "update_checksum"
            | "update_checksum_with_payload" => self.checksum(name, args, span),
            _ if self.options.emit_externs => {
                self.foreign_call(name.to_owned(), None, args, span, scope)
            }
            _ => {
                let what = Diagnostic::error(
                    Code::TARGET,
                    span,
                    format!("extern function {name} is not part of v1model, so this target does not support it"),
                );
                let help = match call.ret {
                    Type::Void => "use --emit-externs to keep calls of it, for a switch that implements it",
                    _ => "declare it with an `out` parameter in place of the result, and use --emit-externs to keep calls of it",
                };
                self.diagnostics.report_error(what.help(help));
            }
        }
    }

    /// Lowers a call of a method of an object.
    fn v1model_method(&mut self, object: LoweredObject, method: &str, call: &Call) {
        let (args, span, scope) = (&call.args[..], call.span, &*call.scope);
        match (object, method) {
            (LoweredObject::Counter(counter), _) => {
                if let Ok(index) = self.number_at(args, 0, span) {
                    self.emit(span, Effect::Primitive(Primitive::Count { counter, index }));
                }
            }
            (LoweredObject::Meter(meter), _) => {
                if let Ok(index) = self.number_at(args, 0, span) {
                    let make = |target| Primitive::ExecuteMeter {
                        meter,
                        index,
                        target,
                        precolor: None,
                    };
                    self.with_target(&args[1], span, scope, make);
                }
            }
            (LoweredObject::Register(register), "read") => {
                if let Ok(index) = self.number_at(args, 1, span) {
                    let make = |target| Primitive::RegisterRead {
                        target,
                        register,
                        index,
                    };
                    self.with_target(&args[0], span, scope, make);
                }
            }
            (LoweredObject::Register(register), _) => {
                if let (Ok(index), Ok(value)) =
                    (self.number_at(args, 0, span), self.number_at(args, 1, span))
                {
                    let write = Primitive::RegisterWrite {
                        register,
                        index,
                        value,
                    };
                    self.emit(span, Effect::Primitive(write));
                }
            }
            // The switch counts a hit of the entry without a primitive.
            (LoweredObject::DirectCounter(_), _) => {}
            (LoweredObject::DirectMeter(meter), _) => {
                self.direct_meter(meter, &args[0], span, scope)
            }
            (LoweredObject::Other(instance), _) => {
                let ty = self.program.extern_instances[instance.index()].ty.clone();
                let name = format!("_{ty}_{method}");
                self.foreign_call(name, Some(instance), args, span, scope);
            }
            (LoweredObject::Invalid(_), _) => {}
            (LoweredObject::ActionProfile(_) | LoweredObject::Own(_), _) => {
                self.impossible(span, "a method is called of an object without methods");
            }
        }
    }

    /// Lowers `mark_to_drop`. The target's primitive writes the drop port, which only the target determines, to `standard_metadata`. If the
    /// argument is a copy of `standard_metadata`, the result is moved to the copy, and the original is restored.
    fn mark_to_drop(&mut self, args: &[ExternArg], span: Span, scope: &str) {
        let primitive = Effect::Primitive(Primitive::MarkToDrop {
            metadata: STANDARD_METADATA,
        });
        let Some(Argument::Place(Place::Struct(members))) =
            args.first().map(|given| &given.argument)
        else {
            return self.emit(span, primitive);
        };
        let header = STANDARD_METADATA;
        let mut written = Vec::new();
        for name in ["egress_spec", "mcast_grp"] {
            let fields = &self.program.storage.header_type(header).fields;
            let field = fields.iter().position(|field| field.name == name);
            let member = members.iter().find(|(member, _)| &**member == name);
            if let (Some(field), Some((_, Place::Scalar(place, ty)))) = (field, member) {
                let original = FieldRef {
                    header,
                    field: field as u32,
                };
                if *place == original.into() {
                    return self.emit(span, primitive);
                }
                written.push((original, *place, *ty));
            }
        }
        let mut kept = Vec::new();
        for (original, _, ty) in &written {
            let aside = self.temporary(scope, "tmp", *ty);
            let value = ir::Expr::field(*original, *ty);
            self.emit(
                span,
                Effect::Assign {
                    target: aside.into(),
                    value,
                },
            );
            kept.push(ir::Expr::field(aside, *ty));
        }
        self.emit(span, primitive);
        for ((original, copy, ty), aside) in written.into_iter().zip(kept) {
            let value = ir::Expr::field(original, ty);
            self.emit(
                span,
                Effect::Assign {
                    target: copy,
                    value,
                },
            );
            self.emit(
                span,
                Effect::Assign {
                    target: original.into(),
                    value: aside,
                },
            );
        }
    }

    /// Whether the current call is in the block `region`; reports a call elsewhere.
    pub fn only_in(&mut self, region: Region, name: &str, span: Span) -> bool {
        if self.region == region {
            return true;
        }
        let place = if region == Region::Ingress {
            "ingress"
        } else {
            "egress"
        };
        self.target(
            span,
            format!("{name} can be called only in {place} on this target"),
        );
        false
    }

    /// Emits a primitive that stores a number in the argument `bound`. BMv2 requires a field of a fixed header; for other storage, the number
    /// is first stored in a variable.
    fn with_target(
        &mut self,
        bound: &ExternArg,
        span: Span,
        scope: &str,
        primitive: impl FnOnce(FieldRef) -> Primitive,
    ) {
        let place = match &bound.argument {
            Argument::Place(place) => place.clone(),
            // The result is not used: the argument is `_`, or omitted.
            _ => Place::Ignore,
        };
        if let Place::Scalar(
            ir::FieldPlace {
                header: ir::HeaderPlace::Fixed(header),
                field,
            },
            _,
        ) = place
        {
            let primitive = primitive(FieldRef { header, field });
            self.emit(span, Effect::Primitive(primitive));
            return;
        }
        let Some(ty) = self.scalar(&bound.ty) else {
            let message = format!(
                "the result must be a number on this target, not {}",
                bound.ty
            );
            self.target(bound.span, message);
            return;
        };
        let held = self.temporary(scope, "tmp", ty);
        let primitive = primitive(held);
        self.emit(span, Effect::Primitive(primitive));
        self.assign(
            &place,
            Data::Scalar(ir::Expr::field(held, ty)),
            &bound.ty,
            span,
            scope,
        );
    }

    /// Lowers `hash`. With a maximum of 0, the result is the base.
    fn hash(&mut self, args: &[ExternArg], span: Span, scope: &str) {
        let algorithm = self.algorithm(args, "algo", span);
        let (Ok(base), Ok(max)) = (self.number_at(args, 2, span), self.number_at(args, 4, span))
        else {
            return;
        };
        if matches!(&max, ir::Expr::Number { value, .. } if *value == BigInt::ZERO) {
            if let Argument::Place(place) = &args[0].argument {
                let data = self.cast(Data::Scalar(base), &args[0].ty);
                self.assign(place, data, &args[0].ty, span, scope);
            }
            return;
        }
        let Argument::Value(data) = &args[3].argument else {
            self.impossible(span, "the data of a hash is not a value");
            return;
        };
        let inputs = self.calculation_inputs(data.clone(), &args[3].ty, span, Some(scope));
        let calculation = self.calculation(algorithm, inputs, span);
        self.with_target(&args[0], span, scope, |target| Primitive::Hash {
            target,
            base,
            calculation,
            max,
        });
    }

    /// Lowers `digest`. The values are stored in the digest's own fields, so that later changes of the originals have no effect.
    fn digest(&mut self, args: &[ExternArg], span: Span, scope: &str) {
        let Ok(receiver) = self.number_at(args, 0, span) else {
            return;
        };
        let Argument::Value(data) = &args[1].argument else {
            self.impossible(span, "the data of a digest is not a value");
            return;
        };
        let ty = args[1].ty.clone();
        let (key, name) = match ty.nominal() {
            Some(nominal) => {
                let name = self.type_name(nominal);
                (DigestKey::Type(name.clone()), name)
            }
            None => {
                let unnamed = |key: &&DigestKey| matches!(key, DigestKey::Call(_));
                let before = self.digests.keys().filter(unnamed).count();
                (DigestKey::Call(span), format!("digest_{before}"))
            }
        };
        self.send_digest((key, name), receiver, (data.clone(), ty), span, scope);
    }

    /// Lowers `direct_meter.read`. The switch stores the colour in a field before the action runs: the argument of the first read, if that is
    /// a field. Other reads copy the colour from this field.
    fn direct_meter(&mut self, meter: MeterId, bound: &ExternArg, span: Span, scope: &str) {
        let Argument::Place(place) = &bound.argument else {
            self.impossible(span, "the result of a meter is not an lvalue");
            return;
        };
        self.into.meter_reads.push((meter, span));
        let fields = place.variables();
        let field = match (self.program.meters[meter.index()].result, &fields[..]) {
            (None, [field]) => *field,
            (Some(known), [field]) if known == *field => return,
            (known, _) => {
                // Copy the colour from the meter's field.
                let Some(ty) = self.scalar(&bound.ty) else {
                    let message = format!(
                        "the result must be a number on this target, not {}",
                        bound.ty
                    );
                    self.target(bound.span, message);
                    return;
                };
                let own = known.unwrap_or_else(|| self.temporary(scope, "color", ty));
                let held = self.program.storage.field(own).scalar().unwrap_or(ty);
                let color = Data::Scalar(ir::Expr::field(own, held));
                self.assign(place, color, &bound.ty, span, scope);
                own
            }
        };
        self.program.meters[meter.index()].result = Some(field);
    }
}
