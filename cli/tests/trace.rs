//! `alfirk trace`: traces of packets in a running switch, which was started without them.

mod pipes;
#[allow(dead_code)]
mod serving;
#[cfg(feature = "tls")]
mod tls;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdout, Command, Output, Stdio};

use alfirk_p4runtime::alfirk::trace::v1::{
    trace_client::TraceClient, trace_message, Format, TraceMessage, WatchRequest,
};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use pipes::SwitchWithPipes;
use serving::Running;
use tonic::Streaming;

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traced.p4")
}

/// Starts a switch that sends kind 1 to port 2, kind 2 to port 2 twice, and drops all others.
fn switch(flags: &[&str]) -> SwitchWithPipes {
    let flags = [&["--thrift-port", "0"], flags].concat();
    let switch = SwitchWithPipes::start(&program(), &flags, &[]);
    control(
        &switch,
        "mc_mgrp_create 5
        mc_node_create 1 2
        mc_node_associate 5 0
        mc_node_create 2 2
        mc_node_associate 5 1
        table_add In.route In.send 1 => 2
        table_add In.route In.copy 2 => 5",
    );
    switch
}

/// Runs commands of `alfirk cli` on a switch, and returns their output.
fn control(switch: &SwitchWithPipes, commands: &str) -> String {
    let port = switch.thrift.as_deref().expect("it serves Thrift");
    let mut child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["cli", "--thrift-port", port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was just built");
    let mut input = child.stdin.take().expect("it is piped");
    input
        .write_all(format!("{commands}\n").as_bytes())
        .expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends with its input");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        !text.contains("Error") && !text.contains("Invalid"),
        "{text}"
    );
    text
}

/// A process of `alfirk trace`.
struct Watcher {
    process: Running,
    output: BufReader<ChildStdout>,
    errors: BufReader<ChildStderr>,
}

impl Watcher {
    /// Starts the process, and waits until it watches.
    fn start(switch: &SwitchWithPipes, flags: &[&str]) -> Watcher {
        let mut watcher = Watcher::launch(switch, flags);
        let mut line = String::new();
        while !line.contains("watching") {
            line.clear();
            let count = watcher.errors.read_line(&mut line).expect("it is text");
            assert!(count > 0, "alfirk trace has ended");
        }
        watcher
    }

    fn launch(switch: &SwitchWithPipes, flags: &[&str]) -> Watcher {
        let mut child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
            .args(["--log", "info", "trace", "--switch", &switch.address])
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was just built");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let errors = BufReader::new(child.stderr.take().expect("it is piped"));
        Watcher {
            process: Running(child),
            output,
            errors,
        }
    }

    /// Waits for the end of the process, and returns its output and its exit code.
    fn end(mut self) -> (String, String, Option<i32>) {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let output = self.output.read_to_string(&mut stdout);
        output.expect("it is text");
        let errors = self.errors.read_to_string(&mut stderr);
        errors.expect("it is text");
        let status = self.process.0.wait().expect("it has ended");
        (stdout, stderr, status.code())
    }

    /// Returns the next line of the output.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it is text");
        line.trim_end().to_owned()
    }
}

#[test]
fn chosen_packets_are_traced_with_all_details_while_the_state_stays() {
    let mut switch = switch(&[]);
    switch.receive([1, 0]);
    switch.receive([1, 0]);
    assert_eq!(switch.sent(2), [[1, 0], [1, 1]]);
    let watcher = Watcher::start(&switch, &["--filter", "packet.kind == 1", "--count", "2"]);
    for kind in [2, 1, 1, 1] {
        switch.receive([kind, 0]);
    }
    let (text, errors, code) = watcher.end();
    assert_eq!(code, Some(0), "{errors}");
    // Two packets of kind 1, and nothing of the others.
    assert_eq!(text.matches(" in port 1, 2 bytes").count(), 2, "{text}");
    assert!(text.starts_with("#2 in port 1"), "{text}");
    assert!(text.ends_with("#3 out port 2, 2 bytes\n"), "{text}");
    for detail in [
        "#2     read register In.seen[0]: 0x3",
        "#2   if (hdr.packet.value == 0) true",
        "#2     packet.value: 0x0 > 0x3",
        "#2     write register In.seen[0]: 0x4",
        "[hdr.packet.kind = 0x1] hit entry 0: In.send(port = 0x2)",
    ] {
        assert!(text.contains(detail), "no {detail} in {text}");
    }
    // Entries, groups and registers are those of before, with the changes of all packets.
    let sent = [[1, 0], [1, 1], [2, 2], [2, 2], [1, 3], [1, 4], [1, 5]];
    assert_eq!(switch.sent(7), sent);
    let watcher = Watcher::start(&switch, &["--count", "1"]);
    switch.receive([1, 0]);
    assert_eq!(watcher.end().2, Some(0));
    switch.receive([1, 0]);
    assert_eq!(switch.sent(9)[7..], [[1, 6], [1, 7]]);
    let cells = control(&switch, "register_read In.seen 0");
    assert!(cells.contains("8"), "{cells}");
}

