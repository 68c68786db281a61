//! Assignment of conjunctions and disjunctions.

use super::{LoadError, Loader};
use crate::exec::node::{Binary, Cast, Kind, Node, Unary};
use crate::exec::ops::{Op, Slot};

impl Loader<'_> {
    /// Emits code that assigns a conjunction or disjunction to an unsigned field. Returns false for other values.
    ///
    /// The value is compiled as a branch instead of an expression. Evaluation stops at the first deciding operand, and
    /// the value of the field is then known on each path ([`super::jump_threading`]).
    pub(super) fn assign_compound(&mut self, slot: Slot, value: &Node) -> Result<bool, LoadError> {
        let Some(condition) = compound(value) else {
            return Ok(false);
        };
        let to_false = self.branch(condition, false)?;
        let (one, zero) = (self.constant(1)?, self.constant(0)?);
        self.emit(Op::Mov { d: slot, a: one });
        let to_end = self.emit(Op::Jump { to: 0 });
        self.land(to_false);
        self.emit(Op::Mov { d: slot, a: zero });
        self.land(vec![to_end]);
        Ok(true)
    }
}

/// Returns the conjunction or disjunction that a value consists of, apart from conversions; `None` for other values.
fn compound(value: &Node) -> Option<&Node> {
    match &value.kind {
        Kind::Binary(Binary::And | Binary::Or, ..) => Some(value),
        Kind::Unary(Unary::LogicNot, a) => compound(a).map(|_| value),
        Kind::Cast(Cast::TwoComp, _, a) => compound(a),
        _ => None,
    }
}
