//! An index of a P4Info's objects by id, checked against the program.
//!
//! P4Info identifies objects by id, the switch core by name. [`Schema`] maps between them, and has what is needed
//! to check a request. Objects that the compiler has optimised away are in the P4Info, but not in the device config
//! and the core.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alfirk_bmv2_json::MatchType;
use alfirk_p4runtime::p4::config::v1::{
    action_profile::SelectorSizeSemantics, action_ref::Scope, match_field, meter_spec, table,
    P4Info, P4TypeInfo, Preamble,
};
use rustc_hash::FxHashMap;
use thiserror::Error;

use super::{
    data::{DataError, DataType},
    packet_io::ControllerHeader,
    translation::{self, Form, MappingError, Translation, Translations},
};
use alfirk_bmv2::{ActionInfo, GroupLimits, LoadedProgram, ProfileId, TableId, TableInfo};

/// Error in a P4Info, or contradiction between a P4Info and a program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// An object has no id, or two have the same id.
    #[error("p4info: {kind} {name}: id {id:#010x} is zero or used twice")]
    BadId {
        /// Kind of the object: "table", "action", ...
        kind: &'static str,
        /// Name of the object.
        name: String,
        /// The id that is zero or used twice.
        id: u32,
    },
    /// A reference to an object that does not exist.
    #[error("p4info: {from} refers to {kind} {id:#010x}, which does not exist")]
    Dangling {
        /// Name of the referring object.
        from: String,
        /// Kind of the missing object.
        kind: &'static str,
        /// Id of the missing object.
        id: u32,
    },
    /// A table or action of the P4Info differs from that of the program.
    #[error("p4info and device config do not match: {name}: {why}")]
    Mismatch {
        /// Name of the table or action.
        name: String,
        /// Description of the difference.
        why: String,
    },
    /// The program defines invalid mappings for values of a translated type.
    #[error("p4info: {0}")]
    Mapping(#[from] MappingError),
    /// No table of the P4Info exists in the device config.
    #[error("p4info and device config do not match: they have no table in common")]
    NoCommonTable,
}

/// Match kind of a key field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
}

/// A match field of a table's key.
#[derive(Clone, Debug)]
pub struct Field {
    pub id: u32,
    pub name: String,
    /// Width in bits. It is the program's, if that is narrower than P4Info's or values are translated.
    pub bits: usize,
    pub kind: MatchKind,
    /// Whether the field is a header's validity bit.
    pub is_validity: bool,
    /// Translation of the field's values, if its type is translated.
    pub translation: Option<Arc<Translation>>,
}

/// An action that entries of a table may have.
#[derive(Clone, Copy, Debug)]
pub struct ActionUse {
    pub id: u32,
    pub scope: Scope,
}

/// A table of the P4Info, with what is needed to check requests.
#[derive(Clone, Debug)]
pub struct Table {
    pub id: u32,
    pub name: String,
    pub fields: Vec<Field>,
    pub actions: Vec<ActionUse>,
    pub const_default: bool,
    /// Id of the action profile or selector; 0 for a direct table.
    pub profile: u32,
    pub direct_counter: Option<u32>,
    pub direct_meter: Option<u32>,
    pub idle_timeouts: bool,
    /// Whether all entries of the table are const entries of the program.
    pub is_const: bool,
    /// Whether the table has initial entries that controllers may change. BMv2's JSON format cannot express this and
    /// marks the entries as const, so the server releases them.
    pub is_released: bool,
    /// Whether entries must have a priority, because a key field is ternary, range or optional.
    pub needs_priorities: bool,
    /// `core priority = priority_base - P4Runtime priority`: in the core the smallest priority wins, in P4Runtime
    /// the largest.
    ///
    /// The base is 2^31 - 1, as in PI, so that Thrift's and P4Runtime's priorities can be converted. In a table
    /// whose `const entries` have ranks as priorities, the first of n entries has priority n in P4Runtime, as in
    /// p4c.
    pub priority_base: i32,
    /// Id of the table in the switch core; `None` if the compiler has removed the table.
    pub core: Option<TableId>,
}

/// An action of the P4Info.
#[derive(Clone, Debug)]
pub struct Action {
    pub name: String,
    pub params: Vec<Param>,
}

