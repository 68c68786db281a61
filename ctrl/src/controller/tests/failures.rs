use super::*;
use crate::topology::{fat_tree, leaf_spine, testbed};

#[test]
fn a_rejection_of_any_update_leaves_no_entries() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    let before = fabric.contents();
    let hosts = ["h1", "h2", "h3", "h4"];
    let mut failures = 0;
    for switch in 0..fabric.switches.len() {
        for update in 0.. {
            for other in &mut fabric.switches {
                other.updates = 0;
            }
            fabric.switches[switch].refuse = [update].into();
            match fabric.register(&hosts) {
                Err(GroupError::Switch(SwitchError::Refused { .. })) => failures += 1,
                Err(other) => panic!("unexpected: {other}"),
                Ok(group) => {
                    fabric.switches[switch].refuse.clear();
                    fabric.deregister(group.mcst_id).unwrap();
                    break;
                }
            }
            fabric.switches[switch].refuse.clear();
            assert_eq!(
                fabric.contents(),
                before,
                "switch {switch}, update {update}"
            );
            assert_eq!(*fabric.controller.network.loads(), PortLoads::default());
            assert!(fabric
                .controller
                .status()
                .switches
                .iter()
                .all(|s| s.groups == 0));
        }
    }
    // Updates: on each of two leaves 2 receivers, a multicast group, 2 members, 3 paths and a group; on the spine 1 + 2 + 1.
    assert_eq!(failures, 9 + 9 + 4);
}

#[test]
fn a_failed_undo_reports_both_errors() {
    let mut fabric = FakeFabric::ready(testbed());
    fabric.switches[0].updates = 0;
    // After 2 receivers and the multicast group, the first member is rejected, and in the undo the first deletion.
    fabric.switches[0].refuse = [3, 7].into();
    let error = fabric.register(&["h1", "h2"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "switch s1: table ingress.bridge_entry.members: insert was rejected: RESOURCE_EXHAUSTED: fake; \
         undoing the request failed, and entries remain on switches until they reconnect: \
         switch s1: table ingress.group_lookup.mft: delete was rejected: RESOURCE_EXHAUSTED: fake"
    );
    // An index that may have stale entries is not reused before the switch reconnects.
    fabric.switches[0].refuse.clear();
    let second = fabric.register(&["h1", "h2"]).unwrap();
    assert_eq!(second.mcst_id, Ipv4Addr::new(10, 255, 0, 2));
    fabric.deregister(second.mcst_id).unwrap();
    let taken = Some([10, 255, 0, 1].into());
    let mut group = fabric.request(&["h1", "h2"]);
    group.mcst_id = taken;
    assert!(matches!(
        fabric.register_group(group.clone()),
        Err(GroupError::Taken(_))
    ));
    fabric.connect_all();
    fabric.said.clear();
    fabric.register_group(group).unwrap();
}

#[test]
fn a_failed_removal_reports_leftover_state() {
    let mut fabric = FakeFabric::ready(testbed());
    let group = fabric.register(&["h1", "h2"]).unwrap();
    fabric.switches[0].updates = 0;
    fabric.switches[0].refuse = [0].into();
    assert_eq!(
        fabric.deregister(group.mcst_id).unwrap_err().to_string(),
        "group 10.255.0.1 is removed, but its entries remain on switches until they reconnect: \
         switch s1: table ingress.group_lookup.groups: delete was rejected: RESOURCE_EXHAUSTED: fake"
    );
}

#[test]
fn lost_register_packets_are_retransmitted() {
    let mut fabric = FakeFabric::ready(testbed());
    // A group needs two register accesses: for its own registers, and for those of its receivers.
    fabric.switches[0].lose_packets = 2 * 3;
    fabric.register(&["h1", "h2"]).unwrap();
    // Three retries, and a pause after the last one, so that a late copy cannot hit the group in use.
    assert_eq!(fabric.now, 4 * 200_000_000);
}

#[test]
fn a_switch_without_register_replies_fails_the_group() {
    let mut fabric = FakeFabric::ready(testbed());
    let before = fabric.contents();
    fabric.switches[0].lose_packets = usize::MAX;
    assert_eq!(
        fabric.register(&["h1", "h2"]).unwrap_err().to_string(),
        "switch s1: no reply to a register access within 2 s"
    );
    assert_eq!(fabric.contents(), before);
}

#[test]
fn a_switch_failure_fails_the_group_and_cleans_other_switches() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 1).unwrap());
    let before = fabric.contents();
    let spine = fabric.switch("s1");
    fabric.switches[spine.0].silent = true;
    let (tag, group) = (fabric.tag(), fabric.request(&["h1", "h2"]));
    fabric.handle(Event::Api(ApiRequest::Register { tag, group }));
    fabric.disconnect(spine);
    match fabric.said.pop() {
        Some(ApiReply::Failed { error, .. }) => {
            assert_eq!(error.to_string(), "switch s1: connection lost: test");
        }
        other => panic!("unexpected: {other:?}"),
    }
    assert_eq!(fabric.contents(), before);
    assert!(matches!(
        fabric.register(&["h1", "h2"]),
        Err(GroupError::SwitchNotReady { .. })
    ));
    fabric.switches[spine.0].silent = false;
    fabric.connect(spine);
    fabric.said.clear();
    fabric.register(&["h1", "h2"]).unwrap();
}

