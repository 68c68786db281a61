//! Match-action control flows: tables, action profiles and conditionals, linked by name.

use crate::expr::{Expr, FieldRef};
use crate::serde_util::{null_as_default, pairs};
use crate::SourceInfo;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A match-action control: a graph of tables, conditionals and action calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    /// `ingress` or `egress` for `simple_switch`.
    pub name: String,
    /// Number, unique among pipelines.
    pub id: i64,
    /// Position of the control in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Name of the first table, conditional or action call; `None` for an empty control.
    #[serde(default)]
    pub init_table: Option<String>,
    /// Tables of this control.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Action profiles of this control's indirect tables.
    #[serde(default)]
    pub action_profiles: Vec<ActionProfile>,
    /// `if` statements of this control.
    #[serde(default)]
    pub conditionals: Vec<Conditional>,
    /// Calls of actions outside of tables. p4c writes tables without keys instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub action_calls: Vec<ActionCall>,
}

/// A match-action table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Name, such as `MyIngress.ipv4_lpm`.
    pub name: String,
    /// Number, unique among tables.
    pub id: i64,
    /// Position of the table in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Key elements in source order; empty for a table without a key, which always misses.
    #[serde(default)]
    pub key: Vec<TableKey>,
    /// Kind of the whole table: `range` or `ternary` if any key element is, else `lpm`, else `exact`.
    pub match_type: MatchType,
    /// Whether entries hold actions themselves, or refer to an action profile. Its key is `type`.
    #[serde(rename = "type", default)]
    pub kind: TableType,
    /// Name of the [`ActionProfile`] of an indirect table; `None` for a simple one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_profile: Option<String>,
    /// Maximum number of entries.
    #[serde(default)]
    pub max_size: u64,
    /// Whether the table has a direct counter.
    #[serde(default)]
    pub with_counters: bool,
    /// Whether entries may have an idle timeout.
    #[serde(default)]
    pub support_timeout: bool,
    /// Name of the table's direct [`MeterArray`](crate::MeterArray), if any.
    #[serde(default)]
    pub direct_meters: Option<String>,
    /// Direct registers: one cell per entry. Not in BMv2's own format.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub direct_registers: Vec<DirectRegister>,
    /// [`Action::id`](crate::Action::id) of each action that entries may use.
    #[serde(default)]
    pub action_ids: Vec<i64>,
    /// Names of the actions, in the order of `action_ids`.
    #[serde(default)]
    pub actions: Vec<String>,
    /// Name of the next node when no action runs, which is a miss without default action; `None` ends the pipeline.
    #[serde(default)]
    pub base_default_next: Option<String>,
    /// Name of the next node after each action, or after `__HIT__` and `__MISS__`; `None` ends the pipeline.
    #[serde(default, with = "pairs")]
    pub next_tables: Vec<(String, Option<String>)>,
    /// Action that runs on a miss until the control plane changes it; `None` if the program defines none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_entry: Option<DefaultEntry>,
    /// Entries that the program declares, const or initial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<TableEntry>>,
    /// Whether the control plane cannot change the entries. Not in BMv2's own format.
    ///
    /// `None`: entries are const, and their priorities are ranks counted from 1.
    /// `Some`: priorities are 2^31 - 1 minus those of P4Runtime, as in all other places of the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub const_entries: Option<bool>,
}

/// A direct register: one cell per entry of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectRegister {
    /// Name of the register extern.
    pub name: String,
    /// Metadata field that receives the cell's index when an entry is hit.
    pub entry: FieldRef,
}

/// Match kind of a key element or of a whole table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatchType {
    /// All bits are equal.
    #[default]
    Exact,
    /// Longest prefix match: the leading bits are equal, and the entry with most of them wins.
    Lpm,
    /// Bits under the entry's mask are equal; the smallest priority number wins.
    Ternary,
    /// The value is between two bounds, both included; the smallest priority number wins.
    Range,
    /// The key is a header; matches its validity.
    Valid,
    /// Accepted, but not written by p4c (which writes `ternary`).
    Optional,
}

/// How entries of a table select their action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableType {
    /// Each entry holds an action and its arguments.
    #[default]
    Simple,
    /// Entries point to members of an action profile.
    Indirect,
    /// Entries point to members or groups of an action profile with selector.
    IndirectWs,
}

