//! `alfirk debug` and `alfirk run --debug` over standard input and output.

#[allow(dead_code)]
mod pipes;
#[allow(dead_code)]
mod serving;
#[cfg(feature = "tls")]
mod tls;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Output, Stdio};

use alfirk_p4runtime::alfirk::trace::v1::{trace_client::TraceClient, trace_message, WatchRequest};
use pipes::SwitchWithPipes;
use serde_json::{json, Value};
use serving::Running;

fn serve(input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .arg("debug")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was just built");
    let mut stdin = child.stdin.take().expect("it is piped");
    // The process may end before it has read everything.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn framed(body: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

fn requests(all: &[(&str, Value)]) -> String {
    let number = (1..).zip(all);
    let bodies = number.map(|(seq, (command, arguments))| {
        json!({"seq": seq, "type": "request", "command": command, "arguments": arguments})
            .to_string()
    });
    bodies.map(|body| framed(&body)).collect()
}

/// A whole session, with a breakpoint in an included file, a step back, and the result of the test.
#[test]
fn a_test_is_debugged() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../debug/tests/programs");
    let folder = tempfile::tempdir().unwrap();
    let test = folder.path().join("steps.stf");
    std::fs::write(&test, "packet 0 01 10\nexpect 7\n").unwrap();
    let (program, included) = (programs.join("steps.p4"), programs.join("headers.p4"));
    let input = requests(&[
        ("initialize", json!({"adapterID": "alfirk"})),
        ("launch", json!({"program": program, "test": test})),
        (
            "setBreakpoints",
            json!({"source": {"path": included}, "breakpoints": [{"line": 25}]}),
        ),
        ("configurationDone", json!({})),
        ("evaluate", json!({"expression": "hdr.first.value"})),
        ("next", json!({"threadId": 1})),
        ("evaluate", json!({"expression": "hdr.first.value + 0x80"})),
        ("stepBack", json!({"threadId": 1})),
        ("continue", json!({"threadId": 1})),
        ("disconnect", json!({})),
    ]);
    let output = serve(input.as_bytes());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for part in [
        r#""result":"0x10""#,
        r#""result":"0x91""#,
        "steps.stf:2: expected a packet at port 7, received none",
        "steps.stf: 1 check failed",
        r#""exitCode":1"#,
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn damaged_input_is_one_line() {
    for (input, why) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "Content-Length"),
        (framed("{"), "not JSON"),
        (framed("7"), "expected a request"),
        ("Content-Length: 100\r\n\r\n{}".to_owned(), "ends within"),
    ] {
        let output = serve(input.as_bytes());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{input:?}: {stderr}");
        assert!(
            stderr.contains(why) && stderr.lines().count() == 1,
            "{stderr}"
        );
    }
    let output = serve(b"");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// The editor of a debugger that runs as a process.
struct Editor {
    process: Running,
    output: BufReader<ChildStdout>,
    seq: u64,
    /// Events that no test has looked at.
    events: Vec<Value>,
}

impl Editor {
    fn start(arguments: &[&str]) -> Editor {
        let mut child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary was just built");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Editor {
            process: Running(child),
            output,
            seq: 0,
            events: Vec::new(),
        }
    }

    /// Attaches to a switch, with a function breakpoint.
    fn attach(flags: &[&str], arguments: Value, function: &str, condition: &str) -> Editor {
        let mut editor = Editor::start(&[&["debug"], flags].concat());
        editor.ok("initialize", json!({"adapterID": "alfirk"}));
        editor.ok("attach", arguments);
        editor.event("initialized");
        let breakpoint = json!({"name": function, "condition": condition});
        let set = editor.ok(
            "setFunctionBreakpoints",
            json!({"breakpoints": [breakpoint]}),
        );
        assert_eq!(set["breakpoints"][0]["verified"], json!(true), "{set}");
        editor.ok("configurationDone", json!({}));
        editor
    }

    fn message(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            let count = self.output.read_line(&mut line).expect("it is text");
            assert!(count > 0, "the debugger has ended");
            match line.trim_end().strip_prefix("Content-Length: ") {
                Some(number) => length = number.parse().expect("a number"),
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).expect("a whole message");
        serde_json::from_slice(&body).expect("it is JSON")
    }

    fn request(&mut self, command: &str, arguments: Value) -> Result<Value, String> {
        self.seq += 1;
        let request =
            json!({"seq": self.seq, "type": "request", "command": command, "arguments": arguments});
        let stdin = self.process.0.stdin.as_mut().expect("it is piped");
        stdin
            .write_all(framed(&request.to_string()).as_bytes())
            .expect("the debugger reads");
        loop {
            let message = self.message();
            match message["type"] == "response" && message["request_seq"] == json!(self.seq) {
                true if message["success"] == json!(true) => return Ok(message["body"].clone()),
                true => return Err(message["message"].as_str().unwrap_or_default().to_owned()),
                false => self.events.push(message),
            }
        }
    }

    fn ok(&mut self, command: &str, arguments: Value) -> Value {
        self.request(command, arguments)
            .unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Waits for an event, and returns its body.
    fn event(&mut self, name: &str) -> Value {
        loop {
            let found = self.events.iter().position(|event| event["event"] == name);
            if let Some(found) = found {
                return self.events.remove(found)["body"].clone();
            }
            let message = self.message();
            self.events.push(message);
        }
    }

    fn value(&mut self, expression: &str) -> String {
        let body = self.ok("evaluate", json!({"expression": expression}));
        body["result"].as_str().expect("a text").to_owned()
    }

    fn frames(&mut self) -> Vec<String> {
        let stack = self.ok("stackTrace", json!({"threadId": 1}));
        let frames = stack["stackFrames"].as_array().expect("a list").iter();
        frames
            .map(|frame| frame["name"].as_str().expect("a text").to_owned())
            .collect()
    }

    fn go(&mut self, command: &str) -> Value {
        self.ok(command, json!({"threadId": 1}));
        self.event("stopped")
    }
}

/// The program of the running switches.
fn switch_program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../debug/tests/programs/switch.p4")
}

