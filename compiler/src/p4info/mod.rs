//! Translates the IR to P4Info: the objects that the control plane can read and write (P4Runtime § 6).

mod entries;
mod ids;
mod order;
mod types;

pub use entries::entries;

use std::collections::BTreeSet;

use alfirk_p4runtime::p4::config::v1 as p4;
use p4::p4_ids::Prefix;

use crate::ir::{
    self, ActionScope, CounterUnit, MatchKind, Meta, MeterUnit, ObjectKind, Objects, Register,
    SizeSemantics, StructuredAnnotation,
};
use ids::Aliases;
pub(crate) use ids::{field_ids, Symbols};
pub(crate) use order::Listing;
use types::byte_string;

/// An invalid explicit id, from the annotation `@id`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The top byte of an `@id` is the prefix of another kind of object.
    #[error("{name}: @id({id:#010x}) has the prefix of another kind of object; use only the low 24 bits")]
    WrongPrefix {
        /// Name of the object with the annotation.
        name: String,
        /// The id in the annotation.
        id: u32,
    },
    /// Two objects have the same `@id`.
    #[error("{name}: @id({id:#010x}) is already the id of {other}")]
    Duplicate {
        /// Name of the second object with the id.
        name: String,
        /// The id in both annotations.
        id: u32,
        /// Name of the first object with the id.
        other: String,
    },
    /// Two fields or parameters of an object have the same `@id`.
    #[error("{name}: two of its fields or parameters have @id({id})")]
    DuplicateField {
        /// Name of the object with the fields or parameters.
        name: String,
        /// The id in both annotations.
        id: u32,
    },
}

/// Generates the P4Info of a program.
///
/// # Errors
/// Explicit ids (`@id`) are invalid or conflict; all such errors are returned.
pub fn emit(program: &Objects) -> Result<p4::P4Info, Vec<IdError>> {
    let mut writer = Writer {
        program,
        listing: Listing::of(program),
        symbols: symbols_of(program),
        errors: Vec::new(),
        aliases: Aliases::default(),
    };
    writer.errors = writer.symbols.assign();
    writer.aliases = Aliases::new(&writer.symbols.names());
    let info = writer.info();
    match writer.errors.is_empty() {
        true => Ok(info),
        false => Err(writer.errors),
    }
}

/// All objects with an id, including hidden ones, as other objects may refer to them.
fn symbols_of(program: &Objects) -> Symbols {
    let mut symbols = Symbols::default();
    let mut add = |prefix: Prefix, meta: &Meta| symbols.add(prefix, &meta.name, meta.id);
    for action in program.actions.iter().chain(&program.called_actions) {
        add(Prefix::Action, &action.meta);
    }
    for table in &program.tables {
        add(Prefix::Table, &table.meta);
    }
    for set in &program.value_sets {
        add(Prefix::ValueSet, &set.meta);
    }
    for profile in &program.action_profiles {
        add(Prefix::ActionProfile, &profile.meta);
    }
    for counter in &program.counters {
        add(
            if counter.direct {
                Prefix::DirectCounter
            } else {
                Prefix::Counter
            },
            &counter.meta,
        );
    }
    for meter in &program.meters {
        add(
            if meter.direct {
                Prefix::DirectMeter
            } else {
                Prefix::Meter
            },
            &meter.meta,
        );
    }
    for register in shown_registers(program) {
        add(Prefix::Register, &register.meta);
    }
    for digest in &program.digests {
        add(Prefix::Digest, &digest.meta);
    }
    for header in &program.control_types.controller_headers {
        add(Prefix::ControllerHeader, &header.meta);
    }
    symbols
}

/// Registers that are visible to the control plane.
fn shown_registers(program: &Objects) -> impl Iterator<Item = &Register> {
    let registers = program.registers.iter();
    registers.filter(|register| !register.hidden)
}

struct Writer<'a> {
    program: &'a Objects,
    listing: Listing<'a>,
    symbols: Symbols,
    errors: Vec<IdError>,
    aliases: Aliases,
}

/// The common properties of fields, parameters and keys.
struct Member<'m> {
    id: Option<u32>,
    name: &'m str,
    width: u32,
    type_name: &'m Option<String>,
}

