//! The BfRuntime schema (`bf-rt.json`) of a program, as bf-p4c writes it.
//!
//! Names of tables and other objects begin with the name of the pipe, and ids are hashes of these names. Ids of
//! actions are those of P4Info. The tables of snapshots are not written, as the software model has no snapshots, and
//! neither are those of hashes.

use alfirk_bf_rt_json::ids::{self, Prefix};
use alfirk_bf_rt_json::{
    ActionData, ActionParam, ActionScope, ActionSpec, Annotation, Data, DataContent, DataField,
    FieldType, KeyField, LearnFilter, MatchType, Schema, Table, TableType, TypeName,
    SCHEMA_VERSION,
};
use alfirk_p4runtime::p4::config::v1::p4_ids::Prefix as Standard;

use crate::arch::Arch;
use crate::ir::{self, CounterUnit, MatchKind, Meta, MeterUnit, ObjectKind, Objects, RegisterRole};
use crate::p4info::{field_ids, IdError, Listing, Symbols};
use crate::targets::tofino::stages::Budget;

/// Highest byte of the id of a table.
const TABLE: u32 = Standard::Table as u32;
/// Highest byte of the id of an action.
const ACTION: u32 = Standard::Action as u32;
/// Number of entries of a table that does not set it, as in bf-p4c.
const DEFAULT_SIZE: u64 = 512;
/// Maximum group size of a selector that does not set it.
const DEFAULT_GROUP_SIZE: u32 = 120;
/// Value of `$ADT_OFFSET` that the driver replaces.
const NO_ADT_OFFSET: u32 = 0xdead_beef;

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

/// A field of a type, for the control plane.
struct Part {
    name: String,
    ty: FieldType,
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

    fn profile(&mut self, profile: &ir::ActionProfile, tables: &mut Vec<Table>) {
        let program = self.program;
        let (selector, members) = self.profile_parts(profile);
        let action_specs = match profile.tables.first() {
            Some(table) => self.action_specs(program.table(*table)),
            None => Vec::new(),
        };
        let member_id = || FieldType::plain(TypeName::Uint32);
        let own = Table {
            key: vec![exact(
                ids::ACTION_MEMBER_ID,
                "$ACTION_MEMBER_ID",
                true,
                member_id(),
            )],
            action_specs: Some(action_specs),
            ..self.annotated(
                Prefix::ActionProfile,
                members,
                TableType::Action,
                profile.size,
            )
        };
        let own_id = own.id;
        tables.push(own);
        let Some(meta) = selector else {
            return;
        };
        let (name, id) = (self.selector_name(profile), self.selector_id(profile));
        let most = match profile.max_group_size {
            0 => DEFAULT_GROUP_SIZE,
            most => most,
        };
        let list = |id, name, ty| {
            let field = DataField::new(id, name, ty);
            Data::singleton(
                false,
                DataField {
                    repeated: true,
                    ..field
                },
            )
        };
        let one = |id, name, ty| Data::singleton(false, DataField::new(id, name, ty));
        let of_selector = |name, id, table_type, size| Table {
            annotations: Some(annotations(&meta.annotations)),
            ..self.table(name, id, table_type, size)
        };
        let groups = of_selector(name.clone(), id, TableType::Selector, profile.groups);
        tables.push(Table {
            key: vec![exact(
                ids::SELECTOR_GROUP_ID,
                "$SELECTOR_GROUP_ID",
                true,
                member_id(),
            )],
            data: vec![
                list(ids::ACTION_MEMBER_ID, "$ACTION_MEMBER_ID", member_id()),
                list(
                    ids::ACTION_MEMBER_STATUS,
                    "$ACTION_MEMBER_STATUS",
                    FieldType::plain(TypeName::Bool),
                ),
                one(
                    ids::MAX_GROUP_SIZE,
                    "$MAX_GROUP_SIZE",
                    member_id().with_default(most),
                ),
                one(
                    ids::ADT_OFFSET,
                    "$ADT_OFFSET",
                    member_id().with_default(NO_ADT_OFFSET),
                ),
            ],
            depends_on: vec![own_id],
            ..groups
        });
        let wide = || FieldType::plain(TypeName::Uint64);
        let get_member = of_selector(
            format!("{name}_get_member"),
            Prefix::SelectorGetMember.of(id),
            TableType::SelectorGetMember,
            1,
        );
        tables.push(Table {
            key: vec![
                exact(ids::GET_MEMBER_GROUP, "$SELECTOR_GROUP_ID", true, wide()),
                exact(ids::HASH_VALUE, "hash_value", true, wide()),
            ],
            data: vec![one(ids::GET_MEMBER_MEMBER, "$ACTION_MEMBER_ID", wide())],
            depends_on: vec![id],
            ..get_member
        });
    }