#[test]
fn a_running_switch_holds_the_packet_that_hits_a_breakpoint() {
    let program = switch_program();
    let mut switch = SwitchWithPipes::start(&program, &[], &[]);
    let arguments = json!({ "program": program });
    let attach = ["--attach", &switch.address];
    let mut editor = Editor::attach(&attach, arguments, "send", "hdr.packet.kind == 2");
    switch.receive([1, 0x10]);
    switch.receive([2, 0x20]);
    switch.receive([1, 0x30]);
    let stopped = editor.event("stopped");
    assert_eq!(stopped["reason"], "function breakpoint");
    // Others pass while the packet is held.
    assert_eq!(switch.sent(2), [[1, 0x11], [1, 0x31]]);
    assert_eq!(editor.frames()[..2], ["In.send", "table In.route"]);
    assert_eq!(editor.value("hdr.packet.value"), "0x20");
    assert_eq!(editor.value("In.seen[0]"), "0x2");
    editor.go("stepBack");
    editor.go("stepBack");
    assert_eq!(editor.value("In.seen[0]"), "0x1");
    // A second debugger is refused, by the name of the first.
    let mut second = Editor::start(&["debug"]);
    let refused = second.request("attach", json!({"address": switch.address}));
    let why = refused.unwrap_err();
    assert!(
        why.contains("a debugger at 127.0.0.1:") && why.contains("is attached already"),
        "{why}"
    );
    assert_eq!(switch.sent(2).len(), 2);
    // The first continue comes to the breakpoint again.
    editor.go("continue");
    editor.ok("continue", json!({"threadId": 1}));
    assert_eq!(switch.sent(3)[2], [2, 0x21]);
    // An editor that disconnects in the middle leaves a switch that forwards everything.
    switch.receive([2, 0x40]);
    editor.event("stopped");
    drop(editor);
    assert_eq!(switch.sent(4)[3], [2, 0x41]);
    switch.receive([2, 0x50]);
    assert_eq!(switch.sent(5)[4], [2, 0x51]);
    // Now there is a place for another one.
    second.ok("attach", json!({"address": switch.address}));
    second.ok("disconnect", json!({}));
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live.p4");
    let mut third = Editor::start(&["debug", "--attach", &switch.address]);
    let why = third.request("attach", json!({ "program": other }));
    assert!(why.unwrap_err().contains("runs another program"));
}

