//! The BfRuntime schema (`bf-rt.json`) of a program, as bf-p4c writes it.
//!
//! Names of tables and other objects begin with the name of the pipe, and ids are hashes of these names. Ids of
//! actions are those of P4Info. The tables of snapshots are not written, as the software model has no snapshots, and
//! neither are those of hashes.

mod data;
mod objects;

use alfirk_bf_rt_json::ids::{self, Prefix};
use alfirk_bf_rt_json::{
    ActionData, ActionParam, ActionScope, ActionSpec, Annotation, Data, DataContent, DataField,
    FieldType, KeyField, MatchType, Schema, Table, TableType, TypeName, SCHEMA_VERSION,
};
use alfirk_p4runtime::p4::config::v1::p4_ids::Prefix as Standard;

use self::data::{
    counter_data, debug_counters, early_detection_data, exact, filter_data, meter_data,
};
use crate::ir::{self, MatchKind, Meta, ObjectKind, Objects, RegisterRole};
use crate::p4info::{field_ids, IdError, Listing, Symbols};

/// Highest byte of the id of a table.
const TABLE: u32 = Standard::Table as u32;
/// Highest byte of the id of an action.
const ACTION: u32 = Standard::Action as u32;
/// Number of entries of a table that does not set it, as in bf-p4c.
const DEFAULT_SIZE: u64 = 512;

/// Generates the schema of a program.
///
/// # Errors
/// Explicit ids (`@id`) are invalid or conflict; all such errors are returned.
pub fn schema(program: &Objects) -> Result<Schema, Vec<IdError>> {
    let mut writer = Writer {
        program,
        listing: Listing::of(program),
        symbols: Symbols::default(),
        errors: Vec::new(),
    };
    writer.collect();
    writer.errors = writer.symbols.assign();
    let mut schema = Schema {
        schema_version: Some(SCHEMA_VERSION.to_owned()),
        ..Schema::default()
    };
    writer.write(&mut schema);
    match writer.errors.is_empty() {
        true => Ok(schema),
        false => Err(writer.errors),
    }
}

struct Writer<'p> {
    program: &'p Objects,
    listing: Listing<'p>,
    symbols: Symbols,
    errors: Vec<IdError>,
}

impl<'p> Writer<'p> {
    /// Name of an object with the name of the pipe.
    fn full(&self, name: &str) -> String {
        format!("{}.{name}", self.program.pipe)
    }

    fn id(&self, prefix: u32, meta: &Meta) -> u32 {
        self.symbols.id(prefix, &self.full(&meta.name))
    }

    fn extern_id(&self, prefix: Prefix, meta: &Meta) -> u32 {
        self.id(prefix as u32, meta)
    }

    fn action_id(&self, action: ir::ActionId) -> u32 {
        self.symbols
            .id(ACTION, &self.program.action(action).meta.name)
    }

