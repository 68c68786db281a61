//! Broadcast by multicast datagrams, which receivers acknowledge up a binomial tree and repair among themselves
//! ([`crate::binomial_ack`]).
//!
//! The plan has one edge, from the root to all other members, and each slice is one message on it. Repaired slices arrive out of
//! order. The root's end of the edge is the group's manager, whose address the members need to join. The edge is ready when all
//! members have joined and are connected to their neighbours in the tree.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::edge::EdgeId;
use super::plan::{Plan, Shape};

/// The longest slice in bytes: each end of a connection buffers whole slices.
pub(super) const LONGEST_SLICE: u64 = 1 << 20;

/// The multicast group to which members send datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DatagramSpec {
    /// A multicast address in 224.0.0.0/4. The fabric must have its members registered.
    pub group: Ipv4Addr,
    /// The Q_Key of the members' queue pairs, below 2^31.
    pub qkey: u32,
}

/// The plan of one member.
pub(super) fn plan(shape: Shape<'_>, rank: u32) -> Plan {
    Plan::of_edge(EdgeId::Datagrams { root: 0 }, shape, rank)
}
