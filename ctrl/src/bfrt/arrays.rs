//! Cells of counters, meters and registers.

use std::collections::BTreeMap;

use alfirk_bf_rt_json::{ids, Schema, Table, TableType};
use alfirk_p4runtime::bfrt_proto::{self as bfrt, data_field::Value, TableData};
use alfirk_p4runtime::p4::config::v1::{meter_spec, p4_data_type_spec::TypeSpec, P4Info, Preamble};
use alfirk_p4runtime::p4::v1::{
    self, entity::Entity as Kind, p4_data, Index, MeterConfig, P4Data, P4StructLike,
};
use alfirk_p4runtime::{bytestring, Status};

use super::fields::{self, Field};
use super::{invalid, key_of, table_named, unsupported, TranslationError};

/// Rate and burst of a meter cell without a configuration: every packet is green.
const UNLIMITED: u64 = u64::MAX;

/// Kind of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrayKind {
    Counter,
    Meter,
    Register,
    /// Profiles of weighted random early detection, which are registers in P4Info.
    Wred,
}

/// An array in both interfaces.
#[derive(Clone, Debug)]
pub(super) struct Array {
    /// Id in BfRuntime.
    pub id: u32,
    pub kind: ArrayKind,
    index: Field,
    /// Data fields of a cell that P4Runtime has: bytes and packets of a counter; cir, pir, cburst and pburst of a
    /// meter; the members of a register; time constant, thresholds and probability of a profile. Fields that the cell does not have are absent.
    data: Vec<Field>,
    /// Whether a register's cell is a struct.
    is_struct: bool,
}

const COUNTER: [&str; 2] = ["$COUNTER_SPEC_BYTES", "$COUNTER_SPEC_PKTS"];
const METER_PACKETS: [&str; 4] = [
    "$METER_SPEC_CIR_PPS",
    "$METER_SPEC_PIR_PPS",
    "$METER_SPEC_CBS_PKTS",
    "$METER_SPEC_PBS_PKTS",
];

impl Array {
    /// All arrays of P4Info, by their ids there. Meters of bytes are left out, since BfRuntime has them in kilobits.
    pub fn all(p4info: &P4Info, schema: &Schema) -> Result<BTreeMap<u32, Array>, TranslationError> {
        let mut arrays = BTreeMap::new();
        let mut add = |preamble: &Option<Preamble>,
                       kind: ArrayKind,
                       name: &'static str,
                       index: &str,
                       data: &dyn Fn(&Table) -> Vec<Field>,
                       is_struct: bool| {
            let Some(preamble) = preamble else {
                return Ok(());
            };
            let table = table_named(schema, name, &preamble.name)?;
            let array = Array {
                id: table.id,
                kind,
                index: Field::key(table, index)?,
                data: data(table),
                is_struct,
            };
            arrays.insert(preamble.id, array);
            Ok(())
        };
        for counter in &p4info.counters {
            let kind = ArrayKind::Counter;
            // A counter of packets has no bytes, and the other way round.
            let data = |table: &Table| {
                let fields = COUNTER.iter().map(|name| Field::data(table, name));
                fields.filter_map(Result::ok).collect()
            };
            add(
                &counter.preamble,
                kind,
                "counter",
                "$COUNTER_INDEX",
                &data,
                false,
            )?;
        }
        for meter in &p4info.meters {
            let unit = meter.spec.as_ref().map(|spec| spec.unit);
            if unit != Some(meter_spec::Unit::Packets.into()) {
                continue;
            }
            let data = |table: &Table| {
                let fields = METER_PACKETS.iter().map(|name| Field::data(table, name));
                fields.filter_map(Result::ok).collect()
            };
            add(
                &meter.preamble,
                ArrayKind::Meter,
                "meter",
                "$METER_INDEX",
                &data,
                false,
            )?;
        }
        for register in &p4info.registers {
            let spec = register.type_spec.as_ref();
            let spec = spec.and_then(|spec| spec.type_spec.as_ref());
            let is_struct = matches!(spec, Some(TypeSpec::Struct(_)));
            let name = register.preamble.as_ref().map_or("", |own| &own.name);
            let table = table_named(schema, "register", name)?;
            let (kind, index) = match table.table_type {
                TableType::Wred => (ArrayKind::Wred, "$WRED_INDEX"),
                _ => (ArrayKind::Register, "$REGISTER_INDEX"),
            };
            let data = |table: &Table| {
                let fields = table.data_fields();
                let fields = fields.map(|(_, field)| Field::data(table, &field.name));
                fields.filter_map(Result::ok).collect()
            };
            add(
                &register.preamble,
                kind,
                "register",
                index,
                &data,
                is_struct,
            )?;
        }
        Ok(arrays)
    }

    /// Converts the configuration of a meter cell to write.
    pub fn meter(&self, entry: &v1::MeterEntry) -> Result<bfrt::TableEntry, Status> {
        let index = entry.index.as_ref();
        let index = index.ok_or_else(|| unsupported("all cells of a meter cannot be written"))?;
        let number = |value: i64| u64::try_from(value).map_err(|_| invalid("a rate is negative"));
        let values = match &entry.config {
            None => [UNLIMITED; 4],
            Some(config) => [
                number(config.cir)?,
                number(config.pir)?,
                number(config.cburst)?,
                number(config.pburst)?,
            ],
        };
        let fields = self.data.iter().zip(values);
        let fields = fields.map(|(field, value)| field.number(value));
        let fields = fields.collect::<Result<_, _>>()?;
        Ok(fields::entry(
            self.id,
            self.index.exact(cell(index)?)?,
            fields,
        ))
    }

