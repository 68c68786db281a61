//! Workloads: many transfers on one fabric, through the compiled pipelines.

use std::sync::Arc;

use alfirk_ctrl::topology::{fat_tree, leaf_spine, HostIndex, Topology};
use alfirk_experiment::workload::{Flow, FlowAlgorithm, Kind, Phase, Workload};
use alfirk_experiment::{run_workload, Job, Row};
use alfirk_roce::collective::{Algorithm, Collective};
use alfirk_sim::engine::FaultProbabilities;
use alfirk_test_budget::Cost;
use proptest::prelude::*;

use crate::common::{good, json, refused};
use crate::network::fabric;

fn workload(topology: &Topology, text: &str) -> Workload {
    let hosts: Vec<HostIndex> = topology.host_indexes().collect();
    let kind: Kind = text.parse().unwrap();
    kind.workload(&hosts, 1).unwrap()
}

/// Runs a workload, and checks that all receivers have every byte, and that no host received an implausible frame.
fn delivers(topology: &Topology, workload: &Workload, algorithm: Algorithm, loss: f64) -> Row {
    let mut fabric = fabric(topology, FaultProbabilities::lossy(loss), 1);
    let job = Job {
        time_limit: Some(20_000_000_000),
        ..Job::new(Vec::new(), Arc::from([]))
    };
    let run = run_workload(
        &mut fabric,
        topology,
        &job,
        workload,
        algorithm,
        &mut |_| {},
    );
    let row = run.unwrap_or_else(|error| panic!("{algorithm}: {error}"));
    let receivers: usize = workload.flows().map(|flow| flow.members.len() - 1).sum();
    assert_eq!((row.verified, row.receivers), (true, receivers), "{row:?}");
    assert_eq!(row.implausible_packets, 0, "{row:?}");
    for host in topology.host_indexes() {
        let node = fabric.network().host(host);
        assert_eq!(node.host().stats().violations.total(), 0, "{algorithm}");
        assert_eq!(
            node.host().qps().count(),
            0,
            "{algorithm} leaves queue pairs"
        );
    }
    row
}

#[test]
fn flows_of_every_algorithm_share_a_fabric_with_loss() {
    let topology = fat_tree(4).unwrap();
    let hpl = workload(&topology, "hpl:grid=4x4,panel=40KiB,swap=9KiB,epochs=3");
    let crowd = workload(&topology, "groups:count=24,size=6,bytes=20KiB");
    for algorithm in Collective::Broadcast.algorithms() {
        if !algorithm.needs_datagrams() {
            delivers(&topology, &hpl, algorithm, 0.005);
            delivers(&topology, &crowd, algorithm, 0.005);
        }
    }
}

#[test]
fn a_phase_begins_when_the_previous_one_ends() {
    let topology = fat_tree(4).unwrap();
    let phases = |text| {
        delivers(
            &topology,
            &workload(&topology, text),
            Algorithm::Alfirk,
            0.0,
        )
    };
    let row = phases("hpl:grid=4x4,panel=64KiB,swap=16KiB");
    let names: Vec<&str> = row.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["PB", "RS"]);
    let sum: u64 = row.phases.iter().map(|phase| phase.completion_ns).sum();
    assert_eq!(row.completion_ns, sum);
    // A phase takes at least as long as it does alone.
    let panel = phases("hpl:grid=1x4,panel=64KiB").phases[0].completion_ns;
    assert!(row.phases[0].completion_ns >= panel, "{row:?}");
}

#[test]
fn rows_without_shared_links_take_the_time_of_one() {
    // Each row is a rack.
    let topology = leaf_spine(4, 2, 4).unwrap();
    let rows = |text| {
        delivers(
            &topology,
            &workload(&topology, text),
            Algorithm::Alfirk,
            0.0,
        )
    };
    let all = rows("hpl:grid=4x4,panel=256KiB").phases[0].clone();
    let one = rows("hpl:grid=1x4,panel=256KiB").phases[0].clone();
    assert_eq!((all.flows, one.flows), (4, 1));
    assert_eq!(all.completion_ns, one.completion_ns);
    assert_eq!((all.fastest_ns, all.mean_ns), (one.fastest_ns, one.mean_ns));
}

