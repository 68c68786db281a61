//! A host is invited, and must agree, before it becomes a member of another host's group.

use super::*;

/// A world in which hosts must agree within `agree_timeout_ns`.
fn asking(topology: Topology, ask_members: bool, agree_timeout_ns: u64) -> World {
    let config = ControllerConfig {
        ask_members,
        agree_timeout_ns,
        lease_ns: 0,
        ..ControllerConfig::new(p4info::p4info(), Vec::new())
    };
    let mut fabric = FakeFabric::with(topology, config);
    fabric.connect_all();
    fabric.said.clear();
    World::over(fabric)
}

/// Delivers a host's Agree packet through its switch.
fn agree(world: &mut World, from: usize, nodes: Vec<mrp::Node>) {
    let packet = mrp::Repr {
        kind: mrp::Kind::Agree,
        seq: 0,
        total: 1,
        initial_psn: Psn::new(0),
        flags: 0,
        nodes,
    };
    let host = world.hosts[from].ip();
    let frame = crate::controller::mrp::frame::build(VIRTUAL_MAC, host, GROUP, &packet);
    let topology = world.fabric.controller.topology();
    let (switch, port) = topology.attachment(HostIndex(from));
    world.hand_up(switch, port, &frame);
}

/// Delivers the first packet of a host's registration through its switch.
fn register(world: &mut World, leader: usize, total: u8, nodes: Vec<mrp::Node>) {
    let packet = mrp::Repr {
        kind: mrp::Kind::Register,
        seq: 0,
        total,
        initial_psn: Psn::new(0xff_fff0),
        flags: 0,
        nodes,
    };
    let host = world.hosts[leader].ip();
    let frame = crate::controller::mrp::frame::build(VIRTUAL_MAC, host, GROUP, &packet);
    let topology = world.fabric.controller.topology();
    let (switch, port) = topology.attachment(HostIndex(leader));
    world.hand_up(switch, port, &frame);
}

/// Number of invitations that the controller has sent through all switches.
fn invitations(world: &World) -> usize {
    let sent = world.fabric.switches.iter().flat_map(|s| &s.sent);
    let kinds = sent.filter_map(|(_, frame)| crate::controller::mrp::frame::parse(frame));
    kinds
        .filter(|received| received.packet.kind == mrp::Kind::Invite)
        .count()
}

#[test]
fn a_host_that_does_not_agree_is_reported_and_not_added() {
    let mut world = asking(leaf_spine(2, 1, 3).unwrap(), false, 20_000_000);
    let before = world.fabric.contents();
    world.unwilling.insert(4);
    let mut leader = world.leader(GROUP, &[0, 1, 3, 4]);
    world.settle(0, &mut leader, 200);
    // The other hosts have agreed, but no switch gets an entry before all have.
    assert_eq!(world.fabric.contents(), before);
    assert!(world.fabric.controller.status().groups.is_empty());
    let (group, by) = (
        mrp::Node::group(GROUP, VIRTUAL_QPN),
        mrp::Node::leader(world.hosts[0].ip()),
    );
    // An agreement of another host is ignored, and so is one for another queue pair, group or leader.
    let node = world.node(4);
    let other_pair = mrp::Node {
        qpn: qpn(7),
        ..node
    };
    let other_group = mrp::Node::group([10, 255, 3, 5].into(), VIRTUAL_QPN);
    let earlier = mrp::Node::group(GROUP, QpNum::new(0xa1e));
    let other_leader = mrp::Node::leader(world.hosts[3].ip());
    for (from, nodes) in [
        (3, vec![node, group, by]),
        (4, vec![other_pair, group, by]),
        (4, vec![node, other_group, by]),
        (4, vec![node, earlier, by]),
        (4, vec![node, group, other_leader]),
        (4, vec![node, group]),
        (4, vec![node, by]),
        (4, vec![group, by]),
    ] {
        agree(&mut world, from, nodes);
        assert_eq!(world.fabric.contents(), before);
    }
    let missing = vec![world.hosts[4].ip()];
    assert_eq!(world.run(0, &mut leader), LeaderEvent::GaveUp { missing });
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Deregistered);
    assert_eq!(world.fabric.contents(), before);
    assert!(world.events[4].is_empty());
    // The host's own agreement with the right values is accepted.
    let mut leader = world.leader(GROUP, &[0, 1, 3, 4]);
    world.settle(0, &mut leader, 20);
    agree(&mut world, 4, vec![node, group, by]);
    assert_ne!(world.fabric.contents(), before);
}

