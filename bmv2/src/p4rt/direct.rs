//! Direct counters and meters (P4Runtime § 9.1.8, § 9.3, § 9.4).

use alfirk_p4runtime::p4::{
    config::v1::meter_spec,
    v1::{
        entity::Entity as Kind, update::Type, CounterData, DirectCounterEntry, DirectMeterEntry,
        MeterConfig as MeterMessage, MeterCounterData, TableEntry,
    },
};

use super::{
    error::{core_error, invalid, unimplemented, UpdateResult},
    read::{Found, View},
    schema::{Schema, Table},
    tables,
    write::{only_modify, Scope},
};
use crate::{manage::TableId, Counter, EntryHandle, MeterConfig};

pub fn show_counter(counter: Counter) -> CounterData {
    CounterData {
        byte_count: i64::try_from(counter.bytes).unwrap_or(i64::MAX),
        packet_count: i64::try_from(counter.packets).unwrap_or(i64::MAX),
    }
}

pub fn parse_counter(what: &str, data: &CounterData) -> UpdateResult<Counter> {
    let count = |value: i64| {
        u64::try_from(value).map_err(|_| invalid(format!("{what}: a count is negative")))
    };
    Ok(Counter {
        packets: count(data.packet_count)?,
        bytes: count(data.byte_count)?,
    })
}

pub fn show_meter(config: MeterConfig) -> MeterMessage {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    MeterMessage {
        cir: number(config.cir),
        cburst: number(config.cburst),
        pir: number(config.pir),
        pburst: number(config.pburst),
        eburst: 0,
    }
}

/// Checks a meter's rates for its type (§ 9.4).
pub fn parse_meter(
    what: &str,
    kind: meter_spec::Type,
    config: &MeterMessage,
) -> UpdateResult<MeterConfig> {
    let refuse = |why: &str| Err(invalid(format!("{what}: {why}")));
    let number = |value: i64| {
        u64::try_from(value).map_err(|_| invalid(format!("{what}: a rate or burst is negative")))
    };
    match kind {
        meter_spec::Type::TwoRateThreeColor => {
            if config.eburst != 0 {
                return refuse("a two-rate meter has no excess burst");
            }
            if config.cir > config.pir {
                return refuse("the committed rate is above the peak rate");
            }
        }
        meter_spec::Type::SingleRateThreeColor | meter_spec::Type::SingleRateTwoColor => {
            if config.pir != config.cir || config.pburst != config.cburst {
                return refuse(
                    "peak rate and burst of a single-rate meter equal the committed ones",
                );
            }
            if config.eburst != 0 {
                if kind == meter_spec::Type::SingleRateTwoColor {
                    return refuse("a two-colour meter has no excess burst");
                }
                return Err(unimplemented(format!(
                    "{what}: excess bursts are not supported"
                )));
            }
        }
    }
    Ok(MeterConfig {
        cir: number(config.cir)?,
        cburst: number(config.cburst)?,
        pir: number(config.pir)?,
        pburst: number(config.pburst)?,
    })
}

/// This target does not count by colour (§ 9.4.3).
pub fn refuse_meter_counters(what: &str, data: Option<&MeterCounterData>) -> UpdateResult {
    match data {
        Some(_) => Err(unimplemented(format!(
            "{what}: meters do not count by colour"
        ))),
        None => Ok(()),
    }
}

