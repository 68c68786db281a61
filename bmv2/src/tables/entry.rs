//! Validated entries, in the form that tables store and packets use.

use crate::exec::ops::Pc;
use crate::numbers::Words;
use smallvec::SmallVec;

/// A validated key field. It matches a packet's field if `field & mask == value`, and the field is within `range`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewKey {
    /// Value; for a range, the common prefix of all values in it.
    pub value: Words,
    /// Bits to compare; for a range, the bits of the common prefix.
    pub mask: Words,
    /// Lower and upper bound of a range, both included. Boxed, since few keys have one.
    pub range: Option<Box<(Words, Words)>>,
    /// Prefix length of an lpm field; the width of other fields.
    pub prefix_len: u32,
}

/// An action with its arguments, in the form in which the interpreter calls it.
#[derive(Clone, Debug)]
pub(crate) struct ActionRef {
    /// Index of the action in the program.
    pub action: u16,
    /// First instruction of the action.
    pub code: Pc,
    /// Next instruction after the table. Not set for members of action profiles.
    pub next: Pc,
    /// Arguments of the action as 64-bit words, in the order of the parameters.
    pub args: SmallVec<[u64; 2]>,
}

impl ActionRef {
    /// Copies the arguments to the action's parameters, which are as many words.
    #[inline(always)]
    pub(crate) fn set_params(&self, to: &mut [u64]) {
        // A call of `memcpy` takes longer than the few words of most actions.
        match (&self.args[..], to) {
            ([], _) => {}
            ([a], [to]) => *to = *a,
            ([a, b], [to_a, to_b]) => (*to_a, *to_b) = (*a, *b),
            (args, to) => to.copy_from_slice(args),
        }
    }
}

/// Effect of an entry: an action, or a member or group of the table's action profile.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Runs an action.
    Action(ActionRef),
    /// Runs the action of the member with this id.
    Member(u32),
    /// Runs the action of a member that the selector chooses from the group with this id.
    Group(u32),
}

/// A validated entry that is not in a table yet.
#[derive(Clone, Debug)]
pub(crate) struct NewEntry {
    /// Values of the key fields, in the table's order.
    pub keys: Vec<NewKey>,
    /// Priority of the entry: the smallest number wins.
    pub priority: i32,
    /// Effect of the entry on packets that match.
    pub target: Target,
    /// Idle timeout of the entry in nanoseconds; 0 for none.
    pub idle_timeout: u64,
}
