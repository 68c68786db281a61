//! `alfirk stf`: its messages and exit codes, and the compiler's tests against a started switch, which needs root. (On the switch in the
//! same process they are the compiler's own: `compiler/tests/packets.rs`.)

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../compiler/tests/programs")
}

fn stf(program: &Path, test: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["stf".as_ref(), program.as_os_str(), test.as_os_str()])
        .output()
        .expect("the binary was just built")
}

#[test]
fn a_test_that_passes_exits_with_0() {
    let program = programs().join("subcontrols.p4");
    let output = stf(&program, &program.with_extension("stf"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.ends_with(": passed\n"),
        "{text}"
    );
}

#[test]
fn the_architecture_is_set_by_the_flag() {
    let gresses = programs().join("tna/gresses.p4");
    let output = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["stf", "--arch", "t2na"])
        .args([&gresses, &gresses.with_extension("stf")])
        .output()
        .expect("the binary was just built");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
}

/// Our compiler rejects such a program; another compiler may accept it.
#[test]
fn a_second_register_access_drops_the_packet_and_both_accesses_are_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let json = folder.path().join("twice.json");
    let compiled = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["p4c", "--arch", "tna", "-o"])
        .args([&json, &programs().join("tna/gresses.p4")])
        .output()
        .expect("the binary was just built");
    assert!(compiled.status.success(), "{compiled:?}");
    let text = std::fs::read_to_string(&json).expect("the compiler wrote it");
    let mut program: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let actions = program["actions"].as_array_mut().expect("a list");
    let mut doubled = 0;
    for action in actions {
        let primitives = action["primitives"].as_array_mut().expect("a list");
        if let Some(at) = primitives.iter().position(|p| p["op"] == "register_access") {
            let again = primitives[at].clone();
            primitives.push(again);
            doubled += 1;
        }
    }
    assert!(doubled >= 2, "{doubled}");
    std::fs::write(&json, program.to_string()).expect("the folder can be written");
    let test = folder.path().join("twice.stf");
    std::fs::write(
        &test,
        "packet 3 03 00 00 00\nno_packet\npacket 3 01 02 12 34\nexpect 2 81 02 12 35 $\n",
    )
    .expect("the folder can be written");
    let output = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["stf", "--log", "info"])
        .args([&json, &test])
        .output()
        .expect("the binary was just built");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let output_text = "a packet accesses register Ingress.counts twice, at ";
    assert!(text.contains(output_text), "{text}");
}

#[test]
fn a_failing_test_names_its_line_and_exits_with_1() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let test = folder.path().join("wrong.stf");
    std::fs::write(&test, "packet 0 02 10 20 07\nexpect 1 02 01 00 07 $\n")
        .expect("the folder can be written");
    let output = stf(&programs().join("subcontrols.p4"), &test);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("wrong.stf:2: the packet at port 1 differs from the expected one"),
        "{text}"
    );
}

#[test]
fn a_trace_names_the_line_of_each_packet() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let output = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["stf", "--trace", "live.p4", "live.stf"])
        .current_dir(&here)
        .output()
        .expect("the binary was just built");
    let text = String::from_utf8_lossy(&output.stdout);
    let steps = [
        "live.stf:1: packet",
        "#1 in port 0, 14 bytes",
        "#1   table I.routes",
        "#1 dropped: ingress",
        "live.stf:6: packet",
        "#2 out port 1, 15 bytes",
        "live.stf: passed",
    ];
    let mut lines = text.lines();
    for step in steps {
        assert!(lines.any(|line| line.starts_with(step)), "{step}: {text}");
    }
    assert!(output.status.success());
}

/// Runs `alfirk stf` with these arguments on an example of the book.
fn example(folder: &str, line: &[&str]) -> (Option<i32>, String) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book/examples");
    let output = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .arg("stf")
        .args(line)
        .current_dir(examples.join(folder))
        .output()
        .expect("the binary was just built");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), text)
}

#[test]
fn all_outcomes_of_a_selector_and_a_random_number_are_a_tree() {
    let line = ["--all-outcomes", "outcomes.p4", "links.stf"];
    let (code, text) = example("outcomes", &line);
    let expected = "\
table Balance.next_hops: action 1 of 2
  random number 0 to 2: 0
    port 1: 0700
  random number 0 to 2: 1
    port 1: 0701
  random number 0 to 2: 2
    port 1: 0702
table Balance.next_hops: action 2 of 2
  random number 0 to 2: 0
    port 2: 0700
  random number 0 to 2: 1
    port 2: 0701
  random number 0 to 2: 2
    port 2: 0702
links.stf: 6 outcomes
links.stf: passed
";
    assert_eq!((code, text.as_str()), (Some(0), expected));
}