    /// Kind of the object that implements tables, for ids, with its metadata and those of its members.
    fn profile_parts<'a>(&self, profile: &'a ir::ActionProfile) -> (Option<&'a Meta>, &'a Meta) {
        match &profile.selector {
            None => (None, &profile.meta),
            Some(_) => (
                Some(&profile.meta),
                profile.members.as_ref().unwrap_or(&profile.meta),
            ),
        }
    }

    /// Full name of an action selector. One with members of its own has a suffix.
    fn selector_name(&self, profile: &ir::ActionProfile) -> String {
        let name = self.full(&profile.meta.name);
        match profile.members {
            Some(_) => name,
            None => format!("{name}_sel"),
        }
    }

    /// Adds all objects to the symbols, including hidden ones.
    fn collect(&mut self) {
        let program = self.program;
        for action in program.actions.iter().chain(&program.called_actions) {
            self.symbols.add(ACTION, &action.meta.name, action.meta.id);
        }
        let mut add = |prefix: u32, name: String, id| self.symbols.add(prefix, &name, id);
        let full = |meta: &Meta| format!("{}.{}", program.pipe, meta.name);
        for table in &program.tables {
            add(TABLE, full(&table.meta), table.meta.id);
        }
        for set in &program.value_sets {
            add(Prefix::ValueSet as u32, full(&set.meta), set.meta.id);
        }
        for counter in &program.counters {
            let prefix = match counter.direct {
                true => Prefix::DirectCounter,
                false => Prefix::Counter,
            };
            add(prefix as u32, full(&counter.meta), counter.meta.id);
        }
        for meter in &program.meters {
            let prefix = match meter.direct {
                true => Prefix::DirectMeter,
                false => Prefix::Meter,
            };
            add(prefix as u32, full(&meter.meta), meter.meta.id);
        }
        for register in &program.registers {
            if let Some(prefix) = register_prefix(register.role) {
                add(prefix as u32, full(&register.meta), register.meta.id);
            }
        }
        for digest in &program.digests {
            add(Prefix::Digest as u32, full(&digest.meta), digest.meta.id);
        }
        if let Some(metadata) = &program.port_metadata {
            let name = format!("{}.{}.$PORT_METADATA", program.pipe, metadata.parser);
            add(Prefix::PortMetadata as u32, name, None);
        }
        for profile in &program.action_profiles {
            let (selector, members) = self.profile_parts(profile);
            let members = self.full(&members.name);
            let selector = selector.map(|meta| (self.selector_name(profile), meta.id));
            self.symbols
                .add(Prefix::ActionProfile as u32, &members, None);
            if let Some((name, id)) = selector {
                self.symbols.add(Prefix::ActionSelector as u32, &name, id);
            }
        }
    }

    fn write(&mut self, schema: &mut Schema) {
        let program = self.program;
        let tables = program.tables.iter().filter(|table| !table.meta.hidden);
        for table in self
            .listing
            .sorted(ObjectKind::Table, tables, |table| &table.meta)
        {
            let table = self.match_table(table);
            schema.tables.push(table);
        }
        let profiles = program.action_profiles.iter();
        for profile in self
            .listing
            .sorted(ObjectKind::ActionProfile, profiles, |profile| &profile.meta)
        {
            self.profile(profile, &mut schema.tables);
        }
        let counters = program.counters.iter().filter(|counter| !counter.direct);
        for counter in self
            .listing
            .sorted(ObjectKind::Counter, counters, |counter| &counter.meta)
        {
            schema.tables.push(self.counter(counter));
        }
        let meters = program.meters.iter().filter(|meter| !meter.direct);
        for meter in self
            .listing
            .sorted(ObjectKind::Meter, meters, |meter| &meter.meta)
        {
            schema.tables.push(self.meter(meter));
        }
        let registers = program.registers.iter();
        let registers = self
            .listing
            .sorted(ObjectKind::Register, registers, |register| &register.meta);
        for register in registers {
            schema.tables.extend(self.register(register));
        }
        for set in &program.value_sets {
            schema.tables.push(self.value_set(set));
        }
        if let Some(metadata) = &program.port_metadata {
            let table = self.port_metadata(metadata);
            schema.tables.push(table);
        }
        schema.tables.push(debug_counters(program.arch));
        for digest in &program.digests {
            let filter = self.digest(digest);
            schema.learn_filters.push(filter);
        }
    }

    /// A table without key and data.
    fn table(&self, name: String, id: u32, table_type: TableType, size: u64) -> Table {
        Table {
            name,
            id,
            table_type,
            size,
            ..Table::default()
        }
    }

    fn annotated(&self, prefix: Prefix, meta: &Meta, table_type: TableType, size: u64) -> Table {
        let name = self.full(&meta.name);
        Table {
            annotations: Some(annotations(&meta.annotations)),
            ..self.table(name, self.extern_id(prefix, meta), table_type, size)
        }
    }

    fn match_table(&mut self, table: &ir::Table) -> Table {
        let meta = &table.meta;
        let ids = self.field_ids(meta, table.keys.iter().map(|key| key.id));
        let mut key: Vec<KeyField> = ids
            .into_iter()
            .zip(&table.keys)
            .map(|(id, key)| self.key_field(id, key))
            .collect();
        if table.needs_priority() {
            let priority = FieldType::plain(TypeName::Uint32);
            key.push(exact(
                ids::MATCH_PRIORITY,
                "$MATCH_PRIORITY",
                false,
                priority,
            ));
        }
        let mut written = Table {
            annotations: Some(annotations(&meta.annotations)),
            has_const_default_action: Some(table.default.constant),
            key,
            ..self.table(
                self.full(&meta.name),
                self.id(TABLE, meta),
                TableType::MatchActionDirect,
                if table.sized {
                    table.size
                } else {
                    DEFAULT_SIZE
                },
            )
        };
        let mut next = 1;
        match table.implementation {
            None => {
                let specs = self.action_specs(table);
                let params = specs.iter().flat_map(|spec| &spec.data);
                next = params.fold(1, |next, data| match data {
                    ActionData::Param(param) => next.max(param.id + 1),
                    ActionData::Data(_) => next,
                });
                written.action_specs = Some(specs);
            }
            Some(id) => self.implementation(id, table, &mut written),
        }
        self.direct_resources(table, next, &mut written);
        written.attributes.push("EntryScope".to_owned());
        let has = |wanted: &str| meta.annotations.iter().any(|text| text == wanted);
        if has("@dynamic_table_key_masks(1)") {
            written.attributes.push("DynamicKeyMask".to_owned());
        }
        if table.const_entries {
            written.attributes.push("ConstTable".to_owned());
        }
        if table.support_timeout {
            written
                .supported_operations
                .push("UpdateHitState".to_owned());
            written.attributes.push("IdleTimeout".to_owned());
            let state = FieldType::choice(&["ENTRY_IDLE", "ENTRY_ACTIVE"]);
            let field = DataField::new(ids::ENTRY_HIT_STATE, "$ENTRY_HIT_STATE", state);
            written.data.push(Data::singleton(false, field));
            if !has("@idletime_precision(1)") {
                let ttl = FieldType::plain(TypeName::Uint32).with_default(0);
                let field = DataField::new(ids::ENTRY_TTL, "$ENTRY_TTL", ttl);
                written.data.push(Data::singleton(false, field));
            }
        }
        written
    }

    /// Returns the ids of the fields of an object. Reports a duplicate, which all of them get then.
    fn field_ids(&mut self, of: &Meta, explicit: impl Iterator<Item = Option<u32>>) -> Vec<u32> {
        let explicit: Vec<Option<u32>> = explicit.collect();
        field_ids(&explicit).unwrap_or_else(|id| {
            let name = of.name.clone();
            self.errors.push(IdError::DuplicateField { name, id });
            vec![id; explicit.len()]
        })
    }

    fn key_field(&self, id: u32, key: &ir::Key) -> KeyField {
        let mut annotations = annotations(&key.annotations);
        if is_slice(&key.name) {
            annotations.push(Annotation {
                name: "isFieldSlice".to_owned(),
                value: Some("true".to_owned()),
            });
        }
        let name = match key.name.contains(".$valid") {
            true => key.name.strip_suffix('$').unwrap_or(&key.name),
            false => &key.name,
        };
        let mask = key.mask.as_ref().filter(|_| key.kind == MatchKind::Exact);
        KeyField {
            id,
            name: without_brackets(name),
            repeated: false,
            annotations,
            mandatory: false,
            match_type: match key.kind {
                MatchKind::Exact => MatchType::Exact,
                MatchKind::Lpm => MatchType::LPM,
                MatchKind::Ternary => MatchType::Ternary,
                MatchKind::Range => MatchType::Range,
                MatchKind::Optional => MatchType::Optional,
            },
            ty: FieldType {
                mask: mask.map(|mask| format!("0x{mask:X}")),
                ..FieldType::bytes(key.control_width)
            },
        }
    }

    fn action_specs(&mut self, table: &ir::Table) -> Vec<ActionSpec> {
        let program = self.program;
        let mut specs = Vec::new();
        for reference in &table.actions {
            let action = program.action(reference.action);
            let ids = self.field_ids(&action.meta, action.params.iter().map(|param| param.id));
            let params = ids.into_iter().zip(&action.params);
            specs.push(ActionSpec {
                id: self.action_id(reference.action),
                name: action.meta.name.clone(),
                action_scope: Some(match reference.scope {
                    ir::ActionScope::TableAndDefault => ActionScope::TableAndDefault,
                    ir::ActionScope::TableOnly => ActionScope::TableOnly,
                    ir::ActionScope::DefaultOnly => ActionScope::DefaultOnly,
                }),
                annotations: annotations(&reference.annotations),
                data: params
                    .map(|(id, param)| {
                        ActionData::Param(ActionParam {
                            id,
                            name: param.name.clone(),
                            repeated: false,
                            mandatory: true,
                            read_only: false,
                            annotations: annotations(&param.annotations),
                            ty: FieldType::bytes(param.control_width),
                        })
                    })
                    .collect(),
            });
        }
        specs
    }

    /// Sets type, dependencies and data of a table whose entries refer to a member or a group.
    fn implementation(&self, id: ir::ActionProfileId, table: &ir::Table, written: &mut Table) {
        let profile = &self.program.action_profiles[id.index()];
        let (selector, members) = self.profile_parts(profile);
        let member = DataField::new(
            ids::ACTION_MEMBER_ID,
            "$ACTION_MEMBER_ID",
            FieldType::plain(TypeName::Uint32),
        );
        let content = match selector {
            None => {
                written.table_type = TableType::MatchActionIndirect;
                DataContent::Singleton(member)
            }
            Some(_) => {
                written.table_type = TableType::MatchActionIndirectSelector;
                written.depends_on.push(self.selector_id(profile));
                let group = DataField::new(
                    ids::SELECTOR_GROUP_ID,
                    "$SELECTOR_GROUP_ID",
                    FieldType::plain(TypeName::Uint32),
                );
                DataContent::Oneof(vec![member, group])
            }
        };
        // As in bf-p4c, only the first table of a selector names the members.
        let first = profile.tables.first();
        let is_first = first.is_some_and(|first| self.program.table(*first).meta == table.meta);
        if selector.is_none() || is_first {
            let members = self.extern_id(Prefix::ActionProfile, members);
            written.depends_on.push(members);
        }
        written.data.push(Data {
            mandatory: true,
            read_only: false,
            content,
        });
    }

    fn selector_id(&self, profile: &ir::ActionProfile) -> u32 {
        self.symbols
            .id(Prefix::ActionSelector as u32, &self.selector_name(profile))
    }

    /// Adds the data of direct counters, meters, registers and filters. `next`: id of the first field of a register.
    fn direct_resources(&self, table: &ir::Table, next: u32, written: &mut Table) {
        let program = self.program;
        if let Some(id) = table.counter {
            written
                .data
                .extend(counter_data(program.counters[id.index()].unit));
            written.supported_operations.push("SyncCounters".to_owned());
        }
        if let Some(id) = table.meter {
            written
                .data
                .extend(meter_data(program.meters[id.index()].unit));
            written.attributes.push("MeterByteCountAdjust".to_owned());
        }
        for cells in &table.direct_cells {
            let register = &program.registers[cells.register.index()];
            match register.role {
                RegisterRole::FilterState => written.data.extend(filter_data()),
                // Its cells are described by the fields of the state.
                RegisterRole::Filter { .. } => {}
                RegisterRole::EarlyDetection { .. } => {
                    written.data.extend(early_detection_data());
                }
                _ => {
                    written.data.extend(self.register_data(register, next));
                    written
                        .supported_operations
                        .push("SyncRegisters".to_owned());
                }
            }
        }
    }
}

