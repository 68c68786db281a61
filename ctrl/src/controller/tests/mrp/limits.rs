//! Limits of registrations per host, and expiry of unfinished registrations.

use super::*;

#[test]
fn a_group_whose_leader_does_not_reply_expires() {
    let hosts: Vec<usize> = (0..200).collect();
    let mut world = World::new(leaf_spine(4, 1, 50).unwrap());
    let before = world.fabric.contents();
    let mut leader = world.leader(GROUP, &hosts);
    // The spine loses all register accesses.
    let spine = world.fabric.switch("s1");
    world.fabric.switches[spine.0].lose_packets = usize::MAX;
    world.settle(0, &mut leader, 3);
    world.fabric.wait();
    assert_eq!(world.fabric.contents(), before);
    assert!(world.fabric.controller.status().groups.is_empty());
}

#[test]
fn groups_per_leader_are_limited() {
    let config = ControllerConfig {
        groups_per_host: 2,
        ..ControllerConfig::new(p4info::p4info(), Vec::new())
    };
    let mut fabric = FakeFabric::with(leaf_spine(2, 1, 2).unwrap(), config);
    fabric.connect_all();
    let mut world = World::over(fabric);
    let group = |n| Ipv4Addr::new(10, 255, 7, n);
    let mut leaders: Vec<Leader> = (1..=2)
        .map(|n| {
            let mut leader = world.leader(group(n), &[0, 2]);
            assert_eq!(world.run(0, &mut leader), LeaderEvent::Registered);
            leader
        })
        .collect();
    let before = world.fabric.contents();
    let refused = LeaderEvent::Refused {
        reason: Refusal::TooMany,
    };
    let mut third = world.leader(group(3), &[0, 3]);
    assert_eq!(world.run(0, &mut third), refused);
    assert_eq!(world.fabric.contents(), before);
    // Other leaders may register groups, and so may this one after it has removed a group.
    let mut other = world.leader(group(4), &[1, 3]);
    assert_eq!(world.run(1, &mut other), LeaderEvent::Registered);
    let now = world.fabric.now;
    leaders[0].deregister(&mut world.hosts[0], now);
    assert_eq!(world.run(0, &mut leaders[0]), LeaderEvent::Deregistered);
    let mut third = world.leader(group(3), &[0, 3]);
    assert_eq!(world.run(0, &mut third), LeaderEvent::Registered);
    // The limit also applies after a restart of the controller.
    let state = world.fabric.controller.save();
    world.fabric.replace_controller();
    world.fabric.controller.restore(&state).unwrap();
    world.fabric.connect_all();
    let mut fifth = world.leader(group(5), &[0, 2]);
    assert_eq!(world.run(0, &mut fifth), refused);
}

#[test]
fn unfinished_registrations_count_towards_the_limit() {
    let config = ControllerConfig {
        groups_per_host: 2,
        ..ControllerConfig::new(p4info::p4info(), Vec::new())
    };
    let mut fabric = FakeFabric::with(leaf_spine(2, 1, 100).unwrap(), config);
    fabric.connect_all();
    let mut world = World::over(fabric);
    let leaf = world.fabric.switch("l1");
    let begin = |world: &mut World, n, total| {
        let packet = mrp::Repr {
            kind: mrp::Kind::Register,
            seq: 0,
            total,
            initial_psn: Psn::new(1),
            flags: 0,
            nodes: vec![world.node(0)],
        };
        let group = Ipv4Addr::new(10, 255, 7, n);
        let frame =
            crate::controller::mrp::frame::build(VIRTUAL_MAC, world.hosts[0].ip(), group, &packet);
        let (_, port) = world.fabric.controller.topology().attachment(HostIndex(0));
        world.hand_up(leaf, port, &frame);
        world.fabric.controller.mrp_stats().refused
    };
    assert_eq!((1..=4).map(|n| begin(&mut world, n, 2)).last(), Some(2));
    // Unfinished registrations expire.
    world.fabric.wait();
    let before = world.fabric.controller.mrp_stats().refused;
    assert_eq!(begin(&mut world, 3, 2), before);
    // 255 packets are more than a list of all hosts needs.
    assert_eq!(begin(&mut world, 5, 255), before + 1);
}

#[test]
fn a_flooding_host_is_limited_without_affecting_others() {
    let mut world = World::new(leaf_spine(2, 1, 2).unwrap());
    let topology = world.fabric.controller.topology();
    let (leaf, port) = topology.attachment(HostIndex(0));
    let packet = mrp::Repr {
        kind: mrp::Kind::Stalled,
        seq: 0,
        total: 1,
        initial_psn: Psn::new(1),
        flags: 0,
        nodes: vec![world.node(0)],
    };
    let host = world.hosts[0].ip();
    let frame = crate::controller::mrp::frame::build(VIRTUAL_MAC, host, GROUP, &packet);
    for _ in 0..5_000 {
        world.hand_up(leaf, port, &frame);
    }
    let stats = world.fabric.controller.mrp_stats();
    assert_eq!(
        (stats.wrong, stats.limited, stats.refused),
        (2_000, 3_000, 1)
    );
    let sent: Vec<_> = std::mem::take(&mut world.fabric.switches[leaf.0].sent);
    assert_eq!(sent.len(), 1);
    let sent = crate::controller::mrp::frame::parse(&sent[0].1).unwrap();
    assert_eq!(
        (sent.destination, sent.packet.kind),
        (host, mrp::Kind::Refuse)
    );
    assert_eq!(Refusal::from_bits(sent.packet.flags), Refusal::TooFast);
    let mut leader = world.leader(GROUP, &[1, 2]);
    assert_eq!(world.run(1, &mut leader), LeaderEvent::Registered);
}
