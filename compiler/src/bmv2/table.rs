//! Tables: keys, actions, entries and successors.

use alfirk_bmv2_json as json;
use json::MatchType;

use super::{
    expr::{hex, Exprs},
    source_info,
};
use crate::ir::{Entry, EntryKey, FlatProgram, Key, MatchKind, Source, Table, TableId};

/// The successors of a table, by node name; `None` for the end of the pipeline.
pub struct Successors {
    /// Pairs of an action name, or `__HIT__` or `__MISS__`, and the successor.
    pub by_name: Vec<(String, Option<String>)>,
    /// The successor if no action runs.
    pub base: Option<String>,
}

/// Writes a table of the program.
pub fn emit(exprs: Exprs, id: TableId, json_id: i64, next: Successors) -> json::Table {
    let program = exprs.program();
    let table = program.objects.table(id);
    let profile = table
        .implementation
        .map(|id| &program.objects.action_profiles[id.index()]);
    let kind = match profile {
        None => json::TableType::Simple,
        Some(profile) if profile.selector.is_none() => json::TableType::Indirect,
        Some(_) => json::TableType::IndirectWs,
    };
    json::Table {
        name: table.meta.name.clone(),
        id: json_id,
        source_info: source_info(&table.meta.source),
        key: table
            .keys
            .iter()
            .map(|key| key_element(exprs, key))
            .collect(),
        match_type: table_match_type(table),
        kind,
        action_profile: profile.map(|profile| profile.meta.name.clone()),
        max_size: table.size,
        with_counters: table.counter.is_some(),
        support_timeout: table.support_timeout,
        direct_meters: table
            .meter
            .map(|id| program.objects.meters[id.index()].meta.name.clone()),
        direct_registers: (table.direct_cells.iter())
            .map(|cells| json::DirectRegister {
                name: program.objects.registers[cells.register.index()]
                    .meta
                    .name
                    .clone(),
                entry: exprs.field_ref(cells.entry),
            })
            .collect(),
        action_ids: table
            .actions
            .iter()
            .map(|reference| i64::from(reference.action.0))
            .collect(),
        actions: (table.actions.iter())
            .map(|reference| program.objects.action(reference.action).meta.name.clone())
            .collect(),
        default_entry: states_default(program, table, &next).then(|| default_entry(program, table)),
        base_default_next: next.base,
        next_tables: next.by_name,
        entries: (!table.entries.is_empty()).then(|| {
            table
                .entries
                .iter()
                .map(|entry| entry_of(program, table, entry))
                .collect()
        }),
        const_entries: (!table.entries.is_empty() && !table.ranked_entries)
            .then_some(table.const_entries),
    }
}

/// Writes a generated table without a key, which runs one action and is hidden from the control plane.
pub fn hidden(
    name: String,
    id: i64,
    action: (i64, String),
    source: Option<&Source>,
    next: Option<String>,
) -> json::Table {
    let (action_id, action_name) = action;
    json::Table {
        name,
        id,
        source_info: source.and_then(source_info),
        key: Vec::new(),
        match_type: MatchType::Exact,
        kind: json::TableType::Simple,
        action_profile: None,
        max_size: Table::DEFAULT_SIZE,
        with_counters: false,
        support_timeout: false,
        direct_meters: None,
        direct_registers: Vec::new(),
        action_ids: vec![action_id],
        actions: vec![action_name.clone()],
        base_default_next: next.clone(),
        next_tables: vec![(action_name, next)],
        default_entry: Some(json::DefaultEntry {
            action_id,
            action_const: true,
            action_data: Some(Vec::new()),
            action_entry_const: true,
        }),
        entries: None,
        const_entries: None,
    }
}

fn key_element(exprs: Exprs, key: &Key) -> json::TableKey {
    json::TableKey {
        match_type: match_type(&key.kind),
        name: Some(key.name.clone()),
        target: json::TableKeyTarget::Field(exprs.key_target(&key.target)),
        mask: key.mask.as_ref().map(|mask| hex(mask, key.width)),
    }
}

fn match_type(kind: &MatchKind) -> MatchType {
    match kind {
        MatchKind::Exact => MatchType::Exact,
        MatchKind::Lpm => MatchType::Lpm,
        // BMv2 has no optional matches; the P4Runtime server sets the mask to all ones or to zero.
        MatchKind::Ternary | MatchKind::Optional => MatchType::Ternary,
        MatchKind::Range => MatchType::Range,
    }
}

/// Match type of a table: the most general match type of its key elements.
fn table_match_type(table: &Table) -> MatchType {
    let rank = |kind: &MatchType| match kind {
        MatchType::Range => 3,
        MatchType::Ternary => 2,
        MatchType::Lpm => 1,
        _ => 0,
    };
    table
        .keys
        .iter()
        .map(|key| match_type(&key.kind))
        .max_by_key(rank)
        .unwrap_or(MatchType::Exact)
}

/// Whether the JSON states the default action of a table. As in p4c, it is omitted if it is `NoAction` in a table with an action profile,
/// unless the successor depends on it.
fn states_default(program: &FlatProgram, table: &Table, next: &Successors) -> bool {
    let name = &program.objects.action(table.default.action).meta.name;
    let mut successors = next.by_name.iter();
    table.implementation.is_none()
        || name != "NoAction"
        || successors.any(|(action, successor)| action == name && *successor != next.base)
}

/// The default action. In a table with an action profile it is an implicit member, for which BMv2 does not support a constant action
/// without constant arguments.
fn default_entry(program: &FlatProgram, table: &Table) -> json::DefaultEntry {
    let default = &table.default;
    let params = &program.objects.action(default.action).params;
    json::DefaultEntry {
        action_id: i64::from(default.action.0),
        action_const: default.constant && table.implementation.is_none(),
        action_data: Some(
            default
                .args
                .iter()
                .zip(params)
                .map(|(value, param)| hex(value, param.ty.width()))
                .collect(),
        ),
        action_entry_const: default.constant,
    }
}

fn entry_of(program: &FlatProgram, table: &Table, entry: &Entry) -> json::TableEntry {
    let params = &program.objects.action(entry.action).params;
    json::TableEntry {
        source_info: source_info(&entry.source),
        match_key: entry
            .keys
            .iter()
            .zip(&table.keys)
            .map(|(value, key)| match_key(value, key))
            .collect(),
        action_entry: json::ActionEntry {
            action_id: i64::from(entry.action.0),
            action_data: entry
                .args
                .iter()
                .zip(params)
                .map(|(value, param)| hex(value, param.ty.width()))
                .collect(),
        },
        priority: i64::from(entry.priority),
        is_const: entry.constant && !table.const_entries,
    }
}

fn match_key(value: &EntryKey, key: &Key) -> json::MatchKey {
    let text = |value| hex(value, key.width);
    match value {
        EntryKey::Exact(value) => json::MatchKey::Exact { key: text(value) },
        EntryKey::Lpm(value, prefix_length) => json::MatchKey::Lpm {
            key: text(value),
            prefix_length: *prefix_length,
        },
        EntryKey::Ternary(value, mask) => json::MatchKey::Ternary {
            key: text(value),
            mask: text(mask),
        },
        EntryKey::Range(start, end) => json::MatchKey::Range {
            start: text(start),
            end: text(end),
        },
    }
}
