//! Checked entries, in the form used by programs and tables.

use crate::exec::ops::Pc;
use crate::numbers::Words;
use smallvec::SmallVec;

/// A checked key field: matches if `field & mask == value`, and the field is within `range`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewKey {
    /// Value; for a range, the common prefix of all of its values (with `mask`).
    pub value: Words,
    pub mask: Words,
    /// Both ends of a range, inclusive. Boxed, since few keys have one.
    pub range: Option<Box<(Words, Words)>>,
    /// Prefix length of an lpm field.
    pub prefix_len: u32,
}

/// An action with its arguments, ready to run.
#[derive(Clone, Debug)]
pub(crate) struct ActionRef {
    pub action: u16,
    pub code: Pc,
    /// The instruction after the table; not set for members of profiles.
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
