use std::collections::BTreeSet;

use super::*;
use crate::strategy::{MinPsn, Strategies};
use crate::topology::{fat_tree, leaf_spine, testbed};

#[test]
fn a_group_on_one_switch_has_an_entry_of_each_kind() {
    let mut fabric = FakeFabric::ready(testbed());
    let before: BTreeSet<_> = fabric.switches[0].contents().into_iter().collect();
    let info = fabric.register(&["h1", "h3", "h4"]).unwrap();
    assert_eq!(info.mcst_id, Ipv4Addr::new(10, 255, 0, 1));
    assert!(info.remote_qpn.is_ordinary());
    assert_eq!((info.members, info.switches), (3, 1));
    assert_eq!(fabric.switches[0].registers[&0], (3, 0xff_fff0));
    let after: BTreeSet<_> = fabric.switches[0].contents().into_iter().collect();
    let added: Vec<_> = after.difference(&before).cloned().collect();
    insta::assert_snapshot!(added.join("\n"));
}

#[test]
fn switches_without_members_get_paths_but_no_bridges() {
    let mut fabric = FakeFabric::ready(leaf_spine(2, 2, 2).unwrap());
    fabric.register(&["h1", "h2", "h4"]).unwrap();
    let spine = &fabric.switches[fabric.switch("s1").0];
    assert_eq!(spine.count("table ingress.group_lookup.mft"), 2);
    assert_eq!(spine.count("table ingress.bridge_entry.members"), 0);
    assert_eq!(spine.count("table egress.bridge_exit.receivers"), 0);
    let other = &fabric.switches[fabric.switch("s2").0];
    assert_eq!(other.count("multicast group"), 0);
    let leaf = &fabric.switches[fabric.switch("l1").0];
    assert_eq!(leaf.count("table ingress.group_lookup.mft"), 3);
    assert_eq!(leaf.count("table ingress.bridge_entry.members"), 2);
    assert_eq!(leaf.count("table egress.bridge_exit.receivers"), 2);
}

#[test]
fn queue_pairs_of_an_earlier_group_cannot_address_a_later_one() {
    let mut fabric = FakeFabric::ready(testbed());
    let first = fabric.register(&["h1", "h2"]).unwrap();
    fabric.deregister(first.mcst_id).unwrap();
    let mut again = fabric.request(&["h2", "h3"]);
    again.mcst_id = Some(first.mcst_id);
    again.virtual_qpn = Some(first.remote_qpn);
    let error = fabric.register_group(again.clone()).unwrap_err();
    assert_eq!(
        error,
        GroupError::VirtualQpn(VirtualQpnError::Stale {
            mcst_id: first.mcst_id,
            virtual_qpn: first.remote_qpn
        })
    );
    // Also after a restart of the controller it is rejected.
    let saved = fabric.controller.save();
    fabric.replace_controller();
    fabric.controller.restore(&saved).unwrap();
    fabric.connect_all();
    fabric.said.clear();
    let error = fabric.register_group(again.clone()).unwrap_err();
    assert!(matches!(error, GroupError::VirtualQpn(_)), "{error}");
    again.virtual_qpn = None;
    let second = fabric.register_group(again).unwrap();
    assert_eq!(second.mcst_id, first.mcst_id);
    assert_ne!(second.remote_qpn, first.remote_qpn);
}

