//! Counters, meters, registers, calculations, checksums, learn lists and the deparser.

use alfirk_bmv2_json as json;

use super::{
    calculation,
    effect::extern_call,
    expr::{hex, Exprs},
    source_info,
};
use num_bigint::BigInt;

use crate::ir::{
    Algorithm, CalculationId, CalculationInput, CrcParameters, Expr, ExternAttribute, FieldRef,
    FlatProgram, MeterUnit,
};

/// Translates fields to BMv2 expressions.
fn fields(program: &FlatProgram, fields: &[FieldRef]) -> Vec<json::Expr> {
    let exprs = Exprs::new(program);
    fields.iter().map(|field| exprs.field(*field)).collect()
}

/// Writes the field lists that clone, resubmit and recirculate preserve. Ids start at 1, as 0 means "not called" for
/// the switch.
pub fn field_lists(program: &FlatProgram) -> Vec<json::FieldList> {
    (program.objects.field_lists.iter().zip(1..))
        .map(|(list, id)| json::FieldList {
            id,
            name: list.name.clone(),
            source_info: None,
            elements: fields(program, &list.fields),
        })
        .collect()
}

/// Writes the field lists of digests. Ids start at 1, as 0 means "not called" for the switch.
pub fn learn_lists(program: &FlatProgram) -> Vec<json::FieldList> {
    (program.objects.digests.iter().zip(1..))
        .map(|(digest, id)| json::FieldList {
            id,
            name: digest.meta.name.clone(),
            source_info: source_info(&digest.meta.source),
            elements: fields(program, &digest.fields),
        })
        .collect()
}

/// Writes all parser value sets.
pub fn value_sets(program: &FlatProgram) -> Vec<json::ParseVset> {
    (program.objects.value_sets.iter().zip(0..))
        .map(|(set, id)| json::ParseVset {
            name: set.meta.name.clone(),
            id,
            compressed_bitwidth: set.width,
            max_size: Some(set.size),
        })
        .collect()
}

/// Writes all deparsers.
pub fn deparsers(program: &FlatProgram) -> Vec<json::Deparser> {
    (program.deparsers.iter().zip(0..))
        .map(|(deparser, id)| json::Deparser {
            name: deparser.name.to_owned(),
            id,
            source_info: source_info(&deparser.source),
            order: (deparser.headers.iter())
                .map(|header| program.objects.storage.header(*header).name.clone())
                .collect(),
            primitives: (deparser.calls.iter())
                .map(|call| extern_call(Exprs::new(program), &call.kind, &call.source))
                .collect(),
        })
        .collect()
}

/// Writes all meter arrays, and the direct meters of tables. Direct meters without a table are omitted.
pub fn meters(program: &FlatProgram) -> Vec<json::MeterArray> {
    let exprs = Exprs::new(program);
    (program.objects.meters.iter().zip(0..))
        .filter(|(meter, _)| !meter.direct || meter.table.is_some())
        .map(|(meter, id)| {
            let table = meter.table.map(|table| program.objects.table(table));
            json::MeterArray {
                name: meter.meta.name.clone(),
                id,
                source_info: source_info(&meter.meta.source),
                is_direct: meter.direct,
                size: Some(table.map_or(meter.size, |table| table.size)),
                rate_count: 2,
                kind: match meter.unit {
                    MeterUnit::Packets => json::MeterType::Packets,
                    MeterUnit::Bytes => json::MeterType::Bytes,
                },
                binding: table.map(|table| table.meta.name.clone()),
                result_target: meter.result.map(|field| exprs.field_ref(field)),
                precolor: meter.precolor.map(|field| exprs.field_ref(field)),
            }
        })
        .collect()
}

/// Writes all counter arrays, and the direct counters of tables. Direct counters without a table are omitted.
pub fn counters(program: &FlatProgram) -> Vec<json::CounterArray> {
    (program.objects.counters.iter().zip(0..))
        .filter(|(counter, _)| !counter.direct || counter.table.is_some())
        .map(|(counter, id)| json::CounterArray {
            name: counter.meta.name.clone(),
            id,
            source_info: source_info(&counter.meta.source),
            size: (!counter.direct).then_some(counter.size),
            is_direct: counter.direct,
            binding: counter
                .table
                .map(|table| program.objects.table(table).meta.name.clone()),
        })
        .collect()
}

