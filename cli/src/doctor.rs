//! `alfirk doctor`: what each use of alfirk needs, what is missing, and how to install it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use alfirk_roce::rc::AckTimeout;
use clap::ValueEnum;
use scapy::live::{interfaces, Interface};
use serde::Serialize;

use crate::exit::{print, Failure, Outcome};
use crate::timeout_check::Verdict;

/// Check this machine: what each use of alfirk needs, what is missing, and how to install it.
///
/// Exit codes: 0 every named use is ready, or no use was named; 1 something is missing for a named use.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk doctor
  alfirk doctor mininet ptf")]
pub struct Args {
    /// Uses to check [default: all]
    #[arg(value_name = "USE")]
    uses: Vec<Use>,

    /// Check that queue pairs of a group outlast the detection of a failed member, with this local ACK timeout: the exponent N
    /// of 4.096 us times 2^N [default: 15 for the use mpi]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=31))]
    ack_timeout: Option<u8>,

    /// Retry count of these queue pairs
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u8).range(0..=7))]
    retry_count: u8,

    /// Seconds after which the controller removes a member that does not reply, as --dead-after of `alfirk ctrl`
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    dead_after: u32,

    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// A use of alfirk that can be checked. Each has its own list of requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Use {
    /// Runs in virtual time, the compiler, packet tests by `alfirk stf`
    Virtual,
    /// Runs on Mininet
    Mininet,
    /// Runs on Mininet over several machines, each of which needs what `alfirk doctor mininet` lists there
    Machines,
    /// Packet tests with PTF against a live switch
    Ptf,
    /// QEMU guests with Linux's own RDMA stack as hosts
    Interop,
    /// MPI programs over groups
    Mpi,
    /// Programs for the Tofino chip, compiled by bf-p4c
    Tofino,
    /// The book, by mdBook
    Book,
}

/// A requirement of a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Root,
    /// Permission to create network namespaces.
    Namespaces,
    /// A program on PATH, and the Debian package that contains it. With an empty package name, the program is a crate
    /// of the same name.
    Program(&'static str, &'static str),
    /// A module of Debian's Python, and the Debian package that contains it.
    Module(&'static str, &'static str),
    /// A Python module in the tests' virtual environment `.venv`.
    TestModule(&'static str),
    /// That this executable was built with support for RDMA devices (feature `verbs`).
    Verbs,
    /// The Tofino compiler bf-p4c, at the path $BF_P4C or on PATH.
    BfP4c,
}

impl Use {
    /// An example command of this use, as printed beside the result.
    fn command(self) -> &'static str {
        match self {
            Use::Virtual => "alfirk run",
            Use::Mininet => "sudo alfirk run --driver mininet --topology topologies/testbed.yaml",
            Use::Machines => "alfirk run --driver mininet --machines root@a,root@b",
            Use::Ptf => "sudo make ptf",
            Use::Interop => {
                "sudo alfirk run --driver mininet --guests all --topology topologies/testbed.yaml"
            }
            Use::Mpi => "mpirun -x LD_PRELOAD=libalfirk_mpi.so (mpi/README.md)",
            Use::Tofino => "make tofino",
            Use::Book => "make book",
        }
    }

    fn needs(self) -> &'static [Need] {
        const QEMU: Need = Need::Program("qemu-system-x86_64", "qemu-system-x86");
        match self {
            Use::Virtual => &[],
            Use::Mininet => &[
                Need::Root,
                Need::Namespaces,
                Need::Program("ip", "iproute2"),
                Need::Module("mininet", "mininet"),
                Need::Module("yaml", "python3-yaml"),
            ],
            Use::Machines => &[Need::Program("ssh", "openssh-client")],
            Use::Ptf => &[
                Need::Root,
                Need::Namespaces,
                Need::TestModule("ptf"),
                Need::TestModule("scapy"),
            ],
            Use::Interop => &[
                Need::Root,
                Need::Namespaces,
                QEMU,
                Need::Program("busybox", "busybox-static"),
                Need::Program("rdma", "iproute2"),
                Need::Module("mininet", "mininet"),
                Need::Verbs,
            ],
            Use::Mpi => &[
                Need::Program("mpirun", "openmpi-bin"),
                Need::Program("mpicc", "libopenmpi-dev"),
                Need::Verbs,
            ],
            Use::Tofino => &[Need::BfP4c],
            Use::Book => &[Need::Program("mdbook", "")],
        }
    }
}

