//! Direct counters and meters that are written with their entry (P4Runtime § 9.1.8).

use alfirk_p4runtime::p4::{
    config::v1::meter_spec,
    v1::{CounterData, MeterConfig as MeterMessage, TableEntry},
};

use super::{
    error::{core_error, invalid, UpdateResult},
    resources::{parse_counter, parse_meter, reject_meter_counters},
    schema::{Schema, Table},
    scope::Scope,
};
use alfirk_bmv2::{EntryHandle, TableId};

/// Checks the direct counter and meter of a table entry to be written.
pub fn check(scope: &Scope<'_>, table: &Table, entry: &TableEntry) -> UpdateResult {
    let what = format!("table {}", table.name);
    reject_meter_counters(&what, entry.meter_counter_data.as_ref())?;
    if let Some(config) = &entry.meter_config {
        let kind = meter_kind(&scope.pipeline.schema, table)
            .ok_or_else(|| invalid(format!("{what} has no direct meter")))?;
        parse_meter(&what, kind, config)?;
    }
    if let Some(data) = &entry.counter_data {
        if table.direct_counter.is_none() {
            return Err(invalid(format!("{what} has no direct counter")));
        }
        parse_counter(&what, data)?;
    }
    Ok(())
}

fn meter_kind(schema: &Schema, table: &Table) -> Option<meter_spec::Type> {
    let id = table.direct_meter?;
    schema.direct_meters.get(&id).copied()
}

/// Sets an entry's counter and meter as INSERT and MODIFY do. Omitted rates are reset to the default. An omitted
/// counter keeps its value, which is 0 for a new entry.
pub fn set(
    scope: &mut Scope<'_>,
    table: &Table,
    core: TableId,
    handle: EntryHandle,
    entry: &TableEntry,
) -> UpdateResult {
    if table.direct_meter.is_some() {
        set_meter(scope, table, core, handle, entry.meter_config.as_ref())?;
    }
    set_counter(scope, table, core, handle, entry.counter_data.as_ref())
}

pub fn set_meter(
    scope: &mut Scope<'_>,
    table: &Table,
    core: TableId,
    handle: EntryHandle,
    config: Option<&MeterMessage>,
) -> UpdateResult {
    let what = format!("table {}", table.name);
    let kind = meter_kind(&scope.pipeline.schema, table).unwrap_or_default();
    let config = config.map(|c| parse_meter(&what, kind, c)).transpose()?;
    scope
        .switch
        .set_direct_meter(core, handle, config, scope.now)
        .map_err(core_error)
}

pub fn set_counter(
    scope: &mut Scope<'_>,
    table: &Table,
    core: TableId,
    handle: EntryHandle,
    data: Option<&CounterData>,
) -> UpdateResult {
    let Some(data) = data else {
        return Ok(());
    };
    let value = parse_counter(&format!("table {}", table.name), data)?;
    scope
        .switch
        .set_direct_counter(core, handle, value)
        .map_err(core_error)
}
