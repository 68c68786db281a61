//! Changes of groups in use: members join, leave and fail; links and switches fail.

use super::*;
use crate::topology::{fat_tree, leaf_spine, testbed, LinkIndex};

/// Sets the registers of this group index on every switch: all packets up to `psn` are acknowledged.
fn progress(fabric: &mut FakeFabric, index: u16, psn: u32) {
    for switch in &mut fabric.switches {
        switch.last_acked.insert(index, psn);
    }
}

/// The group's ports at each switch of its tree, which do not depend on indexes.
fn ports(fabric: &FakeFabric) -> Vec<(String, Vec<u32>)> {
    let group = &fabric.controller.status().groups[0];
    let parts = group.switches.iter();
    parts
        .map(|on| (on.switch.clone(), on.ports.clone()))
        .collect()
}

fn fresh_ports(topology: Topology, hosts: &[&str]) -> Vec<(String, Vec<u32>)> {
    let mut fabric = FakeFabric::ready(topology);
    fabric.register(hosts).unwrap();
    ports(&fabric)
}

/// The numbers of entries of each kind that belong to groups, by switch.
fn counts(fabric: &FakeFabric) -> Vec<Vec<usize>> {
    let kinds = [
        "table ingress.group_lookup.groups",
        "table ingress.group_lookup.mft",
        "table ingress.bridge_entry.members",
        "table egress.bridge_exit.receivers",
        "multicast group",
    ];
    let count = |fake: &FakeSwitch| kinds.iter().map(|kind| fake.count(kind)).collect();
    fabric.switches.iter().map(count).collect()
}

fn link(fabric: &FakeFabric, a: &str, b: &str) -> LinkIndex {
    let topology = fabric.controller.topology();
    let (a, b) = (fabric.switch(a), fabric.switch(b));
    let mut ports = topology.neighbours(a).iter();
    let found = ports.find(|n| n.peer.node == crate::topology::Node::Switch(b));
    found.unwrap().link
}

#[test]
fn a_member_joins_between_messages_with_the_groups_next_psn() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    let group = fabric.register(&["h1", "h3"]).unwrap();
    progress(&mut fabric, 0, 0x505);
    assert_eq!(fabric.join(group.mcst_id, "h4"), Ok(Psn::new(0x506)));
    assert_eq!(
        ports(&fabric),
        fresh_ports(leaf_spine(2, 1, 2).unwrap(), &["h1", "h3", "h4"])
    );
    // Only the leaf with a new port was changed; its registers start from the group's position.
    let leaf = fabric.switch("l2");
    assert_eq!(fabric.index_on("l1"), 0);
    assert_eq!(fabric.index_on("l2"), 1);
    assert_eq!(fabric.switches[leaf.0].registers[&1], (3, 0x506));
    assert_eq!(counts(&fabric)[leaf.0], [1, 3, 2, 2, 1]);
}

#[test]
fn a_member_joins_on_switches_that_the_tree_did_not_have() {
    let mut fabric = FakeFabric::ready(fat_tree(4).unwrap());
    let group = fabric.register(&["h1", "h2"]).unwrap();
    progress(&mut fabric, 0, 77);
    assert_eq!(fabric.join(group.mcst_id, "h16"), Ok(Psn::new(78)));
    assert_eq!(
        ports(&fabric),
        fresh_ports(fat_tree(4).unwrap(), &["h1", "h2", "h16"])
    );
    let status = fabric.controller.status();
    assert_eq!(status.groups[0].members.len(), 3);
    fabric.deregister(group.mcst_id).unwrap();
    assert!(counts(&fabric).iter().flatten().all(|n| *n == 0));
    assert_eq!(*fabric.controller.network.loads(), PortLoads::default());
}

