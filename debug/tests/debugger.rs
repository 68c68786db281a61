//! A scripted client of the debugger's core: programs of this folder, p4src, and the solutions of all labs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use alfirk_bmv2::trace::FrameFilter;
use alfirk_bmv2::{LoadedProgram, Switch, SwitchOptions};
use alfirk_compiler::arch::Arch;
use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_compiler::on_deep_stack;
use alfirk_compiler::preproc::MacroOption;
use alfirk_debug::{Debugger, Host, Launch};
use alfirk_stf::{Command, Records, Session};
use serde_json::{json, Value};

/// Test of `steps.p4`: a packet that passes, one that is cloned, one that recirculates, one without an entry.
const TEST: &str = "\
add In.route hdr.first.kind:1 In.send(port:7)
add In.route hdr.first.kind:2 In.send(port:7)
add In.route hdr.first.kind:3 In.send(port:7)
mirroring_add 5 8
packet 0 01 10
expect 7 01 24 $
packet 0 02 10
expect 7 02 24 $
packet 0 03 10
expect 7 03 4c $
packet 0 04 10
";

struct Files {
    test: String,
}

impl Host for Files {
    fn program(&self, launch: &Launch) -> Result<String, String> {
        let mut options = CompileOptions::new(&launch.program);
        let macros = launch.defines.iter().cloned().map(MacroOption::Define);
        options.preprocessor.macros = macros.collect();
        options.preprocessor.include_dirs = vec![repository("labs/shared")];
        options.set_arch(Arch::of(launch.arch.as_deref(), None).map_err(|e| e.to_string())?);
        options.actions_share_names = true;
        let compiled = compile(&options).map_err(|error| error.to_string())?;
        Ok(compiled.json.to_text())
    }

    fn text(&self, _: &Path) -> Result<String, String> {
        Ok(self.test.clone())
    }

    fn capture(&self, path: &Path) -> Result<Vec<Vec<u8>>, String> {
        match path.ends_with("two.pcap") {
            true => Ok(vec![vec![1, 0x10], vec![4, 0x10]]),
            false => Err("no such capture".to_owned()),
        }
    }
}

/// The side of the editor.
struct Client {
    debugger: Debugger,
    seq: i64,
    events: Vec<Value>,
    /// Description of the last stop.
    description: String,
}

impl Client {
    fn new(test: &str) -> Client {
        let test = test.to_owned();
        Client {
            debugger: Debugger::new(Box::new(Files { test })),
            seq: 0,
            events: Vec::new(),
            description: String::new(),
        }
    }

    fn request(&mut self, command: &str, arguments: Value) -> Result<Value, String> {
        self.seq += 1;
        let request =
            json!({"seq": self.seq, "type": "request", "command": command, "arguments": arguments});
        let mut replies = self.debugger.handle(&request).unwrap().into_iter();
        let response = replies.next().unwrap();
        assert_eq!(response["request_seq"], json!(self.seq));
        self.events = replies.collect();
        match response["success"].as_bool() {
            Some(true) => Ok(response["body"].clone()),
            _ => Err(response["message"].as_str().unwrap().to_owned()),
        }
    }

