//! The core profile of v1model's data plane (`p4src/v1model/profile.p4`), with the same controller.

use crate::common::{json, refused, TESTBED};

const CORE: [&str; 5] = [
    "run",
    "--algorithms",
    "alfirk",
    "--p4src",
    concat!(env!("CARGO_MANIFEST_DIR"), "/../p4src/v1model/core.p4"),
];
const FAT_TREE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../topologies/fat-tree-k4.yaml"
);

/// Runs the group, and checks that all members hold every byte. Returns the row of the report.
fn verified(args: &[&str]) -> serde_json::Value {
    let report = json(&[&CORE[..], &["--json"], args].concat());
    let row = report["results"][0].clone();
    assert_eq!(row["verified"], true, "{args:?}: {row}");
    assert!(row["registration_ns"].is_u64(), "{args:?}: {row}");
    row
}

#[test]
fn core_delivers_every_byte() {
    for op in ["send", "write", "write-imm"] {
        let args = ["--topology", FAT_TREE, "--size", "300000B", "--op", op];
        let row = verified(&args);
        assert_eq!(row["receivers"], 15, "{row}");
        assert_eq!(row["retransmissions"], 0, "{row}");
        assert_eq!(row["sender_payload_bytes"], 300_000, "{row}");
    }
}

#[test]
fn core_recovers_from_loss_and_changes_its_source() {
    let losses = ["--loss", "0.005", "--seed", "3"];
    let size = ["--topology", FAT_TREE, "--group", "9", "--size", "200KiB"];
    let row = verified(&[&size[..], &losses].concat());
    assert!(
        row["retransmissions"].as_u64().is_some_and(|n| n > 0),
        "{row}"
    );
    verified(&[&size[..], &losses, &["--rotate"]].concat());
}

#[test]
fn core_forms_groups_by_registration_in_band() {
    verified(&[
        "--topology",
        FAT_TREE,
        "--size",
        "64KiB",
        "--registration",
        "mrp",
    ]);
}

/// The fast data plane of the simulator has the optional parts, so the core runs in the pipelines with the fast model as well.
#[test]
fn core_runs_with_the_fast_model() {
    verified(&[
        "--topology",
        FAT_TREE,
        "--size",
        "64KiB",
        "--loss",
        "0.01",
        "--model",
        "fast",
    ]);
}

#[test]
fn core_refuses_what_it_does_not_have() {
    for (flags, words) in [
        (["--min-psn", "walk"], "min-psn `tree` only, not `walk`"),
        (["--min-psn", "punt"], "min-psn `tree` only, not `punt`"),
        (
            ["--icrc", "recompute"],
            "icrc `neutral` only, not `recompute`",
        ),
        (
            ["--recovery", "selective-repeat"],
            "recovery `go-back-n` only, not `selective-repeat`",
        ),
        (["--ecn", "16,64,0.1"], "sets no ECN marks"),
    ] {
        let args = [&CORE[..], &["--topology", TESTBED], &flags].concat();
        refused(2, &args, &[words, "PROFILE_CORE"]);
    }
}
