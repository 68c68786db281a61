//! Entries of match-action tables.

use alfirk_bf_rt_json::{ids, ActionData, ActionScope, ActionSpec, FieldType, Table};
use alfirk_bmv2::{EntryHandle, EntryTarget, KeyMatch, Switch, TableEntry, TableId, TableInfo};
use alfirk_bmv2_json::MatchType as CoreMatch;
use alfirk_p4runtime::bfrt_proto::{
    data_field::Value,
    key_field::{self, MatchType as Match},
    DataField, KeyField, TableData, TableKey,
};

use crate::arrays::{
    early_detection_cell, early_detection_fields, filter_cell, filter_fields, EARLY_DETECTION_BITS,
    FILTER_BITS,
};
use crate::cells::{chip_bytes, no_counts, with_counts, Cells};
use crate::device::Generation;
use crate::error::{core, invalid, not_found, Outcome};
use crate::idle::{Ageing, MS};
use crate::meters::{has_rates, meter_config, meter_fields};
use crate::program::own_name;
use crate::values::{self, bytes_of, check_width, padded, stream, Values};

/// Values of the hit state of an entry.
pub(crate) const ENTRY_ACTIVE: &str = "ENTRY_ACTIVE";
const ENTRY_IDLE: &str = "ENTRY_IDLE";

/// What the description of an entry depends on, besides the entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub chip: Generation,
    /// Time in nanoseconds.
    pub now: u64,
    /// Ageing of the table; `None` without it.
    pub ageing: Option<&'a Ageing>,
    /// Whether hit states are those of the chip; else those of the driver's copy.
    pub from_hardware: bool,
}

/// Handle of a table's default entry, and that of the first entry.
pub(crate) const DEFAULT_HANDLE: u32 = 1;
const FIRST_HANDLE: u32 = 2;

/// The handle of an entry as clients have it.
pub(crate) fn handle_of(entry: EntryHandle) -> u32 {
    entry.0.wrapping_add(FIRST_HANDLE)
}

/// A match-action table of the schema and of the switch.
pub(crate) struct MatchTable<'p> {
    pub table: &'p Table,
    pub id: TableId,
    info: TableInfo,
}

/// The parameters of an action: id, name and type.
type Params<'p> = Vec<(u32, &'p str, &'p FieldType)>;

