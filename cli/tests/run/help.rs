//! Help of `alfirk run` as a snapshot. A change of it is a change of the command line: it needs a line in the changelog, and a removed flag
//! needs a reason.

use std::process::Command;

#[test]
fn flags_and_their_help_are_as_reviewed() {
    let output = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["run", "--help"])
        // Width of lines.
        .env("COLUMNS", "100")
        .env_remove("ALFIRK_LOG")
        .output()
        .expect("the command was built with the tests");
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!(String::from_utf8(output.stdout).expect("help is text"));
}