impl Writer<'_> {
    fn info(&mut self) -> p4::P4Info {
        let program = self.program;
        let mut info = p4::P4Info {
            pkg_info: Some(types::package(&program.control_types.package)),
            tables: self.tables(),
            actions: self.actions(),
            action_profiles: self.profiles(),
            counters: self.counters(),
            direct_counters: self.direct_counters(),
            meters: self.meters(),
            direct_meters: self.direct_meters(),
            controller_packet_metadata: program
                .control_types
                .controller_headers
                .iter()
                .filter(|header| !header.meta.hidden)
                .map(|header| self.controller_header(header))
                .collect(),
            value_sets: self
                .listing
                .sorted(ObjectKind::ValueSet, &program.value_sets, |set| &set.meta)
                .into_iter()
                .map(|set| self.value_set(set))
                .collect(),
            registers: self
                .listing
                .sorted(ObjectKind::Register, shown_registers(program), |cells| {
                    &cells.meta
                })
                .into_iter()
                .map(|register| p4::Register {
                    preamble: Some(self.preamble(Prefix::Register, &register.meta)),
                    type_spec: Some(types::data_type(&register.type_spec)),
                    size: register.size as i32,
                    index_type_name: named(&register.index_type),
                })
                .collect(),
            digests: program
                .digests
                .iter()
                .map(|digest| p4::Digest {
                    preamble: Some(self.preamble(Prefix::Digest, &digest.meta)),
                    type_spec: Some(types::data_type(&digest.type_spec)),
                })
                .collect(),
            externs: Vec::new(),
            type_info: None,
        };
        info.type_info = self.type_info(&info);
        info
    }

    /// Type information; `None` if no object may need it. As p4c, it is written even if it is empty.
    fn type_info(&self, info: &p4::P4Info) -> Option<p4::P4TypeInfo> {
        let known = &self.program.control_types;
        let sought = known.type_info_present
            || !info.tables.is_empty()
            || info.actions.iter().any(|action| !action.params.is_empty())
            || info
                .controller_packet_metadata
                .iter()
                .any(|header| !header.metadata.is_empty());
        (sought || known.type_info != ir::TypeInfo::default())
            .then(|| types::type_info(&known.type_info))
    }

    fn tables(&mut self) -> Vec<p4::Table> {
        let program = self.program;
        let tables = program.tables.iter().filter(|table| !table.meta.hidden);
        self.listing
            .sorted(ObjectKind::Table, tables, |table| &table.meta)
            .into_iter()
            .map(|table| self.table(table))
            .collect()
    }

    /// Action profiles, in order of declaration. An implicit profile has the position of its table.
    fn profiles(&self) -> Vec<p4::ActionProfile> {
        let mut profiles: Vec<_> = self.program.action_profiles.iter().collect();
        profiles.sort_by_key(|profile| {
            let own = self
                .listing
                .position(ObjectKind::ActionProfile, &profile.meta);
            let tables = profile.tables.iter();
            let first = tables.map(|table| self.listing.of_table(self.program, *table));
            match own {
                usize::MAX => first.min().unwrap_or(own),
                own => own,
            }
        });
        profiles
            .into_iter()
            .map(|profile| self.profile(profile))
            .collect()
    }

    fn counters(&self) -> Vec<p4::Counter> {
        let counters = self.program.counters.iter();
        self.listing
            .sorted(
                ObjectKind::Counter,
                counters.filter(|counter| !counter.direct),
                |counter| &counter.meta,
            )
            .into_iter()
            .map(|counter| p4::Counter {
                preamble: Some(self.preamble(Prefix::Counter, &counter.meta)),
                spec: Some(counter_spec(counter.unit)),
                size: counter.size as i64,
                index_type_name: named(&counter.index_type),
            })
            .collect()
    }

    /// Direct counters or meters of visible tables, in the order of the tables.
    fn direct_counters(&self) -> Vec<p4::DirectCounter> {
        let mut attached: Vec<_> = (self.program.counters.iter())
            .filter_map(|counter| Some((counter.table.filter(|_| counter.direct)?, counter)))
            .filter(|(table, _)| !self.program.table(*table).meta.hidden)
            .collect();
        attached.sort_by_key(|(table, _)| self.listing.of_table(self.program, *table));
        attached
            .into_iter()
            .map(|(table, counter)| p4::DirectCounter {
                preamble: Some(self.preamble(Prefix::DirectCounter, &counter.meta)),
                spec: Some(counter_spec(counter.unit)),
                direct_table_id: self.table_id(table),
            })
            .collect()
    }

    fn meters(&self) -> Vec<p4::Meter> {
        let meters = self.program.meters.iter();
        self.listing
            .sorted(
                ObjectKind::Meter,
                meters.filter(|meter| !meter.direct),
                |meter| &meter.meta,
            )
            .into_iter()
            .map(|meter| p4::Meter {
                preamble: Some(self.preamble(Prefix::Meter, &meter.meta)),
                spec: Some(meter_spec(meter.unit)),
                size: meter.size as i64,
                index_type_name: named(&meter.index_type),
            })
            .collect()
    }

    /// Direct counters or meters of visible tables, in the order of the tables.
    fn direct_meters(&self) -> Vec<p4::DirectMeter> {
        let mut attached: Vec<_> = (self.program.meters.iter())
            .filter_map(|meter| Some((meter.table.filter(|_| meter.direct)?, meter)))
            .filter(|(table, _)| !self.program.table(*table).meta.hidden)
            .collect();
        attached.sort_by_key(|(table, _)| self.listing.of_table(self.program, *table));
        attached
            .into_iter()
            .map(|(table, meter)| p4::DirectMeter {
                preamble: Some(self.preamble(Prefix::DirectMeter, &meter.meta)),
                spec: Some(meter_spec(meter.unit)),
                direct_table_id: self.table_id(table),
            })
            .collect()
    }

    fn preamble(&self, prefix: Prefix, meta: &Meta) -> p4::Preamble {
        p4::Preamble {
            id: self.symbols.id(prefix, &meta.name),
            name: meta.name.clone(),
            alias: self.aliases.alias(&meta.name).to_owned(),
            annotations: meta.annotations.clone(),
            doc: documentation(&meta.brief, &meta.description),
            structured_annotations: types::structured(&meta.structured),
            ..Default::default()
        }
    }

    fn table_id(&self, id: ir::TableId) -> u32 {
        self.symbols
            .id(Prefix::Table, &self.program.table(id).meta.name)
    }

    fn action_id(&self, id: ir::ActionId) -> u32 {
        self.symbols
            .id(Prefix::Action, &self.program.action(id).meta.name)
    }

    /// Ids of the fields or parameters of `owner`; duplicates are recorded as errors.
    fn ids_of<'m>(
        &mut self,
        owner: &str,
        members: impl Iterator<Item = Member<'m>>,
    ) -> Vec<(u32, Member<'m>)> {
        let members: Vec<Member> = members.collect();
        let explicit: Vec<Option<u32>> = members.iter().map(|member| member.id).collect();
        match field_ids(&explicit) {
            Ok(ids) => ids.into_iter().zip(members).collect(),
            Err(id) => {
                self.errors.push(IdError::DuplicateField {
                    name: owner.to_owned(),
                    id,
                });
                members.into_iter().map(|member| (id, member)).collect()
            }
        }
    }

    fn table(&mut self, table: &ir::Table) -> p4::Table {
        let program = self.program;
        let members = table.keys.iter().map(|key| Member {
            id: key.id,
            name: &key.name,
            width: key.control_width,
            type_name: &key.type_name,
        });
        let match_fields = self
            .ids_of(&table.meta.name, members)
            .into_iter()
            .zip(&table.keys)
            .map(|((id, member), key)| p4::MatchField {
                doc: documentation(&key.brief, &key.description),
                ..match_field(id, &member, &key.kind, &key.annotations, &key.structured)
            })
            .collect();
        let action_refs = table
            .actions
            .iter()
            .map(|reference| p4::ActionRef {
                id: self.action_id(reference.action),
                scope: match reference.scope {
                    ActionScope::TableAndDefault => p4::action_ref::Scope::TableAndDefault,
                    ActionScope::TableOnly => p4::action_ref::Scope::TableOnly,
                    ActionScope::DefaultOnly => p4::action_ref::Scope::DefaultOnly,
                }
                .into(),
                annotations: reference.annotations.clone(),
                structured_annotations: types::structured(&reference.structured),
                ..Default::default()
            })
            .collect();
        let default = &table.default;
        let default_id = self.action_id(default.action);
        let initial = p4::TableActionCall {
            action_id: default_id,
            arguments: self.default_arguments(default),
        };
        let direct = table.counter.map(|id| {
            self.symbols.id(
                Prefix::DirectCounter,
                &program.counters[id.index()].meta.name,
            )
        });
        let meter = table.meter.map(|id| {
            self.symbols
                .id(Prefix::DirectMeter, &program.meters[id.index()].meta.name)
        });
        let implementation = table.implementation.map(|id| {
            self.symbols.id(
                Prefix::ActionProfile,
                &program.action_profiles[id.index()].meta.name,
            )
        });
        let idle = if table.support_timeout {
            p4::table::IdleTimeoutBehavior::NotifyControl
        } else {
            p4::table::IdleTimeoutBehavior::NoTimeout
        };
        p4::Table {
            preamble: Some(self.preamble(Prefix::Table, &table.meta)),
            match_fields,
            action_refs,
            const_default_action_id: if default.constant { default_id } else { 0 },
            initial_default_action: Some(initial),
            implementation_id: implementation.unwrap_or(0),
            direct_resource_ids: direct.into_iter().chain(meter).collect(),
            size: i64::try_from(table.size).unwrap_or(i64::MAX),
            idle_timeout_behavior: idle.into(),
            is_const_table: table.const_entries,
            has_initial_entries: !table.entries.is_empty(),
            other_properties: None,
        }
    }

    fn default_arguments(
        &self,
        default: &ir::DefaultAction,
    ) -> Vec<p4::table_action_call::Argument> {
        let params = &self.program.action(default.action).params;
        let explicit: Vec<Option<u32>> = params.iter().map(|param| param.id).collect();
        let ids = field_ids(&explicit).unwrap_or_default();
        default
            .args
            .iter()
            .zip(ids)
            .zip(params)
            .map(
                |((value, param_id), param)| p4::table_action_call::Argument {
                    param_id,
                    value: byte_string(value, param.control_width),
                },
            )
            .collect()
    }

    /// The actions. An action with different bound arguments in several tables is written once.
    fn actions(&mut self) -> Vec<p4::Action> {
        let program = self.program;
        let mut written = BTreeSet::new();
        let mut list = Vec::new();
        let all = program.actions.iter().chain(&program.called_actions);
        let all = all.filter(|action| !action.meta.hidden && written.insert(&action.meta.name));
        for action in self
            .listing
            .sorted(ObjectKind::Action, all, |action| &action.meta)
        {
            let members = action.params.iter().map(|param| Member {
                id: param.id,
                name: &param.name,
                width: param.control_width,
                type_name: &param.type_name,
            });
            let params = self
                .ids_of(&action.meta.name, members)
                .into_iter()
                .zip(&action.params)
                .map(|((id, member), param)| p4::action::Param {
                    id,
                    name: member.name.to_owned(),
                    annotations: param.annotations.clone(),
                    bitwidth: member.width as i32,
                    type_name: named(member.type_name),
                    structured_annotations: types::structured(&param.structured),
                    doc: documentation(&param.brief, &param.description),
                    ..Default::default()
                })
                .collect();
            list.push(p4::Action {
                preamble: Some(self.preamble(Prefix::Action, &action.meta)),
                params,
            });
        }
        list
    }

    fn profile(&self, profile: &ir::ActionProfile) -> p4::ActionProfile {
        use p4::action_profile::{SelectorSizeSemantics, SumOfMembers, SumOfWeights};
        let selector = profile.selector.is_some();
        let semantics = profile.semantics.filter(|_| selector);
        let semantics = semantics.map(|semantics| match semantics {
            SizeSemantics::SumOfWeights => SelectorSizeSemantics::SumOfWeights(SumOfWeights {}),
            SizeSemantics::SumOfMembers { max_weight } => {
                SelectorSizeSemantics::SumOfMembers(SumOfMembers {
                    max_member_weight: max_weight as i32,
                })
            }
        });
        let tables: BTreeSet<&str> = profile
            .tables
            .iter()
            .map(|table| self.program.table(*table).meta.name.as_str())
            .collect();
        p4::ActionProfile {
            preamble: Some(self.preamble(Prefix::ActionProfile, &profile.meta)),
            table_ids: tables
                .into_iter()
                .map(|table| self.symbols.id(Prefix::Table, table))
                .collect(),
            with_selector: selector,
            size: profile.size as i64,
            max_group_size: if selector {
                profile.max_group_size as i32
            } else {
                0
            },
            selector_size_semantics: semantics,
            ..Default::default()
        }
    }

    fn controller_header(&mut self, header: &ir::ControllerHeader) -> p4::ControllerPacketMetadata {
        let members = header.fields.iter().map(|field| Member {
            id: field.id,
            name: &field.name,
            width: field.control_width,
            type_name: &field.type_name,
        });
        let metadata = self
            .ids_of(&header.name, members)
            .into_iter()
            .zip(&header.fields)
            .filter(|(_, field)| !field.hidden)
            .map(
                |((id, member), field)| p4::controller_packet_metadata::Metadata {
                    id,
                    name: member.name.to_owned(),
                    annotations: field.annotations.clone(),
                    bitwidth: member.width as i32,
                    type_name: named(member.type_name),
                    structured_annotations: types::structured(&field.structured),
                    ..Default::default()
                },
            )
            .collect();
        // The name is the argument of `@controller_header`; the id is derived from the name of the type.
        let preamble = p4::Preamble {
            name: header.name.clone(),
            alias: header.name.clone(),
            ..self.preamble(Prefix::ControllerHeader, &header.meta)
        };
        p4::ControllerPacketMetadata {
            preamble: Some(preamble),
            metadata,
        }
    }

    fn value_set(&mut self, set: &ir::ValueSet) -> p4::ValueSet {
        let members = set.fields.iter().map(|field| Member {
            id: field.id,
            name: &field.name,
            width: field.control_width,
            type_name: &field.type_name,
        });
        let fields = self
            .ids_of(&set.meta.name, members)
            .into_iter()
            .zip(&set.fields)
            .map(|((id, member), field)| p4::MatchField {
                doc: documentation(&field.brief, &field.description),
                ..match_field(id, &member, &field.kind, &field.annotations, &[])
            })
            .collect();
        p4::ValueSet {
            preamble: Some(self.preamble(Prefix::ValueSet, &set.meta)),
            r#match: fields,
            size: set.size as i32,
        }
    }
}