impl<'p> MatchTable<'p> {
    /// Finds the table in the switch.
    pub fn new(table: &'p Table, switch: &Switch) -> Outcome<MatchTable<'p>> {
        let id = switch.table(own_name(&table.name)).map_err(core)?;
        let info = switch.table_info(id).map_err(core)?;
        if table.match_keys().count() != info.keys.len() {
            let name = &table.name;
            return Err(invalid(format!(
                "table {name}: the schema is not that of the loaded program"
            )));
        }
        Ok(MatchTable { table, id, info })
    }

    /// The key in the form of the switch, and its priority.
    pub fn key(&self, key: &TableKey) -> Outcome<(Vec<KeyMatch>, i32)> {
        let fields = values::key_fields(key);
        let name = |id: u32| format!("table {}, key field {id}", self.table.name);
        for id in fields.keys() {
            if self.table.key.iter().all(|field| field.id != *id) {
                return Err(invalid(format!("{}: unknown field", name(*id))));
            }
        }
        let priority = match fields.get(&ids::MATCH_PRIORITY) {
            Some(KeyField {
                match_type: Some(Match::Exact(exact)),
                ..
            }) => {
                let value = values::number(&exact.value).and_then(|n| i32::try_from(n).ok());
                value.ok_or_else(|| invalid(format!("{}: too large", name(ids::MATCH_PRIORITY))))?
            }
            _ => 0,
        };
        let mut matches = Vec::new();
        for (field, info) in self.table.match_keys().zip(&self.info.keys) {
            let given = fields
                .get(&field.id)
                .and_then(|given| given.match_type.as_ref());
            let what = format!("table {}, key field {}", self.table.name, field.name);
            let bits = field.ty.bits().unwrap_or(info.bits);
            matches.push(match_of(given, info.match_type, bits, &what)?);
        }
        Ok((matches, priority))
    }

    /// The entry with this key or handle.
    pub fn find(&self, switch: &Switch, key: &TableKey) -> Outcome<EntryHandle> {
        let (key, priority) = self.key(key)?;
        switch.find_entry(self.id, &key, priority).map_err(core)
    }

    /// The entry with this handle.
    pub fn with_handle(&self, switch: &Switch, handle: u32) -> Outcome<EntryHandle> {
        let handle = EntryHandle(handle.wrapping_sub(FIRST_HANDLE));
        switch.entry(self.id, handle).map_err(core)?;
        Ok(handle)
    }

    /// Inserts an entry.
    pub fn insert(
        &self,
        switch: &mut Switch,
        key: &TableKey,
        data: &TableData,
        now: u64,
    ) -> Outcome<EntryHandle> {
        let (key, priority) = self.key(key)?;
        let values = self.values(data)?;
        let target = self.target(data, &values, false)?.ok_or_else(|| {
            invalid(format!(
                "table {}: an entry needs an action",
                self.table.name
            ))
        })?;
        let inserted = switch.insert_entry(self.id, &key, priority, &target, 0, now);
        let handle = inserted.map_err(core)?;
        let set = self
            .set_resources(switch, handle, &values, now)
            .and_then(|()| self.set_filters(switch, handle, &values));
        if let Err(status) = set {
            // The entry was inserted just now, so it can be deleted.
            let _ = switch.delete_entry(self.id, handle);
            return Err(status);
        }
        Ok(handle)
    }

    /// Changes an entry.
    pub fn modify(
        &self,
        switch: &mut Switch,
        handle: EntryHandle,
        data: &TableData,
        now: u64,
    ) -> Outcome {
        let old = switch.entry(self.id, handle).map_err(core)?.target;
        let data = &self.completed(data, &old);
        let values = self.values(data)?;
        let target = self.target(data, &values, false)?;
        if let Some(target) = &target {
            switch.check_entry_target(self.id, target).map_err(core)?;
        }
        // Rates can contradict each other, so they are set before anything else has changed.
        self.set_resources(switch, handle, &values, now)?;
        if let Some(target) = target {
            switch
                .modify_entry(self.id, handle, &target)
                .map_err(core)?;
        }
        self.set_filters(switch, handle, &values)
    }

    /// The data of a request, with the old arguments of parameters that it does not have, if the action stays.
    fn completed(&self, data: &TableData, old: &EntryTarget) -> TableData {
        let mut all = data.clone();
        let old = self.target_data(old);
        if old.action_id == data.action_id {
            for field in old.fields {
                let is_same = |new: &DataField| new.field_id == field.field_id;
                if data.action_id != 0 && !data.fields.iter().any(is_same) {
                    all.fields.push(field);
                }
            }
        }
        all
    }

    /// Sets the default entry.
    pub fn set_default(&self, switch: &mut Switch, data: &TableData) -> Outcome {
        let values = self.values(data)?;
        let target = self.target(data, &values, true)?.ok_or_else(|| {
            invalid(format!(
                "table {}: a default entry needs an action",
                self.table.name
            ))
        })?;
        switch.set_default(self.id, &target).map_err(core)
    }

    /// The data of a request, checked by the schema.
    fn values<'r>(&self, data: &'r TableData) -> Outcome<Values<'r>> {
        let params = match data.action_id {
            0 => Vec::new(),
            action => params_of(spec_of(self.table, action)?),
        };
        Values::new(self.table, &params, data)
    }

    /// The action, member or group of an entry; `None` if the request does not set it.
    fn target(
        &self,
        data: &TableData,
        values: &Values,
        is_default: bool,
    ) -> Outcome<Option<EntryTarget>> {
        if data.action_id != 0 {
            let spec = spec_of(self.table, data.action_id)?;
            let refused = match spec.action_scope {
                Some(ActionScope::DefaultOnly) => !is_default,
                Some(ActionScope::TableOnly) => is_default,
                _ => false,
            };
            if refused {
                let kind = if is_default {
                    "the default entry"
                } else {
                    "entries"
                };
                let (table, action) = (&self.table.name, &spec.name);
                return Err(invalid(format!(
                    "table {table}: the action {action} is not allowed for {kind}"
                )));
            }
            return Ok(Some(EntryTarget::Action {
                name: spec.name.clone(),
                args: action_args(spec, values),
            }));
        }
        let id = |id: u32| values.number(id).and_then(|n| u32::try_from(n).ok());
        Ok(
            match (id(ids::ACTION_MEMBER_ID), id(ids::SELECTOR_GROUP_ID)) {
                (Some(member), None) => Some(EntryTarget::Member(member)),
                (None, Some(group)) => Some(EntryTarget::Group(group)),
                (None, None) => None,
                (Some(_), Some(_)) => {
                    let name = &self.table.name;
                    return Err(invalid(format!(
                        "table {name}: an entry has a member or a group, not both"
                    )));
                }
            },
        )
    }

    /// Sets counter, meter, registers and idle timeout of an entry, as far as the request has them.
    fn set_resources(
        &self,
        switch: &mut Switch,
        handle: EntryHandle,
        values: &Values,
        now: u64,
    ) -> Outcome {
        let count = |id| values.number(id);
        let (bytes, packets) = (count(ids::COUNTER_BYTES), count(ids::COUNTER_PKTS));
        if bytes.is_some() || packets.is_some() {
            let old = switch.entry(self.id, handle).map_err(core)?.counter;
            let counter = with_counts(old.unwrap_or_default(), bytes, packets);
            switch
                .set_direct_counter(self.id, handle, counter)
                .map_err(core)?;
        }
        if has_rates(values) {
            let old = switch.entry(self.id, handle).map_err(core)?.meter;
            let config = meter_config(values, old);
            switch
                .set_direct_meter(self.id, handle, config, now)
                .map_err(core)?;
        }
        if let Some(ttl) = values.number(ids::ENTRY_TTL) {
            switch
                .set_idle_timeout(self.id, handle, ttl.saturating_mul(MS), now)
                .map_err(core)?;
        }
        for register in self.registers() {
            if register.fields.iter().any(|(id, ..)| values.has(*id)) {
                let index = u64::from(handle.slot());
                register.write(switch, index, values)?;
            }
        }
        Ok(())
    }

    /// Sets the configurations of the direct filters of an entry, as far as the request has them.
    fn set_filters(&self, switch: &mut Switch, handle: EntryHandle, values: &Values) -> Outcome {
        let index = u64::from(handle.slot());
        let mut write = |bits: u32, cell: Vec<u8>| match self.filter(bits) {
            Some(name) => switch.write_register(name, index, &cell).map_err(core),
            None => Ok(()),
        };
        if values.has(ids::LPF_TYPE) {
            write(FILTER_BITS, filter_cell(values))?;
        }
        if values.has(ids::WRED_MAX) {
            write(EARLY_DETECTION_BITS, early_detection_cell(values))?;
        }
        Ok(())
    }

    /// Name of the direct register with configurations of this width; `None` without a direct filter.
    fn filter(&self, bits: u32) -> Option<&str> {
        let mut registers = self.info.direct_registers.iter();
        let found = registers.find(|register| register.bits == bits);
        found.map(|register| &*register.name)
    }

    /// The configurations of the direct filters of an entry.
    fn filter_data(&self, switch: &Switch, handle: EntryHandle) -> Vec<DataField> {
        let index = u64::from(handle.slot());
        let read = |bits: u32| {
            let name = self.filter(bits)?;
            switch.read_register(name, index).ok()
        };
        let has = |id: u32| self.table.has_data_field(id);
        let mut fields = Vec::new();
        if let Some(cell) = read(FILTER_BITS).filter(|_| has(ids::LPF_TYPE)) {
            fields.extend(filter_fields(&cell));
        }
        if let Some(cell) = read(EARLY_DETECTION_BITS).filter(|_| has(ids::WRED_MAX)) {
            fields.extend(early_detection_fields(&cell));
        }
        fields
    }

    /// The counter and register fields of an entry that neither packets nor clients have changed.
    pub fn initial_cells(&self, switch: &Switch) -> Vec<DataField> {
        let mut fields = no_counts().to_vec();
        for register in self.registers() {
            fields.extend(register.initial(switch).unwrap_or_default());
        }
        fields
    }

    /// Whether entries can age.
    pub fn can_age(&self) -> bool {
        let mut attributes = self.table.attributes.iter();
        attributes.any(|attribute| attribute == "IdleTimeout")
    }

    /// Whether a request sets the time to live, which starts then.
    pub fn sets_time_to_live(&self, data: &TableData) -> bool {
        data.fields
            .iter()
            .any(|field| field.field_id == ids::ENTRY_TTL)
    }

    /// The hit state that a request sets; `None` if it does not.
    pub fn hit_state(&self, data: &TableData) -> Outcome<Option<bool>> {
        let values = self.values(data)?;
        Ok(values
            .string(ids::ENTRY_HIT_STATE)
            .map(|state| state == ENTRY_ACTIVE))
    }

    /// The direct registers of the table.
    fn registers(&self) -> Vec<Cells<'p>> {
        Cells::of(self.table)
    }

    /// The key and data of an entry. `only`: ids of the data fields to return; all if empty.
    pub fn describe(
        &self,
        switch: &Switch,
        entry: &TableEntry,
        only: &[u32],
        view: &View,
    ) -> (TableKey, TableData) {
        let mut data = self.target_data(&entry.target);
        let is_read = |id: u32| only.is_empty() || only.contains(&id);
        data.fields.retain(|field| is_read(field.field_id));
        let mut add = |field: DataField| {
            if is_read(field.field_id) {
                data.fields.push(field);
            }
        };
        let has = |id: u32| self.table.has_data_field(id);
        let counter = entry.counter.unwrap_or_default();
        if has(ids::COUNTER_BYTES) {
            add(values::number_field(
                ids::COUNTER_BYTES,
                chip_bytes(counter),
                64,
            ));
        }
        if has(ids::COUNTER_PKTS) {
            add(values::number_field(ids::COUNTER_PKTS, counter.packets, 64));
        }
        for field in meter_fields(self.table, entry.meter, view.chip) {
            add(field);
        }
        for field in self.filter_data(switch, entry.handle) {
            add(field);
        }
        if has(ids::ENTRY_TTL) {
            let ttl = match view.ageing {
                Some(ageing) => ageing.rest(entry, view.now),
                None => entry.idle_timeout,
            };
            add(values::number_field(ids::ENTRY_TTL, ttl.div_ceil(MS), 32));
        }
        if has(ids::ENTRY_HIT_STATE) {
            let was_hit = view
                .ageing
                .is_some_and(|ageing| ageing.was_hit(entry, view.from_hardware));
            let state = if was_hit { ENTRY_ACTIVE } else { ENTRY_IDLE };
            add(values::field(
                ids::ENTRY_HIT_STATE,
                Value::StrVal(state.to_owned()),
            ));
        }
        for register in self.registers() {
            let index = u64::from(entry.handle.slot());
            for field in register.read(switch, index).unwrap_or_default() {
                add(field);
            }
        }
        (self.key_of(entry), data)
    }

    /// The default entry's data.
    pub fn default_data(&self, switch: &Switch) -> Outcome<TableData> {
        match switch.default_entry(self.id).map_err(core)? {
            Some(target) => Ok(self.target_data(&target)),
            None => Err(not_found(format!(
                "table {} has no default entry",
                self.table.name
            ))),
        }
    }

    fn target_data(&self, target: &EntryTarget) -> TableData {
        match target {
            EntryTarget::Action { name, args } => {
                let specs = self.table.action_specs.iter().flatten();
                let spec = specs.into_iter().find(|spec| spec.name == *name);
                spec.map_or_else(TableData::default, |spec| action_data(spec, args))
            }
            EntryTarget::Member(id) => one(ids::ACTION_MEMBER_ID, *id),
            EntryTarget::Group(id) => one(ids::SELECTOR_GROUP_ID, *id),
        }
    }

    pub fn key_of(&self, entry: &TableEntry) -> TableKey {
        let mut fields: Vec<KeyField> = (self.table.match_keys())
            .zip(&entry.key)
            .map(|(field, value)| KeyField {
                field_id: field.id,
                match_type: Some(field_of(
                    value,
                    field.match_type,
                    field.ty.bits().unwrap_or(1),
                )),
            })
            .collect();
        if self.info.has_priorities && self.table.key.iter().any(|f| f.id == ids::MATCH_PRIORITY) {
            let value = bytes_of(u64::try_from(entry.priority).unwrap_or(0), 32);
            fields.push(KeyField {
                field_id: ids::MATCH_PRIORITY,
                match_type: Some(Match::Exact(key_field::Exact { value })),
            });
        }
        TableKey { fields }
    }
}

