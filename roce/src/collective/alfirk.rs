//! Broadcast over a group: the root sends once, switches replicate the packets and aggregate the acknowledgements.

use super::edge::EdgeId;
use super::plan::{Plan, Shape};

/// The plan of one member.
pub(super) fn plan(shape: Shape<'_>, rank: u32) -> Plan {
    Plan::of_edge(EdgeId::Group { root: 0 }, shape, rank)
}