#[test]
fn a_repeated_registration_invites_each_host_once_per_interval() {
    let config = ControllerConfig {
        lease_ns: 0,
        ..ControllerConfig::new(p4info::p4info(), Vec::new())
    };
    let interval = config.mrp_repeat_ns;
    let mut fabric = FakeFabric::with(leaf_spine(1, 1, 63).unwrap(), config);
    fabric.connect_all();
    let mut world = World::over(fabric);
    world.fabric.controller.network.config_mut().mrp_repeat_ns = interval;
    let group = mrp::Node::group(GROUP, VIRTUAL_QPN);
    let nodes: Vec<_> = (0..63).map(|n| world.node(n)).chain([group]).collect();
    // For one second, at the maximum rate of registration packets.
    for n in 0..2_000 {
        world.fabric.now = n * 500_000;
        register(&mut world, 0, 1, nodes.clone()[..32].to_vec());
    }
    // Registrations without a group node invite no host. A valid one of 30 hosts invites the 29 others once per interval.
    assert_eq!(invitations(&world), 0);
    let nodes: Vec<_> = (0..30).map(|n| world.node(n)).chain([group]).collect();
    for n in 2_000..4_000 {
        world.fabric.now = n * 500_000;
        register(&mut world, 0, 1, nodes.clone());
    }
    let intervals = 1_000_000_000 / interval;
    assert_eq!(invitations(&world) as u64, 29 * intervals);
}

#[test]
fn invitations_are_limited_to_the_packet_rate_of_the_leader() {
    let config = ControllerConfig {
        mrp_rate: 100,
        ..ControllerConfig::new(p4info::p4info(), Vec::new())
    };
    let mut fabric = FakeFabric::with(leaf_spine(1, 1, 30).unwrap(), config);
    fabric.connect_all();
    let mut world = World::over(fabric);
    // Many groups with all hosts in each.
    for n in 0..50 {
        let group = mrp::Node::group([10, 255, 4, n].into(), VIRTUAL_QPN);
        let nodes = (0..30).map(|n| world.node(n)).chain([group]).collect();
        let packet = mrp::Repr {
            kind: mrp::Kind::Register,
            seq: 0,
            total: 1,
            initial_psn: Psn::new(1),
            flags: 0,
            nodes,
        };
        let host = world.hosts[0].ip();
        let frame = crate::controller::mrp::frame::build(VIRTUAL_MAC, host, group.ip, &packet);
        let (leaf, port) = world.fabric.controller.topology().attachment(HostIndex(0));
        world.hand_up(leaf, port, &frame);
    }
    assert_eq!(invitations(&world), 100);
}

#[test]
fn a_host_cannot_register_others_without_their_agreement() {
    // A foreign leader lists hosts whose queue pairs it knows, before their own leader does.
    let mut world = asking(leaf_spine(2, 1, 3).unwrap(), false, 20_000_000);
    let before = world.fabric.contents();
    for member in [1, 3, 4] {
        world.expect(member, GROUP, 0);
    }
    let mut stranger = world.stranger(GROUP, &[2, 1, 3, 4]);
    for step in 0..200 {
        world.step(2, &mut stranger);
        assert!(
            world.fabric.controller.status().groups.is_empty(),
            "step {step}"
        );
    }
    assert_eq!(world.fabric.contents(), before);
    // The leader gets the address although the foreign leader's claim is still pending.
    let mut leader = world.leader(GROUP, &[0, 1, 3, 4]);
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Registered);
}