#[test]
fn a_join_is_rejected_while_messages_are_in_flight() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    let group = fabric.register(&["h1", "h3"]).unwrap();
    let before = fabric.contents();
    progress(&mut fabric, 0, 0x505);
    let leaf = fabric.switch("l1");
    // The sender has unacknowledged packets.
    fabric.switches[leaf.0].acked.insert((0, 0), 0x509);
    let in_use = Err(GroupError::InUse(group.mcst_id));
    assert_eq!(fabric.join(group.mcst_id, "h4"), in_use);
    // Another switch has a newer position.
    fabric.switches[leaf.0].acked.clear();
    fabric.switches[leaf.0].last_acked.insert(0, 0x506);
    assert_eq!(fabric.join(group.mcst_id, "h4"), in_use);
    // The sender starts just when the group's entry is withdrawn.
    progress(&mut fabric, 0, 0x505);
    for switch in &mut fabric.switches {
        switch.last_minute = 1;
    }
    assert_eq!(fabric.join(group.mcst_id, "h4"), in_use);
    assert_eq!(fabric.contents(), before);
    assert_eq!(fabric.controller.status().switches[leaf.0].groups, 1);
}

#[test]
fn leaving_members_remove_branches_that_lead_only_to_them() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    let group = fabric.register(&["h1", "h2", "h3"]).unwrap();
    progress(&mut fabric, 0, 0x900);
    let leaf = fabric.switch("l1");
    fabric.switches[leaf.0].last_acked.insert(0, 0x505);
    fabric.leave(group.mcst_id, &["h3"]).unwrap();
    assert_eq!(
        ports(&fabric),
        fresh_ports(leaf_spine(2, 1, 2).unwrap(), &["h1", "h2"])
    );
    // It continues from the oldest position that a switch reported.
    assert_eq!(fabric.switches[leaf.0].registers[&1], (2, 0x506));
    for name in ["l2", "s1"] {
        assert_eq!(counts(&fabric)[fabric.switch(name).0], [0; 5]);
    }
    assert_eq!(
        fabric.leave(group.mcst_id, &["h2"]),
        Err(GroupError::TooFewMembers(1))
    );
    assert!(matches!(
        fabric.leave(group.mcst_id, &["h4"]),
        Err(GroupError::NotMember { .. })
    ));
}

#[test]
fn a_failed_change_leaves_the_group_unchanged() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    let group = fabric.register(&["h1", "h3"]).unwrap();
    let before = fabric.contents();
    let mut failures = 0;
    for switch in 0..fabric.switches.len() {
        for update in 0.. {
            for other in &mut fabric.switches {
                other.updates = 0;
            }
            fabric.switches[switch].refuse = [update].into();
            let result = fabric.join(group.mcst_id, "h2");
            fabric.switches[switch].refuse.clear();
            match result {
                Err(GroupError::Switch(SwitchError::Refused { .. })) => failures += 1,
                Err(other) => panic!("unexpected: {other}"),
                // If only a final deletion fails, the member has joined.
                Ok(_) => {
                    fabric.leave(group.mcst_id, &["h2"]).unwrap();
                    break;
                }
            }
            let status = fabric.controller.status();
            assert_eq!(status.groups[0].members.len(), 2);
            assert_eq!(
                fabric.contents(),
                before,
                "switch {switch}, update {update}"
            );
        }
    }
    // Updates on the leaf: eight new entries, withdrawal of the old part, and publication of the new one.
    assert_eq!(failures, 8 + 1 + 1);
}

#[test]
fn a_switch_lost_during_a_change_is_repaired() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    let group = fabric.register(&["h1", "h3"]).unwrap();
    let before = fabric.contents();
    let leaf = fabric.switch("l2");
    fabric.switches[leaf.0].lose_packets = usize::MAX;
    let tag = fabric.tag();
    let member = fabric.request(&["h4"]).members[0];
    fabric.handle(Event::Api(ApiRequest::Join {
        tag,
        mcst_id: group.mcst_id,
        member,
    }));
    fabric.disconnect(leaf);
    fabric.switches[leaf.0].lose_packets = 0;
    fabric.connect(leaf);
    assert_eq!(fabric.contents(), before);
    fabric.said.clear();
    fabric.join(group.mcst_id, "h4").unwrap();
}