    /// Converts the value of a register's cell, or a profile of early detection, to write.
    pub fn register(&self, entry: &v1::RegisterEntry) -> Result<bfrt::TableEntry, Status> {
        let index = entry.index.as_ref();
        let index =
            index.ok_or_else(|| unsupported("all cells of a register cannot be written"))?;
        let data = entry.data.as_ref();
        let fields = match (self.kind, data.and_then(|data| data.data.as_ref())) {
            (ArrayKind::Wred, Some(p4_data::Data::Bitstring(bytes))) => self.profile(bytes)?,
            (_, Some(p4_data::Data::Bitstring(bytes))) => self.members([bytes])?,
            (_, Some(p4_data::Data::Struct(parts))) => {
                let parts = parts.members.iter().map(|part| match &part.data {
                    Some(p4_data::Data::Bitstring(bytes)) => Ok(bytes),
                    _ => Err(unsupported("a member of a register is not a number")),
                });
                self.members(parts.collect::<Result<Vec<_>, _>>()?)?
            }
            _ => return Err(unsupported("the value of a register is not a number")),
        };
        Ok(fields::entry(
            self.id,
            self.index.exact(cell(index)?)?,
            fields,
        ))
    }

    /// The data fields of a register's cell with these members.
    fn members<'v>(
        &self,
        values: impl IntoIterator<Item = &'v Vec<u8>>,
    ) -> Result<Vec<bfrt::DataField>, Status> {
        let fields = self.data.iter().zip(values);
        let fields =
            fields.map(|(field, value)| Ok(field.with(Value::Stream(field.padded(value)?))));
        fields.collect()
    }

    /// The data fields of a profile of early detection: thresholds of 4 bytes each, and the probability in percent.
    fn profile(&self, bytes: &[u8]) -> Result<Vec<bfrt::DataField>, Status> {
        let value = bytestring::pad(bytes, 72).map_err(|error| invalid(error.to_string()))?;
        let number = |range: std::ops::Range<usize>| {
            let bytes = value[range].iter();
            bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let fields = self.data.iter().map(|field| match field.id {
            ids::WRED_MIN => field.number(number(0..4)),
            ids::WRED_MAX => field.number(number(4..8)),
            ids::WRED_PROBABILITY => {
                let share = number(8..9) as f32 / 100.0;
                Ok(field.with(Value::FloatVal(share)))
            }
            _ => Ok(field.with(Value::FloatVal(0.0))),
        });
        fields.collect()
    }

    /// The entity that reads the cell `index`, or all cells.
    pub fn read(&self, index: Option<&Index>) -> Result<bfrt::Entity, Status> {
        let Some(index) = index else {
            return Ok(fields::all_entries(self.id));
        };
        let key = self.index.exact(cell(index)?)?;
        Ok(fields::to_read(fields::key_entry(self.id, key)))
    }

    /// Converts a cell that was read; `id` is that of the array in P4Info.
    pub fn parse(&self, id: u32, entry: &bfrt::TableEntry) -> Option<Kind> {
        let index = self.index.number_in_key(key_of(entry)?)?;
        let index = Some(Index {
            index: i64::try_from(index).ok()?,
        });
        let data = entry.data.as_ref();
        let number = |field: u32| {
            let field = self.data.iter().find(|own| own.id == field);
            field.and_then(|field| field.number_in(data))
        };
        let signed = |value: Option<u64>| i64::try_from(value.unwrap_or(0)).unwrap_or(i64::MAX);
        Some(match self.kind {
            ArrayKind::Counter => Kind::CounterEntry(v1::CounterEntry {
                counter_id: id,
                index,
                data: Some(v1::CounterData {
                    byte_count: signed(number(ids::COUNTER_BYTES)),
                    packet_count: signed(number(ids::COUNTER_PKTS)),
                }),
            }),
            ArrayKind::Meter => {
                let cir = number(ids::METER_CIR_PPS)?;
                let config = (cir != UNLIMITED).then(|| MeterConfig {
                    cir: signed(Some(cir)),
                    pir: signed(number(ids::METER_PIR_PPS)),
                    cburst: signed(number(ids::METER_CBS_PKTS)),
                    pburst: signed(number(ids::METER_PBS_PKTS)),
                    ..MeterConfig::default()
                });
                Kind::MeterEntry(v1::MeterEntry {
                    meter_id: id,
                    index,
                    config,
                    ..v1::MeterEntry::default()
                })
            }
            ArrayKind::Register => Kind::RegisterEntry(v1::RegisterEntry {
                register_id: id,
                index,
                data: Some(self.value(data)?),
            }),
            ArrayKind::Wred => return None,
        })
    }

    /// The value of a register's cell.
    fn value(&self, data: Option<&TableData>) -> Option<P4Data> {
        let members = self.data.iter().map(|field| match field.value(data)? {
            Value::Stream(bytes) => Some(P4Data {
                data: Some(p4_data::Data::Bitstring(
                    bytestring::canonical(bytes).to_vec(),
                )),
            }),
            _ => None,
        });
        let mut members: Vec<P4Data> = members.collect::<Option<_>>()?;
        match self.is_struct {
            true => Some(P4Data {
                data: Some(p4_data::Data::Struct(P4StructLike { members })),
            }),
            false => (members.len() == 1).then(|| members.remove(0)),
        }
    }
}

/// The number of a cell.
fn cell(index: &Index) -> Result<u64, Status> {
    u64::try_from(index.index).map_err(|_| invalid("an index is negative"))
}
