//! Updates and reads of table entries and default entries (P4Runtime § 9.1).

use alfirk_p4runtime::p4::v1::{
    entity::Entity as Kind, table_action, table_entry::IdleTimeout, update::Type, CounterData,
    MeterConfig as MeterMessage, TableAction, TableEntry,
};

use super::{
    actions::{check_action, show_action},
    device::Pipeline,
    entry_resources,
    error::{core_error, denied, invalid, unimplemented, UpdateResult},
    keys,
    metadata::{EntryMetadata, OneShot},
    profiles,
    resources::{reject_meter_counters, show_counter, show_meter},
    schema::{Schema, Table},
    scope::{EntityVisitor, Scope, View},
    translation::Use,
};
use alfirk_bmv2::{EntryHandle, EntryTarget, KeyMatch, Switch, TableEntry as CoreEntry, TableId};

/// Returns the table with this id in P4Info, and its id in the switch core.
pub fn table(schema: &Schema, id: u32) -> UpdateResult<(&Table, TableId)> {
    let table = schema
        .tables
        .get(&id)
        .ok_or_else(|| invalid(format!("no table has id {id:#010x}")))?;
    let core = table
        .core
        .ok_or_else(|| unimplemented(format!("table {}: not in the device config", table.name)))?;
    Ok((table, core))
}