#[test]
fn a_failed_member_is_removed_and_reported() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    let group = fabric.register(&["h1", "h2", "h3", "h4"]).unwrap();
    progress(&mut fabric, 0, 0x500);
    let (leaf, dead) = (fabric.switch("l2"), fabric.request(&["h3"]).members[0].ip);
    // On the leaf, h4 and the path to the spine are ahead of h3.
    for path in [1, 2] {
        fabric.switches[leaf.0].acked.insert((0, path), 0x540);
    }
    fabric.suspect(group.mcst_id);
    fabric.said.clear();
    fabric.pass(2_900_000_000);
    assert!(fabric.said.is_empty());
    fabric.pass(300_000_000);
    assert!(matches!(
        &fabric.said[..],
        [ApiReply::MembersLost { members, .. }] if members[..] == [dead]
    ));
    assert_eq!(
        ports(&fabric),
        fresh_ports(leaf_spine(2, 1, 2).unwrap(), &["h1", "h2", "h4"])
    );
    // The group's acknowledged PSN is kept, and no member is monitored any more.
    let index = fabric.index_on("l2");
    assert_eq!(fabric.switches[leaf.0].registers[&index], (2, 0x501));
    assert_eq!(fabric.controller.poll_timeout(), None);
}

/// The slots of a group's receivers at a switch, by port.
fn slots(fabric: &FakeFabric, mcst_id: Ipv4Addr, switch: &str) -> BTreeMap<u32, u32> {
    let group = fabric.controller.groups.group(mcst_id).unwrap();
    group
        .part_on(fabric.switch(switch))
        .unwrap()
        .slots()
        .collect()
}

#[test]
fn announced_memory_regions_survive_a_change() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    let group = fabric.register(&["h1", "h2", "h3", "h4"]).unwrap();
    progress(&mut fabric, 0, 0x500);
    let leaf = fabric.switch("l2");
    // h3 is at port 1 of the leaf, h4 at port 2; every slot has some region.
    let regions = &mut fabric.switches[leaf.0].regions;
    regions.extend((0..100).map(|slot| (slot, 0x7fee_0000 + u64::from(slot))));
    let before = slots(&fabric, group.mcst_id, "l2");
    fabric.leave(group.mcst_id, &["h3"]).unwrap();
    let after = slots(&fabric, group.mcst_id, "l2");
    assert_eq!(after, [(2, before[&2])].into());
    let announced =
        |fabric: &FakeFabric, slot: u32| fabric.switches[leaf.0].regions.get(&slot).copied();
    assert_eq!(
        announced(&fabric, before[&2]),
        Some(0x7fee_0000 + u64::from(before[&2]))
    );
    // A new member has no region that was announced for others, or for itself before.
    progress(&mut fabric, 0, 0x500);
    fabric.join(group.mcst_id, "h3").unwrap();
    let again = slots(&fabric, group.mcst_id, "l2");
    assert_eq!(again[&2], before[&2]);
    assert_eq!(announced(&fabric, again[&1]), None);
    assert_eq!(
        announced(&fabric, again[&2]),
        Some(0x7fee_0000 + u64::from(again[&2]))
    );
}

#[test]
fn receivers_keep_their_slots_across_a_controller_restart() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    fabric.register(&["h1", "h4"]).unwrap();
    let group = fabric.register(&["h2", "h3", "h4"]).unwrap();
    let before = slots(&fabric, group.mcst_id, "l2");
    let (contents, state) = (fabric.contents(), fabric.controller.save());
    for saved in [true, false] {
        fabric.replace_controller();
        if saved {
            fabric.controller.restore(&state).unwrap();
        }
        fabric.connect_all();
        assert_eq!(slots(&fabric, group.mcst_id, "l2"), before);
        assert_eq!(fabric.contents(), contents);
        let other = fabric.register(&["h3", "h4"]).unwrap();
        let taken = slots(&fabric, other.mcst_id, "l2");
        assert!(taken
            .values()
            .all(|slot| !before.values().any(|b| b == slot)));
        fabric.deregister(other.mcst_id).unwrap();
    }
}

