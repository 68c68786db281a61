//! `alfirk doctor`.

use std::process::{Command, Output};

fn doctor(line: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .arg("doctor")
        .args(line)
        .output()
        .expect("the binary was just built")
}

#[test]
fn virtual_time_is_always_ready() {
    let output = doctor(&["virtual"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"ready    virtual  alfirk run\n");
}

#[test]
fn a_named_use_with_missing_requirements_fails() {
    let lacks_all = |line: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_alfirk"))
            .arg("doctor")
            .args(line)
            .env("PATH", "/nowhere")
            .env_remove("BF_P4C")
            .output()
            .expect("the binary was just built")
    };
    let named = lacks_all(&["tofino", "--json"]);
    assert_eq!(named.status.code(), Some(1), "{named:?}");
    let report: serde_json::Value = serde_json::from_slice(&named.stdout).expect("it is JSON");
    assert_eq!(report["uses"][0]["ready"], false, "{report}");
    let all = lacks_all(&[]);
    assert_eq!(all.status.code(), Some(0), "{all:?}");
    assert!(String::from_utf8_lossy(&all.stdout).contains("missing  tofino"));
}

#[test]
fn timeouts_of_queue_pairs_are_checked() {
    let judged = |exponent: &str| {
        let output = doctor(&["virtual", "--ack-timeout", exponent]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(judged("15").contains("note: queue pairs with an ACK timeout of 0.134 s"));
    let short = judged("10");
    assert!(short.contains("warning: "), "{short}");
    assert!(short.contains("use --ack-timeout 13 or more"), "{short}");
}

#[test]
fn an_unknown_use_is_rejected() {
    assert_eq!(doctor(&["quantum"]).status.code(), Some(2));
}