/// Converts the key and priority of a message to those of the switch core.
pub fn key(table: &Table, entry: &TableEntry, how: Use) -> UpdateResult<(Vec<KeyMatch>, i32)> {
    let name = &table.name;
    let key = keys::parse(&format!("table {name}"), &table.fields, &entry.r#match, how)?;
    if table.needs_priorities && entry.priority <= 0 {
        return Err(invalid(format!(
            "table {name}: an entry with a ternary, range or optional field needs a priority above 0, not {}",
            entry.priority
        )));
    }
    if !table.needs_priorities && entry.priority != 0 {
        return Err(invalid(format!(
            "table {name}: entries have no priorities: its key has no ternary, range or optional field (the priority is {})",
            entry.priority
        )));
    }
    let priority = if table.needs_priorities {
        table.priority_base.saturating_sub(entry.priority)
    } else {
        0
    };
    Ok((key, priority))
}

/// Converts a priority of the switch core, where the smallest wins, to one of P4Runtime, where the largest wins.
fn shown_priority(table: &Table, core: i32) -> i32 {
    match table.needs_priorities {
        true => table.priority_base.saturating_sub(core),
        false => 0,
    }
}

/// Returns the handle of the entry that has the key and priority of a message.
pub fn find(
    switch: &Switch,
    table: &Table,
    core: TableId,
    entry: &TableEntry,
) -> UpdateResult<EntryHandle> {
    let (key, priority) = key(table, entry, Use::Find)?;
    switch.find_entry(core, &key, priority).map_err(core_error)
}

pub fn write(scope: &mut Scope<'_>, kind: Type, entry: &TableEntry) -> UpdateResult {
    let schema = scope.pipeline.schema.clone();
    let (table, core) = table(&schema, entry.table_id)?;
    if entry.is_default_action {
        return write_default(scope, kind, table, core, entry);
    }
    let name = &table.name;
    if kind == Type::Delete {
        if table.is_const {
            return Err(denied(format!(
                "table {name}: its entries are const in the program"
            )));
        }
        if entry.is_const {
            return Err(invalid(format!(
                "table {name}: is_const is set; const entries of the program cannot be deleted"
            )));
        }
        return delete(scope, table, core, entry);
    }
    if entry.is_const {
        return Err(invalid(format!(
            "table {name}: is_const is set; only the program has const entries"
        )));
    }
    if kind == Type::Insert && table.fields.is_empty() {
        return Err(invalid(format!(
            "table {name}: a table without a key has no entries"
        )));
    }
    if table.is_const && (kind == Type::Insert || entry.action.is_some()) {
        return Err(denied(format!(
            "table {name}: its entries are const in the program"
        )));
    }
    check_times(table, entry)?;
    entry_resources::check(scope, table, entry)?;
    match kind {
        Type::Insert => insert(scope, table, core, entry),
        _ => modify(scope, table, core, entry),
    }
}

/// Checks the idle timeout and timestamps of an entry to be written. Clients compare error messages, so these equal
/// those of PI, the server of `simple_switch_grpc`.
fn check_times(table: &Table, entry: &TableEntry) -> UpdateResult {
    check_no_last_hit(entry)?;
    if entry.idle_timeout_ns < 0 {
        return Err(invalid("idle_timeout_ns must be a positive value"));
    }
    if entry.idle_timeout_ns != 0 && !table.idle_timeouts {
        return Err(invalid(
            "idle_timeout_ns must be set to 0 for tables which do not support idle timeout",
        ));
    }
    Ok(())
}

fn check_no_last_hit(entry: &TableEntry) -> UpdateResult {
    match entry.time_since_last_hit {
        Some(_) => Err(invalid(
            "has_time_since_last_hit must not be set in WriteRequest",
        )),
        None => Ok(()),
    }
}

fn insert(scope: &mut Scope<'_>, table: &Table, core: TableId, entry: &TableEntry) -> UpdateResult {
    let (key, priority) = key(table, entry, Use::Write)?;
    if scope.switch.find_entry(core, &key, priority).is_ok() {
        return Err(super::error::exists(format!(
            "table {}: an equal entry exists",
            table.name
        )));
    }
    let (target, one_shot) = target(scope, table, entry.action.as_ref(), None)?;
    let timeout = entry.idle_timeout_ns as u64;
    let inserted = scope
        .switch
        .insert_entry(core, &key, priority, &target, timeout, scope.now);
    let handle = match inserted {
        Ok(handle) => handle,
        Err(error) => {
            if let Some(one_shot) = one_shot {
                profiles::remove_one_shot(scope, table.profile, &one_shot);
            }
            return Err(core_error(error));
        }
    };
    // The entry's slot may have been used before. The old entry's metadata was discarded, and a new entry has none.
    scope
        .pipeline
        .tables
        .set(table.id, handle, EntryMetadata::of(entry, one_shot));
    entry_resources::set(scope, table, core, handle, entry)?;
    schedule_idle_check(scope, timeout);
    Ok(())
}

fn modify(scope: &mut Scope<'_>, table: &Table, core: TableId, entry: &TableEntry) -> UpdateResult {
    let handle = find(scope.switch, table, core, entry)?;
    let is_const = scope.switch.is_const_entry(core, handle);
    let is_fixed = table.is_const || is_const.map_err(core_error)?;
    if is_fixed && entry.action.is_some() {
        return Err(denied(format!(
            "table {}: this entry is const in the program; to set its direct counter or meter, leave out the action",
            table.name
        )));
    }
    if !is_fixed {
        let old = scope.pipeline.tables.entries.remove(&(table.id, handle));
        let old_shot = old.as_ref().and_then(|note| note.one_shot.clone());
        let mut one_shot = old_shot.clone();
        if entry.action.is_some() {
            let old_group = old_shot.as_ref().map(|old| old.group);
            let made = target(scope, table, entry.action.as_ref(), old_group);
            let changed = made.and_then(|(target, new)| {
                one_shot = new;
                let changed = scope.switch.modify_entry(core, handle, &target);
                changed.map_err(core_error)
            });
            if let Err(status) = changed {
                if let Some(new) = one_shot.filter(|new| Some(new) != old_shot.as_ref()) {
                    profiles::remove_one_shot(scope, table.profile, &new);
                }
                scope.pipeline.tables.set(table.id, handle, old);
                return Err(status);
            }
            if let Some(old) = old_shot {
                profiles::remove_one_shot(scope, table.profile, &old);
            }
        }
        scope
            .pipeline
            .tables
            .set(table.id, handle, EntryMetadata::of(entry, one_shot));
        if table.idle_timeouts {
            let timeout = entry.idle_timeout_ns as u64;
            scope
                .switch
                .set_idle_timeout(core, handle, timeout, scope.now)
                .map_err(core_error)?;
            schedule_idle_check(scope, timeout);
        }
    }
    entry_resources::set(scope, table, core, handle, entry)
}

fn delete(scope: &mut Scope<'_>, table: &Table, core: TableId, entry: &TableEntry) -> UpdateResult {
    let handle = find(scope.switch, table, core, entry)?;
    scope
        .switch
        .delete_entry(core, handle)
        .map_err(core_error)?;
    discard_one_shot(scope, table, handle);
    Ok(())
}

fn discard_one_shot(scope: &mut Scope<'_>, table: &Table, handle: EntryHandle) {
    let note = scope.pipeline.tables.entries.remove(&(table.id, handle));
    if let Some(one_shot) = note.and_then(|note| note.one_shot) {
        profiles::remove_one_shot(scope, table.profile, &one_shot);
    }
}

/// Discards the metadata of an entry. If the entry is a one-shot, also removes its group.
pub(super) fn discard_metadata(
    switch: &mut Switch,
    pipeline: &mut Pipeline,
    id: u32,
    handle: EntryHandle,
) {
    let schema = pipeline.schema.clone();
    let mut scope = Scope {
        switch,
        pipeline,
        now: 0,
    };
    if let Some(table) = schema.tables.get(&id) {
        discard_one_shot(&mut scope, table, handle);
    }
}

/// Schedules a check for idle entries at the earliest time at which an entry with this timeout, in nanoseconds, may be
/// idle.
fn schedule_idle_check(scope: &mut Scope<'_>, timeout: u64) {
    if timeout > 0 {
        let due = scope.now.saturating_add(timeout);
        let check = &mut scope.pipeline.idle_check;
        *check = Some(check.map_or(due, |at| at.min(due)));
    }
}

fn write_default(
    scope: &mut Scope<'_>,
    kind: Type,
    table: &Table,
    core: TableId,
    entry: &TableEntry,
) -> UpdateResult {
    let name = &table.name;
    if kind != Type::Modify {
        return Err(invalid(format!(
            "table {name}: the default entry can only be modified"
        )));
    }
    if !entry.r#match.is_empty() || entry.priority != 0 {
        return Err(invalid(format!(
            "table {name}: the default entry has no key and no priority"
        )));
    }
    check_no_last_hit(entry)?;
    if entry.idle_timeout_ns != 0 {
        return Err(invalid(format!(
            "table {name}: the default entry has no idle timeout"
        )));
    }
    if table.const_default {
        return Err(denied(format!(
            "table {name}: its default entry is const in the program"
        )));
    }
    if entry.meter_config.is_some()
        || entry.counter_data.is_some()
        || entry.meter_counter_data.is_some()
    {
        return Err(unimplemented(format!(
            "table {name}: the default entry has no direct counter and no direct meter"
        )));
    }
    let metadata = &mut scope.pipeline.tables;
    let Some(action) = entry.action.as_ref() else {
        scope.switch.reset_default(core).map_err(core_error)?;
        metadata.defaults.remove(&table.id);
        metadata.defaults_set.remove(&table.id);
        return Ok(());
    };
    let Some(table_action::Type::Action(action)) = action.r#type.as_ref() else {
        return Err(invalid(format!(
            "table {name}: the default entry needs an action, not a member, group or action set"
        )));
    };
    if table.profile != 0 {
        return Err(invalid(format!(
            "table {name}: the default entry of a table with an action profile cannot be set"
        )));
    }
    let (action_name, args) = check_action(&scope.pipeline.schema, table, action, true)?;
    let target = EntryTarget::Action {
        name: action_name,
        args,
    };
    scope
        .switch
        .set_default(core, &target)
        .map_err(core_error)?;
    let metadata = &mut scope.pipeline.tables;
    metadata.defaults_set.insert(table.id);
    match EntryMetadata::of(entry, None) {
        Some(note) => metadata.defaults.insert(table.id, note),
        None => metadata.defaults.remove(&table.id),
    };
    Ok(())
}