#[test]
fn a_member_that_catches_up_is_not_removed() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    let group = fabric.register(&["h1", "h3", "h4"]).unwrap();
    progress(&mut fabric, 0, 0x500);
    let leaf = fabric.switch("l2");
    for path in [1, 2] {
        fabric.switches[leaf.0].acked.insert((0, path), 0x540);
    }
    fabric.suspect(group.mcst_id);
    fabric.said.clear();
    for psn in [0x501, 0x502, 0x503] {
        fabric.pass(2_000_000_000);
        fabric.switches[leaf.0].acked.insert((0, 0), psn);
    }
    fabric.switches[leaf.0].acked.clear();
    fabric.pass(10_000_000_000);
    assert!(fabric.said.is_empty(), "{:?}", fabric.said);
    assert_eq!(fabric.controller.poll_timeout(), None);
}

#[test]
fn lost_register_reads_do_not_remove_members() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    let group = fabric.register(&["h1", "h3", "h4"]).unwrap();
    fabric.suspect(group.mcst_id);
    fabric.said.clear();
    for switch in &mut fabric.switches {
        switch.lose_packets = 50;
    }
    fabric.suspect(group.mcst_id);
    fabric.said.clear();
    fabric.pass(60_000_000_000);
    assert!(fabric.said.is_empty(), "{:?}", fabric.said);
}

#[test]
fn trees_and_routes_are_rerouted_around_a_failed_link() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 2, 2).unwrap());
    let before = fabric.contents();
    let group = fabric.register(&["h1", "h3"]).unwrap();
    progress(&mut fabric, 0, 0x600);
    let spine = |fabric: &FakeFabric| {
        let switches = &fabric.controller.status().groups[0].switches;
        let mut names = switches.iter().map(|on| on.switch.clone());
        names.find(|name| name.starts_with('s')).unwrap()
    };
    let old = spine(&fabric);
    let broken = link(&fabric, "l1", &old);
    fabric.handle(Event::Link {
        link: broken,
        is_up: false,
    });
    assert!(matches!(
        fabric.said.pop(),
        Some(ApiReply::GroupRerouted { .. })
    ));
    let new = spine(&fabric);
    assert_ne!(old, new);
    let part = &fabric.switches[fabric.switch(&new).0];
    assert_eq!(part.registers[&0], (2, 0x601));
    assert_eq!(counts(&fabric)[fabric.switch(&old).0], [0; 5]);
    // No route of the leaf uses the link any more.
    let leaf = &fabric.switches[fabric.switch("l1").0];
    assert_eq!(leaf.count("table ingress.ipv4_routing.next_hops"), 0);
    fabric.handle(Event::Link {
        link: broken,
        is_up: true,
    });
    fabric.deregister(group.mcst_id).unwrap();
    assert_eq!(fabric.contents(), before);
}

#[test]
fn a_link_that_loses_all_data_is_detected_and_avoided() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 2, 2).unwrap());
    let group = fabric.register(&["h1", "h3"]).unwrap();
    progress(&mut fabric, 0, 0x600);
    // h1's packets reach its leaf only: its own path is ahead there, and the spine has received nothing.
    let leaf = fabric.switch("l1");
    fabric.switches[leaf.0].acked.insert((0, 0), 0x620);
    let broken = link(&fabric, "l1", "s1");
    fabric.cut.insert(broken);
    fabric.suspect(group.mcst_id);
    fabric.pass(4_000_000_000);
    assert!(matches!(
        fabric.said.last(),
        Some(ApiReply::GroupRerouted { .. })
    ));
}

#[test]
fn members_behind_a_failed_link_are_not_removed() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 2, 2).unwrap());
    let group = fabric.register(&["h1", "h3", "h4"]).unwrap();
    progress(&mut fabric, 0, 0x600);
    // Data up to 0x610 arrived, but no acknowledgement of it had been requested.
    let (first, spine, last) = (
        fabric.switch("l1"),
        fabric.switch("s1"),
        fabric.switch("l2"),
    );
    fabric.switches[first.0].acked.insert((0, 0), 0x620);
    fabric.switches[spine.0].acked.insert((0, 0), 0x610);
    fabric.switches[last.0].acked.insert((0, 2), 0x610);
    let broken = link(&fabric, "l1", "s1");
    fabric.cut.insert(broken);
    fabric.suspect(group.mcst_id);
    fabric.said.clear();
    fabric.pass(4_000_000_000);
    assert!(
        matches!(&fabric.said[..], [ApiReply::GroupRerouted { .. }]),
        "{:?}",
        fabric.said
    );
}