#[test]
fn an_undefined_value_that_matters_has_two_outcomes() {
    let line = ["--all-outcomes", "outcomes.p4", "undefined.stf"];
    let (code, text) = example("outcomes", &line);
    assert_eq!(code, Some(1), "{text}");
    for line in [
        "undefined values: all bits 0\n",
        "undefined values: all bits 1\n",
        "port 1: 07ff\n",
        "undefined.stf: 2 outcomes\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // One run has one of them, and passes.
    assert_eq!(example("outcomes", &line[1..]).0, Some(0));
}

#[test]
fn each_outcome_must_be_an_alternative_and_each_alternative_an_outcome() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let run = |expected: &str| {
        let test = folder.path().join("test.stf");
        let entry = "add next_hops hdr.flow.id:7 send(port:1) | drop()";
        std::fs::write(&test, format!("{entry}\npacket 0 07 00\n{expected}"))
            .expect("the folder can be written");
        let test = test.to_string_lossy().into_owned();
        example("outcomes", &["--all-outcomes", "outcomes.p4", &test])
    };
    // No packet is the second alternative.
    assert_eq!(run("expect 1 0700 $\nor\n").0, Some(0));
    let (code, text) = run("expect 1 0700 $\n");
    assert_eq!(code, Some(1));
    assert!(
        text.contains("expected a packet at port 1, received none"),
        "{text}"
    );
    let (code, text) = run("expect 1 0700 $\nor\nexpect 2 0700 $\nor\n");
    assert_eq!(code, Some(1));
    assert!(
        text.contains("test.stf:4: alternative 2 is not an outcome of the program"),
        "{text}"
    );
}

/// The packet is sent to a port, sent to a group, cloned and dropped in turn.
#[test]
fn packet_traces_have_the_form_of_bmv2() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let test = folder.path().join("traces.stf");
    let text = "add routes 1 hdr.ethernet.dst:0x000000000001 hdr.ethernet.isValid():1 forward(port:1)\n\
                add routes 1 hdr.ethernet.dst:0x000000000002 hdr.ethernet.isValid():1 flood(group:5)\n\
                add routes 1 hdr.ethernet.dst:0x000000000003 hdr.ethernet.isValid():1 mirror(port:2, session:7)\n\
                mc_mgrp_create 5\nmc_node_create 9 1 3\nmc_node_associate 5 0\n\
                mirroring_add 7 3\n\
                packet 4 000000000001 000000000000 0001\n\
                packet 4 000000000002 000000000000 0001\n\
                packet 4 000000000003 000000000000 0001\n\
                packet 4 000000000004 000000000000 0001\n";
    std::fs::write(&test, text).expect("the folder can be written");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live.p4");
    let dir = folder.path().join("traces");
    let output = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["stf", "--trace=txtpb", "--trace-dir"])
        .args([&dir, &program, &test])
        .output()
        .expect("the binary was just built");
    let printed = String::from_utf8_lossy(&output.stdout);
    let stages = |text: &str| -> Vec<String> {
        let value = |line: &str| Some(line.split_once(": ")?.1.trim_matches('"').to_owned());
        let lines = text.lines().map(str::trim);
        lines
            .filter(|line| line.starts_with("stage_name") || line.starts_with("direction"))
            .filter_map(value)
            .collect()
    };
    let read = |name: &str| {
        let text = std::fs::read_to_string(dir.join(name));
        let text = text.unwrap_or_else(|error| panic!("{name}: {error}\n{printed}"));
        assert!(printed.contains(&format!("# {name}\n{text}")), "{printed}");
        let trace: alfirk_p4runtime::p4::bm::PacketTrace =
            alfirk_p4runtime::text::parse(&text).expect("a PacketTrace");
        (text, trace)
    };
    let (text, sent) = read("trace_0.txtpb");
    let both = |name: &str| {
        [
            name.to_owned(),
            "ENTER".into(),
            name.to_owned(),
            "EXIT".into(),
        ]
    };
    let all = ["parser", "ingress", "egress", "deparser"].map(both);
    assert_eq!(stages(&text), all.concat());
    assert_eq!(sent.input.map(|input| input.ingress_port), Some(4));
    assert!(
        text.contains("transmit {\n    egress_port: 1\n    packet_size: 14\n"),
        "{text}"
    );
    // Each replica passes egress; the packet itself ends with ingress.
    let (text, flooded) = read("trace_1.txtpb");
    assert_eq!(stages(&text), all[..2].concat());
    assert_eq!(flooded.root.map(|root| root.outcome.is_none()), Some(true));
    for copy in ["trace_1.1.txtpb", "trace_1.2.txtpb"] {
        assert_eq!(stages(&read(copy).0), all[2..].concat());
    }
    // The clone is parsed again, and its replica passes egress.
    assert_eq!(stages(&read("trace_2.txtpb").0), all.concat());
    assert_eq!(stages(&read("trace_2.1.txtpb").0), all[..1].concat());
    assert_eq!(stages(&read("trace_2.2.txtpb").0), all[2..].concat());
    let (text, _) = read("trace_3.txtpb");
    assert_eq!(stages(&text), all[..2].concat());
    assert!(text.contains("drop {\n"), "{text}");
}

