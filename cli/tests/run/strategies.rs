//! Every method of finding the minimum PSN and of keeping the ICRC valid, through the compiled pipelines.

use alfirk_ctrl::constants::RECOMPUTE_NETWORK;
use alfirk_ctrl::controller::{ControllerConfig, MemberSpec, RegisterGroup};
use alfirk_ctrl::ecn::EcnProfile;
use alfirk_ctrl::strategy::{IcrcMode, MinPsn, Strategies};
use alfirk_ctrl::topology::{fat_tree, leaf_spine, HostIndex, Topology};
use alfirk_experiment::{Fabric, Job, Kill, Row, Victim};
use alfirk_roce::collective::{Algorithm, TransferOp, WriteMode};
use alfirk_roce::dcqcn::DcqcnConfig;
use alfirk_roce::host::HostTiming;
use alfirk_roce::rc::{
    MemorySlice, PathMtu, Payload, RcConfig, RecvRequest, Remote, SendOperation, SendRequest,
};
use alfirk_roce::wire::{Psn, QpNum};
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::{Model, Network};
use alfirk_sim::VirtualFabric;

use crate::common::{good, json, TESTBED};
use crate::network::{fabric, job, pipeline, run};

pub const MIN_PSNS: [MinPsn; 3] = [MinPsn::Tree, MinPsn::Walk, MinPsn::Punt];
pub const ICRCS: [IcrcMode; 3] = [IcrcMode::Neutral, IcrcMode::Recompute, IcrcMode::Punt];

const LOSSY: FaultProbabilities = FaultProbabilities {
    loss: 0.01,
    duplicate: 0.01,
    reorder: 0.01,
    reorder_window: 3_000,
};

/// Virtual time of the restart in nanoseconds.
const RESTART_AT: u64 = 1_500_000;

/// Two leaves with nine paths each, which are three nodes of the tree, and three passes of a walk.
fn wide() -> Topology {
    leaf_spine(2, 1, 8).unwrap()
}

/// The job with these strategies.
pub fn by(min_psn: MinPsn, icrc: IcrcMode, job: Job) -> Job {
    Job {
        strategies: Strategies {
            min_psn,
            icrc,
            ..Strategies::default()
        },
        mcst_id: match icrc {
            IcrcMode::Recompute => RECOMPUTE_NETWORK.into(),
            _ => job.mcst_id,
        },
        ..job
    }
}

fn runs(topology: &Topology, faults: FaultProbabilities, job: &Job) -> Row {
    let mut fabric = fabric(topology, faults, job.seed);
    let what = || format!("{:?}, {:?}, seed {}", job.strategies, job.op, job.seed);
    let row = run(&mut fabric, topology, job, Algorithm::Alfirk);
    let row = row.unwrap_or_else(|error| panic!("{}: {error}", what()));
    assert!(row.verified, "{}", what());
    assert_eq!(row.implausible_packets, 0, "{}", what());
    row
}

#[test]
fn each_strategy_has_its_documented_cost() {
    let topology = wide();
    let work = |min_psn| {
        let job = by(min_psn, IcrcMode::Neutral, job(16, 300_000, 1));
        let row = runs(&topology, FaultProbabilities::default(), &job);
        (row.sender_acks, row.feedback_work.unwrap())
    };
    let (acks, tree) = work(MinPsn::Tree);
    assert_eq!((tree.recirculations, tree.punts), (0, 0));
    let (walk_acks, walk) = work(MinPsn::Walk);
    assert!(walk.recirculations > 0);
    // Of the three nodes, the ACK's first pass has read one.
    assert!(walk.recirculations <= 2 * walk.feedback);
    assert_eq!(walk.punts, 0);
    let (punt_acks, punt) = work(MinPsn::Punt);
    // There are no retransmissions, which would also be punted, as probes.
    assert_eq!(punt.punts, punt.feedback);
    assert_eq!(punt.recirculations, 0);
    // Receivers send the same feedback with both, and the source gets no more ACKs from the walk.
    assert_eq!(tree.feedback, walk.feedback);
    assert!(walk_acks <= acks);
    assert!(punt_acks > 0);
}

#[test]
fn every_strategy_delivers_every_operation_under_loss() {
    let topology = leaf_spine(2, 2, 3).unwrap();
    let mut seed = 0;
    for min_psn in MIN_PSNS {
        for icrc in ICRCS {
            for op in [TransferOp::Send, TransferOp::Write, TransferOp::WriteImm] {
                seed += 1;
                let job = Job {
                    op,
                    ..by(min_psn, icrc, job(6, 60_000, seed))
                };
                runs(&topology, LOSSY, &job);
                let lossless = runs(&topology, FaultProbabilities::default(), &job);
                assert_eq!(lossless.retransmissions, 0, "{min_psn} {icrc} {op:?}");
            }
        }
    }
}