#[test]
fn a_held_packet_is_sent_when_its_time_is_over() {
    let program = switch_program();
    let mut switch = SwitchWithPipes::start(&program, &[], &[]);
    let arguments = json!({ "program": program, "holdSeconds": 1 });
    let attach = ["--attach", &switch.address];
    let mut editor = Editor::attach(&attach, arguments, "send", "hdr.packet.kind == 2");
    switch.receive([2, 0x20]);
    editor.event("stopped");
    // The debugger does not continue.
    assert_eq!(switch.sent(1), [[2, 0x21]]);
    switch.receive([1, 0x30]);
    assert_eq!(switch.sent(2)[1], [1, 0x31]);
    // The record of the packet stays, and the session goes on.
    assert_eq!(editor.value("hdr.packet.value"), "0x20");
    switch.receive([2, 0x40]);
    assert_eq!(switch.sent(3)[2], [2, 0x41]);
}

#[test]
fn a_debugger_stays_attached_while_traces_come_and_go() {
    let program = switch_program();
    let mut switch = SwitchWithPipes::start(&program, &[], &[]);
    let attach = ["--attach", &switch.address];
    let arguments = json!({ "program": program });
    let mut editor = Editor::attach(&attach, arguments, "send", "hdr.packet.kind == 2");
    let runtime = tokio::runtime::Runtime::new().expect("it starts");
    let address = format!("http://{}", switch.address);
    let mut traces = runtime.block_on(async {
        let mut client = TraceClient::connect(address).await.expect("it listens");
        let request = WatchRequest {
            count: 2,
            ..WatchRequest::default()
        };
        client.watch(request).await.expect("it traces").into_inner()
    });
    // Both see the packet that is held.
    switch.receive([1, 0x10]);
    switch.receive([2, 0x20]);
    editor.event("stopped");
    assert_eq!(switch.sent(1), [[1, 0x11]]);
    let text = runtime.block_on(async {
        let mut text = String::new();
        while let Some(message) = traces.message().await.expect("it ends with OK") {
            if let Some(trace_message::Trace::Text(lines)) = message.trace {
                text += &lines;
            }
        }
        text
    });
    assert_eq!(text.matches(" out port 2").count(), 2, "{text}");
    // After the traces the debugger still records.
    editor.ok("continue", json!({"threadId": 1}));
    assert_eq!(switch.sent(2)[1], [2, 0x21]);
    switch.receive([2, 0x30]);
    editor.event("stopped");
    assert_eq!(editor.value("hdr.packet.value"), "0x30");
    drop(editor);
    assert_eq!(switch.sent(3)[2], [2, 0x31]);
}

#[test]
#[cfg(feature = "tls")]
fn a_switch_with_tls_is_debugged() {
    let authority = tls::Authority::new();
    let path = |name| authority.path(name);
    let [ca, cert, key] = ["ca.pem", "server.pem", "server.key"].map(path);
    let [client_cert, client_key] = ["client.pem", "client.key"].map(path);
    let server = [
        "--grpc-server-ssl",
        "--grpc-server-cacert",
        &ca,
        "--grpc-server-cert",
        &cert,
        "--grpc-server-key",
        &key,
        "--grpc-server-with-client-auth",
    ];
    let program = switch_program();
    let mut switch = SwitchWithPipes::start(&program, &[], &server);
    let attach = ["--attach", &switch.address];
    for flags in [&[][..], &["--cacert", &ca]] {
        let mut editor = Editor::start(&[&["debug"], &attach[..], flags].concat());
        let refused = editor.request("attach", json!({ "program": program }));
        assert!(refused.is_err(), "{refused:?}");
    }
    let client = [
        "--cacert",
        &ca,
        "--cert",
        &client_cert,
        "--key",
        &client_key,
    ];
    let arguments = json!({ "program": program });
    let flags = [&attach[..], &client].concat();
    let mut editor = Editor::attach(&flags, arguments, "send", "hdr.packet.kind == 2");
    switch.receive([2, 0x20]);
    editor.event("stopped");
    drop(editor);
    assert_eq!(switch.sent(1), [[2, 0x21]]);
}