/// Runs `alfirk stf --interactive` on `live.p4` with this input, and returns the lines of its output.
fn interactive(input: &str) -> Vec<serde_json::Value> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live.p4");
    let mut child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["stf", "--interactive"])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was just built");
    let mut pipe = child.stdin.take().expect("it is piped");
    pipe.write_all(input.as_bytes())
        .expect("the command reads its input");
    drop(pipe);
    let output = child.wait_with_output().expect("the command ends");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(serde_json::from_str);
    lines.map(|line| line.expect("each line is JSON")).collect()
}

#[test]
fn commands_from_standard_input_have_a_result_each() {
    let results = interactive(
        "# a comment has none\n\
         setdefault routes forward(port:3)\n\
         packet 0 000000000001 000000000000 0001\n\
         counter_read kinds 1\n\
         register_write sources 1 0xf0\n\
         register_read sources 1\n",
    );
    let expected = serde_json::json!([
        {"line": 2},
        {"line": 3, "packets": [{"port": 3, "data": "0000000000010000000000000001"}]},
        {"line": 4, "counter": {"packets": 1, "bytes": 14}},
        {"line": 5},
        {"line": 6, "value": "f0"},
    ]);
    assert_eq!(serde_json::Value::from(results), expected);
}

#[test]
fn a_wrong_command_from_standard_input_does_not_end_the_session() {
    let results = interactive("pakket 0 00\nexpect 1\nregister_read nothing 0\nwait\n");
    let errors: Vec<_> = results.iter().map(|result| &result["error"]).collect();
    assert_eq!(
        errors[0],
        "unknown command `pakket`; did you mean `packet`?"
    );
    assert!(errors[1]
        .as_str()
        .is_some_and(|e| e.contains("belong to a test")));
    assert!(errors[2].as_str().is_some_and(|e| e.contains("nothing")));
    assert!(errors[3].is_null());
}

#[test]
fn a_malformed_test_exits_with_2() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let test = folder.path().join("bad.stf");
    std::fs::write(&test, "pakket 0 00\n").expect("the folder can be written");
    let output = stf(&programs().join("subcontrols.p4"), &test);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("line 1: unknown command `pakket`; did you mean `packet`?"),
        "{text}"
    );
}

#[test]
fn failures_are_reported_in_line_order_with_suggestions() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let test = folder.path().join("wrong.stf");
    let text = "packet 0 01 0007\n\
                expect 7 01 0007 $\n\
                add \"MyIngress.mixd\" 1 \"the kind\":1 \"NoAction\"()\n\
                add \"MyIngress.mixed\" 1 \"the knd\":1 \"NoAction\"()\n\
                add mixed 1 \"the kind\":1 \"MyIngress.change valu\"(\"new value\":1)\n\
                add mixed 1 \"the kind\":1 \"MyIngress.change value\"(\"new valeu\":1)\n\
                expect 3 01 0007 $\n\
                check_counter sen(0)\n\
                register_read lst 0\n";
    std::fs::write(&test, text).expect("the folder can be written");
    let output = stf(&programs().join("stf_generated.p4"), &test);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    let place = format!("{}:", test.display());
    let output_text: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix(&place))
        .collect();
    assert_eq!(
        output_text,
        [
            "2: expected a packet at port 7, received none",
            "3: there is no table `MyIngress.mixd`; did you mean `MyIngress.mixed`?",
            "4: table `MyIngress.mixed` has no key `the knd`; did you mean `the kind`?",
            "5: table `MyIngress.mixed` has no action `MyIngress.change valu`; did you mean `MyIngress.change value`?",
            "6: action `MyIngress.change value` has no parameter `new valeu`; did you mean `new value`?",
            "7: expected a packet at port 3, received none",
            "8: there is no counter `sen`; did you mean `MyIngress.seen`?",
            "9: there is no register `lst`; did you mean `MyIngress.last`?",
            " 8 checks failed",
        ],
        "{text}"
    );
}

/// Whether veth pairs can be created here; if not, the test is skipped.
fn namespaces_can_be_made() -> bool {
    let tried = Command::new("unshare").args(["--net", "true"]).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        alfirk_test_budget::skip("network namespaces cannot be created here (this is not root?)");
    }
    can
}

