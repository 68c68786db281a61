//! `alfirk ptf`: runs packet tests of a program against a live switch.
//!
//! Tests in the STF language run in this process. PTF tests are run by the Python package `alfirk_ptf`, in a network
//! namespace of its own: this process enters the namespace and becomes Python.

mod namespace;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use alfirk_ctrl::constants::CPU_PORT;

use crate::exit::{Failure, Outcome};
use crate::program::SourceFlags;
use crate::python::{self, Package};
use crate::stf;

/// Number of the switch's ports, by default: 0 and the next ones.
pub const PORTS: u32 = 8;

fn default_ports() -> String {
    format!("0-{}", PORTS - 1)
}

/// The Python packages of the runner.
const PACKAGES: [Package; 2] = [
    Package {
        folder: "ptf-tests",
        name: "alfirk_ptf",
    },
    Package {
        folder: "mininet",
        name: "alfirk_mininet",
    },
];

/// Modules of other projects that they import.
const MODULES: [&str; 5] = ["ptf", "scapy", "grpc", "p4", "google.protobuf"];

/// Run packet tests of a P4 program against a live switch: tests with PTF, or in p4c's STF language.
///
/// Compiles the program, starts `alfirk switch` on veth pairs in a network namespace of its own, loads the program by P4Runtime, and
/// runs PTF. With `--arch tna` and `t2na`, the switch also serves BfRuntime. A failed test shows the fields in which packets differ, and the packet's trace. Needs root, or a kernel that allows user
/// namespaces. `alfirk new ptf` writes tests to start with.
///
/// PTF's test parameters are grpcaddr (127.0.0.1:9559), p4info, config, device_id and cpu_port; and bfrtaddr (127.0.0.1:50052) if
/// the switch serves BfRuntime.
///
/// Exit codes: 0 all tests pass, 1 a test fails, 2 the tests cannot be run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  alfirk new ptf basic.p4
  alfirk ptf basic.p4
  alfirk ptf basic.p4 tests/forward.py
  alfirk ptf basic.p4 tests forward.Dropped --param packet_wait_time=0.5
  alfirk ptf basic.p4 basic.stf
  alfirk ptf --arch tna router.p4")]
pub struct Args {
    /// The P4_16 program, or its compiled BMv2 JSON (.json) with its P4Info (.p4info.txtpb) beside it.
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,

    /// A folder or files of PTF tests, MODULE or MODULE.CLASS of the folder, or STF files [default: the folder NAME-ptf beside
    /// NAME.p4, else ptf, else NAME.stf].
    #[arg(value_name = "TESTS")]
    tests: Vec<PathBuf>,

    #[command(flatten)]
    source: SourceFlags,

    /// Set a test parameter to a Python literal, or to text. Repeatable.
    #[arg(long, value_name = "NAME=VALUE")]
    param: Vec<String>,

    /// Seconds after which a test fails.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    time_limit: u32,

    /// Keep logs and captures also if all tests pass.
    #[arg(long)]
    keep: bool,

    /// Add the tests' coverage of the program to this LCOV file; `alfirk coverage` shows it.
    #[arg(long, value_name = "FILE", conflicts_with = "switch")]
    coverage: Option<PathBuf>,

    /// Ports of the switch, each with an interface.
    #[arg(
        long,
        value_name = "PORTS",
        default_value_t = default_ports(),
        help_heading = "Switch"
    )]
    ports: String,

    /// Port for packet-in and packet-out.
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = CPU_PORT,
        help_heading = "Switch"
    )]
    cpu_port: u32,

    /// Device id in P4Runtime.
    #[arg(long, value_name = "ID", default_value_t = 0, help_heading = "Switch")]
    device_id: u64,

    /// Test this simple_switch_grpc instead of `alfirk switch`; failed tests then have no trace.
    #[arg(long, value_name = "EXE", help_heading = "Switch")]
    switch: Option<PathBuf>,
}