/// A parameter of an action.
#[derive(Clone, Debug)]
pub struct Param {
    pub id: u32,
    pub name: String,
    pub bits: usize,
    /// Translation of the parameter's values, if its type is translated.
    pub translation: Option<Arc<Translation>>,
}

/// An action profile or action selector of the P4Info.
#[derive(Clone, Debug)]
pub struct Profile {
    pub id: u32,
    pub name: String,
    pub tables: Vec<u32>,
    pub with_selector: bool,
    /// Maximum size of all groups together, in weights or members; 0 for no limit.
    pub size: u64,
    /// Maximum size of one group, in weights or members; 0 for no limit.
    pub max_group_size: i32,
    /// `Some` if the size of a group is its number of members instead of the sum of weights. The value is the maximum
    /// weight of a member; 0 for no limit.
    pub sum_of_members: Option<i32>,
    pub weights_disallowed: bool,
    /// Group limits for the switch core, which also apply to groups that other services write.
    pub limits: GroupLimits,
    /// Id of the profile in the switch core; `None` if the compiler has removed the profile.
    pub core: Option<ProfileId>,
}

/// Properties that counter, meter and register arrays have in common.
#[derive(Clone, Debug)]
pub struct Array {
    pub id: u32,
    pub name: String,
    /// Number of cells of the array.
    pub size: u64,
    pub present: bool,
    /// Translation of the array's index, if its type is translated.
    pub index: Option<Arc<Translation>>,
}

/// A meter array or direct meter of the P4Info.
#[derive(Clone, Debug)]
pub struct Meter {
    pub array: Array,
    pub kind: meter_spec::Type,
}

/// A register array of the P4Info.
#[derive(Clone, Debug)]
pub struct Register {
    pub array: Array,
    pub data: Result<DataType, DataError>,
}

/// A digest, a kind of message that the program sends to the controller.
#[derive(Clone, Debug)]
pub struct Digest {
    pub name: String,
    pub data: Result<DataType, DataError>,
}

/// A parser value set of the P4Info.
#[derive(Clone, Debug)]
pub struct ValueSet {
    pub name: String,
    pub fields: Vec<Field>,
    pub size: u64,
    pub present: bool,
}

/// All objects of a P4Info, by id.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    pub tables: BTreeMap<u32, Table>,
    pub actions: BTreeMap<u32, Action>,
    pub profiles: BTreeMap<u32, Profile>,
    pub counters: BTreeMap<u32, Array>,
    /// Ids of the P4Info's direct counters.
    pub direct_counters: BTreeSet<u32>,
    pub meters: BTreeMap<u32, Meter>,
    pub direct_meters: BTreeMap<u32, meter_spec::Type>,
    pub registers: BTreeMap<u32, Register>,
    pub digests: BTreeMap<u32, Digest>,
    pub value_sets: BTreeMap<u32, ValueSet>,
    /// The translated types of the P4Info, by name.
    pub translations: Translations,
    pub packet_in: Option<ControllerHeader>,
    pub packet_out: Option<ControllerHeader>,
    action_ids: FxHashMap<String, u32>,
    digest_ids: FxHashMap<String, u32>,
}

/// State of reading a P4Info: its inputs, and the object ids found so far.
struct Reading<'a> {
    info: &'a P4Info,
    program: &'a LoadedProgram,
    /// Object ids found so far.
    ids: Ids,
}

impl Schema {
    /// Checks and indexes a P4Info for a program.
    ///
    /// # Errors
    /// When the P4Info contradicts itself or the program.
    pub fn new(info: &P4Info, program: &LoadedProgram) -> Result<Schema, SchemaError> {
        let mut schema = Schema::default();
        if let Some(types) = &info.type_info {
            schema.translations = translation::of_types(types)?;
        }
        let mut from = Reading {
            info,
            program,
            ids: Ids::default(),
        };
        schema.read_actions(&mut from)?;
        schema.read_direct_resources(&mut from)?;
        schema.read_profiles(&mut from)?;
        schema.read_tables(&mut from)?;
        for header in &info.controller_packet_metadata {
            let name = header.preamble.as_ref().map_or("", |p| p.name.as_str());
            let made = || ControllerHeader::new(header, program, &schema.translations);
            match name {
                "packet_in" => schema.packet_in = Some(made()),
                "packet_out" => schema.packet_out = Some(made()),
                _ => {}
            }
        }
        schema.read_arrays(&mut from)?;
        schema.read_parser_and_digests(&mut from)?;
        if !schema.tables.is_empty() && !schema.tables.values().any(|table| table.core.is_some()) {
            return Err(SchemaError::NoCommonTable);
        }
        Ok(schema)
    }

