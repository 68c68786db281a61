//! Broadcast by multicast datagrams. Receivers acknowledge them up a binomial tree and repair losses among themselves
//! ([`crate::binomial_ack`]).
//!
//! The plan has one edge, from the root to all other members, and each slice is one message on it. Repaired slices
//! arrive out of order. The root's end of the edge is the group's manager: members need its address to join. The edge
//! is ready when all members have joined and are connected to their neighbours in the tree.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::edge::EdgeId;
use super::plan::{Plan, Shape};

/// Largest permitted length of a slice (message) in bytes. It is limited because each end of a connection buffers whole
/// slices.
pub(super) const LONGEST_SLICE: u64 = 1 << 20;

/// The multicast group to which members send datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DatagramSpec {
    /// Multicast address, in 224.0.0.0/4. The fabric must have the members of this group registered.
    pub group: Ipv4Addr,
    /// Q_Key of the members' queue pairs, below 2^31.
    pub qkey: u32,
}

/// Plan of member `rank`: one edge from the root to all other members, which carries all slices (messages).
pub(super) fn plan(shape: Shape<'_>, rank: u32) -> Plan {
    Plan::of_edge(EdgeId::Datagrams { root: 0 }, shape, rank)
}
