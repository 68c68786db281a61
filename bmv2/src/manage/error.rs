//! Errors of control plane requests.

use crate::pre::PreError;
use crate::tables::KeyFault;

/// Error of a control plane request; the switch is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManageError {
    /// No program is loaded, so there are no objects to access.
    #[error("no program is loaded")]
    NoProgram,
    /// The program has no object of this kind and name.
    #[error("the program has no {what} named {name:?}")]
    Unknown {
        /// Kind of object, as the message names it.
        what: &'static str,
        /// Name in the request.
        name: String,
    },
    /// The table's entries are const: the control plane can neither add, change nor delete entries.
    #[error("table {table}: its entries are const in the program")]
    ConstEntries {
        /// Name of the table.
        table: String,
    },
    /// The entry of the request is const; other entries of the table can be changed.
    #[error("table {table}: this entry is const in the program, and cannot be changed or deleted")]
    ConstEntry {
        /// Name of the table.
        table: String,
    },
    /// The table has no key, so it cannot have entries.
    #[error("table {table} has no key and therefore no entries; set its default action")]
    NoKey {
        /// Name of the table.
        table: String,
    },
    /// The default action of the table is const.
    #[error("table {table}: its default action is const in the program")]
    ConstDefault {
        /// Name of the table.
        table: String,
    },
    /// The table has its maximum number of entries.
    #[error("table {table} is full with {size} entries")]
    TableFull {
        /// Name of the table.
        table: String,
        /// Maximum number of entries.
        size: u64,
    },
    /// The table has entries, so its key cannot be changed.
    #[error("table {table} has entries; delete them before its key mask is changed")]
    NotEmpty {
        /// Name of the table.
        table: String,
    },
    /// The table has an entry with the same key and, if entries have priorities, the same priority.
    #[error("table {table}: an equal entry exists")]
    EntryExists {
        /// Name of the table.
        table: String,
    },
    /// The table has no entry with this key or handle.
    #[error("table {table}: no such entry exists")]
    NoEntry {
        /// Name of the table.
        table: String,
    },
    /// The entry of this handle was deleted, and another entry uses its slot.
    #[error(
        "table {table}: the entry's handle is stale; the entry was deleted and its slot reused"
    )]
    StaleEntry {
        /// Name of the table.
        table: String,
    },
    /// The request's key does not have one value per key field of the table.
    #[error("table {table}: the key has {expected} fields; the request has {got}")]
    KeyCount {
        /// Name of the table.
        table: String,
        /// Number of key fields of the table.
        expected: usize,
        /// Number of values in the request.
        got: usize,
    },
    /// The value of a key field is invalid.
    #[error("table {table}, key {key}: {fault}")]
    Key {
        /// Name of the table.
        table: String,
        /// Name of the key field.
        key: String,
        /// Reason why the value is invalid.
        fault: KeyFault,
    },
    /// The action is not in the table's list of actions.
    #[error("table {table} does not have the action {action}")]
    ActionNotInTable {
        /// Name of the table or action profile.
        table: String,
        /// Name of the action.
        action: String,
    },
    /// The request does not have one argument per parameter of the action.
    #[error("action {action} has {expected} parameters; the request has {got} arguments")]
    ArgCount {
        /// Name of the action.
        action: String,
        /// Number of parameters of the action.
        expected: usize,
        /// Number of arguments in the request.
        got: usize,
    },
    /// An argument has more significant bits than its parameter.
    #[error("action {action}: the argument for parameter {param} does not fit {bits} bits")]
    ArgTooWide {
        /// Name of the action.
        action: String,
        /// Name of the parameter.
        param: String,
        /// Width of the parameter in bits.
        bits: u32,
    },
    /// An action for an indirect table, or a member or group for a direct one.
    #[error("table {table}: entries must have {expected}")]
    WrongTarget {
        /// Name of the table.
        table: String,
        /// Kind of target that the table allows, as the message names it.
        expected: &'static str,
    },
    /// The table has no direct counter, direct meter or idle timeouts.
    #[error("table {table} has no {what}")]
    NoSuchResource {
        /// Name of the table.
        table: String,
        /// Missing resource, as the message names it.
        what: &'static str,
    },
    /// The index is not below the size of the array.
    #[error("{what} {name}: index {index} is beyond its size of {size}")]
    IndexOutOfRange {
        /// Kind of object, as the message names it.
        what: &'static str,
        /// Name of the array.
        name: String,
        /// Index in the request.
        index: u64,
        /// Number of cells.
        size: u64,
    },
    /// A value has more significant bits than a cell or set member.
    #[error("{what} {name}: the value does not fit {bits} bits")]
    ValueTooWide {
        /// Kind of object, as the message names it.
        what: &'static str,
        /// Name of the register array or parser value set.
        name: String,
        /// Width of a cell or member in bits.
        bits: u32,
    },
    /// The profile has a member with this id.
    #[error("action profile {profile}: member {id} exists")]
    MemberExists {
        /// Name of the action profile or selector.
        profile: String,
        /// Member id in the request.
        id: u32,
    },
    /// The profile has no member with this id.
    #[error("action profile {profile}: member {id} does not exist")]
    NoMember {
        /// Name of the action profile or selector.
        profile: String,
        /// Member id in the request.
        id: u32,
    },
    /// The member cannot be deleted while entries or groups refer to it.
    #[error("action profile {profile}: member {id} is used by an entry or a group")]
    MemberInUse {
        /// Name of the action profile or selector.
        profile: String,
        /// Member id in the request.
        id: u32,
    },
    /// The selector has a group with this id.
    #[error("action profile {profile}: group {id} exists")]
    GroupExists {
        /// Name of the selector.
        profile: String,
        /// Group id in the request.
        id: u32,
    },
    /// The selector has no group with this id.
    #[error("action profile {profile}: group {id} does not exist")]
    NoGroup {
        /// Name of the selector.
        profile: String,
        /// Group id in the request.
        id: u32,
    },
    /// The group cannot be deleted while entries refer to it.
    #[error("action profile {profile}: group {id} is used by an entry")]
    GroupInUse {
        /// Name of the selector.
        profile: String,
        /// Group id in the request.
        id: u32,
    },
    /// The action profile has no selector, so it cannot have groups.
    #[error("action profile {profile} has no selector and therefore no groups")]
    NoSelector {
        /// Name of the action profile.
        profile: String,
    },
    /// The profile has its maximum number of members.
    #[error("action profile {profile} is full with {size} members")]
    ProfileFull {
        /// Name of the action profile or selector.
        profile: String,
        /// Maximum number of members.
        size: u64,
    },
    /// The total size of a selector's groups would exceed the selector's size.
    #[error("action selector {profile}: the {unit} of all groups would be {sum}, above its size of {size}")]
    SelectorFull {
        /// Name of the selector.
        profile: String,
        /// What sizes count: members or weights.
        unit: &'static str,
        /// Total size after the change.
        sum: u64,
        /// Maximum total size.
        size: u64,
    },
    /// The size of a group would exceed the limit per group.
    #[error("action selector {profile}: the {unit} of group {id} would be {sum}, above the limit of {limit} per group")]
    GroupFull {
        /// Name of the selector.
        profile: String,
        /// What sizes count: members or weights.
        unit: &'static str,
        /// Group id in the request.
        id: u32,
        /// Size of the group after the change.
        sum: u64,
        /// Maximum size of a group.
        limit: u64,
    },
    /// The committed information rate is above the peak information rate.
    #[error("meter {name}: the committed rate is above the peak rate")]
    MeterRates {
        /// Name of the meter array or table.
        name: String,
    },
    /// The calculation's algorithm is not a custom CRC of this width.
    #[error("calculation {calculation} does not use crc{bits}_custom")]
    NotCustom {
        /// Name of the calculation.
        calculation: String,
        /// Width of the requested CRC in bits.
        bits: u32,
    },
    /// The parser value set would have more than its maximum number of members.
    #[error("parser value set {set}: the limit is {size} values")]
    ValueSetFull {
        /// Name of the value set.
        set: String,
        /// Maximum number of members.
        size: u64,
    },
    /// Error of the replication engine.
    #[error(transparent)]
    Pre(#[from] PreError),
}

/// Creates the error for an unknown object; `what` is its kind.
pub(super) fn unknown(what: &'static str, name: &str) -> ManageError {
    ManageError::Unknown {
        what,
        name: name.to_owned(),
    }
}
