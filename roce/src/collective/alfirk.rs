//! The root sends once; the switches replicate the packets and merge the answers.

use super::plan::{Flow, Plan, Shape};
use super::spec::EdgeId;

/// The plan of one member.
pub(super) fn plan(shape: Shape<'_>, rank: u32) -> Plan {
    let flow = Flow::all(EdgeId::Group { root: 0 }, shape.slices, 0);
    let (incoming, outgoing) = match rank {
        0 => (Vec::new(), vec![flow]),
        _ => (vec![flow], Vec::new()),
    };
    Plan {
        incoming,
        outgoing,
        ..Plan::default()
    }
}
