//! `alfirk debug` over standard input and output.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{json, Value};

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
