//! State of a group registered in band, while the agents of its switches create it.

use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::Refusal;

use crate::tree::Tree;

/// State of a group registered in band, while the agents of its switches (`agent.rs`) create their parts of it.
#[derive(Debug)]
pub(in crate::controller) struct Growth {
    pub(in crate::controller) leader: Ipv4Addr,
    /// Tree of the whole group; `None` if the policy lets each switch choose its ports by itself.
    pub(super) tree: Option<Tree>,
    /// Number of members in the leader's packets.
    pub(super) expected: usize,
    /// Reason why the registration was refused and the created parts are being undone; `None` while it proceeds.
    pub(super) refusal: Option<Refusal>,
}