#[test]
fn background_flows_slow_shared_links_and_are_not_awaited() {
    let topology = fat_tree(4).unwrap();
    let alone = workload(&topology, "groups:count=1,size=16,bytes=256KiB");
    let mut loaded = alone.clone();
    // The background load takes at least 2.7 ms: 8 times 4 MiB over one link of 100 Gbit/s.
    loaded.add_background(&workload(&topology, "incast:senders=8,bytes=4MiB"));
    let alone = delivers(&topology, &alone, Algorithm::Alfirk, 0.0);
    let mut fabric = fabric(&topology, FaultProbabilities::default(), 1);
    let job = Job::new(Vec::new(), Arc::from([]));
    let run = run_workload(
        &mut fabric,
        &topology,
        &job,
        &loaded,
        Algorithm::Alfirk,
        &mut |_| {},
    );
    let loaded = run.unwrap();
    assert!(loaded.verified);
    assert_eq!(loaded.receivers, 15);
    assert!(
        loaded.completion_ns > alone.completion_ns * 3 / 2,
        "{loaded:?}"
    );
    assert!(loaded.completion_ns < 2_684_354, "{loaded:?}");
}

#[test]
fn flow_begins_after_its_delay() {
    let topology = fat_tree(4).unwrap();
    let flow = |first: usize, after| Flow {
        members: vec![HostIndex(first), HostIndex(first + 1)],
        bytes: 1_000,
        by: FlowAlgorithm::Compared,
        messages: None,
        depth: None,
        after,
    };
    let workload = Workload {
        interval: None,
        phases: vec![Phase {
            name: "two".to_owned(),
            flows: vec![flow(0, 50_000), flow(4, 0)],
            background: Vec::new(),
            computing: 0,
        }],
    };
    let row = delivers(&topology, &workload, Algorithm::Unicast, 0.0);
    let phase = &row.phases[0];
    assert_eq!(phase.completion_ns, 50_000 + phase.fastest_ns);
}

#[test]
fn deeper_queues_increase_request_rate_and_latency() {
    let times = |depth: &str| {
        let workload = format!("storage:clients=2,requests=64,depth={depth}");
        let arguments = [
            "run",
            "--workload",
            &workload,
            "--op",
            "write-imm",
            "--json",
        ];
        let report = json(&arguments);
        ["alfirk", "unicast"].map(|name| {
            let rows = report["results"].as_array().unwrap();
            let row = rows.iter().find(|row| row["algorithm"] == name).unwrap();
            let requests = &row["requests"];
            assert_eq!(requests["count"], 128);
            let number = |key: &str| requests[key].as_u64().unwrap();
            (number("per_second"), number("p50_ns"), number("max_ns"))
        })
    };
    let (shallow, deep) = (times("1"), times("16"));
    for ((shallow, deep), name) in shallow.iter().zip(&deep).zip(["alfirk", "unicast"]) {
        assert!(deep.0 > shallow.0, "{name}: {shallow:?} {deep:?}");
        assert!(
            deep.1 >= shallow.1 && deep.2 > shallow.2,
            "{name}: {shallow:?} {deep:?}"
        );
    }
    // Three copies take three times as long if the link is the bottleneck.
    let ratio = deep[0].0 as f64 / deep[1].0 as f64;
    assert!((2.0..3.1).contains(&ratio), "{ratio}");
}

