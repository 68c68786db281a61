use std::collections::BTreeSet;

use super::*;

/// A k = 4 fat-tree whose switches have a shared buffer of 4 MiB and use PFC.
fn lossless_fat_tree() -> Topology {
    let switching = Switching {
        buffer: Some(SharedBuffer {
            bytes: 4 << 20,
            alpha: Alpha::ONE,
        }),
        pfc: Some(Pfc::default()),
        ..Switching::default()
    };
    fat_tree(4).unwrap().with_switching(switching).unwrap()
}

/// The 8-port 3-tree of Zhou, Lin and Chung (section 4): links of 2 Gbit/s and 20 ns, input queues, lossless.
fn infiniband_tree() -> Topology {
    let text = m_port_n_tree(8, 3).unwrap().to_yaml();
    let (name, rest) = text.split_once('\n').unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    let own = "defaults: {rate: 2Gbps, delay: 20ns, mtu: 2200, queue: 64KiB}\n\
               switch: {queueing: input, pfc: {}}\n";
    Topology::from_yaml("t.yaml", &format!("{name}\n{own}{rest}")).unwrap()
}

fn good() -> Topology {
    Topology::from_yaml("t.yaml", GOOD).unwrap()
}

const GOOD: &str = r#"# A comment.
name: pair
defaults: {rate: 10Gbps, delay: 1us, mtu: 1500, queue: 64KiB}
switches:
  - {name: s1, id: 1}
  - {name: s2, id: 2}
hosts:
  - {name: h1, ip: 10.0.0.1/8, mac: "02:00:00:00:00:01"}
  - {name: h2, ip: 10.0.0.2/8, mac: "02:00:00:00:00:02"}
links:
  - {ends: [h1, "s1:1"]}
  - {ends: ["s1:2", "s2:1"], rate: 40Gbps, delay: 2us}
  - {ends: ["s2:2", h2], mtu: 9000}
"#;

#[test]
fn links_take_the_defaults_they_do_not_state() {
    let topology = good();
    let attributes: Vec<_> = topology.links().iter().map(|l| l.attributes).collect();
    let defaults = LinkAttributes {
        rate_bps: 10_000_000_000,
        delay_ns: 1_000,
        mtu: 1_500,
        queue_bytes: 65_536,
    };
    assert_eq!(
        attributes,
        [
            defaults,
            LinkAttributes {
                rate_bps: 40_000_000_000,
                delay_ns: 2_000,
                ..defaults
            },
            LinkAttributes {
                mtu: 9_000,
                ..defaults
            },
        ]
    );
}

#[test]
fn queries_work_from_both_ends_of_a_link() {
    let topology = good();
    let (h1, s1) = (
        topology.host_named("h1").unwrap(),
        topology.switch_named("s1").unwrap(),
    );
    assert_eq!(topology.attachment(h1), (s1, 1));
    assert_eq!(topology.hosts_on(s1).collect::<Vec<_>>(), [(1, h1)]);
    let neighbours: Vec<_> = topology
        .neighbours(s1)
        .iter()
        .map(|n| (n.port, topology.show_end(n.peer).to_string()))
        .collect();
    assert_eq!(neighbours, [(1, "h1".to_owned()), (2, "s2:1".to_owned())]);
    assert!(topology.neighbour_at(s1, 3).is_none());
    assert_eq!(topology.host_with_ip([10, 0, 0, 1].into()), Some(h1));
    assert_eq!(topology.switch_named("h1"), None);
}

#[test]
fn yaml_round_trips() {
    let topology = good();
    let text = topology.to_yaml();
    assert_eq!(Topology::from_yaml("t.yaml", &text), Ok(topology));
    assert_eq!(text, GOOD.split_once('\n').unwrap().1);
}

#[test]
fn names_that_look_like_other_yaml_types_round_trip() {
    let mut builder = Builder::new("null", LinkAttributes::default()).unwrap();
    builder.switch("no", 1).unwrap();
    let topology = builder.build().unwrap();
    assert_eq!(
        Topology::from_yaml("t.yaml", &topology.to_yaml()),
        Ok(topology)
    );
}

/// Replaces one part of the valid file, and returns the error.
fn broken(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    Topology::from_yaml("t.yaml", &text)
        .unwrap_err()
        .to_string()
}