#[test]
fn a_link_that_loses_all_feedback_is_detected_and_avoided() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 2, 2).unwrap());
    let group = fabric.register(&["h1", "h3", "h4"]).unwrap();
    progress(&mut fabric, 0, 0x620);
    // All members have all data, but the spine's feedback does not reach the leader's leaf.
    let first = fabric.switch("l1");
    fabric.switches[first.0].acked.insert((0, 1), 0x600);
    let broken = link(&fabric, "l1", "s1");
    fabric.cut.insert(broken);
    fabric.suspect(group.mcst_id);
    fabric.said.clear();
    fabric.pass(4_000_000_000);
    assert!(
        matches!(&fabric.said[..], [ApiReply::GroupRerouted { .. }]),
        "{:?}",
        fabric.said
    );
}

#[test]
fn a_working_link_is_not_taken_as_failed_for_a_blocked_group() {
    // One acknowledgement towards the source or one data packet was lost, and the source has sent nothing since.
    for is_data in [false, true] {
        let mut fabric = FakeFabric::ready(leaf_spine(2, 2, 2).unwrap());
        let group = fabric.register(&["h1", "h3"]).unwrap();
        let other = fabric.register(&["h2", "h4"]).unwrap();
        progress(&mut fabric, 0, 0x600);
        let leaf = fabric.switch("l1");
        let path = u16::from(!is_data);
        fabric.switches[leaf.0]
            .acked
            .insert((0, path), [0x5f0, 0x620][usize::from(is_data)]);
        fabric.said.clear();
        for _ in 0..3 {
            fabric.suspect(group.mcst_id);
            fabric.pass(8_000_000_000);
        }
        let said = |reply: &ApiReply| {
            matches!(
                reply,
                ApiReply::GroupRerouted { .. } | ApiReply::MembersLost { .. }
            )
        };
        assert!(!fabric.said.iter().any(said), "{:?}", fabric.said);
        let status = fabric.controller.status();
        assert_eq!(status.avoided, [""; 0]);
        assert_eq!(status.groups.len(), 2, "{other:?}");
        assert_eq!(fabric.controller.markers.open(), 0);
    }
}

#[test]
fn a_flush_completes_when_a_later_frame_arrives() {
    for is_stuck in [false, true] {
        let mut fabric = FakeFabric::ready(leaf_spine(2, 2, 1).unwrap());
        let leaf = fabric.switch("l1");
        let wire = link(&fabric, "l1", "s1");
        let mut ports = fabric.controller.topology().neighbours(leaf).iter();
        let port = ports.find(|n| n.link == wire).unwrap().port;
        if is_stuck {
            fabric.cut.insert(wire);
        }
        let now = fabric.now;
        let task = Task::Flush { port };
        fabric
            .controller
            .network
            .submit(now, leaf, Owner::Detached, task);
        fabric.handle(Event::Timeout);
        assert_eq!(
            fabric.controller.network.switches().tasks().is_empty(),
            !is_stuck
        );
        fabric.pass(1_000_000_000);
        assert!(fabric.controller.network.switches().tasks().is_empty());
        // A link over which no frame arrives is considered failed.
        let avoided = fabric.controller.status().avoided;
        assert_eq!(avoided.len(), usize::from(is_stuck), "{avoided:?}");
        assert_eq!(fabric.controller.markers.open(), 0);
    }
}

#[test]
fn a_tree_is_rerouted_around_a_failed_switch_which_returns_clean() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 2, 2).unwrap());
    fabric.register(&["h1", "h3"]).unwrap();
    progress(&mut fabric, 0, 0x60_0000);
    let spine = fabric.switch("s1");
    fabric.disconnect(spine);
    fabric.said.clear();
    fabric.pass(4_000_000_000);
    assert_eq!(
        fabric.controller.status().groups[0].state,
        GroupState::Degraded
    );
    fabric.pass(2_000_000_000);
    assert!(matches!(
        fabric.said.last(),
        Some(ApiReply::GroupRerouted { .. })
    ));
    assert_eq!(
        fabric.controller.status().groups[0].state,
        GroupState::Ready
    );
    // No packet was in flight: all sent packets are acknowledged.
    let other = &fabric.switches[fabric.switch("s2").0];
    assert_eq!(other.registers[&0], (2, 0x60_0001));
    fabric.connect(spine);
    assert_eq!(counts(&fabric)[spine.0], [0; 5]);
    assert!(fabric.controller.is_ready());
}

