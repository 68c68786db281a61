//! Hosts are asked before they are members of a group that others have named them in.

use super::*;

/// Hosts have so long to agree.
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

#[test]
fn a_host_that_does_not_agree_gets_nothing_of_a_group_and_is_named() {
    let mut world = asking(leaf_spine(2, 1, 3).unwrap(), false, 20_000_000);
    let before = world.fabric.contents();
    let leaf = world.fabric.switch("l2");
    world.members[4].forget(qpn(4));
    let mut leader = world.leader(GROUP, &[0, 1, 3, 4]);
    world.settle(0, &mut leader, 200);
    // The hosts at the leader's leaf have agreed, and so that leaf and the spine have the group.
    assert_ne!(world.fabric.contents()[0], before[0]);
    assert_eq!(world.fabric.contents()[leaf.0], before[leaf.0]);
    // Another's word is none, and neither is that about another queue pair.
    let node = mrp::Node {
        qpn: qpn(7),
        ..world.node(4)
    };
    for (from, node) in [(3, world.node(4)), (4, node)] {
        let packet = mrp::Repr {
            kind: mrp::Kind::Agree,
            seq: 0,
            total: 1,
            initial_psn: Psn::new(0),
            flags: 0,
            nodes: vec![node],
        };
        let host = world.hosts[from].ip();
        let frame = crate::controller::mrp::frame::build(VIRTUAL_MAC, host, GROUP, &packet);
        let topology = world.fabric.controller.topology();
        let (switch, port) = topology.attachment(HostIndex(from));
        world.hand_up(switch, port, &frame);
    }
    assert_eq!(world.fabric.contents()[leaf.0], before[leaf.0]);
    let missing = vec![world.hosts[4].ip()];
    assert_eq!(world.run(0, &mut leader), LeaderEvent::GaveUp { missing });
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Deregistered);
    assert_eq!(world.fabric.contents(), before);
    assert!(world.told[4].is_empty());
}

#[test]
fn a_host_that_does_not_agree_does_not_join() {
    let mut world = asking(leaf_spine(2, 1, 2).unwrap(), false, 20_000_000);
    let mut leader = world.leader(GROUP, &[0, 2]);
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Registered);
    let before = world.fabric.contents();
    world.members[3].forget(qpn(3));
    let (now, node) = (world.fabric.now, world.node(3));
    leader.join(&mut world.hosts[0], now, node).unwrap();
    let reason = Refusal::NotAgreed;
    assert_eq!(world.run(0, &mut leader), LeaderEvent::Refused { reason });
    assert_eq!(world.fabric.contents(), before);
    world.members[3].expect(qpn(3));
    let now = world.fabric.now;
    leader.join(&mut world.hosts[0], now, node).unwrap();
    assert!(matches!(
        world.run(0, &mut leader),
        LeaderEvent::Joined { .. }
    ));
}

#[test]
fn hosts_are_asked_about_groups_of_the_control_service_if_that_is_wished() {
    // Time for some questions, of which some are lost.
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
            virtual_qpn: None,
            initial_psn: Psn::new(1),
            strategies: Default::default(),
        },
    };
    world.members[2].forget(qpn(2));
    let request = register(&world);
    let said = ask(&mut world, &mut idle, request);
    let members = vec![world.hosts[2].ip()];
    let error = GroupError::NotAgreed {
        mcst_id: GROUP,
        members,
    };
    assert!(matches!(said, ApiReply::Failed { error: e, .. } if e == error));
    assert_eq!(world.fabric.contents(), before);
    world.members[2].expect(qpn(2));
    world.loss = 200;
    let request = register(&world);
    let said = ask(&mut world, &mut idle, request);
    assert!(matches!(said, ApiReply::GroupReady { .. }), "{said:?}");
    // The same with who comes later.
    let join = |world: &World| ApiRequest::Join {
        tag: Tag(2),
        mcst_id: GROUP,
        member: spec(world, 3),
    };
    world.members[3].forget(qpn(3));
    let request = join(&world);
    let said = ask(&mut world, &mut idle, request);
    let is_refused = |said: &ApiReply| matches!(said, ApiReply::Failed { error: GroupError::NotAgreed { members, .. }, .. } if members.len() == 1);
    assert!(is_refused(&said), "{said:?}");
    world.members[3].expect(qpn(3));
    let request = join(&world);
    let said = ask(&mut world, &mut idle, request);
    assert!(matches!(said, ApiReply::MemberJoined { .. }), "{said:?}");
}
