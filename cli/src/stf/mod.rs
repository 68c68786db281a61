//! `alfirk stf`: compiles a program and runs a test in p4c's STF language on it.
//!
//! The crate `alfirk_stf` runs tests on our P4Runtime server and switch in this process. With `--switch`, tests run on
//! a separate switch process, ours or another one ([`remote`]).

mod interactive;
mod outcomes;
mod process;
mod remote;
mod veth;

use std::path::{Path, PathBuf};

use alfirk_bmv2::trace::{trees, TraceEvent, TraceLine};
use alfirk_p4rt::packet_trace::packet_traces;
use alfirk_stf::{summary, Command, Control, Line, Records, Session};
use alfirk_switch::stdout_has_colors;
use clap::ValueEnum;
use serde_json::json;

use crate::coverage;
use crate::exit::{print, Failure, Outcome};
use crate::program::{compile_for_test, is_json, SourceFlags};
use remote::Remote;

/// Compile a P4 program and test it with packets: a test in the STF language of p4c.
///
/// Commands: packet, expect (with * for any digit and $ for the end), or (another set of expected packets), no_packet, wait, add, setdefault, remove, mirroring_add,
/// mirroring_add_mc, mirroring_delete, mc_mgrp_create, mc_node_create, mc_node_update, mc_node_associate, mc_node_exclude and mc_exclude
/// (Tofino's exclusion ids), register_read, register_write, register_reset, counter_read, counter_write, check_counter, meter_set_rates, meter_array_set_rates.
///
/// Exit codes: 0 the test passes, 1 it fails or the program has errors, 2 wrong usage or unreadable input.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  alfirk stf basic.p4 basic.stf\n  echo 'packet 0 00112233445566778899aabb0800' | alfirk stf --interactive --trace basic.p4"
)]
pub struct Args {
    /// The P4_16 program, or its compiled BMv2 JSON (.json).
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,

    /// The test (.stf).
    #[arg(value_name = "TEST", required_unless_present = "interactive")]
    test: Option<PathBuf>,

    /// Execute commands from standard input as they arrive, and print the result of each as one JSON object: the packets that
    /// left the switch, the value read, the trace.
    #[arg(long, conflicts_with_all = ["test", "switch", "json"], help_heading = "Output")]
    interactive: bool,

    /// Print how each packet was processed: states, tables, statements, changed fields, drops. In JSON, a line is one step; as
    /// a tree, a line is a packet with its copies, in JSON; as txtpb, each packet and copy is a PacketTrace of BMv2.
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text", conflicts_with = "switch", help_heading = "Output")]
    trace: Option<TraceFormat>,

    /// Write the trace of each packet as BMv2 does: trace_N.txtpb in DIR, a PacketTrace in text format.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["switch", "interactive"],
        help_heading = "Output"
    )]
    trace_dir: Option<PathBuf>,

    #[command(flatten)]
    source: SourceFlags,

    /// Seed of the switch's random numbers.
    #[arg(long, default_value_t = 0, conflicts_with = "switch")]
    seed: u64,

    /// Test this switch as a process, over P4Runtime and veth pairs in a network namespace: `alfirk`, `simple_switch_grpc` or a
    /// path. Needs root.
    #[arg(long, value_name = "EXE")]
    switch: Option<PathBuf>,

    /// Run the test once for each combination of random numbers and of an action selector's members, and with two values of
    /// what P4 leaves undefined. Prints a tree of the outcomes. Every one must pass.
    #[arg(long, conflicts_with_all = ["switch", "interactive", "coverage", "trace_dir"])]
    all_outcomes: bool,

    /// Print the result as one JSON object.
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Add the test's coverage of the program to this LCOV file; `alfirk coverage` shows it.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "switch",
        help_heading = "Output"
    )]
    coverage: Option<PathBuf>,

    /// Whether the trace of a failed test is printed.
    #[arg(skip)]
    trace_failed: bool,
}

impl Args {
    /// Arguments that run `test`, print the trace of the packets if it fails, and add its coverage to a file.
    pub fn of_test(
        program: &Path,
        test: &Path,
        source: &SourceFlags,
        coverage: Option<&Path>,
    ) -> Args {
        Args {
            program: program.to_owned(),
            test: Some(test.to_owned()),
            interactive: false,
            trace: None,
            trace_dir: None,
            source: source.clone(),
            seed: 0,
            switch: None,
            all_outcomes: false,
            json: false,
            coverage: coverage.map(Path::to_owned),
            trace_failed: true,
        }
    }
}

/// Format in which a test prints the traces of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TraceFormat {
    /// Indented text, with colours on a terminal.
    Text,
    /// One JSON object for each step.
    Json,
    /// One JSON object for each packet, with its copies inside.
    Tree,
    /// BMv2's PacketTrace in protobuf text format, for each packet and copy.
    Txtpb,
}

/// Runs `alfirk stf`.
pub fn run(args: &Args) -> Outcome {
    match &args.test {
        Some(test) => run_test(args, test),
        None => {
            let mut session = start(args)?;
            let outcome = interactive::run(&mut session);
            cover(args, &mut session)?;
            outcome
        }
    }
}

