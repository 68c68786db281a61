//! Tables of objects other than match-action tables: action profiles, externs, value sets, ports and digests.

use alfirk_bf_rt_json::ids::{self, Prefix};
use alfirk_bf_rt_json::{
    Annotation, Data, DataField, FieldType, KeyField, LearnFilter, MatchType, Table, TableType,
    TypeName,
};

use super::data::{counter_data, early_detection_data, exact, filter_data, index, meter_data};
use super::{annotations, Writer};
use crate::arch::Arch;
use crate::ir::{self, RegisterRole};

/// Maximum group size of a selector that does not set it.
const DEFAULT_GROUP_SIZE: u32 = 120;
/// Value of `$ADT_OFFSET` that the driver replaces.
const NO_ADT_OFFSET: u32 = 0xdead_beef;

/// A field of a type, for the control plane.
struct Part {
    name: String,
    ty: FieldType,
}

impl Writer<'_> {
    pub(super) fn profile(&mut self, profile: &ir::ActionProfile, tables: &mut Vec<Table>) {
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

    pub(super) fn counter(&self, counter: &ir::Counter) -> Table {
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

    pub(super) fn meter(&self, meter: &ir::Meter) -> Table {
        Table {
            annotations: None,
            key: vec![index(ids::METER_INDEX, "$METER_INDEX")],
            data: meter_data(meter.unit),
            attributes: vec!["MeterByteCountAdjust".to_owned()],
            ..self.annotated(Prefix::Meter, &meter.meta, TableType::Meter, meter.size)
        }
    }

    /// The table of a register or of an object that a register implements; `None` for direct ones and states.
    pub(super) fn register(&self, register: &ir::Register) -> Option<Table> {
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
    pub(super) fn register_data(&self, register: &ir::Register, first: u32) -> Vec<Data> {
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

    pub(super) fn value_set(&self, set: &ir::ValueSet) -> Table {
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

    pub(super) fn port_metadata(&self, metadata: &ir::PortMetadata) -> Table {
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

    pub(super) fn digest(&self, digest: &ir::Digest) -> LearnFilter {
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
