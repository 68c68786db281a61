//! The root multicasts datagrams; receivers acknowledge up a binomial tree and repair each other ([`crate::binomial_ack`]).
//!
//! All of that is one edge, from the root to all others. A slice is a message on it, with the number of the slice; slices that
//! are repaired come late, so they come in no order. The root's end of the edge is the manager of the members, and those join by
//! its address. The edge is ready when everybody is in the list and has connections to its neighbours in the tree.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::edge::EdgeId;
use super::plan::{Plan, Shape};

/// The longest slice in bytes: each end of a connection has buffers for whole ones.
pub(super) const LONGEST_SLICE: u64 = 1 << 20;

/// The multicast group of datagrams that members send to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DatagramSpec {
    /// Of 224.0.0.0/4. The fabric must know which hosts are in it.
    pub group: Ipv4Addr,
    /// The Q_Key of the members' queue pairs, less than 2^31.
    pub qkey: u32,
}

/// The plan of one member.
pub(super) fn plan(shape: Shape<'_>, rank: u32) -> Plan {
    Plan::of_edge(EdgeId::Datagrams { root: 0 }, shape, rank)
}