#[test]
fn errors_have_a_line_and_a_remedy() {
    let cases = [
        ("name: s2", "name: s1"),
        ("name: h2", "name: s1"),
        ("name: s2, id: 2", "name: s2, id: 1"),
        ("name: s2, id: 2", "name: s2, id: 0"),
        ("name: s2, id: 2", "name: s2, id: -2"),
        ("name: s2", "name: \"2:s\""),
        ("10.0.0.2/8", "10.0.0.1/8"),
        ("10.0.0.2/8", "10.0.0.2"),
        ("10.0.0.2/8", "10.0.0.0/8"),
        ("10.0.0.2/8", "224.0.0.1/8"),
        ("10.0.0.2/8", "10.0.0.2/33"),
        ("02:00:00:00:00:02", "02:00:00:00:00:01"),
        ("02:00:00:00:00:02", "02:00:00:00:00"),
        ("02:00:00:00:00:02", "01:00:00:00:00:02"),
        ("h1, \"s1:1\"", "h3, \"s1:1\""),
        ("h1, \"s1:1\"", "h1, s1"),
        ("h1, \"s1:1\"", "h1, \"s1:x\""),
        ("h1, \"s1:1\"", "h1, \"s1:510\""),
        ("h1, \"s1:1\"", "\"h1:1\", \"s1:1\""),
        ("h1, \"s1:1\"", "h1"),
        ("h1, \"s1:1\"", "h1, h2"),
        ("\"s2:2\", h2", "\"s2:1\", h2"),
        ("\"s2:2\", h2", "\"s2:2\", h1"),
        ("\"s2:2\", h2", "\"s2:2\", \"s2:3\""),
        ("  - {ends: [h1, \"s1:1\"]}\n", ""),
        ("[\"s1:2\", \"s2:1\"]", "[\"s1:2\", h2]"),
        ("40Gbps", "40"),
        ("40Gbps", "0bps"),
        ("delay: 2us", "delay: 2 hours"),
        ("queue: 64KiB", "queue: 1KiB"),
        ("mtu: 9000", "mtu: 20"),
        ("mtu: 9000", "mtu: big"),
        ("mtu: 9000", "mtus: 9000"),
        ("switches:", "swiches:"),
        ("  - {name: s1, id: 1}", "  - {name: s1, id: 1"),
        ("id: 2", "id: 2, id: 3"),
        ("mtu: 1500, ", "mtu: 1500, jitter: 1us, "),
    ];
    let shown: String = cases
        .iter()
        .map(|(from, to)| format!("{from} -> {to}\n  {}\n", broken(from, to)))
        .collect();
    insta::assert_snapshot!(shown);
}

/// The valid file with these switch parameters.
fn with_switch(text: &str) -> Result<Topology, String> {
    let text = GOOD.replacen("switches:", &format!("switch: {{{text}}}\nswitches:"), 1);
    Topology::from_yaml("t.yaml", &text).map_err(|error| error.to_string())
}

#[test]
fn switch_parameters_round_trip() {
    for text in [
        "queueing: output, buffer: 1MiB, alpha: 8",
        "queueing: output, buffer: 1MiB, alpha: 1/4, pfc: {class: 0, xoff: 40KiB, xon: 20KiB, headroom: 100KiB}",
        "queueing: output, pfc: {class: 3}",
        "queueing: input, speedup: 1",
        "queueing: voq, speedup: 2, pfc: {class: 7, xoff: 20KiB}",
    ] {
        let topology = with_switch(text).unwrap();
        let line = format!("switch: {{{text}}}\n");
        assert!(topology.to_yaml().contains(&line), "{}", topology.to_yaml());
        assert_eq!(
            Topology::from_yaml("t.yaml", &topology.to_yaml()),
            Ok(topology)
        );
    }
    assert_eq!(with_switch("queueing: output"), Ok(good()));
}