/// Runs `alfirk ptf`.
pub fn run(args: &Args) -> Outcome {
    if !args.program.is_file() {
        let program = args.program.display();
        return Err(Failure::bad_input(format_args!("{program}: no such file")));
    }
    let folder = folder_of(&args.program);
    let (in_stf, other): (Vec<&PathBuf>, Vec<&PathBuf>) =
        args.tests.iter().partition(|test| is_stf(test));
    match (in_stf.is_empty(), other.is_empty()) {
        (false, true) => run_stf(args, &in_stf),
        (false, false) => Err(Failure::bad_input(
            "STF files and PTF tests are run separately: name files of one kind",
        )),
        (true, true) if folder.is_none() => {
            let test = args.program.with_extension("stf");
            match test.is_file() {
                true => run_stf(args, &[&test]),
                false => Err(no_tests(&args.program)),
            }
        }
        (true, _) => run_ptf(args, folder.as_deref()),
    }
}

fn is_stf(test: &Path) -> bool {
    test.extension().is_some_and(|ending| ending == "stf")
}

/// Folder in which `alfirk new ptf` writes the tests of a program: `NAME-ptf` beside NAME.p4.
pub fn new_folder(program: &Path) -> PathBuf {
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    program.with_file_name(format!("{name}-ptf"))
}

/// The folder with tests of a program, if there is one.
fn folder_of(program: &Path) -> Option<PathBuf> {
    [new_folder(program), program.with_file_name("ptf")]
        .into_iter()
        .find(|folder| folder.is_dir())
}

fn no_tests(program: &Path) -> Failure {
    Failure::bad_input(format_args!(
        "no tests: {}, {} and {} do not exist; name a folder or files, or let `alfirk new ptf {}` write tests",
        new_folder(program).display(),
        program.with_file_name("ptf").display(),
        program.with_extension("stf").display(),
        program.display()
    ))
}

/// Runs tests in the STF language, all of them also if one fails.
fn run_stf(args: &Args, tests: &[&PathBuf]) -> Outcome {
    let mut outcome = Ok(());
    for test in tests {
        let coverage = args.coverage.as_deref();
        let test = stf::Args::of_test(&args.program, test, &args.source, coverage);
        match stf::run(&test) {
            Ok(()) => {}
            Err(failure @ Failure::AlreadyReported(_)) => outcome = Err(failure),
            Err(failure) => return Err(failure),
        }
    }
    outcome
}

/// Becomes the Python process that runs the tests. Returns only if that is not possible.
fn run_ptf(args: &Args, folder: Option<&Path>) -> Outcome {
    let alfirk = std::env::current_exe().map_err(|error| {
        Failure::failed(format_args!(
            "cannot find the path of this executable: {error}"
        ))
    })?;
    let python = python::find(&alfirk, &PACKAGES, &MODULES)?;
    let mut command = Command::new(&python.executable);
    if let Some(path) = &python.path {
        command.env("PYTHONPATH", path);
    }
    command
        .args(["-B", "-m", "alfirk_ptf", "--alfirk"])
        .arg(&alfirk);
    command
        .arg(format!("--ports={}", args.ports))
        .arg(format!("--cpu-port={}", args.cpu_port))
        .arg(format!("--device-id={}", args.device_id))
        .arg(format!("--time-limit={}", args.time_limit))
        .arg(format!("--arch={}", args.source.arch));
    for folder in &args.source.include {
        command.arg("-I").arg(folder);
    }
    let values = [("-D", &args.source.define), ("--param", &args.param)];
    for (flag, values) in values {
        command.args(values.iter().flat_map(|value| [flag, value]));
    }
    if let Some(switch) = &args.switch {
        command.arg("--switch").arg(switch);
    }
    if let Some(folder) = folder {
        command.arg("--folder").arg(folder);
    }
    if let Some(coverage) = &args.coverage {
        command.arg("--coverage").arg(coverage);
    }
    if args.keep {
        command.arg("--keep");
    }
    command.arg("--").arg(&args.program).args(&args.tests);
    namespace::enter()?;
    let error = command.exec();
    Err(Failure::failed(format_args!(
        "cannot run {}: {error}",
        python.executable.display()
    )))
}
