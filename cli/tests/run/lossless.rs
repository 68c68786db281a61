//! Switches with shared buffers, flow control and input queues, in whole fabrics.

use std::cell::RefCell;
use std::fs;
use std::rc::Rc;

use alfirk_ctrl::topology::{
    fat_tree, leaf_spine, Pfc, Queueing, SharedBuffer, Switching, Topology,
};
use alfirk_experiment::Job;
use alfirk_roce::collective::{Algorithm, Collective, Schedule};
use alfirk_sim::engine::{FaultProbabilities, Observation, Observer};
use alfirk_sim::frame::Frame;
use alfirk_sim::network::{Model, Network};
use alfirk_sim::VirtualFabric;
use serde_json::Value;

use crate::common::{good, json, refused, TESTBED};
use crate::network::{fabric, job, pipeline, run};

const LOSSLESS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../topologies/fat-tree-k4-lossless.yaml"
);

fn with(topology: Topology, switching: Switching) -> Topology {
    topology.with_switching(switching).unwrap()
}

/// A k = 4 fat-tree whose switches pause senders. Shared buffers are only slightly larger than the headroom; input queues
/// have 64 KiB each.
fn tight(queueing: Queueing) -> Topology {
    let text = fat_tree(4).unwrap().to_yaml();
    let text = text.replace("queue: 1MiB", "queue: 64KiB");
    let topology = Topology::from_yaml("tight", &text).unwrap();
    let pfc = Pfc::default();
    let link = topology.defaults();
    let frame = u64::from(link.mtu) + 18;
    let buffer = SharedBuffer {
        bytes: 4 * (pfc.headroom(&link) + frame),
        alpha: "1".parse().unwrap(),
    };
    let switching = Switching {
        queueing,
        buffer: (queueing == Queueing::Output).then_some(buffer),
        pfc: Some(pfc),
    };
    with(topology, switching)
}

#[test]
fn a_lossless_fat_tree_neither_drops_nor_deadlocks_at_any_load() {
    let all = [
        Queueing::Output,
        Queueing::Input { speedup: 1 },
        Queueing::Voq { speedup: 1 },
    ];
    for queueing in all {
        let topology = tight(queueing);
        for (collective, algorithm) in [
            (Collective::Broadcast, Algorithm::Kary(8)),
            (
                Collective::Broadcast,
                Algorithm::Rdmc(Schedule::BinomialPipeline),
            ),
            (Collective::Allgather, Algorithm::Dissemination),
            (Collective::Allgather, Algorithm::Alfirk),
        ] {
            let job = Job {
                collective,
                ..job(16, 1_600_000, 1)
            };
            let mut fabric = fabric(&topology, FaultProbabilities::default(), 1);
            let row = run(&mut fabric, &topology, &job, algorithm);
            let row = row.unwrap_or_else(|error| panic!("{queueing:?}: {error}"));
            let what = format!("{queueing:?}, {collective} by {algorithm}");
            assert!(row.verified, "{what}");
            assert_eq!(row.dropped_packets, Some(0), "{what}");
            assert_eq!(row.retransmissions, 0, "{what}");
            let control = row.flow_control.expect("there is flow control");
            // With alfirk one member sends at a time, so no queue is congested.
            let is_congested = algorithm != Algorithm::Alfirk;
            assert_eq!(control.pauses > 0, is_congested, "{what}");
            let links = control.links.iter();
            assert_eq!(links.map(|l| l.paused_ns).sum::<u64>(), control.paused_ns);
        }
    }
}

#[test]
fn the_same_load_is_dropped_without_flow_control() {
    let report = |more: &[&str]| {
        let arguments = ["run", "--size", "2MiB", "--buffer", "256KiB", "--json"];
        let chosen = ["--collective", "allgather", "--algorithms", "dissemination"];
        json(&[&arguments[..], &chosen[..], more].concat())
    };
    let (lossy, lossless) = (report(&[]), report(&["--pfc"]));
    let row = |report: &Value| report["results"][0].clone();
    assert!(row(&lossy)["dropped_packets"].as_u64() > Some(0));
    assert!(row(&lossy)["retransmissions"].as_u64() > Some(0));
    assert!(row(&lossy).get("flow_control").is_none());
    assert_eq!(row(&lossless)["dropped_packets"], 0);
    assert!(row(&lossless)["flow_control"]["pauses"].as_u64() > Some(0));
    assert!(
        row(&lossless)["completion_ns"].as_u64() < row(&lossy)["completion_ns"].as_u64(),
        "nothing is sent twice"
    );
    assert_eq!(
        lossless["settings"]["switching"],
        "{queueing: output, buffer: 256KiB, alpha: 1, pfc: {class: 3}}"
    );
}

