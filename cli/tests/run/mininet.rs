//! `alfirk run` on Mininet. Needs root, Mininet and network namespaces; skipped without them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::TESTBED;

/// Time limit of all operations.
const LIMIT: Duration = Duration::from_secs(120);

/// Whether Mininet can run here; if not, the test is skipped.
fn mininet_can_run() -> bool {
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let why = if !root {
        "this is not root"
    } else if !Path::new("/usr/bin/mnexec").exists() {
        "mininet is not installed"
    } else if !namespaces_can_be_made() {
        "network namespaces cannot be made here"
    } else {
        return true;
    };
    alfirk_test_budget::skip(why);
    false
}

fn namespaces_can_be_made() -> bool {
    let tried = Command::new("unshare").args(["--net", "true"]).output();
    tried.is_ok_and(|output| output.status.success())
}

/// Processes whose command line holds all of `words`.
fn processes(words: &[&str]) -> Vec<i32> {
    let of = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.ok()?.path();
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        let line = fs::read(path.join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        words.iter().all(|word| line.contains(word)).then_some(pid)
    };
    fs::read_dir("/proc").unwrap().filter_map(of).collect()
}

#[test]
fn a_mininet_run_delivers_and_a_failed_switch_ends_it_cleanly() {
    if !mininet_can_run() {
        return;
    }
    let network = Testbed::new();
    network.every_algorithm_delivers();
    network.members_take_turns();
    network.group_is_registered_in_band_and_outlives_a_host();
    network.killed_switch_ends_the_run();
}

/// A testbed with unique node names, because interfaces are named after nodes and other networks may exist.
struct Testbed {
    switch: String,
    topology: tempfile::NamedTempFile,
}

impl Testbed {
    fn new() -> Testbed {
        let tag = std::process::id() % 100_000;
        let switch = format!("t{tag}s");
        let mut text = fs::read_to_string(TESTBED).unwrap().replace("s1", &switch);
        for host in ["h1", "h2", "h3", "h4"] {
            text = text.replace(host, &format!("t{tag}{host}"));
        }
        let topology = tempfile::NamedTempFile::new().unwrap();
        fs::write(topology.path(), text).unwrap();
        Testbed { switch, topology }
    }

    /// The main job.
    fn run(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_alfirk"));
        command
            .args(["run", "--driver", "mininet", "--scale", "off", "--topology"])
            .arg(self.topology.path())
            .args(arguments)
            .env_remove("RUST_BACKTRACE")
            .env(
                "PYTHONPATH",
                concat!(env!("CARGO_MANIFEST_DIR"), "/../mininet"),
            );
        command
    }

    fn every_algorithm_delivers(&self) {
        let output = self.run(&["--size", "100000B", "--json"]).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{message}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = report["results"].as_array().unwrap();
        assert_eq!(rows.len(), 4);
        for row in rows {
            assert_eq!(row["verified"], true, "{row}");
        }
        assert_eq!(rows[0]["sender_payload_bytes"], 100_000);
    }

    fn members_take_turns(&self) {
        let turns = ["--switch-source", "4", "--switch-early"];
        let how = [
            "--op",
            "write",
            "--write",
            "uniform",
            "--congestion",
            "dcqcn",
        ];
        let what = ["--size", "100000B", "--loss", "0.005", "--json"];
        let flags = [&turns[..], &how, &what].concat();
        let output = self.run(&flags).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{message}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let row = &report["results"][0];
        assert_eq!(row["verified"], true, "{row}");
        assert_eq!(row["parts"].as_array().map(Vec::len), Some(5), "{row}");
    }

    fn group_is_registered_in_band_and_outlives_a_host(&self) {
        let dead = format!("{}h3", self.switch.trim_end_matches('s'));
        let kill = format!("{dead}@100ms");
        let flags = [
            "--registration",
            "mrp",
            "--dead-after",
            "500ms",
            "--kill",
            &kill,
        ];
        let size = ["--size", "64MiB", "--json"];
        let output = self.run(&[&flags[..], &size].concat()).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{message}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let row = &report["results"][0];
        assert_eq!(row["verified"], true, "{row}");
        assert_eq!(row["lost"][0], dead.as_str(), "{row}");
        assert!(
            row["failures"][0]["going_on_ns"].as_u64().is_some(),
            "{row}"
        );
        assert_eq!(report["settings"]["registration"], "mrp");
    }

    fn killed_switch_ends_the_run(&self) {
        let child = self
            .run(&["--size", "128MiB", "--algorithms", "unicast"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let folder = std::env::temp_dir().join(format!("alfirk-run-{}", child.id()));
        let start = Instant::now();
        // The file `message` exists as soon as the root is requested to send it.
        while !folder.join("message").exists() {
            assert!(start.elapsed() < LIMIT, "the transfer did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        let interface = format!("{}-eth1", self.switch);
        let running = processes(&["alfirk switch", &format!("@{interface}")]);
        assert_eq!(running.len(), 1, "one switch runs");
        // SAFETY: kill has no preconditions; the process is the one that the run started.
        assert_eq!(unsafe { libc::kill(running[0], libc::SIGKILL) }, 0);

        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        let expected = format!("switch {} was killed", self.switch);
        assert!(message.contains(&expected), "{message}");
        assert_eq!(output.stdout, b"");
        assert!(!folder.exists(), "the folder of the run is gone");
        let folder = folder.to_str().unwrap();
        assert!(
            processes(&["alfirk host", folder]).is_empty(),
            "hosts are gone"
        );
        let left = Path::new("/sys/class/net").join(interface).exists();
        assert!(!left, "interfaces are gone");
    }
}
