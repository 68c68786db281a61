//! The C example compiles against the header without a warning, links with the library, and prints errors.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn run(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text)
}

/// The folder of the shared library that cargo builds with this test.
fn libraries() -> PathBuf {
    let test = env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

#[test]
fn c_example_compiles_links_and_reports_errors() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("broadcast");
    let libraries = libraries();
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let (code, text) = run(Command::new(compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .arg("-I")
        .arg(here.join("include"))
        .arg(here.join("examples/broadcast.c"))
        .arg("-L")
        .arg(&libraries)
        .args(["-lalfirk_verbs", "-libverbs", "-o"])
        .arg(&program));
    assert_eq!(code, Some(0), "{text}");

    let example = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        run(command.args(arguments).env("LD_LIBRARY_PATH", &libraries))
    };
    let (code, text) = example(&["no-such-device", "10.255.0.1", "10.0.0.1", "3"]);
    assert_eq!(code, Some(1));
    assert!(
        text.starts_with("join: RDMA device no-such-device: "),
        "{text}"
    );
    let (code, text) = example(&["rxe0", "no-address", "10.0.0.1", "3"]);
    assert_eq!(code, Some(1));
    assert_eq!(text, "join: address `no-address` is not an IPv4 address\n");
    let (code, text) = example(&["rxe0", "10.255.0.1", "10.0.0.1", "1"]);
    assert_eq!(code, Some(1));
    assert_eq!(text, "join: a group needs at least 2 members, found 1\n");
}