    fn counter(&self, counter: &ir::Counter) -> Table {
        Table {
            key: vec![index(ids::COUNTER_INDEX, "$COUNTER_INDEX")],
            data: counter_data(counter.unit),
            supported_operations: vec!["Sync".to_owned()],
            ..self.annotated(
                Prefix::Counter,
                &counter.meta,
                TableType::Counter,
                counter.size,
            )
        }
    }

    fn meter(&self, meter: &ir::Meter) -> Table {
        Table {
            annotations: None,
            key: vec![index(ids::METER_INDEX, "$METER_INDEX")],
            data: meter_data(meter.unit),
            attributes: vec!["MeterByteCountAdjust".to_owned()],
            ..self.annotated(Prefix::Meter, &meter.meta, TableType::Meter, meter.size)
        }
    }

    /// The table of a register or of an object that a register implements; `None` for direct ones and states.
    fn register(&self, register: &ir::Register) -> Option<Table> {
        let meta = &register.meta;
        Some(match register.role {
            RegisterRole::Array => Table {
                annotations: None,
                key: vec![index(ids::REGISTER_INDEX, "$REGISTER_INDEX")],
                data: self.register_data(register, 1),
                supported_operations: vec!["Sync".to_owned()],
                ..self.annotated(Prefix::Register, meta, TableType::Register, register.size)
            },
            RegisterRole::Parameter => {
                let width = register.ty.width();
                let ty = FieldType::bytes(width);
                let ty = match i64::try_from(&register.initial) {
                    Ok(initial) => ty.with_default(initial),
                    Err(_) => ty,
                };
                Table {
                    data: vec![Data::singleton(true, DataField::new(1, "value", ty))],
                    ..self.annotated(Prefix::RegisterParam, meta, TableType::RegisterParam, 1)
                }
            }
            RegisterRole::Filter { direct: false } => Table {
                key: vec![index(ids::LPF_INDEX, "$LPF_INDEX")],
                data: filter_data(),
                ..self.annotated(Prefix::Lpf, meta, TableType::Lpf, register.size)
            },
            RegisterRole::EarlyDetection { direct: false } => Table {
                key: vec![index(ids::WRED_INDEX, "$WRED_INDEX")],
                data: early_detection_data(),
                ..self.annotated(Prefix::Wred, meta, TableType::Wred, register.size)
            },
            RegisterRole::Direct
            | RegisterRole::FilterState
            | RegisterRole::Filter { direct: true }
            | RegisterRole::EarlyDetection { direct: true } => return None,
        })
    }

    /// The data fields of a register's cell. `first`: id of the first field.
    fn register_data(&self, register: &ir::Register, first: u32) -> Vec<Data> {
        let parts = match register.type_spec {
            // A register of truth values holds bits.
            ir::TypeSpec::Bool => self.parts(&ir::TypeSpec::Bit(1)),
            _ => self.parts(&register.type_spec),
        };
        let fields = (first..).zip(parts).map(|(id, part)| DataField {
            annotations: vec![Annotation {
                name: "$bfrt_field_class".to_owned(),
                value: Some("register_data".to_owned()),
            }],
            ..DataField::new(
                id,
                &format!("{}.{}", register.meta.name, part.name),
                part.ty,
            )
        });
        fields.map(|field| Data::singleton(true, field)).collect()
    }

    fn value_set(&self, set: &ir::ValueSet) -> Table {
        let fields = (1..).zip(&set.fields).map(|(id, field)| {
            let name = match field.name.is_empty() {
                true => format!("f{id}"),
                false => field.name.clone(),
            };
            KeyField {
                match_type: MatchType::Ternary,
                ..exact(id, &name, false, FieldType::bytes(field.control_width))
            }
        });
        Table {
            key: fields.collect(),
            attributes: vec!["EntryScope".to_owned()],
            ..self.annotated(
                Prefix::ValueSet,
                &set.meta,
                TableType::ParserValueSet,
                set.size,
            )
        }
    }

