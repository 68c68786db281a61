//! Scatters: each member gets its own piece of the root's data, a range of slices (messages).

use super::pieces::{scatter_pieces, slices};
use super::plan::{Draft, Plan, Shape};

/// Plan of member `rank`: the root sends each member its piece, alternating between the members.
pub(super) fn direct(shape: Shape<'_>, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    match rank {
        0 => (1..shape.members).for_each(|to| draft.send(to, 0, slices(shape, to..to + 1))),
        _ => draft.receive(0, slices(shape, rank..rank + 1)),
    }
    draft.finish()
}

/// Plan of member `rank`: pieces are sent down a binomial tree. Each member gets the pieces of its whole subtree together.
pub(super) fn binomial(shape: Shape<'_>, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    scatter_pieces(&mut draft, shape, rank);
    draft.finish()
}
