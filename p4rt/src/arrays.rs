//! Updates and reads of indexed counters, meters and registers, and of digest configurations (P4Runtime § 9.3 to §
//! 9.8).

use alfirk_p4runtime::p4::v1::{
    entity::Entity as Kind, p4_data::Data, update::Type, CounterEntry, DigestEntry, Index,
    MeterEntry, P4Data, RegisterEntry,
};

use alfirk_p4runtime::bytestring;

use super::{
    data::DataError,
    error::{core_error, exists, invalid, not_found, out_of_range, unimplemented, UpdateResult},
    resources::{parse_counter, parse_meter, reject_meter_counters, show_counter, show_meter},
    schema::{Array, Register},
    scope::{only_modify, EntityVisitor, Scope, View},
    translation::Use,
};

/// Converts the index of a request to a range of array cells. A request without an index refers to all cells.
fn cells(
    what: &str,
    array: &Array,
    index: Option<&Index>,
    how: Use,
) -> UpdateResult<std::ops::Range<u64>> {
    if !array.present {
        return Err(unimplemented(format!(
            "{what} {}: not in the device config",
            array.name
        )));
    }
    let Some(index) = index else {
        return Ok(0..array.size);
    };
    let index = u64::try_from(index.index).map_err(|_| {
        invalid(format!(
            "{what} {}: index {} is negative",
            array.name, index.index
        ))
    })?;
    let index = match &array.index {
        Some(of) => {
            let data = of.data_value(&bytestring::encode(index), how);
            let data =
                data.map_err(|error| error.at(&format!("{what} {}: index {index}", array.name)))?;
            bytestring::decode(&data, 64).map_or(u64::MAX, |cell| cell as u64)
        }
        None => index,
    };
    if index >= array.size {
        return Err(out_of_range(format!(
            "{what} {}: index {index} is beyond its {} cells",
            array.name, array.size
        )));
    }
    Ok(index..index + 1)
}

/// Returns the index of a cell in the form of P4Runtime messages. It differs from the cell's number if the index has a
/// translated type.
fn index(array: &Array, cell: u64) -> Option<Index> {
    let own = array.index.as_ref().map(|of| {
        let own = of.controller_value(&bytestring::encode(cell));
        bytestring::decode(&own, 63).map_or(cell, |own| own as u64)
    });
    let index = own.unwrap_or(cell) as i64;
    Some(Index { index })
}

/// Returns the arrays that a read selects: the one with the id `id`, or all arrays if the id is 0.
fn selected<'a, T>(
    what: &str,
    all: &'a std::collections::BTreeMap<u32, T>,
    id: u32,
    array: impl Fn(&T) -> &Array,
) -> UpdateResult<Vec<&'a T>> {
    if id != 0 {
        let one = all.get(&id);
        return one
            .map(|one| vec![one])
            .ok_or_else(|| invalid(format!("no {what} has id {id:#010x}")));
    }
    Ok(all.values().filter(|item| array(item).present).collect())
}

pub fn write_counter(scope: &mut Scope<'_>, kind: Type, entry: &CounterEntry) -> UpdateResult {
    only_modify(kind, "counters")?;
    let schema = scope.pipeline.schema.clone();
    let id = entry.counter_id;
    let array = schema
        .counters
        .get(&id)
        .ok_or_else(|| invalid(format!("no counter has id {id:#010x}")))?;
    let cells = cells("counter", array, entry.index.as_ref(), Use::Write)?;
    let Some(data) = &entry.data else {
        return Ok(());
    };
    let value = parse_counter(&format!("counter {}", array.name), data)?;
    for cell in cells {
        scope
            .switch
            .write_counter(&array.name, cell, value)
            .map_err(core_error)?;
    }
    Ok(())
}

pub fn read_counters(
    view: View<'_>,
    filter: &CounterEntry,
    found: EntityVisitor<'_>,
) -> UpdateResult {
    let counters = &view.pipeline.schema.counters;
    for array in selected("counter", counters, filter.counter_id, |array| array)? {
        let index_of = filter.index.as_ref().filter(|_| filter.counter_id != 0);
        for cell in cells("counter", array, index_of, Use::Find)? {
            let value = view
                .switch
                .read_counter(&array.name, cell)
                .map_err(core_error)?;
            found(Kind::CounterEntry(CounterEntry {
                counter_id: array.id,
                index: index(array, cell),
                data: Some(show_counter(value)),
            }));
        }
    }
    Ok(())
}