    /// Returns the id of an action by its name in the program.
    pub fn action_id(&self, name: &str) -> Option<u32> {
        self.action_ids.get(name).copied()
    }

    /// Returns an action by its name in the program.
    pub fn action_named(&self, name: &str) -> Option<&Action> {
        self.actions.get(&self.action_id(name)?)
    }

    /// Returns whether a match field or action parameter of a table has a translated type.
    pub fn translates(&self, table: &Table) -> bool {
        let fields = table.fields.iter().map(|field| &field.translation);
        let actions = table
            .actions
            .iter()
            .filter_map(|used| self.actions.get(&used.id));
        let params = actions.flat_map(|action| &action.params);
        let mut all = fields.chain(params.map(|param| &param.translation));
        all.any(Option::is_some)
    }

    /// Returns the id of a digest by its name in the program.
    pub fn digest_id(&self, name: &str) -> Option<u32> {
        self.digest_ids.get(name).copied()
    }

    fn read_actions(&mut self, from: &mut Reading<'_>) -> Result<(), SchemaError> {
        for action in &from.info.actions {
            let (id, name) = from.ids.take("action", action.preamble.as_ref())?;
            let params = action.params.iter().map(|param| Param {
                id: param.id,
                name: param.name.clone(),
                bits: width(param.bitwidth),
                translation: translation::of_name(&self.translations, param.type_name.as_ref()),
            });
            let params = params.collect();
            self.action_ids.insert(name.clone(), id);
            self.actions.insert(id, Action { name, params });
        }
        Ok(())
    }