/// Converts the action of an entry to the switch core's form. For an entry with its own action set (a one-shot),
/// creates members and a group, which replaces the group `replaced`.
fn target(
    scope: &mut Scope<'_>,
    table: &Table,
    action: Option<&TableAction>,
    replaced: Option<u32>,
) -> UpdateResult<(EntryTarget, Option<OneShot>)> {
    use table_action::Type as ActionKind;
    let name = &table.name;
    let given = action.and_then(|action| action.r#type.as_ref());
    let direct = table.profile == 0;
    match given {
        Some(ActionKind::Action(action)) if direct => {
            let (name, args) = check_action(&scope.pipeline.schema, table, action, false)?;
            Ok((EntryTarget::Action { name, args }, None))
        }
        Some(ActionKind::ActionProfileMemberId(id)) if !direct => {
            profiles::check_one_shot_use(scope, table, false)?;
            Ok((EntryTarget::Member(*id), None))
        }
        Some(ActionKind::ActionProfileGroupId(id)) if !direct => {
            profiles::check_one_shot_use(scope, table, false)?;
            Ok((EntryTarget::Group(*id), None))
        }
        Some(ActionKind::ActionProfileActionSet(set)) if !direct => {
            profiles::check_one_shot_use(scope, table, true)?;
            let one_shot = profiles::create_one_shot(scope, table, set, replaced)?;
            Ok((EntryTarget::Group(one_shot.group), Some(one_shot)))
        }
        None => Err(invalid(format!("table {name}: the entry has no action"))),
        Some(_) if direct => Err(invalid(format!("table {name}: entries need an action, not a member, group or action set"))),
        Some(_) => Err(invalid(format!(
            "table {name}: entries need a member, group or action set of its action profile, not an action"
        ))),
    }
}

fn show_target(
    schema: &Schema,
    target: &EntryTarget,
    one_shot: Option<&OneShot>,
) -> Option<TableAction> {
    use table_action::Type as ActionKind;
    let shown = match (target, one_shot) {
        (_, Some(one_shot)) => ActionKind::ActionProfileActionSet(one_shot.set.clone()),
        (EntryTarget::Action { name, args }, _) => {
            ActionKind::Action(show_action(schema, name, args)?)
        }
        (EntryTarget::Member(id), _) => ActionKind::ActionProfileMemberId(*id),
        (EntryTarget::Group(id), _) => ActionKind::ActionProfileGroupId(*id),
    };
    Some(TableAction {
        r#type: Some(shown),
    })
}

/// Converts an entry to a message with key, action and metadata. Fields that only some reads request, such as counters,
/// are omitted.
fn show(pipeline: &Pipeline, table: &Table, entry: &CoreEntry) -> TableEntry {
    let note = pipeline.tables.entries.get(&(table.id, entry.handle));
    TableEntry {
        table_id: table.id,
        r#match: keys::print(&table.fields, &entry.key),
        action: show_target(
            &pipeline.schema,
            &entry.target,
            note.and_then(|note| note.one_shot.as_ref()),
        ),
        priority: shown_priority(table, entry.priority),
        controller_metadata: note.map_or(0, |note| note.controller_metadata),
        metadata: note.map_or_else(Vec::new, |note| note.metadata.clone()),
        idle_timeout_ns: i64::try_from(entry.idle_timeout).unwrap_or(i64::MAX),
        is_const: entry.is_const,
        ..Default::default()
    }
}

/// Reads all table entries that a filter selects, in one step.
pub fn read(view: View<'_>, filter: &TableEntry, found: EntityVisitor<'_>) -> UpdateResult {
    if let Some(entries) = walk(view, filter)? {
        return read_entries(view, filter, &entries, found);
    }
    for table in filtered(view, filter)? {
        let Some(core) = table.core else {
            continue;
        };
        if filter.is_default_action {
            found(Kind::TableEntry(show_default(view, table, core)?));
            continue;
        }
        match find(view.switch, table, core, filter) {
            Ok(handle) => {
                let entry = view.switch.entry(core, handle).map_err(core_error)?;
                emit(view, table, &entry, filter, found);
            }
            Err(status) if status.canonical_code() == alfirk_p4runtime::Code::NotFound => {}
            Err(status) => return Err(status),
        }
    }
    Ok(())
}

/// Returns table ids and handles of the entries that a filter without a key selects. `None` for a filter with a key or
/// for default entries, which selects few entries.
pub fn walk(view: View<'_>, filter: &TableEntry) -> UpdateResult<Option<Vec<(u32, EntryHandle)>>> {
    reject_meter_counters("table entry", filter.meter_counter_data.as_ref())?;
    let tables = filtered(view, filter)?;
    if filter.is_default_action || !filter.r#match.is_empty() {
        return Ok(None);
    }
    let mut entries = Vec::new();
    for table in tables {
        let Some(core) = table.core else {
            continue;
        };
        let handles = view.switch.entry_handles(core).map_err(core_error)?;
        entries.extend(handles.into_iter().map(|handle| (table.id, handle)));
    }
    Ok(Some(entries))
}

