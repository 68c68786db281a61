//! One spanning tree for each group, as OpenSM makes it (`opensm/osm_mcast_mgr.c` and `osm_switch.c`).
//!
//! Its root is the switch whose farthest member is nearest; of equal ones that with the lowest GUID, here the lowest device id.
//! From there every switch takes, towards each member, the first port with the fewest hops: there is no balance of
//! loads, so that groups that reach over the whole fabric share one root and its links.

use super::View;
use crate::topology::{HostIndex, SwitchIndex};

/// The root of the tree for these members; the switch of the first one if none reaches all.
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

/// The first port of `at` towards `member`, one of the tree before others.
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