    fn port_metadata(&self, metadata: &ir::PortMetadata) -> Table {
        let name = format!("{}.{}.$PORT_METADATA", self.program.pipe, metadata.parser);
        let chip = Chip::of(self.program.arch);
        let data = match &metadata.type_spec {
            Some(ty) => {
                let fields = (1..).zip(self.parts(ty));
                let fields = fields.map(|(id, part)| DataField::new(id, &part.name, part.ty));
                fields.map(|field| Data::singleton(true, field)).collect()
            }
            None => {
                let ty = FieldType::bytes(chip.port_metadata_bits);
                let id = ids::PORT_METADATA_DEFAULT;
                vec![Data::singleton(
                    false,
                    DataField::new(id, "$DEFAULT_FIELD", ty),
                )]
            }
        };
        let port = format!("{}.ingress_port", metadata.intrinsic);
        let id = self.symbols.id(Prefix::PortMetadata as u32, &name);
        Table {
            annotations: Some(Vec::new()),
            key: vec![exact(
                ids::PORT_METADATA_PORT,
                &port,
                true,
                FieldType::bytes(chip.port_bits),
            )],
            data,
            ..self.table(name, id, TableType::PortMetadata, chip.ports)
        }
    }

    fn digest(&self, digest: &ir::Digest) -> LearnFilter {
        let fields = (1..).zip(self.parts(&digest.type_spec));
        LearnFilter {
            name: self.full(&digest.meta.name),
            id: self.extern_id(Prefix::Digest, &digest.meta),
            annotations: annotations(&digest.meta.annotations),
            fields: fields
                .map(|(id, part)| DataField::new(id, &part.name, part.ty))
                .collect(),
        }
    }

    /// The fields of a type. A number has one, `f1`, and those of tuples have names like it.
    fn parts(&self, ty: &ir::TypeSpec) -> Vec<Part> {
        let types = &self.program.control_types.type_info;
        let members: Vec<(String, &ir::TypeSpec)> = match ty {
            ir::TypeSpec::Struct(name) => named(types.structs.get(name)),
            ir::TypeSpec::Header(name) => named(types.headers.get(name)),
            ir::TypeSpec::Tuple(members) => (1..)
                .zip(members)
                .map(|(number, member)| (format!("f{number}"), member))
                .collect(),
            ty => vec![("f1".to_owned(), ty)],
        };
        let parts = members.into_iter().filter_map(|(name, ty)| {
            let ty = self.field_type(ty)?;
            Some(Part { name, ty })
        });
        parts.collect()
    }

    /// The type of a field; `None` for types that are not numbers.
    fn field_type(&self, ty: &ir::TypeSpec) -> Option<FieldType> {
        let types = &self.program.control_types.type_info;
        Some(match ty {
            ir::TypeSpec::Bool => FieldType::plain(TypeName::Bool).with_default(true),
            ir::TypeSpec::Bit(width) | ir::TypeSpec::Int(width) | ir::TypeSpec::Varbit(width) => {
                FieldType::bytes(*width)
            }
            ir::TypeSpec::SerializableEnum(name) => {
                FieldType::bytes(types.serializable_enums.get(name)?.width)
            }
            _ => return None,
        })
    }
}

fn named(fields: Option<&Vec<(String, ir::TypeSpec)>>) -> Vec<(String, &ir::TypeSpec)> {
    let fields = fields.into_iter().flatten();
    fields.map(|(name, ty)| (name.clone(), ty)).collect()
}

/// Sizes of a chip that the schema names.
struct Chip {
    /// Number of ports, of which each may have metadata.
    ports: u64,
    /// Width of a port number in bits.
    port_bits: u32,
    /// Width of the metadata of a port in bits.
    port_metadata_bits: u32,
}

