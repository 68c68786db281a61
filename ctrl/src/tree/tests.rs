use proptest::prelude::*;

use super::*;
use crate::topology::n_tree::NTree;
use crate::topology::{
    fat_tree, leaf_spine, m_port_n_tree, testbed, Builder, End, Host, LinkAttributes, LinkIndex,
    MacAddr, Paths,
};

fn grow(topology: &Topology, loads: &PortLoads, members: &[HostIndex]) -> Tree {
    grow_by(Policy::ReuseLeastLoaded, topology, loads, members)
}

fn grow_by(policy: Policy, topology: &Topology, loads: &PortLoads, members: &[HostIndex]) -> Tree {
    let paths = Paths::new(topology);
    let view = View {
        topology,
        paths: &paths,
        loads,
    };
    let planner = Planner::new(policy, topology).unwrap();
    Tree::grow(&planner, &view, members)
}

/// Checks that the ports form a tree whose leaves are exactly the members.
fn assert_spans(topology: &Topology, tree: &Tree, members: &[HostIndex]) {
    let mut hosts = Vec::new();
    let mut links = BTreeSet::new();
    for (switch, port) in tree.ports() {
        let neighbour = topology.neighbour_at(switch, port).unwrap();
        match neighbour.peer.node {
            Node::Host(host) => hosts.push(host),
            Node::Switch(next) => {
                assert!(
                    tree.has_port(next, neighbour.peer.port),
                    "a link with one end"
                );
                links.insert(neighbour.link);
            }
        }
    }
    hosts.sort();
    let mut expected = members.to_vec();
    expected.sort();
    assert_eq!(hosts, expected);
    // A connected graph with one switch more than links is a tree.
    let switches = tree.switches().count();
    assert_eq!(links.len() + 1, switches);
    let mut seen = BTreeSet::new();
    let mut todo = vec![topology.attachment(members[0]).0];
    while let Some(switch) = todo.pop() {
        if seen.insert(switch) {
            for port in &tree.ports[&switch] {
                if let Node::Switch(next) = topology.neighbour_at(switch, *port).unwrap().peer.node
                {
                    todo.push(next);
                }
            }
        }
    }
    assert_eq!(seen.len(), switches);
    // A switch with one port would lead to no member.
    assert!(tree.switches().all(|(_, ports)| ports.len() >= 2));
}

#[test]
fn one_core_switch_carries_a_group_of_all_hosts() {
    let topology = fat_tree(4).unwrap();
    let members: Vec<_> = topology.host_indexes().collect();
    let tree = grow(&topology, &PortLoads::default(), &members);
    assert_spans(&topology, &tree, &members);
    let names: Vec<_> = tree
        .switches()
        .map(|(switch, _)| topology.switch(switch).name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "p1e1", "p1e2", "p2e1", "p2e2", "p3e1", "p3e2", "p4e1", "p4e2", "p1a1", "p2a1", "p3a1",
            "p4a1", "c1"
        ]
    );
}

#[test]
fn groups_are_spread_over_the_core() {
    let topology = fat_tree(4).unwrap();
    let members: Vec<_> = topology.host_indexes().collect();
    let mut loads = PortLoads::default();
    let mut cores = BTreeSet::new();
    for _ in 0..4 {
        let tree = grow(&topology, &loads, &members);
        cores.extend(
            tree.switches()
                .map(|(switch, _)| topology.switch(switch).name.clone())
                .filter(|name| name.starts_with('c')),
        );
        loads.add(&tree);
    }
    assert_eq!(cores.len(), 4, "{cores:?}");
}