#[test]
fn groups_with_other_traffic_cause_neither_deadlock_nor_loss() {
    // Copies for the port where a packet came in, which the egress drops, must not wait for a paused link.
    let switches: [&[&str]; 3] = [
        &["--buffer", "256KiB"],
        &["--queueing", "input"],
        &["--queueing", "voq"],
    ];
    for switches in switches {
        let arguments = ["run", "--json", "--pfc", "--time-limit", "50ms"];
        let load = [
            "--algorithms",
            "alfirk",
            "--workload",
            "groups:count=4,size=8,bytes=1MiB",
            "--background",
            "incast:senders=8,bytes=4MiB",
        ];
        let report = json(&[&arguments[..], &load, switches].concat());
        let row = &report["results"][0];
        assert_eq!(row["verified"], true, "{switches:?}");
        assert_eq!(row["dropped_packets"], 0, "{switches:?}");
        assert_eq!(row["implausible_packets"], 0, "{switches:?}");
    }
}

#[test]
fn groups_deliver_every_byte_through_input_queues() {
    for queueing in [
        Queueing::Input { speedup: 1 },
        Queueing::Input { speedup: 2 },
        Queueing::Voq { speedup: 1 },
    ] {
        let switching = Switching {
            queueing,
            ..Switching::default()
        };
        let topology = with(leaf_spine(2, 2, 3).unwrap(), switching);
        for collective in [Collective::Broadcast, Collective::Allgather] {
            for seed in 1..=2 {
                let job = Job {
                    collective,
                    ..job(6, 120_000, seed)
                };
                let faults = FaultProbabilities::lossy(0.002);
                let mut fabric = fabric(&topology, faults, seed);
                let row = run(&mut fabric, &topology, &job, Algorithm::Alfirk).unwrap();
                assert!(row.verified, "{queueing:?}, {collective}, seed {seed}");
                assert_eq!(row.implausible_packets, 0);
            }
        }
    }
}

/// Observer that records the classes of RoCE packets, and whether there are PAUSE frames.
#[derive(Default)]
struct Classes {
    roce: Vec<u8>,
    others: Vec<u8>,
    pauses: u32,
}

struct Eye(Rc<RefCell<Classes>>);

impl Observer for Eye {
    fn observe(&mut self, _: u64, _: &str, happening: Observation<'_>) {
        let Observation::Transmit { frame, .. } = happening else {
            return;
        };
        let mut seen = self.0.borrow_mut();
        match Frame::read(frame) {
            Frame::Pause(_) => seen.pauses += 1,
            Frame::Roce(_) => seen.roce.push(frame[15] >> 5),
            Frame::Mrp { .. } => seen.others.push(frame[15] >> 5),
            _ => {}
        }
    }
}

#[test]
fn hosts_and_switches_keep_roce_packets_in_the_lossless_class() {
    for class in [3, 5] {
        let pfc = Pfc {
            class,
            ..Pfc::default()
        };
        let switching = Switching {
            pfc: Some(pfc),
            ..Switching::default()
        };
        let topology = with(leaf_spine(2, 1, 2).unwrap(), switching);
        let faults = FaultProbabilities::default();
        let network = Network::build(&topology, pipeline(), Model::default(), faults, 1);
        let mut network = network.unwrap();
        let seen = Rc::new(RefCell::new(Classes::default()));
        network.observe(Box::new(Eye(Rc::clone(&seen))));
        let mut fabric = VirtualFabric::bring_up(network).unwrap();
        let job = Job {
            registration: alfirk_experiment::Registration::Mrp,
            ..job(4, 100_000, 1)
        };
        let row = run(&mut fabric, &topology, &job, Algorithm::Alfirk).unwrap();
        assert!(row.verified);
        let seen = seen.borrow();
        assert!(seen.roce.len() > 400 && seen.roce.iter().all(|of| *of == class));
        assert!(!seen.others.is_empty() && seen.others.iter().all(|of| *of == 0));
        assert_eq!(seen.pauses, 0, "100 packets fit");
    }
}