#[test]
fn an_unfinished_registration_does_not_reserve_the_address() {
    // The foreign leader is on the leader's switch. It sends an incomplete registration, or a complete one whose members do not
    // expect the group, or one of which half the members agree.
    for (total, named) in [(2, vec![2]), (1, vec![2, 1, 3]), (1, vec![2, 5, 1])] {
        let mut world = World::new(leaf_spine(2, 1, 3).unwrap());
        let group = mrp::Node::group(GROUP, VIRTUAL_QPN);
        world.expect(5, GROUP, 2);
        let nodes: Vec<_> = named
            .iter()
            .map(|n| world.node(*n))
            .chain([group])
            .collect();
        register(&mut world, 2, total, nodes.clone());
        let begun = world.fabric.now;
        let mut leader = world.leader(GROUP, &[0, 1, 3]);
        let mut steps = 0;
        loop {
            if let Some(event) = leader.poll() {
                assert_eq!(event, LeaderEvent::Registered, "{named:?}");
                break;
            }
            world.step(0, &mut leader);
            // The foreign leader repeats its registration.
            register(&mut world, 2, total, nodes.clone());
            steps += 1;
            assert!(steps < 1_000);
        }
        assert!(world.fabric.now - begun < 5_000_000, "{named:?}");
        let status = world.fabric.controller.status();
        assert_eq!(status.groups[0].members[0], world.hosts[0].ip());
    }
}

#[test]
fn memory_of_unfinished_registrations_is_bounded() {
    let config = ControllerConfig {
        // No limit of groups and packets per host.
        groups_per_host: 0,
        mrp_rate: 0,
        ..ControllerConfig::new(p4info::p4info(), Vec::new())
    };
    let mut fabric = FakeFabric::with(leaf_spine(2, 1, 3).unwrap(), config);
    fabric.connect_all();
    let mut world = World::over(fabric);
    let leader = world.hosts[0].ip();
    let (leaf, port) = world.fabric.controller.topology().attachment(HostIndex(0));
    let node = |n: u32| mrp::Node {
        ip: Ipv4Addr::from(0x0b00_0000 + n),
        qpn: QpNum::new(9),
        flags: 0,
        region: None,
    };
    let mut refused = 0;
    for n in 0..2_000u32 {
        let mcst_id = Ipv4Addr::from(0x0aff_0100 + n % 300);
        // The packets state different total numbers: 1, 255, then 2.
        for (seq, total) in [(0, 1), (0, 255), (254, 255), (0, 2), (1, 2)] {
            let packet = mrp::Repr {
                kind: mrp::Kind::Register,
                seq,
                total,
                initial_psn: Psn::new(n),
                flags: 0,
                nodes: (0..183).map(node).collect(),
            };
            let frame = crate::controller::mrp::frame::build(VIRTUAL_MAC, leader, mcst_id, &packet);
            world.hand_up(leaf, port, &frame);
            let stats = world.fabric.controller.mrp_stats();
            refused = refused.max(stats.refused);
        }
        let (claims, nodes) = world.fabric.controller.mrp.claimed_in_band();
        assert!(
            claims <= 128 && nodes <= 128 * 7,
            "{claims} claims with {nodes} nodes"
        );
        for switch in &mut world.fabric.switches {
            switch.sent.clear();
        }
    }
    assert!(refused > 0);
    // Small registrations, each within the limits.
    for n in 0..2_000u32 {
        let packet = mrp::Repr {
            kind: mrp::Kind::Register,
            seq: 0,
            total: 2,
            initial_psn: Psn::new(n),
            flags: 0,
            nodes: vec![world.node(0)],
        };
        let mcst_id = Ipv4Addr::from(0x0aff_0100 + n);
        let frame = crate::controller::mrp::frame::build(VIRTUAL_MAC, leader, mcst_id, &packet);
        world.hand_up(leaf, port, &frame);
    }
    assert_eq!(world.fabric.controller.mrp.claimed_in_band(), (128, 128));
    world.fabric.wait();
    assert_eq!(world.fabric.controller.mrp.claimed_in_band(), (0, 0));
}

