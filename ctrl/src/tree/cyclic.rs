//! Cyclic multicast (Zhou, Lin and Chung, J. Supercomputing 40, 2007): the union of the paths from the leader to each member,
//! each by the LID that cyclic selection gives the leader.
//!
//! Leaders with other digits go up by other ports, so that groups spread over the fabric without any count of loads.
//! The paper makes a table for each source.  A tree for the leader serves all members: it is one way up to the switch where the
//! ways meet, and down from there, from wherever a packet comes.

use super::View;
use crate::topology::n_tree::NTree;
use crate::topology::{HostIndex, SwitchIndex};

/// The port of `at` on the way from `leader` to `member`.
///
/// Where it is broken, the next one that leads there takes its place, cyclically; the paper knows no failures.
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
