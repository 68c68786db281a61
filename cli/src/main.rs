//! The `alfirk` command. Each part of the project is one of its subcommands (verbs).
//!
//! Results go to stdout and logs to stderr. Exit codes: 0 success; 1 a run, build or test failed; 2 wrong usage or bad
//! input, nothing was run.

mod check_pcap;
mod compare_drivers;
mod connection;
mod coverage;
mod ctrl;
mod debug;
mod doctor;
mod exit;
mod experiment;
mod fmt;
mod heap;
mod host;
mod link;
mod lsp;
mod machine;
mod manual;
mod new;
mod p4c;
mod packet;
mod play;
mod program;
mod ptf;
mod python;
mod reproduce;
mod run;
mod runtime_cli;
mod stf;
mod switch;
mod timeout_check;
mod topology;
mod trace;
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
    max_term_width = 110,
    after_help = "\
Example:
  alfirk run --size 16MiB --algorithms alfirk,chain

`alfirk VERB --help` describes a verb, with examples."
)]
struct Cli {
    /// Log level on stderr: error, warn, info, debug, trace, or a filter such as "alfirk_ctrl=debug".
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
    // The help of each verb is at its arguments; its group in `alfirk --help` is in [`GROUPS`].
    CheckPcap(check_pcap::Args),
    Cli(runtime_cli::Args),
    CompareDrivers(compare_drivers::CompareArgs),
    Completions(manual::CompletionsArgs),
    Coverage(coverage::Args),
    Ctrl(alfirk_ctrl::CtrlArgs),
    Debug(debug::Args),
    Doctor(doctor::Args),
    Experiment(experiment::Args),
    Fmt(fmt::Args),
    Host(host::HostArgs),
    Link(link::Args),
    Lsp(lsp::Args),
    #[command(hide = true)]
    Machine(machine::Args),
    Man(manual::ManArgs),
    New(new::Args),
    P4c(alfirk_compiler::driver::P4cArgs),
    #[command(hide = true)]
    P4cDriver(alfirk_compiler::driver::StepArgs),
    Packet(packet::Args),
    Play(play::Args),
    Ptf(ptf::Args),
    Reproduce(reproduce::Args),
    Run(run::Args),
    Switch(alfirk_switch::SwitchArgs),
    Stf(stf::Args),
    Topology(topology::Args),
    Trace(trace::Args),
    /// Print the version of alfirk, and of the formats and protocols that it implements.
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
            Command::Coverage(args) => coverage::run(&args),
            Command::Ctrl(args) => ctrl::run(&args),
            Command::Debug(args) => debug::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Experiment(args) => experiment::run(args),
            Command::Fmt(args) => fmt::run(&args),
            Command::Host(args) => host::run(args),
            Command::Link(args) => link::run(&args),
            Command::Lsp(args) => lsp::run(&args),
            Command::Machine(args) => machine::run(&args),
            Command::Man(args) => manual::man(&args, Cli::command()),
            Command::New(args) => new::run(&args),
            Command::P4c(args) => p4c::run(&args),
            Command::P4cDriver(args) => p4c::run_steps(&args),
            Command::Packet(args) => packet::run(&args),
            Command::Play(args) => play::run(&args),
            Command::Ptf(args) => ptf::run(&args),
            Command::Reproduce(args) => reproduce::run(&args),
            Command::Run(args) => run::run(args),
            Command::Switch(args) => switch::run(&args),
            Command::Stf(args) => stf::run(&args),
            Command::Topology(args) => topology::run(args),
            Command::Trace(args) => trace::run(&args),
            Command::Version(args) => version::run(args),
            Command::View(args) => view::run(&args),
            Command::Vxlan(args) => vxlan::run(&args),
        }
    }
}

/// Other names under which the executable is installed, and the arguments that each stands for.
const OTHER_NAMES: [(&str, &[&str]); 5] = [
    ("simple_switch", &["switch", "--as-simple-switch"]),
    ("simple_switch_grpc", &["switch"]),
    ("simple_switch_CLI", &["cli"]),
    ("p4c-bm2-ss", &["p4c"]),
    ("p4c", &["p4c-driver"]),
];

