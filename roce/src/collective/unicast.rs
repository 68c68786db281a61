//! The root sends everything to each member on a separate queue pair; the queue pairs share the link.

use super::plan::{Draft, Plan, Shape};

/// The plan of one member.
pub(super) fn plan(shape: Shape<'_>, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    match rank {
        0 => (1..shape.members).for_each(|to| draft.send(to, 0, 0..shape.slices)),
        _ => draft.receive(0, 0..shape.slices),
    }
    draft.finish()
}
