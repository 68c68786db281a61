//! Why a request is refused.

use crate::pre::PreError;
use crate::tables::KeyFault;

/// A management request is refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManageError {
    #[error("no program is loaded")]
    NoProgram,
    #[error("the program has no {what} named {name:?}")]
    Unknown { what: &'static str, name: String },
    #[error("table {table}: its entries are fixed by the program")]
    ConstEntries { table: String },
    /// The program fixes one entry of a table.
    #[error("table {table}: this entry is const in the program, and cannot be changed or deleted")]
    ConstEntry { table: String },
    #[error("table {table} has no key, so no entries; set its default action")]
    NoKey { table: String },
    #[error("table {table}: its default action is fixed by the program")]
    ConstDefault { table: String },
    #[error("table {table} is full with {size} entries")]
    TableFull { table: String, size: u64 },
    #[error("table {table}: an equal entry exists")]
    EntryExists { table: String },
    #[error("table {table}: there is no such entry")]
    NoEntry { table: String },
    #[error("table {table}: the entry is gone, and another one has its place")]
    StaleEntry { table: String },
    #[error("table {table}: the key has {expected} fields, not {got}")]
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
    #[error("action {action} takes {expected} arguments, not {got}")]
    ArgCount {
        action: String,
        expected: usize,
        got: usize,
    },
    #[error("action {action}: the argument {param} has more than {bits} bits")]
    ArgTooWide {
        action: String,
        param: String,
        bits: u32,
    },
    /// An action for an indirect table, or a member for a direct one.
    #[error("table {table}: entries must name {expected}")]
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
    #[error("{what} {name}: the value has more than {bits} bits")]
    ValueTooWide {
        what: &'static str,
        name: String,
        bits: u32,
    },
    #[error("action profile {profile}: member {id} exists")]
    MemberExists { profile: String, id: u32 },
    #[error("action profile {profile}: there is no member {id}")]
    NoMember { profile: String, id: u32 },
    #[error("action profile {profile}: member {id} is used by an entry or a group")]
    MemberInUse { profile: String, id: u32 },
    #[error("action profile {profile}: group {id} exists")]
    GroupExists { profile: String, id: u32 },
    #[error("action profile {profile}: there is no group {id}")]
    NoGroup { profile: String, id: u32 },
    #[error("action profile {profile}: group {id} is used by an entry")]
    GroupInUse { profile: String, id: u32 },
    #[error("action profile {profile} has no selector, so no groups")]
    NoSelector { profile: String },
    #[error("action profile {profile} is full with {size} members")]
    ProfileFull { profile: String, size: u64 },
    /// The groups of a selector would be larger together than its size.
    #[error("action selector {profile}: the {unit} of all groups would come to {sum}, above its size of {size}")]
    SelectorFull {
        profile: String,
        unit: &'static str,
        sum: u64,
        size: u64,
    },
    /// A group would be larger than groups may be.
    #[error("action selector {profile}: the {unit} of group {id} would come to {sum}, above the {limit} of a group")]
    GroupFull {
        profile: String,
        unit: &'static str,
        id: u32,
        sum: u64,
        limit: u64,
    },
    #[error("meter {name}: the committed rate is above the peak rate")]
    MeterRates { name: String },
    #[error("calculation {calculation} is not by crc{bits}_custom")]
    NotCustom { calculation: String, bits: u32 },
    #[error("parser value set {set}: it holds {size} values at most")]
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
