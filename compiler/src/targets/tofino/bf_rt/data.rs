//! What is the same in each program: data and key fields, and the table of debug counters.

use alfirk_bf_rt_json::ids::{self, Prefix};
use alfirk_bf_rt_json::{
    Data, DataField, FieldType, KeyField, MatchType, Table, TableType, TypeName,
};

use crate::arch::Arch;
use crate::ir::{CounterUnit, MeterUnit};
use crate::targets::tofino::stages::Budget;

/// An exact key field without annotations.
pub(super) fn exact(id: u32, name: &str, mandatory: bool, ty: FieldType) -> KeyField {
    KeyField {
        id,
        name: name.to_owned(),
        repeated: false,
        annotations: Vec::new(),
        mandatory,
        match_type: MatchType::Exact,
        ty,
    }
}

/// The key field of an array.
pub(super) fn index(id: u32, name: &str) -> KeyField {
    exact(id, name, true, FieldType::plain(TypeName::Uint32))
}

/// The data fields of a counter.
pub(super) fn counter_data(unit: CounterUnit) -> Vec<Data> {
    let count = |id, name| {
        let ty = FieldType::plain(TypeName::Uint64).with_default(0);
        Data::singleton(false, DataField::new(id, name, ty))
    };
    let bytes = count(ids::COUNTER_BYTES, "$COUNTER_SPEC_BYTES");
    let packets = count(ids::COUNTER_PKTS, "$COUNTER_SPEC_PKTS");
    match unit {
        CounterUnit::Bytes => vec![bytes],
        CounterUnit::Packets => vec![packets],
        CounterUnit::Both => vec![bytes, packets],
    }
}

/// The data fields of a meter.
pub(super) fn meter_data(unit: MeterUnit) -> Vec<Data> {
    let rates = match unit {
        MeterUnit::Bytes => [
            (ids::METER_CIR_KBPS, "$METER_SPEC_CIR_KBPS"),
            (ids::METER_PIR_KBPS, "$METER_SPEC_PIR_KBPS"),
            (ids::METER_CBS_KBITS, "$METER_SPEC_CBS_KBITS"),
            (ids::METER_PBS_KBITS, "$METER_SPEC_PBS_KBITS"),
        ],
        MeterUnit::Packets => [
            (ids::METER_CIR_PPS, "$METER_SPEC_CIR_PPS"),
            (ids::METER_PIR_PPS, "$METER_SPEC_PIR_PPS"),
            (ids::METER_CBS_PKTS, "$METER_SPEC_CBS_PKTS"),
            (ids::METER_PBS_PKTS, "$METER_SPEC_PBS_PKTS"),
        ],
    };
    rates
        .iter()
        .map(|(id, name)| {
            // Without rates, all packets are green.
            let ty = FieldType::plain(TypeName::Uint64).with_default(u64::MAX);
            Data::singleton(false, DataField::new(*id, name, ty))
        })
        .collect()
}

/// The data fields of a low-pass filter.
pub(super) fn filter_data() -> Vec<Data> {
    let float = || FieldType::plain(TypeName::Float);
    let fields = [
        DataField::new(
            ids::LPF_TYPE,
            "$LPF_SPEC_TYPE",
            FieldType::choice(&["RATE", "SAMPLE"]),
        ),
        DataField::new(ids::LPF_GAIN, "$LPF_SPEC_GAIN_TIME_CONSTANT_NS", float()),
        DataField::new(ids::LPF_DECAY, "$LPF_SPEC_DECAY_TIME_CONSTANT_NS", float()),
        DataField::new(
            ids::LPF_SCALE,
            "$LPF_SPEC_OUT_SCALE_DOWN_FACTOR",
            FieldType::plain(TypeName::Uint32),
        ),
    ];
    fields
        .into_iter()
        .map(|field| Data::singleton(true, field))
        .collect()
}

/// The data fields of a profile of weighted random early detection.
pub(super) fn early_detection_data() -> Vec<Data> {
    let float = || FieldType::plain(TypeName::Float);
    let cells = || FieldType::plain(TypeName::Uint32);
    let fields = [
        DataField::new(ids::WRED_TIME, "$WRED_SPEC_TIME_CONSTANT_NS", float()),
        DataField::new(ids::WRED_MIN, "$WRED_SPEC_MIN_THRESH_CELLS", cells()),
        DataField::new(ids::WRED_MAX, "$WRED_SPEC_MAX_THRESH_CELLS", cells()),
        DataField::new(ids::WRED_PROBABILITY, "$WRED_SPEC_MAX_PROBABILITY", float()),
    ];
    fields
        .into_iter()
        .map(|field| Data::singleton(true, field))
        .collect()
}

/// The table of debug counters, which all programs have.
pub(super) fn debug_counters(arch: Arch) -> Table {
    let kinds = [
        "DISABLED",
        "TBL_MISS",
        "TBL_HIT",
        "GW_TBL_MISS",
        "GW_TBL_HIT",
        "GW_TBL_INHIBIT",
    ];
    let kind = FieldType::choice(&kinds).with_default("TBL_HIT");
    let count = FieldType::plain(TypeName::Uint64).with_default(0);
    Table {
        name: "tbl_dbg_counter".to_owned(),
        id: Prefix::DebugCounter.of(0),
        table_type: TableType::TblDbgCnt,
        size: Budget::of(arch).map_or(0, |chip| u64::from(chip.stages) * chip.stage.tables),
        key: vec![exact(
            ids::DEBUG_COUNTER_TABLE,
            "tbl_name",
            true,
            FieldType::plain(TypeName::String),
        )],
        data: vec![
            Data::singleton(false, DataField::new(ids::DEBUG_COUNTER_TYPE, "type", kind)),
            Data::singleton(
                false,
                DataField::new(ids::DEBUG_COUNTER_VALUE, "value", count),
            ),
        ],
        ..Table::default()
    }
}