/// Reads some of the entries that [`walk`] has returned, if they match the filter.
pub fn read_entries(
    view: View<'_>,
    filter: &TableEntry,
    entries: &[(u32, EntryHandle)],
    found: EntityVisitor<'_>,
) -> UpdateResult {
    for &(id, handle) in entries {
        let (table, core) = table(&view.pipeline.schema, id)?;
        let entry = view.switch.entry(core, handle).map_err(core_error)?;
        emit(view, table, &entry, filter, found);
    }
    Ok(())
}

/// Returns the table of a filter, or all tables if the filter has no table id.
fn filtered<'a>(view: View<'a>, filter: &TableEntry) -> UpdateResult<Vec<&'a Table>> {
    if filter.table_id == 0 {
        return Ok(view.pipeline.schema.tables.values().collect());
    }
    let (table, _) = table(&view.pipeline.schema, filter.table_id)?;
    if filter.time_since_last_hit.is_some() && !table.idle_timeouts {
        return Err(invalid(format!(
            "table {}: idle timeouts are not supported",
            table.name
        )));
    }
    Ok(vec![table])
}

/// Passes an entry to the visitor, if it matches the filter. Adds the counter and meter data that the filter requests.
fn emit(
    view: View<'_>,
    table: &Table,
    entry: &CoreEntry,
    filter: &TableEntry,
    found: EntityVisitor<'_>,
) {
    let mut shown = show(view.pipeline, table, entry);
    let wanted_action = match filter.action.as_ref().and_then(|a| a.r#type.as_ref()) {
        Some(table_action::Type::Action(action)) => Some(action.action_id),
        _ => None,
    };
    let action = match shown.action.as_ref().and_then(|a| a.r#type.as_ref()) {
        Some(table_action::Type::Action(action)) => Some(action.action_id),
        _ => None,
    };
    let passes = (filter.priority == 0 || filter.priority == shown.priority)
        && (filter.controller_metadata == 0
            || filter.controller_metadata == shown.controller_metadata)
        && (filter.metadata.is_empty() || filter.metadata == shown.metadata)
        && (wanted_action.is_none() || wanted_action == action);
    if !passes {
        return;
    }
    fill(view, table, entry, filter, &mut shown);
    found(Kind::TableEntry(shown));
}