/// Writes all register arrays.
pub fn registers(program: &FlatProgram) -> Vec<json::RegisterArray> {
    (program.objects.registers.iter().zip(0..))
        .map(|(register, id)| json::RegisterArray {
            name: register.meta.name.clone(),
            id,
            source_info: source_info(&register.meta.source),
            size: register.size,
            bitwidth: register.ty.width(),
            initial_value: (register.initial != BigInt::ZERO)
                .then(|| hex(&register.initial, register.ty.width())),
        })
        .collect()
}

/// Writes all hashes and checksums, in p4c's order.
pub fn calculations(program: &FlatProgram) -> Vec<json::Calculation> {
    let exprs = Exprs::new(program);
    let ids = (0..program.objects.calculations.len()).map(CalculationId::from);
    let mut order: Vec<CalculationId> = ids.collect();
    order.sort_by_cached_key(|id| calculation::rank(program, *id));
    (order.into_iter().zip(0..))
        .map(|(calculation, id)| {
            (
                calculation,
                id,
                &program.objects.calculations[calculation.index()],
            )
        })
        .map(|(position, id, calculation)| json::Calculation {
            name: calculation::name(program, position),
            id,
            source_info: source_info(&calculation.source),
            algo: calculation.algorithm.name().to_owned(),
            crc: match calculation.algorithm {
                Algorithm::Crc(parameters) => Some(crc(parameters)),
                _ => None,
            },
            input: (calculation.inputs.iter())
                .map(|input| match input {
                    CalculationInput::Field(field) => exprs.field(*field),
                    CalculationInput::Constant { value, width } => json::Expr::Hexstr {
                        value: hex(value, *width),
                        bitwidth: Some(*width),
                    },
                    CalculationInput::Payload => json::Expr::Payload,
                })
                .collect(),
        })
        .collect()
}

fn crc(of: CrcParameters) -> json::CrcParameters {
    let hex = |value: u64| hex(&BigInt::from(value), of.width);
    json::CrcParameters {
        bitwidth: of.width,
        polynomial: hex(of.polynomial),
        initial: hex(of.initial),
        final_xor: hex(of.final_xor),
        reflected: of.reflected,
    }
}

/// Writes the checksums that are updated, then those that are verified.
pub fn checksums(program: &FlatProgram) -> Vec<json::Checksum> {
    let exprs = Exprs::new(program);
    (calculation::updates_first(program).enumerate())
        .map(|(id, checksum)| json::Checksum {
            name: if id == 0 {
                "cksum".to_owned()
            } else {
                format!("cksum_{}", id - 1)
            },
            id: id as i64,
            source_info: source_info(&checksum.source),
            target: exprs.field_ref(checksum.target),
            kind: "generic".to_owned(),
            calculation: calculation::name(program, checksum.calculation),
            verify: checksum.verify,
            update: !checksum.verify,
            if_cond: match &checksum.condition {
                Expr::Bool(true) => Some(json::Expr::Bool(true)),
                condition => Some(exprs.expr(condition)),
            },
        })
        .collect()
}

/// Writes the instances of extern objects that are not part of v1model.
pub fn extern_instances(program: &FlatProgram) -> Vec<json::ExternInstance> {
    (program.objects.extern_instances.iter().zip(0..))
        .map(|(instance, id)| json::ExternInstance {
            name: instance.name.clone(),
            id,
            kind: instance.ty.clone(),
            source_info: source_info(&instance.source),
            attribute_values: (instance.attributes.iter())
                .map(|(name, value)| {
                    let (kind, value) = match value {
                        ExternAttribute::Number(value) => {
                            ("hexstr", hex(value, value.bits().max(1) as u32))
                        }
                        ExternAttribute::String(text) => ("string", text.clone()),
                    };
                    json::ExternAttribute {
                        name: name.clone(),
                        kind: kind.to_owned(),
                        value: value.into(),
                    }
                })
                .collect(),
        })
        .collect()
}
