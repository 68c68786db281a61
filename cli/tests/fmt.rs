//! `alfirk fmt` on files and standard streams.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

const UNTIDY: &str = "const bit<8>  X=1;// one\n";
const TIDY: &str = "const bit<8> X = 1;  // one\n";

fn alfirk_fmt(arguments: &[&str], folder: &tempfile::TempDir, input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .arg("fmt")
        .args(arguments)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was just built");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("it is read");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("there is room");
    fs::write(folder.path().join("a.p4"), UNTIDY).expect("there is room");
    fs::write(folder.path().join("b.p4"), TIDY).expect("there is room");
    folder
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the output is text")
}

#[test]
fn files_are_changed_in_place() {
    let folder = folder();
    let output = alfirk_fmt(&["a.p4", "b.p4"], &folder, "");
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "");
    assert_eq!(
        fs::read_to_string(folder.path().join("a.p4")).unwrap(),
        TIDY
    );
}

#[test]
fn check_lists_unformatted_files_without_changing_them() {
    let folder = folder();
    let output = alfirk_fmt(&["--check", "a.p4", "b.p4"], &folder, "");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stdout),
        format!("--- a.p4\n+++ a.p4 (formatted)\n@@ -1 +1 @@\n-{UNTIDY}+{TIDY}")
    );
    assert_eq!(
        fs::read_to_string(folder.path().join("a.p4")).unwrap(),
        UNTIDY
    );
    assert!(alfirk_fmt(&["--check", "b.p4"], &folder, "")
        .status
        .success());
}

#[test]
fn the_result_is_printed_with_stdout_or_for_stdin() {
    let folder = folder();
    assert_eq!(
        text(&alfirk_fmt(&["--stdout", "a.p4"], &folder, "").stdout),
        TIDY
    );
    assert_eq!(text(&alfirk_fmt(&["-"], &folder, UNTIDY).stdout), TIDY);
}

#[test]
fn missing_file_is_named_before_anything_changes() {
    let folder = folder();
    let output = alfirk_fmt(&["a.p4", "none.p4"], &folder, "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot read none.p4"));
    assert_eq!(
        fs::read_to_string(folder.path().join("a.p4")).unwrap(),
        UNTIDY
    );
}