#[test]
fn a_thousand_groups_balance_the_links_of_a_layer() {
    let topology = fat_tree(8).unwrap();
    let hosts = topology.hosts().len();
    let mut loads = PortLoads::default();
    for group in 0..1_000 {
        // Strides without a common factor with the number of hosts spread the members over the fabric.
        let (first, stride) = (group * 7 % hosts, 2 * (group % 60) + 1);
        let members = (0..16).map(|n| HostIndex((first + n * stride) % hosts));
        loads.add(&grow(&topology, &loads, &members.collect::<Vec<_>>()));
    }
    // Load of the core switches' ports to each pod, and of the edge switches' uplinks.
    for prefix in ["c", "p1e"] {
        let mut counts = Vec::new();
        for switch in topology.switch_indexes() {
            if topology.switch(switch).name.starts_with(prefix) {
                let ports = topology.neighbours(switch).iter();
                let up = ports.filter(|n| matches!(n.peer.node, Node::Switch(_)));
                counts.extend(up.map(|n| loads.groups(switch, n.port)));
            }
        }
        let mean = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
        let most = f64::from(*counts.iter().max().unwrap());
        assert!(most < 1.25 * mean, "{prefix}: {most} of {mean}: {counts:?}");
    }
}

#[test]
fn a_removed_group_leaves_no_load() {
    let topology = testbed();
    let members: Vec<_> = topology.host_indexes().collect();
    let mut loads = PortLoads::default();
    let tree = grow(&topology, &loads, &members);
    loads.add(&tree);
    assert_eq!(loads.groups(SwitchIndex(0), 1), 1);
    loads.remove(&tree);
    assert_eq!(loads, PortLoads::default());
}

#[test]
fn policies_are_parsed_by_name() {
    for policy in Policy::ALL {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    assert_eq!(
        "random".parse::<Policy>().unwrap_err().to_string(),
        "there is no tree policy `random`; use reuse-least-loaded, cyclic or spanning"
    );
}

/// The host whose label has these digits.
fn labelled(topology: &Topology, digits: &str) -> HostIndex {
    let labels = NTree::recognise(topology).unwrap();
    let label = digits.parse().unwrap();
    let mut hosts = topology.host_indexes();
    hosts.find(|host| *labels.host(*host) == label).unwrap()
}

#[test]
fn the_cyclic_tree_of_p000_has_the_ports_of_section_3_3_2() {
    let topology = m_port_n_tree(4, 3).unwrap();
    let members = ["000", "200", "201", "210", "211"].map(|p| labelled(&topology, p));
    let tree = grow_by(Policy::Cyclic, &topology, &PortLoads::default(), &members);
    assert_spans(&topology, &tree, &members);
    let labels = NTree::recognise(&topology).unwrap();
    let found: BTreeMap<String, Vec<u32>> = tree
        .switches()
        .map(|(switch, ports)| {
            (
                labels.switch(switch).to_string(),
                ports.iter().copied().collect(),
            )
        })
        .collect();
    // The output ports listed in the paper, and the input ports of the packet.
    let expected = [
        ("SW<00,0>", vec![1, 3]),
        ("SW<00,1>", vec![1, 3]),
        ("SW<00,2>", vec![1, 3]),
        ("SW<20,1>", vec![1, 2, 3]),
        ("SW<20,2>", vec![1, 2, 3]),
        ("SW<21,2>", vec![1, 2, 3]),
    ];
    assert_eq!(
        found,
        expected
            .map(|(name, ports)| (name.to_owned(), ports))
            .into()
    );
}

#[test]
fn cyclic_trees_are_the_unions_of_the_paths_for_every_pair_and_leader() {
    for (m, n) in [(2, 3), (4, 1), (4, 2), (4, 3), (6, 2)] {
        let topology = m_port_n_tree(m, n).unwrap();
        let labels = NTree::recognise(&topology).unwrap();
        let hosts: Vec<_> = topology.host_indexes().collect();
        for leader in &hosts {
            for second in hosts.iter().filter(|host| *host != leader) {
                let step = (second.0 + 1) % 3 + 1;
                let mut members = vec![*leader, *second];
                let others = hosts.iter().step_by(step).filter(|h| !members.contains(h));
                let others: Vec<_> = others.copied().collect();
                members.extend(others);
                let tree = grow_by(Policy::Cyclic, &topology, &PortLoads::default(), &members);
                assert_spans(&topology, &tree, &members);
                let table = labels.shape().multicast(
                    labels.host(*leader),
                    members.iter().map(|member| labels.host(*member)),
                );
                for (switch, ports) in tree.switches() {
                    let table = &table[labels.switch(switch)];
                    assert!(table.is_subset(ports));
                    // The tree also has the port through which the leader's packets arrive.
                    assert_eq!(ports.len(), table.len() + 1);
                }
                assert_eq!(tree.switches().count(), table.len());
            }
        }
    }
}

#[test]
fn cyclic_trees_are_spread_over_the_top_and_spanning_trees_are_not() {
    let topology = m_port_n_tree(8, 3).unwrap();
    let hosts: Vec<_> = topology.host_indexes().collect();
    let tops = |policy| {
        let mut tops = BTreeSet::new();
        for leader in 0..16 {
            // Members in all subtrees of the top level.
            let members: Vec<_> = (0..8).map(|n| hosts[(leader + 16 * n) % 128]).collect();
            let tree = grow_by(policy, &topology, &PortLoads::default(), &members);
            assert_spans(&topology, &tree, &members);
            let names = tree
                .switches()
                .map(|(s, _)| topology.switch(s).name.clone());
            tops.extend(names.filter(|name| name.starts_with("l0")));
        }
        tops
    };
    assert_eq!(tops(Policy::Cyclic).len(), 16);
    assert_eq!(tops(Policy::Spanning), BTreeSet::from(["l0s1".to_owned()]));
}

#[test]
fn the_root_of_a_spanning_tree_minimises_the_distance_to_the_farthest_member() {
    let topology = fat_tree(4).unwrap();
    let named = |names: &[&str]| -> Vec<HostIndex> {
        let hosts = names.iter().map(|name| topology.host_named(name));
        hosts.collect::<Option<_>>().unwrap()
    };
    for (members, switches) in [
        (&["h1", "h2"][..], &["p1e1"][..]),
        (&["h4", "h1"], &["p1e1", "p1e2", "p1a1"]),
        (&["h16", "h1"], &["p1e1", "p4e2", "p1a1", "p4a1", "c1"]),
    ] {
        let members = named(members);
        let tree = grow_by(Policy::Spanning, &topology, &PortLoads::default(), &members);
        assert_spans(&topology, &tree, &members);
        let found = tree
            .switches()
            .map(|(s, _)| topology.switch(s).name.as_str());
        assert_eq!(found.collect::<Vec<_>>(), switches);
    }
}

#[test]
fn the_cyclic_policy_rejects_other_networks_than_n_trees() {
    let refusal = Planner::new(Policy::Cyclic, &leaf_spine(4, 2, 4).unwrap()).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "tree policy cyclic: topology leaf-spine-4x2x4 is not an m-port n-tree (no n-tree has 16 hosts, 24 links and 6 \
         switches of 6 ports); `alfirk topology n-tree --ports M --levels N` makes one; reuse-least-loaded and \
         spanning take any network"
    );
}

