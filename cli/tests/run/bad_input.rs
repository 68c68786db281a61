//! Errors of the input are reported in one message, with exit code 2, before anything is built.

use std::fs;
use std::process::Command;

use crate::common::{data_plane, file, good, refused, TESTBED};

fn run(arguments: &[&str], words: &[&str]) {
    let with_testbed = ["run", "--topology", TESTBED];
    refused(2, &[&with_testbed, arguments].concat(), words);
}

#[test]
fn what_datagrams_cannot_do() {
    let by_datagrams = |more: &[&str], words: &[&str]| {
        run(&[&["--algorithms", "binomial-ack"], more].concat(), words);
    };
    by_datagrams(&["--op", "write"], &["--op", "WRITE", "use --op send"]);
    by_datagrams(&["--receives", "3"], &["--receives", "leave one"]);
    by_datagrams(&["--ready", "2"], &["--ready", "leave one"]);
    by_datagrams(&["--congestion", "dcqcn"], &["--congestion", "leave one"]);
    by_datagrams(
        &["--registration", "mrp"],
        &["--registration", "use --registration api"],
    );
    by_datagrams(
        &["--messages", "3", "--size", "10MiB"],
        &["--messages 3", "give 10 or more"],
    );
    by_datagrams(
        &["--kill", "s1@20us"],
        &["survives failures of hosts only", "use --algorithms alfirk"],
    );
    by_datagrams(
        &["--fallback", "binomial-ack"],
        &["out of order", "use chain"],
    );
}

#[test]
fn an_unreadable_topology_is_rejected() {
    refused(
        2,
        &["run", "--topology", "no/such.yaml"],
        &["no/such.yaml", "No such file"],
    );
}

#[test]
fn malformed_topology_is_reported_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name: broken\nswitches:\n  - {name: s1, id: 1}\nhosts:\n  - {name: h1, ip: 10.0.0.x/8}\nlinks: []\n";
    let path = file(folder.path(), "broken.yaml", text);
    refused(2, &["run", "--topology", &path], &["broken.yaml:5"]);
    let not_yaml = file(folder.path(), "not.yaml", "name: [\n");
    refused(2, &["run", "--topology", &not_yaml], &["not.yaml:"]);
}

#[test]
fn a_tree_policy_that_does_not_fit_the_topology_is_rejected() {
    let leaf_spine = concat!(env!("CARGO_MANIFEST_DIR"), "/../topologies/leaf-spine.yaml");
    refused(
        2,
        &["run", "--topology", leaf_spine, "--tree-policy", "cyclic"],
        &["--tree-policy", "is not an m-port n-tree", "spanning"],
    );
    run(
        &["--tree-policy", "random"],
        &["random", "cyclic or spanning"],
    );
}

