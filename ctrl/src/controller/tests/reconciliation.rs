//! Switches that reconnect with their state, without it, or with the state of another controller.

use super::*;
use crate::topology::{fat_tree, leaf_spine, testbed};

/// A leaf-spine fabric with one group over both leaves, after traffic of h1 up to PSN 0x505000.
fn in_use() -> (FakeFabric, GroupInfo) {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    let mut request = fabric.request(&["h1", "h2", "h3"]);
    request.initial_psn = Psn::new(0x30_0000);
    let group = fabric.register_group(request).unwrap();
    for switch in &mut fabric.switches {
        switch.last_acked.insert(0, 0x50_5000);
    }
    let leaf = fabric.switch("l1");
    fabric.switches[leaf.0].source = 1;
    (fabric, group)
}

fn state(fabric: &FakeFabric) -> GroupState {
    fabric.controller.status().groups[0].state
}

#[test]
fn a_switch_with_intact_state_is_not_written() {
    let (mut fabric, _) = in_use();
    let before = fabric.contents();
    for switch in fabric.controller.topology().switch_indexes() {
        let fake = &mut fabric.switches[switch.0];
        (fake.writes, fake.loads) = (0, 0);
        fabric.disconnect(switch);
        assert_eq!(state(&fabric), GroupState::Degraded);
        fabric.connect(switch);
        let fake = &fabric.switches[switch.0];
        assert_eq!((fake.writes, fake.loads), (0, 0));
        // Its registers are unchanged.
        assert_eq!(fake.last_acked[&0], 0x50_5000);
    }
    assert_eq!(fabric.contents(), before);
    assert_eq!(state(&fabric), GroupState::Ready);
}

#[test]
fn a_switch_that_lost_its_state_restarts_from_the_common_position() {
    let (mut fabric, _) = in_use();
    let before = fabric.contents();
    let spine = fabric.switch("s1");
    fabric.disconnect(spine);
    fabric.switches[spine.0].restart();
    fabric.connect(spine);
    assert_eq!(fabric.contents(), before);
    // The PSN after the last acknowledged one, and the port of the source, 1.
    assert_eq!(
        fabric.switches[spine.0].registers[&0],
        (2, 1 << 48 | 0x50_5001)
    );
    // The registers of the leaves are unchanged.
    assert_eq!(fabric.switches[0].last_acked[&0], 0x50_5000);
}

#[test]
fn a_lost_reply_about_the_position_is_requested_again() {
    let (mut fabric, _) = in_use();
    let spine = fabric.switch("s1");
    fabric.disconnect(spine);
    fabric.switches[spine.0].restart();
    fabric.switches[0].lose_packets = 2;
    fabric.connect(spine);
    fabric.wait();
    assert!(fabric.controller.is_ready());
    assert_eq!(
        fabric.switches[spine.0].registers[&0],
        (2, 1 << 48 | 0x50_5001)
    );
}

#[test]
fn a_group_on_one_switch_restarts_from_its_known_position() {
    let mut fabric = FakeFabric::ready(testbed());
    fabric.register(&["h1", "h2"]).unwrap();
    fabric.disconnect(SwitchIndex(0));
    fabric.switches[0].restart();
    fabric.connect(SwitchIndex(0));
    // Its members are queried; the registers start one PSN earlier, so that each reply is newer.
    assert_eq!(fabric.switches[0].registers[&0], (2, 0xff_ffef));
    // If no member replies, one of them is assumed to be the source, and the window is wide for a while.
    fabric.wait();
    assert_eq!(fabric.switches[0].registers[&0], (2, 1 << 48 | 0xff_ffef));
}

#[test]
fn foreign_and_missing_entries_are_repaired_without_touching_registers() {
    let (mut fabric, _) = in_use();
    let before = fabric.contents();
    let leaf = fabric.switch("l1");
    fabric.disconnect(leaf);
    fabric.switches[leaf.0].discard("table egress.bridge_exit.receivers");
    fabric.switches[leaf.0].discard("table ingress.ipv4_routing.routes");
    fabric.switches[leaf.0].discard("clone session");
    // Copy entries of another fabric.
    let mut other = FakeFabric::ready(leaf_spine(2, 1, 2).unwrap());
    other.register(&["h1", "h2"]).unwrap();
    let mut foreign = other.request(&["h1", "h4"]);
    foreign.mcst_id = Some([10, 255, 9, 9].into());
    other.register_group(foreign).unwrap();
    fabric.switches[leaf.0].copy_entries(&other.switches[leaf.0]);
    fabric.connect(leaf);
    assert_eq!(fabric.contents(), before);
    assert_eq!(fabric.switches[leaf.0].last_acked[&0], 0x50_5000);
}

#[test]
fn a_group_with_unexpected_paths_is_initialised_again() {
    let (mut fabric, _) = in_use();
    let before = fabric.contents();
    let leaf = fabric.switch("l1");
    fabric.disconnect(leaf);
    fabric.switches[leaf.0].discard("table ingress.group_lookup.mft");
    fabric.connect(leaf);
    // The source is a host of this switch, and no host replies. So the only known bound is that the source is at most a window
    // ahead of the PSNs that the other switches have received.
    fabric.wait();
    assert_eq!(fabric.contents(), before);
    assert_eq!(
        fabric.switches[leaf.0].registers[&0],
        (3, 1 << 48 | (0x50_5000 - 0x1_0000))
    );
}

#[test]
fn replication_entries_that_survive_a_pipeline_load_are_replaced() {
    let (mut fabric, _) = in_use();
    let before = fabric.contents();
    let leaf = fabric.switch("l1");
    fabric.disconnect(leaf);
    fabric.switches[leaf.0].cookie = None;
    fabric.switches[leaf.0].keeps_replication = true;
    fabric.switches[leaf.0].refuse_reads = true;
    fabric.connect(leaf);
    assert!(fabric.controller.is_ready(), "{:?}", fabric.said);
    fabric.wait();
    assert_eq!(fabric.contents(), before);
}