#[test]
fn errors_in_switch_parameters_have_a_remedy() {
    let cases = [
        "queueing: both",
        "speedup: 2",
        "queueing: voq, speedup: 0",
        "alpha: 2",
        "buffer: 1MiB, alpha: 0",
        "buffer: 1MiB, alpha: 0.5",
        "buffer: 10KiB",
        "buffer: 40KiB, pfc: {}",
        "queueing: input, buffer: 1MiB",
        "queueing: input, pfc: {headroom: 63KiB}",
        "pfc: {headroom: 1KiB}",
        "pfc: {class: 8}",
        "pfc: {xon: 8KiB}",
        "pfc: {xoff: 8KiB, xon: 9KiB}",
        "pfc: {xof: 8KiB}",
    ];
    let shown: String = cases
        .iter()
        .map(|case| format!("{case}\n  {}\n", with_switch(case).unwrap_err()))
        .collect();
    insta::assert_snapshot!(shown);
}

#[test]
fn headroom_covers_packets_that_arrive_after_a_pause() {
    let link = LinkAttributes::default();
    // 500 ns at 100 Gbit/s are 6,250 bytes per direction; in addition three full frames and a PAUSE.
    let needed = 2 * 6_250 + 3 * (4_200 + 18) + 84;
    assert_eq!(Pfc::default().headroom(&link), needed);
    let stated = Pfc {
        headroom: Some(9_000),
        ..Pfc::default()
    };
    assert_eq!(stated.headroom(&link), 9_000);
}

#[test]
fn flow_control_without_a_buffer_shares_the_queues_and_adds_headroom() {
    let topology = with_switch("pfc: {}").unwrap();
    let s1 = topology.switch_named("s1").unwrap();
    let links = || {
        topology
            .neighbours(s1)
            .iter()
            .map(|n| topology.link(n.link))
    };
    let headroom: u64 = links()
        .map(|l| Pfc::default().headroom(&l.attributes))
        .sum();
    let buffer = topology.buffer_of(s1).unwrap();
    assert_eq!(buffer.bytes, 2 * 65_536 + headroom);
    assert_eq!(good().buffer_of(s1), None);
}

#[test]
fn files_without_a_topology_are_rejected() {
    for text in [
        "",
        "[]",
        "name: x",
        "name: x\nswitches: []",
        "\u{0}",
        "a: &a [*a]",
    ] {
        assert!(Topology::from_yaml("t.yaml", text).is_err(), "{text:?}");
    }
}

#[test]
fn committed_files_are_the_generators_output() {
    let files = [
        ("testbed.yaml", testbed()),
        ("fat-tree-k4.yaml", fat_tree(4).unwrap()),
        ("leaf-spine.yaml", leaf_spine(4, 2, 4).unwrap()),
        ("fat-tree-k4-lossless.yaml", lossless_fat_tree()),
        ("n-tree-8-3-infiniband.yaml", infiniband_tree()),
    ];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies");
    for (file, topology) in files {
        let path = folder.join(file);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, topology.to_yaml()).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            topology.to_yaml(),
            "{file}: set UPDATE_EXPECT=1 to rewrite it"
        );
        assert_eq!(Topology::from_yaml(file, &text), Ok(topology));
    }
}

#[test]
fn generators_reject_sizes_out_of_range() {
    for k in [0, 1, 3, 130] {
        assert!(fat_tree(k).is_err());
    }
    assert_eq!(
        fat_tree(5).unwrap_err().to_string(),
        "fat-tree: k = 5 is out of range; it must be even and 2 to 128"
    );
    for (k, pods) in [(64, 0), (64, 1), (64, 3), (64, 6), (64, 128), (5, 2)] {
        assert!(fat_tree_of_pods(k, pods).is_err());
    }
    assert_eq!(
        fat_tree_of_pods(64, 24).unwrap_err().to_string(),
        "fat-tree: pods = 24 is out of range; it must be even and divide k"
    );
    for edges in [0, 3, 64] {
        let shape = FatTreeShape {
            edges,
            ..FatTreeShape::whole(64)
        };
        assert!(shape.build().is_err());
    }
    for hosts in [0, 1, 256] {
        assert!(mesh(hosts).is_err());
    }
    assert!(leaf_spine(0, 1, 1).is_err());
    assert!(leaf_spine(1, 1, 255).is_err());
    assert!(m_port_n_tree(3, 2).is_err());
    assert!(m_port_n_tree(4, 0).is_err());
    assert_eq!(
        m_port_n_tree(64, 16).unwrap_err(),
        GenerateError::TooManyHosts {
            topology: "m-port n-tree",
            hosts: u64::MAX,
            limit: 16_581_120
        }
    );
}

