//! Helpers that run the `alfirk` command.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

pub const TESTBED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../topologies/testbed.yaml");

/// Runs `alfirk ARGUMENTS`.
pub fn alfirk(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(arguments)
        .env_remove("ALFIRK_LOG")
        .env_remove("RUST_BACKTRACE")
        .output()
        .expect("the command was built with the tests")
}

/// Runs the command, expects exit code 0, and returns its output.
pub fn good(arguments: &[&str]) -> Vec<u8> {
    let output = alfirk(arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {message}");
    output.stdout
}

/// Runs the command, and parses its output as one JSON object.
pub fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_slice(&good(arguments)).expect("the output is one JSON object")
}

/// Runs the command and expects one message with all of `words`, nothing on stdout, and exit code `code`.
pub fn refused(code: i32, arguments: &[&str], words: &[&str]) {
    let output = alfirk(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert_eq!(output.stdout, b"", "{arguments:?}");
    for word in words {
        assert!(
            message.contains(word),
            "{arguments:?}: no {word:?} in {message}"
        );
    }
    assert!(!message.contains("panicked"), "{message}");
}

/// Compiles the data plane for BMv2; returns the names of the JSON and of P4Info in text.
pub fn data_plane(folder: &Path) -> [String; 2] {
    let [json, info] =
        ["main.json", "main.txtpb"].map(|name| folder.join(name).to_str().unwrap().to_string());
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../p4src/v1model/main.p4");
    good(&["p4c", source, "-o", &json, "--p4runtime-files", &info]);
    [json, info]
}

/// Writes a file and returns its name.
pub fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_string()
}
