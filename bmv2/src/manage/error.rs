//! Errors of control plane requests.

use crate::pre::PreError;
use crate::tables::KeyFault;

/// Error of a control plane request; the switch is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManageError {
    #[error("no program is loaded")]
    NoProgram,
    #[error("the program has no {what} named {name:?}")]
    Unknown { what: &'static str, name: String },
    #[error("table {table}: its entries are const in the program")]
    ConstEntries { table: String },
    /// One entry of the table is const.
    #[error("table {table}: this entry is const in the program, and cannot be changed or deleted")]
    ConstEntry { table: String },
    #[error("table {table} has no key and therefore no entries; set its default action")]
    NoKey { table: String },
    #[error("table {table}: its default action is const in the program")]
    ConstDefault { table: String },
    #[error("table {table} is full with {size} entries")]
    TableFull { table: String, size: u64 },
    #[error("table {table}: an equal entry exists")]
    EntryExists { table: String },
    #[error("table {table}: no such entry exists")]
    NoEntry { table: String },
    #[error(
        "table {table}: the entry's handle is stale; the entry was deleted and its slot reused"
    )]
    StaleEntry { table: String },
    #[error("table {table}: the key has {expected} fields; the request has {got}")]
    KeyCount {
        table: String,
        expected: usize,
        got: usize,
    },
    #[error("table {table}, key {key}: {fault}")]
    Key {
        table: String,
        key: String,
        fault: KeyFault,
    },
    #[error("table {table} does not have the action {action}")]
    ActionNotInTable { table: String, action: String },
    #[error("action {action} has {expected} parameters; the request has {got} arguments")]
    ArgCount {
        action: String,
        expected: usize,
        got: usize,
    },
    #[error("action {action}: the argument for parameter {param} does not fit {bits} bits")]
    ArgTooWide {
        action: String,
        param: String,
        bits: u32,
    },
    /// An action for an indirect table, or a member for a direct one.
    #[error("table {table}: entries must have {expected}")]
    WrongTarget {
        table: String,
        expected: &'static str,
    },
    #[error("table {table} has no {what}")]
    NoSuchResource { table: String, what: &'static str },
    #[error("{what} {name}: index {index} is beyond its size of {size}")]
    IndexOutOfRange {
        what: &'static str,
        name: String,
        index: u64,
        size: u64,
    },
    #[error("{what} {name}: the value does not fit {bits} bits")]
    ValueTooWide {
        what: &'static str,
        name: String,
        bits: u32,
    },
    #[error("action profile {profile}: member {id} exists")]
    MemberExists { profile: String, id: u32 },
    #[error("action profile {profile}: member {id} does not exist")]
    NoMember { profile: String, id: u32 },
    #[error("action profile {profile}: member {id} is used by an entry or a group")]
    MemberInUse { profile: String, id: u32 },
    #[error("action profile {profile}: group {id} exists")]
    GroupExists { profile: String, id: u32 },
    #[error("action profile {profile}: group {id} does not exist")]
    NoGroup { profile: String, id: u32 },
    #[error("action profile {profile}: group {id} is used by an entry")]
    GroupInUse { profile: String, id: u32 },
    #[error("action profile {profile} has no selector and therefore no groups")]
    NoSelector { profile: String },
    #[error("action profile {profile} is full with {size} members")]
    ProfileFull { profile: String, size: u64 },
    /// The total size of a selector's groups would exceed the selector's size.
    #[error("action selector {profile}: the {unit} of all groups would be {sum}, above its size of {size}")]
    SelectorFull {
        profile: String,
        unit: &'static str,
        sum: u64,
        size: u64,
    },
    /// The size of a group would exceed the limit per group.
    #[error("action selector {profile}: the {unit} of group {id} would be {sum}, above the limit of {limit} per group")]
    GroupFull {
        profile: String,
        unit: &'static str,
        id: u32,
        sum: u64,
        limit: u64,
    },
    #[error("meter {name}: the committed rate is above the peak rate")]
    MeterRates { name: String },
    #[error("calculation {calculation} does not use crc{bits}_custom")]
    NotCustom { calculation: String, bits: u32 },
    #[error("parser value set {set}: the limit is {size} values")]
    ValueSetFull { set: String, size: u64 },
    #[error(transparent)]
    Pre(#[from] PreError),
}

pub(super) fn unknown(what: &'static str, name: &str) -> ManageError {
    ManageError::Unknown {
        what,
        name: name.to_owned(),
    }
}