fn one(id: u32, value: u32) -> TableData {
    TableData {
        action_id: 0,
        fields: vec![values::number_field(id, u64::from(value), 32)],
    }
}

/// The action of a table with this id.
pub(crate) fn spec_of(table: &Table, action: u32) -> Outcome<&ActionSpec> {
    let mut specs = table.action_specs.iter().flatten();
    let spec = specs.find(|spec| spec.id == action);
    spec.ok_or_else(|| {
        let name = &table.name;
        invalid(format!("table {name} has no action with the id {action}"))
    })
}

/// Ids, names and types of an action's parameters.
pub(crate) fn params_of(spec: &ActionSpec) -> Params<'_> {
    let params = spec.data.iter().filter_map(|data| match data {
        ActionData::Param(param) => Some((param.id, &*param.name, &param.ty)),
        ActionData::Data(_) => None,
    });
    params.collect()
}

/// The arguments of an action, in the order of its parameters. A parameter without a value is 0, as on the chip.
pub(crate) fn action_args(spec: &ActionSpec, values: &Values) -> Vec<Vec<u8>> {
    let params = params_of(spec).into_iter();
    let args = params.map(|(id, _, ty)| match (values.bytes(id), values.boolean(id)) {
        (Some(bytes), _) => bytes.to_vec(),
        (None, flag) => bytes_of(u64::from(flag.unwrap_or(false)), ty.bits().unwrap_or(8)),
    });
    args.collect()
}

