//! `alfirk packet`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the command in a folder.
fn packet_in(folder: &Path, line: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .arg("packet")
        .args(line)
        .current_dir(folder)
        .env("COLUMNS", "100")
        .env_remove("ALFIRK_LOG")
        .output()
        .expect("the command was built with the tests")
}

fn packet(line: &[&str]) -> Output {
    packet_in(Path::new("."), line)
}

/// Standard output of a command that succeeds.
fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("the output is text")
}

/// Message of a command that fails with this exit code.
fn message(line: &[&str], code: i32) -> String {
    let output = packet(line);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert!(output.stdout.is_empty() || code == 1, "{output:?}");
    String::from_utf8(output.stderr).expect("the message is text")
}

const ROCE: &str = r#"Ether(dst="02:00:00:00:00:02")/IP(src="10.0.0.1", dst="10.0.0.2")/UDP(dport=4791)/BTH(opcode="SEND_ONLY", dqpn=17, psn=7)/Raw("abc")/ICRC()"#;

#[test]
fn flags_and_their_help_are_as_reviewed() {
    let mut help = text(&packet(&["--help"]));
    for action in [
        "craft", "dissect", "diff", "send", "sniff", "random", "layers",
    ] {
        help += &format!("\n=== {action}\n");
        help += &text(&packet(&[action, "--help"]));
    }
    insta::assert_snapshot!(help);
}

#[test]
fn a_crafted_packet_is_shown_and_checked() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let hex = text(&packet(&["craft", ROCE]));
    assert_eq!(hex.trim().len(), 2 * (14 + 20 + 8 + 12 + 3 + 1 + 4));
    let shown = text(&packet(&["dissect", hex.trim()]));
    for line in [
        "###[ BTH ]###",
        "opcode    = SEND_ONLY",
        "padcount  = 1",
        "load      = b\"abc\"",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    for file in ["a.pcap", "a.pcapng"] {
        packet_in(folder.path(), &["craft", ROCE, "--write", file]);
        let summary = text(&packet_in(folder.path(), &["dissect", file, "--summary"]));
        let expected = "Ether / IP 10.0.0.1 > 10.0.0.2 / UDP domain > roce / BTH SEND_ONLY psn 7 / Raw 3 bytes / Pad 1 bytes / ICRC\n";
        assert_eq!(summary, expected);
        let check = Command::new(env!("CARGO_BIN_EXE_alfirk"))
            .args(["check-pcap", file])
            .current_dir(folder.path())
            .output()
            .expect("the command was built with the tests");
        assert!(check.status.success(), "{check:?}");
    }
}

#[test]
fn bad_input_has_its_place_and_a_remedy() {
    let cases: [(&[&str], &str); 9] = [
        (&["craft", "Ether()/IP(dts=1)"], "column 12: IP has no field `dts`; did you mean `dst`?\n  Ether()/IP(dts=1)\n             ^"),
        (&["craft", "IP(dst=\"10.0.0\")"], "IP.dst: `10.0.0` is not an IPv4 address; one looks like 10.0.0.1"),
        (&["dissect", "0g"], "`0g` is neither a file nor hexadecimal digits: column 2: `g` is not a hexadecimal digit"),
        (&["dissect", "no/such.pcap"], "no/such.pcap: no such file"),
        (&["dissect", "00", "--filter", "UPD"], "--filter: column 1: no layer has the name `UPD`; did you mean `UDP`?"),
        (&["diff", "00", "00", "--mask", "0"], "--mask: an odd number of hexadecimal digits; two digits are a byte"),
        (&["diff", "00", "00", "--ignore", "IP.tl"], "--ignore IP.tl: IP has no field `tl`; did you mean `ttl`?"),
        (&["layers", "UPD"], "no layer has the name `UPD`; did you mean `UDP`?"),
        (&["send", "-i", "nowhere", "00"], "interface nowhere does not exist in this network namespace, which has "),
    ];
    for (line, expected) in cases {
        let message = message(line, 2);
        assert!(
            message.starts_with("alfirk: ") && message.contains(expected),
            "{line:?}: {message}"
        );
    }
}