impl Need {
    /// One line for the user: the missing requirement, and how to install it.
    fn advice(self) -> String {
        match self {
            Need::Root => "not root: run it with sudo".to_owned(),
            Need::Namespaces => {
                "cannot create network namespaces: run it with sudo, and in a container with --privileged".to_owned()
            }
            Need::Program(program, "") => format!("{program} is not on PATH: cargo install {program} --locked"),
            Need::Program(program, package) => format!("{program} is not on PATH: apt-get install {package}"),
            Need::Module(module, package) => {
                let python = python();
                format!("{} lacks the module {module}: apt-get install {package}", python.display())
            }
            Need::TestModule(module) => {
                let python = test_python();
                format!("{} lacks the module {module}: run `make setup` in a clone, which creates .venv", python.display())
            }
            Need::Verbs => {
                "this alfirk was built without support for RDMA devices: apt-get install libibverbs-dev, then cargo build --package alfirk-cli --features verbs"
                    .to_owned()
            }
            Need::BfP4c => {
                "bf-p4c is neither on PATH nor in BF_P4C: build backends/tofino of github.com/p4lang/p4c; `alfirk p4c --arch tna --report` works without it"
                    .to_owned()
            }
        }
    }
}

/// Result for one use: its name, an example command, and its missing requirements.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Diagnosis {
    #[serde(rename = "use")]
    name: String,
    ready: bool,
    command: &'static str,
    missing: Vec<String>,
}

/// Runs `alfirk doctor`.
pub fn run(args: &Args) -> Outcome {
    let asked = match args.uses.is_empty() {
        true => Use::value_variants().to_vec(),
        false => args.uses.clone(),
    };
    let needs: BTreeSet<Need> = asked.iter().flat_map(|one| one.needs()).copied().collect();
    let found = probe(&needs);
    let diagnoses = diagnose(&asked, &found);
    // Retry counts of RDMA devices are finite; those of the software stack need not be.
    let has_devices = asked.contains(&Use::Mpi);
    let exponent = args.ack_timeout.or(has_devices.then_some(15));
    let dead_after = Duration::from_secs(args.dead_after.into());
    let verdict = |n| Verdict::new(AckTimeout::new(n), args.retry_count, dead_after);
    let verdict = exponent.and_then(verdict);
    if args.json {
        let interfaces: Vec<_> = interfaces().iter().map(interface_json).collect();
        let uses = serde_json::json!({ "uses": diagnoses, "queue_pairs": verdict, "interfaces": interfaces });
        print(format_args!("{uses}\n"))?;
    } else {
        print(report(&diagnoses))?;
        if args.uses.is_empty() {
            print(interface_lines(&interfaces()))?;
        }
        if let Some(verdict) = &verdict {
            let state = if verdict.is_enough() {
                "note"
            } else {
                "warning"
            };
            print(format_args!("{state}: {}\n", verdict.text()))?;
        }
    }
    match !args.uses.is_empty() && diagnoses.iter().any(|one| !one.ready) {
        true => Err(Failure::AlreadyReported(1)),
        false => Ok(()),
    }
}

/// Requirements of runs on Mininet that this machine lacks, each with how to install it; empty if it lacks none.
pub(crate) fn missing_for_mininet() -> Vec<String> {
    let needs = Use::Mininet.needs();
    let found = probe(&needs.iter().copied().collect());
    let missing = needs.iter().filter(|need| !found.contains(need));
    missing.map(|need| need.advice()).collect()
}

/// Compares the requirements of each use with those that this machine meets (`found`).
fn diagnose(uses: &[Use], found: &BTreeSet<Need>) -> Vec<Diagnosis> {
    let of = |one: &Use| {
        let missing: Vec<String> = (one.needs().iter())
            .filter(|need| !found.contains(need))
            .map(|need| need.advice())
            .collect();
        Diagnosis {
            name: one
                .to_possible_value()
                .map_or(String::new(), |value| value.get_name().to_owned()),
            ready: missing.is_empty(),
            command: one.command(),
            missing,
        }
    };
    uses.iter().map(of).collect()
}

fn report(diagnoses: &[Diagnosis]) -> String {
    let mut text = String::new();
    for one in diagnoses {
        let state = if one.ready { "ready" } else { "missing" };
        text += &format!("{state:<8} {:<8} {}\n", one.name, one.command);
        for what in &one.missing {
            text += &format!("         - {what}\n");
        }
    }
    text
}

fn interface_json(interface: &Interface) -> serde_json::Value {
    serde_json::json!({
        "name": interface.name,
        "mac": interface.mac,
        "addresses": interface.addresses,
        "up": interface.is_up,
        "carrier": interface.has_carrier,
    })
}

/// A line for each interface, to which switches and hosts can be attached.
fn interface_lines(interfaces: &[Interface]) -> String {
    let mut text = String::from("network interfaces:\n");
    for interface in interfaces {
        let state = match (interface.is_up, interface.has_carrier) {
            (false, _) => "down",
            (true, false) => "no carrier",
            (true, true) => "up",
        };
        let mac = interface.mac.as_deref().unwrap_or("-");
        let addresses = interface.addresses.join(" ");
        let line = format!("  {:<15} {state:<10} {mac}  {addresses}", interface.name);
        text += &format!("{}\n", line.trim_end());
    }
    if interfaces.is_empty() {
        text += "  none\n";
    }
    text
}