/// Any connected network: a random tree of switches with extra links, and hosts anywhere.
fn random_network() -> impl Strategy<Value = Topology> {
    (2usize..12)
        .prop_flat_map(|switches| {
            (
                proptest::collection::vec(any::<prop::sample::Index>(), switches - 1),
                proptest::collection::vec((0..switches, 0..switches), 0..20),
                proptest::collection::vec(0..switches, 2..16),
            )
        })
        .prop_map(|(parents, extra, hosts)| {
            let mut builder = Builder::new("random", LinkAttributes::default()).unwrap();
            let mut ports = Vec::new();
            for n in 0..=parents.len() {
                builder.switch(format!("s{n}"), n as u64 + 1).unwrap();
                ports.push(0);
            }
            let mut end = |switch: usize| {
                ports[switch] += 1;
                End::switch(SwitchIndex(switch), ports[switch])
            };
            let tree = parents
                .iter()
                .enumerate()
                .map(|(n, p)| (n + 1, p.index(n + 1)));
            for (a, b) in tree.chain(extra.into_iter().filter(|(a, b)| a != b)) {
                builder.link(end(a), end(b)).unwrap();
            }
            for (n, switch) in (1u8..).zip(hosts) {
                let host = builder
                    .host(Host {
                        name: format!("h{n}"),
                        ip: [10, 0, 0, n].into(),
                        prefix_len: 8,
                        mac: MacAddr([2, 0, 0, 0, 0, n]),
                    })
                    .unwrap();
                builder.link(End::host(host), end(switch)).unwrap();
            }
            builder.build().unwrap()
        })
}