#[test]
fn invalid_requests_for_n_tree_tables_are_rejected() {
    let tree = ["topology", "n-tree", "--ports", "4", "--levels", "3"];
    let with = |more: &[&'static str]| [&tree[..], more].concat();
    refused(
        2,
        &with(&["--multicast", "000,400"]),
        &["no host P(400)", "P(000) to P(311)"],
    );
    refused(2, &with(&["--multicast", "000"]), &["one more host"]);
    refused(2, &with(&["--multicast", "0x0"]), &["`0x0`", "P(201)"]);
    let odd = ["topology", "n-tree", "--ports", "3", "--levels", "2"];
    refused(2, &odd, &["m = 3", "even"]);
    let huge = [
        "topology", "n-tree", "--ports", "64", "--levels", "3", "--tables",
    ];
    refused(2, &huge, &["--tables", "fewer ports or levels"]);
}

#[test]
fn unknown_host() {
    run(&["--source", "h9"], &["h9", "h1, h2, h3, h4"]);
    run(&["--source", "s1"], &["s1", "no host"]);
}

#[test]
fn invalid_guests() {
    run(&["--guests", "h1"], &["--guests", "--driver mininet"]);
    run(&["--guest-rdma", "linux"], &["--guests"]);
    let mininet = ["--driver", "mininet", "--guest-rdma", "alfirk"];
    let with = |names| [&mininet[..], &["--guests", names]].concat();
    run(&with("h1,h9"), &["no host h9", "h1, h2, h3, h4"]);
}

#[test]
fn invalid_scales() {
    run(&["--scale", "1000"], &["--scale", "--driver mininet"]);
    run(&["--scale", "fast"], &["--scale", "auto, off"]);
    run(&["--scale", "0"], &["--scale", "1000"]);
    let mininet = |more: &[&'static str]| [&["--driver", "mininet"], more].concat();
    let hostile = ["--scale", "9", "--algorithms", "alfirk", "--hostile", "h2"];
    run(&mininet(&hostile), &["--hostile", "--scale 1 or off"]);
    let guests = [
        "--scale",
        "auto",
        "--guests",
        "h1",
        "--guest-rdma",
        "alfirk",
    ];
    run(&mininet(&guests), &["--guests", "--scale 1 or off"]);
    run(
        &mininet(&["--scale", "off", "--host-model", "free"]),
        &["--scale"],
    );
    run(&["--attach", "/tmp"], &["--attach", "--driver mininet"]);
    run(
        &mininet(&["--threads", "2"]),
        &["--threads", "--driver virtual"],
    );
    run(&["--threads", "0"], &["--threads", "0 is not in 1..=256"]);
    run(&["--to", "h9"], &["--to h9", "h1, h2, h3, h4"]);
    run(&["--to", "h2,10.0.0.2"], &["--to 10.0.0.2", "twice"]);
}

#[test]
fn incomparable_drivers_are_rejected() {
    let compare = |more: &[&'static str]| [&["compare-drivers"], more].concat();
    refused(2, &compare(&["--scale", "off"]), &["--scale off"]);
    refused(
        2,
        &compare(&["--tolerance", "2"]),
        &["--tolerance", "above 0 and below 1"],
    );
    refused(2, &compare(&["--guests", "h1"]), &["--guests"]);
    refused(2, &compare(&["--lose", "h2:to:data:1"]), &["--lose"]);
}

#[test]
fn invalid_lost_packets() {
    run(&["--lose", "h2:to:data:1"], &["--lose", "--driver mininet"]);
    let mininet = |rule| ["--driver", "mininet", "--lose", rule];
    run(
        &mininet("h2:to:cnp:1"),
        &["h2:to:cnp:1", "expected data, ack"],
    );
    run(&mininet("h9:to:data:1"), &["no host h9"]);
    run(&["--initial-psn", "16777216"], &["--initial-psn"]);
}

#[test]
fn invalid_hostile_hosts() {
    run(&["--hostile", "h99"], &["h99", "no such host"]);
    run(&["--hostile", "h1"], &["h1", "it is the source"]);
    run(
        &["--group", "2", "--hostile", "h4"],
        &["h4", "not a member"],
    );
    run(
        &[
            "--hostile",
            "h3",
            "--switch-source",
            "2",
            "--algorithms",
            "alfirk",
        ],
        &["--hostile h3", "becomes the source"],
    );
    run(
        &["--hostile", "h2", "--algorithms", "chain"],
        &["--hostile h2", "chain has no group"],
    );
}

#[test]
fn invalid_failures() {
    run(&["--kill", "h2"], &["h2", "NODE@TIME"]);
    run(&["--kill", "h9@1us"], &["h9", "no host or switch"]);
    run(&["--kill", "h1@1us"], &["h1 is the source"]);
    run(&["--kill", "h2-h3@1us"], &["no link between h2 and h3"]);
    run(&["--kill", "h2@soon"], &["--kill", "soon"]);
    run(
        &["--kill", "h2@1us", "--algorithms", "chain"],
        &["chain does not survive"],
    );
    run(
        &["--kill", "s1@1us", "--algorithms", "rdmc-chain"],
        &["--kill s1", "rdmc-chain survives failures of hosts only"],
    );
    run(
        &[
            "--driver",
            "mininet",
            "--kill",
            "h2@1us",
            "--algorithms",
            "alfirk,rdmc-chain",
        ],
        &["--kill h2", "one by one"],
    );
}

#[test]
fn invalid_groups() {
    run(
        &["--fallback-below", "1.5"],
        &["--fallback-below", "1.5", "50%"],
    );
    run(
        &["--fallback-below", "--fallback", "none"],
        &["no algorithm to fall back to"],
    );
    run(
        &["--fallback-below", "--kill", "h2@1us"],
        &["--kill", "does not survive"],
    );
    run(&["--fallback", "alfirk"], &["--fallback alfirk", "chain"]);
    run(&["--fallback", "prayer"], &["--fallback", "prayer"]);
}

#[test]
fn unknown_algorithm() {
    run(
        &["--algorithms", "alfirk,rings"],
        &[
            "rings",
            "alfirk, unicast, chain, binomial, kary:K, double-binary-tree",
        ],
    );
    run(&["--algorithms", "chain,chain"], &["chain", "twice"]);
}

#[test]
fn a_group_too_small_or_too_large_is_rejected() {
    run(&["--group", "1"], &["--group 1", "2 or more"]);
    run(&["--group", "0"], &["--group 0"]);
    run(&["--group", "5"], &["--group 5", "only 4 hosts"]);
}

#[test]
fn invalid_input_flags_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let empty = file(folder.path(), "empty", "");
    run(&["--input", &empty], &["empty", "no bytes to send"]);
    run(
        &["--input", "no/such/file"],
        &["no/such/file", "No such file"],
    );
    run(
        &["--input", folder.path().to_str().unwrap()],
        &["Is a directory"],
    );
    run(&["--size", "0B"], &["no bytes to send"]);
    run(&["--size", "3GiB"], &["2 GiB"]);
    run(&["--size", "64"], &["--size", "no unit"]);
    run(
        &["--size", "64B", "--input", &empty],
        &["--size", "--input"],
    );
}

#[test]
fn a_missing_or_invalid_p4_program_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    run(&["--p4src", "no/such.p4"], &["no/such.p4"]);
    let wrong = file(
        folder.path(),
        "wrong.p4",
        "#include <v1model.p4>\nheader h_t {\n    bit<8 x;\n}\n",
    );
    run(&["--p4src", &wrong], &["wrong.p4:3", "1 error"]);
}

#[test]
fn an_unsupported_p4_program_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let other = file(folder.path(), "other.p4", OTHER_PROGRAM);
    run(&["--p4src", &other], &["ingress."]);
}

