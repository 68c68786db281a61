//! Leases: groups without progress are removed; groups with progress or a live leader stay.

use super::mrp::{World, GROUP};
use super::*;
use crate::topology::{leaf_spine, testbed};
use alfirk_roce::registration::LeaderEvent;

/// 80 hours, so that [`FakeFabric::wait`] does not wait for the checks of leases.
const LEASE: u64 = 288_000_000_000_000;

fn leased(topology: Topology, lease_ns: u64) -> FakeFabric {
    let config = ControllerConfig {
        lease_ns,
        ..ControllerConfig::new(p4info::p4info(), b"{}".to_vec())
    };
    let mut fabric = FakeFabric::with(topology, config);
    fabric.connect_all();
    fabric.said.clear();
    fabric
}

fn is_there(fabric: &FakeFabric, mcst_id: Ipv4Addr) -> bool {
    let groups = fabric.controller.status().groups;
    groups.iter().any(|group| group.mcst_id == mcst_id)
}

fn expired(fabric: &FakeFabric) -> usize {
    let replies = fabric.said.iter();
    replies
        .filter(|reply| matches!(reply, ApiReply::GroupExpired { .. }))
        .count()
}

#[test]
fn a_group_without_renewal_is_removed_from_every_switch() {
    let mut fabric = leased(leaf_spine(2, 1, 2).unwrap(), LEASE);
    let before = fabric.contents();
    let group = fabric.register(&["h1", "h3", "h4"]).unwrap();
    fabric.pass(LEASE - 1);
    assert!(is_there(&fabric, group.mcst_id));
    fabric.pass(LEASE / 4);
    assert!(!is_there(&fabric, group.mcst_id));
    assert_eq!(expired(&fabric), 1);
    assert_eq!(fabric.contents(), before);
    // No timer is left, and the address is free.
    assert_eq!(fabric.controller.poll_timeout(), None);
}

#[test]
fn without_leases_groups_do_not_expire() {
    let mut fabric = leased(testbed(), 0);
    let group = fabric.register(&["h1", "h2"]).unwrap();
    assert_eq!(fabric.controller.poll_timeout(), None);
    fabric.pass(1_000 * LEASE);
    assert!(is_there(&fabric, group.mcst_id));
}

#[test]
fn progress_renews_the_lease() {
    let mut fabric = leased(leaf_spine(2, 1, 2).unwrap(), LEASE);
    let group = fabric.register(&["h1", "h3"]).unwrap();
    let index = fabric.index_on("l1");
    let leaf = fabric.switch("l1").0;
    for psn in 1..=5 {
        // The group acknowledges one packet in three quarters of a lease.
        fabric.switches[leaf].last_acked.insert(index, psn);
        fabric.pass(LEASE * 3 / 4);
        assert!(is_there(&fabric, group.mcst_id), "after {psn}");
    }
    fabric.pass(LEASE * 5 / 4);
    assert!(!is_there(&fabric, group.mcst_id));
}

#[test]
fn client_requests_renew_the_lease() {
    let mut fabric = leased(leaf_spine(2, 1, 2).unwrap(), LEASE);
    let group = fabric.register(&["h1", "h3"]).unwrap();
    let mcst_id = group.mcst_id;
    for _ in 0..5 {
        fabric.pass(LEASE * 3 / 4);
        let tag = fabric.tag();
        fabric.handle(Event::Api(ApiRequest::Refresh { tag, mcst_id }));
        let said = fabric.said.pop();
        assert!(
            matches!(said, Some(ApiReply::Refreshed { mcst_id: m, .. }) if m == mcst_id),
            "{said:?}"
        );
    }
    fabric.pass(LEASE * 3 / 4);
    fabric.join(mcst_id, "h4").unwrap();
    fabric.pass(LEASE * 3 / 4);
    fabric.leave(mcst_id, &["h4"]).unwrap();
    fabric.pass(LEASE * 3 / 4);
    assert!(is_there(&fabric, mcst_id));
    fabric.pass(LEASE / 2);
    assert!(!is_there(&fabric, mcst_id));
    let tag = fabric.tag();
    fabric.handle(Event::Api(ApiRequest::Refresh { tag, mcst_id }));
    let said = fabric.said.pop();
    let error = GroupError::NoSuchGroup(mcst_id);
    assert!(matches!(said, Some(ApiReply::Failed { error: e, .. }) if e == error));
}

#[test]
fn time_without_a_readable_switch_does_not_count() {
    let mut fabric = leased(testbed(), LEASE);
    let group = fabric.register(&["h1", "h2"]).unwrap();
    let switch = fabric.switch("s1");
    fabric.disconnect(switch);
    fabric.pass(5 * LEASE);
    assert!(is_there(&fabric, group.mcst_id));
    fabric.connect(switch);
    // The group is removed at most one lease after the switch has returned.
    fabric.pass(LEASE / 2);
    assert!(is_there(&fabric, group.mcst_id));
    fabric.pass(LEASE);
    assert!(!is_there(&fabric, group.mcst_id));
}

#[test]
fn leases_restart_with_the_controller() {
    let mut fabric = leased(testbed(), LEASE);
    let group = fabric.register(&["h1", "h2"]).unwrap();
    let state = fabric.controller.save();
    fabric.pass(LEASE * 3 / 4);
    for saved in [true, false] {
        fabric.replace_controller();
        if saved {
            fabric.controller.restore(&state).unwrap();
        }
        fabric.connect_all();
        fabric.pass(LEASE * 3 / 4);
        assert!(is_there(&fabric, group.mcst_id), "saved: {saved}");
    }
    fabric.pass(LEASE / 2);
    assert!(!is_there(&fabric, group.mcst_id));
}

#[test]
fn replies_of_the_leader_renew_the_lease_under_loss() {
    let mut world = World::over(leased(leaf_spine(2, 1, 2).unwrap(), 40_000_000));
    let mut leader = world.leader(GROUP, &[0, 2, 3]);
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Registered);
    world.loss = 200;
    // 20,000 steps of 20 us are ten leases.
    world.settle(0, &mut leader, 20_000);
    assert!(is_there(&world.fabric, GROUP));
    assert_eq!(leader.poll(), None);
}

#[test]
fn a_group_of_a_vanished_leader_is_removed() {
    let mut world = World::over(leased(leaf_spine(2, 1, 2).unwrap(), 40_000_000));
    let before = world.fabric.contents();
    let mut leader = world.leader(GROUP, &[0, 2, 3]);
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Registered);
    world.settle(0, &mut leader, 4_000);
    world.dead.insert(0);
    world.settle(0, &mut leader, 1_500);
    assert!(is_there(&world.fabric, GROUP));
    world.settle(0, &mut leader, 1_000);
    assert!(!is_there(&world.fabric, GROUP));
    assert_eq!(world.fabric.contents(), before);
    assert_eq!(expired(&world.fabric), 1);
    // A leader that was only disconnected receives a notice.
    assert_eq!(leader.poll(), Some(LeaderEvent::Deregistered));
}