#[test]
fn a_switch_that_cannot_be_read_is_initialised_again() {
    let (mut fabric, _) = in_use();
    let before = fabric.contents();
    let leaf = fabric.switch("l1");
    fabric.disconnect(leaf);
    fabric.switches[leaf.0].refuse_reads = true;
    fabric.connect(leaf);
    // The source is a host of this switch, so its hosts are queried for the group's position.
    fabric.wait();
    assert_eq!(fabric.contents(), before);
    assert_eq!(fabric.switches[leaf.0].loads, 2);
}

#[test]
fn a_new_controller_adopts_groups_found_on_switches() {
    let (mut fabric, group) = in_use();
    let before = fabric.contents();
    fabric.replace_controller();
    fabric.connect_all();
    assert!(fabric.controller.is_ready());
    assert_eq!(fabric.contents(), before);
    let status = fabric.controller.status();
    assert_eq!(status.groups[0].mcst_id, group.mcst_id);
    assert_eq!(status.groups[0].members.len(), 3);
    for switch in &fabric.switches {
        assert_eq!((switch.loads, switch.last_acked[&0]), (1, 0x50_5000));
    }
    // The adopted group's address and indexes are reserved, and it can be removed.
    fabric.said.clear();
    let second = fabric.register(&["h1", "h2", "h3"]).unwrap();
    assert_ne!(second.mcst_id, group.mcst_id);
    fabric.deregister(group.mcst_id).unwrap();
    fabric.deregister(second.mcst_id).unwrap();
    assert!(fabric
        .contents()
        .iter()
        .flatten()
        .all(|text| !text.contains("group_lookup")));
}

#[test]
fn an_incomplete_group_is_removed_instead_of_adopted() {
    let (mut fabric, _) = in_use();
    let spine = fabric.switch("s1");
    fabric.switches[spine.0].restart();
    fabric.replace_controller();
    fabric.connect_all();
    assert!(fabric.controller.status().groups.is_empty());
    for switch in &fabric.switches {
        assert_eq!(switch.count("table ingress.group_lookup"), 0);
        assert_eq!(switch.count("table egress.bridge_exit"), 0);
        assert_eq!(switch.count("multicast group"), 0);
    }
    fabric.said.clear();
    fabric.register(&["h1", "h3"]).unwrap();
}

#[test]
fn a_new_controller_restores_saved_state() {
    let mut fabric = FakeFabric::ready(fat_tree(4).unwrap());
    fabric.register(&["h1", "h2", "h9"]).unwrap();
    fabric.register(&["h5", "h16"]).unwrap();
    let (before, saved) = (fabric.contents(), fabric.controller.save());
    let status = fabric.controller.status();
    fabric.replace_controller();
    fabric.controller.restore(&saved).unwrap();
    assert_eq!(fabric.controller.save(), saved);
    // One switch failed together with the old controller.
    fabric.switches[0].restart();
    fabric.connect_all();
    // Its hosts are queried for the group's position, since no other switch was connected yet.
    fabric.wait();
    assert_eq!(fabric.contents(), before);
    assert_eq!(fabric.controller.status(), status);
    fabric.said.clear();
    fabric.register(&["h1", "h2"]).unwrap();
}

#[test]
fn saved_state_of_another_network_is_rejected() {
    let mut fabric = FakeFabric::ready(fat_tree(4).unwrap());
    fabric.register(&["h1", "h9"]).unwrap();
    let saved = fabric.controller.save();
    let mut config = ControllerConfig::new(p4info::p4info(), Vec::new());
    config.election_id = 2;
    let mut other = Controller::new(testbed(), config).unwrap();
    let messages = [
        other.restore("{").unwrap_err().to_string(),
        other
            .restore(r#"{"version": 9, "groups": []}"#)
            .unwrap_err()
            .to_string(),
        other.restore(&saved).unwrap_err().to_string(),
    ];
    assert!(messages[0].starts_with("the saved state is not readable: "));
    assert_eq!(
        messages[1],
        "the saved state has version 9, but this program supports only 2; start without the saved state: the controller adopts the groups that it finds on the switches"
    );
    assert!(messages[2].starts_with("the saved group 10.255.0.1 does not fit this network: "));
}

#[test]
fn punt_rates_are_written_at_the_start_and_repaired() {
    let (mut fabric, _) = in_use();
    let before = fabric.contents();
    let rates = |switch: &FakeSwitch| switch.count("meter punt_limit.rates");
    // Five kinds of packets for each of a leaf's three ports and the spine's two.
    let all: Vec<usize> = fabric.switches.iter().map(rates).collect();
    assert_eq!(all, [15, 15, 10]);
    let program = Program::resolve(&fabric.controller.network.config().p4info).unwrap();
    let leaf = fabric.switch("l1");
    let key = |port| crate::tables::PuntKey { reason: 2, port };
    let rate = crate::tables::PuntRate { rate: 7, burst: 7 };
    let damages: [&dyn Fn(&mut FakeSwitch); 3] = [
        &|switch| switch.discard("meter"),
        &|switch| switch.force(&program.punt_rates.set(&key(1), &rate)),
        // A port that does not exist.
        &|switch| switch.force(&program.punt_rates.set(&key(300), &rate)),
    ];
    for damage in damages {
        fabric.disconnect(leaf);
        damage(&mut fabric.switches[leaf.0]);
        assert_ne!(fabric.contents(), before);
        fabric.connect(leaf);
        assert_eq!(fabric.contents(), before);
        assert_eq!(state(&fabric), GroupState::Ready);
    }
}
