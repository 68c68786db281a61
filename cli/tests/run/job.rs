//! `alfirk run` in virtual time, from the command line.

use std::fs;

use crate::common::{alfirk, good, json, TESTBED};
use alfirk_roce::icrc;

/// The results of a run by algorithm name.
fn results(report: &serde_json::Value) -> Vec<(&str, &serde_json::Value)> {
    let rows = report["results"].as_array().expect("results are a list");
    rows.iter()
        .map(|row| (row["algorithm"].as_str().expect("a name"), row))
        .collect()
}

/// Runs the main job on the testbed with `--json` and these further arguments.
fn on_testbed(arguments: &[&str]) -> serde_json::Value {
    json(&[&["run", "--topology", TESTBED, "--json"], arguments].concat())
}

#[test]
fn every_algorithm_delivers_every_byte_to_every_receiver() {
    let report = on_testbed(&["--size", "100000B"]);
    let rows = results(&report);
    let names: Vec<_> = rows.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["alfirk", "chain", "binomial", "unicast"]);
    for (_, row) in rows {
        assert_eq!(row["verified"], true);
        assert_eq!(row["receivers"], 3);
        assert_eq!(row["retransmissions"], 0);
        assert_eq!(row["implausible_packets"], 0);
        assert!(row["completion_ns"].as_u64() > Some(0));
        assert!(row["goodput_gbps"].as_f64() > Some(0.0));
        assert!(row["sender_acks"].as_u64() > Some(0));
        assert!(row["wire_packets"].as_u64() > Some(0));
    }
    assert_eq!(report["input"]["size"], 100_000);
    assert_eq!(report["group"]["members"][0], "h1");
}

#[test]
fn sender_link_carries_each_byte_once() {
    let report = on_testbed(&["--size", "1MiB"]);
    let rows = results(&report);
    let sent = |index: usize| rows[index].1["sender_payload_bytes"].as_u64().unwrap();
    assert_eq!(sent(0), 1 << 20, "alfirk");
    assert_eq!(sent(1), 1 << 20, "chain");
    assert_eq!(sent(3), 3 << 20, "unicast");
}

#[test]
fn alfirk_beats_relaying_for_small_and_for_large_messages() {
    for size in ["64B", "16MiB"] {
        let report = on_testbed(&["--size", size, "--algorithms", "alfirk,chain,binomial"]);
        let rows = results(&report);
        let time = |index: usize| rows[index].1["completion_ns"].as_u64().unwrap();
        assert!(time(0) < time(1), "{size}: chain");
        assert!(time(0) < time(2), "{size}: binomial");
    }
}

#[test]
fn large_message_nearly_fills_the_link() {
    let report = on_testbed(&["--size", "16MiB", "--algorithms", "alfirk"]);
    let goodput = results(&report)[0].1["goodput_gbps"].as_f64().unwrap();
    // Of each packet's time on a 100 Gbit/s link 4,096 bytes are message; headers, ICRC, FCS, preamble and gap are not.
    let possible = 100.0 * 4_096.0 / (4_096.0 + 14.0 + 20.0 + 8.0 + 12.0 + 4.0 + 24.0);
    assert!(goodput > 0.9 * possible, "{goodput} of {possible} Gbit/s");
    assert!(goodput < possible, "{goodput} of {possible} Gbit/s");
}

#[test]
fn a_group_reaches_all_layers_of_a_fat_tree() {
    let report = json(&[
        "run", "--group", "16", "--source", "h6", "--size", "64KiB", "--json",
    ]);
    assert_eq!(report["group"]["source"], "h6");
    assert_eq!(report["topology"]["switches"], 20);
    for (name, row) in results(&report) {
        assert_eq!(row["verified"], true, "{name}");
        assert_eq!(row["receivers"], 15, "{name}");
    }
}

#[test]
fn every_operation_delivers() {
    for op in ["send", "write", "write-imm"] {
        for size in ["1B", "4095B", "4096B", "4097B", "50000B"] {
            let algorithms = "alfirk,chain";
            let report = on_testbed(&["--size", size, "--op", op, "--algorithms", algorithms]);
            for (name, row) in results(&report) {
                assert_eq!(row["verified"], true, "{name} {op} {size}");
            }
        }
    }
}

#[test]
fn receivers_with_the_same_region_need_no_rewriting() {
    for op in ["write", "write-imm"] {
        let report = on_testbed(&[
            "--size",
            "50000B",
            "--op",
            op,
            "--write",
            "uniform",
            "--algorithms",
            "alfirk,binomial",
        ]);
        for (name, row) in results(&report) {
            assert_eq!(row["verified"], true, "{name} {op}");
        }
        assert_eq!(report["settings"]["write"], "uniform");
    }
}

