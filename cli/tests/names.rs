//! The names under which the command is installed, each started as users do.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

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
fn every_installed_name_has_its_own_help() {
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

#[test]
fn switch_compiles_a_program_in_p4() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let socket = folder.path().join("p4runtime");
    let address = format!("unix:{}", socket.display());
    let mut switch = Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["switch", &program(), "--", "--grpc-server-addr", &address])
        .spawn()
        .expect("the binary was just built");
    // The socket exists once the program is compiled and loaded.
    let limit = Instant::now() + Duration::from_secs(300);
    while !socket.exists() {
        let ended = switch.try_wait().expect("it is a child of the test");
        assert!(ended.is_none(), "{ended:?}");
        assert!(Instant::now() < limit, "it serves nothing");
        std::thread::yield_now();
    }
    switch.kill().expect("it runs");
    switch.wait().expect("it is a child of the test");

    let wrong = folder.path().join("wrong.p4");
    std::fs::write(&wrong, "header h_t { bit<8> a }\n").expect("the folder can be written");
    let wrong = wrong.to_string_lossy();
    let output = called("alfirk", folder.path(), &["switch", &wrong]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("wrong.p4:1:"), "{message}");
}

#[test]
fn shells_and_man_know_every_verb() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let alfirk = |arguments: &[&str]| {
        let output = called("alfirk", folder.path(), arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text is UTF-8")
    };
    let help = alfirk(&["--help"]);
    let verbs = help
        .lines()
        .take_while(|line| *line != "Options:")
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help");
    let verbs: Vec<&str> = verbs.collect();
    assert!(
        verbs.contains(&"run") && verbs.contains(&"experiment"),
        "{verbs:?}"
    );
    let scripts = ["bash", "zsh", "fish"].map(|shell| alfirk(&["completions", shell]));
    alfirk(&["man", "pages"]);
    for verb in verbs {
        assert!(scripts.iter().all(|script| script.contains(verb)), "{verb}");
        let page = folder.path().join(format!("pages/alfirk-{verb}.1"));
        assert!(page.is_file(), "{verb} has no page");
    }
}

#[test]
fn completion_of_algorithms_offers_their_names() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let output = called("alfirk", folder.path(), &["completions", "bash"]);
    let script = String::from_utf8_lossy(&output.stdout);
    let after = script.split("--algorithms)").nth(1).expect("a flag");
    let offers = after.lines().nth(1).expect("a line with the offers");
    for name in ["alfirk", "chain", "rdmc", "all"] {
        assert!(offers.contains(name), "{offers}");
    }
    assert!(!offers.contains("-f "), "{offers}");
}