fn regular_network() -> impl Strategy<Value = Topology> {
    prop_oneof![
        Just(testbed()),
        Just(fat_tree(4).unwrap()),
        Just(fat_tree(6).unwrap()),
        Just(leaf_spine(4, 3, 5).unwrap()),
        Just(m_port_n_tree(4, 3).unwrap()),
    ]
}

proptest! {
    #[test]
    fn every_group_on_every_network_gets_a_tree(
        topology in prop_oneof![random_network(), regular_network()],
        policy in prop::sample::select(&[Policy::ReuseLeastLoaded, Policy::Spanning]),
        groups in proptest::collection::vec(proptest::collection::vec(any::<prop::sample::Index>(), 2..20), 1..6),
    ) {
        let mut loads = PortLoads::default();
        for group in groups {
            let mut members: Vec<HostIndex> = Vec::new();
            for index in group {
                let host = HostIndex(index.index(topology.hosts().len()));
                if !members.contains(&host) {
                    members.push(host);
                }
            }
            if members.len() < 2 {
                continue;
            }
            let tree = grow_by(policy, &topology, &loads, &members);
            assert_spans(&topology, &tree, &members);
            prop_assert_eq!(&tree, &grow_by(policy, &topology, &loads, &members));
            loads.add(&tree);
        }
    }

    #[test]
    fn every_policy_routes_around_failed_links_and_switches(
        topology in regular_network(),
        policy in prop::sample::select(&Policy::ALL),
        links in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        switches in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        group in proptest::collection::vec(any::<prop::sample::Index>(), 2..12),
        joiner in any::<prop::sample::Index>(),
    ) {
        let Ok(planner) = Planner::new(policy, &topology) else {
            prop_assert!(policy == Policy::Cyclic && topology.name().starts_with("leaf-spine"));
            return Ok(());
        };
        let links = links.iter().map(|i| LinkIndex(i.index(topology.links().len()))).collect();
        let switches = switches.iter().map(|i| SwitchIndex(i.index(topology.switches().len()))).collect();
        let paths = Paths::without(&topology, &links, &switches);
        let hosts = group.iter().map(|i| HostIndex(i.index(topology.hosts().len())));
        let leader = HostIndex(group[0].index(topology.hosts().len()));
        let (own, _) = topology.attachment(leader);
        let mut members: Vec<HostIndex> = Vec::new();
        for host in hosts.filter(|host| paths.reaches(own, *host)) {
            if !members.contains(&host) {
                members.push(host);
            }
        }
        if members.len() < 2 || members[0] != leader {
            return Ok(());
        }
        let view = View { topology: &topology, paths: &paths, loads: &PortLoads::default() };
        let is_whole = |tree: &Tree| tree.ports().all(|(switch, port)| {
            let neighbour = topology.neighbour_at(switch, port).unwrap();
            !links.contains(&neighbour.link) && !switches.contains(&switch)
        });
        let mut tree = Tree::grow(&planner, &view, &members);
        assert_spans(&topology, &tree, &members);
        prop_assert!(is_whole(&tree));
        // Each port leads to the hosts that the tree reports for it.
        for (switch, _) in tree.switches() {
            let found: BTreeSet<_> = tree.ports_to_hosts(&topology, switch).into_keys().collect();
            prop_assert_eq!(found, members.iter().copied().collect());
        }
        let joiner = HostIndex(joiner.index(topology.hosts().len()));
        if paths.reaches(own, joiner) && !members.contains(&joiner) {
            tree.extend(&planner, &view, leader, joiner);
            members.push(joiner);
            assert_spans(&topology, &tree, &members);
            prop_assert!(is_whole(&tree));
        }
    }
}
