//! `alfirk ctrl --dry-run bfrt`.

use std::path::Path;
use std::process::{Command, Output};

fn dry_run(folder: &Path, line: &[&str]) -> Output {
    let topology = Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies/testbed.yaml");
    Command::new(env!("CARGO_BIN_EXE_alfirk"))
        .args(["ctrl", "--dry-run", "bfrt", "--topology"])
        .arg(topology)
        .arg("--out")
        .arg(folder)
        .args(line)
        .output()
        .expect("the binary was just built")
}

#[test]
fn a_group_is_written_as_a_script() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let scripts = folder.path().join("new/folder");
    let output = dry_run(
        &scripts,
        &["--group", "10.255.0.1=10.0.0.1:17,10.0.0.2:18,10.0.0.3:19"],
    );
    assert!(output.status.success(), "{output:?}");
    let script = std::fs::read_to_string(scripts.join("s1.py")).expect("it was written");
    for line in [
        "# Group 10.255.0.1: 3 members",
        "pipe.ingress.group_lookup.groups.add_with_set_group_with_limits(mcst_id=0xaff0001, group_index=0x0, paths=0x3,",
        "pipe.ingress.ipv4_routing.routes.add_with_to_host(dst_ip=0xa000004, dst_ip_p_length=32, port=0x4, mac=0x20000000004)",
        "MULTICAST_NODE_ID=[1, 2, 3]",
        "bfrt.mirror.cfg.add_with_normal(sid=1,",
        "pipe.punt_limit.rates.mod(METER_INDEX=",
        // The third path's cell: the PSN before the first one, and the path index.
        "pipe.ingress.ack_aggregate.leaves.leaves.mod(REGISTER_INDEX=2, f1=0xffffff02)",
    ] {
        assert!(script.contains(line), "{line} is not in\n{script}");
    }
    // Tables with constant entries of the program are not written.
    assert!(!script.contains("ack_aggregate.leaves.leaf."), "{script}");
    assert_eq!(script, {
        let again = folder.path().join("again");
        dry_run(
            &again,
            &["--group", "10.255.0.1=10.0.0.1:17,10.0.0.2:18,10.0.0.3:19"],
        );
        std::fs::read_to_string(again.join("s1.py")).expect("it was written")
    });
}

#[test]
fn wrong_groups_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (group, what) in [
        ("10.255.0.1", "no `=` after the group's address"),
        (
            "group=10.0.0.1:17,10.0.0.2:18",
            "the group's address is not an IPv4 address",
        ),
        (
            "10.255.0.1=10.0.0.1,10.0.0.2:18",
            "no `:` between a member's address and queue pair number",
        ),
        (
            "10.255.0.1=h1:17,10.0.0.2:18",
            "a member's address is not an IPv4 address",
        ),
        (
            "10.255.0.1=10.0.0.1:16777216,10.0.0.2:18",
            "not a number of 24 bits",
        ),
        ("10.255.0.1=10.0.0.1:17", "two members or more"),
        ("10.255.0.1=10.0.0.1:17,10.0.0.99:18", "10.0.0.99"),
    ] {
        let output = dry_run(folder.path(), &["--group", group]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{group}: {stderr}");
        assert!(stderr.contains(what), "{group}: {stderr}");
    }
    assert!(!folder.path().join("s1.py").exists(), "nothing was written");
}

#[test]
fn incompatible_flags_are_rejected() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let output = dry_run(folder.path(), &["--switch", "s1=127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