pub fn write_meter(scope: &mut Scope<'_>, kind: Type, entry: &MeterEntry) -> UpdateResult {
    only_modify(kind, "meters")?;
    let schema = scope.pipeline.schema.clone();
    let id = entry.meter_id;
    let meter = schema
        .meters
        .get(&id)
        .ok_or_else(|| invalid(format!("no meter has id {id:#010x}")))?;
    let what = format!("meter {}", meter.array.name);
    reject_meter_counters(&what, entry.counter_data.as_ref())?;
    let cells = cells("meter", &meter.array, entry.index.as_ref(), Use::Write)?;
    let config = entry.config.as_ref();
    let config = config
        .map(|c| parse_meter(&what, meter.kind, c))
        .transpose()?;
    for cell in cells {
        scope
            .switch
            .write_meter(&meter.array.name, cell, config, scope.now)
            .map_err(core_error)?;
    }
    Ok(())
}

pub fn read_meters(view: View<'_>, filter: &MeterEntry, found: EntityVisitor<'_>) -> UpdateResult {
    reject_meter_counters("meter", filter.counter_data.as_ref())?;
    let meters = &view.pipeline.schema.meters;
    for meter in selected("meter", meters, filter.meter_id, |meter| &meter.array)? {
        let array = &meter.array;
        let index_of = filter.index.as_ref().filter(|_| filter.meter_id != 0);
        for cell in cells("meter", array, index_of, Use::Find)? {
            let config = view
                .switch
                .read_meter(&array.name, cell)
                .map_err(core_error)?;
            found(Kind::MeterEntry(MeterEntry {
                meter_id: array.id,
                index: index(array, cell),
                config: config.map(show_meter),
                counter_data: None,
            }));
        }
    }
    Ok(())
}

/// Maximum width of a register cell that is a struct, in bits.
const MAX_CELL_BITS: usize = 128;

/// Checks that the server supports the cell type of a register. Cells of v1model registers are single numbers. Tofino's
/// may be structs, whose fields are concatenated into one number, the first field in the highest bits.
fn check_register(register: &Register) -> UpdateResult {
    let name = &register.array.name;
    match &register.data {
        Ok(ty) if ty.fields() == 1 || ty.widths().iter().sum::<usize>() <= MAX_CELL_BITS => Ok(()),
        Ok(_) => Err(unimplemented(format!(
            "register {name}: cells of over {MAX_CELL_BITS} bits are not supported"
        ))),
        Err(error) => Err(unimplemented(format!("register {name}: {error}"))),
    }
}

/// Splits a register cell into the fields of its struct. `widths` are the widths of the fields in bits. The results are
/// in canonical form.
fn split(cell: &[u8], widths: &[usize]) -> Vec<Vec<u8>> {
    if let [_] = widths {
        return vec![cell.to_vec()];
    }
    let number = cell
        .iter()
        .fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    let mut end: usize = widths.iter().sum();
    let field = |width: &usize| {
        end -= width;
        let mask = u128::MAX.checked_shr(128 - *width as u32).unwrap_or(0);
        bytestring::encode(number.checked_shr(end as u32).unwrap_or(0) & mask)
    };
    widths.iter().map(field).collect()
}

/// Concatenates the fields of a struct to one register cell. `widths` are the widths of the fields in bits.
fn joined(fields: &[Vec<u8>], widths: &[usize]) -> Vec<u8> {
    if let [one] = fields {
        return one.clone();
    }
    let fields = fields.iter().zip(widths);
    let number = fields.fold(0u128, |number, (field, width)| {
        let value = field
            .iter()
            .fold(0u128, |value, byte| value << 8 | u128::from(*byte));
        number.checked_shl(*width as u32).unwrap_or(0) | value
    });
    bytestring::encode(number)
}