#[test]
fn different_packets_exit_with_1_and_name_the_fields() {
    let left = r#"IP(ttl=64)/UDP()/"abc""#;
    let right = r#"IP(ttl=63)/UDP()/"abd""#;
    let ignore = ["--ignore", "IP.chksum", "--ignore", "UDP"];
    let output = packet(&[&["diff", left, right], &ignore[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let expected = "IP.ttl: expected 64, received 63\nRaw.load: expected 63 from byte 2, received 64 from byte 2\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert!(output.stderr.is_empty(), "{output:?}");
    assert_eq!(text(&packet(&["diff", left, left])), "");
    let json = packet(&["diff", left, right, "--json", "--ignore", "Raw"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    assert_eq!(
        (
            json["equal"].as_bool(),
            json["differences"][0]["field"].as_str()
        ),
        (Some(false), Some("ttl"))
    );
    // Bits outside of the mask are not compared.
    let masked = packet(&["diff", "ff01", "ff02", "--mask", "ff00"]);
    assert_eq!(text(&masked), "");
}

#[test]
fn captures_are_compared_packet_by_packet() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let run = |line: &[&str]| packet_in(folder.path(), line);
    text(&run(&[
        "random", "--count", "20", "--seed", "3", "--write", "a.pcap",
    ]));
    text(&run(&[
        "random", "--count", "21", "--seed", "3", "--write", "b.pcapng",
    ]));
    let output = run(&["diff", "a.pcap", "b.pcapng"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(output.stdout, b"expected 20 packets, received 21\n");
    text(&run(&["diff", "a.pcap", "a.pcap"]));
}

#[test]
fn standard_input_has_captures_or_lines() {
    let run = |input: &[u8]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
            .args(["packet", "dissect", "-", "--hex"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command was built with the tests");
        let mut stdin = child.stdin.take().expect("it is a pipe");
        stdin.write_all(input).expect("the command reads");
        drop(stdin);
        child.wait_with_output().expect("the command ends")
    };
    assert_eq!(
        text(&run(b"# two packets\n00 01\n\nRaw(\"a\")\n")),
        "0001\n61\n"
    );
    let output = run(b"0001\nzz\n");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("standard input, line 2: column 1: `z` is not"),
        "{message}"
    );
}

#[test]
fn recomputing_repairs_checksums_and_lengths() {
    let good = text(&packet(&["craft", ROCE]));
    let broken = ROCE
        .replace("IP(", "IP(chksum=1, len=9, ")
        .replace("ICRC()", "ICRC(icrc=5)");
    let bad = text(&packet(&["craft", &broken]));
    assert_ne!(good, bad);
    // With a length of 9 the frame has no packet: the header is repaired first.
    let wrong_sums = ROCE
        .replace("IP(", "IP(chksum=1, ")
        .replace("ICRC()", "ICRC(icrc=5)");
    let bad = text(&packet(&["craft", &wrong_sums]));
    let repaired = packet(&["dissect", bad.trim(), "--recompute", "--hex"]);
    assert_eq!(text(&repaired), good);
}

#[test]
fn headers_of_a_program_are_layers() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live.p4");
    let layers = text(&packet(&["layers", "--p4", program]));
    let own = layers.lines().next().expect("the program has a header");
    let fields = text(&packet(&["layers", own, "--p4", program]));
    assert!(!fields.is_empty());
    let hex = text(&packet(&[
        "craft",
        &format!("{own}()/\"abc\""),
        "--p4",
        program,
    ]));
    let shown = text(&packet_in(
        folder.path(),
        &["dissect", hex.trim(), "--p4", program],
    ));
    assert!(shown.starts_with(&format!("###[ {own} ]###")), "{shown}");
}

#[test]
fn conditions_select_packets() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let run = |line: &[&str]| text(&packet_in(folder.path(), line));
    run(&["random", "--count", "300", "--write", "a.pcap"]);
    let lines = run(&[
        "dissect",
        "a.pcap",
        "--filter",
        "BTH and not IPv6",
        "--json",
    ]);
    let packets: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("it is JSON"))
        .collect();
    assert!(packets.len() > 5);
    for packet in packets {
        let layers = packet["layers"].as_array().expect("layers are a list");
        let has = |name: &str| layers.iter().any(|layer| layer["layer"] == name);
        assert!(has("BTH") && !has("IPv6"), "{packet}");
    }
    let two = run(&[
        "dissect",
        "a.pcap",
        "--filter",
        "BTH",
        "--count",
        "2",
        "--summary",
    ]);
    assert_eq!(two.lines().count(), 2);
}