#[test]
fn deregistration_leaves_no_entries() {
    let mut fabric = FakeFabric::ready(fat_tree(4).unwrap());
    let before = fabric.contents();
    let hosts: Vec<String> = (1..=16).map(|n| format!("h{n}")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let group = fabric.register(&hosts).unwrap();
    assert_ne!(fabric.contents(), before);
    fabric.deregister(group.mcst_id).unwrap();
    assert_eq!(fabric.contents(), before);
    assert_eq!(
        fabric.deregister(group.mcst_id),
        Err(GroupError::NoSuchGroup(group.mcst_id))
    );
    assert!(fabric.controller.status().groups.is_empty());
}

#[test]
fn indexes_and_addresses_are_reused_as_late_as_possible() {
    let mut fabric = FakeFabric::ready(testbed());
    let first = fabric.register(&["h1", "h2"]).unwrap();
    fabric.deregister(first.mcst_id).unwrap();
    let second = fabric.register(&["h1", "h2"]).unwrap();
    assert_ne!(first.mcst_id, second.mcst_id);
    let status = fabric.controller.status();
    assert_eq!(status.groups[0].switches[0].group_index, 1);
    assert_eq!(status.groups[0].state, GroupState::Ready);
    assert_eq!(status.switches[0].groups, 1);
}

#[test]
fn many_groups_at_once_share_their_writes() {
    let mut fabric = FakeFabric::ready(testbed());
    fabric.switches[0].writes = 0;
    for _ in 0..200 {
        let tag = fabric.tag();
        let group = fabric.request(&["h1", "h2", "h3", "h4"]);
        let request = ApiRequest::Register { tag, group };
        fabric.controller.handle(0, Event::Api(request));
    }
    fabric.run();
    assert_eq!(fabric.said.len(), 200);
    assert!(fabric
        .said
        .iter()
        .all(|r| matches!(r, ApiReply::GroupReady { .. })));
    assert!(
        fabric.switches[0].writes < 20,
        "{}",
        fabric.switches[0].writes
    );
}

#[test]
fn invalid_requests_are_rejected_before_any_write() {
    let mut fabric = FakeFabric::ready(testbed());
    let before = fabric.contents();
    let good = fabric.request(&["h1", "h2", "h3"]);
    let mut cases = vec![fabric.request(&["h1"]), fabric.request(&[])];
    let mut case = |change: &dyn Fn(&mut RegisterGroup)| {
        let mut group = good.clone();
        change(&mut group);
        cases.push(group);
    };
    case(&|g| g.members.extend(g.members.clone()));
    case(&|g| g.members[1].ip = [10, 9, 9, 9].into());
    case(&|g| g.members[2] = g.members[0]);
    case(&|g| g.members[2].qpn = QpNum::new(0));
    case(&|g| g.mcst_id = Some([10, 0, 0, 77].into()));
    case(&|g| g.mcst_id = Some([10, 255, 255, 255].into()));
    case(&|g| {
        g.members[0].region = Some(MemoryRegion {
            va: 0x7000_1000,
            rkey: 7,
            len: 0x1001,
        });
    });
    case(&|g| {
        g.members[0].region = Some(MemoryRegion {
            va: 0x7000_1000,
            rkey: 7,
            len: 0,
        });
    });
    let messages: Vec<String> = cases
        .into_iter()
        .map(|group| fabric.register_group(group).unwrap_err().to_string())
        .collect();
    insta::assert_snapshot!(messages.join("\n"));
    assert_eq!(fabric.contents(), before);
    assert_eq!(*fabric.controller.network.loads(), PortLoads::default());
}

#[test]
fn an_address_identifies_one_group() {
    let mut fabric = FakeFabric::ready(testbed());
    let mut group = fabric.request(&["h1", "h2"]);
    group.mcst_id = Some([10, 255, 7, 7].into());
    fabric.register_group(group.clone()).unwrap();
    assert_eq!(
        fabric.register_group(group).unwrap_err().to_string(),
        "10.255.7.7 is the address of another group; deregister that group, or let the controller choose an address"
    );
}

#[test]
fn the_number_of_groups_is_limited_by_the_pipeline() {
    let config = ControllerConfig::new(p4info::sized(3, 64), Vec::new());
    let mut fabric = FakeFabric::with(testbed(), config);
    fabric.connect_all();
    let groups: Vec<_> = (0..3)
        .map(|_| fabric.register(&["h1", "h2"]).unwrap().mcst_id)
        .collect();
    assert_eq!(
        fabric.register(&["h1", "h2"]).unwrap_err().to_string(),
        "switch s1 has no space for the group: table groups needs 1 entries and has 0 free; \
         deregister groups, or compile p4src/ with larger sizes"
    );
    fabric.deregister(groups[1]).unwrap();
    fabric.register(&["h1", "h2"]).unwrap();
}

#[test]
fn a_tree_with_too_many_ports_on_a_switch_is_rejected() {
    let config = ControllerConfig::new(p4info::sized(1024, 2), Vec::new());
    let mut fabric = FakeFabric::with(testbed(), config);
    fabric.connect_all();
    assert_eq!(
        fabric.register(&["h1", "h2", "h3"]).unwrap_err().to_string(),
        "switch s1 has no space for the group: the tree needs 3 ports there, and the pipeline supports 2; compile p4src/ with a larger PATH_BITS"
    );
}

#[test]
fn exhausted_addresses_are_reported() {
    let mut config = ControllerConfig::new(p4info::p4info(), Vec::new());
    config.group_range = GroupRange::new([10, 255, 0, 0].into(), 30).unwrap();
    let mut fabric = FakeFabric::with(testbed(), config);
    fabric.connect_all();
    fabric.register(&["h1", "h2"]).unwrap();
    fabric.register(&["h1", "h2"]).unwrap();
    assert_eq!(
        fabric.register(&["h1", "h2"]).unwrap_err().to_string(),
        "all addresses of 10.255.0.0/30 are in use; deregister a group, or set a larger range"
    );
}

#[test]
fn a_group_being_created_cannot_be_removed() {
    let mut fabric = FakeFabric::ready(testbed());
    fabric.switches[0].silent = true;
    let (tag, group) = (fabric.tag(), fabric.request(&["h1", "h2"]));
    fabric.handle(Event::Api(ApiRequest::Register { tag, group }));
    let mcst_id = fabric.controller.status().groups[0].mcst_id;
    let tag = fabric.tag();
    fabric.handle(Event::Api(ApiRequest::Deregister { tag, mcst_id }));
    assert!(matches!(
        fabric.said.pop(),
        Some(ApiReply::Failed {
            error: GroupError::Busy(_),
            ..
        })
    ));
}

#[test]
fn every_table_is_checked_before_the_first_write() {
    // The second leaf has two members and three paths of a group, and space for one such group and a few entries.
    let cases: [(&str, i64, &str, usize, usize); 4] = [
        ("ingress.group_lookup.groups", 1, "groups", 1, 0),
        ("ingress.group_lookup.mft", 5, "mft", 3, 2),
        ("ingress.bridge_entry.members", 3, "members", 2, 1),
        ("egress.bridge_exit.receivers", 3, "receivers", 2, 1),
    ];
    for (name, size, table, needed, left) in cases {
        let mut p4info = p4info::p4info();
        if table == "groups" {
            p4info = p4info::sized(1, 64);
        }
        let mut tables = p4info.tables.iter_mut();
        let found = tables.find(|t| t.preamble.as_ref().unwrap().name == name);
        found.unwrap().size = size;
        let config = ControllerConfig::new(p4info, b"{}".to_vec());
        let mut fabric = FakeFabric::with(leaf_spine(2, 1, 2).unwrap(), config);
        fabric.connect_all();
        fabric.register(&["h1", "h3", "h4"]).unwrap();
        fabric.said.clear();
        let before = fabric.contents();
        let updates: usize = fabric.switches.iter().map(|s| s.updates).sum();
        // The root of its tree is the first leaf, which has one of its members.
        let switch = match table {
            "groups" => "l1",
            _ => "l2",
        };
        let full = GroupError::SwitchFull {
            switch: switch.to_owned(),
            table,
            needed,
            left,
        };
        assert_eq!(fabric.register(&["h2", "h3", "h4"]), Err(full));
        assert_eq!(fabric.contents(), before, "{table}");
        let now: usize = fabric.switches.iter().map(|s| s.updates).sum();
        assert_eq!(now, updates, "{table}");
    }
}

#[test]
fn memory_region_registers_limit_the_receivers() {
    let mut p4info = p4info::p4info();
    p4info::register(&mut p4info, "egress.memory_regions.rkey").size = 3;
    let config = ControllerConfig::new(p4info, b"{}".to_vec());
    let mut fabric = FakeFabric::with(testbed(), config);
    fabric.connect_all();
    fabric.said.clear();
    fabric.register(&["h1", "h2"]).unwrap();
    let error = fabric.register(&["h1", "h2"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "switch s1 has no space for the group: table receivers needs 2 entries and has 1 free; \
         deregister groups, or compile p4src/ with larger sizes"
    );
}

/// A program of the core profile: groups of the default strategies, and nothing else.
#[test]
fn core_profile_has_groups_of_the_default_strategies_only() {
    let config = ControllerConfig::new(p4info::core(), b"{}".to_vec());
    let mut fabric = FakeFabric::with(testbed(), config.clone());
    fabric.connect_all();
    fabric.said.clear();
    fabric.register(&["h1", "h2"]).unwrap();
    let entries = fabric.contents().concat();
    let published = entries
        .iter()
        .any(|entry| entry.starts_with("table ingress.group_lookup.groups"));
    assert!(published, "{entries:?}");

    let walk = Strategies {
        min_psn: MinPsn::Walk,
        ..Strategies::default()
    };
    let config = ControllerConfig {
        strategies: walk,
        ..config
    };
    let error = Controller::new(testbed(), config).err().unwrap();
    assert_eq!(
        error.to_string(),
        "the P4 program of the switches supports min-psn `tree` only, not `walk`; \
         compile p4src/v1model without ALFIRK_PROFILE=PROFILE_CORE"
    );
}