/// Checks the direct resources of an entry to be written.
pub fn check(scope: &Scope<'_>, table: &Table, entry: &TableEntry) -> UpdateResult {
    let what = format!("table {}", table.name);
    refuse_meter_counters(&what, entry.meter_counter_data.as_ref())?;
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

/// Meters that count by colour would be asked for by a read, too.
pub fn check_readable(filter: &TableEntry) -> UpdateResult {
    refuse_meter_counters("table entry", filter.meter_counter_data.as_ref())
}

fn meter_kind(schema: &Schema, table: &Table) -> Option<meter_spec::Type> {
    let id = table.direct_meter?;
    schema.direct_meters.get(&id).copied()
}

/// Gives a new entry its counts and rates; without any, the core's are right already.
pub fn initialise(
    scope: &mut Scope<'_>,
    table: &Table,
    core: TableId,
    handle: EntryHandle,
    entry: &TableEntry,
) -> UpdateResult {
    if entry.meter_config.is_some() {
        set_meter(scope, table, core, handle, entry.meter_config.as_ref())?;
    }
    set_counter(scope, table, core, handle, entry.counter_data.as_ref())
}

/// Changes an entry's counts and rates as MODIFY does: left-out rates are reset, left-out counts
/// go on.
pub fn modify(
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

fn set_meter(
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

fn set_counter(
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

pub fn write_counter(
    scope: &mut Scope<'_>,
    kind: Type,
    entry: &DirectCounterEntry,
) -> UpdateResult {
    only_modify(kind, "direct counters")?;
    let schema = scope.pipeline.schema.clone();
    let (table, core, entry_of) = locate(&schema, entry.table_entry.as_ref())?;
    if table.direct_counter.is_none() {
        return Err(invalid(format!(
            "table {} has no direct counter",
            table.name
        )));
    }
    let handle = tables::find(scope.switch, table, core, entry_of)?;
    set_counter(scope, table, core, handle, entry.data.as_ref())
}

pub fn write_meter(scope: &mut Scope<'_>, kind: Type, entry: &DirectMeterEntry) -> UpdateResult {
    only_modify(kind, "direct meters")?;
    let schema = scope.pipeline.schema.clone();
    let (table, core, entry_of) = locate(&schema, entry.table_entry.as_ref())?;
    if table.direct_meter.is_none() {
        return Err(invalid(format!("table {} has no direct meter", table.name)));
    }
    refuse_meter_counters(
        &format!("table {}", table.name),
        entry.counter_data.as_ref(),
    )?;
    let handle = tables::find(scope.switch, table, core, entry_of)?;
    set_meter(scope, table, core, handle, entry.config.as_ref())
}

fn locate<'a>(
    schema: &'a Schema,
    entry: Option<&'a TableEntry>,
) -> UpdateResult<(&'a Table, TableId, &'a TableEntry)> {
    let entry = entry.ok_or_else(|| invalid("direct resource: table_entry is unset"))?;
    let (table, core) = tables::table(schema, entry.table_id)?;
    if entry.is_default_action {
        return Err(unimplemented(format!(
            "table {}: the default entry has no direct counter and no direct meter",
            table.name
        )));
    }
    Ok((table, core, entry))
}

pub fn read_counters(
    view: View<'_>,
    filter: &DirectCounterEntry,
    found: Found<'_>,
) -> UpdateResult {
    let wanted = |mut entry: TableEntry| {
        entry.counter_data = Some(CounterData::default());
        entry
    };
    let has = |table: &Table| table.direct_counter.is_some();
    read_direct(
        view,
        filter.table_entry.as_ref(),
        &wanted,
        &has,
        &mut |entry| {
            let data = entry.counter_data;
            found(Kind::DirectCounterEntry(DirectCounterEntry {
                table_entry: Some(key_of(entry)),
                data,
            }));
        },
    )
}

pub fn read_meters(view: View<'_>, filter: &DirectMeterEntry, found: Found<'_>) -> UpdateResult {
    refuse_meter_counters("direct meter", filter.counter_data.as_ref())?;
    let wanted = |mut entry: TableEntry| {
        entry.meter_config = Some(MeterMessage::default());
        entry
    };
    let has = |table: &Table| table.direct_meter.is_some();
    read_direct(
        view,
        filter.table_entry.as_ref(),
        &wanted,
        &has,
        &mut |entry| {
            let config = entry.meter_config;
            found(Kind::DirectMeterEntry(DirectMeterEntry {
                table_entry: Some(key_of(entry)),
                config,
                counter_data: None,
            }));
        },
    )
}

/// Reads the entries of all tables that have the resource, of one table, or a single one.
fn read_direct(
    view: View<'_>,
    entry: Option<&TableEntry>,
    wanted: &dyn Fn(TableEntry) -> TableEntry,
    has: &dyn Fn(&Table) -> bool,
    take: &mut dyn FnMut(TableEntry),
) -> UpdateResult {
    let schema = &view.pipeline.schema;
    let take = &mut |kind| {
        if let Kind::TableEntry(entry) = kind {
            take(entry);
        }
    };
    // The action of a request is of no account here (§ 9.3.1).
    let filter = |table_id, entry: &TableEntry| {
        wanted(TableEntry {
            table_id,
            r#match: entry.r#match.clone(),
            priority: entry.priority,
            ..Default::default()
        })
    };
    let all = TableEntry::default();
    let entry = entry.unwrap_or(&all);
    if entry.table_id == 0 {
        for table in schema
            .tables
            .values()
            .filter(|t| t.core.is_some() && has(t))
        {
            tables::read(view, &filter(table.id, &all), take)?;
        }
        return Ok(());
    }
    let (table, core, entry) = locate(schema, Some(entry))?;
    if !has(table) {
        return Err(invalid(format!(
            "table {} has no such direct resource",
            table.name
        )));
    }
    if !entry.r#match.is_empty() {
        tables::find(view.switch, table, core, entry)?;
    }
    tables::read(view, &filter(table.id, entry), take)
}

/// What names an entry.
fn key_of(entry: TableEntry) -> TableEntry {
    TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match,
        priority: entry.priority,
        ..Default::default()
    }
}
