//! Unicast: the root sends all data to each member on a separate queue pair. The queue pairs share the root's link. A
//! *slice* is the part of the data in one message.

use super::plan::{Draft, Plan, Shape};

/// Plan of member `rank`: the root has an edge to each member, and sends slices over the edges in turn.
pub(super) fn plan(shape: Shape<'_>, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    match rank {
        0 => (1..shape.members).for_each(|to| draft.send(to, 0, 0..shape.slices)),
        _ => draft.receive(0, 0..shape.slices),
    }
    draft.finish()
}
