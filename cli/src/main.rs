//! The `alfirk` command: every part of the project is one of its verbs.
//!
//! Results go to stdout and logs to stderr. Exit codes: 0 it went well; 1 the thing that was run, built or
//! tested was found bad; 2 wrong usage or bad input, nothing was tried.

mod check_pcap;
mod compare_drivers;
mod ctrl;
mod doctor;
mod exit;
mod experiment;
mod fmt;
mod host;
mod link;
mod lsp;
mod machine;
mod manual;
mod p4c;
mod patience;
mod program;
mod reproduce;
mod run;
mod runtime_cli;
mod stf;
mod switch;
mod topology;
mod version;
mod view;
mod vxlan;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use exit::Outcome;

/// Reliable RDMA multicast on P4 switches: compiler, switch, controller, hosts and simulator in one command.
#[derive(Debug, Parser)]
#[command(
    name = "alfirk",
    version,
    propagate_version = true,
    max_term_width = 110
)]
struct Cli {
    /// What to log to stderr: error, warn, info, debug, trace, or a filter such as "alfirk_ctrl=debug".
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "ALFIRK_LOG",
        default_value = "warn",
        hide_env_values = true
    )]
    log: String,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    // The parts describe themselves: their help is written beside their arguments.
    CheckPcap(check_pcap::Args),
    Cli(runtime_cli::Args),
    CompareDrivers(compare_drivers::CompareArgs),
    Completions(manual::CompletionsArgs),
    Ctrl(alfirk_ctrl::CtrlArgs),
    Doctor(doctor::Args),
    Experiment(experiment::Args),
    Fmt(fmt::Args),
    Host(host::HostArgs),
    Link(link::Args),
    Lsp(lsp::Args),
    #[command(hide = true)]
    Machine(machine::Args),
    Man(manual::ManArgs),
    P4c(alfirk_compiler::driver::P4cArgs),
    #[command(hide = true)]
    P4cDriver(alfirk_compiler::driver::StepArgs),
    Reproduce(reproduce::Args),
    Run(run::Args),
    Switch(alfirk_switch::SwitchArgs),
    Stf(stf::Args),
    Topology(topology::Args),
    /// Print the version, and the versions of the formats and protocols spoken.
    Version(version::Args),
    View(view::Args),
    Vxlan(vxlan::Args),
}

impl Command {
    fn run(self) -> Outcome {
        match self {
            Command::CheckPcap(args) => check_pcap::run(&args),
            Command::Cli(args) => runtime_cli::run(&args),
            Command::CompareDrivers(args) => compare_drivers::run(args),
            Command::Completions(args) => manual::completions(&args, Cli::command()),
            Command::Ctrl(args) => ctrl::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Experiment(args) => experiment::run(args),
            Command::Fmt(args) => fmt::run(&args),
            Command::Host(args) => host::run(args),
            Command::Link(args) => link::run(&args),
            Command::Lsp(args) => lsp::run(&args),
            Command::Machine(args) => machine::run(&args),
            Command::Man(args) => manual::man(&args, Cli::command()),
            Command::P4c(args) => p4c::run(&args),
            Command::P4cDriver(args) => p4c::run_steps(&args),
            Command::Reproduce(args) => reproduce::run(&args),
            Command::Run(args) => run::run(args),
            Command::Switch(args) => switch::run(&args),
            Command::Stf(args) => stf::run(&args),
            Command::Topology(args) => topology::run(args),
            Command::Version(args) => version::run(args),
            Command::View(args) => view::run(&args),
            Command::Vxlan(args) => vxlan::run(&args),
        }
    }
}

/// Names under which the command is installed beside its own, and what each stands for.
const OTHER_NAMES: [(&str, &[&str]); 5] = [
    ("simple_switch", &["switch", "--as-simple-switch"]),
    ("simple_switch_grpc", &["switch"]),
    ("simple_switch_CLI", &["cli"]),
    ("p4c-bm2-ss", &["p4c"]),
    ("p4c", &["p4c-driver"]),
];

fn main() -> ExitCode {
    exit::hide_panics();
    let cli = match Cli::try_parse_from(arguments(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error),
    };
    let logging = match &cli.command {
        // It has logging flags of its own, which are BMv2's.
        Command::Switch(args) => switch::start_logging(args, &cli.log),
        _ => start_logging(&cli.log),
    };
    if let Err(message) = logging {
        return exit::report(Err(message));
    }
    exit::report(exit::guard(|| cli.command.run()))
}

/// The command line as clap should see it: called by another of its names, the verb is put in.
fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.collect();
    let verb = arguments.first().and_then(|name| {
        let name = Path::new(name).file_name()?.to_str()?;
        let (_, verb) = OTHER_NAMES.iter().find(|(other, _)| *other == name)?;
        Some(*verb)
    });
    if let Some(verb) = verb {
        arguments[0] = "alfirk".into();
        arguments.splice(1..1, verb.iter().map(Into::into));
    }
    let verb = verb_at(&arguments);
    if arguments
        .get(verb)
        .is_some_and(|word| word == "p4c" || word == "p4c-driver")
    {
        let line = arguments.split_off(verb + 1);
        arguments.extend(alfirk_compiler::driver::with_long_options(line));
    }
    arguments
}

/// Where the verb stands: behind the options of the command itself.
fn verb_at(arguments: &[OsString]) -> usize {
    let mut at = 1;
    while let Some(word) = arguments.get(at).and_then(|word| word.to_str()) {
        at += match word {
            "--log" => 2,
            word if word.starts_with('-') => 1,
            _ => break,
        };
    }
    at
}

fn start_logging(filter: &str) -> Result<(), exit::Failure> {
    use std::io::IsTerminal;
    use tracing_subscriber::EnvFilter;

    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|error| exit::Failure::bad_input(format!("--log {filter}: {error}")))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn other_names_stand_for_their_verbs() {
        let seen = |line: &[&str]| -> Vec<String> {
            arguments(line.iter().map(Into::into))
                .into_iter()
                .map(|a| a.into_string().unwrap())
                .collect()
        };
        assert_eq!(
            seen(&["/usr/local/bin/simple_switch_grpc", "--no-p4"]),
            ["alfirk", "switch", "--no-p4"]
        );
        assert_eq!(
            seen(&["simple_switch", "a.json"]),
            ["alfirk", "switch", "--as-simple-switch", "a.json"]
        );
        assert_eq!(seen(&["p4c-bm2-ss", "a.p4"]), ["alfirk", "p4c", "a.p4"]);
        assert_eq!(
            seen(&["bin/p4c", "-MD", "-o", "DIR", "a.p4"]),
            ["alfirk", "p4c-driver", "--MD", "-o", "DIR", "a.p4"]
        );
        assert_eq!(
            seen(&["alfirk", "--log", "info", "p4c", "-Wall", "a.p4"]),
            ["alfirk", "--log", "info", "p4c", "--W=all", "a.p4"]
        );
        assert_eq!(
            seen(&["simple_switch_CLI", "--thrift-port", "9091"]),
            ["alfirk", "cli", "--thrift-port", "9091"]
        );
        assert_eq!(seen(&["./alfirk", "version"]), ["./alfirk", "version"]);
    }
}