#[test]
fn a_switch_that_cannot_be_attached_to_is_one_line() {
    let mut editor = Editor::start(&["debug"]);
    let mut why = |arguments: Value| editor.request("attach", arguments).unwrap_err();
    let none = why(json!({"address": "127.0.0.1:1"}));
    assert!(none.starts_with("no switch at 127.0.0.1:1: "), "{none}");
    assert!(why(json!({})).contains("`address`"));
    let text = why(json!({"address": "no port"}));
    assert!(text.contains("not an address with a port"), "{text}");
    let missing = why(json!({"address": "127.0.0.1:1", "program": "/missing.p4"}));
    assert!(missing.contains("missing.p4"), "{missing}");
}

/// The flags of a run in which packets are lost.
const RUN: [&str; 13] = [
    "run",
    "--topology",
    "testbed",
    "--size",
    "32KiB",
    "--model",
    "exact",
    "--algorithms",
    "alfirk",
    "--loss",
    "0.02",
    "--seed",
    "3",
];

#[test]
fn a_fabric_is_debugged_at_a_nak() {
    let plain = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(RUN)
        .output()
        .expect("the binary was just built");
    assert!(plain.status.success(), "{plain:?}");
    let mut editor = Editor::start(&[&RUN[..], &["--debug"]].concat());
    editor.ok("initialize", json!({"adapterID": "alfirk"}));
    editor.ok("launch", json!({}));
    editor.event("initialized");
    let nak = "hdr.aeth.isValid() && hdr.aeth.kind == 3";
    let breakpoint = json!({"name": "mft", "condition": nak});
    let set = editor.ok(
        "setFunctionBreakpoints",
        json!({"breakpoints": [breakpoint]}),
    );
    assert_eq!(set["breakpoints"][0]["verified"], json!(true), "{set}");
    editor.ok("configurationDone", json!({}));
    editor.event("stopped");
    let origin = editor.frames().pop().expect("a frame");
    assert!(origin.contains(" at switch s1, "), "{origin}");
    assert_eq!(editor.value("switch"), "s1");
    assert_eq!(editor.value(r#"switch == "s1" && time > 1000"#), "true");
    let time = editor.value("time");
    editor.go("next");
    assert_eq!(editor.value("time"), time);
    editor.go("stepBack");
    let scopes = editor.ok("scopes", json!({"frameId": 1}));
    let scopes = scopes["scopes"].as_array().expect("a list").clone();
    let pairs = scopes.iter().find(|scope| scope["name"] == "Queue pairs");
    let reference = &pairs.expect("there is the scope")["variablesReference"];
    let rows = editor.ok("variables", json!({"variablesReference": reference}));
    let row = &rows["variables"][0];
    assert!(
        row["name"]
            .as_str()
            .expect("a text")
            .starts_with("h1 QP 0x"),
        "{row}"
    );
    let inner = &row["variablesReference"];
    let values = editor.ok("variables", json!({"variablesReference": inner}));
    let values = values["variables"].to_string();
    for name in ["next PSN to send", "window", "NAKs received"] {
        assert!(values.contains(name), "no {name} in {values}");
    }
    let why = editor.request(
        "setExpression",
        json!({"expression": "hdr.bth.psn", "value": "1"}),
    );
    assert!(why.unwrap_err().contains("fabric"));
    editor.ok("setFunctionBreakpoints", json!({"breakpoints": []}));
    editor.ok("continue", json!({"threadId": 1}));
    assert_eq!(editor.event("exited")["exitCode"], 0);
    let report = loop {
        let output = editor.event("output");
        if output["category"] == "stdout" {
            break output["output"].clone();
        }
    };
    let plain = String::from_utf8_lossy(&plain.stdout);
    assert_eq!(report.as_str(), Some(&*plain));
}

#[test]
fn a_run_that_cannot_be_debugged_is_one_line() {
    for (flags, why) in [
        (
            &["--model", "fast", "--algorithms", "alfirk"][..],
            "add --model exact",
        ),
        (
            &["--model", "exact", "--algorithms", "alfirk,chain"],
            "name one algorithm",
        ),
        (&["--driver", "mininet"], "only the virtual driver"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_alfirk"))
            .args(["run", "--debug"])
            .args(flags)
            .stdin(Stdio::null())
            .output()
            .expect("the binary was just built");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains(why) && stderr.lines().count() == 1,
            "{stderr}"
        );
    }
}