#[test]
fn congestion_control_costs_an_uncongested_network_nothing() {
    let run = |congestion| {
        let report = on_testbed(&["--size", "1MiB", "--congestion", congestion]);
        let times = results(&report)
            .into_iter()
            .map(|(_, row)| row["completion_ns"].as_u64().unwrap());
        (
            times.collect::<Vec<_>>(),
            report["results"][0]["sender_cnps"].clone(),
        )
    };
    let (without, no_cnps) = run("none");
    let (with, cnps) = run("dcqcn");
    assert!(no_cnps.is_null());
    assert!(cnps.is_u64());
    // A chain of equal links and one sender into each: no queue grows.
    assert_eq!(without[1], with[1]);
}

/// Runs alfirk on the testbed with four changes of the source, and checks the parts.
fn switched(arguments: &[&str]) -> serde_json::Value {
    let switched = ["--size", "300001B", "--switch-source", "4"];
    let report = on_testbed(&[&switched[..], arguments].concat());
    let row = &report["results"][0];
    assert_eq!(row["algorithm"], "alfirk", "{arguments:?}");
    assert_eq!(row["verified"], true, "{arguments:?}");
    assert_eq!(row["receivers"], 4, "each member gets what others send");
    assert_eq!(row["implausible_packets"], 0, "{arguments:?}");
    let parts = row["parts"].as_array().unwrap();
    let sources: Vec<_> = parts.iter().map(|part| &part["source"]).collect();
    assert_eq!(sources, ["h1", "h2", "h3", "h4", "h1"], "{arguments:?}");
    let bytes: u64 = parts.iter().map(|p| p["bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes, 300_001);
    for part in parts {
        assert!(part["completion_ns"].as_u64() > Some(0));
        assert!(part["goodput_gbps"].as_f64() > Some(0.0));
    }
    report
}

#[test]
fn members_alternate_as_the_source_of_a_group() {
    for op in ["send", "write", "write-imm"] {
        let report = switched(&["--op", op]);
        let row = &report["results"][0];
        assert_eq!(row["retransmissions"], 0, "{op}");
        assert_eq!(row["sender_payload_bytes"], 300_001, "{op}");
    }
    assert_eq!(
        switched(&["--algorithms", "alfirk,unicast"])["results"][1]["verified"],
        true
    );
}

#[test]
fn source_changes_work_with_loss_and_with_feedback_in_flight() {
    for seed in 1..=20 {
        let seed = seed.to_string();
        let lossy = ["--loss", "0.005", "--seed", &seed];
        switched(&lossy);
        switched(&[&lossy[..], &["--switch-early"]].concat());
    }
}

#[test]
fn every_algorithm_survives_loss_on_all_links() {
    let mut resent = 0;
    for seed in 1..=20 {
        let seed = seed.to_string();
        let report = on_testbed(&["--size", "512KiB", "--loss", "0.001", "--seed", &seed]);
        for (name, row) in results(&report) {
            assert_eq!(row["verified"], true, "{name}, seed {seed}");
            resent += row["retransmissions"].as_u64().unwrap();
        }
    }
    assert!(resent > 0, "twenty seeds without a loss");
}

#[test]
fn every_member_completes_with_loss_on_a_fat_tree() {
    for seed in ["1", "2"] {
        let report = json(&[
            "run",
            "--size",
            "256KiB",
            "--loss",
            "0.002",
            "--seed",
            seed,
            "--algorithms",
            "alfirk",
            "--json",
        ]);
        assert_eq!(results(&report)[0].1["verified"], true, "seed {seed}");
    }
}

#[test]
fn same_seed_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, seed: &str| {
        let trace = folder.path().join(name);
        let output = good(&[
            "run",
            "--topology",
            TESTBED,
            "--size",
            "200000B",
            "--loss",
            "0.01",
            "--seed",
            seed,
            "--json",
            "--algorithms",
            "alfirk,binomial",
            "--trace",
            trace.to_str().unwrap(),
        ]);
        let read = |algorithm: &str| fs::read(trace.with_extension(algorithm)).unwrap();
        (output, read("alfirk"), read("binomial"))
    };
    let first = run("one", "7");
    assert_eq!(first, run("two", "7"));
    let other = run("three", "8");
    assert_ne!(first.0, other.0);
    assert_ne!(first.1, other.1);
}

#[test]
fn the_kind_of_a_trace_follows_from_its_extension() {
    let folder = tempfile::tempdir().unwrap();
    let record = |name: &str| {
        let path = folder.path().join(name);
        let trace = path.to_str().unwrap();
        let run = [
            "--size",
            "30000B",
            "--algorithms",
            "alfirk",
            "--loss",
            "0.02",
        ];
        on_testbed(&[&run[..], &["--trace", trace]].concat());
        fs::read(path).unwrap()
    };
    let capture = record("all.pcapng");
    assert_eq!(
        capture[..4],
        [0x0a, 0x0d, 0x0d, 0x0a],
        "a section header block"
    );
    let interface = b"s1:3";
    assert!(capture.windows(4).any(|bytes| bytes == interface));
    let timeline: serde_json::Value = serde_json::from_slice(&record("all.json")).unwrap();
    let text = String::from_utf8(record("all.txt")).unwrap();
    let sent = text.lines().filter(|line| line.contains(" tx ")).count();
    let events = timeline.as_array().unwrap().iter();
    let slices = events.filter(|event| event["ph"] == "X");
    assert!(sent > 20);
    assert_eq!(slices.count(), sent, "a slice for each frame on a link");
}

#[test]
fn captures_hold_only_packets_with_right_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    on_testbed(&[
        "--size",
        "30000B",
        "--op",
        "write",
        "--algorithms",
        "alfirk",
        "--loss",
        "0.02",
        "--pcap",
        path,
    ]);
    for host in ["h1", "h2", "h3", "h4"] {
        let bytes = fs::read(folder.path().join(format!("alfirk-{host}.pcap"))).unwrap();
        let mut checked = 0;
        for frame in frames(&bytes) {
            let (ethertype, packet) = (&frame[12..14], &frame[14..]);
            if ethertype != [8, 0] {
                continue;
            }
            let (covered, trailer) = packet.split_at(packet.len() - 4);
            let expected = u32::from_le_bytes(trailer.try_into().unwrap());
            assert_eq!(icrc::compute(covered), Ok(expected), "{host}");
            assert_eq!(
                alfirk_roce::wire::ipv4::checksum(&packet[..20]),
                0,
                "{host}"
            );
            checked += 1;
        }
        assert!(checked >= 8, "{host}: only {checked} RoCE packets");
    }
}

