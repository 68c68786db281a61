//! Calculations: an algorithm with its inputs. [`crate::exec::calculate`] executes them.

use crate::exec::join::Join;
use crate::exec::ops::Slot;
use crate::externs::hash::Algorithm;

/// A calculation of the program, or the hash of an action selector.
#[derive(Clone, Debug)]
pub struct Calculation {
    /// Name of the calculation; empty for the hash of an action selector.
    pub(crate) name: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) inputs: Vec<Input>,
    pub(crate) payload: bool,
    /// Plan for concatenating the inputs when all their headers are valid; `None` if an input has a variable length.
    pub(crate) joined: Option<JoinedInputs>,
}

/// Plan for concatenating all inputs of a calculation.
#[derive(Clone, Debug)]
pub(crate) struct JoinedInputs {
    /// Words with the validity of the inputs' headers. The plan can be used only if all are non-zero.
    pub valid: Vec<Slot>,
    pub join: Join,
}

#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A field. It is omitted from the inputs if its header is invalid: `valid` is the word with the validity.
    Field {
        slot: Slot,
        bits: u32,
        valid: Option<Slot>,
    },
    /// The used bits of a variable-length field.
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
