//! The BfRuntime schema (`bf-rt.json`) as typed Rust.
//!
//! The schema describes everything that a control plane can access on a Tofino: tables of the program and of the
//! device, their keys, actions and data, each with a name and an id. The compiler writes it, the BfRuntime server and
//! its clients read it. Names, ids and the order of members are those of bf-p4c.
//!
//! This crate does not check semantics, such as ids that two fields share.

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub mod ids;

/// The value of `schema_version` in the format that this crate writes.
pub const SCHEMA_VERSION: &str = "1.0.0";

/// The objects that a control plane can access: of one program, or of the device without a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Schema {
    /// Version of the format. The schemas of a device have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<String>,
    /// Everything that is accessed by entries with a key and data.
    pub tables: Vec<Table>,
    /// Digests that the data plane sends.
    pub learn_filters: Vec<LearnFilter>,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// The text is not JSON, or lacks a member of the format.
    pub fn parse(text: &[u8]) -> Result<Schema, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Adds the objects of another pipe of the same program. Objects that both have are added once.
    pub fn merge(&mut self, other: Schema) {
        self.schema_version = self.schema_version.take().or(other.schema_version);
        for table in other.tables {
            if self.tables.iter().all(|own| own.id != table.id) {
                self.tables.push(table);
            }
        }
        for filter in other.learn_filters {
            if self.learn_filters.iter().all(|own| own.id != filter.id) {
                self.learn_filters.push(filter);
            }
        }
    }

    /// Writes the schema as JSON, indented by two spaces.
    pub fn to_text(&self) -> String {
        // Serialization fails only for maps with keys that are not strings; the schema has no maps.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// A table: a match-action table, or an array, object or device setting that is accessed like one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Full name, such as `pipe.SwitchIngress.forward`.
    pub name: String,
    /// Id, unique among all tables of all programs and of the device.
    pub id: u32,
    /// Kind of the table, such as `MatchAction_Direct` or `Register`.
    pub table_type: TableType,
    /// Maximum number of entries.
    pub size: u64,
    /// Annotations of the declaration; `None` for kinds of tables for which bf-p4c writes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Vec<Annotation>>,
    /// Ids of the tables whose entries the entries of this table refer to.
    #[serde(default)]
    pub depends_on: Vec<u32>,
    /// Whether the default action is `const`; `None` unless it is a match-action table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_const_default_action: Option<bool>,
    /// Fields of the key; empty for a table of one entry.
    pub key: Vec<KeyField>,
    /// Actions of the entries; `None` if entries have no action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_specs: Option<Vec<ActionSpec>>,
    /// Data fields that entries have with any action.
    #[serde(default)]
    pub data: Vec<Data>,
    /// Operations on the whole table, such as `SyncCounters`.
    #[serde(default)]
    pub supported_operations: Vec<String>,
    /// Attributes of the whole table, such as `EntryScope`.
    #[serde(default)]
    pub attributes: Vec<String>,
    /// Whether entries can only be read; written only if it is true.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

impl Table {
    /// All data fields outside actions, alternatives of `oneof` included.
    pub fn data_fields(&self) -> impl Iterator<Item = (&Data, &DataField)> {
        self.data
            .iter()
            .flat_map(|data| data.fields().iter().map(move |field| (data, field)))
    }

    /// Whether [`Table::data_fields`] has a field with this id.
    pub fn has_data_field(&self, id: u32) -> bool {
        self.data_fields().any(|(_, field)| field.id == id)
    }

    /// The key fields that packets match: all but `$MATCH_PRIORITY`.
    pub fn match_keys(&self) -> impl DoubleEndedIterator<Item = &KeyField> + Clone {
        let keys = self.key.iter();
        keys.filter(|key| key.id != ids::MATCH_PRIORITY)
    }
}

impl TableType {
    /// Whether entries have a key and an action, a member or a group: the kinds of match-action tables.
    pub fn is_match_action(&self) -> bool {
        matches!(
            self,
            TableType::MatchActionDirect
                | TableType::MatchActionIndirect
                | TableType::MatchActionIndirectSelector
        )
    }
}

/// Kind of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableType {
    /// A match-action table whose entries hold an action with its data.
    #[default]
    #[serde(rename = "MatchAction_Direct")]
    MatchActionDirect,
    /// A match-action table whose entries refer to a member of an action profile.
    #[serde(rename = "MatchAction_Indirect")]
    MatchActionIndirect,
    /// A match-action table whose entries refer to a member or a group of an action selector.
    #[serde(rename = "MatchAction_Indirect_Selector")]
    MatchActionIndirectSelector,
    /// The members of an action profile.
    Action,
    /// The groups of an action selector.
    Selector,
    /// The member that an action selector selects for a hash.
    SelectorGetMember,
    /// A counter array.
    Counter,
    /// A meter array.
    Meter,
    /// A register array.
    Register,
    /// A parameter of stateful ALUs.
    RegisterParam,
    /// An array of low-pass filters.
    Lpf,
    /// An array of profiles of weighted random early detection.
    Wred,
    /// A parser value set.
    ParserValueSet,
    /// Metadata of the ports, which the ingress parser reads.
    PortMetadata,
    /// Debug counters of tables.
    TblDbgCnt,
    /// Ports of the device.
    PortConfigure,
    /// Statistics of the ports.
    PortStat,
    /// Ports by connector and channel.
    PortHdlInfo,
    /// Ports by name.
    PortStrInfo,
    /// Multicast groups.
    PreMgid,
    /// Nodes of multicast trees.
    PreNode,
    /// ECMP groups of nodes of multicast trees.
    PreEcmp,
    /// Link aggregation groups of the replication engine.
    PreLag,
    /// Ports that the replication engine excludes.
    PrePrune,
    /// Ports of the replication engine.
    PrePort,
    /// Mirror sessions.
    MirrorCfg,
    /// A kind without a meaning for this crate.
    #[serde(untagged)]
    Other(String),
}