/// Window and timeout include the delay of the controller, so that its replies are in time and the link is never idle.
#[test]
fn minimum_by_the_controller_costs_no_goodput_and_no_retransmissions() {
    let topology = fat_tree(4).unwrap();
    // Messages of more packets than can be outstanding.
    for (members, size) in [(4, 16 << 20), (16, 12 << 20)] {
        let runs = |min_psn| {
            let job = Job {
                mtu: PathMtu::B4096,
                ..by(min_psn, IcrcMode::Neutral, job(members, size, 1))
            };
            runs(&topology, FaultProbabilities::default(), &job)
        };
        let (tree, punt) = (runs(MinPsn::Tree), runs(MinPsn::Punt));
        assert_eq!(punt.retransmissions, 0, "{members} members");
        let goodput = |row: &Row| row.goodput_gbps.unwrap();
        assert!(
            goodput(&punt) > 0.9 * goodput(&tree),
            "{members} members: {} and {} Gbit/s",
            goodput(&punt),
            goodput(&tree)
        );
        let work = punt.feedback_work.unwrap();
        assert_eq!(work.punts, work.feedback);
    }
}

#[test]
fn a_message_continues_after_a_restart_of_the_controller_that_finds_minima() {
    let topology = leaf_spine(2, 1, 3).unwrap();
    for (seed, keeps_state) in [(1, true), (2, false)] {
        for (faults, size) in [(FaultProbabilities::default(), 24 << 20), (LOSSY, 2 << 20)] {
            let built = Network::build(&topology, pipeline(), Model::default(), faults, seed);
            let mut network = built.unwrap();
            // At this time the group is registered, and the message is being sent.
            network.restart_controller(RESTART_AT, keeps_state);
            let mut fabric = VirtualFabric::bring_up(network).unwrap();
            let begun = fabric.now();
            let job = Job {
                mtu: PathMtu::B4096,
                ..by(MinPsn::Punt, IcrcMode::Neutral, job(6, size, seed))
            };
            let row = run(&mut fabric, &topology, &job, Algorithm::Alfirk).unwrap();
            assert!(row.verified, "seed {seed}, {faults:?}");
            assert_eq!(row.implausible_packets, 0, "seed {seed}, {faults:?}");
            let registered = begun + row.registration_ns.unwrap();
            assert!(registered < RESTART_AT && fabric.now() > RESTART_AT);
            // Without a restart there would be no retransmissions.
            assert!(row.retransmissions > 0, "seed {seed}, {faults:?}");
        }
    }
}

#[test]
fn receivers_that_are_not_ready_are_retried() {
    let topology = leaf_spine(2, 2, 3).unwrap();
    for (min_psn, op) in
        MIN_PSNS
            .into_iter()
            .zip([TransferOp::Send, TransferOp::WriteImm, TransferOp::Send])
    {
        let job = Job {
            op,
            messages: Some(24),
            receives: Some(1),
            ..by(min_psn, IcrcMode::Neutral, job(6, 24 * 4096, 5))
        };
        let lossless = runs(&topology, FaultProbabilities::default(), &job);
        assert!(
            lossless.retransmissions > 0,
            "{min_psn}: no receiver sent an RNR NAK"
        );
        runs(&topology, LOSSY, &job);
    }
}

#[test]
fn regions_per_request_work_with_every_icrc_mode() {
    let topology = leaf_spine(2, 1, 2).unwrap();
    for icrc in ICRCS {
        let job = Job {
            op: TransferOp::WriteImm,
            write: WriteMode::PerRequest,
            ..by(MinPsn::Tree, icrc, job(4, 40_000, 3))
        };
        runs(&topology, FaultProbabilities::default(), &job);
        runs(&topology, LOSSY, &job);
    }
}

#[test]
fn sources_alternate_with_every_strategy() {
    let topology = leaf_spine(2, 1, 3).unwrap();
    for min_psn in MIN_PSNS {
        for switch_early in [false, true] {
            for seed in 1..=4 {
                let job = Job {
                    switch_source: 5,
                    switch_early,
                    ..by(min_psn, IcrcMode::Neutral, job(6, 60_000, seed))
                };
                runs(&topology, LOSSY, &job);
            }
        }
    }
}

