//! What is known of a group that agents are making.

use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::Refusal;

use crate::tree::Tree;

/// A group that agents are making.
#[derive(Debug)]
pub(in crate::controller) struct Growth {
    pub(super) leader: Ipv4Addr,
    /// For all switches, if the policy does not let each choose by itself.
    pub(super) tree: Option<Tree>,
    /// Members that the leader has named.
    pub(super) expected: usize,
    /// Why it is to be undone.
    pub(super) refusal: Option<Refusal>,
}
