//! Externs of core.p4 and v1model.p4, and with `--emit-externs` any others.

use std::rc::Rc;

use num_bigint::BigInt;

use super::call::{Argument, Bound};
use super::frame::{ExternObject, Frame, Instance};
use super::{join, method_base, scalars_of, Elaborator, Region};
use crate::diag::{Code, Diagnostic, Span, Warning};
use crate::ir::{
    self, Algorithm, Calculation, CalculationId, CalculationInput, Digest, DigestId, Effect,
    ExternArg, ExternInstanceId, FieldList, FieldListId, FieldRef, MeterId, Primitive, Take,
};
use crate::passes::builder::data::{Data, Place};
use crate::sema::{CallInfo, Type};
use crate::syntax::ast::{Call, DeclId, ExprKind, Name};

/// What makes digests one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DigestKey {
    /// Their type's name.
    Type(String),
    /// The statement that sends values without a type's name.
    Call(Span),
}

impl Elaborator<'_> {
    /// The name of the enum member that an argument is.
    pub fn enum_argument(&self, args: &[(Option<Name>, Bound)], wanted: &str) -> Option<String> {
        args.iter()
            .find_map(|(param, bound)| match (param, &bound.argument) {
                (Some(param), Argument::Value(data)) if &**param == wanted => {
                    self.enum_member(data, &bound.ty)
                }
                _ => None,
            })
    }

    /// The hash algorithm that an argument names.
    pub fn algorithm(
        &mut self,
        args: &[(Option<Name>, Bound)],
        wanted: &str,
        span: Span,
    ) -> Algorithm {
        let known = self
            .enum_argument(args, wanted)
            .and_then(|name| Algorithm::from_name(&name));
        known.unwrap_or_else(|| {
            self.error(
                Code::NOT_CONSTANT,
                span,
                "the algorithm must be a member of HashAlgorithm known at compile time",
            );
            Algorithm::Crc16
        })
    }

    /// A call of an extern function.
    pub fn call_extern(
        &mut self,
        id: DeclId,
        info: &CallInfo,
        call: &Call,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        let name = self.checked.name(id);
        if self.region != Region::Parser && &*name != "static_assert" {
            self.program.control_types.type_info_present = true;
        }
        // With their arguments, as p4c does it.
        if self.options.no_assertions && matches!(&*name, "assert" | "assume") {
            return Data::Invalid;
        }
        let bound = self.arguments(info, &call.args, frame);
        let named: Vec<(Option<Name>, Bound)> = bound
            .into_iter()
            .map(|bound| (bound.param.map(|id| self.checked.name(id)), bound))
            .collect();
        match &*name {
            "verify" | "assert" | "assume" | "log_msg" | "static_assert" => {}
            _ if self.program.arch.is_tofino() => {
                return self.tofino_function(&name, info, &named, span, frame);
            }
            _ => {}
        }
        match &*name {
            "mark_to_drop" => self.mark_to_drop(&named, span, frame),
            "verify" => {
                let (Some(cond), Some(error)) = (value(&named, 0), value(&named, 1)) else {
                    return Data::Invalid;
                };
                self.emit(span, Take::Verify { cond, error });
            }
            "hash" => self.hash(&named, span, frame),
            "random" => {
                let (Some(low), Some(high)) = (value(&named, 1), value(&named, 2)) else {
                    return Data::Invalid;
                };
                self.with_target(&named[0].1, span, frame, |target| Primitive::Random {
                    target,
                    low,
                    high,
                });
            }
            "digest" => self.digest(&named, span, frame),
            "clone" | "clone3" | "clone_preserving_field_list" => self.clone_packet(&named, span),
            "resubmit" | "resubmit_preserving_field_list" => {
                if self.only_in(Region::Ingress, &name, span) {
                    let fields = self.field_list(&named, 0, span);
                    self.emit(span, Effect::Primitive(Primitive::Resubmit { fields }));
                }
            }
            "recirculate" | "recirculate_preserving_field_list" => {
                if self.only_in(Region::Egress, &name, span) {
                    let fields = self.field_list(&named, 0, span);
                    self.emit(span, Effect::Primitive(Primitive::Recirculate { fields }));
                }
            }
            "truncate" => {
                if let Some(length) = value(&named, 0) {
                    self.emit(span, Effect::Primitive(Primitive::Truncate(length)));
                }
            }
            "assert" | "assume" => {
                let Some(check) = value(&named, 0) else {
                    return Data::Invalid;
                };
                let primitive = if &*name == "assert" {
                    Primitive::Assert(check)
                } else {
                    Primitive::Assume(check)
                };
                self.emit(span, Effect::Primitive(primitive));
            }
            "log_msg" => self.log_msg(&named, span),
            "verify_checksum"
            | "verify_checksum_with_payload"
            | "update_checksum"
            | "update_checksum_with_payload" => {
                self.checksum(&name, &named, span);
            }
            "static_assert" => return self.static_assert(&named, span),
            _ if self.options.emit_externs => {
                self.foreign_call(name.to_string(), None, named, span, frame)
            }
            _ => {
                let what = Diagnostic::error(
                    Code::TARGET,
                    span,
                    format!("extern function {name} is not part of v1model, so this target does not have it"),
                )
                .help("calls of it are kept with --emit-externs, for a switch that is extended with it");
                self.diagnostics.report(what);
            }
        }
        Data::Invalid
    }

    /// The target's primitive writes to `standard_metadata` and alone knows which port drops. For a copy of it the
    /// original is put aside meanwhile.
    fn mark_to_drop(&mut self, args: &[(Option<Name>, Bound)], span: Span, frame: &Rc<Frame>) {
        let primitive = Effect::Primitive(Primitive::MarkToDrop);
        let Some((
            _,
            Bound {
                argument: Argument::Place(Place::Struct(members)),
                ..
            },
        )) = args.first()
        else {
            return self.emit(span, primitive);
        };
        let header = ir::Storage::STANDARD_METADATA;
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
            let aside = self.temporary(&frame.name, "tmp", *ty);
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

    fn only_in(&mut self, region: Region, name: &str, span: Span) -> bool {
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

    fn static_assert(&mut self, args: &[(Option<Name>, Bound)], span: Span) -> Data {
        let holds = match args.first().map(|(_, bound)| &bound.argument) {
            Some(Argument::Value(data)) => data.constant(),
            _ => None,
        };
        let message = match args.get(1).map(|(_, bound)| &bound.argument) {
            Some(Argument::Value(Data::String(text))) => format!("static assertion failed: {text}"),
            _ => "static assertion failed".to_owned(),
        };
        match holds {
            Some(value) if value != BigInt::ZERO => {}
            Some(_) => self.error(Code::EVALUATION, span, message),
            None => self.error(
                Code::NOT_CONSTANT,
                span,
                "a static assertion must be known at compile time",
            ),
        }
        Data::boolean(true)
    }

    /// A primitive that stores a number, which BMv2 does only in fields known at compile time.
    fn with_target(
        &mut self,
        bound: &Bound,
        span: Span,
        frame: &Rc<Frame>,
        primitive: impl FnOnce(FieldRef) -> Primitive,
    ) {
        let place = match &bound.argument {
            Argument::Place(place) => place.clone(),
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
        let held = self.temporary(&frame.name, "tmp", ty);
        let primitive = primitive(held);
        self.emit(span, Effect::Primitive(primitive));
        self.assign(
            &place,
            Data::Scalar(ir::Expr::field(held, ty)),
            &bound.ty,
            span,
            &frame.name,
        );
    }

    fn hash(&mut self, args: &[(Option<Name>, Bound)], span: Span, frame: &Rc<Frame>) {
        let algorithm = self.algorithm(args, "algo", span);
        let (Some(base), Some(max)) = (value(args, 2), value(args, 4)) else {
            return;
        };
        if matches!(&max, ir::Expr::Number { value, .. } if *value == BigInt::ZERO) {
            if let Argument::Place(place) = &args[0].1.argument {
                let data = self.cast(Data::Scalar(base), &args[0].1.ty);
                self.assign(place, data, &args[0].1.ty, span, &frame.name);
            }
            return;
        }
        let Argument::Value(data) = &args[3].1.argument else {
            return;
        };
        let inputs = self.calculation_inputs(data.clone(), &args[3].1.ty, span, Some(frame));
        let calculation = self.calculation(algorithm, inputs, span);
        self.with_target(&args[0].1, span, frame, |target| Primitive::Hash {
            target,
            base,
            calculation,
            max,
        });
    }

    /// Adds a calculation.
    pub fn calculation(
        &mut self,
        algorithm: Algorithm,
        inputs: Vec<CalculationInput>,
        span: Span,
    ) -> CalculationId {
        let id = CalculationId::from(self.program.calculations.len());
        let source = self.source(span);
        self.program.calculations.push(Calculation {
            algorithm,
            inputs,
            source,
        });
        id
    }

    /// Inputs of a hash or checksum. Computed ones are stored first, for which there must be a frame.
    pub fn calculation_inputs(
        &mut self,
        data: Data,
        ty: &Type,
        span: Span,
        frame: Option<&Rc<Frame>>,
    ) -> Vec<CalculationInput> {
        let mut inputs = Vec::new();
        for leaf in self.leaves(data, ty) {
            let scalar = self.scalar(&leaf.ty);
            match (leaf.data, scalar) {
                (Data::Scalar(ir::Expr::Number { value, ty }), _) => {
                    let width = ty.width();
                    inputs.push(CalculationInput::Constant { value: value & ir::mask(width), width });
                }
                (Data::Scalar(ir::Expr::Bool(value)), _) => {
                    inputs.push(CalculationInput::Constant { value: BigInt::from(u8::from(value)), width: 1 });
                }
                (
                    Data::Scalar(ir::Expr::Field { place, .. }) | Data::Varbit(place),
                    _,
                ) if place.fixed().is_some() => {
                    inputs.extend(place.fixed().map(CalculationInput::Field));
                }
                (Data::Scalar(value), _) => match (frame, value.scalar()) {
                    (Some(frame), Some(scalar)) => {
                        let held = self.temporary(&frame.name, "tmp", scalar);
                        self.emit(span, Effect::Assign { target: held.into(), value });
                        inputs.push(CalculationInput::Field(held));
                    }
                    _ => self.target(span, "only fields and constants can be summed here on this target, not computed values"),
                },
                (Data::Int(_), _) => {
                    self.error(Code::TYPE_MISMATCH, span, "integers in the data must have a width, such as 16w1");
                }
                (Data::Invalid, _) => {}
                _ => self.target(span, "this kind of value cannot be an input of a hash or checksum"),
            }
        }
        inputs
    }

    /// A digest has fields of its own, so that it carries the values of now whatever happens to the originals.
    fn digest(&mut self, args: &[(Option<Name>, Bound)], span: Span, frame: &Rc<Frame>) {
        let Some(receiver) = value(args, 0) else {
            return;
        };
        let Argument::Value(data) = &args[1].1.argument else {
            return;
        };
        let ty = args[1].1.ty.clone();
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
        self.send_digest((key, name), receiver, (data.clone(), ty), span, frame);
    }

    /// Sends values as the digest of a name.
    pub fn send_digest(
        &mut self,
        (key, name): (DigestKey, String),
        receiver: ir::Expr,
        (data, ty): (Data, Type),
        span: Span,
        frame: &Rc<Frame>,
    ) {
        let leaves = self.leaves(data, &ty);
        let digest = match self.digests.get(&key) {
            Some(id) => *id,
            None => {
                let mut fields = Vec::new();
                for (position, leaf) in leaves.iter().enumerate() {
                    let Some(scalar) = self.scalar(&leaf.ty) else {
                        let message =
                            format!("a digest carries numbers on this target, not {}", leaf.ty);
                        self.target(span, message);
                        return;
                    };
                    let field = self.unique(&format!("digest.{name}.f{position}"));
                    fields.push(self.program.storage.add_scalar(field, scalar));
                }
                let meta = self.meta(name.clone(), &[], span);
                let type_spec = self.type_spec(&ty);
                let id = DigestId::from(self.program.digests.len());
                self.program.digests.push(Digest {
                    meta,
                    fields,
                    type_spec,
                });
                self.digests.insert(key, id);
                id
            }
        };
        let fields = self.program.digests[digest.index()].fields.clone();
        for (field, leaf) in fields.into_iter().zip(leaves) {
            if let Some(scalar) = self.scalar(&leaf.ty) {
                self.assign(
                    &Place::Scalar(field.into(), scalar),
                    leaf.data,
                    &leaf.ty,
                    span,
                    &frame.name,
                );
            }
        }
        self.emit(
            span,
            Effect::Primitive(Primitive::Digest { receiver, digest }),
        );
    }

    fn clone_packet(&mut self, args: &[(Option<Name>, Bound)], span: Span) {
        let egress = match self.enum_argument(args, "type").as_deref() {
            Some("I2E") => false,
            Some("E2E") => true,
            _ => {
                self.error(
                    Code::NOT_CONSTANT,
                    span,
                    "the type of a clone must be known at compile time",
                );
                return;
            }
        };
        let (kind, region) = if egress {
            ("E2E", Region::Egress)
        } else {
            ("I2E", Region::Ingress)
        };
        if !self.only_in(region, &format!("clone with CloneType.{kind}"), span) {
            return;
        }
        let Some(session) = value(args, 1) else {
            return;
        };
        let fields = self.field_list(args, 2, span);
        self.emit(
            span,
            Effect::Primitive(Primitive::Clone {
                egress,
                session,
                fields,
            }),
        );
    }

    /// The field list that an argument gives: by number, by a struct of fields, or an empty one when there is none.
    fn field_list(
        &mut self,
        args: &[(Option<Name>, Bound)],
        position: usize,
        span: Span,
    ) -> FieldListId {
        let (name, fields) = match args.get(position) {
            None => ("empty".to_owned(), Vec::new()),
            Some((Some(param), bound)) if &**param == "index" => {
                let list = match &bound.argument {
                    Argument::Value(data) => {
                        data.constant().and_then(|list| u32::try_from(list).ok())
                    }
                    _ => None,
                };
                let Some(list) = list else {
                    self.error(
                        Code::NOT_CONSTANT,
                        bound.span,
                        "the field list must be a number known at compile time",
                    );
                    return FieldListId(0);
                };
                if !self.field_lists.contains_key(&list) {
                    let message = format!(
                        "no field of the user metadata has @field_list({list}), so nothing is kept"
                    );
                    self.warn(Warning::Invalid, bound.span, message);
                }
                (
                    format!("field_list{list}"),
                    self.field_lists.get(&list).cloned().unwrap_or_default(),
                )
            }
            Some((_, bound)) => {
                let Argument::Value(data) = bound.argument.clone() else {
                    return FieldListId(0);
                };
                let mut fields = Vec::new();
                for leaf in self.leaves(data, &bound.ty) {
                    match leaf.data {
                        Data::Scalar(ir::Expr::Field { place, .. }) if place.fixed().is_some() => {
                            fields.extend(place.fixed());
                        }
                        data if data.is_constant() => {}
                        _ => self.target(
                            span,
                            "only fields can be kept on this target, not computed values",
                        ),
                    }
                }
                ("fl".to_owned(), fields)
            }
        };
        let known = self
            .program
            .field_lists
            .iter()
            .position(|list| list.fields == fields);
        if let Some(known) = known {
            return FieldListId::from(known);
        }
        let taken = |this: &Self, name: &str| {
            this.program
                .field_lists
                .iter()
                .any(|list| list.name == name)
        };
        let mut unique = name.clone();
        let mut number = 0;
        while taken(self, &unique) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        self.program.field_lists.push(FieldList {
            name: unique,
            fields,
        });
        FieldListId::from(self.program.field_lists.len() - 1)
    }

    /// A call of a method of an extern object.
    pub fn call_method(
        &mut self,
        id: DeclId,
        info: &CallInfo,
        call: &Call,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        let method = self.checked.name(id);
        if matches!(method_base(&call.callee), Some(base) if matches!(base.kind, ExprKind::This)) {
            let bound = self.arguments(info, &call.args, frame);
            return self.stateful_alu_call(&method, &bound, info, span, frame);
        }
        let instance = method_base(&call.callee).and_then(|base| self.instance_of(base, frame));
        let Some(Instance::Extern(object)) = instance else {
            return Data::Invalid;
        };
        if object == ExternObject::PacketIn {
            return self.packet_in(&method, info, call, span, frame);
        }
        if object == ExternObject::PacketOut {
            self.emit_header(info, call, span, frame);
            return Data::Invalid;
        }
        let bound = self.arguments(info, &call.args, frame);
        let named: Vec<(Option<Name>, Bound)> = bound
            .into_iter()
            .map(|bound| (bound.param.map(|id| self.checked.name(id)), bound))
            .collect();
        if self.program.arch.is_tofino() {
            return self.tofino_method(object, &method, info, &named, span, frame);
        }
        match (object, &*method) {
            (ExternObject::Counter(counter), _) => {
                if let Some(index) = value(&named, 0) {
                    self.emit(span, Effect::Primitive(Primitive::Count { counter, index }));
                }
            }
            (ExternObject::Meter(meter), _) => {
                if let Some(index) = value(&named, 0) {
                    let make = |target| Primitive::ExecuteMeter {
                        meter,
                        index,
                        target,
                        precolor: None,
                    };
                    self.with_target(&named[1].1, span, frame, make);
                }
            }
            (ExternObject::Register(register), "read") => {
                if let Some(index) = value(&named, 1) {
                    let make = |target| Primitive::RegisterRead {
                        target,
                        register,
                        index,
                    };
                    self.with_target(&named[0].1, span, frame, make);
                }
            }
            (ExternObject::Register(register), _) => {
                if let (Some(index), Some(value)) = (value(&named, 0), value(&named, 1)) {
                    self.emit(
                        span,
                        Effect::Primitive(Primitive::RegisterWrite {
                            register,
                            index,
                            value,
                        }),
                    );
                }
            }
            // The switch counts by itself.
            (ExternObject::DirectCounter(_), _) => {}
            (ExternObject::DirectMeter(meter), _) => {
                self.direct_meter(meter, &named[0].1, span, frame)
            }
            (ExternObject::Other(instance), _) => {
                let ty = self.program.extern_instances[instance.index()].ty.clone();
                let name = format!("_{ty}_{method}");
                self.foreign_call(name, Some(instance), named, span, frame);
            }
            _ => {}
        }
        Data::Invalid
    }

    /// The switch stores a direct meter's colour in a field before the action runs.
    fn direct_meter(&mut self, meter: MeterId, bound: &Bound, span: Span, frame: &Rc<Frame>) {
        let Argument::Place(place) = &bound.argument else {
            return;
        };
        self.into.meter_reads.push((meter, span));
        let mut fields = Vec::new();
        scalars_of(place, &mut fields);
        let field = match (self.program.meters[meter.index()].result, &fields[..]) {
            (None, [field]) => *field,
            (Some(known), [field]) if known == *field => return,
            (known, _) => {
                // Two places want the colour: each copies it from a field of the meter's own.
                let Some(ty) = self.scalar(&bound.ty) else {
                    return;
                };
                let own = known.unwrap_or_else(|| self.temporary(&frame.name, "color", ty));
                let held = self.program.storage.field(own).scalar().unwrap_or(ty);
                let color = Data::Scalar(ir::Expr::field(own, held));
                self.assign(place, color, &bound.ty, span, &frame.name);
                own
            }
        };
        self.program.meters[meter.index()].result = Some(field);
    }

    fn foreign_call(
        &mut self,
        name: String,
        instance: Option<ExternInstanceId>,
        named: Vec<(Option<Name>, Bound)>,
        span: Span,
        frame: &Rc<Frame>,
    ) {
        let mut args = Vec::new();
        let mut copies = Vec::new();
        for (_, bound) in named {
            let data = match bound.argument {
                Argument::Value(data) => data,
                Argument::Place(place) => match place.is_fixed() {
                    true => place.value().unwrap_or(Data::Invalid),
                    false => {
                        let own = self.allocate(&bound.ty, &join(&frame.name, "tmp"));
                        let old = self.read(&place, &bound.ty, span, &frame.name);
                        self.assign(&own, old, &bound.ty, span, &frame.name);
                        let data = own.value().unwrap_or(Data::Invalid);
                        copies.push((place, data.clone(), bound.ty.clone()));
                        data
                    }
                },
                _ => continue,
            };
            match data {
                Data::String(text) => args.push(ExternArg::String(text.to_string())),
                Data::Header(place) => args.push(ExternArg::Header(place)),
                data => args.extend(self.leaves(data, &bound.ty).into_iter().filter_map(|leaf| {
                    match leaf.data {
                        Data::Scalar(expr) => Some(ExternArg::Expr(expr)),
                        Data::Header(place) => Some(ExternArg::Header(place)),
                        _ => None,
                    }
                })),
            }
        }
        self.emit(
            span,
            Effect::Primitive(Primitive::Extern {
                name,
                instance,
                args,
            }),
        );
        self.copy_out(copies, span, frame);
    }
}

/// The number or truth value that an argument is.
pub fn value(args: &[(Option<Name>, Bound)], position: usize) -> Option<ir::Expr> {
    match &args.get(position)?.1.argument {
        Argument::Value(Data::Scalar(expr)) => Some(expr.clone()),
        Argument::Value(Data::Int(value)) => {
            Some(ir::Expr::bits(value.clone(), (value.bits() as u32).max(1)))
        }
        _ => None,
    }
}