#[test]
fn a_fat_tree_has_the_expected_sizes_and_paths() {
    for k in [2, 4, 8] {
        let topology = fat_tree(k).unwrap();
        let k = k as usize;
        assert_eq!(topology.hosts().len(), k * k * k / 4);
        assert_eq!(topology.switches().len(), 5 * k * k / 4);
        for switch in topology.switch_indexes() {
            let ports: Vec<_> = topology.neighbours(switch).iter().map(|n| n.port).collect();
            assert_eq!(ports, (1..=k as u32).collect::<Vec<_>>());
        }
        let paths = Paths::new(&topology);
        let first = topology.host_named("h1").unwrap();
        let last = HostIndex(topology.hosts().len() - 1);
        assert_eq!(count_paths(&topology, &paths, first, last), k * k / 4);
        let (edge, _) = topology.attachment(last);
        assert_eq!(paths.distance(topology.attachment(first).0, last), 5);
        assert_eq!(paths.distance(edge, last), 1);
    }
}

#[test]
fn core_links_are_those_of_the_switches_farthest_from_hosts() {
    let named = |topology: &Topology| -> Vec<String> {
        let links = topology.core_links().into_iter();
        let ends = links.map(|link| topology.link(link).ends);
        let names = ends.map(|ends| ends.map(|end| topology.name_of(end.node)).join("-"));
        names.collect()
    };
    let fat = named(&fat_tree(4).unwrap());
    assert_eq!(fat.len(), 16);
    assert!(fat
        .iter()
        .all(|name| name.contains('c') && !name.contains('h')));
    assert_eq!(named(&leaf_spine(2, 2, 1).unwrap()).len(), 4);
    assert_eq!(named(&testbed()).len(), testbed().hosts().len());
}

#[test]
fn a_fat_tree_with_fewer_pods_has_full_bisection_bandwidth() {
    for (k, pods) in [(8, 2), (8, 4), (12, 4), (64, 2)] {
        let topology = fat_tree_of_pods(k, pods).unwrap();
        assert_eq!(topology.hosts().len() as u32, pods * k * k / 4);
        assert_eq!(topology.switches().len() as u32, pods * k + pods * k / 4);
        for switch in topology.switch_indexes() {
            let ports: Vec<_> = topology.neighbours(switch).iter().map(|n| n.port).collect();
            assert_eq!(ports, (1..=k).collect::<Vec<_>>());
        }
        let paths = Paths::new(&topology);
        let last = HostIndex(topology.hosts().len() - 1);
        // One path over each of k/2 aggregation switches and each of its k/2 uplinks, and k/pods parallel links down.
        let ways = count_paths(&topology, &paths, HostIndex(0), last);
        assert_eq!(ways as u32, k * k / 4 * (k / pods));
    }
    assert_eq!(fat_tree_of_pods(8, 8), fat_tree(8));
    assert_eq!(fat_tree_of_pods(8, 4).unwrap().name(), "fat-tree-k8-pods4");
}

fn fat_tree_of_pods(k: u32, pods: u32) -> Result<Topology, GenerateError> {
    let whole = FatTreeShape::whole(k);
    FatTreeShape { pods, ..whole }.build()
}

#[test]
fn pods_with_few_edge_switches_have_parallel_links() {
    // 1,024 hosts in three layers of switches with 64 ports, as Cepheus simulates them.
    let shape = FatTreeShape {
        k: 64,
        pods: 4,
        edges: 8,
    };
    let topology = shape.build().unwrap();
    assert_eq!(topology.name(), "fat-tree-k64-pods4-edges8");
    assert_eq!(topology.hosts().len(), 1_024);
    assert_eq!(topology.switches().len(), 32 + 32 + 16);
    assert_eq!(topology.links().len(), 3 * 1_024);
    for switch in topology.switch_indexes() {
        let ports: Vec<_> = topology.neighbours(switch).iter().map(|n| n.port).collect();
        assert_eq!(ports, (1..=64).collect::<Vec<_>>());
    }
    let paths = Paths::new(&topology);
    let distance = |from: usize, to: usize| {
        let (edge, _) = topology.attachment(HostIndex(from));
        paths.distance(edge, HostIndex(to))
    };
    assert_eq!(
        (distance(0, 31), distance(0, 32), distance(0, 256)),
        (1, 3, 5)
    );
    // 8 x 4 choices up to an aggregation switch, 32 from there to the core, 16 down to the pod, 4 to the edge switch.
    assert_eq!(
        count_paths(&topology, &paths, HostIndex(0), HostIndex(256)),
        32 * 32 * 16 * 4
    );
}