    fn read_direct_resources(&mut self, from: &mut Reading<'_>) -> Result<(), SchemaError> {
        for counter in &from.info.direct_counters {
            let (id, _) = from.ids.take("direct counter", counter.preamble.as_ref())?;
            self.direct_counters.insert(id);
        }
        for meter in &from.info.direct_meters {
            let (id, _) = from.ids.take("direct meter", meter.preamble.as_ref())?;
            let kind = meter.spec.as_ref().map(|s| s.r#type()).unwrap_or_default();
            self.direct_meters.insert(id, kind);
        }
        Ok(())
    }

    fn read_profiles(&mut self, from: &mut Reading<'_>) -> Result<(), SchemaError> {
        let (info, program) = (from.info, from.program);
        for profile in &info.action_profiles {
            let (id, name) = from.ids.take("action profile", profile.preamble.as_ref())?;
            let core = program.profile(&name);
            let sum_of_members = match &profile.selector_size_semantics {
                Some(SelectorSizeSemantics::SumOfMembers(s)) => Some(s.max_member_weight),
                _ => None,
            };
            let size = u64::try_from(profile.size).unwrap_or(0);
            let limits = GroupLimits {
                size: match profile.with_selector {
                    true => size,
                    false => 0,
                },
                max_group_size: u64::try_from(profile.max_group_size).unwrap_or(0),
                counts_members: sum_of_members.is_some(),
            };
            self.profiles.insert(
                id,
                Profile {
                    id,
                    name,
                    limits,
                    tables: profile.table_ids.clone(),
                    with_selector: profile.with_selector,
                    size,
                    max_group_size: profile.max_group_size,
                    sum_of_members,
                    weights_disallowed: profile.weights_disallowed,
                    core,
                },
            );
        }
        Ok(())
    }

    fn read_tables(&mut self, from: &mut Reading<'_>) -> Result<(), SchemaError> {
        let (info, program) = (from.info, from.program);
        for table in &info.tables {
            let (id, name) = from.ids.take("table", table.preamble.as_ref())?;
            let core = program.table(&name);
            let counterpart = core.and_then(|id| program.table_info(id));
            let counterpart = counterpart.as_ref();
            let keys = &table.match_fields;
            let fields = fields(&name, keys, counterpart, &self.translations)?;
            let actions = self.action_uses(&name, table, program, counterpart)?;
            let dangling = |kind, id| SchemaError::Dangling {
                from: name.clone(),
                kind,
                id,
            };
            if table.implementation_id != 0 && !self.profiles.contains_key(&table.implementation_id)
            {
                return Err(dangling("action profile", table.implementation_id));
            }
            let direct = |known: &dyn Fn(u32) -> bool| {
                let mut resources = table.direct_resource_ids.iter().copied();
                resources.find(|&resource| known(resource))
            };
            let needs_priorities = fields.iter().any(|field| {
                matches!(
                    field.kind,
                    MatchKind::Ternary | MatchKind::Range | MatchKind::Optional
                )
            });
            let is_released = counterpart.is_some_and(|t| t.const_entries)
                && table.has_initial_entries
                && !table.is_const_table;
            let ranks = counterpart.and_then(|t| t.greatest_rank);
            let greatest = ranks.filter(|_| !is_released);
            let entry = Table {
                id,
                fields,
                actions,
                const_default: table.const_default_action_id != 0,
                profile: table.implementation_id,
                direct_counter: direct(&|id| self.direct_counters.contains(&id)),
                direct_meter: direct(&|id| self.direct_meters.contains_key(&id)),
                idle_timeouts: table.idle_timeout_behavior()
                    == table::IdleTimeoutBehavior::NotifyControl,
                is_const: table.is_const_table,
                is_released,
                needs_priorities,
                priority_base: greatest.map_or(i32::MAX, |rank| rank.max(0).saturating_add(1)),
                core,
                name,
            };
            self.tables.insert(id, entry);
        }
        Ok(())
    }

    fn action_uses(
        &mut self,
        name: &str,
        table: &alfirk_p4runtime::p4::config::v1::Table,
        program: &LoadedProgram,
        counterpart: Option<&TableInfo>,
    ) -> Result<Vec<ActionUse>, SchemaError> {
        let mut uses = Vec::with_capacity(table.action_refs.len());
        for reference in &table.action_refs {
            let id = reference.id;
            let action = self.actions.get_mut(&id).ok_or(SchemaError::Dangling {
                from: name.to_owned(),
                kind: "action",
                id,
            })?;
            let candidates = counterpart.map_or(&[][..], |t| &t.actions[..]);
            let in_program = candidates
                .iter()
                .filter_map(|id| program.action_info(*id))
                .find(|candidate| candidate.name == action.name);
            if let Some(in_program) = &in_program {
                action.check(in_program)?;
            }
            uses.push(ActionUse {
                id,
                scope: reference.scope(),
            });
        }
        Ok(uses)
    }

    fn read_arrays(&mut self, from: &mut Reading<'_>) -> Result<(), SchemaError> {
        let (info, program) = (from.info, from.program);
        let no_types = P4TypeInfo::default();
        let types = info.type_info.as_ref().unwrap_or(&no_types);
        let (counters, meters, registers) =
            (program.counters(), program.meters(), program.registers());
        for counter in &info.counters {
            let (id, name) = from.ids.take("counter", counter.preamble.as_ref())?;
            let size = counters.iter().find(|c| c.name == name).map(|c| c.size);
            let index = translation::of_name(&self.translations, counter.index_type_name.as_ref());
            let array = Array::new(id, name, counter.size, size, index);
            self.counters.insert(id, array);
        }
        for meter in &info.meters {
            let (id, name) = from.ids.take("meter", meter.preamble.as_ref())?;
            let size = meters.iter().find(|m| m.name == name).map(|m| m.size);
            let kind = meter.spec.as_ref().map(|s| s.r#type()).unwrap_or_default();
            let index = translation::of_name(&self.translations, meter.index_type_name.as_ref());
            let array = Array::new(id, name, meter.size, size, index);
            self.meters.insert(id, Meter { array, kind });
        }
        for register in &info.registers {
            let (id, name) = from.ids.take("register", register.preamble.as_ref())?;
            let counterpart = registers.iter().find(|r| r.name == name);
            let index = translation::of_name(&self.translations, register.index_type_name.as_ref());
            let size = counterpart.map(|r| r.size);
            let array = Array::new(id, name, register.size.into(), size, index);
            let data = register.type_spec.as_ref();
            let data = data.map_or(Err(DataError::Unsupported("an unset type")), |spec| {
                DataType::new(spec, types, &self.translations)
            });
            if let (Ok(DataType::Translated(of)), Some(kept)) = (&data, counterpart) {
                of.set_width(kept.bits as usize);
            }
            self.registers.insert(id, Register { array, data });
        }
        Ok(())
    }

    fn read_parser_and_digests(&mut self, from: &mut Reading<'_>) -> Result<(), SchemaError> {
        let (info, program) = (from.info, from.program);
        let no_types = P4TypeInfo::default();
        let types = info.type_info.as_ref().unwrap_or(&no_types);
        let value_sets = program.value_sets();
        for digest in &info.digests {
            let (id, name) = from.ids.take("digest", digest.preamble.as_ref())?;
            let data = digest.type_spec.as_ref();
            let data = data.map_or(Err(DataError::Unsupported("an unset type")), |spec| {
                DataType::new(spec, types, &self.translations)
            });
            self.digest_ids.insert(name.clone(), id);
            self.digests.insert(id, Digest { name, data });
        }
        for set in &info.value_sets {
            let (id, name) = from.ids.take("value set", set.preamble.as_ref())?;
            let mut fields = fields(&name, &set.r#match, None, &self.translations)?;
            let size = u64::try_from(set.size).unwrap_or(0);
            let known = value_sets.iter().find(|(known, ..)| *known == name);
            let present = known.is_some();
            if let Some((_, bits, _)) = known {
                set_widths(&mut fields, *bits as usize);
            }
            let set = ValueSet {
                name,
                fields,
                size,
                present,
            };
            self.value_sets.insert(id, set);
        }
        Ok(())
    }
}

impl Action {
    /// Checks the action against that of the program. Reduces the widths of parameters to the program's where those are
    /// narrower.
    fn check(&mut self, in_program: &ActionInfo) -> Result<(), SchemaError> {
        if in_program.params.len() != self.params.len() {
            return Err(SchemaError::Mismatch {
                name: self.name.clone(),
                why: format!(
                    "{} parameters in the p4info and {} in the device config",
                    self.params.len(),
                    in_program.params.len()
                ),
            });
        }
        for (param, kept) in self.params.iter_mut().zip(&in_program.params) {
            let kept = kept.bits as usize;
            match &param.translation {
                Some(of) if !of.is_identity(kept) => {
                    param.bits = kept;
                    of.set_width(kept);
                }
                _ => {
                    param.bits = narrow(param.bits, kept);
                    param.translation = None;
                }
            }
        }
        Ok(())
    }
}

impl Array {
    fn new(
        id: u32,
        name: String,
        size: i64,
        in_program: Option<usize>,
        index: Option<Arc<Translation>>,
    ) -> Array {
        Array {
            // An index of P4Runtime is a number; arrays indexed by a type translated to strings use the data plane's
            // index.
            index: index.filter(|of| matches!(of.form(), Form::Bits(_))),
            id,
            name,
            size: in_program.map_or(u64::try_from(size).unwrap_or(0), |size| size as u64),
            present: in_program.is_some(),
        }
    }
}

/// Object ids found so far. They must be unique over all kinds of objects (§ 6.3).
#[derive(Default)]
struct Ids(BTreeSet<u32>);

impl Ids {
    fn take(
        &mut self,
        kind: &'static str,
        preamble: Option<&Preamble>,
    ) -> Result<(u32, String), SchemaError> {
        let (id, name) = preamble.map_or((0, String::new()), |p| (p.id, p.name.clone()));
        if id == 0 || !self.0.insert(id) {
            return Err(SchemaError::BadId { kind, name, id });
        }
        Ok((id, name))
    }
}

fn width(bitwidth: i32) -> usize {
    usize::try_from(bitwidth).unwrap_or(0)
}

/// Sets the widths of a value set's fields with translated types, which P4Info lacks. They are taken from other objects
/// with the same type. If one field remains unknown, it gets the bits that the other fields leave.
fn set_widths(fields: &mut [Field], all: usize) {
    let is_unknown = |field: &Field| {
        let of = field.translation.as_ref();
        of.is_some_and(|of| !of.has_width())
    };
    let bits = |field: &Field| match &field.translation {
        Some(of) => of.bits(),
        None => field.bits,
    };
    let known: usize = (fields.iter())
        .filter(|field| !is_unknown(field))
        .map(bits)
        .sum();
    let unknown = fields.iter().filter(|field| is_unknown(field));
    if let [one] = unknown.collect::<Vec<_>>()[..] {
        if let Some(of) = &one.translation {
            of.set_width(all.saturating_sub(known));
        }
    }
    for field in fields {
        field.bits = bits(field);
    }
}

/// Returns the width of a number that is not translated: P4Info's (`info`) or the program's, whichever is narrower. A
/// width of 0 in P4Info means that the value is a string.
fn narrow(info: usize, program: usize) -> usize {
    if info == 0 {
        program
    } else {
        info.min(program)
    }
}

fn fields(
    owner: &str,
    match_fields: &[alfirk_p4runtime::p4::config::v1::MatchField],
    counterpart: Option<&TableInfo>,
    translations: &Translations,
) -> Result<Vec<Field>, SchemaError> {
    let mismatch = |why: String| SchemaError::Mismatch {
        name: owner.to_owned(),
        why,
    };
    if let Some(table) = counterpart {
        if table.keys.len() != match_fields.len() {
            return Err(mismatch(format!(
                "{} key fields in the p4info and {} in the device config",
                match_fields.len(),
                table.keys.len()
            )));
        }
    }
    let mut fields = Vec::with_capacity(match_fields.len());
    for (i, field) in match_fields.iter().enumerate() {
        use match_field::{Match, MatchType as Info};
        let kind = match field.r#match.as_ref() {
            Some(Match::MatchType(kind)) => match Info::try_from(*kind) {
                Ok(Info::Exact) => MatchKind::Exact,
                Ok(Info::Lpm) => MatchKind::Lpm,
                Ok(Info::Ternary) => MatchKind::Ternary,
                Ok(Info::Range) => MatchKind::Range,
                Ok(Info::Optional) => MatchKind::Optional,
                _ => {
                    return Err(mismatch(format!(
                        "key field {} has no match type",
                        field.name
                    )))
                }
            },
            Some(Match::OtherMatchType(other)) => {
                return Err(mismatch(format!(
                    "key field {}: match kind {other} is not supported by this target",
                    field.name
                )))
            }
            None => {
                return Err(mismatch(format!(
                    "key field {} has no match type",
                    field.name
                )))
            }
        };
        let mut bits = width(field.bitwidth);
        let mut is_validity = false;
        let mut of_type = translation::of_name(translations, field.type_name.as_ref());
        if let Some(key) = counterpart.map(|table| &table.keys[i]) {
            let same = matches!(
                (kind, key.match_type),
                (MatchKind::Exact, MatchType::Exact | MatchType::Valid)
                    | (MatchKind::Lpm, MatchType::Lpm)
                    | (MatchKind::Ternary, MatchType::Ternary)
                    | (MatchKind::Range, MatchType::Range)
                    | (
                        MatchKind::Optional,
                        MatchType::Optional | MatchType::Ternary
                    )
            );
            if !same {
                return Err(mismatch(format!(
                    "key field {} is {kind:?} in the p4info and {:?} in the device config",
                    field.name, key.match_type
                )));
            }
            let kept = key.bits as usize;
            of_type = of_type.filter(|of| !of.is_identity(kept));
            bits = match &of_type {
                Some(of) => {
                    of.set_width(kept);
                    kept
                }
                None => narrow(bits, kept),
            };
            is_validity = key.match_type == MatchType::Valid;
        }
        fields.push(Field {
            id: field.id,
            name: field.name.clone(),
            bits,
            kind,
            is_validity,
            translation: of_type,
        });
    }
    Ok(fields)
}
