//! The data plane for Tofino, on the model of the chip, with the same controller.

use std::path::Path;
use std::sync::OnceLock;

use alfirk_compiler::arch::Arch;
use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_compiler::preproc::MacroOption;
use alfirk_ctrl::constants::CPU_PORT;
use alfirk_ctrl::controller::ControllerConfig;
use alfirk_ctrl::topology::leaf_spine;
use alfirk_experiment::{Fabric, Job};
use alfirk_roce::collective::Algorithm;
use alfirk_roce::rc::PathMtu;
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::{Model, Network};
use alfirk_sim::VirtualFabric;

use crate::common::{json, refused};
use crate::network::{job, run};

const TNA: [&str; 4] = ["run", "--target", "tna", "--json"];

fn topology(name: &str) -> String {
    format!("{}/../topologies/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// Runs the group, and checks that all members hold every byte.
fn verified(args: &[&str]) -> serde_json::Value {
    let report = json(&[&TNA, args].concat());
    let row = report["results"][0].clone();
    assert_eq!(row["verified"], true, "{args:?}: {row}");
    assert!(row["registration_ns"].is_u64(), "{args:?}: {row}");
    row
}

#[test]
fn bf_runtime_controls_the_switches_as_p4runtime_does() {
    let k4 = topology("fat-tree-k4");
    for loss in ["0", "0.01"] {
        let args = [
            "--topology",
            &k4,
            "--group",
            "16",
            "--size",
            "64KiB",
            "--loss",
            loss,
        ];
        let row = verified(&[&args[..], &["--control", "bfrt"]].concat());
        assert_eq!(row, verified(&args), "loss {loss}");
    }
    let wanted = "add --target tna";
    refused(2, &["run", "--control", "bfrt"], &[wanted]);
}

#[test]
fn each_byte_crosses_the_senders_link_once() {
    let k4 = topology("fat-tree-k4");
    for op in ["send", "write", "write-imm"] {
        let args = [
            "--topology",
            &k4,
            "--algorithms",
            "alfirk",
            "--size",
            "300000B",
            "--op",
            op,
        ];
        let row = verified(&args);
        assert_eq!(row["receivers"], 15, "{row}");
        assert_eq!(row["retransmissions"], 0, "{row}");
        assert_eq!(row["sender_payload_bytes"], 300_000, "{row}");
    }
}

#[test]
fn tofino_2_has_the_same_data_plane() {
    let k4 = topology("fat-tree-k4");
    for loss in ["0", "0.005"] {
        let args = [
            "run",
            "--target",
            "t2na",
            "--json",
            "--topology",
            &k4,
            "--algorithms",
            "alfirk",
            "--size",
            "256KiB",
            "--loss",
            loss,
        ];
        let row = &json(&args)["results"][0];
        assert_eq!(row["verified"], true, "{row}");
        assert_eq!(row["receivers"], 15, "{row}");
    }
}

#[test]
fn a_link_at_a_recirculation_port_is_rejected() {
    let args = ["run", "--target", "t2na", "--topology", "leaf-spine:2,2,5"];
    let words =
        "--target t2na: switch l1 has a link at port 6, and ports 6 to 7 of this chip recirculate";
    refused(2, &args, &[words]);
}

#[test]
fn losses_on_all_links_are_repaired() {
    let k4 = topology("fat-tree-k4");
    for seed in ["1", "2", "3", "4"] {
        for loss in ["0.001", "0.01"] {
            let args = [
                "--topology",
                &k4,
                "--algorithms",
                "alfirk",
                "--size",
                "256KiB",
                "--loss",
                loss,
                "--seed",
                seed,
            ];
            verified(&args);
        }
    }
}

/// The MSN of an answer is that of the path at the minimum, so a wrong one of a hostile member there gets out (on v1model it is bounded:
/// `p4src/shared/types.p4`, MSN_NEAR). A source counts it as implausible and uses the PSN. With seeds 2, 5, 9 and 20 it meets some.
#[test]
fn a_hostile_member_does_not_affect_others() {
    let testbed = topology("testbed");
    let mut implausible = 0;
    for seed in (1..=9).chain([20]) {
        let seed = seed.to_string();
        let args = [
            &["--topology", &testbed, "--algorithms", "alfirk"][..],
            &["--size", "256KiB", "--hostile", "h3", "--loss", "0.002"],
            &["--seed", &seed],
        ];
        let row = verified(&args.concat());
        implausible += row["implausible_packets"].as_u64().unwrap();
    }
    assert!(implausible > 0, "no wrong MSN came to the source");
}

#[test]
fn groups_of_every_size_on_a_switch_are_served() {
    let testbed = topology("testbed");
    for members in ["2", "3", "4"] {
        let args = [
            "--topology",
            &testbed,
            "--algorithms",
            "alfirk",
            "--size",
            "70001B",
            "--group",
            members,
            "--loss",
            "0.005",
        ];
        verified(&args);
    }
}

#[test]
fn unsupported_options_are_rejected_with_an_alternative() {
    let testbed = topology("testbed");
    for (flag, value, only) in [
        ("--min-psn", "walk", "tree"),
        ("--icrc", "recompute", "neutral"),
        ("--recovery", "selective-repeat", "go-back-n"),
    ] {
        let args = ["--topology", &testbed, flag, value];
        let words =
            format!("{flag}: the data plane for Tofino (--target tna) supports {only} only");
        refused(2, &[&TNA[..], &args].concat(), &[&words]);
    }
}

/// If entries identify a group by its address, the entries of the old part and of the new part are equal.
#[test]
fn a_group_continues_without_failed_parts() {
    let k4 = topology("fat-tree-k4");
    for (victim, lost) in [("h9", true), ("c1", false), ("p1a1", false)] {
        let kill = format!("{victim}@60us");
        let args = [
            "--topology",
            &k4,
            "--algorithms",
            "alfirk",
            "--size",
            "1MiB",
            "--kill",
            &kill,
            "--dead-after",
            "1ms",
            "--time-limit",
            "200ms",
        ];
        let report = json(&[&TNA, &args[..]].concat());
        let row = &report["results"][0];
        let receivers = if lost { 14 } else { 15 };
        assert_eq!(row["receivers_verified"], receivers, "{victim}: {row}");
    }
}

fn pipeline() -> ControllerConfig {
    static PIPELINE: OnceLock<ControllerConfig> = OnceLock::new();
    let compile = || {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/tna/main.p4");
        let mut options = CompileOptions::new(source);
        options.set_arch(Arch::TNA);
        let cpu_port = MacroOption::Define(format!("CPU_PORT={CPU_PORT}"));
        options.preprocessor.macros.push(cpu_port);
        let compiled = compile(&options).expect("p4src is right");
        let json = serde_json::to_vec(&compiled.json).unwrap();
        ControllerConfig::new(compiled.p4info, json)
    };
    PIPELINE.get_or_init(compile).clone()
}

/// Registers of Tofino must get the port of the source, which only other switches know then.
#[test]
fn a_message_continues_after_a_switch_restart() {
    // Virtual nanoseconds, from the moment when all switches are ready: the group is registered by then, and the message has begun.
    const RESTART_AFTER: u64 = 450_000;
    let topology = leaf_spine(2, 1, 3).unwrap();
    let lossy = FaultProbabilities {
        loss: 0.005,
        ..FaultProbabilities::default()
    };
    for faults in [FaultProbabilities::default(), lossy] {
        for switch in topology.switch_indexes() {
            let built = Network::build(&topology, pipeline(), Model::default(), faults, 3);
            let mut fabric = VirtualFabric::bring_up(built.unwrap()).unwrap();
            let begun = fabric.now();
            fabric
                .network()
                .restart_switch(switch, RESTART_AFTER, 200_000);
            let job = Job {
                mtu: PathMtu::B4096,
                ..job(6, 6 << 20, 3)
            };
            let name = &topology.switch(switch).name;
            let row = run(&mut fabric, &topology, &job, Algorithm::Alfirk);
            let row = row.unwrap_or_else(|error| panic!("{name}, {faults:?}: {error}"));
            assert!(row.verified, "{name}, {faults:?}");
            assert_eq!(row.implausible_packets, 0, "{name}, {faults:?}");
            let registered = row.registration_ns.unwrap();
            assert!(registered < RESTART_AFTER && fabric.now() - begun > RESTART_AFTER);
            assert!(row.retransmissions > 0, "{name}, {faults:?}");
        }
    }
}
