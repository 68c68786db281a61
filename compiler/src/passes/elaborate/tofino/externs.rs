//! Calls of Tofino's externs.

use std::rc::Rc;

use num_bigint::BigInt;

use super::super::call::{Argument, Bound};
use super::super::externs::{value, DigestKey};
use super::super::frame::ObjectId;
use super::super::frame::{ExternObject, Frame};
use super::super::{ops, Elaborator, Region};
use super::Object;
use crate::diag::Span;
use crate::ir::{
    self, Algorithm, CalculationInput, Effect, Expr, FieldList, FieldListId, FieldRef, Primitive,
    Scalar, Take,
};
use crate::passes::builder::data::Data;
use crate::sema::{CallInfo, Type};
use crate::syntax::ast::{BinaryOp, Name};

/// The Internet checksum.
const SUM: Scalar = Scalar::Bit(16);
/// A sum of ones only: nothing was wrong.
const ALL_ONES: u32 = 0xffff;
/// Most bytes that a resubmitted packet takes along.
const RESUBMIT_BYTES: u32 = 8;

type Arguments = [(Option<Name>, Bound)];

impl Elaborator<'_> {
    /// A call of a method of one of Tofino's extern objects.
    pub fn tofino_method(
        &mut self,
        object: ExternObject,
        method: &str,
        info: &CallInfo,
        args: &Arguments,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        match object {
            ExternObject::Counter(counter) => {
                self.refuse_adjustment(args, span);
                if let Some(index) = value(args, 0) {
                    let count = Primitive::Count { counter, index };
                    self.emit(span, Effect::Primitive(count));
                }
                Data::Invalid
            }
            // The switch counts by itself.
            ExternObject::DirectCounter(_) => {
                self.refuse_adjustment(args, span);
                Data::Invalid
            }
            ExternObject::Meter(meter) => self.meter_call(meter, args, span, frame),
            ExternObject::DirectMeter(meter) => self.direct_meter_call(meter, args, span, frame),
            ExternObject::Register(register) => {
                self.tofino_register_call((register, None), method, args, span, frame)
            }
            ExternObject::Tofino(id) => self.own_method(id, method, info, args, span, frame),
            _ => Data::Invalid,
        }
    }

    fn own_method(
        &mut self,
        id: ObjectId,
        method: &str,
        info: &CallInfo,
        args: &Arguments,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        match self.tofino_object(id).clone() {
            Object::RegisterAction { .. } if method == "execute" => {
                self.execute(id, info, args, span, frame)
            }
            Object::RegisterAction { .. } => {
                self.beyond_model(
                    span,
                    format!("the model has no {method} of register actions yet"),
                );
                Data::Invalid
            }
            Object::Hash { algorithm } => {
                let ret = info.ret.substitute(&frame.substitution);
                self.tofino_hash(algorithm, &ret, args, span, frame)
            }
            Object::Random => {
                let ret = info.ret.substitute(&frame.substitution);
                let Some(scalar) = self.scalar(&ret) else {
                    return Data::Invalid;
                };
                let width = scalar.width().min(64);
                let target = self.temporary(&frame.name, "random", Scalar::Bit(width));
                let random = Primitive::Random {
                    target,
                    low: Expr::bits(0, width),
                    high: Expr::bits(ir::mask(width), width),
                };
                self.emit(span, Effect::Primitive(random));
                Data::Scalar(ops::cast(Expr::field(target, Scalar::Bit(width)), scalar))
            }
            Object::Checksum { sum } => self.checksum_call(id, sum, method, args, span, frame),
            Object::Wred {
                thresholds,
                entry,
                drop,
                no_drop,
            } => {
                let profile = (thresholds, entry.is_some());
                self.wred_call(profile, (drop, no_drop), args, span, frame)
            }
            Object::Lpf {
                spec,
                memory,
                entry,
            } => self.lpf_call((spec, memory, entry), info, args, span, frame),
            Object::DirectRegister { register, entry } => {
                self.tofino_register_call((register, Some(entry)), method, args, span, frame)
            }
            Object::RegisterParam(register) => {
                let cell = self.read_cell(register, &Expr::bits(0, 32), span, frame);
                let ret = info.ret.substitute(&frame.substitution);
                match self.scalar(&ret) {
                    Some(ty) => Data::Scalar(ops::cast(cell, ty)),
                    None => Data::Invalid,
                }
            }
            Object::MathUnit(unit) => {
                let ret = info.ret.substitute(&frame.substitution);
                match (value(args, 0), self.scalar(&ret)) {
                    (Some(number), Some(ty)) => {
                        let result = self.math_unit_call(&unit, number, span, frame);
                        Data::Scalar(ops::cast(result, ty))
                    }
                    _ => Data::Invalid,
                }
            }
            Object::ParserCounter { fields } => {
                self.parser_counter_call(id, &fields, method, args, span, frame)
            }
            Object::Mirror => {
                if let Some(session) = value(args, 0) {
                    if let Some(fields) = self.header_in_front(args.get(1), "mirror", span, frame) {
                        let mirror = Primitive::Mirror { session, fields };
                        self.emit(span, Effect::Primitive(mirror));
                    }
                }
                Data::Invalid
            }
            Object::Resubmit => {
                if self.region != Region::Deparser {
                    self.target(span, "a packet is resubmitted by the ingress deparser");
                    return Data::Invalid;
                }
                if let Some(fields) = self.header_in_front(args.first(), "resubmit", span, frame) {
                    let bits = self.bits_of(fields);
                    if bits > RESUBMIT_BYTES * 8 {
                        let message = format!(
                            "a resubmitted packet takes {RESUBMIT_BYTES} bytes along, not {} bits",
                            bits
                        );
                        self.target(span, message);
                    }
                    self.emit(span, Effect::Primitive(Primitive::Resubmit { fields }));
                }
                Data::Invalid
            }
            Object::Digest(name) => {
                if let Some((_, bound)) = args.first() {
                    if let Argument::Value(data) = bound.argument.clone() {
                        let key = DigestKey::Type(name.clone());
                        let receiver = Expr::bits(0, 32);
                        let data = (data, bound.ty.clone());
                        self.send_digest((key, name), receiver, data, span, frame);
                    }
                }
                Data::Invalid
            }
            Object::Polynomial(_) | Object::Layout(_) | Object::ParserPriority => Data::Invalid,
        }
    }

    fn tofino_hash(
        &mut self,
        algorithm: Option<Algorithm>,
        ret: &Type,
        args: &Arguments,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        let Some((_, bound)) = args.first() else {
            return Data::Invalid;
        };
        let (Argument::Value(data), Some(wanted)) = (bound.argument.clone(), self.scalar(ret))
        else {
            return Data::Invalid;
        };
        let ty = bound.ty.clone();
        let Some(algorithm) = algorithm else {
            // The lowest bits of all inputs.
            return match self.packed(data, &ty) {
                Some(bits) => Data::Scalar(ops::cast(bits, wanted)),
                None => Data::Invalid,
            };
        };
        let inputs = self.calculation_inputs(data, &ty, span, Some(frame));
        let width = algorithm.width().unwrap_or(32);
        let value = self.computed(algorithm, inputs, width, span, frame);
        Data::Scalar(ops::cast(value, wanted))
    }

    /// The value of a calculation, in a variable of its own.
    fn computed(
        &mut self,
        algorithm: Algorithm,
        inputs: Vec<CalculationInput>,
        width: u32,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Expr {
        let calculation = self.calculation(algorithm, inputs, span);
        let ty = Scalar::Bit(width);
        let target = self.temporary(&frame.name, "hash", ty);
        let hash = Primitive::Hash {
            target,
            base: Expr::bits(0, width),
            calculation,
            // All of its bits.
            max: Expr::bits(BigInt::from(1) << width, width + 1),
        };
        self.emit(span, Effect::Primitive(hash));
        Expr::field(target, ty)
    }

    fn checksum_call(
        &mut self,
        id: ObjectId,
        sum: Option<FieldRef>,
        method: &str,
        args: &Arguments,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        let inputs = match args.first() {
            Some((_, bound)) if matches!(method, "update" | "add" | "subtract") => {
                let (Argument::Value(data), ty) = (bound.argument.clone(), bound.ty.clone()) else {
                    return Data::Invalid;
                };
                self.calculation_inputs(data, &ty, span, Some(frame))
            }
            _ => Vec::new(),
        };
        if method == "update" {
            let value = self.computed(Algorithm::Csum16, inputs, 16, span, frame);
            let zeros_as_ones = args.iter().any(|(param, bound)| {
                param.as_deref() == Some("zeros_as_ones")
                    && matches!(&bound.argument, Argument::Value(data) if data.constant() == Some(1.into()))
            });
            return Data::Scalar(match zeros_as_ones {
                false => value,
                true => {
                    let zero = ops::binary(BinaryOp::Eq, value.clone(), Expr::bits(0, 16));
                    self.choose(zero, Expr::bits(ALL_ONES, 16), value)
                }
            });
        }
        let sum = sum.unwrap_or_else(|| {
            let sum = self.temporary(&frame.name, "sum", SUM);
            *self.tofino_object(id) = Object::Checksum { sum: Some(sum) };
            sum
        });
        let so_far = Expr::field(sum, SUM);
        match method {
            // `csum16` complements what it adds up, so twice is none.
            "add" => {
                let inputs = [vec![CalculationInput::Field(sum)], inputs].concat();
                let value = self.computed(Algorithm::Csum16, inputs, 16, span, frame);
                let value = Expr::unary(ir::UnaryOp::Complement, value);
                self.store(sum, value, span);
            }
            "subtract" => {
                let value = self.computed(Algorithm::Csum16, inputs, 16, span, frame);
                let Expr::Field { place, .. } = value else {
                    return Data::Invalid;
                };
                let negative = place.fixed().map(CalculationInput::Field);
                let inputs = negative.into_iter().chain([CalculationInput::Field(sum)]);
                let both = self.computed(Algorithm::Csum16, inputs.collect(), 16, span, frame);
                let both = Expr::unary(ir::UnaryOp::Complement, both);
                self.store(sum, both, span);
            }
            "get" => return Data::Scalar(self.hold(so_far, span, &frame.name)),
            "subtract_all_and_deposit" => {
                if let Some((_, bound)) = args.first() {
                    if let Argument::Place(place) = &bound.argument {
                        let value = self.cast(Data::Scalar(so_far), &bound.ty);
                        self.assign(place, value, &bound.ty, span, &frame.name);
                    }
                }
            }
            // True where it is wrong.
            "verify" => {
                let wrong = ops::binary(BinaryOp::Ne, so_far, Expr::bits(ALL_ONES, 16));
                return Data::Scalar(self.hold(wrong, span, &frame.name));
            }
            _ => {}
        }
        Data::Invalid
    }

    fn store(&mut self, target: FieldRef, value: Expr, span: Span) {
        let target = target.into();
        self.emit(span, Effect::Assign { target, value });
    }

    /// The fields of a header in front of a mirrored or resubmitted packet, with the values of now.
    fn header_in_front(
        &mut self,
        arg: Option<&(Option<Name>, Bound)>,
        what: &str,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Option<FieldListId> {
        let mut fields = Vec::new();
        if let Some((_, bound)) = arg {
            let Argument::Value(data) = bound.argument.clone() else {
                return None;
            };
            for leaf in self.leaves(data, &bound.ty.clone()) {
                let scalar = self.scalar(&leaf.ty)?;
                let field = self.temporary(&frame.name, what, scalar);
                let place = crate::passes::builder::data::Place::Scalar(field.into(), scalar);
                self.assign(&place, leaf.data, &leaf.ty, span, &frame.name);
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
                "what goes in front of the packet fills whole bytes, not {bits} bits: add a field of padding"
            );
            self.target(span, message);
        }
        Some(id)
    }

    fn bits_of(&self, list: FieldListId) -> u32 {
        let fields = &self.program.field_lists[list.index()].fields;
        let storage = &self.program.storage;
        let widths = fields
            .iter()
            .filter_map(|field| storage.field(*field).scalar());
        widths.map(Scalar::width).sum()
    }

    /// A call of one of Tofino's extern functions.
    pub fn tofino_function(
        &mut self,
        name: &str,
        info: &CallInfo,
        args: &Arguments,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        match name {
            "min" | "max" => {
                let (Some(left), Some(right)) = (value(args, 0), value(args, 1)) else {
                    return Data::Invalid;
                };
                let op = if name == "min" {
                    BinaryOp::Le
                } else {
                    BinaryOp::Ge
                };
                let ret = info.ret.substitute(&frame.substitution);
                let Some(ty) = self.scalar(&ret) else {
                    return Data::Invalid;
                };
                let (left, right) = (ops::cast(left, ty), ops::cast(right, ty));
                let first = ops::binary(op, left.clone(), right.clone());
                Data::Scalar(self.choose(first, left, right))
            }
            "sizeInBits" | "sizeInBytes" => match args.first() {
                Some((_, bound)) => {
                    let bits = self.bits(&bound.ty, true);
                    let size = if name == "sizeInBits" { bits } else { bits / 8 };
                    Data::Scalar(Expr::bits(size, 32))
                }
                None => Data::Invalid,
            },
            // Fields always have a value in the model.
            "invalidate" => Data::Invalid,
            "is_validated" => Data::boolean(true),
            "port_metadata_unpack" => {
                let ret = info.ret.substitute(&frame.substitution);
                let data = self.lookahead(&ret, span, &frame.name);
                let bits = Expr::bits(self.port_metadata_bits(), 32);
                self.emit(span, Take::Advance(bits));
                data
            }
            _ => {
                self.beyond_model(span, format!("the model has no {name} yet"));
                Data::Invalid
            }
        }
    }

    /// What stands between the intrinsic metadata and a packet at the ingress parser.
    fn port_metadata_bits(&self) -> u32 {
        match self.program.arch {
            crate::arch::Arch::T2na => 192,
            _ => 64,
        }
    }
}
