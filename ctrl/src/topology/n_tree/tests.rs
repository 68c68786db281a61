use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::topology::{fat_tree, leaf_spine, m_port_n_tree, testbed, Node, Topology};

fn host(digits: &str) -> HostLabel {
    digits.parse().unwrap()
}

fn switch(digits: &str, level: u32) -> SwitchLabel {
    let HostLabel(digits) = host(digits);
    SwitchLabel { level, digits }
}

/// The fabric of the paper's examples.
fn ibft_4_3() -> Shape {
    Shape::new(4, 3).unwrap()
}

#[test]
fn definitions_match_the_values_of_section_3() {
    let shape = ibft_4_3();
    let (p200, p211) = (host("200"), host("211"));
    assert_eq!(shape.common_prefix(&p200, &p211), 1);
    assert_eq!((shape.rank(1, &p200), shape.rank(1, &p211)), (0, 3));
    assert_eq!((shape.pid(&p200), shape.pid(&p211)), (8, 11));
    assert_eq!(shape.host(11), p211);
}

#[test]
fn p300_has_the_lids_49_to_52() {
    let shape = ibft_4_3();
    assert_eq!(shape.lmc(), Ok(2));
    assert_eq!(shape.base_lid(&host("300")), 49);
    let owned = (1..=shape.lid_count()).filter(|lid| shape.owner(*lid) == Some(host("300")));
    assert_eq!(owned.collect::<Vec<_>>(), [49, 50, 51, 52]);
    assert_eq!((shape.owner(0), shape.owner(65)), (None, None));
}

#[test]
fn sources_of_one_cyclic_group_select_the_same_lid_of_p200() {
    let shape = ibft_4_3();
    for (lid, sources) in [
        (33, &["000", "100", "300", "210", "201"][..]),
        (34, &["001", "101", "301", "211"]),
        (35, &["010", "110", "310"]),
        (36, &["011", "111", "311"]),
    ] {
        for source in sources {
            let chosen = shape.select_lid(&host(source), &host("200"));
            assert_eq!(chosen, lid, "P({source})");
        }
    }
}

#[test]
fn the_ports_from_p000_are_those_of_section_3_3_2() {
    let shape = ibft_4_3();
    let ascent = [
        ("00", 2, 1),
        ("00", 2, 3),
        ("00", 1, 1),
        ("00", 1, 3),
        ("00", 0, 1),
        ("00", 0, 3),
        ("20", 1, 3),
    ];
    for (destination, lid, descent) in [
        ("200", 33, [("20", 1, 1), ("20", 2, 3), ("20", 2, 1)]),
        ("201", 37, [("20", 1, 1), ("20", 2, 3), ("20", 2, 2)]),
        ("210", 41, [("20", 1, 2), ("21", 2, 3), ("21", 2, 1)]),
        ("211", 45, [("20", 1, 2), ("21", 2, 3), ("21", 2, 2)]),
    ] {
        let (source, destination) = (host("000"), host(destination));
        assert_eq!(shape.select_lid(&source, &destination), lid);
        let traversed: Vec<_> = shape
            .path(&source, &destination)
            .into_iter()
            .flat_map(|hop| [(hop.switch.clone(), hop.ingress), (hop.switch, hop.egress)])
            .collect();
        let expected: Vec<_> = ascent
            .into_iter()
            .chain(descent)
            .map(|(digits, level, port)| (switch(digits, level), port))
            .collect();
        assert_eq!(traversed, expected, "to {destination}");
    }
}

#[test]
fn the_multicast_table_of_figure_7_is_the_union() {
    let destinations = ["200", "201", "210", "211"].map(host);
    let table = ibft_4_3().multicast(&host("000"), &destinations);
    let expected = BTreeMap::from([
        (switch("00", 2), BTreeSet::from([3])),
        (switch("00", 1), BTreeSet::from([3])),
        (switch("00", 0), BTreeSet::from([3])),
        (switch("20", 1), BTreeSet::from([1, 2])),
        (switch("20", 2), BTreeSet::from([1, 2])),
        (switch("21", 2), BTreeSet::from([1, 2])),
    ]);
    assert_eq!(table, expected);
}

#[test]
fn labels_are_displayed_as_in_the_paper_and_parsed() {
    assert_eq!(host("P(201)").to_string(), "P(201)");
    assert_eq!(switch("20", 1).to_string(), "SW<20,1>");
    assert_eq!(host("10.3.2"), HostLabel(vec![10, 3, 2]));
    assert_eq!(host("10.3.2").to_string(), "P(10.3.2)");
    for bad in ["", "P()", "P(20", "2x1", "1..2"] {
        assert!(bad.parse::<HostLabel>().is_err(), "{bad}");
    }
}