#[test]
fn a_group_is_not_changed_while_its_leaf_is_disconnected() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 2, 2).unwrap());
    fabric.register(&["h1", "h3"]).unwrap();
    let before = fabric.contents();
    let leaf = fabric.switch("l2");
    fabric.disconnect(leaf);
    fabric.pass(60_000_000_000);
    fabric.connect(leaf);
    assert_eq!(fabric.contents(), before);
    assert_eq!(
        fabric.controller.status().groups[0].state,
        GroupState::Ready
    );
}

#[test]
fn members_behind_a_failed_leaf_are_removed_and_others_continue() {
    let mut fabric = FakeFabric::ready(leaf_spine(3, 2, 2).unwrap());
    fabric.register(&["h1", "h2", "h3", "h5"]).unwrap();
    progress(&mut fabric, 0, 0x60_0000);
    let (leaf, dead) = (fabric.switch("l2"), fabric.request(&["h3"]).members[0].ip);
    fabric.disconnect(leaf);
    fabric.said.clear();
    fabric.pass(6_000_000_000);
    assert!(
        matches!(
            &fabric.said[..],
            [ApiReply::GroupRerouted { .. }, ApiReply::MembersLost { members, .. }] if members[..] == [dead]
        ),
        "{:?}",
        fabric.said
    );
    let status = fabric.controller.status();
    assert_eq!(status.groups[0].state, GroupState::Ready);
    assert_eq!(status.groups[0].members.len(), 3);
    fabric.connect(leaf);
    assert_eq!(counts(&fabric)[leaf.0], [0; 5]);
}

#[test]
fn a_link_that_fails_during_a_change_is_avoided_afterwards() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 2, 2).unwrap());
    let group = fabric.register(&["h1", "h3", "h4"]).unwrap();
    progress(&mut fabric, 0, 0x600);
    let tree = |fabric: &FakeFabric| {
        let switches = fabric.controller.status().groups[0].switches.clone();
        let mut names = switches.into_iter().map(|on| on.switch);
        names.find(|name| name.starts_with('s')).unwrap()
    };
    let old = tree(&fabric);
    let broken = link(&fabric, "l1", &old);
    let leaving = fabric.request(&["h4"]).members[0].ip;
    fabric.controller.handle(
        0,
        Event::Api(ApiRequest::Leave {
            tag: Tag(77),
            mcst_id: group.mcst_id,
            members: vec![leaving],
        }),
    );
    fabric.said.clear();
    fabric.handle(Event::Link {
        link: broken,
        is_up: false,
    });
    assert!(
        matches!(
            &fabric.said[..],
            [ApiReply::MembersLeft { .. }, ApiReply::GroupRerouted { .. }]
        ),
        "{:?}",
        fabric.said
    );
    assert_ne!(old, tree(&fabric));
}

#[test]
fn a_removal_requested_during_a_change_follows_it() {
    let mut fabric = FakeFabric::ready(testbed());
    let empty = fabric.contents();
    let group = fabric.register(&["h1", "h2", "h3"]).unwrap();
    let (leave, gone) = (fabric.tag(), fabric.tag());
    let members = vec![fabric.request(&["h3"]).members[0].ip];
    let mcst_id = group.mcst_id;
    let events = [
        ApiRequest::Leave {
            tag: leave,
            mcst_id,
            members,
        },
        ApiRequest::Deregister { tag: gone, mcst_id },
    ];
    for event in events {
        let now = fabric.now;
        fabric.controller.handle(now, Event::Api(event));
    }
    fabric.run();
    fabric.wait();
    assert!(matches!(
        fabric.said[..],
        [
            ApiReply::MembersLeft { tag: first, .. },
            ApiReply::GroupRemoved { tag: second, .. }
        ] if (first, second) == (leave, gone)
    ));
    assert_eq!(fabric.contents(), empty);
}
