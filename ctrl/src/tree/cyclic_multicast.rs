//! Cyclic multicast (Zhou, Lin and Chung, J. Supercomputing 40, 2007): the union of the paths from the leader to each member,
//! each path by the LID that the leader selects cyclically.
//!
//! Leaders with different digits use different upward ports, so that groups are spread over the fabric without load counters.
//! The paper computes a table per source. Here one tree, that of the leader, serves all sources of the group: a packet
//! follows it up to the switch where the paths meet, and down from there.

use super::View;
use crate::topology::n_tree::NTree;
use crate::topology::{HostIndex, SwitchIndex};

/// Port of `at` on the path from `leader` to `member`.
///
/// If it has failed, the next higher port that leads to the member is used, cyclically; the paper has no failures.
pub(super) fn port(
    view: &View,
    labels: &NTree,
    at: SwitchIndex,
    leader: HostIndex,
    member: HostIndex,
) -> u32 {
    let hops = view.paths.next_hops(at, member);
    let shape = labels.shape();
    let lid = shape.select_lid(labels.host(leader), labels.host(member));
    let port = shape.output_port(labels.switch(at), lid);
    let port = port.expect("members have LIDs");
    let next = hops.iter().find(|hop| **hop >= port).or(hops.first());
    *next.expect("every switch has a way to every host")
}
