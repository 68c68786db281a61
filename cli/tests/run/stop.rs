//! Reports of runs in virtual time that are stopped by a signal.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

/// A run that takes far longer than any test.
fn long_run() -> Child {
    Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["run", "--size", "64MiB", "--model", "exact", "--json"])
        .args(["--algorithms", "alfirk,chain", "--time-limit", "36000s"])
        .env_remove("ALFIRK_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command was built with the tests")
}

/// Waits until the process has blocked SIGINT, which is its first action.
fn wait_until_it_holds_signals(child: &mut Child) {
    let status = format!("/proc/{}/status", child.id());
    let limit = Instant::now() + Duration::from_secs(600);
    loop {
        let text = fs::read_to_string(&status).expect("the process runs");
        let blocked = text.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = blocked.map(|mask| u64::from_str_radix(mask.trim(), 16).expect("a mask"));
        if blocked.is_some_and(|mask| mask >> (Signal::SIGINT as u32 - 1) & 1 == 1) {
            return;
        }
        let ended = child.try_wait().expect("it is a child of the test");
        assert!(ended.is_none(), "the run ended by itself: {ended:?}");
        assert!(Instant::now() < limit, "the process holds no signals");
        std::thread::yield_now();
    }
}

#[test]
fn stopped_run_reports_virtual_time_and_progress() {
    for (signal, name) in [(Signal::SIGINT, "SIGINT"), (Signal::SIGTERM, "SIGTERM")] {
        let mut child = long_run();
        wait_until_it_holds_signals(&mut child);
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process number"));
        kill(pid, signal).expect("the process runs");
        let output = child.wait_with_output().expect("it ends");
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(output.stdout.is_empty());
        for part in [
            &format!("stopped by {name}: alfirk: after "),
            " the receivers have ",
            "virtual time ",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}