fn fill(
    view: View<'_>,
    table: &Table,
    entry: &CoreEntry,
    filter: &TableEntry,
    shown: &mut TableEntry,
) {
    if filter.counter_data.is_some() {
        shown.counter_data = entry.counter.map(show_counter);
    }
    if filter.meter_config.is_some() {
        shown.meter_config = entry.meter.map(show_meter);
    }
    if filter.time_since_last_hit.is_some() && table.idle_timeouts {
        let elapsed = view.now.saturating_sub(entry.last_hit);
        shown.time_since_last_hit = Some(IdleTimeout {
            elapsed_ns: i64::try_from(elapsed).unwrap_or(i64::MAX),
        });
    }
}

fn show_default(view: View<'_>, table: &Table, core: TableId) -> UpdateResult<TableEntry> {
    let target = view.switch.default_entry(core).map_err(core_error)?;
    let schema = &view.pipeline.schema;
    let note = view.pipeline.tables.defaults.get(&table.id);
    Ok(TableEntry {
        table_id: table.id,
        action: target.and_then(|target| show_target(schema, &target, None)),
        controller_metadata: note.map_or(0, |note| note.controller_metadata),
        metadata: note.map_or_else(Vec::new, |note| note.metadata.clone()),
        is_default_action: true,
        is_const: table.const_default,
        ..Default::default()
    })
}

