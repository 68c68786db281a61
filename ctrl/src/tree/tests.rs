use proptest::prelude::*;

use super::*;
use crate::topology::{
    fat_tree, leaf_spine, m_port_n_tree, testbed, Builder, End, Host, LinkAttributes, MacAddr,
    Paths,
};

fn grow(topology: &Topology, loads: &PortLoads, members: &[HostIndex]) -> Tree {
    let paths = Paths::new(topology);
    let view = View {
        topology,
        paths: &paths,
        loads,
    };
    Tree::grow(Policy::ReuseLeastLoaded, &view, members)
}

/// Checks that the ports make a tree whose leaves are exactly the members.
fn assert_spans(topology: &Topology, tree: &Tree, members: &[HostIndex]) {
    let mut hosts = Vec::new();
    let mut links = BTreeSet::new();
    for (switch, port) in tree.ports() {
        let neighbour = topology.behind(switch, port).unwrap();
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
    // Connected, and as many switches as links and one more: a tree.
    let switches = tree.switches().count();
    assert_eq!(links.len() + 1, switches);
    let mut seen = BTreeSet::new();
    let mut todo = vec![topology.attachment(members[0]).0];
    while let Some(switch) = todo.pop() {
        if seen.insert(switch) {
            for port in &tree.ports[&switch] {
                if let Node::Switch(next) = topology.behind(switch, *port).unwrap().peer.node {
                    todo.push(next);
                }
            }
        }
    }
    assert_eq!(seen.len(), switches);
    // A switch with one port would be a dead end.
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
fn groups_spread_over_the_core() {
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
fn a_thousand_groups_load_links_of_a_layer_alike() {
    let topology = fat_tree(8).unwrap();
    let hosts = topology.hosts().len();
    let mut loads = PortLoads::default();
    for group in 0..1_000 {
        // Strides that share no factor with the number of hosts scatter members all over.
        let (first, stride) = (group * 7 % hosts, 2 * (group % 60) + 1);
        let members = (0..16).map(|n| HostIndex((first + n * stride) % hosts));
        loads.add(&grow(&topology, &loads, &members.collect::<Vec<_>>()));
    }
    // What core switches carry towards each pod, and what edges carry upwards.
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
fn policies_are_known_by_name() {
    assert_eq!("reuse-least-loaded".parse(), Ok(Policy::ReuseLeastLoaded));
    assert_eq!(
        "random".parse::<Policy>().unwrap_err().to_string(),
        "there is no tree policy `random`; use reuse-least-loaded"
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
            let tree = grow(&topology, &loads, &members);
            assert_spans(&topology, &tree, &members);
            prop_assert_eq!(&tree, &grow(&topology, &loads, &members));
            loads.add(&tree);
        }
    }
}