#[test]
fn any_two_hosts_of_a_mesh_have_a_link_of_their_own() {
    let topology = mesh(5).unwrap();
    assert_eq!((topology.hosts().len(), topology.switches().len()), (5, 5));
    assert_eq!(topology.links().len(), 5 + 5 * 4 / 2);
    for switch in topology.switch_indexes() {
        let ports: Vec<_> = topology.neighbours(switch).iter().map(|n| n.port).collect();
        assert_eq!(ports, [1, 2, 3, 4, 5]);
        let mut others: Vec<_> = topology
            .neighbours(switch)
            .iter()
            .map(|n| n.peer.node)
            .collect();
        others.sort_unstable();
        others.dedup();
        assert_eq!(others.len(), 5);
    }
    let slow = topology.clone().with_rate(LinkIndex(7), 1_000);
    assert_eq!(slow.link(LinkIndex(7)).attributes.rate_bps, 1_000);
    assert_eq!(slow.link(LinkIndex(6)), topology.link(LinkIndex(6)));
}

#[test]
fn a_fat_tree_of_16384_hosts_has_enough_addresses() {
    let topology = fat_tree_of_pods(64, 16).unwrap();
    assert_eq!(topology.hosts().len(), 16_384);
    assert_eq!(topology.switches().len(), 512 + 512 + 256);
    assert_eq!(topology.links().len(), 3 * 16_384);
    let text = topology.to_yaml();
    assert_eq!(Topology::from_yaml("its own", &text), Ok(topology));
}

#[test]
fn an_m_port_n_tree_has_the_expected_sizes_and_paths() {
    for (m, n) in [(4, 1), (4, 2), (4, 3), (8, 2), (2, 3), (6, 3)] {
        let topology = m_port_n_tree(m, n).unwrap();
        let half = (m / 2) as usize;
        assert_eq!(topology.hosts().len(), 2 * half.pow(n));
        assert_eq!(
            topology.switches().len(),
            (2 * n as usize - 1) * half.pow(n - 1)
        );
        for switch in topology.switch_indexes() {
            let ports: Vec<_> = topology.neighbours(switch).iter().map(|n| n.port).collect();
            assert_eq!(ports, (1..=m).collect::<Vec<_>>());
        }
        let paths = Paths::new(&topology);
        let ends = (HostIndex(0), HostIndex(topology.hosts().len() - 1));
        assert_eq!(
            count_paths(&topology, &paths, ends.0, ends.1),
            half.pow(n - 1)
        );
    }
}

/// Counts the shortest paths between two hosts, and checks each.
fn count_paths(topology: &Topology, paths: &Paths, from: HostIndex, to: HostIndex) -> usize {
    fn walk(topology: &Topology, paths: &Paths, at: SwitchIndex, to: HostIndex) -> usize {
        let ports = paths.next_hops(at, to);
        assert!(ports.is_sorted() && !ports.is_empty());
        ports
            .iter()
            .map(
                |port| match topology.neighbour_at(at, *port).unwrap().peer.node {
                    Node::Host(host) => {
                        assert_eq!(host, to);
                        1
                    }
                    Node::Switch(next) => {
                        assert_eq!(paths.distance(next, to) + 1, paths.distance(at, to));
                        walk(topology, paths, next, to)
                    }
                },
            )
            .sum()
    }
    walk(topology, paths, topology.attachment(from).0, to)
}

#[test]
fn leaf_switches_reach_each_other_by_every_spine() {
    let topology = leaf_spine(3, 2, 2).unwrap();
    let paths = Paths::new(&topology);
    let (first, last) = (
        topology.host_named("h1").unwrap(),
        topology.host_named("h6").unwrap(),
    );
    let (leaf, _) = topology.attachment(first);
    assert_eq!(paths.next_hops(leaf, last), [3, 4]);
    assert_eq!(paths.next_hops(leaf, first), [1]);
    let ips: BTreeSet<_> = topology.hosts().iter().map(|h| h.ip).collect();
    assert_eq!(ips.len(), 6);
}