/// An annotation of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    /// The annotation as written, with `@`, or a name that starts with `$` for annotations of the compiler.
    pub name: String,
    /// Value of an annotation of the compiler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl Annotation {
    /// An annotation of the program, as written.
    pub fn written(text: &str) -> Annotation {
        Annotation {
            name: text.to_owned(),
            value: None,
        }
    }
}

/// How a key field is compared with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MatchType {
    /// Equality.
    Exact,
    /// Equality under a mask.
    Ternary,
    /// Longest prefix match.
    LPM,
    /// Between two bounds.
    Range,
    /// Equality, or any value.
    Optional,
    /// The partition of an algorithmic TCAM.
    ATCAM,
}

/// A field of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyField {
    /// Id, unique within the key.
    pub id: u32,
    /// Name, unique within the key.
    pub name: String,
    /// Always false: a key has one value of each field.
    #[serde(default)]
    pub repeated: bool,
    /// Annotations of the field.
    #[serde(default)]
    pub annotations: Vec<Annotation>,
    /// Whether the key must have this field. A field that is absent matches any value, or is 0 if it is exact.
    #[serde(default)]
    pub mandatory: bool,
    /// How the field is compared.
    pub match_type: MatchType,
    /// Type of the value.
    #[serde(rename = "type")]
    pub ty: FieldType,
}

/// An action of a table's entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionSpec {
    /// Id, unique within the table.
    pub id: u32,
    /// Full name.
    pub name: String,
    /// Permitted uses of the action; actions of the device have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_scope: Option<ActionScope>,
    /// Annotations of the action in the table's list.
    #[serde(default)]
    pub annotations: Vec<Annotation>,
    /// Data fields of the action.
    #[serde(default)]
    pub data: Vec<ActionData>,
}

/// The permitted uses of an action in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ActionScope {
    /// Entries and the default entry.
    TableAndDefault,
    /// Entries only.
    TableOnly,
    /// The default entry only.
    DefaultOnly,
}

/// A data field of an action, in the form of actions of a program or of the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ActionData {
    /// Form of a program's actions: one object.
    Param(ActionParam),
    /// Form of a device's actions, as of data outside actions.
    Data(Data),
}

/// A parameter of a program's action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionParam {
    /// Id, unique within the action.
    pub id: u32,
    /// Name of the parameter.
    pub name: String,
    /// Always false.
    pub repeated: bool,
    /// Whether entries must have a value of the parameter.
    pub mandatory: bool,
    /// Always false.
    pub read_only: bool,
    /// Annotations of the parameter.
    #[serde(default)]
    pub annotations: Vec<Annotation>,
    /// Type of the value.
    #[serde(rename = "type")]
    pub ty: FieldType,
}

