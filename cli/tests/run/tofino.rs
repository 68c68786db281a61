//! The data plane for Tofino, on our model of the chip, driven by the same controller.

use crate::common::{json, refused};

const TNA: [&str; 4] = ["run", "--target", "tna", "--json"];

fn topology(name: &str) -> String {
    format!("{}/../topologies/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// Runs the group, and demands that all members hold every byte.
fn verified(args: &[&str]) -> serde_json::Value {
    let report = json(&[&TNA, args].concat());
    let row = report["results"][0].clone();
    assert_eq!(row["verified"], true, "{args:?}: {row}");
    assert!(row["registration_ns"].is_u64(), "{args:?}: {row}");
    row
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

#[test]
fn a_hostile_member_makes_no_difference() {
    let testbed = topology("testbed");
    for seed in ["1", "2", "3"] {
        let args = [
            "--topology",
            &testbed,
            "--algorithms",
            "alfirk",
            "--size",
            "256KiB",
            "--hostile",
            "h3",
            "--loss",
            "0.002",
            "--seed",
            seed,
        ];
        let row = verified(&args);
        assert_eq!(row["implausible_packets"], 0, "{row}");
    }
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
fn what_it_lacks_is_refused_with_what_would_do() {
    let testbed = topology("testbed");
    for (flag, value, only) in [
        ("--min-psn", "walk", "tree"),
        ("--icrc", "recompute", "neutral"),
        ("--recovery", "selective-repeat", "go-back-n"),
    ] {
        let args = ["--topology", &testbed, flag, value];
        let words = format!("{flag}: the data plane for Tofino (--target tna) has {only} only");
        refused(2, &[&TNA[..], &args].concat(), &[&words]);
    }
}

/// Where entries name a group by its address, the old part's and the new part's are the same ones.
#[test]
fn a_group_goes_on_without_what_dies() {
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