pub fn write_register(scope: &mut Scope<'_>, kind: Type, entry: &RegisterEntry) -> UpdateResult {
    only_modify(kind, "registers")?;
    let schema = scope.pipeline.schema.clone();
    let id = entry.register_id;
    let register = schema
        .registers
        .get(&id)
        .ok_or_else(|| invalid(format!("no register has id {id:#010x}")))?;
    let array = &register.array;
    let cells = cells("register", array, entry.index.as_ref(), Use::Write)?;
    check_register(register)?;
    let data = entry
        .data
        .as_ref()
        .ok_or_else(|| invalid(format!("register {}: data is unset", array.name)))?;
    let Ok(ty) = &register.data else {
        return Ok(());
    };
    let fields = ty.flatten(data).map_err(|error| match error {
        DataError::Translation(error) => error.at(&format!("register {}", array.name)),
        error => invalid(format!("register {}: {error}", array.name)),
    })?;
    let value = joined(&fields, &ty.widths());
    for cell in cells {
        scope
            .switch
            .write_register(&array.name, cell, &value)
            .map_err(core_error)?;
    }
    Ok(())
}

pub fn read_registers(
    view: View<'_>,
    filter: &RegisterEntry,
    found: EntityVisitor<'_>,
) -> UpdateResult {
    let registers = &view.pipeline.schema.registers;
    let wildcard = filter.register_id == 0;
    for register in selected("register", registers, filter.register_id, |r| &r.array)? {
        let array = &register.array;
        match (check_register(register), wildcard) {
            (Ok(()), _) => {}
            // In a read of several registers, one that cannot be converted is skipped.
            (Err(_), true) => continue,
            (Err(status), false) => return Err(status),
        }
        let index_of = filter.index.as_ref().filter(|_| !wildcard);
        let Ok(ty) = &register.data else {
            continue;
        };
        let widths = ty.widths();
        for cell in cells("register", array, index_of, Use::Find)? {
            let value = view
                .switch
                .read_register(&array.name, cell)
                .map_err(core_error)?;
            found(Kind::RegisterEntry(RegisterEntry {
                register_id: array.id,
                index: index(array, cell),
                data: Some(ty.unflatten(&mut split(&value, &widths).iter().map(Vec::as_slice))),
            }));
        }
    }
    Ok(())
}

/// Returns whether the value of a register cell is zero, which is its initial value.
pub fn is_zero(data: &P4Data) -> bool {
    match &data.data {
        Some(Data::Bitstring(bytes) | Data::EnumValue(bytes)) => bytes.iter().all(|b| *b == 0),
        Some(Data::Bool(value)) => !value,
        Some(Data::Struct(parts) | Data::Tuple(parts)) => parts.members.iter().all(is_zero),
        _ => false,
    }
}

pub fn write_digest(scope: &mut Scope<'_>, kind: Type, entry: &DigestEntry) -> UpdateResult {
    let id = entry.digest_id;
    let pipeline = &mut *scope.pipeline;
    let digest = pipeline
        .schema
        .digests
        .get(&id)
        .ok_or_else(|| invalid(format!("no digest has id {id:#010x}")))?;
    let name = &digest.name;
    let enabled = pipeline.digests.config(id).is_some();
    match kind {
        Type::Insert if enabled => return Err(exists(format!("digest {name} is enabled already"))),
        Type::Modify | Type::Delete if !enabled => {
            return Err(not_found(format!("digest {name} is not enabled")))
        }
        _ => {}
    }
    if kind == Type::Delete {
        pipeline.digests.disable(id);
        return Ok(());
    }
    if let Err(error) = &digest.data {
        return Err(unimplemented(format!("digest {name}: {error}")));
    }
    let config = entry.config.unwrap_or_default();
    if config.max_timeout_ns < 0 || config.ack_timeout_ns < 0 || config.max_list_size < 0 {
        return Err(invalid(format!(
            "digest {name}: a timeout or size is negative"
        )));
    }
    pipeline.digests.configure(id, config);
    Ok(())
}

pub fn read_digests(
    view: View<'_>,
    filter: &DigestEntry,
    found: EntityVisitor<'_>,
) -> UpdateResult {
    let id = filter.digest_id;
    if id != 0 && !view.pipeline.schema.digests.contains_key(&id) {
        return Err(invalid(format!("no digest has id {id:#010x}")));
    }
    for digest_id in view.pipeline.digests.enabled() {
        if id == 0 || id == digest_id {
            let config = view.pipeline.digests.config(digest_id);
            found(Kind::DigestEntry(DigestEntry { digest_id, config }));
        }
    }
    Ok(())
}
