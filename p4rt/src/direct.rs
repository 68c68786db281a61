//! Updates and reads of direct counters and meters (P4Runtime § 9.1.8, § 9.3, § 9.4).

use alfirk_p4runtime::p4::v1::{
    entity::Entity as Kind, update::Type, CounterData, DirectCounterEntry, DirectMeterEntry,
    MeterConfig as MeterMessage, TableEntry,
};

use super::{
    entry_resources::{set_counter, set_meter},
    error::{invalid, unimplemented, UpdateResult},
    resources::reject_meter_counters,
    schema::{Schema, Table},
    scope::{only_modify, EntityVisitor, Scope, View},
    tables,
};
use alfirk_bmv2::TableId;

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
    reject_meter_counters(
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
    found: EntityVisitor<'_>,
) -> UpdateResult {
    let counters = Resource {
        name: "counters",
        belongs_to: |table| table.direct_counter.is_some(),
        request: |entry| entry.counter_data = Some(CounterData::default()),
    };
    counters.read(view, filter.table_entry.as_ref(), &mut |entry| {
        let data = entry.counter_data;
        found(Kind::DirectCounterEntry(DirectCounterEntry {
            table_entry: Some(key_of(entry)),
            data,
        }));
    })
}

pub fn read_meters(
    view: View<'_>,
    filter: &DirectMeterEntry,
    found: EntityVisitor<'_>,
) -> UpdateResult {
    reject_meter_counters("direct meter", filter.counter_data.as_ref())?;
    let meters = Resource {
        name: "meters",
        belongs_to: |table| table.direct_meter.is_some(),
        request: |entry| entry.meter_config = Some(MeterMessage::default()),
    };
    meters.read(view, filter.table_entry.as_ref(), &mut |entry| {
        let config = entry.meter_config;
        found(Kind::DirectMeterEntry(DirectMeterEntry {
            table_entry: Some(key_of(entry)),
            config,
            counter_data: None,
        }));
    })
}

/// A kind of direct resource: counters or meters, one per table entry.
struct Resource {
    /// The resource in messages.
    name: &'static str,
    /// Returns whether a table has the direct resource.
    belongs_to: fn(&Table) -> bool,
    /// Sets the field of a `TableEntry` by which a read requests the direct resource.
    request: fn(&mut TableEntry),
}

impl Resource {
    /// Reads table entries with their direct resource: those of all tables, those of one table, or a single entry.
    fn read(
        &self,
        view: View<'_>,
        entry: Option<&TableEntry>,
        take: &mut dyn FnMut(TableEntry),
    ) -> UpdateResult {
        let schema = &view.pipeline.schema;
        let take = &mut |kind| {
            if let Kind::TableEntry(entry) = kind {
                take(entry);
            }
        };
        // The action of the request is ignored (§ 9.3.1).
        let filter = |table_id, entry: &TableEntry| {
            let mut filter = TableEntry {
                table_id,
                r#match: entry.r#match.clone(),
                priority: entry.priority,
                ..Default::default()
            };
            (self.request)(&mut filter);
            filter
        };
        let all = TableEntry::default();
        let entry = entry.unwrap_or(&all);
        if entry.table_id == 0 {
            let has = |table: &&Table| table.core.is_some() && (self.belongs_to)(table);
            for table in schema.tables.values().filter(has) {
                tables::read(view, &filter(table.id, &all), take)?;
            }
            return Ok(());
        }
        let (table, core, entry) = locate(schema, Some(entry))?;
        if !(self.belongs_to)(table) {
            return Err(invalid(format!(
                "table {} has no direct {}",
                table.name, self.name
            )));
        }
        if !entry.r#match.is_empty() {
            tables::find(view.switch, table, core, entry)?;
        }
        tables::read(view, &filter(table.id, entry), take)
    }
}

/// Returns an entry with only the fields that identify it: table, match and priority.
fn key_of(entry: TableEntry) -> TableEntry {
    TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match,
        priority: entry.priority,
        ..Default::default()
    }
}