#[test]
fn lids_outside_infiniband_limits_are_rejected_with_a_remedy() {
    let lmc = |ports, levels| Shape::new(ports, levels).unwrap().lmc();
    assert_eq!(lmc(8, 3), Ok(4));
    assert_eq!(lmc(6, 3), Err(LidError::NoPowerOfTwo(9)));
    assert_eq!(lmc(16, 4), Err(LidError::TooManyPerHost(512)));
    assert_eq!(lmc(64, 2), Err(LidError::TooMany(65_536)));
}

#[test]
fn every_link_has_the_same_ends_from_above_and_below() {
    for (m, n) in [(2, 1), (2, 4), (4, 1), (4, 2), (4, 4), (6, 3), (8, 2)] {
        let shape = Shape::new(m, n).unwrap();
        let switches: BTreeSet<_> = shape.switches().collect();
        assert_eq!(switches.len() as u64, shape.switch_count());
        let mut links = 0;
        for lower in &switches {
            for port in 0..=m + 1 {
                if let Some(above) = shape.above(lower, port) {
                    assert!(switches.contains(&above.switch));
                    let back = shape.below(&above.switch, above.port);
                    assert_eq!(back, Some(Below::Switch(lower.clone(), port)));
                    links += 1;
                }
                if let Some(Below::Host(host)) = shape.below(lower, port) {
                    assert!(shape.has_host(&host));
                    assert_eq!(shape.leaf(&host), (lower.clone(), port));
                    links += 1;
                }
            }
        }
        assert_eq!(links, shape.link_count(), "m = {m}, n = {n}");
    }
}

/// Follows a packet through multicast tables; returns how often each host receives it.
///
/// Panics if a switch receives it twice, or sends it back.
fn deliver(
    shape: Shape,
    source: &HostLabel,
    table: &BTreeMap<SwitchLabel, BTreeSet<u32>>,
) -> BTreeMap<HostLabel, u32> {
    let mut delivered = BTreeMap::new();
    let mut entered = BTreeSet::new();
    let (leaf, port) = shape.leaf(source);
    let mut todo = vec![(leaf, port, true)];
    while let Some((at, ingress, is_ascent)) = todo.pop() {
        assert!(entered.insert(at.clone()), "{at} gets a packet twice");
        let ports = &table[&at];
        assert!(!ports.contains(&ingress), "{at} sends a packet back");
        let up = ports.iter().filter(|port| {
            shape.below(&at, **port).is_none() && shape.above(&at, **port).is_some()
        });
        let copies_up = up.count();
        assert!(copies_up <= 1, "{at} copies in the ascending phase");
        assert!(is_ascent || copies_up == 0, "{at} turns up again");
        for port in ports {
            match shape.below(&at, *port) {
                Some(Below::Host(host)) => *delivered.entry(host).or_insert(0) += 1,
                Some(Below::Switch(lower, ingress)) => todo.push((lower, ingress, false)),
                None => {
                    let above = shape.above(&at, *port).expect("a port of the tree");
                    todo.push((above.switch, above.port, true));
                }
            }
        }
    }
    assert_eq!(
        entered.len(),
        table.len(),
        "every switch of the table is used"
    );
    delivered
}

fn assert_delivers(shape: Shape, source: &HostLabel, group: &[HostLabel]) {
    let table = shape.multicast(source, group);
    let delivered = match table.is_empty() {
        true => BTreeMap::new(),
        false => deliver(shape, source, &table),
    };
    let others = group.iter().filter(|host| *host != source);
    let expected: BTreeMap<_, _> = others.map(|host| (host.clone(), 1)).collect();
    assert_eq!(delivered, expected, "from {source}");
}

#[test]
fn every_group_of_small_trees_has_a_loop_free_table_without_copies_upwards() {
    // All subsets of hosts, from every host.
    for (m, n) in [(2, 1), (2, 3), (4, 1), (4, 2), (6, 1)] {
        let shape = Shape::new(m, n).unwrap();
        let hosts: Vec<_> = shape.hosts().collect();
        for source in &hosts {
            for subset in 0..1u32 << hosts.len() {
                let chosen = hosts.iter().enumerate();
                let chosen = chosen.filter(|(i, _)| subset & 1 << i != 0);
                let group: Vec<_> = chosen.map(|(_, host)| host.clone()).collect();
                assert_delivers(shape, source, &group);
            }
        }
    }
    // All groups of one to three hosts, and all hosts.
    for (m, n) in [(4, 3), (6, 2), (8, 2)] {
        let shape = Shape::new(m, n).unwrap();
        let hosts: Vec<_> = shape.hosts().collect();
        for source in &hosts {
            assert_delivers(shape, source, &hosts);
            for a in &hosts {
                for b in &hosts {
                    for c in [a, &hosts[0], &hosts[hosts.len() - 1]] {
                        assert_delivers(shape, source, &[a.clone(), b.clone(), c.clone()]);
                    }
                }
            }
        }
    }
}

