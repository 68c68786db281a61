//! `alfirk host` on veth pairs in namespaces of their own. Needs root and `ip`; skips loudly without.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

const LIMIT: Duration = Duration::from_secs(60);

/// Two namespaces with a veth pair between them; removed when dropped.
struct Pair {
    names: [String; 2],
    dir: tempfile::TempDir,
}

impl Pair {
    /// `None` if namespaces cannot be created; the test is skipped then.
    fn new(tag: &str) -> Option<Pair> {
        let names = [1, 2].map(|i| format!("alfirk-{tag}{i}-{}", std::process::id()));
        let pair = Pair {
            names,
            dir: tempfile::tempdir().unwrap(),
        };
        let [a, b] = &pair.names;
        let made = ip(&["netns", "add", a]) && ip(&["netns", "add", b]);
        if !made {
            alfirk_test_budget::skip("this test needs root and `ip netns`");
            return None;
        }
        assert!(ip(&[
            "link",
            "add",
            "eth0",
            "netns",
            a,
            "mtu",
            "4200",
            "address",
            &mac(0),
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            b,
            "mtu",
            "4200",
            "address",
            &mac(1),
        ]));
        for name in &pair.names {
            assert!(ip(&["-n", name, "link", "set", "lo", "up"]));
            assert!(ip(&["-n", name, "link", "set", "eth0", "up"]));
        }
        Some(pair)
    }

