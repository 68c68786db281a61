//! State of a group that agents are creating.

use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::Refusal;

use crate::tree::Tree;

/// State of a group that agents are creating.
#[derive(Debug)]
pub(in crate::controller) struct Growth {
    pub(super) leader: Ipv4Addr,
    /// Tree of all switches, unless the policy lets each switch choose by itself.
    pub(super) tree: Option<Tree>,
    /// Number of members in the leader's packets.
    pub(super) expected: usize,
    /// Reason to undo the group.
    pub(super) refusal: Option<Refusal>,
}