fn live(line: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .arg("stf")
        .args(line)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"))
        .output()
        .expect("the binary was just built")
}

#[test]
fn actions_with_one_name_are_distinguished_by_table() {
    let output = live(&["twins.p4", "twins.stf"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_switch_core_passes_the_tests_of_a_live_switch() {
    let alone = live(&["live.p4", "live.stf"]);
    assert!(alone.status.success(), "{alone:?}");
}

#[test]
fn a_live_switch_passes_the_tests_of_the_switch_core() {
    if !namespaces_can_be_made() {
        return;
    }
    let switch = env!("CARGO_BIN_EXE_alfirk");
    let started = live(&["--switch", switch, "live.p4", "live.stf"]);
    assert!(started.status.success(), "{started:?}");
}

#[test]
fn a_failed_test_on_a_live_switch_reports_its_lines() {
    if !namespaces_can_be_made() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let test = folder.path().join("wrong.stf");
    let text = "add routes 1 hdr.ethernet.isValid():1 forward(port:1)\n\
                add nowhere x:1 forward(port:1)\n\
                packet 0 0001\n\
                packet 0 000000000001 000000000000 0001\n\
                expect 1 ff $\n";
    std::fs::write(&test, text).expect("the folder can be written");
    let test = test.to_string_lossy();
    let output = live(&["--switch", env!("CARGO_BIN_EXE_alfirk"), "live.p4", &test]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let output_text = String::from_utf8_lossy(&output.stdout);
    for line in [
        "wrong.stf:2: there is no table `nowhere`; valid names: I.routes, I.prefixes",
        "wrong.stf:3: cannot send a packet of 2 bytes through an interface, which needs at least 14",
        "wrong.stf:5: the packet at port 1 differs from the expected one",
    ] {
        assert!(output_text.contains(line), "{output_text}");
    }
}

#[test]
fn switch_that_cannot_be_started_is_reported() {
    if !namespaces_can_be_made() {
        return;
    }
    let output = live(&["--switch", "/nowhere/switch", "live.p4", "live.stf"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let output = live(&["--switch", "false", "live.p4", "live.stf"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let output_text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output_text.contains("ended before it served P4Runtime"),
        "{output_text}"
    );
}

/// Frames in a capture that port 1 of a switch reads.
fn capture(frames: &[&[u8]]) -> Vec<u8> {
    let mut bytes = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1]
        .map(u32::to_le_bytes)
        .concat();
    for frame in frames {
        let length = frame.len() as u32;
        bytes.extend([0, 0, length, length].map(u32::to_le_bytes).concat());
        bytes.extend_from_slice(frame);
    }
    bytes
}

#[test]
fn a_switch_traces_the_packets_of_a_filter_up_to_a_count() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let frame = |kind: u8| [&[0_u8; 12][..], &[0, kind]].concat();
    let frames = [5, 9, 5, 5, 5].map(frame);
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    std::fs::write(folder.path().join("one_in.pcap"), capture(&frames)).expect("it can be written");
    let file = folder.path().join("trace.txt");
    let dir = folder.path().join("traces");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live.p4");
    let mut switch = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["switch", "--use-files", "0", "-i", "1@one"])
        .args(["--trace-filter", "Ether.type == 5", "--trace-count", "2"])
        .arg("--trace-file")
        .arg(&file)
        .arg("--trace-dir")
        .arg(&dir)
        .arg(&program)
        .args(["--", "--grpc-server-addr", "unix:p4runtime"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary was just built");
    let second = dir.join("trace_2.txtpb");
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(300);
    while !second.exists() {
        let ended = switch.try_wait().expect("it is a child of the test");
        assert!(ended.is_none(), "{ended:?}");
        assert!(std::time::Instant::now() < limit, "nothing is traced");
        std::thread::yield_now();
    }
    switch.kill().expect("it runs");
    switch.wait().expect("it is a child of the test");
    // Written before the files of the directory.
    let text = std::fs::read_to_string(&file).expect("the file was created");
    let received: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(" in port "))
        .collect();
    assert_eq!(
        received,
        ["#1 in port 1, 14 bytes", "#3 in port 1, 14 bytes"],
        "{text}"
    );
    let names = std::fs::read_dir(&dir).expect("the directory was created");
    let mut names: Vec<_> = names.map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["trace_0.txtpb", "trace_2.txtpb"]);
}

#[test]
fn a_filter_of_a_trace_must_be_a_condition_on_known_fields() {
    let output = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args([
            "switch",
            "--no-p4",
            "--trace",
            "--trace-filter",
            "IP.tll == 5",
        ])
        .output()
        .expect("the binary was just built");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("--trace-filter: ") && message.contains("tll"),
        "{message}"
    );
}
