//! Counters, and cells of registers.

use std::collections::BTreeMap;

use alfirk_bf_rt_json::{ids, Table};
use alfirk_bmv2::{Counter, Switch};
use alfirk_p4runtime::bfrt_proto::DataField;

use crate::error::{core, Outcome};
use crate::values::{self, bits_of, joined, padded, stream, Values};

/// Length in bytes of the frame check sequence, which the chip counts and the switch does not receive.
const FRAME_CHECK_BYTES: u64 = 4;

/// The bytes of a counter as the chip counts them, with the frame check sequence of each packet.
pub(crate) fn chip_bytes(counter: Counter) -> u64 {
    let checks = counter.packets.wrapping_mul(FRAME_CHECK_BYTES);
    counter.bytes.wrapping_add(checks)
}

/// A counter with other counts, as the chip counts them; `None` keeps a count.
pub(crate) fn with_counts(old: Counter, bytes: Option<u64>, packets: Option<u64>) -> Counter {
    let bytes = bytes.unwrap_or(chip_bytes(old));
    let packets = packets.unwrap_or(old.packets);
    let checks = packets.wrapping_mul(FRAME_CHECK_BYTES);
    Counter {
        packets,
        bytes: bytes.wrapping_sub(checks),
    }
}

/// The fields of a counter without packets.
pub(crate) fn no_counts() -> [DataField; 2] {
    [ids::COUNTER_BYTES, ids::COUNTER_PKTS].map(|id| values::number_field(id, 0, 64))
}

/// A register whose cells the data fields of a table describe.
pub(crate) struct Cells<'p> {
    /// Name of the register in the switch.
    name: &'p str,
    /// Id and width in bits of each part of a cell, the most significant first.
    pub fields: Vec<(u32, u32)>,
}

impl<'p> Cells<'p> {
    /// The registers of a table, by the names of its data fields, which are `REGISTER.PART`.
    pub fn of(table: &'p Table) -> Vec<Cells<'p>> {
        let mut all: BTreeMap<&str, Cells> = BTreeMap::new();
        for (_, field) in table.data_fields() {
            let is_cell = |name: &str| name == "$bfrt_field_class";
            if !field.annotations.iter().any(|note| is_cell(&note.name)) {
                continue;
            }
            let alfirk_bf_rt_json::FieldContent::Type(ty) = &field.content else {
                continue;
            };
            if let (Some((name, _)), Some(bits)) = (field.name.rsplit_once('.'), ty.bits()) {
                let cells = all.entry(name).or_insert_with(|| Cells {
                    name,
                    fields: Vec::new(),
                });
                cells.fields.push((field.id, bits));
            }
        }
        all.into_values().collect()
    }

    /// Sets the cell `index`. Parts that the request does not have keep their values.
    pub fn write(&self, switch: &mut Switch, index: u64, values: &Values) -> Outcome {
        let mut parts = self.parts(switch, index)?;
        for ((id, bits), part) in self.fields.iter().zip(&mut parts) {
            if let Some(bytes) = values.bytes(*id) {
                *part = padded(bytes, *bits);
            } else if let Some(value) = values.boolean(*id) {
                *part = vec![u8::from(value)];
            }
        }
        let widths = self.fields.iter().map(|(_, bits)| *bits);
        let cell = joined(widths.zip(parts.iter().map(Vec::as_slice)));
        switch.write_register(self.name, index, &cell).map_err(core)
    }

    /// The data fields of the cell `index`.
    pub fn read(&self, switch: &Switch, index: u64) -> Outcome<Vec<DataField>> {
        let parts = self.parts(switch, index)?;
        let parts = self.fields.iter().zip(parts);
        Ok(parts.map(|((id, _), part)| stream(*id, part)).collect())
    }

    /// The data fields of a cell with the initial value of the program.
    pub fn initial(&self, switch: &Switch) -> Outcome<Vec<DataField>> {
        let cell = switch.initial_register(self.name).map_err(core)?;
        let parts = self.fields.iter().zip(self.split(&cell));
        Ok(parts.map(|((id, _), part)| stream(*id, part)).collect())
    }

    fn parts(&self, switch: &Switch, index: u64) -> Outcome<Vec<Vec<u8>>> {
        let cell = switch.read_register(self.name, index).map_err(core)?;
        Ok(self.split(&cell))
    }

    fn split(&self, cell: &[u8]) -> Vec<Vec<u8>> {
        let mut end = 0;
        let mut parts: Vec<Vec<u8>> = self
            .fields
            .iter()
            .rev()
            .map(|(_, bits)| {
                let part = bits_of(cell, end, *bits);
                end += bits;
                part
            })
            .collect();
        parts.reverse();
        parts
    }
}