/// The data of an entry with an action.
pub(crate) fn action_data(spec: &ActionSpec, args: &[Vec<u8>]) -> TableData {
    let params = params_of(spec).into_iter().zip(args);
    let fields = params.map(|((id, _, ty), arg)| stream(id, padded(arg, ty.bits().unwrap_or(8))));
    TableData {
        action_id: spec.id,
        fields: fields.collect(),
    }
}

/// The value of a key field in the form of the switch. A field that is absent matches any value, or is 0 if it is
/// exact.
fn match_of(given: Option<&Match>, kind: CoreMatch, bits: u32, what: &str) -> Outcome<KeyMatch> {
    let length = (bits as usize).div_ceil(8).max(1);
    let check = |value: &[u8]| check_width(value, bits, what);
    let wrong = || invalid(format!("{what}: the value has the wrong match type"));
    Ok(match kind {
        CoreMatch::Exact => match given {
            Some(Match::Exact(exact)) => {
                check(&exact.value)?;
                KeyMatch::Exact {
                    value: exact.value.clone(),
                }
            }
            None => KeyMatch::Exact {
                value: vec![0; length],
            },
            _ => return Err(wrong()),
        },
        CoreMatch::Valid => match given {
            Some(Match::Exact(exact)) => {
                check(&exact.value)?;
                KeyMatch::Valid {
                    value: exact.value.iter().any(|byte| *byte != 0),
                }
            }
            None => KeyMatch::Valid { value: false },
            _ => return Err(wrong()),
        },
        CoreMatch::Lpm => match given {
            Some(Match::Lpm(lpm)) => {
                check(&lpm.value)?;
                let prefix_len = u32::try_from(lpm.prefix_len)
                    .ok()
                    .filter(|length| *length <= bits)
                    .ok_or_else(|| {
                        invalid(format!("{what}: the prefix is longer than the field"))
                    })?;
                KeyMatch::Lpm {
                    value: masked(&lpm.value, &prefix_mask(bits, prefix_len)),
                    prefix_len,
                }
            }
            None => KeyMatch::Lpm {
                value: vec![0; length],
                prefix_len: 0,
            },
            _ => return Err(wrong()),
        },
        CoreMatch::Ternary | CoreMatch::Optional => {
            let (value, mask) = match given {
                Some(Match::Ternary(ternary)) => {
                    check(&ternary.value)?;
                    check(&ternary.mask)?;
                    (masked(&ternary.value, &ternary.mask), ternary.mask.clone())
                }
                Some(Match::Optional(optional)) => {
                    let mask = match optional.is_valid {
                        true => prefix_mask(bits, bits),
                        false => vec![0; length],
                    };
                    check(&optional.value)?;
                    (masked(&optional.value, &mask), mask)
                }
                None => (vec![0; length], vec![0; length]),
                _ => return Err(wrong()),
            };
            KeyMatch::Ternary { value, mask }
        }
        CoreMatch::Range => match given {
            Some(Match::Range(range)) => {
                check(&range.low)?;
                check(&range.high)?;
                KeyMatch::Range {
                    low: range.low.clone(),
                    high: range.high.clone(),
                }
            }
            None => KeyMatch::Range {
                low: vec![0; length],
                high: prefix_mask(bits, bits),
            },
            _ => return Err(wrong()),
        },
    })
}

