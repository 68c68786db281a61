//! Lowers effects (stores and calls of externs) to primitives of BMv2.

use alfirk_bmv2_json as json;
use num_bigint::BigInt;

use super::{
    expr::{hex, Exprs},
    source_info,
};
use crate::ir::{Effect, Expr, ExternOperand, Primitive, RegisterId, Source};

/// Writes an effect as one primitive.
pub fn effect(exprs: Exprs, effect: &Effect, source: &Source) -> json::Primitive {
    let storage = &exprs.program().objects.storage;
    let number = |value: u32| json::Expr::hex(hex(&BigInt::from(value), 32));
    let (op, parameters): (&str, Vec<json::Expr>) = match effect {
        Effect::Assign { target, value } => (
            "assign",
            vec![
                exprs.operand(&Expr::field(*target, crate::ir::Scalar::Bit(1))),
                exprs.operand(value),
            ],
        ),
        Effect::AssignVarbit { target, value } => {
            ("assign_VL", vec![exprs.field(*target), exprs.field(*value)])
        }
        Effect::AssignHeader { target, value } => (
            "assign_header",
            vec![exprs.header_operand(*target), exprs.header_operand(*value)],
        ),
        Effect::AssignUnion { target, value } => {
            let union = |id| json::Expr::HeaderUnion(storage.union(id).name.clone());
            ("assign_union", vec![union(*target), union(*value)])
        }
        Effect::AssignStack { target, value } => (
            "assign_header_stack",
            vec![exprs.stack(*target), exprs.stack(*value)],
        ),
        Effect::AssignUnionStack { target, value } => (
            "assign_union_stack",
            vec![exprs.union_stack(*target), exprs.union_stack(*value)],
        ),
        Effect::SetValidity {
            target,
            valid: true,
        } => ("add_header", vec![exprs.header_operand(*target)]),
        Effect::SetValidity {
            target,
            valid: false,
        } => ("remove_header", vec![exprs.header_operand(*target)]),
        Effect::Push { target, count } => ("push", vec![exprs.stack(*target), number(*count)]),
        Effect::Pop { target, count } => ("pop", vec![exprs.stack(*target), number(*count)]),
        Effect::PushUnion { target, count } => {
            ("push", vec![exprs.union_stack(*target), number(*count)])
        }
        Effect::PopUnion { target, count } => {
            ("pop", vec![exprs.union_stack(*target), number(*count)])
        }
        Effect::Primitive(primitive) => return extern_call(exprs, primitive, source),
    };
    json::Primitive {
        op: op.to_owned(),
        parameters,
        source_info: source_info(source),
    }
}

/// Writes the call of an extern as one primitive.
pub fn extern_call(exprs: Exprs, primitive: &Primitive, source: &Source) -> json::Primitive {
    let program = exprs.program();
    let number = |value: usize| json::Expr::hex(hex(&BigInt::from(value), 32));
    let operand = |expr: &Expr| exprs.operand(expr);
    let array = |register: RegisterId| {
        let register = &program.objects.registers[register.index()];
        json::Expr::RegisterArray(register.meta.name.clone())
    };
    let (op, parameters): (&str, Vec<json::Expr>) = match primitive {
        Primitive::MarkToDrop { metadata } => {
            let metadata = program.objects.storage.header(*metadata);
            (
                "mark_to_drop",
                vec![json::Expr::Header(metadata.name.clone())],
            )
        }
        Primitive::RegisterRead {
            target,
            register,
            index,
        } => (
            "register_read",
            vec![exprs.field(*target), array(*register), operand(index)],
        ),
        Primitive::RegisterWrite {
            register,
            index,
            value,
        } => (
            "register_write",
            vec![array(*register), operand(index), operand(value)],
        ),
        Primitive::RegisterAccess { register, .. } => ("register_access", vec![array(*register)]),
        Primitive::Mirror { session, fields } => {
            ("mirror", vec![operand(session), number(fields.index() + 1)])
        }
        Primitive::Count { counter, index } => {
            let counter = json::Expr::CounterArray(
                program.objects.counters[counter.index()].meta.name.clone(),
            );
            ("count", vec![counter, operand(index)])
        }
        Primitive::ExecuteMeter {
            meter,
            index,
            target,
            precolor,
        } => {
            let meter =
                json::Expr::MeterArray(program.objects.meters[meter.index()].meta.name.clone());
            let operands = [meter, operand(index), exprs.field(*target)];
            (
                "execute_meter",
                operands
                    .into_iter()
                    .chain(precolor.as_ref().map(operand))
                    .collect(),
            )
        }
        Primitive::Filter(filter) => (
            "filter",
            vec![
                exprs.field(filter.target),
                array(filter.spec),
                operand(&filter.spec_index),
                array(filter.memory),
                operand(&filter.index),
                operand(&filter.value),
            ],
        ),
        Primitive::Hash {
            target,
            base,
            calculation,
            max,
        } => {
            let name = super::calculation::name(exprs.program(), *calculation);
            let calculation = json::Expr::Calculation(name);
            (
                "modify_field_with_hash_based_offset",
                vec![
                    exprs.field(*target),
                    operand(base),
                    calculation,
                    operand(max),
                ],
            )
        }
        Primitive::Random { target, low, high } => (
            "modify_field_rng_uniform",
            vec![exprs.field(*target), operand(low), operand(high)],
        ),
        Primitive::Digest { receiver, digest } => (
            "generate_digest",
            vec![operand(receiver), number(digest.index() + 1)],
        ),
        Primitive::Clone {
            egress,
            session,
            fields,
        } => {
            let op = if *egress {
                "clone_egress_pkt_to_egress"
            } else {
                "clone_ingress_pkt_to_egress"
            };
            (op, vec![operand(session), number(fields.index() + 1)])
        }
        Primitive::Resubmit { fields } => ("resubmit", vec![number(fields.index() + 1)]),
        Primitive::Recirculate { fields } => ("recirculate", vec![number(fields.index() + 1)]),
        Primitive::Truncate(length) => ("truncate", vec![operand(length)]),
        Primitive::LogMsg { format, args } => {
            let args = args.iter().map(operand).collect();
            (
                "log_msg",
                vec![
                    json::Expr::Str(format.clone()),
                    json::Expr::ParametersVector(args),
                ],
            )
        }
        Primitive::Assert(cond) => ("assert", vec![exprs.number(cond).wrapped()]),
        Primitive::Assume(cond) => ("assume", vec![exprs.number(cond).wrapped()]),
        Primitive::Extern {
            name,
            instance,
            args,
        } => {
            let instance = instance.map(|instance| {
                json::Expr::Extern(
                    program.objects.extern_instances[instance.index()]
                        .name
                        .clone(),
                )
            });
            let args = args.iter().map(|arg| match arg {
                ExternOperand::Expr(expr) => operand(expr),
                ExternOperand::Header(place) => exprs.header_operand(*place),
                ExternOperand::String(text) => json::Expr::Str(text.clone()),
            });
            (name.as_str(), instance.into_iter().chain(args).collect())
        }
    };
    json::Primitive {
        op: op.to_owned(),
        parameters,
        source_info: source_info(source),
    }
}
