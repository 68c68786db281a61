//! The v1model data plane with hostile members: the packet tests of `hostile_members/`, each with the minimum search by tree and by
//! walk. The first line of every file describes what it tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn tests() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile_members");
    let files = fs::read_dir(folder).expect("the folder is there");
    let mut tests: Vec<PathBuf> = files
        .map(|file| file.expect("it can be read").path())
        .collect();
    tests.sort();
    tests
}

/// Runs a test; returns its output if it fails.
fn run(test: &Path) -> Result<(), String> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/v1model/main.p4");
    let output = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["stf".as_ref(), program.as_os_str(), test.as_os_str()])
        .output()
        .expect("the binary was just built");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(text.into_owned()),
    }
}

#[test]
fn no_false_acknowledgement_reaches_the_source_by_tree_and_walk() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let tests = tests();
    assert!(tests.len() > 10, "{tests:?}");
    for test in tests {
        let text = fs::read_to_string(&test).expect("the test can be read");
        for min_psn in 0..2 {
            let name = test.file_name().expect("a file has a name");
            let changed = folder.path().join(name);
            // Tests of another strategy do not contain `min_psn:0`, and stay unchanged.
            let text = text.replace("min_psn:0", &format!("min_psn:{min_psn}"));
            fs::write(&changed, text).expect("the folder can be written");
            run(&changed).unwrap_or_else(|why| panic!("with min_psn {min_psn}: {why}"));
        }
    }
}