#[test]
fn trace_names_pauses() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.txt");
    good(&[
        "run",
        "--topology",
        LOSSLESS,
        "--buffer",
        "128KiB",
        "--size",
        "1MiB",
        "--algorithms",
        "kary:8",
        "--trace",
        trace.to_str().unwrap(),
    ]);
    let text = fs::read_to_string(&trace).unwrap();
    assert!(text.contains(" PAUSE class 3 for 65535 quanta\n"));
    assert!(text.contains(" PAUSE class 3 goes on\n"));
}

#[test]
fn check_reports_headroom_and_prints_a_topology_that_parses() {
    let text = String::from_utf8(good(&["topology", "check", LOSSLESS])).unwrap();
    let tail = "\
# buffer of a switch with 4 ports: 4MiB, of which 100952B headroom
# headroom of a port on a link of 100Gbps, 500ns, MTU 4200: 25238B
# lossless: class 3, DSCP 24, which hosts give to RoCE packets
";
    let file = fs::read_to_string(LOSSLESS).unwrap();
    assert_eq!(text, file + tail);
}

#[test]
fn reports_omit_default_switch_and_host_settings() {
    let report = json(&["run", "--topology", TESTBED, "--json", "--size", "4KiB"]);
    assert!(report["settings"].get("switching").is_none());
    assert!(report["settings"].get("host_model").is_none());
    for row in report["results"].as_array().unwrap() {
        assert!(row.get("flow_control").is_none());
    }
}

#[test]
fn copy_delays_of_hosts_slow_overlays_more_than_the_group() {
    let done = |more: &[&str]| {
        let arguments = ["run", "--size", "1MiB", "--json", "--algorithms"];
        let report = json(&[&arguments[..], &["alfirk,chain"], more].concat());
        let rows = report["results"].as_array().unwrap().clone();
        let ns = |row: &Value| row["completion_ns"].as_u64().unwrap();
        (
            ns(&rows[0]),
            ns(&rows[1]),
            report["settings"]["host_model"].clone(),
        )
    };
    let (alfirk, chain, _) = done(&[]);
    let (copied, relayed, model) = done(&["--host-model", "copy-rate=100Gbps"]);
    assert_eq!(model, "copy-rate=100Gbps");
    // Time to copy 1 MiB at 100 Gbit/s.
    let copy = (8.0 * f64::from(1 << 20) / 100.0).ceil() as u64;
    assert_eq!(copied, alfirk + copy);
    // Each relay, and also the last host, copies the slices one after another.
    assert!(relayed > chain + copy / 2, "{relayed} after {chain}");
}

#[test]
fn a_nic_with_a_cost_per_packet_limits_small_packets() {
    let done = |more: &[&str]| {
        let arguments = ["run", "--size", "256KiB", "--mtu", "256", "--json"];
        let chosen = ["--algorithms", "alfirk"];
        let report = json(&[&arguments[..], &chosen[..], more].concat());
        report["results"][0]["completion_ns"].as_u64().unwrap()
    };
    let limited = done(&["--host-model", "packet-interval=200ns"]);
    // Limits for 1,024 packets at 200 ns per packet.
    assert!(limited > 204_800 && limited < 220_000, "{limited}");
    assert!(done(&[]) < 100_000);
}

#[test]
fn incompatible_flags_are_rejected() {
    let run = |more: &[&str], messages: &[&str]| refused(2, &[&["run"], more].concat(), messages);
    run(
        &["--queueing", "both"],
        &["queueing", "output, input or voq"],
    );
    run(&["--alpha", "2"], &["alpha", "buffer"]);
    run(&["--buffer", "100KiB", "--pfc"], &["100KiB", "headroom"]);
    run(&["--speedup", "2"], &["speedup"]);
    run(
        &["--host-model", "rdmc"],
        &["--host-model", "default, free, cyclic"],
    );
    run(&["--host-model", "copy-rate=fast"], &["copy-rate", "fast"]);
    let mininet = ["--driver", "mininet", "--topology"];
    run(&[&mininet[..], &[LOSSLESS]].concat(), &["--driver virtual"]);
    run(
        &[
            &mininet[..],
            &[TESTBED, "--scale", "off", "--host-model", "free"],
        ]
        .concat(),
        &["--driver virtual", "--scale"],
    );
}

#[test]
fn models_are_listed_with_their_source() {
    let list = String::from_utf8(good(&["run", "--list-host-models"])).unwrap();
    assert_eq!(list.lines().count(), Model::named_models().len());
    assert!(list.lines().all(|line| line.ends_with(']')));
}
