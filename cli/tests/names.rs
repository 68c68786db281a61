//! The names under which the command is installed, each started as people do.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

fn program() -> String {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compiler/tests/programs");
    programs
        .join("subcontrols.p4")
        .to_string_lossy()
        .into_owned()
}

/// Runs the command under another name, in a folder of its own.
fn called(name: &str, folder: &Path, arguments: &[&str]) -> Output {
    let link = folder.join(name);
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_alfirk"), &link).expect("the folder can be written");
    }
    Command::new(link)
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the binary was just built")
}

#[test]
fn every_name_tells_its_flags() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for name in [
        "p4c",
        "p4c-bm2-ss",
        "simple_switch",
        "simple_switch_CLI",
        "simple_switch_grpc",
    ] {
        let output = called(name, folder.path(), &["--help"]);
        assert!(output.status.success(), "{name}: {output:?}");
        assert!(!output.stdout.is_empty(), "{name}");
    }
}

#[test]
fn p4c_is_the_driver_and_p4c_bm2_ss_the_compiler() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let source = program();
    for arguments in [
        &[
            "--target", "bmv2", "--arch", "v1model", "-o", "out", &source,
        ][..],
        &["-b", "bmv2", "-Tpass:3", "-o", "out", &source][..],
    ] {
        let output = called("p4c", folder.path(), arguments);
        assert!(output.status.success(), "{output:?}");
        for file in ["out/subcontrols.p4i", "out/subcontrols.json"] {
            let file = folder.path().join(file);
            std::fs::remove_file(&file)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
    }
    let output = called("p4c", folder.path(), &["--target", "tofino", &source]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let arguments = ["-Tpass:3", "-o", "one.json", &source];
    let output = called("p4c-bm2-ss", folder.path(), &arguments);
    assert!(output.status.success(), "{output:?}");
    assert!(folder.path().join("one.json").exists());
}