    fn ok(&mut self, command: &str, arguments: Value) -> Value {
        self.request(command, arguments)
            .unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Launches a program whose test is in memory.
    fn launched(program: &Path, test: &str, more: Value) -> Client {
        let mut client = Client::new(test);
        client.ok("initialize", json!({"adapterID": "alfirk"}));
        let mut launch = json!({"program": program, "test": "in memory"});
        for (key, value) in more.as_object().unwrap() {
            launch[key] = value.clone();
        }
        client.ok("launch", launch);
        assert!(client.has_event("initialized"));
        client
    }

    fn steps(more: Value) -> Client {
        Client::launched(&file("steps.p4"), TEST, more)
    }

    fn has_event(&self, name: &str) -> bool {
        self.events.iter().any(|event| event["event"] == name)
    }

    /// Sets breakpoints on lines, and returns the lines at which they are; 0 where they are not verified.
    fn lines(&mut self, path: &Path, breakpoints: Value) -> Vec<u64> {
        let set = self.ok(
            "setBreakpoints",
            json!({"source": {"path": path}, "breakpoints": breakpoints}),
        );
        let set = set["breakpoints"].as_array().unwrap();
        set.iter()
            .map(|set| set["line"].as_u64().unwrap_or(0))
            .collect()
    }

    fn start(&mut self) -> String {
        self.ok("configurationDone", json!({}));
        self.stop()
    }

    fn go(&mut self, command: &str) -> String {
        self.ok(command, json!({"threadId": 1}));
        self.stop()
    }

    /// Returns where and why the debugger stopped: `reason file:line frame`; `end` at the end of the test.
    fn stop(&mut self) -> String {
        if self.has_event("terminated") {
            return "end".to_owned();
        }
        let stopped = self.events.iter().find(|event| event["event"] == "stopped");
        let body = stopped.unwrap()["body"].clone();
        let reason = body["reason"].as_str().unwrap();
        self.description = body["description"].as_str().unwrap_or_default().to_owned();
        let frames = self.frames();
        format!("{reason} {}", frames[0])
    }

    fn frames(&mut self) -> Vec<String> {
        let stack = self.ok("stackTrace", json!({"threadId": 1}));
        let frames = stack["stackFrames"].as_array().unwrap().iter();
        let frame = |frame: &Value| {
            let name = frame["name"].as_str().unwrap();
            match frame["source"]["name"].as_str() {
                Some(file) => format!("{file}:{} {name}", frame["line"]),
                None => name.to_owned(),
            }
        };
        frames.map(frame).collect()
    }

    fn value(&mut self, expression: &str) -> String {
        let result = self.request(
            "evaluate",
            json!({"expression": expression, "context": "watch"}),
        );
        result.map_or_else(
            |error| format!("error: {error}"),
            |body| body["result"].as_str().unwrap().to_owned(),
        )
    }

    /// Returns the rows of a scope, or of rows inside it.
    fn rows(&mut self, path: &[&str]) -> Vec<(String, String)> {
        let reference = self.reference(path);
        let rows = self.ok("variables", json!({"variablesReference": reference}));
        let rows = rows["variables"].as_array().unwrap().iter();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        rows.map(|row| (text(row, "name"), text(row, "value")))
            .collect()
    }

    fn reference(&mut self, path: &[&str]) -> u64 {
        let scopes = self.ok("scopes", json!({"frameId": 1}));
        let mut list = scopes["scopes"].clone();
        let mut reference = 0;
        for (depth, name) in path.iter().enumerate() {
            if depth > 0 {
                list = self.ok("variables", json!({"variablesReference": reference}))["variables"]
                    .clone();
            }
            let found = list
                .as_array()
                .unwrap()
                .iter()
                .find(|row| row["name"] == **name);
            reference = found.unwrap_or_else(|| panic!("no {name} in {list}"))
                ["variablesReference"]
                .as_u64()
                .unwrap();
        }
        reference
    }
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Returns the number of the first line of a file with this text.
fn line_of(path: &Path, text: &str) -> u64 {
    let content = std::fs::read_to_string(path).unwrap();
    let found = content.lines().position(|line| line.contains(text));
    found.unwrap_or_else(|| panic!("no {text} in {}", path.display())) as u64 + 1
}

#[test]
fn breakpoints_stop_in_main_and_included_files_and_at_macros() {
    let (main, included) = (file("steps.p4"), file("headers.p4"));
    let (add, double) = (
        line_of(&included, "value + 1"),
        line_of(&main, "DOUBLE(hdr"),
    );
    let mut client = Client::steps(json!({}));
    assert_eq!(client.lines(&included, json!([{"line": add - 1}])), [add]);
    assert_eq!(
        client.lines(&main, json!([{"line": double}, {"line": 10_000}])),
        [double, 0]
    );
    assert_eq!(
        client.start(),
        format!("breakpoint headers.p4:{add} ingress")
    );
    assert_eq!(client.value("hdr.first.value"), "0x10");
    assert_eq!(
        client.go("continue"),
        format!("breakpoint steps.p4:{double} ingress")
    );
    assert_eq!(client.value("hdr.first.value"), "0x11");
    assert_eq!(
        client.value("hdr.first.isValid() && !hdr.second.isValid()"),
        "true"
    );
    assert_eq!(
        client.value("hdr.second.value"),
        "error: the header `second` is not valid here"
    );
    assert_eq!(
        client.go("continue"),
        format!("breakpoint headers.p4:{add} ingress")
    );
    assert_eq!(
        client.go("reverseContinue"),
        format!("breakpoint steps.p4:{double} ingress")
    );
    let other = client.ok(
        "setBreakpoints",
        json!({"source": {"path": "/elsewhere/x.p4"}, "breakpoints": [{"line": 1}]}),
    );
    assert_eq!(other["breakpoints"][0]["verified"], false);
}

#[test]
fn steps_go_in_over_out_and_back() {
    let main = file("steps.p4");
    let route = line_of(&main, "table route");
    let mut client = Client::steps(json!({}));
    client.ok(
        "setFunctionBreakpoints",
        json!({"breakpoints": [{"name": "route"}]}),
    );
    assert_eq!(
        client.start(),
        format!("function breakpoint steps.p4:{route} table In.route")
    );
    let send = line_of(&main, "std.egress_spec = port");
    assert_eq!(client.go("stepIn"), format!("step steps.p4:{send} In.send"));
    assert_eq!(
        client.frames()[1],
        format!("steps.p4:{route} table In.route")
    );
    assert_eq!(client.frames()[3], "packet 1 of line 5 of the test");
    assert_eq!(client.rows(&["Locals"])[0].0, "before");
    assert_eq!(client.value("port"), "0x7");
    assert_eq!(
        client.go("next"),
        format!("step steps.p4:{} In.send", send + 1)
    );
    assert_eq!(client.value("hdr.first.value"), "0x22");
    let condition = line_of(&main, "if (hdr.first.kind == 2)");
    assert_eq!(
        client.go("stepOut"),
        format!("step steps.p4:{condition} ingress")
    );
    assert_eq!(client.value("hdr.first.value"), "0x24");
    assert_eq!(
        client.go("stepBack"),
        format!("step steps.p4:{} In.send", send + 1)
    );
    assert_eq!(client.value("hdr.first.value"), "0x22");
    assert_eq!(
        client.go("stepBack"),
        format!("step steps.p4:{send} In.send")
    );
    assert!(client.go("stepBack").ends_with("table In.route"));
    assert_eq!(
        client.go("next"),
        format!("step steps.p4:{condition} ingress")
    );
}

#[test]
fn states_of_the_parser_are_steps() {
    let main = file("steps.p4");
    let mut client = Client::steps(json!({"stopOnEntry": true}));
    let start = line_of(&main, "state start");
    assert_eq!(
        client.start(),
        format!("entry steps.p4:{start} parser, state start")
    );
    assert_eq!(
        client.go("stepIn"),
        format!("step steps.p4:{} parser, state start", start + 1)
    );
    assert_eq!(client.value("hdr.first.isValid()"), "false");
    assert_eq!(
        client.go("stepIn").split_once(' ').unwrap().1,
        format!(
            "headers.p4:{} ingress",
            line_of(&file("headers.p4"), "value + 1")
        )
    );
    assert_eq!(client.value("hdr.first.isValid()"), "true");
}

#[test]
fn conditions_hits_and_log_points_choose_stops() {
    let included = file("headers.p4");
    let add = line_of(&included, "value + 1");
    let mut client = Client::steps(json!({}));
    client.lines(
        &included,
        json!([{"line": add, "condition": "hdr.first.kind == 3 && meta.rounds == 1"}]),
    );
    client.start();
    assert_eq!(client.value("hdr.first.kind ++ meta.rounds"), "0x301");
    let mut client = Client::steps(json!({}));
    client.lines(&included, json!([{"line": add, "hitCondition": "2"}]));
    client.start();
    assert_eq!(client.value("hdr.first.kind"), "0x2");
    let mut client = Client::steps(json!({}));
    client.lines(
        &included,
        json!([{"line": add, "logMessage": "kind {hdr.first.kind}, {hdr.x}"}]),
    );
    assert_eq!(client.start(), "end");
    let outputs: Vec<&Value> = client
        .events
        .iter()
        .filter(|event| event["event"] == "output")
        .collect();
    let text = |at: usize| outputs[at]["body"]["output"].as_str().unwrap();
    assert_eq!(
        text(0),
        "kind 0x1, <`hdr.x` is not a variable of the program>\n"
    );
    let set = client.ok(
        "setBreakpoints",
        json!({"source": {"path": included}, "breakpoints": [{"line": add, "condition": "1 +"}]}),
    );
    assert_eq!(
        set["breakpoints"][0]["message"],
        "`1 +` is not a P4 expression"
    );
}

#[test]
fn the_launch_configuration_names_where_to_stop() {
    let mut client = Client::steps(json!({"stopAt": "route"}));
    let at = client.start();
    let mut same = Client::steps(json!({}));
    same.ok(
        "setFunctionBreakpoints",
        json!({"breakpoints": [{"name": "route"}]}),
    );
    assert_eq!(at, same.start());
    assert!(at.starts_with("function breakpoint "), "{at}");
    let mut client = Client::steps(json!({"stopAt": "rout"}));
    let refused = client.request("configurationDone", json!({}));
    assert_eq!(
        refused.unwrap_err(),
        "`rout` is not a table, action or parser state"
    );
}

#[test]
fn written_fields_and_register_cells_stop() {
    let mut client = Client::steps(json!({}));
    let info = client.ok("dataBreakpointInfo", json!({"name": "hdr.first.value"}));
    assert_eq!(info["dataId"], "hdr.first.value");
    let info = client.ok("dataBreakpointInfo", json!({"name": "nothing"}));
    assert!(info["dataId"].is_null());
    client.ok(
        "setDataBreakpoints",
        json!({"breakpoints": [{"dataId": "seen[3]"}]}),
    );
    assert!(client.start().starts_with("data breakpoint steps.p4:"));
    assert_eq!(client.value("seen[3]"), "0x1");
    assert_eq!(
        client.value("seen[16]"),
        "error: `seen` has 16 cells, the index is 16"
    );
    client.go("continue");
    assert_eq!(client.value("seen[3]"), "0x2");
    client.go("reverseContinue");
    assert_eq!(client.value("seen[3]"), "0x1");
    client.ok("setDataBreakpoints", json!({"breakpoints": [{"dataId": "hdr.first.value", "condition": "hdr.first.value == 0x22"}]}));
    assert!(client
        .go("reverseContinue")
        .starts_with("data breakpoint steps.p4:"));
}

#[test]
fn drops_and_misses_stop() {
    let mut client = Client::steps(json!({}));
    client.ok("setExceptionBreakpoints", json!({"filters": ["miss"]}));
    assert!(client.start().starts_with("exception steps.p4:"));
    assert_eq!(client.value("hdr.first.kind"), "0x4");
    client.ok("setExceptionBreakpoints", json!({"filters": ["drop"]}));
    assert!(client.go("continue").starts_with("exception steps.p4:"));
    let description = client.description.clone();
    assert!(description.starts_with("packet dropped: "), "{description}");
    assert_eq!(client.go("continue"), "end");
}

#[test]
fn a_changed_value_takes_effect() {
    let included = file("headers.p4");
    let add = line_of(&included, "value + 1");
    let mut client = Client::steps(json!({}));
    client.lines(&included, json!([{"line": add}]));
    client.start();
    let first = client.reference(&["Headers", "first"]);
    client.ok(
        "setVariable",
        json!({"variablesReference": first, "name": "value", "value": "0x20"}),
    );
    assert_eq!(client.value("hdr.first.value"), "0x20");
    let refused = client.request(
        "setVariable",
        json!({"variablesReference": first, "name": "value", "value": "256"}),
    );
    assert_eq!(refused.unwrap_err(), "the value needs more than 8 bits");
    client.ok(
        "setExpression",
        json!({"expression": "seen[3]", "value": "41"}),
    );
    client.lines(&included, json!([]));
    client.ok(
        "setDataBreakpoints",
        json!({"breakpoints": [{"dataId": "seen[3]"}]}),
    );
    client.go("continue");
    assert_eq!(client.value("hdr.first.value"), "0x42");
    assert_eq!(client.value("seen[3]"), "0x2a");
    client.ok("setDataBreakpoints", json!({"breakpoints": []}));
    assert_eq!(client.go("continue"), "end");
    assert_eq!(client.debugger.exit_code(), Some(1));
    let outputs = client
        .events
        .iter()
        .filter(|event| event["event"] == "output");
    let text: String = outputs
        .map(|event| event["body"]["output"].as_str().unwrap())
        .collect();
    assert!(
        text.contains("in memory:6: ") && text.ends_with("in memory: 1 check failed\n"),
        "{text}"
    );
}

#[test]
fn clones_and_recirculated_packets_show_their_origin() {
    let main = file("steps.p4");
    let egress = line_of(&main, "hdr.first.kind == 3 && meta");
    let mut client = Client::steps(json!({}));
    client.lines(
        &main,
        json!([{"line": egress, "condition": "standard_metadata.instance_type == 1"}]),
    );
    client.start();
    let frames = client.frames();
    assert!(
        frames.contains(&"packet 2, copy 1: clone".to_owned()),
        "{frames:?}"
    );
    assert_eq!(frames.last().unwrap(), "packet 2 of line 7 of the test");
    client.lines(
        &main,
        json!([{"line": egress, "condition": "meta.rounds == 1"}]),
    );
    client.go("continue");
    let frames = client.frames();
    assert!(
        frames.iter().any(|frame| frame.ends_with(": recirculated")),
        "{frames:?}"
    );
}

#[test]
fn tables_registers_and_metadata_are_shown() {
    let main = file("steps.p4");
    let mut client = Client::steps(json!({}));
    client.lines(&main, json!([{"line": line_of(&main, "clone(")}]));
    client.start();
    let route = client.rows(&["Tables", "In.route"]);
    assert_eq!(route.len(), 4);
    assert!(route[0].1.ends_with("=> In.send(0x7)"), "{route:?}");
    assert_eq!(route[3], ("default".to_owned(), "In.drop()".to_owned()));
    let seen = client.rows(&["Registers", "In.seen"]);
    assert_eq!((seen.len(), seen[3].1.as_str()), (16, "0x2"));
    let reference = client.reference(&["Registers", "In.seen"]);
    let page = client.ok(
        "variables",
        json!({"variablesReference": reference, "start": 3, "count": 1}),
    );
    assert_eq!(page["variables"].as_array().unwrap().len(), 1);
    assert_eq!(page["variables"][0]["name"], "[3]");
    let headers = client.rows(&["Headers"]);
    assert_eq!(headers[1], ("second".to_owned(), "invalid".to_owned()));
    let standard = client.rows(&["Standard metadata", "standard_metadata"]);
    assert!(
        standard.contains(&("egress_spec".to_owned(), "0x7".to_owned())),
        "{standard:?}"
    );
    let completions = client.ok("completions", json!({"text": "first.va", "column": 9}));
    assert_eq!(completions["targets"][0]["label"], "first.value");
}

#[test]
fn frames_of_a_capture_are_packets() {
    let mut client = Client::new("add In.route hdr.first.kind:1 In.send(port:7)\n");
    client.ok("launch", json!({"program": file("steps.p4"), "capture": "two.pcap", "commands": "entries", "port": 3}));
    client.ok(
        "setFunctionBreakpoints",
        json!({"breakpoints": [{"name": "send"}, {"name": "drop"}]}),
    );
    client.start();
    assert_eq!(client.value("standard_metadata.ingress_port"), "0x3");
    assert!(client.go("continue").ends_with("In.drop"));
    assert_eq!(client.go("continue"), "end");
}

#[test]
fn a_program_with_errors_is_one_message() {
    let folder = tempfile::tempdir().unwrap();
    let half = folder.path().join("half.p4");
    std::fs::write(
        &half,
        "#include <core.p4>\ncontrol C(inout bit<8> x) { apply { x = y; }\n",
    )
    .unwrap();
    let mut client = Client::new(TEST);
    client.ok("initialize", json!({}));
    let error = client
        .request("launch", json!({"program": half, "test": "t"}))
        .unwrap_err();
    assert!(error.contains("half.p4"), "{error}");
    assert!(client.has_event("output") && client.has_event("terminated"));
    for command in ["continue", "stepBack", "stackTrace", "scopes", "restart"] {
        client.request(command, json!({})).unwrap_err();
    }
}

#[test]
fn damaged_requests_are_refused() {
    let mut client = Client::steps(json!({}));
    for (command, arguments) in [
        ("flyTo", json!({})),
        ("attach", json!({})),
        ("variables", json!({"variablesReference": 99})),
        ("variables", json!([1, 2])),
        ("setBreakpoints", json!({"source": {}})),
        ("setVariable", json!({"variablesReference": "x"})),
        ("evaluate", json!({"expression": "((((("})),
        ("launch", json!({"program": "a.p4"})),
    ] {
        client.request(command, arguments).unwrap_err();
    }
    for message in [
        json!(7),
        json!({"type": "request"}),
        json!({"seq": "x", "type": "request", "command": "next"}),
    ] {
        client.debugger.handle(&message).unwrap_err();
    }
    assert!(!client.debugger.is_done());
    client.ok("disconnect", json!({}));
    assert!(client.debugger.is_done());
}

#[test]
fn restart_begins_again() {
    let mut client = Client::steps(json!({"stopOnEntry": true}));
    let first = client.start();
    client.go("next");
    client.go("next");
    client.ok("restart", json!({}));
    assert_eq!(client.stop(), first);
}

#[test]
fn tna_programs_have_registers_and_both_gresses() {
    let program = repository("compiler/tests/programs/tna/gresses.p4");
    let test = std::fs::read_to_string(program.with_extension("stf")).unwrap();
    let mut client = Client::launched(&program, &test, json!({"arch": "tna", "stopOnEntry": true}));
    assert!(client.start().contains("gresses.p4:"));
    let mut blocks = std::collections::BTreeSet::new();
    let first = client.frames();
    for _ in 0..40 {
        client.go("stepIn");
        blocks.extend(client.frames());
    }
    let all = blocks.into_iter().collect::<Vec<_>>().join(", ");
    for block in ["ingress", "egress parser", "egress"] {
        assert!(all.contains(block), "no {block} in {all}");
    }
    for _ in 0..45 {
        client.go("stepBack");
    }
    assert_eq!(client.frames(), first);
}

/// The built-in program is debugged on both targets, here with a packet that no table knows.
#[test]
fn the_built_in_program_is_debugged() {
    on_deep_stack(|| {
        for (arch, port) in [("v1model", None), ("tna", Some("CPU_PORT=64"))] {
            let program = repository(&format!("p4src/{arch}/main.p4"));
            let frame = "02000000000102000000000208004500001c0000000040110000c0a80001c0a80002000012b700080000";
            let more = json!({"arch": arch, "stopOnEntry": true, "defines": port.into_iter().collect::<Vec<_>>()});
            let mut client = Client::launched(&program, &format!("packet 1 {frame}\n"), more);
            let first = client.start();
            let mut stops = vec![first];
            while client.value("hdr.ipv4.isValid()") != "true" {
                stops.push(client.go("stepIn"));
                assert_ne!(stops.last().unwrap(), "end", "{arch}: {stops:?}");
            }
            assert!(stops.len() > 3, "{arch}: {stops:?}");
            assert_eq!(client.value("hdr.ipv4.ttl"), "0x40", "{arch}");
        }
    });
}

/// Every lab in P4 is debugged: a breakpoint in the solution, a value, a step back.
#[test]
fn every_lab_is_debugged() {
    let lab = |kind: &str| format!("packet 2 02000000000102000000000288b6{kind}000005\n");
    // Ethernet, IPv4, UDP, BTH with PSN 5, 16 bytes, ICRC.
    let roce = "packet 1 020000000001020000000002 0800 \
        4500003c0000400040110000 0a0000010aff0001 c00012b700280000 \
        0440ffff0000000100000005 00112233445566778899aabbccddeeff 00000000\n";
    let (header, packet) = roce.split_at("packet 1 ".len());
    let roce = format!("{header}{}\n", packet.replace([' ', '\n'], ""));
    let cases = [
        (
            "merge-acks",
            lab("01"),
            "hdr.lab.kind",
            "hdr.lab.psn",
            "0x5",
        ),
        ("minimum", lab("01"), "hdr.lab.kind", "hdr.lab.psn", "0x5"),
        (
            "naks",
            lab("02"),
            "has = hdr.lab.psn;",
            "hdr.lab.psn",
            "0x5",
        ),
        (
            "replicate",
            roce.clone(),
            "table groups",
            "hdr.bth.psn",
            "0x5",
        ),
        (
            "bridge",
            roce,
            "standard_metadata.mcast_grp = 1;",
            "hdr.bth.psn",
            "0x5",
        ),
    ];
    let folders = std::fs::read_dir(repository("labs")).unwrap();
    let with_p4 =
        folders.filter(|folder| folder.as_ref().unwrap().path().join("solution.p4").exists());
    assert_eq!(with_p4.count(), cases.len());
    for (name, packet, text, expression, value) in cases {
        let program = repository(&format!("labs/{name}/solution.p4"));
        let mut client = Client::launched(&program, &packet, json!({}));
        let line = line_of(&program, text);
        let at = client.lines(&program, json!([{ "line": line }]));
        let stop = client.start();
        assert!(
            stop.starts_with(&format!("breakpoint solution.p4:{}", at[0])),
            "{name}: {stop}"
        );
        assert_eq!(client.value(expression), value, "{name}");
        let back = client.go("stepBack");
        assert!(back.starts_with("step ") && back != stop, "{name}: {back}");
        let again = client.go("stepIn");
        assert_eq!(
            again.split_once(' '),
            stop.split_once(' ').map(|(_, at)| ("breakpoint", at)),
            "{name}"
        );
    }
}

/// A running switch with the program `switch.p4`, whose frames are recorded for a debugger.
struct RunningSwitch {
    client: Client,
    switch: Switch,
    frames: u64,
}

impl RunningSwitch {
    fn attached(attach: Value) -> RunningSwitch {
        let launch = Launch {
            program: file("switch.p4"),
            ..Launch::default()
        };
        let json = Files {
            test: String::new(),
        }
        .program(&launch)
        .unwrap();
        let parse = |text: &str, _: &str| match text {
            "even" => Ok(FrameFilter::new(|frame| frame[0] % 2 == 0)),
            other => Err(format!("no filter {other}")),
        };
        let mut client = Client::new("");
        client.debugger = Debugger::of_switch(&json, parse);
        let mut attach = attach;
        if attach["program"] == "same" {
            attach["compiled"] = json!([json.replace("switch.p4", "/elsewhere/switch.p4")]);
        }
        client.ok("attach", attach);
        client.ok("configurationDone", json!({}));
        let mut switch = Switch::new(SwitchOptions::default());
        switch.load(Arc::new(LoadedProgram::from_json(&json).unwrap()));
        RunningSwitch {
            client,
            switch,
            frames: 0,
        }
    }

    /// Processes a frame as the driver of a switch does. Returns whether it is held, or `None` if it is not recorded.
    fn receive(&mut self, frame: &[u8]) -> Option<bool> {
        if !self.client.debugger.wants(frame) {
            return None;
        }
        let program = self.client.debugger.program().unwrap().clone();
        let before = self.switch.recording_copy(&program).unwrap();
        self.switch.process(1, frame, 0);
        self.frames += 1;
        let debugger = &mut self.client.debugger;
        let (is_held, events) = debugger.packet(self.frames, (1, 0), frame.to_vec(), before);
        self.client.events = events;
        Some(is_held)
    }

    fn function(&mut self, name: &str, condition: &str) {
        let breakpoint = json!({"name": name, "condition": condition});
        let set = self.client.ok(
            "setFunctionBreakpoints",
            json!({ "breakpoints": [breakpoint] }),
        );
        assert_eq!(set["breakpoints"][0]["verified"], json!(true), "{set}");
    }

    fn released(&mut self) -> Vec<u64> {
        let released = self.client.debugger.take_released().into_iter();
        released.map(|packet| packet.id).collect()
    }
}

#[test]
fn a_running_switch_holds_only_packets_that_hit_a_breakpoint() {
    let mut run = RunningSwitch::attached(json!({}));
    // Without a breakpoint, nothing is recorded.
    assert_eq!(run.receive(&[1, 0x10]), None);
    run.function("route", "hdr.packet.kind == 2");
    assert_eq!(run.receive(&[1, 0x10]), Some(false));
    assert!(!run.client.has_event("stopped"));
    assert_eq!(run.receive(&[2, 0x20]), Some(true));
    let route = line_of(&file("switch.p4"), "table route");
    let at_route = format!("function breakpoint switch.p4:{route} table In.route");
    assert_eq!(run.client.stop(), at_route);
    assert_eq!(
        run.client.frames().last().unwrap(),
        "packet 2 received at port 1"
    );
    // The register counts the packet before, which passed without a stop.
    assert_eq!(run.client.value("In.seen[0]"), "0x2");
    assert_eq!(run.client.go("stepBack").split(' ').next(), Some("step"));
    assert_eq!(run.client.value("In.seen[0]"), "0x1");
    // A second packet waits for its turn; others pass.
    assert_eq!(run.receive(&[2, 0x30]), Some(true));
    assert_eq!(run.receive(&[1, 0x40]), Some(false));
    assert_eq!(run.client.value("hdr.packet.value"), "0x20");
    assert_eq!(run.client.go("continue"), at_route);
    assert!(run.released().is_empty());
    assert_eq!(run.client.go("continue"), at_route);
    assert_eq!(run.client.value("hdr.packet.value"), "0x30");
    assert_eq!(run.released(), [2]);
    run.client.ok("continue", json!({"threadId": 1}));
    assert!(!run.client.has_event("stopped"));
    assert_eq!(run.released(), [3]);
    // The end of the session releases what is held.
    assert_eq!(run.receive(&[2, 0x50]), Some(true));
    run.client.ok("disconnect", json!({}));
    assert_eq!(run.released(), [5]);
    assert_eq!(run.receive(&[2, 0x50]), None);
}

#[test]
fn a_held_packet_is_sent_as_the_debugger_has_changed_it() {
    let mut run = RunningSwitch::attached(json!({"stopAt": "send"}));
    assert_eq!(run.receive(&[1, 0x10]), Some(true));
    let set = json!({"expression": "hdr.packet.value", "value": "0x7f"});
    run.client.ok("setExpression", set);
    run.client.ok("continue", json!({"threadId": 1}));
    let released = run.client.debugger.take_released();
    assert_eq!(released[0].frames, Some(vec![(2, vec![1, 0x80])]));
}

#[test]
fn number_of_held_packets_is_limited() {
    let mut run = RunningSwitch::attached(json!({"stopOnEntry": true, "filter": "even"}));
    assert_eq!(run.receive(&[1, 0]), None);
    assert_eq!(run.receive(&[2, 0]), Some(true));
    assert!(run.client.stop().starts_with("entry switch.p4:"));
    run.function("drop", "");
    let held = (0..40)
        .filter(|_| run.receive(&[4, 0]) == Some(true))
        .count();
    assert_eq!(held, 16);
    run.client.debugger.expired(1);
}

#[test]
fn only_the_program_that_the_switch_runs_can_be_attached_to() {
    let mut run = RunningSwitch::attached(json!({"program": "same"}));
    let mut attach = |arguments: Value| run.client.request("attach", arguments).unwrap_err();
    let why = attach(json!({"program": "other.p4", "compiled": ["{}"]}));
    assert!(
        why.starts_with("the switch runs another program (") && why.contains("than other.p4"),
        "{why}"
    );
    assert_eq!(attach(json!({"filter": "odd"})), "filter: no filter odd");
    let why = Client::new("").request("attach", json!({})).unwrap_err();
    assert!(why.contains("`address`"), "{why}");
}

/// A copy that records runs another form of the program: entries and members of all kinds must lead to the code of that form.
#[test]
fn copies_that_record_send_what_the_switch_sends() {
    let read = |path: &str| std::fs::read_to_string(repository(path)).unwrap();
    // Meters depend on the time.
    let live = read("cli/tests/live.stf");
    let live = live.split("meter_set_rates").next().unwrap();
    let members = read("compiler/tests/programs/default_members.stf");
    let mut packets = 0;
    for (program, test) in [
        (file("steps.p4"), TEST),
        (repository("cli/tests/live.p4"), live),
        (
            repository("compiler/tests/programs/default_members.p4"),
            &members,
        ),
    ] {
        let files = Files {
            test: String::new(),
        };
        let launch = Launch {
            program,
            ..Launch::default()
        };
        let json = files.program(&launch).unwrap();
        let notes = Arc::new(LoadedProgram::with_notes(&json).unwrap());
        let mut session = Session::start(&json, 0, Records::default()).unwrap();
        for line in alfirk_stf::parse(test).unwrap() {
            let mut copied = Vec::new();
            if let Command::Packet { port, data } = &line.command {
                let copy = session.switch().recording_copy(&notes).unwrap();
                let (stops, trace, sent) = copy.process_again(*port, data, 0, Vec::new());
                assert!(!stops.stops.is_empty() && !trace.is_empty());
                copied = sent;
                packets += 1;
            }
            assert_eq!(session.step(&line), None);
            let mut sent = session.take_packets();
            copied.sort();
            sent.sort();
            assert_eq!(
                copied,
                sent,
                "{}: line {}",
                launch.program.display(),
                line.number
            );
        }
    }
    assert!(packets >= 20, "{packets} packets");
}