proptest::proptest! {
    #[test]
    fn every_group_of_large_trees_is_served_without_copy_on_the_way_up_and_without_loop(
        (half, n) in (1u32..=16, 1u32..=6)
            .prop_filter("up to 100,000 hosts", |(half, n)| 2 * half.pow(*n) <= 100_000),
        picks in proptest::collection::vec(proptest::prelude::any::<proptest::sample::Index>(), 2..40),
    ) {
        let shape = Shape::new(2 * half, n).unwrap();
        let mut group: Vec<_> = picks
            .iter()
            .map(|pick| shape.host(pick.index(shape.host_count() as usize) as u32))
            .collect();
        let source = group[0].clone();
        group.sort();
        group.dedup();
        assert_delivers(shape, &source, &group);
    }

    #[test]
    fn uplink_paths_of_hosts_at_one_leaf_share_no_link(half in 1u32..=8, n in 2u32..=4) {
        // The purpose of cyclic selection: all hosts of a leaf send at once to the other half of the fabric.
        let shape = Shape::new(2 * half, n).unwrap();
        let far = shape.host(shape.host_count() - 1);
        let mut used = BTreeSet::new();
        for source in (0..half).map(|pid| shape.host(pid)) {
            for hop in shape.path(&source, &far) {
                if shape.above(&hop.switch, hop.egress).is_some() {
                    proptest::prop_assert!(used.insert((hop.switch, hop.egress)));
                }
            }
        }
    }
}

use proptest::strategy::Strategy as _;

/// Checks for every pair of hosts that the tables of equations 1 and 2 lead over real links to the destination.
fn assert_labels_hold(topology: &Topology) -> NTree {
    let tree = NTree::recognise(topology).unwrap();
    let shape = tree.shape();
    for source in topology.host_indexes() {
        for destination in topology.host_indexes().filter(|d| *d != source) {
            let (from, to) = (tree.host(source), tree.host(destination));
            let lid = shape.select_lid(from, to);
            let mut at = topology.uplink(source).peer;
            let mut hops = Vec::new();
            while let Node::Switch(switch) = at.node {
                let label = tree.switch(switch);
                let egress = shape.output_port(label, lid).unwrap();
                hops.push(Hop {
                    switch: label.clone(),
                    ingress: at.port,
                    egress,
                });
                at = topology.neighbour_at(switch, egress).unwrap().peer;
            }
            assert_eq!(at.node, Node::Host(destination));
            assert_eq!(hops, shape.path(from, to));
        }
    }
    tree
}

#[test]
fn labels_of_a_generated_tree_are_in_the_order_of_its_nodes() {
    for (m, n) in [(2, 1), (2, 3), (4, 1), (4, 2), (4, 3), (6, 2)] {
        let topology = m_port_n_tree(m, n).unwrap();
        let tree = assert_labels_hold(&topology);
        let shape = tree.shape();
        let hosts = topology.host_indexes().map(|host| tree.host(host).clone());
        assert!(hosts.eq(shape.hosts()));
        let switches = topology.switch_indexes().map(|s| tree.switch(s).clone());
        assert!(switches.eq(shape.switches()));
    }
}

#[test]
fn fat_trees_and_single_switches_are_recognised_as_n_trees() {
    let tree = assert_labels_hold(&fat_tree(4).unwrap());
    assert_eq!(tree.shape(), ibft_4_3());
    assert_eq!(
        assert_labels_hold(&testbed()).shape(),
        Shape::new(4, 1).unwrap()
    );
}

#[test]
fn other_networks_are_rejected_with_a_reason() {
    let why = |topology: &Topology| NTree::recognise(topology).unwrap_err().to_string();
    assert_eq!(
        why(&leaf_spine(4, 2, 4).unwrap()),
        "topology leaf-spine-4x2x4 is not an m-port n-tree (no n-tree has 16 hosts, 24 links and 6 switches of 6 ports); \
         `alfirk topology n-tree --ports M --levels N` makes one"
    );
    // Two links of one switch are exchanged: the numbers of links are those of an n-tree, but the wiring is not.
    let text = m_port_n_tree(4, 3).unwrap().to_yaml();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let find = |end: &str| lines.iter().position(|line| line.contains(end)).unwrap();
    let (a, b) = (find("\"l1s1:3\""), find("\"l1s2:3\""));
    lines[a] = lines[a].replace("l1s1:3", "l1s2:3");
    lines[b] = lines[b].replace("l1s2:3", "l1s1:3");
    let crossed = Topology::from_yaml("crossed.yaml", &lines.join("\n")).unwrap();
    assert!(
        why(&crossed).contains("is not linked like any switch of an n-tree"),
        "{}",
        why(&crossed)
    );
}