fn match_field(
    id: u32,
    member: &Member,
    kind: &MatchKind,
    annotations: &[String],
    structured: &[StructuredAnnotation],
) -> p4::MatchField {
    let kind = match kind {
        MatchKind::Exact => p4::match_field::MatchType::Exact,
        MatchKind::Lpm => p4::match_field::MatchType::Lpm,
        MatchKind::Ternary => p4::match_field::MatchType::Ternary,
        MatchKind::Range => p4::match_field::MatchType::Range,
        MatchKind::Optional => p4::match_field::MatchType::Optional,
    };
    p4::MatchField {
        id,
        name: member.name.to_owned(),
        annotations: annotations.to_vec(),
        bitwidth: member.width as i32,
        r#match: Some(p4::match_field::Match::MatchType(kind.into())),
        type_name: named(member.type_name),
        structured_annotations: types::structured(structured),
        ..Default::default()
    }
}

/// Documentation of an object; `None` if there is none.
fn documentation(brief: &str, description: &str) -> Option<p4::Documentation> {
    let doc = p4::Documentation {
        brief: brief.to_owned(),
        description: description.to_owned(),
    };
    (doc != p4::Documentation::default()).then_some(doc)
}

fn named(name: &Option<String>) -> Option<p4::P4NamedType> {
    name.as_ref()
        .map(|name| p4::P4NamedType { name: name.clone() })
}

fn counter_spec(unit: CounterUnit) -> p4::CounterSpec {
    let unit = match unit {
        CounterUnit::Packets => p4::counter_spec::Unit::Packets,
        CounterUnit::Bytes => p4::counter_spec::Unit::Bytes,
        CounterUnit::Both => p4::counter_spec::Unit::Both,
    };
    p4::CounterSpec { unit: unit.into() }
}

fn meter_spec(unit: MeterUnit) -> p4::MeterSpec {
    let unit = match unit {
        MeterUnit::Packets => p4::meter_spec::Unit::Packets,
        MeterUnit::Bytes => p4::meter_spec::Unit::Bytes,
    };
    p4::MeterSpec {
        unit: unit.into(),
        ..Default::default()
    }
}
