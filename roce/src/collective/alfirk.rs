//! The root sends once; the switches replicate the packets and merge the answers.

use super::plan::{Plan, Shape};
use super::spec::EdgeId;

/// The plan of one member.
pub(super) fn plan(shape: Shape<'_>, rank: u32) -> Plan {
    Plan::of_edge(EdgeId::Group { root: 0 }, shape, rank)
}
