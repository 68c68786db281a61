//! Cells of counters, meters, registers, filters and parser value sets.

use alfirk_bf_rt_json::{ids, Table, TableType};
use alfirk_bmv2::Switch;
use alfirk_p4runtime::bfrt_proto::{data_field::Value, DataField, TableData, TableKey};

use crate::cells::{chip_bytes, no_counts, with_counts, Cells};
use crate::device::Generation;
use crate::error::{core, invalid, unsupported, Outcome};
use crate::meters::{has_rates, meter_config, meter_fields};
use crate::program::own_name;
use crate::values::{self, bits_of, bytes_of, exact_key, joined_values, Values};

/// An array of the schema and of the switch, whose key is an index, or which has one cell and no key.
pub(crate) struct Array<'p> {
    pub table: &'p Table,
    name: &'p str,
}

impl<'p> Array<'p> {
    pub fn new(table: &'p Table) -> Array<'p> {
        Array {
            table,
            name: own_name(&table.name),
        }
    }

    /// The index in a key.
    pub fn index(&self, key: Option<&TableKey>) -> Outcome<u64> {
        let Some(field) = self.table.key.first() else {
            return Ok(0);
        };
        let key = key
            .ok_or_else(|| invalid(format!("table {}: the request has no key", self.table.name)))?;
        let index = values::key_number(self.table, key, field.id)?;
        if index >= self.table.size {
            let (name, size) = (&self.table.name, self.table.size);
            return Err(invalid(format!(
                "table {name}: the index {index} is beyond its size of {size}"
            )));
        }
        Ok(index)
    }

    /// Sets the cell `index`.
    pub fn write(&self, switch: &mut Switch, index: u64, data: &TableData, now: u64) -> Outcome {
        let values = Values::new(self.table, &[], data)?;
        match self.table.table_type {
            TableType::Counter => {
                let old = switch.read_counter(self.name, index).map_err(core)?;
                let count = |id| values.number(id);
                let counter = with_counts(old, count(ids::COUNTER_BYTES), count(ids::COUNTER_PKTS));
                switch
                    .write_counter(self.name, index, counter)
                    .map_err(core)
            }
            TableType::Meter => {
                if !has_rates(&values) {
                    return Ok(());
                }
                let old = switch.read_meter(self.name, index).map_err(core)?;
                let config = meter_config(&values, old);
                switch
                    .write_meter(self.name, index, config, now)
                    .map_err(core)
            }
            TableType::Register => {
                for cells in Cells::of(self.table) {
                    cells.write(switch, index, &values)?;
                }
                Ok(())
            }
            TableType::RegisterParam => match values.bytes(1) {
                Some(value) => switch.write_register(self.name, 0, value).map_err(core),
                None => Err(invalid(format!("table {}: no value", self.table.name))),
            },
            TableType::Lpf => {
                let cell = filter_cell(&values);
                switch.write_register(self.name, index, &cell).map_err(core)
            }
            TableType::Wred => {
                let cell = early_detection_cell(&values);
                switch.write_register(self.name, index, &cell).map_err(core)
            }
            _ => Err(self.unsupported()),
        }
    }

    /// The key and data of the cell `index`.
    pub fn read(
        &self,
        switch: &Switch,
        index: u64,
        chip: Generation,
    ) -> Outcome<(TableKey, TableData)> {
        let fields = match self.table.table_type {
            TableType::Counter => {
                let counter = switch.read_counter(self.name, index).map_err(core)?;
                let counts = [
                    (ids::COUNTER_BYTES, chip_bytes(counter)),
                    (ids::COUNTER_PKTS, counter.packets),
                ];
                let counts = counts
                    .into_iter()
                    .filter(|(id, _)| self.table.has_data_field(*id));
                counts
                    .map(|(id, count)| values::number_field(id, count, 64))
                    .collect()
            }
            TableType::Meter => {
                let config = switch.read_meter(self.name, index).map_err(core)?;
                meter_fields(self.table, config, chip)
            }
            TableType::Register => {
                let mut fields = Vec::new();
                for cells in Cells::of(self.table) {
                    fields.extend(cells.read(switch, index)?);
                }
                fields
            }
            TableType::RegisterParam => {
                let value = switch.read_register(self.name, 0).map_err(core)?;
                let bits = self.table.data_fields().next();
                let bits = bits.and_then(|(_, field)| match &field.content {
                    alfirk_bf_rt_json::FieldContent::Type(ty) => ty.bits(),
                    alfirk_bf_rt_json::FieldContent::Container(_) => None,
                });
                let value = values::padded(&value, bits.unwrap_or(32));
                vec![values::stream(1, value)]
            }
            TableType::Lpf => {
                let cell = switch.read_register(self.name, index).map_err(core)?;
                filter_fields(&cell)
            }
            TableType::Wred => {
                let cell = switch.read_register(self.name, index).map_err(core)?;
                early_detection_fields(&cell)
            }
            _ => return Err(self.unsupported()),
        };
        let key = match self.table.key.first() {
            Some(field) => exact_key(field.id, bytes_of(index, 32)),
            None => TableKey::default(),
        };
        Ok((
            key,
            TableData {
                action_id: 0,
                fields,
            },
        ))
    }

    /// Sets the number of bytes that the meter adds to the length of a packet.
    pub fn adjust(&self, switch: &mut Switch, bytes: i32) -> Outcome {
        switch.adjust_meter(self.name, bytes).map_err(core)
    }

    /// The counts or register fields of a cell that neither packets nor clients have changed.
    pub fn initial(&self, switch: &Switch) -> Outcome<Vec<DataField>> {
        match self.table.table_type {
            TableType::Register => {
                let mut fields = Vec::new();
                for cells in Cells::of(self.table) {
                    fields.extend(cells.initial(switch)?);
                }
                Ok(fields)
            }
            _ => Ok(no_counts().to_vec()),
        }
    }

    /// Sets all cells to their initial state.
    pub fn clear(&self, switch: &mut Switch, now: u64) -> Outcome {
        match self.table.table_type {
            TableType::Counter => switch.clear_counter(self.name),
            TableType::Meter => switch.fill_meter(self.name, None, now),
            TableType::Register | TableType::RegisterParam | TableType::Lpf | TableType::Wred => {
                switch.reset_register(self.name)
            }
            _ => return Err(self.unsupported()),
        }
        .map_err(core)
    }

    /// Number of cells.
    pub fn size(&self) -> u64 {
        self.table.size
    }

    fn unsupported(&self) -> alfirk_p4runtime::Status {
        unsupported(format!(
            "table {}: this switch does not support its kind",
            self.table.name
        ))
    }
}

/// Width in bits of the cells of a filter's configuration, and of a profile of random early detection.
pub(crate) const FILTER_BITS: u32 = 80;
pub(crate) const EARLY_DETECTION_BITS: u32 = 72;
/// Threshold of a profile that drops no packets, in cells of buffer memory: the maximum of the chip.
const NO_THRESHOLD: u64 = 0xff00_0000;

/// Kinds of low-pass filters in the cell of a filter's configuration.
const SAMPLE: u64 = 1;
const RATE: u64 = 2;

/// The configuration of a low-pass filter as the compiler lays it out: kind (8 bits), time constants (32 bits each, in
/// nanoseconds), and right shift of the result (8 bits).
pub(crate) fn filter_cell(values: &Values) -> Vec<u8> {
    let kind = match values.string(ids::LPF_TYPE) {
        Some("RATE") => RATE,
        _ => SAMPLE,
    };
    let time = |id| values.float(id).unwrap_or(0.0).clamp(0.0, u32::MAX as f32) as u64;
    let parts = [
        (8, kind),
        (32, time(ids::LPF_GAIN)),
        (32, time(ids::LPF_DECAY)),
        (8, values.number(ids::LPF_SCALE).unwrap_or(0)),
    ];
    joined_numbers(&parts)
}

pub(crate) fn filter_fields(cell: &[u8]) -> Vec<DataField> {
    let part = |low, bits| values::number(&bits_of(cell, low, bits)).unwrap_or(0);
    let kind = if part(72, 8) == RATE {
        "RATE"
    } else {
        "SAMPLE"
    };
    vec![
        values::field(ids::LPF_TYPE, Value::StrVal(kind.to_owned())),
        values::field(ids::LPF_GAIN, Value::FloatVal(part(40, 32) as f32)),
        values::field(ids::LPF_DECAY, Value::FloatVal(part(8, 32) as f32)),
        values::number_field(ids::LPF_SCALE, part(0, 8), 32),
    ]
}

/// The profile of random early detection as the compiler lays it out: thresholds (32 bits each), and the maximum drop
/// probability in percent (8 bits).
pub(crate) fn early_detection_cell(values: &Values) -> Vec<u8> {
    let share = values.float(ids::WRED_PROBABILITY).unwrap_or(0.0);
    let parts = [
        (32, values.number(ids::WRED_MIN).unwrap_or(0)),
        (32, values.number(ids::WRED_MAX).unwrap_or(0)),
        (8, (share.clamp(0.0, 1.0) * 100.0).round() as u64),
    ];
    joined_numbers(&parts)
}

pub(crate) fn early_detection_fields(cell: &[u8]) -> Vec<DataField> {
    let part = |low, bits| values::number(&bits_of(cell, low, bits)).unwrap_or(0);
    let is_unset = part(8, 32) == 0;
    let threshold = |low| {
        if is_unset {
            NO_THRESHOLD
        } else {
            part(low, 32)
        }
    };
    let share = part(0, 8) as f32 / 100.0;
    vec![
        values::field(ids::WRED_TIME, Value::FloatVal(0.0)),
        values::number_field(ids::WRED_MIN, threshold(40), 32),
        values::number_field(ids::WRED_MAX, threshold(8), 32),
        values::field(ids::WRED_PROBABILITY, Value::FloatVal(share)),
    ]
}

fn joined_numbers(parts: &[(u32, u64)]) -> Vec<u8> {
    let bytes = parts
        .iter()
        .map(|(bits, value)| (*bits, value.to_be_bytes().to_vec()));
    joined_values(&bytes.collect::<Vec<_>>())
}
