//! Entries that have been checked, as programs and tables hold them.

use crate::exec::ops::Pc;
use crate::numbers::Words;
use smallvec::SmallVec;

/// A checked key field: matches where `field & mask == value`, and within `range`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewKey {
    /// Of a range, with `mask`: the prefix that all of its values share.
    pub value: Words,
    pub mask: Words,
    /// Both ends. Boxed, because few keys have one.
    pub range: Option<Box<(Words, Words)>>,
    /// Of an lpm field.
    pub prefix_len: u32,
}

/// An action with its arguments, ready to run.
#[derive(Clone, Debug)]
pub(crate) struct ActionRef {
    pub action: u16,
    pub code: Pc,
    /// The node after the table. Not known to members of profiles.
    pub next: Pc,
    pub args: SmallVec<[u64; 4]>,
}

#[derive(Clone, Debug)]
pub(crate) enum Target {
    Action(ActionRef),
    Member(u32),
    Group(u32),
}

/// A checked entry that is not in a table yet.
#[derive(Clone, Debug)]
pub(crate) struct NewEntry {
    pub keys: Vec<NewKey>,
    pub priority: i32,
    pub target: Target,
    pub idle_timeout: u64,
}