/// The value of a key field in the form of BfRuntime.
fn field_of(value: &KeyMatch, kind: alfirk_bf_rt_json::MatchType, bits: u32) -> Match {
    match value {
        KeyMatch::Exact { value } => Match::Exact(key_field::Exact {
            value: padded(value, bits),
        }),
        KeyMatch::Valid { value } => Match::Exact(key_field::Exact {
            value: vec![u8::from(*value)],
        }),
        KeyMatch::Lpm { value, prefix_len } => Match::Lpm(key_field::Lpm {
            value: padded(value, bits),
            prefix_len: *prefix_len as i32,
        }),
        KeyMatch::Ternary { value, mask } if kind == alfirk_bf_rt_json::MatchType::Optional => {
            Match::Optional(key_field::Optional {
                value: padded(value, bits),
                is_valid: mask.iter().any(|byte| *byte != 0),
            })
        }
        KeyMatch::Ternary { value, mask } => Match::Ternary(key_field::Ternary {
            value: padded(value, bits),
            mask: padded(mask, bits),
        }),
        KeyMatch::Range { low, high } => Match::Range(key_field::Range {
            low: padded(low, bits),
            high: padded(high, bits),
        }),
    }
}

/// A mask of `bits` bits with `ones` leading ones.
pub(crate) fn prefix_mask(bits: u32, ones: u32) -> Vec<u8> {
    let length = (bits as usize).div_ceil(8).max(1);
    let mut mask = vec![0; length];
    for bit in bits.saturating_sub(ones)..bits {
        let byte = length - 1 - (bit / 8) as usize;
        mask[byte] |= 1 << (bit % 8);
    }
    mask
}

fn masked(value: &[u8], mask: &[u8]) -> Vec<u8> {
    value.iter().zip(mask).map(|(v, m)| v & m).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_begin_at_the_most_significant_bit_of_the_field() {
        assert_eq!(prefix_mask(9, 1), [1, 0]);
        assert_eq!(prefix_mask(9, 9), [1, 0xff]);
        assert_eq!(prefix_mask(32, 20), [0xff, 0xff, 0xf0, 0]);
        assert_eq!(prefix_mask(8, 0), [0]);
    }
}