#[test]
fn a_host_that_does_not_agree_does_not_join() {
    let mut world = asking(leaf_spine(2, 1, 2).unwrap(), false, 20_000_000);
    let mut leader = world.leader(GROUP, &[0, 2]);
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Registered);
    let before = world.fabric.contents();
    let (now, node) = (world.fabric.now, world.node(3));
    leader.join(&mut world.hosts[0], now, node).unwrap();
    let reason = Refusal::NotAgreed;
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Refused { reason });
    assert_eq!(world.fabric.contents(), before);
    world.expect(3, GROUP, 0);
    let now = world.fabric.now;
    leader.join(&mut world.hosts[0], now, node).unwrap();
    assert!(matches!(
        world.run(0, &mut leader),
        LeaderEvent::Joined { .. }
    ));
}

#[test]
fn members_of_control_service_groups_are_invited_if_configured() {
    // The timeout permits several invitations, since some are lost.
    let mut world = asking(leaf_spine(2, 1, 2).unwrap(), true, 1_000_000_000);
    let before = world.fabric.contents();
    let mut idle = world.leader(Ipv4Addr::new(10, 255, 9, 9), &[0, 1]);
    assert_eq!(world.run(0, &mut idle), LeaderEvent::Registered);
    idle.deregister(&mut world.hosts[0], world.fabric.now);
    assert_eq!(world.run(0, &mut idle), LeaderEvent::Deregistered);
    let spec = |world: &World, host: usize| MemberSpec {
        ip: world.hosts[host].ip(),
        qpn: qpn(host),
        region: None,
        may_send: true,
    };
    let ask = |world: &mut World, idle: &mut Leader, request: ApiRequest| {
        world.fabric.said.clear();
        world.fabric.handle(Event::Api(request));
        for _ in 0..60_000 {
            if let Some(said) = world.fabric.said.pop() {
                return said;
            }
            world.step(0, idle);
        }
        panic!("no answer");
    };
    let register = |world: &World| ApiRequest::Register {
        tag: Tag(1),
        group: RegisterGroup {
            mcst_id: Some(GROUP),
            members: vec![spec(world, 0), spec(world, 2)],
            virtual_qpn: Some(VIRTUAL_QPN),
            initial_psn: Psn::new(1),
            strategies: Default::default(),
        },
    };
    let request = register(&world);
    let said = ask(&mut world, &mut idle, request);
    let members = vec![world.hosts[0].ip(), world.hosts[2].ip()];
    let error = GroupError::NotAgreed {
        mcst_id: GROUP,
        members,
    };
    assert!(matches!(said, ApiReply::Failed { error: e, .. } if e == error));
    assert_eq!(world.fabric.contents(), before);
    world.expect(0, GROUP, 0);
    world.expect(2, GROUP, 0);
    world.loss = 200;
    let request = register(&world);
    let said = ask(&mut world, &mut idle, request);
    assert!(matches!(said, ApiReply::GroupReady { .. }), "{said:?}");
    // A member that joins later is invited as well.
    let join = |world: &World| ApiRequest::Join {
        tag: Tag(2),
        mcst_id: GROUP,
        member: spec(world, 3),
    };
    let request = join(&world);
    let said = ask(&mut world, &mut idle, request);
    let is_refused = |said: &ApiReply| matches!(said, ApiReply::Failed { error: GroupError::NotAgreed { members, .. }, .. } if members.len() == 1);
    assert!(is_refused(&said), "{said:?}");
    world.expect(3, GROUP, 0);
    let request = join(&world);
    let said = ask(&mut world, &mut idle, request);
    assert!(matches!(said, ApiReply::MemberJoined { .. }), "{said:?}");
}