#[test]
fn the_group_continues_without_a_failed_member_with_every_strategy() {
    let topology = leaf_spine(2, 1, 3).unwrap();
    for min_psn in MIN_PSNS {
        let job = Job {
            kills: vec![Kill {
                victim: Victim::Host(HostIndex(4)),
                name: "the fifth".to_string(),
                after: 10_000,
            }],
            time_limit: Some(20_000_000_000),
            ..by(min_psn, IcrcMode::Neutral, job(6, 200_000, 1))
        };
        let config = ControllerConfig {
            probe_interval_ns: 500_000,
            dead_member_ns: 5_000_000,
            ..pipeline()
        };
        let faults = FaultProbabilities::default();
        let network = Network::build(&topology, config, Model::default(), faults, 1).unwrap();
        let mut fabric = VirtualFabric::bring_up(network).unwrap();
        let row = run(&mut fabric, &topology, &job, Algorithm::Alfirk).unwrap();
        assert!(row.verified, "{min_psn}");
        assert_eq!(row.lost, [topology.host(HostIndex(4)).name.clone()]);
        assert!(row.failures[0].repaired_ns.is_some(), "{min_psn}");
    }
}

#[test]
fn groups_of_all_strategies_in_sequence_leave_no_state() {
    let topology = leaf_spine(2, 1, 2).unwrap();
    let mut fabric = fabric(&topology, FaultProbabilities::default(), 1);
    for min_psn in MIN_PSNS.into_iter().chain(MIN_PSNS) {
        let job = by(min_psn, IcrcMode::Neutral, job(4, 20_000, 1));
        let row = run(&mut fabric, &topology, &job, Algorithm::Alfirk).unwrap();
        assert!(row.verified, "{min_psn}");
    }
}

#[test]
fn the_report_has_the_cost_of_the_strategy() {
    let arguments = [
        "run",
        "--topology",
        TESTBED,
        "--size",
        "64KiB",
        "--min-psn",
        "punt",
    ];
    let arguments = [&arguments[..], &["--algorithms", "alfirk"]].concat();
    let table = String::from_utf8(good(&arguments)).unwrap();
    assert!(
        table.contains("ACKs at switches by punt: ") && table.contains(" and 1.000 punts for each"),
        "{table}"
    );
    let report = json(&[&arguments[..], &["--json"]].concat());
    let work = &report["results"][0]["feedback_work"];
    assert_eq!(work["punts"], work["feedback"]);
    assert_eq!(
        work["forwarded_upstream"],
        report["results"][0]["sender_acks"]
    );
}

/// Three receivers on links of 100, 50 and 20 Gbit/s; the source sends faster than the slower links.
const UNEQUAL: &str = r#"
name: unequal
defaults: {rate: 100Gbps, delay: 500ns, mtu: 4200, queue: 1MiB}
switches:
  - {name: s1, id: 1}
hosts:
  - {name: h1, ip: 10.0.0.1/8, mac: "02:00:00:00:00:01"}
  - {name: h2, ip: 10.0.0.2/8, mac: "02:00:00:00:00:02"}
  - {name: h3, ip: 10.0.0.3/8, mac: "02:00:00:00:00:03"}
  - {name: h4, ip: 10.0.0.4/8, mac: "02:00:00:00:00:04"}
links:
  - {ends: [h1, "s1:1"]}
  - {ends: [h2, "s1:2"]}
  - {ends: [h3, "s1:3"], rate: 50Gbps}
  - {ends: [h4, "s1:4"], rate: 20Gbps}
"#;

#[test]
fn only_cnps_of_the_most_congested_path_pass_the_filter() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("unequal.yaml");
    std::fs::write(&file, UNEQUAL).unwrap();
    let run = |ecn| {
        json(&[
            "run",
            "--topology",
            file.to_str().unwrap(),
            "--size",
            "16MiB",
            "--algorithms",
            "alfirk",
            "--congestion",
            "dcqcn",
            "--ecn",
            ecn,
            "--json",
        ])
    };
    let report = run("4,32,1");
    // Packets with a payload of 4,096 bytes are frames of 4,154 bytes.
    assert_eq!(run("16KiB,128KiB,1")["results"], report["results"]);
    let row = &report["results"][0];
    let count = |name: &str| row[name].as_u64().unwrap();
    assert!(count("marked_packets") > 0);
    assert!(count("cnps_filtered") > 0, "{row}");
    assert_eq!(
        count("cnps_sent"),
        count("cnps_filtered") + count("sender_cnps")
    );
    assert_eq!(count("retransmissions"), 0);
}

