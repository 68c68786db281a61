//! `alfirk view` and `alfirk ctrl --web`, without a browser. The contents of the page are tested in `view/tests`.

#[allow(dead_code)] // `json`: nothing here is printed as JSON.
#[path = "run/common.rs"]
mod common;
mod serving;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use alfirk_view::trace::{self, Event};
use common::{data_plane, file, good, refused, TESTBED};
use serving::Running;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alfirk"));
    command.args(arguments);
    command
}

/// Body of the response to a `GET` of a path.
fn get(address: &str, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("the page is served");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    answer.split_off(head.expect("an answer has a head") + 4)
}

/// The address in the first line that has one.
fn page(output: impl Read) -> String {
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("http://"));
    let line = line.expect("the page's address is printed");
    let (_, address) = line.split_once("http://").unwrap();
    address.split('/').next().unwrap().to_owned()
}

#[test]
fn a_trace_is_served_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let file = file.to_str().unwrap();
    good(&[
        "run",
        "--size",
        "8KiB",
        "--algorithms",
        "alfirk",
        "--trace",
        file,
    ]);
    let mut viewing = command(&["view", file, "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let address = page(viewing.stdout.take().unwrap());
    let _viewing = Running(viewing);
    assert_eq!(get(&address, "/traces/0"), std::fs::read(file).unwrap());
    assert!(String::from_utf8(get(&address, "/"))
        .unwrap()
        .contains("main.js"));
}

/// The exact model takes a group's state from the registers of the P4 pipeline, the fast one from the rules in Rust.
#[test]
fn both_models_write_the_same_trace() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [
        "--size 256KiB --loss 0.01 --switch-source 2",
        "--size 64KiB --op write --write per-request --topology leaf-spine:2,2,3",
        "--size 256KiB --registration mrp --kill h7@20us",
        "--size 64KiB --congestion dcqcn --loss 0.05 --topology testbed",
    ] {
        let traces = ["exact", "fast"].map(|model| {
            let file = folder.path().join(format!("{model}.jsonl"));
            let made = command(&["run", "--algorithms", "alfirk", "--model", model])
                .args(flags.split(' '))
                .arg("--trace")
                .arg(&file)
                .output()
                .unwrap();
            assert_eq!(made.status.code(), Some(0), "{flags}: {made:?}");
            std::fs::read_to_string(file).unwrap()
        });
        let [exact, fast] = &traces;
        let differs = exact.lines().zip(fast.lines()).find(|(a, b)| a != b);
        assert_eq!(differs, None, "{flags}");
        assert_eq!(exact.len(), fast.len(), "{flags}");
        let is_mft = |line: &&str| line.starts_with("{\"e\":\"mft\"");
        assert!(exact.lines().filter(is_mft).count() > 20, "{flags}");
    }
}

#[test]
fn a_malformed_trace_is_rejected_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    refused(2, &["view", &path("none")], &["none", "No such file"]);
    for (name, text, words) in [
        ("empty", "", &["line 1", "empty", "--trace FILE.jsonl"][..]),
        ("text", "1 h1:0 tx 60 other\n", &["line 1", "not a trace"]),
        (
            "next",
            "{\"alfirk_trace\":7}\n",
            &["version 7", "version 2"],
        ),
    ] {
        file(folder.path(), name, text);
        refused(2, &["view", &path(name)], words);
    }
    let trace = path("half.jsonl");
    good(&[
        "run",
        "--size",
        "1KiB",
        "--algorithms",
        "alfirk",
        "--trace",
        &trace,
    ]);
    let whole = std::fs::read_to_string(&trace).unwrap();
    std::fs::write(&trace, &whole[..whole.len() / 2]).unwrap();
    refused(2, &["view", &trace], &["half.jsonl: line "]);
}

#[test]
fn an_address_in_use_is_reported_before_the_run() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    refused(
        1,
        &["run", "--web", &address],
        &["--web", &address, "another port"],
    );
    refused(
        2,
        &["run", "--web", "--driver", "mininet"],
        &["--web", "virtual driver"],
    );
}

#[test]
fn a_controller_serves_a_page_of_its_actions() {
    let folder = tempfile::tempdir().unwrap();
    let [json, info] = data_plane(folder.path());
    let (_switch, server) = serving::switch("1", &["--cpu-port", "510"]);
    let mut controller = command(&["ctrl", "--topology", TESTBED])
        .args(["--switch", &format!("s1={server}"), "--p4info", &info])
        .args(["--device-config", &json, "--listen", "127.0.0.1:0"])
        .args(["--web", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let address = page(controller.stderr.take().unwrap());
    let mut ready = String::new();
    let mut output = BufReader::new(controller.stdout.take().unwrap());
    let _controller = Running(controller);
    output.read_line(&mut ready).unwrap();
    assert!(ready.starts_with("ready"), "{ready}");

    let bytes = get(&address, "/traces/0");
    let (header, events) = trace::read(&bytes[..]).unwrap();
    assert_eq!(header.topology, "testbed");
    let notes = events.iter().filter_map(|event| match event {
        Event::Note(note) => Some(note.text.as_str()),
        _ => None,
    });
    let notes: Vec<&str> = notes.collect();
    for expected in [
        "s1: connected",
        "s1: loads the pipeline",
        "all switches are ready",
    ] {
        assert!(notes.contains(&expected), "{expected}: {notes:?}");
    }
    let listed = String::from_utf8(get(&address, "/traces")).unwrap();
    assert!(listed.contains("\"live\":true"), "{listed}");
}