#[test]
fn same_seed_gives_the_same_bytes() {
    let run = |seed| {
        good(&[
            "run",
            "--workload",
            "groups:count=5,size=4,bytes=30KiB",
            "--background",
            "pairs:count=4",
            "--loss",
            "0.001",
            "--seed",
            seed,
            "--json",
        ])
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn invalid_workloads_are_rejected_with_one_line() {
    let cases: [(&[&str], &[&str]); 8] = [
        (
            &["--workload", "hlp"],
            &["--workload hlp: there is no workload `hlp`", "storage"],
        ),
        (
            &["--workload", "hpl:grid=5x5"],
            &["needs 25 hosts", "has 16"],
        ),
        (
            &["--workload", "groups:size=1"],
            &["size=1: give at least 2"],
        ),
        (
            &["--workload", "groups", "--background", "storage"],
            &["--background storage", "use incast or pairs"],
        ),
        (
            &["--workload", "storage", "--algorithms", "alfirk,chain"],
            &[
                "chain",
                "when a request completes",
                "use alfirk and unicast",
            ],
        ),
        (
            &["--workload", "groups", "--algorithms", "binomial-ack"],
            &["--workload: binomial-ack", "out of --algorithms"],
        ),
        (
            &["--workload", "groups", "--driver", "mininet"],
            &["use --driver virtual"],
        ),
        (
            &[
                "--queue-depth",
                "4",
                "--messages",
                "8",
                "--algorithms",
                "binomial",
            ],
            &["binomial", "use alfirk and unicast"],
        ),
    ];
    for (arguments, words) in cases {
        let all: Vec<&str> = ["run"].iter().chain(arguments).copied().collect();
        refused(2, &all, words);
    }
}

#[test]
fn every_listed_workload_can_be_requested() {
    let list = String::from_utf8(good(&["run", "--list-workloads"])).unwrap();
    assert_eq!(list.lines().count(), 8);
    for line in list.lines() {
        // HPL's lengths are given either directly or by the matrix; only with a matrix it computes.
        let by_length = line
            .replace(",n=16384,nb=128", "")
            .replace(",gflops=1000", "");
        let by_matrix = line.replace(",panel=1MiB,swap=1MiB", "");
        for text in [by_length, by_matrix] {
            assert!(text.parse::<Kind>().is_ok(), "{text}");
        }
    }
}

proptest! {
    #![proptest_config(Cost::Run.cases())]

    #[test]
    fn any_number_of_parallel_groups_delivers_every_byte(
        count in 1u32..40,
        size in 2u32..16,
        bytes in 1u32..60_000,
        loss in prop_oneof![Just(0.0), Just(0.01)],
        seed in 0u64..1_000,
    ) {
        let topology = fat_tree(4).unwrap();
        let hosts: Vec<HostIndex> = topology.host_indexes().collect();
        let kind = Kind::Groups { count, size, bytes: bytes.into() };
        let workload = kind.workload(&hosts, seed).unwrap();
        delivers(&topology, &workload, Algorithm::Alfirk, loss);
    }
}

/// A multicast shares first the port of one receiver and then that of another with a unicast.
#[test]
fn a_broadcast_and_a_unicast_share_a_port_equally() {
    let report = json(&[
        "run",
        "--model",
        "fast",
        "--workload",
        "fairness:members=6,bytes=16MiB,unicast=3MiB,second=200us,third=900us",
        "--throughput-every",
        "100us",
        "--algorithms",
        "alfirk",
        "--json",
    ]);
    let row = &report["results"][0];
    assert!(row["fairness"].as_f64().unwrap() > 0.95, "{row}");
    let throughput = &row["phases"][0]["throughput"];
    assert_eq!(throughput["interval_ns"], 100_000);
    let gbps = |flow: usize, at: usize| throughput["flows"][flow]["gbps"][at].as_f64().unwrap();
    assert!(gbps(0, 1) > 90.0);
    for (flow, at) in [(0, 4), (1, 4), (0, 11), (2, 11)] {
        assert!((45.0..55.0).contains(&gbps(flow, at)), "{flow} in {at}");
    }
    assert_eq!((gbps(1, 1), gbps(2, 4), gbps(1, 11)), (0.0, 0.0, 0.0));
    let bytes: f64 = throughput["flows"][1]["gbps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gbps| gbps.as_f64().unwrap() * 100_000.0 / 8.0)
        .sum();
    assert_eq!(bytes.round(), f64::from(3 << 20));
}

/// Two groups and two unicasts under 4:1 oversubscription, and twice as many to one receiver.
#[test]
fn groups_and_unicasts_share_a_bottleneck_fairly() {
    for workload in [
        "shared:groups=2,size=4,unicasts=2,bytes=3MiB",
        "shared:groups=4,size=4,unicasts=4,bytes=3MiB,meet=receiver",
    ] {
        let run = |congestion| {
            let report = json(&[
                "run",
                "--topology",
                "leaf-spine:4,1,4",
                "--model",
                "fast",
                "--workload",
                workload,
                "--throughput-every",
                "200us",
                "--congestion",
                congestion,
                "--algorithms",
                "alfirk",
                "--json",
            ]);
            let row = report["results"][0].clone();
            assert_eq!(row["verified"], true, "{row}");
            row
        };
        // Windows that share the bottleneck's queue use its full rate; DCQCN's first reductions are large, and the recovery takes milliseconds.
        for (congestion, least_gbps) in [("none", 90.0), ("dcqcn", 30.0)] {
            let row = run(congestion);
            let fairness = row["fairness"].as_f64().unwrap();
            assert!(fairness > 0.9, "{workload}, {congestion}: {fairness}");
            let gbps = row["goodput_gbps"].as_f64().unwrap();
            assert!(gbps > least_gbps, "{workload}, {congestion}: {gbps}");
        }
    }
}
