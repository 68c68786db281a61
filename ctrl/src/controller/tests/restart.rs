//! Recovery of a group's position after a switch has lost its registers.

use super::*;
use crate::topology::{leaf_spine, testbed};

const FIRST: u32 = 0xff_fff0;

/// Creates a group of h1 to h4 on one switch, which then restarts. Members reply to queries that they have acknowledged these numbers
/// of packets since the first PSN; those with `None` do not reply.
fn after_restart(newest: [Option<u32>; 4]) -> FakeFabric {
    let mut fabric = FakeFabric::ready(testbed());
    fabric.register(&["h1", "h2", "h3", "h4"]).unwrap();
    let switch = SwitchIndex(0);
    fabric.disconnect(switch);
    fabric.switches[0].restart();
    for (path, newest) in (0..).zip(newest) {
        if let Some(newest) = newest {
            let psn = (FIRST + newest) & 0xff_ffff;
            fabric.switches[0].claimed.insert((0, path), psn);
        }
    }
    fabric.connect(switch);
    fabric
}

/// The initial PSN of the registers, relative to the group's first PSN, and the port of the source.
fn start(fabric: &FakeFabric) -> (i32, u32) {
    let (paths, value) = fabric.switches[0].registers[&0];
    assert_eq!(paths, 4);
    let psn = Psn::new(value as u32).prev();
    let source = fabric.switches[0].sources.get(&0).copied();
    (psn.distance_from(Psn::new(FIRST)), source.unwrap_or(0))
}

/// The window in the group's entry.
fn window(fabric: &FakeFabric) -> String {
    let contents = fabric.switches[0].contents();
    let groups = contents
        .iter()
        .find(|text| text.starts_with("table ingress.group_lookup.groups"));
    groups.unwrap().clone()
}

#[test]
fn a_group_on_one_switch_recovers_its_position_from_its_members() {
    // h2 is the source, from PSN 4 on. h1 and h3 have all packets up to 7; h4 lacks the last one.
    let mut fabric = after_restart([Some(7), Some(3), Some(7), Some(6)]);
    let wide = window(&fabric);
    // Until they have replied, registers start one PSN before the known position, so that each reply is newer.
    assert_eq!(start(&fabric), (-2, 0));
    fabric.pass(1_000_000);
    let asked = fabric.switches[0].sent.len();
    assert_eq!(asked, 4, "each is asked once");
    fabric.pass(30_000_000);
    // h2 could also be a slow receiver, so the window stays wide.
    assert_eq!(start(&fabric), (3, 2));
    assert_eq!(window(&fabric), wide);
    fabric.wait();
    let usual = window(&fabric);
    assert_ne!(usual, wide);
    // The source has sent many packets.
    let mut fabric = after_restart([Some(900_000), Some(2), Some(900_001), Some(900_003)]);
    fabric.pass(60_000_000);
    assert_eq!(start(&fabric), (900_000, 2));
    assert_eq!(window(&fabric), usual);
    // The source has just started, or all its packets are acknowledged: its next PSN identifies it.
    let mut fabric = after_restart([Some(7), Some(7), Some(7), Some(7)]);
    fabric.pass(60_000_000);
    assert_eq!(start(&fabric), (7, 0));
    assert_eq!(window(&fabric), usual);
}

#[test]
fn queries_to_members_are_repeated_a_limited_number_of_times() {
    let mut fabric = after_restart([Some(70_000), None, Some(70_010), None]);
    fabric.wait();
    // One of h2 and h4 is the source; the other has failed, or its replies were lost. It lacks at most a window.
    let (psn, source) = start(&fabric);
    assert_eq!((psn, source), (70_000 - 65_536, 2));
    // Four members are queried twice, by when two have replied; then only the other two.
    assert!((12..=32).contains(&fabric.switches[0].sent.len()));
    assert_eq!(fabric.controller.poll_timeout(), None);
    let lost = |reply: &ApiReply| matches!(reply, ApiReply::MembersLost { .. });
    assert!(!fabric.said.iter().any(lost));
}

#[test]
fn a_transit_switch_recovers_its_state_from_other_switches() {
    for (name, source) in [("s1", 1), ("l2", 1)] {
        let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
        fabric.register(&["h1", "h2", "h3"]).unwrap();
        // h2 at l1 is the source; l1 has acknowledged 7 to it, and the other switches newer PSNs.
        let (leaf, restarted) = (fabric.switch("l1"), fabric.switch(name));
        for switch in ["l1", "l2", "s1"] {
            let switch = fabric.switch(switch);
            let newer = 2 * u32::from(switch != leaf);
            fabric.switches[switch.0]
                .last_acked
                .insert(0, (FIRST + 7 + newer) & 0xff_ffff);
            fabric.switches[switch.0].sent_psn = Some((FIRST + 20) & 0xff_ffff);
            fabric.switches[switch.0].source = 3;
        }
        fabric.switches[leaf.0].source = 2;
        fabric.disconnect(restarted);
        fabric.switches[restarted.0].restart();
        fabric.connect(restarted);
        let (_, value) = fabric.switches[restarted.0].registers[&0];
        let psn = Psn::new(value as u32).prev();
        assert_eq!(psn.distance_from(Psn::new(FIRST)), 7, "{name}");
        let port = fabric.switches[restarted.0].sources[&0];
        let behind = fabric
            .controller
            .topology()
            .neighbour_at(restarted, port)
            .unwrap();
        let towards = match name {
            "s1" => leaf,
            _ => fabric.switch("s1"),
        };
        assert_eq!(
            behind.peer.node,
            crate::topology::Node::Switch(towards),
            "{name} {source}"
        );
        // No member is queried.
        assert_eq!(fabric.controller.poll_timeout(), None);
        assert!(fabric.switches[restarted.0].sent.is_empty());
    }
}

#[test]
fn a_member_that_acknowledged_more_than_sent_is_removed_only_after_a_repair_failed() {
    let mut fabric = FakeFabric::ready(testbed());
    let group = fabric.register(&["h1", "h2", "h3", "h4"]).unwrap();
    let psn = |n: u32| (FIRST + n) & 0xff_ffff;
    // The switch has a very old position, so h3's acknowledgements appear implausible to it.
    for path in 0..4 {
        fabric.switches[0].acked.insert((0, path), psn(3));
        fabric.switches[0].claimed.insert((0, path), psn(3));
    }
    fabric.switches[0].acked.insert((0, 2), psn(0));
    fabric.switches[0].claimed.insert((0, 2), psn(7));
    fabric.switches[0].sent_psn = Some(psn(3));
    fabric.said.clear();
    fabric.suspect(group.mcst_id);
    fabric.pass(4_000_000_000);
    let lost = |fabric: &FakeFabric| {
        let is_loss = |reply: &ApiReply| matches!(reply, ApiReply::MembersLost { .. });
        fabric.said.iter().any(is_loss)
    };
    assert!(!lost(&fabric));
    // The registers were initialised again.
    assert_eq!(start(&fabric).0, 3);
    // The stall persists, and is reported again.
    for _ in 0..4 {
        fabric.suspect(group.mcst_id);
        fabric.pass(4_000_000_000);
    }
    assert!(lost(&fabric));
}
