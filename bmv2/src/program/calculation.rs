//! Calculations: an algorithm and what it is computed over. [`crate::exec::calculate`] runs them.

use crate::exec::join::Join;
use crate::exec::ops::Slot;
use crate::externs::hash::Algorithm;

/// A calculation of the program, or the hash of an action selector.
#[derive(Clone, Debug)]
pub struct Calculation {
    /// Empty for the hash of a selector.
    pub(crate) name: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) inputs: Vec<Input>,
    pub(crate) payload: bool,
    /// The usual case that all headers are valid; none with parts of variable length.
    pub(crate) joined: Option<Joined>,
}

/// The inputs put together at once.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    /// Words that are not zero when all inputs count.
    pub valid: Vec<Slot>,
    pub join: Join,
}

#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A field; none of its bits count when `valid` names a word that is zero.
    Field {
        slot: Slot,
        bits: u32,
        valid: Option<Slot>,
    },
    /// The present part of a variable-length field.
    Varbit {
        slot: Slot,
        length: Slot,
        valid: Option<Slot>,
    },
    Const {
        words: Vec<u64>,
        bits: u32,
    },
    Header(u16),
}