fn run_test(args: &Args, test: &Path) -> Outcome {
    let text = std::fs::read_to_string(test)
        .map_err(|error| Failure::bad_input(format!("{}: {error}", test.display())))?;
    let lines = alfirk_stf::parse(&text)
        .map_err(|error| Failure::bad_input(format!("{}: {error}", test.display())))?;
    if args.all_outcomes {
        return outcomes::run(args, test, &start(args)?, &lines);
    }
    let failures = match &args.switch {
        Some(exe) => on_started_switch(args, exe, &lines)?,
        None => {
            let mut session = start(args)?;
            let failures = session.run(&lines);
            cover(args, &mut session)?;
            let trace = session.take_trace();
            if let Some(dir) = &args.trace_dir {
                write_packet_traces(dir, &trace)?;
            }
            if args.trace.is_some() || args.trace_failed && !failures.is_empty() {
                print_trace(args, test, &lines, &trace)?;
            }
            failures
        }
    };
    report(args, test, &failures)?;
    match failures.is_empty() {
        true => Ok(()),
        false => Err(Failure::AlreadyReported(1)),
    }
}

/// Starts a switch in this process, which runs the program.
fn start(args: &Args) -> Result<Session, Failure> {
    let records = Records {
        traces: args.trace.is_some()
            || args.trace_dir.is_some()
            || args.trace_failed
            || args.all_outcomes,
        blocks: args.trace == Some(TraceFormat::Txtpb) || args.trace_dir.is_some(),
        coverage: args.coverage.is_some(),
    };
    Session::start(&json(args)?, args.seed, records)
        .map_err(|error| Failure::failed(format!("{}: {error}", args.program.display())))
}

/// Adds the coverage of a session to the file of `--coverage`.
fn cover(args: &Args, session: &mut Session) -> Outcome {
    let Some(path) = &args.coverage else {
        return Ok(());
    };
    let added = alfirk_coverage::add_to_file(path, &session.coverage());
    added.map(drop).map_err(coverage::failure)
}

/// Prints the trace of a test. As text, the line of the test precedes the steps of the packet that it sends.
fn print_trace(args: &Args, test: &Path, lines: &[Line], trace: &[TraceLine]) -> Outcome {
    let format = args.trace.unwrap_or(TraceFormat::Text);
    if format == TraceFormat::Tree {
        let trees = trees(trace).into_iter();
        let lines =
            trees.map(|tree| serde_json::to_string(&tree).expect("plain data becomes JSON"));
        return print(lines.map(|line| line + "\n").collect::<String>());
    }
    if format == TraceFormat::Txtpb {
        let traces = packet_traces(trace).into_iter();
        return print(traces.map(|trace| trace.named_text()).collect::<String>());
    }
    let color = stdout_has_colors();
    let mut sent = lines
        .iter()
        .filter(|line| matches!(line.command, Command::Packet { .. }));
    let mut text = String::new();
    for step in trace {
        let step = match format {
            TraceFormat::Json | TraceFormat::Tree | TraceFormat::Txtpb => step.json(),
            TraceFormat::Text => {
                let is_first = matches!(step.event, TraceEvent::In { .. });
                if let Some(line) = is_first.then(|| sent.next()).flatten() {
                    text += &format!("{}:{}: packet\n", test.display(), line.number);
                }
                step.text(color)
            }
        };
        text += &step;
        text.push('\n');
    }
    print(text)
}

/// Writes the trace of each packet to a file of its own.
fn write_packet_traces(dir: &Path, trace: &[TraceLine]) -> Outcome {
    let unusable = |path: &Path, error: std::io::Error| {
        Failure::bad_input(format_args!("--trace-dir {}: {error}", path.display()))
    };
    std::fs::create_dir_all(dir).map_err(|error| unusable(dir, error))?;
    for trace in packet_traces(trace) {
        let path = dir.join(trace.file_name());
        std::fs::write(&path, trace.text()).map_err(|error| unusable(&path, error))?;
    }
    Ok(())
}

fn on_started_switch(
    args: &Args,
    exe: &Path,
    lines: &[Line],
) -> Result<Vec<alfirk_stf::Failure>, Failure> {
    if is_json(&args.program) {
        return Err(Failure::bad_input(format!(
            "{}: --switch needs the P4 program instead, because the switch also needs P4Info",
            args.program.display()
        )));
    }
    let program = compile_for_test(&args.source, &args.program)?;
    let ports = lines.iter().filter_map(|line| match line.command {
        Command::Packet { port, .. } | Command::Expect { port, .. } => Some(port),
        _ => None,
    });
    let ports = ports.collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("cannot set up the client: {error}")))?;
    runtime.block_on(async {
        let remote = Remote::start(exe, &program, ports).await?;
        let json = program.json.to_text();
        let mut control = Control::new(remote, program.p4info);
        alfirk_stf::run(&mut control, lines, &json).await
    })
}

/// Returns the program's BMv2 JSON: reads it, or compiles the P4 source.
fn json(args: &Args) -> Result<String, Failure> {
    let path = &args.program;
    match is_json(path) {
        true => std::fs::read_to_string(path)
            .map_err(|error| Failure::bad_input(format!("{}: {error}", path.display()))),
        false => Ok(compile_for_test(&args.source, path)?.json.to_text()),
    }
}

fn report(args: &Args, test: &Path, failures: &[alfirk_stf::Failure]) -> Outcome {
    if args.json {
        let list: Vec<_> = failures
            .iter()
            .map(|failure| json!({"line": failure.line, "what": failure.message}))
            .collect();
        let result = json!({
            "program": args.program.display().to_string(),
            "test": test.display().to_string(),
            "passed": failures.is_empty(),
            "failures": list,
        });
        return print(format_args!("{result}\n"));
    }
    let test = test.display().to_string();
    let lines = failures.iter().map(|failure| failure.text(&test) + "\n");
    print(lines.collect::<String>() + &summary(&test, failures) + "\n")
}