#[test]
fn numbers_out_of_range() {
    run(&["--loss", "1"], &["--loss"]);
    run(&["--loss", "-0.1"], &["--loss"]);
    run(&["--loss", "much"], &["--loss"]);
    run(
        &["--mtu", "1000"],
        &["--mtu", "256, 512, 1024, 2048 or 4096"],
    );
    run(&["--slices", "0"], &["--slices"]);
    run(&["--time-limit", "soon"], &["--time-limit"]);
    run(&["--nic-delay", "1"], &["--nic-delay"]);
}

#[test]
fn an_mtu_too_large_for_the_links_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(TESTBED)
        .unwrap()
        .replace("mtu: 4200", "mtu: 1500");
    let path = file(folder.path(), "small.yaml", &text);
    refused(
        2,
        &["run", "--topology", &path, "--mtu", "4096"],
        &["--mtu 4096", "1500"],
    );
}

#[test]
fn unwritable_records_are_rejected() {
    run(
        &["--trace", "/no/such/folder/trace"],
        &["--trace", "/no/such/folder"],
    );
    run(&["--pcap", "/dev/null/captures"], &["--pcap", "/dev/null"]);
}

#[test]
fn mininet_without_root() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        alfirk_test_budget::skip("this is root; `setpriv --reuid 65534` runs it without");
        return;
    }
    run(&["--driver", "mininet"], &["root", "sudo"]);
}

#[test]
fn trace_of_mininet() {
    run(
        &["--driver", "mininet", "--trace", "x"],
        &["--trace", "--pcap"],
    );
}

#[test]
fn a_controller_without_switches_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let [json, info] = data_plane(folder.path());
    // Port 9 is "discard": no process listens there.
    let arguments = [
        "ctrl",
        "--topology",
        TESTBED,
        "--switch",
        "s1=127.0.0.1:9",
        "--p4info",
        &info,
        "--device-config",
        &json,
        "--listen",
        "127.0.0.1:0",
        "--wait",
        "1",
    ];
    refused(1, &arguments, &["s1", "127.0.0.1:9"]);
}

#[test]
fn unknown_flags_and_verbs_are_rejected() {
    run(&["--colour"], &["--colour"]);
    refused(2, &["runn"], &["runn"]);
}

/// A valid program, but not the one that the controller supports.
const OTHER_PROGRAM: &str = "
#include <core.p4>
#include <v1model.p4>
struct headers_t {}
struct metadata_t {}
parser p(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control check(inout headers_t h, inout metadata_t m) { apply {} }
control ingress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = 1; }
}
control egress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }
control compute(inout headers_t h, inout metadata_t m) { apply {} }
control deparse(packet_out b, in headers_t h) { apply {} }
V1Switch(p(), check(), ingress(), egress(), compute(), deparse()) main;
";

#[test]
fn a_write_mode_without_write_is_rejected() {
    run(&["--write", "uniform"], &["--write", "--op write"]);
}

