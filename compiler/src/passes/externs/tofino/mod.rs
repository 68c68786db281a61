//! Lowering of Tofino's externs for the software model.

mod calls;
pub mod direct;
mod hash;
mod lpf;
mod math_unit;
mod meters;
mod min_max;
mod objects;
mod parser_counter;
mod registers;
mod wred;

pub use calls::function_value;
pub use hash::{identity, is_identity};
pub use objects::{control_kind, Object};
pub use registers::predicate;

use std::collections::BTreeMap;

use crate::ir::{MeterId, RegisterId};
use crate::sema::Type;

/// State of the lowering that only Tofino needs.
#[derive(Default)]
pub struct State {
    /// Objects without an equivalent in v1model.
    objects: Vec<Object>,
    /// Types of the cells of registers.
    cells: BTreeMap<RegisterId, Type>,
    /// Encodings of green, yellow and red, for meters whose encoding differs from `MeterColor_t`.
    colors: BTreeMap<MeterId, [u8; 3]>,
}

/// The position of an object in [`State::objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectId(usize);