/// The subset of `needs` that this machine meets.
fn probe(needs: &BTreeSet<Need>) -> BTreeSet<Need> {
    let modules = |of: fn(&Need) -> Option<&'static str>, python: &Path| {
        let wanted: Vec<&str> = needs.iter().filter_map(of).collect();
        python_modules(python, &wanted)
    };
    let of_system = modules(
        |need| match need {
            Need::Module(module, _) => Some(module),
            _ => None,
        },
        &python(),
    );
    let of_tests = modules(
        |need| match need {
            Need::TestModule(module) => Some(module),
            _ => None,
        },
        &test_python(),
    );
    let is_there = |need: &&Need| match need {
        Need::Root => nix::unistd::geteuid().is_root(),
        Need::Namespaces => succeeds(Command::new("unshare").args(["--net", "true"])),
        Need::Program(program, _) => is_on_path(program),
        Need::Module(module, _) => of_system.contains(*module),
        Need::TestModule(module) => of_tests.contains(*module),
        Need::Verbs => cfg!(feature = "verbs"),
        Need::BfP4c => {
            std::env::var_os("BF_P4C").is_some_and(|path| Path::new(&path).is_file())
                || is_on_path("bf-p4c")
        }
    };
    needs.iter().filter(is_there).copied().collect()
}

/// Path of the Python that has the module `mininet`: $PYTHON, by default Debian's `/usr/bin/python3`.
pub(crate) fn python() -> PathBuf {
    std::env::var_os("PYTHON").map_or_else(|| PathBuf::from("/usr/bin/python3"), PathBuf::from)
}

/// Path of the tests' Python: that of `.venv` in the current folder, or else [`python`].
fn test_python() -> PathBuf {
    let of_clone = PathBuf::from(".venv/bin/python");
    if of_clone.is_file() {
        of_clone
    } else {
        python()
    }
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    // Debian's folders of programs for root.
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(more)
        .any(|folder| folder.join(program).is_file())
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// The subset of `wanted` that a Python can import; empty if that Python does not run.
pub(crate) fn python_modules(python: &Path, wanted: &[&str]) -> BTreeSet<String> {
    const FIND: &str =
        "import importlib.util, sys\nprint(*filter(importlib.util.find_spec, sys.argv[1:]))";
    if wanted.is_empty() {
        return BTreeSet::new();
    }
    let output = Command::new(python)
        .arg("-c")
        .arg(FIND)
        .args(wanted)
        .output();
    let text = output.map_or(Vec::new(), |output| output.stdout);
    String::from_utf8_lossy(&text)
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_needs_nothing() {
        let diagnoses = diagnose(&[Use::Virtual], &BTreeSet::new());
        assert!(diagnoses[0].ready);
    }

    #[test]
    fn missing_requirements_are_listed_with_install_commands() {
        let found = BTreeSet::from([Need::Root, Need::Program("ip", "iproute2")]);
        let diagnoses = diagnose(&[Use::Mininet, Use::Tofino], &found);
        let text = report(&diagnoses);
        assert!(
            text.starts_with("missing  mininet  sudo alfirk run"),
            "{text}"
        );
        assert!(
            text.contains("lacks the module mininet: apt-get install mininet"),
            "{text}"
        );
        assert!(text.contains("cannot create network namespaces"), "{text}");
        assert!(!text.contains("not root"), "{text}");
        assert!(!text.contains("ip is not on PATH"), "{text}");
        assert!(text.contains("BF_P4C"), "{text}");
    }

    #[test]
    fn interfaces_have_states_and_addresses() {
        let interface = |name: &str, is_up, has_carrier| Interface {
            name: name.to_owned(),
            mac: Some("02:00:00:00:00:01".to_owned()),
            addresses: vec!["10.0.0.1/24".to_owned()],
            is_up,
            has_carrier,
        };
        let text = interface_lines(&[
            interface("veth0", true, true),
            interface("veth1", true, false),
        ]);
        assert!(
            text.contains("  veth0           up         02:00:00:00:00:01  10.0.0.1/24\n"),
            "{text}"
        );
        assert!(text.contains("  veth1           no carrier "), "{text}");
        assert!(interface_lines(&[]).contains("none"));
    }

    #[test]
    fn met_requirements_make_a_use_ready() {
        let all: BTreeSet<Need> = Use::Ptf.needs().iter().copied().collect();
        assert!(diagnose(&[Use::Ptf], &all)[0].ready);
    }

    #[test]
    fn missing_python_has_no_modules() {
        assert!(python_modules(Path::new("/nowhere/python"), &["sys"]).is_empty());
    }
}
