//! Calls of Tofino's externs.

use super::{Object, ObjectId};
use crate::arch::Arch;
use crate::diag::Span;
use crate::ir::{self, Effect, Expr, FieldList, FieldListId, Primitive, Scalar, Take};
use crate::passes::builder::data::{Data, Place};
use crate::passes::builder::{ops, Builder};
use crate::passes::externs::call::{Call, CallResult, Callee, ExternArg, Region};
use crate::passes::externs::digest::DigestKey;
use crate::passes::externs::{value, LoweredObject, Lowering};
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
                if let Some(index) = value(args, 0) {
                    let count = Primitive::Count { counter, index };
                    self.emit(span, Effect::Primitive(count));
                }
                Data::Invalid
            }
            // The switch counts a hit of the entry without a primitive.
            LoweredObject::DirectCounter(_) => {
                self.report_byte_adjustment(args, span);
                Data::Invalid
            }
            LoweredObject::Meter(meter) => self.meter_call(meter, args, span, scope),
            LoweredObject::DirectMeter(meter) => self.direct_meter_call(meter, args, span, scope),
            LoweredObject::Register(register) => {
                self.tofino_register_call((register, None), method, call)
            }
            LoweredObject::Own(id) => self.tofino_object_method(id, method, call),
            LoweredObject::ActionProfile(_) | LoweredObject::Other(_) | LoweredObject::Invalid => {
                Data::Invalid
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
                self.beyond_model(
                    span,
                    format!("the software model does not support {method} of a RegisterAction"),
                );
                Data::Invalid
            }
            Object::Hash { algorithm } => self.tofino_hash(algorithm, &call.ret, args, span, scope),
            Object::Random => {
                let Some(scalar) = self.scalar(&call.ret) else {
                    return Data::Invalid;
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
                let profile = (thresholds, entry.is_some());
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
                    None => Data::Invalid,
                }
            }
            Object::MathUnit(unit) => match (value(args, 0), self.scalar(&call.ret)) {
                (Some(number), Some(ty)) => {
                    let result = self.math_unit_call(&unit, number, span, scope);
                    Data::Scalar(ops::cast(result, ty))
                }
                _ => Data::Invalid,
            },
            Object::ParserCounter { fields } => {
                self.parser_counter_call(id, &fields, method, args, span, scope)
            }
            Object::Mirror => {
                if let Some(session) = value(args, 0) {
                    if let Some(fields) = self.header_in_front(args.get(1), "mirror", span, scope) {
                        let mirror = Primitive::Mirror { session, fields };
                        self.emit(span, Effect::Primitive(mirror));
                    }
                }
                Data::Invalid
            }
            Object::Resubmit => {
                if self.region != Region::Deparser {
                    self.target(span, "emit of a Resubmit can be called only in a deparser");
                    return Data::Invalid;
                }
                if let Some(fields) = self.header_in_front(args.first(), "resubmit", span, scope) {
                    let bits = self.bits_of(fields);
                    if bits > RESUBMIT_BYTES * 8 {
                        let message = format!(
                            "a resubmitted packet carries {RESUBMIT_BYTES} bytes, not {} bits",
                            bits
                        );
                        self.target(span, message);
                    }
                    self.emit(span, Effect::Primitive(Primitive::Resubmit { fields }));
                }
                Data::Invalid
            }
            Object::Digest(name) => {
                if let Some((given, data)) =
                    args.first().and_then(|first| Some((first, first.data()?)))
                {
                    let key = DigestKey::Type(name.clone());
                    let data = (data.clone(), given.ty.clone());
                    self.send_digest((key, name), Expr::bits(0, 32), data, span, scope);
                }
                Data::Invalid
            }
            Object::Polynomial(_) | Object::Partitions(_) | Object::ParserPriority => Data::Invalid,
        }
    }

    /// Stores the values of a header in new fields, which the switch sends in front of a mirrored or resubmitted packet. `what` is `mirror` or
    /// `resubmit`, for names and messages. `None` after a reported error.
    fn header_in_front(
        &mut self,
        arg: Option<&ExternArg>,
        what: &str,
        span: Span,
        scope: &str,
    ) -> Option<FieldListId> {
        let mut fields = Vec::new();
        if let Some(bound) = arg {
            let data = bound.data()?.clone();
            for leaf in self.leaves(data, &bound.ty) {
                let scalar = self.scalar(&leaf.ty)?;
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
        Some(id)
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
            "invalidate" => Data::Invalid,
            "port_metadata_unpack" => {
                let bits = Expr::bits(self.port_metadata_bits(), 32);
                let data = match &call.result {
                    CallResult::Place(place) => {
                        self.lookahead_into(place, &call.ret, call.span);
                        Data::Invalid
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
                self.beyond_model(call.span, message);
                Data::Invalid
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