/// The frames of a pcap file.
fn frames(mut file: &[u8]) -> impl Iterator<Item = &[u8]> {
    assert_eq!(file[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    file = &file[24..];
    std::iter::from_fn(move || {
        let header = file.get(..16)?;
        let length = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        let frame = &file[16..16 + length];
        file = &file[16 + length..];
        Some(frame)
    })
}

#[test]
fn table_compares_the_algorithms() {
    let table = good(&["run", "--topology", TESTBED, "--size", "64KiB"]);
    let text = String::from_utf8(table).unwrap();
    let has = |what: &str| assert!(text.contains(what), "no {what:?} in\n{text}");
    has("testbed: 4 hosts, 1 switch, 4 links; virtual driver, seed 1\n");
    has("x faster");
    has("each byte once for 3 receivers\n");
    assert_eq!(text.lines().filter(|l| l.contains("Gbit/s")).count(), 4);
}

/// Completion times of small and large messages, with and without losses, as a snapshot. A change of a time is a change of the
/// simulation model, which needs a reason.
#[test]
fn times_and_counts_are_as_reviewed() {
    let leaf_spine = concat!(env!("CARGO_MANIFEST_DIR"), "/../topologies/leaf-spine.yaml");
    let runs: [&[&str]; 3] = [
        &["--size", "64B", "--topology", TESTBED],
        &["--size", "1MiB", "--topology", leaf_spine],
        &[
            "--size",
            "1MiB",
            "--topology",
            leaf_spine,
            "--loss",
            "0.001",
        ],
    ];
    let mut text = String::new();
    for flags in runs {
        let table = good(&[&["run"], flags].concat());
        text += &String::from_utf8(table).unwrap();
        text.push('\n');
    }
    insta::assert_snapshot!(text);
}

#[test]
fn file_is_sent_as_it_is() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "some content").unwrap();
    let path = file.path().to_str().unwrap();
    let report = on_testbed(&["--input", path, "--algorithms", "alfirk"]);
    assert_eq!(report["input"]["file"], path);
    assert_eq!(
        report["input"]["sha256"],
        "290f493c44f5d63d06b374d0a5abd292fae38b92cab2fae5efefe1b0e9347f56"
    );
    assert_eq!(results(&report)[0].1["verified"], true);
}

#[test]
fn the_time_limit_names_unfinished_members() {
    let output = alfirk(&[
        "run",
        "--topology",
        TESTBED,
        "--size",
        "1MiB",
        "--time-limit",
        "20us",
        "--algorithms",
        "chain",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("chain: ") && message.contains("h4"),
        "{message}"
    );
    assert!(message.contains("--time-limit"), "{message}");
}

#[test]
fn closed_pipe_is_not_an_error() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["run", "--topology", TESTBED, "--size", "64B"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