/// Reads the single entry with this key, with all of its fields and direct resources. Unlike in a read, an empty key
/// does not select all entries.
pub fn read_exactly(view: View<'_>, entry: &TableEntry, found: EntityVisitor<'_>) -> UpdateResult {
    let (table, core) = table(&view.pipeline.schema, entry.table_id)?;
    if entry.is_default_action {
        let mut shown = show_default(view, table, core)?;
        if view.pipeline.tables.is_initial_default(table.id) {
            shown.action = None;
        }
        found(Kind::TableEntry(shown));
        return Ok(());
    }
    let handle = find(view.switch, table, core, entry)?;
    let entry = view.switch.entry(core, handle).map_err(core_error)?;
    let mut shown = show(view.pipeline, table, &entry);
    let all = TableEntry {
        counter_data: Some(CounterData::default()),
        meter_config: Some(MeterMessage::default()),
        ..Default::default()
    };
    fill(view, table, &entry, &all, &mut shown);
    found(Kind::TableEntry(shown));
    Ok(())
}

/// Returns the entries of the program that controllers have deleted, with the key and priority by which a message
/// identifies them.
pub fn deleted_initial_entries(view: View<'_>) -> UpdateResult<Vec<TableEntry>> {
    let mut deleted = Vec::new();
    for table in view.pipeline.schema.tables.values() {
        let Some(core) = table.core else {
            continue;
        };
        let entries = view.switch.deleted_initial_entries(core);
        for (key, priority) in entries.map_err(core_error)? {
            deleted.push(TableEntry {
                table_id: table.id,
                r#match: keys::print(&table.fields, &key),
                priority: shown_priority(table, priority),
                ..Default::default()
            });
        }
    }
    Ok(deleted)
}

/// Returns the entries whose idle timeout has expired, by table, and the time of the next check in nanoseconds.
pub fn take_idle(
    switch: &mut Switch,
    pipeline: &Pipeline,
    now: u64,
) -> (Vec<Vec<TableEntry>>, Option<u64>) {
    let (idle, next) = switch.idle_entries(now);
    let mut by_table: Vec<Vec<TableEntry>> = Vec::new();
    for (core, handle) in idle {
        let table = pipeline
            .schema
            .tables
            .values()
            .find(|t| t.core == Some(core));
        let (Some(table), Ok(entry)) = (table, switch.entry(core, handle)) else {
            continue;
        };
        let shown = show(pipeline, table, &entry);
        match by_table.last_mut() {
            Some(entries) if entries[0].table_id == table.id => entries.push(shown),
            _ => by_table.push(vec![shown]),
        }
    }
    (by_table, next)
}