impl Chip {
    fn of(arch: Arch) -> Chip {
        Chip {
            ports: 288,
            port_bits: 9,
            port_metadata_bits: match arch == Arch::T2NA {
                true => 128,
                false => 64,
            },
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

/// An exact key field without annotations.
fn exact(id: u32, name: &str, mandatory: bool, ty: FieldType) -> KeyField {
    KeyField {
        id,
        name: name.to_owned(),
        repeated: false,
        annotations: Vec::new(),
        mandatory,
        match_type: MatchType::Exact,
        ty,
    }
}

/// The key field of an array.
fn index(id: u32, name: &str) -> KeyField {
    exact(id, name, true, FieldType::plain(TypeName::Uint32))
}

fn counter_data(unit: CounterUnit) -> Vec<Data> {
    let count = |id, name| {
        let ty = FieldType::plain(TypeName::Uint64).with_default(0);
        Data::singleton(false, DataField::new(id, name, ty))
    };
    let bytes = count(ids::COUNTER_BYTES, "$COUNTER_SPEC_BYTES");
    let packets = count(ids::COUNTER_PKTS, "$COUNTER_SPEC_PKTS");
    match unit {
        CounterUnit::Bytes => vec![bytes],
        CounterUnit::Packets => vec![packets],
        CounterUnit::Both => vec![bytes, packets],
    }
}

fn meter_data(unit: MeterUnit) -> Vec<Data> {
    let rates = match unit {
        MeterUnit::Bytes => [
            (ids::METER_CIR_KBPS, "$METER_SPEC_CIR_KBPS"),
            (ids::METER_PIR_KBPS, "$METER_SPEC_PIR_KBPS"),
            (ids::METER_CBS_KBITS, "$METER_SPEC_CBS_KBITS"),
            (ids::METER_PBS_KBITS, "$METER_SPEC_PBS_KBITS"),
        ],
        MeterUnit::Packets => [
            (ids::METER_CIR_PPS, "$METER_SPEC_CIR_PPS"),
            (ids::METER_PIR_PPS, "$METER_SPEC_PIR_PPS"),
            (ids::METER_CBS_PKTS, "$METER_SPEC_CBS_PKTS"),
            (ids::METER_PBS_PKTS, "$METER_SPEC_PBS_PKTS"),
        ],
    };
    rates
        .iter()
        .map(|(id, name)| {
            // Without rates, all packets are green.
            let ty = FieldType::plain(TypeName::Uint64).with_default(u64::MAX);
            Data::singleton(false, DataField::new(*id, name, ty))
        })
        .collect()
}

/// The data fields of a low-pass filter.
fn filter_data() -> Vec<Data> {
    let float = || FieldType::plain(TypeName::Float);
    let fields = [
        DataField::new(
            ids::LPF_TYPE,
            "$LPF_SPEC_TYPE",
            FieldType::choice(&["RATE", "SAMPLE"]),
        ),
        DataField::new(ids::LPF_GAIN, "$LPF_SPEC_GAIN_TIME_CONSTANT_NS", float()),
        DataField::new(ids::LPF_DECAY, "$LPF_SPEC_DECAY_TIME_CONSTANT_NS", float()),
        DataField::new(
            ids::LPF_SCALE,
            "$LPF_SPEC_OUT_SCALE_DOWN_FACTOR",
            FieldType::plain(TypeName::Uint32),
        ),
    ];
    fields
        .into_iter()
        .map(|field| Data::singleton(true, field))
        .collect()
}

/// The data fields of a profile of weighted random early detection.
fn early_detection_data() -> Vec<Data> {
    let float = || FieldType::plain(TypeName::Float);
    let cells = || FieldType::plain(TypeName::Uint32);
    let fields = [
        DataField::new(ids::WRED_TIME, "$WRED_SPEC_TIME_CONSTANT_NS", float()),
        DataField::new(ids::WRED_MIN, "$WRED_SPEC_MIN_THRESH_CELLS", cells()),
        DataField::new(ids::WRED_MAX, "$WRED_SPEC_MAX_THRESH_CELLS", cells()),
        DataField::new(ids::WRED_PROBABILITY, "$WRED_SPEC_MAX_PROBABILITY", float()),
    ];
    fields
        .into_iter()
        .map(|field| Data::singleton(true, field))
        .collect()
}

/// The table of debug counters, which all programs have.
fn debug_counters(arch: Arch) -> Table {
    let kinds = [
        "DISABLED",
        "TBL_MISS",
        "TBL_HIT",
        "GW_TBL_MISS",
        "GW_TBL_HIT",
        "GW_TBL_INHIBIT",
    ];
    let kind = FieldType::choice(&kinds).with_default("TBL_HIT");
    let count = FieldType::plain(TypeName::Uint64).with_default(0);
    Table {
        name: "tbl_dbg_counter".to_owned(),
        id: Prefix::DebugCounter.of(0),
        table_type: TableType::TblDbgCnt,
        size: Budget::of(arch).map_or(0, |chip| u64::from(chip.stages) * chip.stage.tables),
        key: vec![exact(
            ids::DEBUG_COUNTER_TABLE,
            "tbl_name",
            true,
            FieldType::plain(TypeName::String),
        )],
        data: vec![
            Data::singleton(false, DataField::new(ids::DEBUG_COUNTER_TYPE, "type", kind)),
            Data::singleton(
                false,
                DataField::new(ids::DEBUG_COUNTER_VALUE, "value", count),
            ),
        ],
        ..Table::default()
    }
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