fn register_prefix(role: RegisterRole) -> Option<Prefix> {
    Some(match role {
        RegisterRole::Array => Prefix::Register,
        RegisterRole::Parameter => Prefix::RegisterParam,
        RegisterRole::Direct => Prefix::DirectRegister,
        RegisterRole::Filter { direct: false } => Prefix::Lpf,
        RegisterRole::EarlyDetection { direct: false } => Prefix::Wred,
        _ => return None,
    })
}

fn annotations(written: &[String]) -> Vec<Annotation> {
    written
        .iter()
        .map(|text| Annotation::written(text))
        .collect()
}

/// Whether the name of a key element contains a slice, such as `[23:16]`.
fn is_slice(name: &str) -> bool {
    let parts = name.split('[').skip(1);
    let mut contents = parts.filter_map(|part| part.split_once(']')?.0.split_once(':'));
    contents.any(|(high, low)| is_number(high) && is_number(low))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The name with `$1` in place of the index `[1]` of a header stack.
fn without_brackets(name: &str) -> String {
    let mut rest = name;
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        match after.split_once(']') {
            Some((index, after)) if is_number(index) => {
                text.push('$');
                text.push_str(index);
                rest = after;
            }
            _ => {
                text.push('[');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_of_stacks_become_suffixes_and_slices_stay() {
        assert_eq!(without_brackets("hdr.tags[12].vid"), "hdr.tags$12.vid");
        assert_eq!(without_brackets("hdr.a[7:0]"), "hdr.a[7:0]");
        assert!(is_slice("hdr.a[7:0]"));
        assert!(!is_slice("hdr.tags[12].vid"));
    }
}
