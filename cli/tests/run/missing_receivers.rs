//! A run with incomplete receivers reports each of them with its bytes and the cause, in exit code, message and report.

use serde_json::Value;

use crate::common::alfirk;

const TESTBED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../topologies/testbed.yaml");

/// Runs alfirk with these flags; returns the row of the report, the exit code and the error message.
fn run(flags: &[&str]) -> (Value, Option<i32>, String) {
    let job = ["run", "--topology", TESTBED, "--size", "4MiB", "--json"];
    let output = alfirk(&[&job[..], &["--algorithms", "alfirk"], flags].concat());
    // There is no report if a queue pair failed.
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let message = String::from_utf8(output.stderr).unwrap();
    (report["results"][0].clone(), output.status.code(), message)
}

#[test]
fn a_live_receiver_that_is_removed_fails_the_run_and_is_reported() {
    // The receiver's link drops all frames for longer than the failure timeout.
    let (row, code, message) = run(&["--loss", "h3-s1:1@50us-10s"]);
    assert_eq!(code, Some(1), "{row}");
    assert_eq!(row["verified"], false);
    assert_eq!(row["missing"][0]["host"], "h3");
    assert_eq!(row["missing"][0]["why"], "removed");
    assert!(
        message.contains("h3 was removed from the group although it had not failed"),
        "{message}"
    );
}

#[test]
fn a_receiver_failed_by_the_job_is_expected_to_be_missing() {
    for victim in ["h3@50us", "h3-s1@50us"] {
        let (row, code, message) = run(&["--kill", victim]);
        assert_eq!((code, message.as_str()), (Some(0), ""), "{victim}");
        assert_eq!(row["verified"], true, "{victim}");
        assert_eq!(row["lost"][0], "h3", "{victim}");
        assert_eq!(row.get("missing"), None, "{victim}");
    }
}

#[test]
fn the_time_limit_keeps_the_progress_so_far() {
    let (row, code, message) = run(&["--time-limit", "200us"]);
    assert_eq!(code, Some(1), "{row}");
    assert_eq!(row["verified"], false);
    assert_eq!(row["receivers_verified"], 0);
    // 4 MiB take 340 us at 100 Gbit/s.
    assert_eq!(row["completion_ns"], 200_000);
    assert_eq!(row["goodput_gbps"], Value::Null);
    let missing = row["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 3, "{row}");
    for receiver in missing {
        let (bytes, total) = (
            receiver["bytes"].as_u64().unwrap(),
            receiver["total"].as_u64().unwrap(),
        );
        assert!(bytes > total / 4 && bytes < total, "{receiver}");
        assert_eq!(receiver["why"], "late");
    }
    let given_up = row["given_up"].as_str().unwrap();
    assert!(
        given_up.contains("are not done within 0.0002 s"),
        "{given_up}"
    );
    assert!(message.contains(given_up), "{message}");
}

#[test]
fn flags_override_settings_derived_from_the_topology() {
    let sender = |flags: &[&str]| run(flags).0["sender"].clone();
    let plain = sender(&[]);
    assert_eq!(plain["window"], 128);
    assert_eq!(plain["pace_bps"], Value::Null);
    let set = sender(&["--window", "40", "--pace", "50Gbps", "--ack-timeout", "1ms"]);
    assert_eq!(set["window"], 40);
    assert_eq!(set["pace_bps"], 50_000_000_000u64);
    assert_eq!(set["ack_timeout_ns"], 1_048_576);
    let (row, code, message) = run(&[
        "--retry-count",
        "0",
        "--loss",
        "h3-s1:1@50us-10s",
        "--dead-after",
        "10s",
    ]);
    assert_eq!(code, Some(1), "{row}");
    assert!(message.contains("retr"), "{message}");
}