#[test]
fn watchers_do_not_disturb_each_other_or_the_trace_of_the_command_line() {
    let mut switch = switch(&["--trace-file", "all.txt"]);
    let mut ones = Watcher::start(&switch, &["--filter", "packet.kind == 1", "--count", "3"]);
    switch.receive([1, 9]);
    assert_eq!(ones.line(), "#1 in port 1, 2 bytes");
    let copies = Watcher::start(
        &switch,
        &["-f", "packet.kind == 2", "-c", "1", "--format", "json"],
    );
    switch.receive([1, 9]);
    switch.receive([2, 9]);
    let (json, _, code) = copies.end();
    assert_eq!(code, Some(0));
    for line in json.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
        assert_eq!(value["packet"], 3, "{line}");
    }
    assert_eq!(json.matches(r#""event":"out""#).count(), 2, "{json}");
    assert!(!json.contains(r#""event":"block""#), "{json}");
    let messages = Watcher::start(&switch, &["-c", "1", "--format", "txtpb"]);
    switch.receive([1, 9]);
    let (rest, _, code) = ones.end();
    assert_eq!(code, Some(0));
    assert_eq!(rest.matches(" in port ").count(), 2, "{rest}");
    assert!(
        rest.contains("#2 in port") && rest.contains("#4 in port"),
        "{rest}"
    );
    let (messages, _, code) = messages.end();
    assert_eq!(code, Some(0));
    assert!(messages.starts_with("# trace_3.txtpb\n"), "{messages}");
    assert!(messages.contains("stage_name: \"ingress\""), "{messages}");
    switch.receive([3, 9]);
    switch.receive([1, 9]);
    assert_eq!(switch.sent(6).len(), 6);
    let all = loop {
        let all = std::fs::read_to_string(switch.path("all.txt")).expect("it is text");
        if all.contains("#6 out port") {
            break all;
        }
    };
    let received = all.lines().filter(|line| line.contains(" in port "));
    let received: Vec<&str> = received.collect();
    let expected = (1..=6).map(|n| format!("#{n} in port 1, 2 bytes"));
    assert_eq!(received, expected.collect::<Vec<_>>());
    assert!(!all.contains("starts"), "{all}");
}

/// Runs `alfirk trace` to its end.
fn trace(flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .arg("trace")
        .args(flags)
        .output()
        .expect("the binary was just built")
}

#[test]
fn errors_are_one_line() {
    let with_program = switch(&[]);
    let (_without, address) = serving::switch("1", &[]);
    let with = &*with_program.address;
    for (flags, code, why) in [
        (
            &["--switch", with, "--filter", "packet.kin == 1"][..],
            2,
            "--filter: ",
        ),
        (&["--switch", with, "--filter", "(("], 2, "--filter: "),
        (&["--switch", &*address], 1, "has no program to trace"),
        (
            &["--switch", "127.0.0.1:1"],
            1,
            "no reply from a switch at 127.0.0.1:1",
        ),
        (&["--switch", "no port"], 2, "not an address with a port"),
    ] {
        let output = trace(flags);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
        // A filter is shown below its error.
        let is_filter = flags.contains(&"--filter");
        assert!(is_filter || stderr.lines().count() == 1, "{stderr}");
    }
}

#[test]
fn another_program_ends_the_traces() {
    let mut switch = switch(&[]);
    let json = switch.path("other.json");
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("../debug/tests/programs/switch.p4");
    let compiled = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .arg("p4c")
        .arg(other)
        .arg("-o")
        .arg(&json)
        .status();
    assert!(compiled.expect("the binary was just built").success());
    let watcher = Watcher::start(&switch, &[]);
    let load = format!("load_new_config_file {}\nswap_configs", json.display());
    control(&switch, &load);
    let (_, errors, code) = watcher.end();
    assert_eq!(code, Some(1), "{errors}");
    assert!(
        errors.contains("the switch has loaded another program"),
        "{errors}"
    );
    // The new program is traced, too, from the first packet on.
    let watcher = Watcher::start(&switch, &["--count", "1", "--filter", "packet.value == 7"]);
    switch.receive([1, 7]);
    let (text, errors, code) = watcher.end();
    assert_eq!(code, Some(0), "{errors}");
    assert!(text.contains("In.send(port = 0x2)"), "{text}");
    assert!(text.contains("In.seen"), "{text}");
    assert_eq!(switch.sent(1), [[1, 8]]);
}

#[test]
fn ctrl_c_and_a_closed_output_end_the_command() {
    let mut switch = switch(&[]);
    let watcher = Watcher::start(&switch, &[]);
    let id = Pid::from_raw(watcher.process.0.id().try_into().expect("an id"));
    kill(id, Signal::SIGINT).expect("it runs");
    let (text, errors, code) = watcher.end();
    assert_eq!((text.as_str(), code), ("", Some(0)), "{errors}");
    let Watcher {
        mut process,
        output,
        ..
    } = Watcher::start(&switch, &[]);
    drop(output);
    let status = process.0.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
    switch.receive([1, 9]);
    assert_eq!(switch.sent(1), [[1, 9]]);
}

/// Starts the traces of a client in this process.
async fn watch(switch: &SwitchWithPipes, request: WatchRequest) -> Streaming<TraceMessage> {
    let client = TraceClient::connect(format!("http://{}", switch.address)).await;
    let mut client = client.expect("the switch listens");
    let traces = client.watch(request).await;
    traces.expect("it traces").into_inner()
}

#[test]
fn a_slow_client_loses_messages_and_the_switch_goes_on() {
    const FRAMES: u64 = 8000;
    let runtime = tokio::runtime::Runtime::new().expect("it starts");
    let mut switch = switch(&[]);
    let request = WatchRequest {
        count: FRAMES,
        format: Format::Json.into(),
        ..WatchRequest::default()
    };
    let mut slow = runtime.block_on(watch(&switch, request.clone()));
    let gone = runtime.block_on(watch(&switch, request));
    for number in 0..FRAMES {
        switch.receive([1, 1 + (number % 200) as u8]);
        if number == FRAMES / 2 {
            break;
        }
    }
    drop(gone);
    for number in FRAMES / 2 + 1..FRAMES {
        switch.receive([1, 1 + (number % 200) as u8]);
    }
    // Nothing waits for the client, which has not received any message yet.
    let sent = switch.sent(FRAMES as usize);
    assert!(sent.iter().all(|[kind, value]| *kind == 1 && *value > 0));
    let (mut received, mut lost) = (0, 0);
    runtime.block_on(async {
        while let Some(message) = slow.message().await.expect("it ends without an error") {
            lost += message.lost;
            match message.trace {
                Some(trace_message::Trace::Json(json)) => {
                    received += json.matches(r#""event":"in""#).count() as u64;
                }
                Some(other) => panic!("{other:?}"),
                None => {}
            }
        }
    });
    assert!(lost > 0, "{received} messages are received");
    assert_eq!(received + lost, FRAMES);
}

#[test]
fn too_many_clients_are_refused() {
    let runtime = tokio::runtime::Runtime::new().expect("it starts");
    let switch = switch(&[]);
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..16 {
            clients.push(watch(&switch, WatchRequest::default()).await);
        }
        let client = TraceClient::connect(format!("http://{}", switch.address)).await;
        let mut client = client.expect("the switch listens");
        let refused = client.watch(WatchRequest::default()).await;
        let status = refused.expect_err("there are too many");
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    });
}

#[test]
#[cfg(feature = "tls")]
fn the_traces_of_a_switch_with_tls_are_encrypted() {
    let authority = tls::Authority::new();
    let path = |name| authority.path(name);
    let [ca, cert, key] = ["ca.pem", "server.pem", "server.key"].map(path);
    let server = [
        "--grpc-server-ssl",
        "--grpc-server-cert",
        &cert,
        "--grpc-server-key",
        &key,
    ];
    let mut switch = SwitchWithPipes::start(&program(), &[], &server);
    let plain = trace(&["--switch", &switch.address]);
    let stderr = String::from_utf8_lossy(&plain.stderr);
    assert_eq!(plain.status.code(), Some(1), "{stderr}");
    let watcher = Watcher::start(&switch, &["--cacert", &ca, "--count", "1"]);
    switch.receive([7, 7]);
    let (text, errors, code) = watcher.end();
    assert_eq!(code, Some(0), "{errors}");
    assert!(text.ends_with("#1 dropped: ingress\n"), "{text}");
}

#[test]
fn flags_and_their_help_are_as_reviewed() {
    let output = trace(&["--help"]);
    insta::assert_snapshot!(String::from_utf8(output.stdout).expect("it is text"));
}