/// One element of a table's key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableKey {
    /// Match kind of this element.
    pub match_type: MatchType,
    /// Name of the key element in P4Runtime's match fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Field, or header whose validity is the key.
    pub target: TableKeyTarget,
    /// Hexadecimal mask always applied to the field, padded to whole bytes.
    #[serde(default)]
    pub mask: Option<String>,
}

/// Part of the packet that a key element compares with the entries: a field, or the validity of a header.
#[derive(Clone, Debug, PartialEq)]
pub enum TableKeyTarget {
    /// A header or metadata field.
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

/// Default action of a table, as declared in the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DefaultEntry {
    /// [`Action::id`](crate::Action::id) of the default action.
    pub action_id: i64,
    /// Whether the control plane must keep this action; it may still change the arguments.
    #[serde(default)]
    pub action_const: bool,
    /// Arguments of the action in hexadecimal. `None` for an action with parameters: misses run nothing until the
    /// control plane sets the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_data: Option<Vec<String>>,
    /// Whether the control plane can change neither action nor arguments.
    #[serde(default)]
    pub action_entry_const: bool,
}

/// An entry that the program declares in a table's `entries` property.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableEntry {
    /// Position of the entry in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// One value per key element, in the order of [`Table::key`].
    pub match_key: Vec<MatchKey>,
    /// Action that a hit runs.
    pub action_entry: ActionEntry,
    /// Among several matching entries, the one with the smallest number wins.
    #[serde(default)]
    pub priority: i64,
    /// Whether this entry is const in a table with entries that are not. Not in BMv2's own format.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_const: bool,
}

/// Value of one key element in an entry. Numbers are big-endian hexadecimal strings, such as `0x0a000001`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "match_type", rename_all = "lowercase")]
pub enum MatchKey {
    /// Matches one value.
    Exact {
        /// The value.
        key: String,
    },
    /// Matches all values with this prefix.
    Lpm {
        /// The prefix, in the full width of the field.
        key: String,
        /// Length of the prefix in bits.
        prefix_length: u32,
    },
    /// Matches values that are equal to `key` under `mask`.
    Ternary {
        /// The value.
        key: String,
        /// Bits to compare are 1.
        mask: String,
    },
    /// Matches values from `start` to `end`, both included.
    Range {
        /// Lower bound.
        start: String,
        /// Upper bound.
        end: String,
    },
    /// Matches a header's validity.
    Valid {
        /// Whether the header must be valid.
        key: bool,
    },
    /// Matches one value, or every value.
    Optional {
        /// The value.
        key: String,
        /// All ones to match `key` only, all zeros to match every value.
        mask: String,
    },
}

/// Action with arguments, run when an entry is hit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ActionEntry {
    /// [`Action::id`](crate::Action::id) of the action.
    pub action_id: i64,
    /// Arguments in hexadecimal, one per parameter.
    #[serde(default)]
    pub action_data: Vec<String>,
}

/// An action profile: members (actions with arguments) shared by entries of indirect tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ActionProfile {
    /// Name of the action profile or action selector.
    pub name: String,
    /// Number, unique among action profiles.
    pub id: i64,
    /// Position of the declaration in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Maximum number of members and, in an action selector, groups.
    #[serde(default)]
    pub max_size: u64,
    /// How groups select a member; `None` for a profile without groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
}

/// The hash by which an action selector chooses a member of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Selector {
    /// Name of the hash algorithm, such as `crc16`.
    pub algo: String,
    /// Fields that are hashed, in order.
    #[serde(default)]
    pub input: Vec<Expr>,
}

/// An `if` statement of a control.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditional {
    /// Name that other nodes refer to, generated by the compiler, such as `node_3`.
    pub name: String,
    /// Number, unique among conditionals.
    pub id: i64,
    /// Position of the statement in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Boolean condition.
    pub expression: Expr,
    /// Name of the next node if the condition holds; `None` ends the pipeline.
    #[serde(default)]
    pub true_next: Option<String>,
    /// Name of the next node otherwise; `None` ends the pipeline.
    #[serde(default)]
    pub false_next: Option<String>,
}

/// A call of an action without parameters, outside of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ActionCall {
    /// Name that other nodes refer to.
    pub name: String,
    /// Number, unique among action calls.
    pub id: i64,
    /// Position of the call in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// [`Action::id`](crate::Action::id) of the action called.
    pub action_id: i64,
    /// Name of the next node; `None` ends the pipeline.
    #[serde(default, deserialize_with = "null_as_default")]
    pub next_node: Option<String>,
}