#[test]
fn invalid_source_changes() {
    run(
        &["--switch-source", "2", "--algorithms", "chain"],
        &["--switch-source", "alfirk"],
    );
    run(
        &["--switch-source", "2", "--kill", "h3@1us"],
        &["--switch-source", "--kill"],
    );
    let per_request = ["--op", "write", "--write", "per-request"];
    run(
        &[
            &["--switch-source", "2", "--switch-early"],
            &per_request[..],
        ]
        .concat(),
        &["--switch-early", "per-request"],
    );
    run(&["--switch-source", "4000000000"], &["at most"]);
}

#[test]
fn invalid_suspensions() {
    run(&["--suspend", "h2@1ms"], &["h2@1ms", "HOST@FROM-TO"]);
    run(&["--suspend", "s1@1ms-2ms"], &["no host s1"]);
    run(
        &["--suspend", "h2@2ms-1ms"],
        &["the end must be after the start"],
    );
    run(&["--suspend", "h2@now-1ms"], &["--suspend", "now"]);
    run(
        &["--suspend", "h2@1ms-2ms", "--driver", "mininet"],
        &["--suspend", "one process"],
    );
}

#[test]
fn algorithms_excluded_by_topology_or_flags_are_rejected() {
    run(
        &["--algorithms", "rdmc-hybrid"],
        &["rdmc-hybrid", "one rack", "rdmc-binomial-pipeline"],
    );
    run(
        &["--algorithms", "chain,long", "--store-and-forward"],
        &["--store-and-forward", "long", "several paths"],
    );
    run(&["--algorithms", "kary"], &["kary:K", "from 1 to"]);
    run(&["--algorithms", "kary:0"], &["kary:0", "kary:K"]);
    run(
        &["--algorithms", "all,chain"],
        &["`all` cannot be combined"],
    );
    run(
        &["--fallback", "long"],
        &["--fallback long", "out of order"],
    );
    run(&["--block", "0B"], &["--block", "1 byte"]);
    run(&["--block", "4GiB"], &["--block", "4GiB", "2147483648"]);
    run(&["--block", "4KiB", "--slices", "3"], &["--slices"]);
    run(&["--ready", "2", "--receives", "3"], &["--receives"]);
}

#[test]
fn invalid_collectives() {
    run(
        &["--collective", "barrier", "--algorithms", "chain"],
        &[
            "chain",
            "cannot run a barrier",
            "alfirk, binomial, dissemination",
        ],
    );
    run(
        &["--algorithms", "dissemination"],
        &["cannot run a broadcast"],
    );
    run(
        &["--collective", "barrier", "--size", "1KiB"],
        &["barrier", "no message"],
    );
    run(
        &["--collective", "scatter", "--kill", "h2@1us"],
        &["--collective scatter", "--kill"],
    );
    run(
        &["--collective", "gather"],
        &["gather", "allgather, barrier"],
    );
}

#[test]
fn a_topology_accepted_by_check_is_accepted_by_run() {
    let folder = tempfile::tempdir().unwrap();
    let testbed = fs::read_to_string(TESTBED).unwrap();
    for (name, from, to, words) in [
        ("group", "10.0.0.3", "10.255.0.3", &["h3", "10.255.0.3"][..]),
        ("small", "mtu: 4200", "mtu: 100", &["100"][..]),
    ] {
        assert!(testbed.contains(from), "{name}");
        let wrong = file(folder.path(), name, &testbed.replace(from, to));
        for arguments in [
            &["topology", "check", &wrong][..],
            &["run", "--topology", &wrong, "--size", "64B"],
        ] {
            refused(2, arguments, words);
        }
    }
    good(&["topology", "check", TESTBED]);
}

#[test]
fn built_in_names_do_not_depend_on_the_working_directory() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["testbed", "fat-tree:4"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_alfirk"))
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {message}");
        String::from_utf8(output.stdout).unwrap()
    };
    let hosts = |word: &str| {
        let report = run(&["topology", "check", "--json", word]);
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        report["hosts"].clone()
    };
    assert_eq!(hosts("testbed"), 4);
    for word in ["fat-tree:4", "fattree,k=4", "fattree"] {
        assert_eq!(hosts(word), 16, "{word}");
    }
    run(&["topology", "fattree", "--k", "4"]);
    run(&[
        "run",
        "--topology",
        "testbed",
        "--size",
        "64B",
        "--algorithms",
        "chain",
    ]);
    let spec = "name: one\nrun: {topology: testbed, size: 64B}\nsweep: {algorithms: [chain]}\n";
    file(folder.path(), "one.yaml", spec);
    run(&["experiment", "run", "one.yaml"]);
}
