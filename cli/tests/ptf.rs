//! `alfirk ptf` and `alfirk new ptf`: their flags, and the tests that are written. Running tests needs Python and
//! interfaces: `ptf-tests/tests/ptf_command_test.py`.

use std::path::Path;
use std::process::Command;

/// Output of a command that succeeds.
fn alfirk(folder: &Path, line: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(line)
        .current_dir(folder)
        .env("COLUMNS", "100")
        .env_remove("ALFIRK_LOG")
        .output()
        .expect("the command was built with the tests");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).expect("the output is text")
}

#[test]
fn flags_and_their_help_are_as_reviewed() {
    let mut help = String::new();
    for verbs in [&["ptf"][..], &["new"], &["new", "ptf"]] {
        let line = [verbs, &["--help"]].concat();
        help += &format!("=== {}\n", verbs.join(" "));
        help += &alfirk(Path::new("."), &line);
    }
    insta::assert_snapshot!(help);
}

#[test]
fn tables_of_all_kinds_have_a_test() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/new_ptf_kinds.p4");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::copy(program, folder.path().join("kinds.p4")).expect("the program exists");
    let printed = alfirk(folder.path(), &["new", "ptf", "kinds.p4"]);
    let read = |file: &str| {
        std::fs::read_to_string(folder.path().join("kinds-ptf").join(file)).expect("it was written")
    };
    let (module, readme) = (read("kinds_tests.py"), read("README.md"));
    insta::assert_snapshot!(format!(
        "{printed}=== kinds_tests.py\n{module}=== README.md\n{readme}"
    ));
    // Equal programs have equal tests.
    alfirk(folder.path(), &["new", "ptf", "kinds.p4", "-o", "again"]);
    let again = std::fs::read_to_string(folder.path().join("again/kinds_tests.py"));
    assert_eq!(again.expect("it was written"), module);
}

#[test]
fn tests_of_programs_for_tofino_use_bfruntime() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bfrt/test_data/bfrt.p4");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::copy(program, folder.path().join("objects.p4")).expect("the program exists");
    let printed = alfirk(
        folder.path(),
        &["new", "ptf", "objects.p4", "--arch", "tna"],
    );
    let read = |file: &str| {
        std::fs::read_to_string(folder.path().join("objects-ptf").join(file))
            .expect("it was written")
    };
    let (module, readme) = (read("objects_tests.py"), read("README.md"));
    insta::assert_snapshot!(format!(
        "{printed}=== objects_tests.py\n{module}=== README.md\n{readme}"
    ));
}
