//! `alfirk lsp` over standard input and output.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn serve(input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["lsp", "--stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was just built");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn message(body: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":null,"rootUri":null,"capabilities":{}}}"#;

#[test]
fn a_session_starts_and_ends() {
    let said = [
        INITIALIZE,
        r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"shutdown"}"#,
        r#"{"jsonrpc":"2.0","method":"exit"}"#,
    ];
    let output = serve(&said.map(message).concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let answers = String::from_utf8_lossy(&output.stdout);
    assert!(answers.contains(r#""renameProvider""#), "{answers}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_closed_or_malformed_editor_connection_is_reported() {
    for (said, why) in [
        (String::new(), "violates the Language Server Protocol"),
        (message(INITIALIZE), "violates the Language Server Protocol"),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "cannot read"),
        (message("{"), "cannot read"),
        (
            message(r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#),
            "violates the Language Server Protocol",
        ),
    ] {
        let output = serve(&said);
        assert_eq!(output.status.code(), Some(1), "{said:?}: {output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.contains(why) && stderr.lines().count() == 1,
            "{said:?}: {stderr}"
        );
    }
}
