//! Pipelined chain: member r forwards every slice (the part of the data in one message) to member r + 1 as soon as it has
//! it.
//!
//! With n members and s slices, the last member has all data after about (s + n - 2) / s times the duration of one
//! transfer.

use super::plan::{Draft, Plan, Shape};

/// Plan of member `rank`: receives all slices from the previous rank and sends them to the next one.
pub(super) fn plan(shape: Shape<'_>, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    if rank > 0 {
        draft.receive(rank - 1, 0..shape.slices);
    }
    if rank + 1 < shape.members {
        draft.send(rank + 1, 0, 0..shape.slices);
    }
    draft.finish()
}