    fn socket(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("{index}.sock"))
    }

    /// Starts the host and connects to it.
    fn host(&self, index: usize, flags: &[&str]) -> Host {
        let socket = self.socket(index);
        let mut command = Command::new("ip");
        command
            .args([
                "netns",
                "exec",
                &self.names[index],
                env!("CARGO_BIN_EXE_alfirk"),
                "host",
            ])
            .args([
                "--interface",
                "eth0",
                "--name",
                &format!("h{index}"),
                "--control",
            ])
            .arg(&socket)
            .args(flags)
            .stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + LIMIT;
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(error) => {
                    let ended = child.try_wait().unwrap();
                    assert!(
                        ended.is_none() && Instant::now() < deadline,
                        "{error}, {ended:?}"
                    );
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        };
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Host {
            child,
            lines: BufReader::new(stream),
            next_id: 0,
            events: Vec::new(),
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

struct Host {
    child: Child,
    lines: BufReader<UnixStream>,
    next_id: u64,
    events: Vec<Value>,
}

impl Host {
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, mut request: Value) -> Value {
        self.next_id += 1;
        request["id"] = self.next_id.into();
        writeln!(self.lines.get_mut(), "{request}").unwrap();
        loop {
            let line = self.line();
            if line["id"] == self.next_id {
                return line;
            }
            self.events.push(line);
        }
    }

    fn event(&mut self, name: &str) -> Value {
        let mut at = 0;
        loop {
            while at < self.events.len() {
                if self.events[at]["event"] == name {
                    return self.events.remove(at);
                }
                assert_ne!(self.events[at]["event"], "failed", "{}", self.events[at]);
                at += 1;
            }
            let line = self.line();
            self.events.push(line);
        }
    }

    fn terminate(mut self) {
        // `ip netns exec` becomes the host, so the child is the host itself.
        assert!(Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()
            .unwrap()
            .success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ip(arguments: &[&str]) -> bool {
    let status = Command::new("ip")
        .args(arguments)
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|s| s.success())
}

fn mac(index: usize) -> String {
    format!("02:00:00:00:00:{:02x}", index + 1)
}

fn address(index: usize) -> String {
    format!("10.0.0.{}", index + 1)
}

/// Runs a transfer of `file` between the hosts, and checks the digests.
fn transfer(pair: &Pair, hosts: &mut [Host; 2], op: &str, file: &Path) {
    let size = std::fs::metadata(file).unwrap().len();
    let mut endpoints = Vec::new();
    for (rank, host) in hosts.iter_mut().enumerate() {
        let spec = json!({
            "algorithm": "chain", "rank": rank, "members": [address(0), address(1)], "size": size, "slices": 3, "op": op,
        });
        let reply = host.ask(json!({"request": "prepare", "transfer": 1, "spec": spec}));
        assert_eq!(reply["reply"], "prepared", "{reply}");
        endpoints.extend(reply["endpoints"].as_array().unwrap().clone());
    }
    for host in hosts.iter_mut() {
        let reply = host.ask(json!({"request": "connect", "transfer": 1, "peers": endpoints}));
        assert_eq!(reply["reply"], "accepted", "{reply}");
    }
    for host in hosts.iter_mut() {
        host.event("ready");
    }
    let reply = hosts[0].ask(json!({"request": "start", "transfer": 1, "file": file}));
    let start = reply["at"].as_u64().unwrap_or_else(|| panic!("{reply}"));
    let digests = hosts.each_mut().map(|host| {
        let done = host.event("done");
        assert!(done["at"].as_u64().unwrap() > start);
        assert_eq!(done["bytes"], size);
        host.event("finished");
        done["sha256"].clone()
    });
    assert_eq!(digests[0], digests[1]);
    let copy = pair.dir.path().join("copy");
    hosts[1].ask(json!({"request": "save", "transfer": 1, "file": copy}));
    assert!(
        std::fs::read(file).unwrap() == std::fs::read(copy).unwrap(),
        "{op}: the copy differs"
    );
    let status = hosts[1].ask(json!({"request": "status", "transfer": 1}));
    assert_eq!(status["finished"], true, "{status}");
    assert_eq!(
        status["edges"][0]["stats"]["request_bytes_received"], size,
        "{status}"
    );
    for host in hosts.iter_mut() {
        assert_eq!(
            host.ask(json!({"request": "close", "transfer": 1}))["reply"],
            "accepted"
        );
    }
}

#[test]
fn file_goes_from_host_to_host() {
    let Some(pair) = Pair::new("f") else { return };
    let pcap = pair.dir.path().join("h1.pcap");
    let pcap = pcap.to_str().unwrap();
    let ips = [0, 1].map(|i| format!("{}/8", address(i)));
    let mut hosts = [
        pair.host(0, &["--ip", &ips[0]]),
        pair.host(1, &["--ip", &ips[1], "--pcap", pcap]),
    ];
    let info = hosts[1].ask(json!({"request": "info"}));
    assert_eq!(
        (&info["mac"], &info["path_mtu"]),
        (&json!(mac(1)), &json!(4096)),
        "{info}"
    );
    let file = pair.dir.path().join("data");
    std::fs::write(
        &file,
        (0..3_000_001u32)
            .map(|i| (i * 7 + i / 251) as u8)
            .collect::<Vec<_>>(),
    )
    .unwrap();
    for op in ["send", "write", "write-imm"] {
        transfer(&pair, &mut hosts, op, &file);
    }
    let drops = hosts[1].ask(json!({"request": "info"}))["stats"]["drops"].clone();
    for reason in [
        "malformed",
        "ip_checksum",
        "icrc",
        "wrong_source",
        "unknown_qp",
    ] {
        assert_eq!(drops[reason], 0, "{drops}");
    }
    let [first, second] = hosts;
    first.terminate();
    second.terminate();
    assert!(!pair.socket(0).exists() && !pair.socket(1).exists());
    assert!(std::fs::metadata(pcap).unwrap().len() > 9_000_000);
}

#[test]
fn kernel_that_has_the_address_does_not_interfere() {
    let Some(pair) = Pair::new("k") else { return };
    for (index, name) in pair.names.iter().enumerate() {
        assert!(ip(&[
            "-n",
            name,
            "address",
            "add",
            &format!("{}/8", address(index)),
            "dev",
            "eth0"
        ]));
    }
    // Address, prefix and MTU come from the interface.
    let mut hosts = [0, 1].map(|i| pair.host(i, &[]));
    let file = pair.dir.path().join("data");
    std::fs::write(&file, vec![7; 500_000]).unwrap();
    transfer(&pair, &mut hosts, "send", &file);
    let snmp = Command::new("ip")
        .args(["netns", "exec", &pair.names[1], "cat", "/proc/net/snmp"])
        .output()
        .unwrap();
    let text = String::from_utf8(snmp.stdout).unwrap();
    let icmp: Vec<&str> = text.lines().filter(|l| l.starts_with("Icmp:")).collect();
    let column = icmp[0]
        .split(' ')
        .position(|f| f == "OutDestUnreachs")
        .unwrap();
    assert_eq!(
        icmp[1].split(' ').nth(column),
        Some("0"),
        "the kernel sent port unreachable"
    );
    for host in hosts {
        host.terminate();
    }
}

#[test]
fn every_malformed_request_gets_a_reply() {
    let Some(pair) = Pair::new("b") else { return };
    let mut host = pair.host(0, &["--ip", "10.0.0.1/8"]);
    let mut refused = |request: Value, word: &str| {
        let reply = host.ask(request);
        let error = reply["error"].as_str().unwrap_or_else(|| panic!("{reply}"));
        assert!(error.contains(word), "{error}");
    };
    refused(
        json!({"request": "start", "transfer": 9, "file": "/x"}),
        "no transfer 9",
    );
    let spec =
        json!({"algorithm": "chain", "rank": 0, "members": ["10.0.0.1"], "size": 1, "slices": 1});
    refused(
        json!({"request": "prepare", "transfer": 1, "spec": spec}),
        "at least 2",
    );
    let spec = json!({"algorithm": "chain", "rank": 0, "members": ["10.0.0.1", "10.0.0.2"], "size": 1, "slices": 1});
    let reply = host.ask(json!({"request": "prepare", "transfer": 1, "spec": spec}));
    assert_eq!(reply["reply"], "prepared");
    let mut refused = |request: Value, word: &str| {
        let reply = host.ask(request);
        let error = reply["error"].as_str().unwrap_or_else(|| panic!("{reply}"));
        assert!(error.contains(word), "{error}");
    };
    refused(
        json!({"request": "prepare", "transfer": 1, "spec": spec}),
        "exists already",
    );
    refused(
        json!({"request": "start", "transfer": 1, "file": "/no/such/file"}),
        "/no/such/file",
    );
    refused(
        json!({"request": "connect", "transfer": 1, "peers": []}),
        "remote end",
    );
    writeln!(host.lines.get_mut(), "nonsense").unwrap();
    assert!(host.line()["error"]
        .as_str()
        .unwrap()
        .contains("malformed request"));
    let reply = host.ask(json!({"request": "stop"}));
    assert_eq!(reply["reply"], "accepted");
    assert!(host.child.wait().unwrap().success());
}

#[test]
fn unusable_arguments_are_rejected() {
    let fails = |flags: &[&str], code: i32, word: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_alfirk"))
            .arg("host")
            .args(flags)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(word), "{text}");
    };
    fails(&["--control", "/tmp/x.sock"], 2, "--interface");
    fails(
        &[
            "--interface",
            "no-such-if",
            "--control",
            "/tmp/x.sock",
            "--ip",
            "10.0.0.1/8",
        ],
        2,
        "no-such-if",
    );
    fails(
        &[
            "--interface",
            "lo",
            "--control",
            "/tmp/x.sock",
            "--ip",
            "10.0.0.1/8",
            "--mtu",
            "100",
        ],
        2,
        "too small",
    );
}
