//! Calculations: an algorithm with its inputs. [`crate::exec::calculate`] executes them.

use crate::exec::join::Join;
use crate::exec::ops::Slot;
use crate::externs::hash::Algorithm;

/// A calculation of the program, or the hash of an action selector.
#[derive(Clone, Debug)]
pub struct Calculation {
    /// Name; empty for the hash of a selector.
    pub(crate) name: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) inputs: Vec<Input>,
    pub(crate) payload: bool,
    /// Plan for the usual case that all headers are valid; `None` if inputs have a variable length.
    pub(crate) joined: Option<JoinedInputs>,
}

/// Plan for concatenating all inputs at once.
#[derive(Clone, Debug)]
pub(crate) struct JoinedInputs {
    /// Words that must be non-zero for all inputs to be present.
    pub valid: Vec<Slot>,
    pub join: Join,
}

#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A field, which is omitted when `valid` is a word that is zero.
    Field {
        slot: Slot,
        bits: u32,
        valid: Option<Slot>,
    },
    /// The present bits of a variable-length field.
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
