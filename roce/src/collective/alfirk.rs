//! Broadcast over a multicast group of the fabric: the root sends once, switches replicate the packets and aggregate
//! the acknowledgements.

use super::edge::EdgeId;
use super::plan::{Plan, Shape};

/// Plan of member `rank`: one edge from the root to the group, which carries all slices.
pub(super) fn plan(shape: Shape<'_>, rank: u32) -> Plan {
    Plan::of_edge(EdgeId::Group { root: 0 }, shape, rank)
}
