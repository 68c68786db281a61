//! Calls of Tofino's externs.

use super::{Object, ObjectId};
use crate::arch::Arch;
use crate::diag::Span;
use crate::ir::{self, Effect, Expr, FieldList, FieldListId, Primitive, Scalar, Take};
use crate::passes::builder::data::{Data, Place};
use crate::passes::builder::{ops, Absent, Builder};
use crate::passes::externs::call::{Call, CallResult, Callee, ExternArg, Region};
use crate::passes::externs::digest::DigestKey;
use crate::passes::externs::{value, LoweredObject, Lowering};
use crate::sema::Type;
use crate::syntax::ast::BinaryOp;

/// Maximum size in bytes of the data in front of a resubmitted packet.
const RESUBMIT_BYTES: u32 = 8;

impl Lowering<'_> {
    /// Emits the statements of a call and returns its result.
    pub fn tofino_call(&mut self, call: &mut Call) -> Data {
        match call.callee.clone() {
            Callee::Function(name) => self.tofino_function(&name, call),
            Callee::This(method) => self.call_of_this(&method, call),
            Callee::Method(id, method) => {
                self.tofino_method(self.lowered_object(id), &method, call)
            }
        }
    }

    /// Lowers a call of a method of an object.
    fn tofino_method(&mut self, object: LoweredObject, method: &str, call: &mut Call) -> Data {
        let (args, span, scope) = (&call.args[..], call.span, &*call.scope);
        match object {
            LoweredObject::Counter(counter) => {
                self.report_byte_adjustment(args, span);
                match self.number_at(args, 0, span) {
                    Ok(index) => {
                        let count = Primitive::Count { counter, index };
                        self.emit(span, Effect::Primitive(count));
                        Data::Nothing
                    }
                    Err(absent) => absent.into(),
                }
            }
            // The switch counts a hit of the entry without a primitive.
            LoweredObject::DirectCounter(_) => {
                self.report_byte_adjustment(args, span);
                Data::Nothing
            }
            LoweredObject::Meter(meter) => self.meter_call(meter, args, span, scope),
            LoweredObject::DirectMeter(meter) => self.direct_meter_call(meter, args, span, scope),
            LoweredObject::Register(register) => {
                self.tofino_register_call((register, None), method, call)
            }
            LoweredObject::Own(id) => self.tofino_object_method(id, method, call),
            LoweredObject::Invalid(absent) => absent.into(),
            LoweredObject::ActionProfile(_) | LoweredObject::Other(_) => {
                self.no_data(span, "a method is called of an object without methods")
            }
        }
    }

    /// Lowers a call of a method of an object without an equivalent in v1model.
    fn tofino_object_method(&mut self, id: ObjectId, method: &str, call: &mut Call) -> Data {
        let (args, span, scope) = (&call.args[..], call.span, &*call.scope);
        match self.tofino_object(id).clone() {
            Object::RegisterAction { register, entry } if method == "execute" => {
                self.execute(register, entry, call)
            }
            Object::RegisterAction { .. } => {
                let message =
                    format!("the software model does not support {method} of a RegisterAction");
                self.beyond_model(span, message).into()
            }
            Object::Hash { algorithm } => self.tofino_hash(algorithm, &call.ret, args, span, scope),
            Object::Random => {
                let Some(scalar) = self.scalar(&call.ret) else {
                    return self.not_a_number(&call.ret, span);
                };
                let width = scalar.width().min(64);
                let target = self.temporary(scope, "random", Scalar::Bit(width));
                let random = Primitive::Random {
                    target,
                    low: Expr::bits(0, width),
                    high: Expr::bits(ir::mask(width), width),
                };
                self.emit(span, Effect::Primitive(random));
                Data::Scalar(ops::cast(Expr::field(target, Scalar::Bit(width)), scalar))
            }
            Object::Checksum { sum } => self.checksum_call(id, sum, method, args, span, scope),
            Object::Wred {
                thresholds,
                entry,
                drop,
                no_drop,
            } => {
                let profile = (thresholds, entry);
                self.wred_call(profile, (drop, no_drop), args, span, scope)
            }
            Object::Lpf {
                spec,
                memory,
                entry,
            } => self.lpf_call((spec, memory, entry), &call.ret, args, span, scope),
            Object::DirectRegister { register, entry } => {
                self.tofino_register_call((register, Some(entry)), method, call)
            }
            Object::RegisterParam(register) => {
                let cell = self.read_cell(register, &Expr::bits(0, 32), span, scope);
                match self.scalar(&call.ret) {
                    Some(ty) => Data::Scalar(ops::cast(cell, ty)),
                    None => self.not_a_number(&call.ret, span),
                }
            }
            Object::MathUnit(unit) => {
                match (self.number_at(args, 0, span), self.scalar(&call.ret)) {
                    (Ok(number), Some(ty)) => {
                        let result = self.math_unit_call(&unit, number, span, scope);
                        Data::Scalar(ops::cast(result, ty))
                    }
                    (Err(absent), _) => absent.into(),
                    (_, None) => self.not_a_number(&call.ret, span),
                }
            }
            Object::ParserCounter { fields } => {
                self.parser_counter_call(id, &fields, method, args, span, scope)
            }
            Object::Mirror => {
                let session = self.number_at(args, 0, span);
                let parts = session.and_then(|session| {
                    let fields = self.header_in_front(args.get(1), "mirror", span, scope)?;
                    Ok((session, fields))
                });
                match parts {
                    Ok((session, fields)) => {
                        let mirror = Primitive::Mirror { session, fields };
                        self.emit(span, Effect::Primitive(mirror));
                        Data::Nothing
                    }
                    Err(absent) => absent.into(),
                }
            }
            Object::Resubmit => {
                if self.region != Region::Deparser {
                    let message = "emit of a Resubmit can be called only in a deparser";
                    return self.target(span, message).into();
                }
                let fields = match self.header_in_front(args.first(), "resubmit", span, scope) {
                    Ok(fields) => fields,
                    Err(absent) => return absent.into(),
                };
                let bits = self.bits_of(fields);
                if bits > RESUBMIT_BYTES * 8 {
                    let message = format!(
                        "a resubmitted packet carries {RESUBMIT_BYTES} bytes, not {bits} bits"
                    );
                    self.target(span, message);
                }
                self.emit(span, Effect::Primitive(Primitive::Resubmit { fields }));
                Data::Nothing
            }
            Object::Digest(name) => {
                let Some((given, data)) =
                    args.first().and_then(|first| Some((first, first.data()?)))
                else {
                    return self.no_data(span, "the data of a digest is not a value");
                };
                let key = DigestKey::Type(name.clone());
                let data = (data.clone(), given.ty.clone());
                self.send_digest((key, name), Expr::bits(0, 32), data, span, scope);
                Data::Nothing
            }
            // The model ignores priorities of the parser.
            Object::ParserPriority => Data::Nothing,
            Object::Polynomial(_) | Object::Partitions(_) => {
                self.no_data(span, "a method is called of an object without methods")
            }
        }
    }

    /// Reports that the result of a call must be a number.
    pub(super) fn not_a_number(&mut self, ty: &Type, span: Span) -> Data {
        if self.diagnostics.has_errors() {
            return self.no_data(span, "the result of a call is not a number");
        }
        let message = format!("the result must be a number on this target, not {ty}");
        self.target(span, message).into()
    }

    /// Stores the values of a header in new fields, which the switch sends in front of a mirrored or resubmitted packet. `what` is `mirror` or
    /// `resubmit`, for names and messages.
    ///
    /// # Errors
    /// The argument is not a header, which is reported.
    fn header_in_front(
        &mut self,
        arg: Option<&ExternArg>,
        what: &str,
        span: Span,
        scope: &str,
    ) -> Result<FieldListId, Absent> {
        let mut fields = Vec::new();
        if let Some(bound) = arg {
            let Some(data) = bound.data().cloned() else {
                return Err(self.impossible(span, "data in front of a packet is not a value"));
            };
            for leaf in self.leaves(data, &bound.ty) {
                let Some(scalar) = self.scalar(&leaf.ty) else {
                    if self.diagnostics.has_errors() {
                        return Err(
                            self.impossible(span, "data in front of a packet is not a number")
                        );
                    }
                    let message = format!(
                        "data in front of the packet must be numbers on this target, not {}",
                        leaf.ty
                    );
                    return Err(self.target(span, message));
                };
                let field = self.temporary(scope, what, scalar);
                let place = Place::Scalar(field.into(), scalar);
                self.assign(&place, leaf.data, &leaf.ty, span, scope);
                fields.push(field);
            }
        }
        let id = FieldListId::from(self.program.field_lists.len());
        self.program.field_lists.push(FieldList {
            name: format!("{what}_{}", id.0),
            fields,
        });
        let bits = self.bits_of(id);
        if bits % 8 != 0 {
            let message = format!(
                "data in front of the packet must fill whole bytes, not {bits} bits: add a padding field"
            );
            self.target(span, message);
        }
        Ok(id)
    }

    /// Total width in bits of the fields of a list.
    fn bits_of(&self, list: FieldListId) -> u32 {
        let fields = &self.program.field_lists[list.index()].fields;
        let storage = &self.program.storage;
        let widths = fields
            .iter()
            .filter_map(|field| storage.field(*field).scalar());
        widths.map(Scalar::width).sum()
    }

    /// Lowers a call of an extern function.
    fn tofino_function(&mut self, name: &str, call: &Call) -> Data {
        match name {
            // On the chip, `invalidate` marks a field as unused; in the model, fields always have a value.
            "invalidate" => Data::Nothing,
            "port_metadata_unpack" => {
                let bits = Expr::bits(self.port_metadata_bits(), 32);
                let type_spec = self.type_spec(&call.ret);
                if let Some(metadata) = &mut self.program.port_metadata {
                    metadata.type_spec = Some(type_spec);
                }
                let data = match &call.result {
                    CallResult::Place(place) => {
                        self.lookahead_into(place, &call.ret, call.span);
                        Data::Nothing
                    }
                    CallResult::None | CallResult::Scalar(_) => {
                        self.lookahead(&call.ret, call.span, &call.scope)
                    }
                };
                self.emit(call.span, Take::Advance(bits));
                data
            }
            _ => {
                let message = format!("the software model does not support {name}");
                self.beyond_model(call.span, message).into()
            }
        }
    }

    /// Width in bits of the port metadata, which precedes the packet at the ingress parser.
    fn port_metadata_bits(&self) -> u32 {
        match self.program.arch == Arch::T2NA {
            true => 192,
            false => 64,
        }
    }
}

/// The value of a call of a pure function; `None` for other functions.
pub fn function_value(build: &Builder, name: &str, call: &Call) -> Option<Data> {
    let args = &call.args[..];
    match name {
        "min" | "max" => {
            let op = match name {
                "min" => BinaryOp::Le,
                _ => BinaryOp::Ge,
            };
            let ty = build.scalar(&call.ret)?;
            let (left, right) = (
                ops::cast(value(args, 0)?, ty),
                ops::cast(value(args, 1)?, ty),
            );
            let first = ops::binary(op, left.clone(), right.clone());
            Some(Data::Scalar(ops::choose(first, left, right)))
        }
        "sizeInBits" | "sizeInBytes" => {
            let bits = build.bits(&args.first()?.ty, true);
            let size = if name == "sizeInBits" { bits } else { bits / 8 };
            Some(Data::Scalar(Expr::bits(size, 32)))
        }
        "is_validated" => Some(Data::boolean(true)),
        _ => None,
    }
}