#[test]
fn a_switch_restarted_during_creation_has_no_partial_group() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 1).unwrap());
    let (leaf, spine) = (fabric.switch("l1"), fabric.switch("s1"));
    fabric.switches[leaf.0].silent = true;
    let (tag, group) = (fabric.tag(), fabric.request(&["h1", "h2"]));
    fabric.handle(Event::Api(ApiRequest::Register { tag, group }));
    // The spine has applied its part and then removes it; the fake switch checks that published groups are complete.
    fabric.connect(spine);
    fabric.switches[leaf.0].silent = false;
    fabric.said.clear();
    fabric.wait();
    assert!(fabric.said.iter().any(|reply| matches!(
        reply,
        ApiReply::Failed {
            error: GroupError::Switch(_),
            ..
        }
    )));
    assert_eq!(
        fabric.switches[spine.0].count("table ingress.group_lookup"),
        0
    );
}

#[test]
fn a_restarted_switch_gets_its_groups_back() {
    let mut fabric = FakeFabric::ready(fat_tree(4).unwrap());
    fabric.register(&["h1", "h2", "h9"]).unwrap();
    let removed = fabric.register(&["h3", "h10"]).unwrap();
    fabric.register(&["h1", "h16"]).unwrap();
    fabric.deregister(removed.mcst_id).unwrap();
    let (contents, registers) = (fabric.contents(), fabric.switches[0].registers.clone());
    for switch in fabric.controller.topology().switch_indexes() {
        fabric.disconnect(switch);
        assert!(!fabric.controller.is_ready());
        fabric.switches[switch.0].restart();
        fabric.connect(switch);
        assert!(fabric.controller.is_ready());
    }
    assert_eq!(fabric.contents(), contents);
    assert_eq!(fabric.switches[0].loads, 2);
    assert!(registers.keys().all(|group| registers.contains_key(group)));
}

#[test]
fn a_group_removed_while_a_switch_is_disconnected_stays_removed() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 1).unwrap());
    let before = fabric.contents();
    let group = fabric.register(&["h1", "h2"]).unwrap();
    let spine = fabric.switch("s1");
    fabric.disconnect(spine);
    fabric.said.clear();
    fabric.deregister(group.mcst_id).unwrap();
    // Its address stays reserved until no switch can have entries of the group.
    let mut again = fabric.request(&["h1", "h2"]);
    again.mcst_id = Some(group.mcst_id);
    fabric.connect(spine);
    assert_eq!(fabric.contents(), before);
    fabric.said.clear();
    fabric.register_group(again).unwrap();
}

#[test]
fn replies_of_an_earlier_connection_are_ignored() {
    let mut fabric = FakeFabric::ready(testbed());
    for request in 0..10 {
        fabric.handle(Event::Reply {
            switch: SwitchIndex(0),
            request: RequestId(request),
            result: Ok(Response::Write),
        });
    }
    assert!(fabric.said.is_empty());
    fabric.register(&["h1", "h2"]).unwrap();
}
