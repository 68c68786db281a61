//! Lowering of the externs of Tofino for the software model.

mod calls;
pub mod direct;
mod extremes;
mod hash;
mod lpf;
mod math_unit;
mod meters;
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

/// What is known of Tofino's own objects.
#[derive(Default)]
pub struct State {
    /// Objects that v1model has no equal of.
    objects: Vec<Object>,
    /// Types of registers' cells.
    cells: BTreeMap<RegisterId, Type>,
    /// What meters give for green, yellow and red, where it is not what `MeterColor_t` says.
    colors: BTreeMap<MeterId, [u8; 3]>,
}

/// The position of an object in [`State::objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectId(usize);
