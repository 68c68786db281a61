//! Control flows: tables, action profiles and conditionals, linked by name.

use crate::expr::{Expr, FieldRef};
use crate::serde_util::{null_as_default, pairs};
use crate::SourceInfo;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    /// Name: `ingress` or `egress` for simple_switch.
    pub name: String,
    pub id: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// The first node; `None` for an empty control.
    #[serde(default)]
    pub init_table: Option<String>,
    #[serde(default)]
    pub tables: Vec<Table>,
    #[serde(default)]
    pub action_profiles: Vec<ActionProfile>,
    #[serde(default)]
    pub conditionals: Vec<Conditional>,
    /// Calls of actions outside of tables. p4c makes tables without keys instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub action_calls: Vec<ActionCall>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub name: String,
    pub id: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default)]
    pub key: Vec<TableKey>,
    pub match_type: MatchType,
    #[serde(rename = "type", default)]
    pub kind: TableType,
    /// The action profile of an indirect table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_profile: Option<String>,
    /// Greatest number of entries.
    #[serde(default)]
    pub max_size: u64,
    #[serde(default)]
    pub with_counters: bool,
    #[serde(default)]
    pub support_timeout: bool,
    /// Name of the direct meter array.
    #[serde(default)]
    pub direct_meters: Option<String>,
    /// Direct registers: one cell per entry. Not in BMv2's own format.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub direct_registers: Vec<DirectRegister>,
    #[serde(default)]
    pub action_ids: Vec<i64>,
    #[serde(default)]
    pub actions: Vec<String>,
    /// The next node when no action runs (a miss without default action).
    #[serde(default)]
    pub base_default_next: Option<String>,
    /// Next node per action name, or for `__HIT__` and `__MISS__`.
    #[serde(default, with = "pairs")]
    pub next_tables: Vec<(String, Option<String>)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_entry: Option<DefaultEntry>,
    /// Initial entries of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<TableEntry>>,
    /// Whether the control plane cannot change the entries. Not in BMv2's own format. Without the member, entries are
    /// const and their priorities are ranks from 1. With it, priorities are 2^31 - 1 minus those of P4Runtime, as
    /// everywhere in the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub const_entries: Option<bool>,
}

/// A direct register: one cell per entry of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectRegister {
    pub name: String,
    /// Field to which the switch writes the index of the cell of the entry that was hit.
    pub entry: FieldRef,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatchType {
    #[default]
    Exact,
    Lpm,
    Ternary,
    Range,
    /// The key is a header; matches its validity.
    Valid,
    /// Accepted, but not written by p4c (which writes `ternary`).
    Optional,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableType {
    #[default]
    Simple,
    /// Entries point to members of an action profile.
    Indirect,
    /// Entries point to members or groups of an action profile with selector.
    IndirectWs,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableKey {
    pub match_type: MatchType,
    /// The control plane's name of this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub target: TableKeyTarget,
    /// Hexadecimal mask always applied to the field, padded to whole bytes.
    #[serde(default)]
    pub mask: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TableKeyTarget {
    Field(FieldRef),
    /// A header, only with [`MatchType::Valid`].
    Header(String),
}

impl Serialize for TableKeyTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            TableKeyTarget::Field(field) => field.serialize(serializer),
            TableKeyTarget::Header(header) => header.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TableKeyTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TableKeyTarget, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(header) => Ok(TableKeyTarget::Header(header)),
            other => FieldRef::from_value(&other)
                .map(TableKeyTarget::Field)
                .map_err(|e| D::Error::custom(format!("key target: {e}"))),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DefaultEntry {
    pub action_id: i64,
    /// Whether the control plane cannot choose another action.
    #[serde(default)]
    pub action_const: bool,
    /// Hexadecimal arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_data: Option<Vec<String>>,
    /// Whether the control plane can change neither action nor arguments.
    #[serde(default)]
    pub action_entry_const: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub match_key: Vec<MatchKey>,
    pub action_entry: ActionEntry,
    /// The smallest number wins.
    #[serde(default)]
    pub priority: i64,
    /// Whether this entry is const in a table with entries that are not. Not in BMv2's own format.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_const: bool,
}

/// One element of an entry's key. Values are hexadecimal strings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "match_type", rename_all = "lowercase")]
pub enum MatchKey {
    Exact { key: String },
    Lpm { key: String, prefix_length: u32 },
    Ternary { key: String, mask: String },
    Range { start: String, end: String },
    Valid { key: bool },
    Optional { key: String, mask: String },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ActionEntry {
    pub action_id: i64,
    #[serde(default)]
    pub action_data: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ActionProfile {
    pub name: String,
    pub id: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default)]
    pub max_size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
}

/// How a selector chooses a member of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Selector {
    pub algo: String,
    #[serde(default)]
    pub input: Vec<Expr>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditional {
    pub name: String,
    pub id: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub expression: Expr,
    #[serde(default)]
    pub true_next: Option<String>,
    #[serde(default)]
    pub false_next: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ActionCall {
    pub name: String,
    pub id: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub action_id: i64,
    #[serde(default, deserialize_with = "null_as_default")]
    pub next_node: Option<String>,
}