/// Samples the source's rate every 20 us during a message to all, and during a later one.
fn rates(topology: &Topology, ecn: Option<EcnProfile>) -> (Vec<f64>, Vec<f64>) {
    const SIZE: usize = 8 << 20;
    let config = ControllerConfig { ecn, ..pipeline() };
    let faults = FaultProbabilities::default();
    let network = Network::build(topology, config, Model::default(), faults, 1).unwrap();
    let mut fabric = VirtualFabric::bring_up(network).unwrap();
    let rc = RcConfig {
        ack_timeout: HostTiming::FAST.ack_timeout,
        congestion: Some(DcqcnConfig::new(100_000_000_000)),
        ..RcConfig::new(PathMtu::B4096)
    };
    let hosts: Vec<HostIndex> = topology.host_indexes().collect();
    let qpns: Vec<QpNum> = hosts
        .iter()
        .map(|host| fabric.network().on_nic(*host, |nic, _| nic.create_qp(rc)))
        .collect();
    let members = hosts.iter().zip(&qpns).map(|(host, qpn)| MemberSpec {
        ip: topology.host(*host).ip,
        qpn: *qpn,
        region: None,
        may_send: true,
    });
    let psn = Psn::new(0xff_fff0);
    let group = fabric.register(RegisterGroup {
        mcst_id: None,
        virtual_qpn: None,
        members: members.collect(),
        initial_psn: psn,
        strategies: Strategies::default(),
    });
    let group = group.unwrap();
    let remote = Remote {
        ip: group.mcst_id,
        qpn: group.remote_qpn,
    };
    for (host, qpn) in hosts.iter().zip(&qpns) {
        let network = fabric.network();
        network.on_nic(*host, |nic, now| {
            nic.join_at(*qpn, psn, 0).unwrap();
            nic.connect_qp(now, *qpn, remote, psn).unwrap();
        });
    }
    let (source, qpn) = (hosts[0], qpns[0]);
    let message = |fabric: &mut VirtualFabric| {
        for (host, qpn) in hosts.iter().zip(&qpns).skip(1) {
            fabric.network().on_nic(*host, |nic, _| {
                let key = nic.register_memory(SIZE as u64, false);
                let buffer = MemorySlice {
                    key,
                    offset: 0,
                    len: SIZE as u64,
                };
                nic.post_recv(*qpn, RecvRequest { wr_id: 0, buffer })
                    .unwrap();
            });
        }
        let request = SendRequest {
            wr_id: 0,
            operation: SendOperation::Send { immediate: None },
            payload: Payload::Bytes(vec![1; SIZE].into()),
        };
        let end = fabric.acknowledged_packets(source).unwrap() + (SIZE / 4096) as u64;
        let network = fabric.network();
        network.on_nic(source, |nic, _| nic.post_send(qpn, request).unwrap());
        let mut rates = Vec::new();
        while fabric.acknowledged_packets(source).unwrap() < end {
            let soon = fabric.now() + 20_000;
            assert!(soon < 1_000_000_000, "no end");
            fabric.network().run_until(soon);
            let nic = fabric.network().host(source).host();
            rates.push(nic.qp(qpn).unwrap().reaction().unwrap().rate());
        }
        rates
    };
    let first = message(&mut fabric);
    let later = fabric.now() + 100_000_000;
    fabric.network().run_until(later);
    (first, message(&mut fabric))
}

#[test]
fn the_rate_falls_while_paths_are_congested_and_recovers_afterwards() {
    let topology = Topology::from_yaml("unequal.yaml", UNEQUAL).unwrap();
    let least = |rates: &[f64]| rates.iter().copied().fold(f64::MAX, f64::min);
    let (first, second) = rates(&topology, Some(EcnProfile::default()));
    // The rate falls clearly below the line rate, and rises again during the message.
    let at = first.iter().position(|rate| *rate < 60e9);
    let at = at.unwrap_or_else(|| panic!("it falls: {first:?}"));
    assert!(first[at..].iter().any(|rate| *rate > 1.2 * least(&first)));
    assert!(
        second[0] > 2.0 * least(&first),
        "{} of {}",
        second[0],
        least(&first)
    );
    // Without ECN marks, only the window limits the source.
    let (free, _) = rates(&topology, None);
    assert_eq!(least(&free), 100e9);
}