/// Headings of `alfirk --help`, each with the subcommands (verbs) under it.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Experiments",
        &["run", "experiment", "reproduce", "compare-drivers"],
    ),
    (
        "P4",
        &[
            "p4c", "stf", "ptf", "debug", "play", "coverage", "new", "fmt", "lsp",
        ],
    ),
    (
        "Fabric",
        &[
            "switch", "ctrl", "cli", "link", "trace", "host", "topology", "vxlan",
        ],
    ),
    ("Packets", &["packet", "check-pcap", "view"]),
    (
        "This machine",
        &["doctor", "version", "completions", "man", "help"],
    ),
];

fn main() -> ExitCode {
    exit::hide_panics();
    let cli = match parse(&arguments(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error),
    };
    let logging = match &cli.command {
        // The switch has logging flags of its own, which are BMv2's.
        Command::Switch(args) => switch::start_logging(args, &cli.log),
        _ => start_logging(&cli.log),
    };
    if let Err(message) = logging {
        return exit::report(Err(message));
    }
    exit::report(exit::guard(|| cli.command.run()))
}

/// Parses the command line. `alfirk --help` lists the verbs under the headings of [`GROUPS`], which clap does not
/// support.
///
/// The definitions of all verbs are built only for that list, because it takes time.
fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand};

    Cli::try_parse_from(arguments).map_err(|error| match error.kind() {
        DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand => grouped(Cli::command())
            .try_get_matches_from(arguments)
            .err()
            .unwrap_or(error),
        _ => error,
    })
}

/// Sets the help of `alfirk` to list the verbs under the headings of [`GROUPS`], each with the first line of its own
/// help.
fn grouped(mut command: clap::Command) -> clap::Command {
    command.build();
    let header = *command.get_styles().get_header();
    let name_style = *command.get_styles().get_literal();
    let width = GROUPS
        .iter()
        .flat_map(|(_, verbs)| verbs.iter().map(|verb| verb.len()))
        .max()
        .unwrap_or(0);
    let mut template = String::from("{about-with-newline}\n{usage-heading} {usage}\n\n");
    for (heading, verbs) in GROUPS {
        template += &format!("{header}{heading}:{header:#}\n");
        for verb in verbs {
            let about = command
                .find_subcommand(verb)
                .and_then(|verb| verb.get_about());
            let about = about.map(ToString::to_string).unwrap_or_default();
            template += &format!("  {name_style}{verb:width$}{name_style:#}  {about}\n");
        }
        template.push('\n');
    }
    template += &format!("{header}Options:{header:#}\n{{options}}{{after-help}}");
    command.help_template(template)
}

/// Arguments for clap. If the executable is called by one of [`OTHER_NAMES`], the verb is inserted.
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

/// Index of the verb in the arguments, after the global options.
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
    fn each_visible_verb_is_in_one_group() {
        let mut listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, verbs)| *verbs)
            .copied()
            .collect();
        listed.sort_unstable();
        let mut command = Cli::command();
        command.build();
        let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let mut visible: Vec<&str> = visible.map(clap::Command::get_name).collect();
        visible.sort_unstable();
        assert_eq!(listed, visible);
        assert!(GROUPS.iter().all(|(_, verbs)| verbs.len() <= 10));
    }

    #[test]
    fn groups_of_flags_have_at_most_ten() {
        fn check(command: &clap::Command) {
            let mut sizes = std::collections::BTreeMap::new();
            let flags = command
                .get_arguments()
                .filter(|arg| !arg.is_positional() && !arg.is_hide_set());
            for flag in flags {
                *sizes.entry(flag.get_help_heading()).or_insert(0) += 1;
            }
            for (heading, size) in sizes {
                assert!(
                    size <= 10,
                    "{}: {size} flags under {heading:?}",
                    command.get_name()
                );
            }
            let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set());
            visible.for_each(check);
        }
        let mut command = Cli::command();
        command.build();
        check(&command);
    }

    #[test]
    fn each_visible_verb_has_an_example() {
        for verb in Cli::command()
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set())
        {
            let after = verb.get_after_help().or(verb.get_after_long_help());
            let after = after.map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("alfirk "), "{}", verb.get_name());
        }
    }

    #[test]
    fn other_names_select_their_verbs() {
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
