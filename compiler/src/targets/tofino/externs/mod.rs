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

use crate::diag::Span;
use crate::ir::{MeterId, RegisterId, TableId};
use crate::passes::externs::{LoweredObject, Lowering};
use crate::sema::Type;

/// Data that only Tofino needs while externs are lowered.
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
pub type ObjectId = usize;

impl Lowering<'_> {
    /// The part of the lowering's state that only Tofino has.
    fn tofino(&self) -> &State {
        let state = self.state.downcast_ref();
        state.expect("the target made the state")
    }

    /// The part of the lowering's state that only Tofino has, to be changed.
    fn tofino_mut(&mut self) -> &mut State {
        let state = self.state.downcast_mut();
        state.expect("the target made the state")
    }

    /// Attaches an object to a table, if the property or the object is one of Tofino's own. Returns whether it is.
    pub fn attach_tofino_object(
        &mut self,
        table: TableId,
        property: &str,
        object: Option<LoweredObject>,
        span: Span,
    ) -> bool {
        let own = match object {
            Some(LoweredObject::Own(id)) => Some(id),
            _ => None,
        };
        let partitions = own.and_then(|id| self.partitions_of(id));
        match property {
            "implementation" if partitions.is_some() => {
                self.program.tables[table.index()].algorithmic = partitions;
            }
            "alpm" | "atcam" => self.program.tables[table.index()].algorithmic = partitions,
            "meters" if own.is_some() => self.attach_direct(own, table, span),
            "registers" | "filters" => self.attach_direct(own, table, span),
            _ => return false,
        }
        true
    }
}
