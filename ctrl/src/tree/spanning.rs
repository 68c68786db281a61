//! The multicast tree of OpenSM (`opensm/osm_mcast_mgr.c` and `osm_switch.c`).
//!
//! The root is the switch with the smallest distance to its farthest member; among equals, the one with the lowest GUID, here
//! the lowest device id. From the root, every switch uses the lowest port on a shortest path to each member. Loads are not
//! balanced, so large groups share one root and its links.

use super::View;
use crate::topology::{HostIndex, SwitchIndex};

/// Root of the tree for these members; the switch of the first member if no switch reaches all.
pub(super) fn root(view: &View, members: &[HostIndex]) -> SwitchIndex {
    let (own, _) = view.topology.attachment(members[0]);
    let switches = view.topology.switch_indexes();
    let candidates = switches.filter_map(|switch| {
        let farthest = members
            .iter()
            .map(|member| {
                let reaches = view.paths.reaches(switch, *member);
                reaches.then(|| view.paths.distance(switch, *member))
            })
            .try_fold(0, |most, distance| Some(distance?.max(most)))?;
        Some((farthest, view.topology.switch(switch).device_id, switch))
    });
    candidates.min().map_or(own, |(_, _, switch)| switch)
}

/// The lowest port of `at` on a shortest path to `member`; ports already in the tree are preferred.
pub(super) fn port(
    view: &View,
    at: SwitchIndex,
    member: HostIndex,
    has_port: impl Fn(u32) -> bool,
) -> u32 {
    let ports = view.paths.next_hops(at, member).iter().copied();
    ports
        .min_by_key(|port| (!has_port(*port), *port))
        .expect("every switch has a way to every host")
}
