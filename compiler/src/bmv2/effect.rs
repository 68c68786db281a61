//! Lowers effects (stores and calls of externs) to primitives of BMv2.

use alfirk_bmv2_json::{self as json, Primitive};
use num_bigint::BigInt;

use super::{
    expr::{hex, Exprs},
    source_info,
};
use crate::ir::{self, Effect, Expr, ExternOperand, FieldListId, RegisterId, Source};

/// Writes an effect as one primitive.
pub fn effect(exprs: Exprs, effect: &Effect, source: &Source) -> json::PrimitiveCall {
    let storage = &exprs.program().objects.storage;
    let number = |value: u32| json::Expr::hex(hex(&BigInt::from(value), 32));
    let union = |id| json::Expr::HeaderUnion(storage.union(id).name.clone());
    let primitive = match effect {
        Effect::Assign { target, value } => Primitive::Assign {
            target: exprs.operand(&Expr::field(*target, ir::Scalar::Bit(1))),
            value: exprs.operand(value),
        },
        Effect::AssignVarbit { target, value } => Primitive::AssignVl {
            target: exprs.field(*target),
            value: exprs.field(*value),
        },
        Effect::AssignHeader { target, value } => Primitive::AssignHeader {
            target: exprs.header_operand(*target),
            value: exprs.header_operand(*value),
        },
        Effect::AssignUnion { target, value } => Primitive::AssignUnion {
            target: union(*target),
            value: union(*value),
        },
        Effect::AssignStack { target, value } => Primitive::AssignHeaderStack {
            target: exprs.stack(*target),
            value: exprs.stack(*value),
        },
        Effect::AssignUnionStack { target, value } => Primitive::AssignUnionStack {
            target: exprs.union_stack(*target),
            value: exprs.union_stack(*value),
        },
        Effect::SetValidity { target, valid } => {
            let header = exprs.header_operand(*target);
            match valid {
                true => Primitive::AddHeader { header },
                false => Primitive::RemoveHeader { header },
            }
        }
        Effect::Push { target, count } => Primitive::Push {
            stack: exprs.stack(*target),
            count: number(*count),
        },
        Effect::Pop { target, count } => Primitive::Pop {
            stack: exprs.stack(*target),
            count: number(*count),
        },
        Effect::PushUnion { target, count } => Primitive::Push {
            stack: exprs.union_stack(*target),
            count: number(*count),
        },
        Effect::PopUnion { target, count } => Primitive::Pop {
            stack: exprs.union_stack(*target),
            count: number(*count),
        },
        Effect::Primitive(primitive) => return extern_call(exprs, primitive, source),
    };
    json::PrimitiveCall {
        primitive,
        source_info: source_info(source),
    }
}

/// Writes the call of an extern as one primitive.
pub fn extern_call(
    exprs: Exprs,
    primitive: &ir::Primitive,
    source: &Source,
) -> json::PrimitiveCall {
    json::PrimitiveCall {
        primitive: extern_primitive(exprs, primitive),
        source_info: source_info(source),
    }
}

fn extern_primitive(exprs: Exprs, primitive: &ir::Primitive) -> Primitive {
    let program = exprs.program();
    let objects = &program.objects;
    let number = |value: usize| json::Expr::hex(hex(&BigInt::from(value), 32));
    let list = |fields: &FieldListId| number(fields.index() + 1);
    let operand = |expr: &Expr| exprs.operand(expr);
    let array = |register: RegisterId| {
        json::Expr::RegisterArray(objects.registers[register.index()].meta.name.clone())
    };
    match primitive {
        ir::Primitive::MarkToDrop { metadata } => {
            let standard = objects.storage.header(*metadata);
            Primitive::MarkToDrop {
                metadata: Some(json::Expr::Header(standard.name.clone())),
            }
        }
        ir::Primitive::RegisterRead {
            target,
            register,
            index,
        } => Primitive::RegisterRead {
            target: exprs.field(*target),
            register: array(*register),
            index: operand(index),
        },
        ir::Primitive::RegisterWrite {
            register,
            index,
            value,
        } => Primitive::RegisterWrite {
            register: array(*register),
            index: operand(index),
            value: operand(value),
        },
        ir::Primitive::RegisterAccess { register, .. } => Primitive::RegisterAccess {
            register: array(*register),
        },
        ir::Primitive::Mirror { session, fields } => Primitive::Mirror {
            session: operand(session),
            list: Some(list(fields)),
        },
        ir::Primitive::Count { counter, index } => Primitive::Count {
            counter: json::Expr::CounterArray(objects.counters[counter.index()].meta.name.clone()),
            index: operand(index),
        },
        ir::Primitive::ExecuteMeter {
            meter,
            index,
            target,
            precolor,
        } => Primitive::ExecuteMeter {
            meter: json::Expr::MeterArray(objects.meters[meter.index()].meta.name.clone()),
            index: operand(index),
            target: exprs.field(*target),
            precolor: precolor.as_ref().map(operand),
        },
        ir::Primitive::Filter(filter) => Primitive::Filter {
            target: exprs.field(filter.target),
            spec: array(filter.spec),
            spec_index: operand(&filter.spec_index),
            memory: array(filter.memory),
            index: operand(&filter.index),
            value: operand(&filter.value),
        },
        ir::Primitive::Hash {
            target,
            base,
            calculation,
            max,
        } => Primitive::Hash {
            target: exprs.field(*target),
            base: operand(base),
            calculation: json::Expr::Calculation(super::calculation::name(program, *calculation)),
            size: operand(max),
        },
        ir::Primitive::Random { target, low, high } => Primitive::Random {
            target: exprs.field(*target),
            low: operand(low),
            high: operand(high),
        },
        ir::Primitive::Digest { receiver, digest } => Primitive::Digest {
            receiver: operand(receiver),
            list: number(digest.index() + 1),
        },
        ir::Primitive::Clone {
            egress,
            session,
            fields,
        } => {
            let (session, list) = (operand(session), Some(list(fields)));
            match egress {
                true => Primitive::CloneEgress { session, list },
                false => Primitive::CloneIngress { session, list },
            }
        }
        ir::Primitive::Resubmit { fields } => Primitive::Resubmit { list: list(fields) },
        ir::Primitive::Recirculate { fields } => Primitive::Recirculate { list: list(fields) },
        ir::Primitive::Truncate(length) => Primitive::Truncate {
            length: operand(length),
        },
        ir::Primitive::LogMsg { format, args } => Primitive::LogMsg {
            format: json::Expr::Str(format.clone()),
            values: Some(json::Expr::ParametersVector(
                args.iter().map(operand).collect(),
            )),
        },
        ir::Primitive::Assert(cond) => Primitive::Assert {
            condition: exprs.number(cond).wrapped(),
        },
        ir::Primitive::Assume(cond) => Primitive::Assume {
            condition: exprs.number(cond).wrapped(),
        },
        ir::Primitive::Extern {
            name,
            instance,
            args,
        } => {
            let instance = instance.map(|instance| {
                json::Expr::Extern(objects.extern_instances[instance.index()].name.clone())
            });
            let args = args.iter().map(|arg| match arg {
                ExternOperand::Expr(expr) => operand(expr),
                ExternOperand::Header(place) => exprs.header_operand(*place),
                ExternOperand::String(text) => json::Expr::Str(text.clone()),
            });
            Primitive::new(name, instance.into_iter().chain(args).collect())
        }
    }
}