/// A data field outside actions, or a choice of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// Whether an entry must have the field, or one of the choice.
    pub mandatory: bool,
    /// Whether the field can only be read.
    pub read_only: bool,
    /// The field or fields.
    #[serde(flatten)]
    pub content: DataContent,
}

/// The fields of a [`Data`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DataContent {
    /// One field.
    #[serde(rename = "singleton")]
    Singleton(DataField),
    /// Fields of which an entry has one.
    #[serde(rename = "oneof")]
    Oneof(Vec<DataField>),
}

impl Data {
    /// A field that can be written.
    pub fn singleton(mandatory: bool, field: DataField) -> Data {
        Data {
            mandatory,
            read_only: false,
            content: DataContent::Singleton(field),
        }
    }

    /// The field, or all fields of the choice.
    pub fn fields(&self) -> &[DataField] {
        match &self.content {
            DataContent::Singleton(field) => std::slice::from_ref(field),
            DataContent::Oneof(fields) => fields,
        }
    }
}

/// A data field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataField {
    /// Id, unique within the table's data, or within the container.
    pub id: u32,
    /// Name, unique in the same way.
    pub name: String,
    /// Whether the value is a list.
    pub repeated: bool,
    /// Annotations of the field.
    #[serde(default)]
    pub annotations: Vec<Annotation>,
    /// Type of the value, or of an element of the list.
    #[serde(flatten)]
    pub content: FieldContent,
}

impl DataField {
    /// A field with one value, without annotations.
    pub fn new(id: u32, name: &str, ty: FieldType) -> DataField {
        DataField {
            id,
            name: name.to_owned(),
            repeated: false,
            annotations: Vec::new(),
            content: FieldContent::Type(ty),
        }
    }
}

/// Type of a data field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FieldContent {
    /// A single value.
    #[serde(rename = "type")]
    Type(FieldType),
    /// Fields of its own.
    #[serde(rename = "container")]
    Container(Vec<Data>),
}

/// Type of a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldType {
    /// Name of the type.
    #[serde(rename = "type")]
    pub name: TypeName,
    /// Width in bits, of `bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Permitted values of a `string`; `None` if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<String>>,
    /// Value of a field that an entry does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
    /// Constant mask of a key field, as hexadecimal number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<String>,
}

/// Name of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum TypeName {
    Bytes,
    Bool,
    String,
    Float,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Int8,
    Int16,
    Int32,
    Int64,
}

impl FieldType {
    /// A type without width, choices and default.
    pub fn plain(name: TypeName) -> FieldType {
        FieldType {
            name,
            width: None,
            choices: None,
            default_value: None,
            mask: None,
        }
    }

    /// A number of `width` bits.
    pub fn bytes(width: u32) -> FieldType {
        FieldType {
            width: Some(width),
            ..FieldType::plain(TypeName::Bytes)
        }
    }

    /// A string out of `choices`.
    pub fn choice(choices: &[&str]) -> FieldType {
        FieldType {
            choices: Some(choices.iter().map(|choice| (*choice).to_owned()).collect()),
            ..FieldType::plain(TypeName::String)
        }
    }

    /// The type with a default value.
    pub fn with_default(self, value: impl Into<Value>) -> FieldType {
        FieldType {
            default_value: Some(value.into()),
            ..self
        }
    }

    /// Width of the value in bits; `None` for strings and floating-point numbers.
    pub fn bits(&self) -> Option<u32> {
        Some(match self.name {
            TypeName::Bytes => self.width?,
            TypeName::Bool => 1,
            TypeName::Uint8 | TypeName::Int8 => 8,
            TypeName::Uint16 | TypeName::Int16 => 16,
            TypeName::Uint32 | TypeName::Int32 => 32,
            TypeName::Uint64 | TypeName::Int64 => 64,
            TypeName::String | TypeName::Float => return None,
        })
    }
}

/// A digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearnFilter {
    /// Full name, such as `pipe.SwitchIngressDeparser.digest_a`.
    pub name: String,
    /// Id, unique among the digests.
    pub id: u32,
    /// Annotations of the declaration.
    #[serde(default)]
    pub annotations: Vec<Annotation>,
    /// Fields of a message.
    pub fields: Vec<DataField>,
}
