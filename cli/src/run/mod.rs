//! `alfirk run`: multicasts a message or runs a workload by several algorithms, in virtual time or on Mininet.

mod args;
mod config;
mod debugging;
mod input;
pub mod mininet;
pub mod progress;
mod records;
pub mod stop;
mod summary;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use alfirk_ctrl::controller::ControllerConfig;
use alfirk_ctrl::strategy::{Strategies, Window};
use alfirk_experiment::workload::Workload;
use alfirk_experiment::{run_algorithm, run_workload, Fabric, Job, Report, Row, SharedFabric};
use alfirk_p4rt::Programs;
use alfirk_roce::collective::Algorithm;
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::Network;
use alfirk_sim::VirtualFabric;
use alfirk_view::server::{GrowingBytes, ServedTrace};

pub use args::Args;
pub(crate) use args::{hardware, machines, share};
pub use config::{Config, Control, Driver};
use debugging::PassSender;
use input::Input as Content;
use progress::{Bar, Bars};
use records::Records;
use stop::Stop;
pub(crate) use summary::name;

use crate::exit::{print, Failure, Outcome};
use crate::program::{self, CompiledProgram};

/// Runs `alfirk run`.
pub fn run(args: Args) -> Outcome {
    if args.algorithms.list_algorithms {
        return print(algorithm_list());
    }
    if args.workload.list_workloads {
        return print(args::workload::list());
    }
    if args.model.list_host_models {
        return print(hardware::list());
    }
    // Must be created before any thread is started.
    let bars = Bars::new();
    let stop = Stop::watch(args.driver(), bars.runs())?;
    // The built-in program compiles without messages, so it is compiled while arguments are checked and the input is read.
    let target = args.target;
    let built_in = args
        .p4src
        .is_none()
        .then(|| thread::spawn(move || program::compile_program(target, None)));
    let config = args.check()?;
    let program = match built_in {
        Some(thread) => thread.join().expect("the compiler reports errors"),
        None => {
            let mut path = config.p4src.clone();
            if let (Some(_), Some(relative)) = (&config.debug, &path) {
                // Editors open files by absolute paths.
                path = std::path::absolute(relative).ok().or(path);
            }
            program::compile_program(target, path.as_deref())
        }
    }?;
    if let Some(listen) = &config.debug {
        return debugging::run(&config, &program, &bars, listen.as_deref());
    }
    let page = match config.web {
        Some(address) => Some((
            crate::view::listen(address, "--web")?,
            PageTraces::new(&config),
        )),
        None => None,
    };
    let traces = page.as_ref().map(|(_, page)| page);
    let measured = measure_watched(&config, &program, &bars, traces, None);
    let report = stop.with_signal_name(measured)?;
    drop(stop);
    print(report_text(&config, &report))?;
    if let Some((listener, page)) = page {
        crate::view::serve(listener, page.0)?;
    }
    if report.verified() {
        Ok(())
    } else {
        Err(Failure::failed(report.failures()))
    }
}

/// Returns the report as the configuration wants it: a JSON object, or a table.
fn report_text(config: &Config, report: &Report) -> String {
    match config.json {
        true => {
            let object = serde_json::to_string(report).expect("a report serializes to JSON");
            format!("{object}\n")
        }
        false => report.table(),
    }
}

/// Traces for the page that replays the run (`--web`): one per algorithm, in the order of the configuration.
struct PageTraces(Vec<ServedTrace>);

impl PageTraces {
    fn new(config: &Config) -> PageTraces {
        let served_trace = |algorithm: &Algorithm| ServedTrace {
            name: algorithm.to_string(),
            bytes: GrowingBytes::default(),
            is_live: false,
        };
        PageTraces(config.algorithms.iter().map(served_trace).collect())
    }
}

/// Reads the input, runs every algorithm and returns the report, without printing it.
///
/// # Errors
/// The input cannot be read, the driver is not supported on this machine, or a run failed.
pub fn measure(config: &Config, program: &CompiledProgram, bars: &Bars) -> Result<Report, Failure> {
    measure_watched(config, program, bars, None, None)
}

/// As [`measure`], and records traces for `page`, and passes of packets through switches for `debugger`.
fn measure_watched(
    config: &Config,
    program: &CompiledProgram,
    bars: &Bars,
    page: Option<&PageTraces>,
    debugger: Option<&PassSender>,
) -> Result<Report, Failure> {
    if config.driver == Driver::Virtual {
        crate::heap::use_huge_pages();
    }
    let input = Content::load(&config.source, config.job.seed)?;
    config.check_messages(input.data.bytes().len() as u64)?;
    let job = Job {
        data: Arc::clone(&input.data),
        ..config.job.clone()
    };
    let measured = match config.driver {
        Driver::Virtual => mininet::Measured {
            rows: run_virtual(config, program, &job, bars, page, debugger)?,
            clock: None,
            machines: None,
        },
        Driver::Mininet => mininet::run(config, program, &job, bars)?,
    };
    Ok(Report {
        clock: measured.clock,
        machines: measured.machines,
        ..summary::report(config, &input, measured.rows)
    })
}

/// Text of `--list-algorithms`: one line per algorithm, with description and source.
fn algorithm_list() -> String {
    let name = |algorithm: Algorithm| match algorithm {
        Algorithm::Kary(_) => "kary:K".to_owned(),
        other => other.to_string(),
    };
    let all = Algorithm::ALL.map(|algorithm| (name(algorithm), algorithm));
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = all.iter().map(|(name, algorithm)| {
        let (about, source) = (algorithm.about(), algorithm.source());
        format!("{name:width$}  {about} [{source}]\n")
    });
    lines.collect()
}

/// Number of processors that this process may use.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, |processors| processors.get())
}

/// Number of fabrics that run in parallel in virtual time if each has `threads` threads: the number of processors
/// divided by `threads`, at least 1.
pub(crate) fn fabrics_at_once(threads: usize) -> usize {
    (processors() / threads.max(1)).max(1)
}

/// Runs each algorithm on a fabric of its own in virtual time, several in parallel. Algorithms do not affect each
/// other's results.
fn run_virtual(
    config: &Config,
    program: &CompiledProgram,
    job: &Job,
    bars: &Bars,
    page: Option<&PageTraces>,
    debugger: Option<&PassSender>,
) -> Result<Vec<Row>, Failure> {
    let (threads_each, alone) = config.usable_threads();
    if let Some(why) = alone {
        tracing::warn!(
            "--threads {}: each fabric uses one thread, because {why}",
            config.threads
        );
    }
    let threads = fabrics_at_once(threads_each).min(config.algorithms.len());
    // The fabrics share the program, which is loaded once. An error is that of the first switch that loads it.
    let programs = Network::programs(&config.model);
    let text = std::str::from_utf8(&program.device_config);
    let _loaded = text.map(|text| match debugger {
        Some(_) => None,
        None => programs.load_parsed(text, &program.json).ok(),
    });
    let schema = config
        .bf_runtime
        .map(|target| program::bf_rt_schema(target, config.p4src.as_deref()));
    let controller = ControllerConfig {
        bf_rt_schema: schema.transpose()?.map(Into::into),
        ..controller_config(config, program)
    };
    let mut rows: Vec<Option<Result<Row, Failure>>> = Vec::new();
    rows.resize_with(config.algorithms.len(), || None);
    let numbered = config.algorithms.iter().enumerate();
    let mut waiting: Vec<_> = numbered.zip(&mut rows).rev().collect();
    if threads > 1 {
        waiting.sort_by_key(|((_, algorithm), _)| duration_rank(**algorithm));
    }
    let waiting = Mutex::new(waiting);
    let work = || loop {
        let next = waiting.lock().expect("taking one cannot fail").pop();
        let Some(((number, &algorithm), row)) = next else {
            return;
        };
        let page = page.map(|page| page.0[number].bytes.clone());
        let network = build(config, &controller, &programs, debugger);
        *row = Some(network.and_then(|network| {
            run_in_virtual_time(config, network, job, algorithm, bars, page, debugger)
        }));
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let all = rows.into_iter();
    all.map(|row| row.expect("every algorithm has run"))
        .collect()
}

/// Rank of an algorithm by the expected real duration of its run, 3 for the longest. Longer runs are started first, so
/// that all processors end at about the same time.
fn duration_rank(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::Alfirk => 0,
        Algorithm::Binomial => 1,
        Algorithm::Unicast => 3,
        _ => 2,
    }
}

/// Builds the fabric of a run in virtual time, whose switches load their programs through `programs`, or one that records
/// passes for a debugger.
fn build(
    config: &Config,
    controller: &ControllerConfig,
    programs: &Programs,
    debugger: Option<&PassSender>,
) -> Result<Network, Failure> {
    let controller = controller.clone();
    let (topology, model, seed) = (&config.topology, config.model, config.job.seed);
    let faults = FaultProbabilities::lossy(config.loss.everywhere);
    let built = match debugger {
        Some(_) => Network::build_recorded(topology, controller, model, faults, seed),
        None => {
            let programs = programs.clone();
            Network::build_with(topology, controller, model, faults, seed, programs)
        }
    };
    let mut network = built.map_err(Failure::bad_input)?;
    if let Some(loss) = config.loss.core {
        for link in config.topology.core_links() {
            let set = network.set_initial_loss(link, loss);
            set.map_err(Failure::bad_input)?;
        }
    }
    Ok(network)
}

fn run_in_virtual_time(
    config: &Config,
    mut network: Network,
    job: &Job,
    algorithm: Algorithm,
    bars: &Bars,
    page: Option<GrowingBytes>,
    debugger: Option<&PassSender>,
) -> Result<Row, Failure> {
    let records = Records::start(config, algorithm, &mut network, page)?;
    let (threads, _) = config.usable_threads();
    let set = network.set_threads(config.model.fidelity.threads(threads));
    set.map_err(|error| Failure::failed(format_args!("--threads {threads}: {error}")))?;
    let started = Instant::now();
    let clock = network.run_handle();
    let bar = bars.start(algorithm, Some(clock.clone()));
    let fabric = VirtualFabric::bring_up_recorded(network, debugger.map(PassSender::function));
    let row = fabric.map_err(Failure::failed).and_then(|mut fabric| {
        let row = match &config.workload {
            Some(asked) => run_flows(&mut fabric, config, job, &asked.workload, algorithm, &bar),
            None => run_message_job(&mut fabric, config, job, algorithm, &bar),
        };
        let (events, skipped) = (fabric.network().events(), fabric.network().skipped_events());
        let seconds = started.elapsed().as_secs_f64();
        let rate = events as f64 / seconds;
        tracing::info!(
            "{algorithm}: {events} events in {seconds:.2} s, {rate:.0}/s; \
             {skipped} of them skipped as steady states"
        );
        row
    });
    let row = row.map_err(|failure| match clock.is_stopped() {
        // The signal may have arrived at any point of the run.
        true => Failure::failed(bar.run()),
        false => failure,
    });
    bar.finish();
    // Recordings are written even if the run failed.
    let recorded = records.finish();
    let row = row?;
    recorded?;
    Ok(row)
}

/// Runs one algorithm on a fabric, with a progress bar.
fn run_with_bar(
    fabric: &mut dyn Fabric,
    config: &Config,
    job: &Job,
    algorithm: Algorithm,
    bars: &Bars,
) -> Result<Row, Failure> {
    let bar = bars.start(algorithm, None);
    let row = run_message_job(fabric, config, job, algorithm, &bar);
    let row = row.map_err(|failure| match bars.runs().interrupted() {
        // The signal may have arrived at any point of the run.
        Some(_) => {
            bars.runs().stopped_at(bar.run());
            Failure::failed(bar.run())
        }
        None => failure,
    });
    bar.finish();
    row
}

/// Runs one algorithm of a message job on a fabric.
fn run_message_job(
    fabric: &mut dyn Fabric,
    config: &Config,
    job: &Job,
    algorithm: Algorithm,
    bar: &Bar,
) -> Result<Row, Failure> {
    let mut show = |progress| bar.show(progress);
    let result = run_algorithm(fabric, &config.topology, job, algorithm, &mut show);
    result.map_err(Failure::failed)
}

/// Runs the flows of a workload by one algorithm on a fabric.
fn run_flows(
    fabric: &mut dyn SharedFabric,
    config: &Config,
    job: &Job,
    workload: &Workload,
    algorithm: Algorithm,
    bar: &Bar,
) -> Result<Row, Failure> {
    let topology = &config.topology;
    let mut show = |progress| bar.show(progress);
    let result = run_workload(fabric, topology, job, workload, algorithm, &mut show);
    result.map_err(Failure::failed)
}

/// Maximum number of outstanding packets of a queue pair of alfirk ([`alfirk_roce::rc::RcConfig::window`]).
const MAX_OUTSTANDING: u32 = 1 << 22;

/// Configuration of the controller for the run.
fn controller_config(config: &Config, program: &CompiledProgram) -> ControllerConfig {
    ControllerConfig {
        // Several probes within the timeout, so that one lost reply does not matter.
        probe_interval_ns: config.dead_after / 8,
        dead_member_ns: config.dead_after,
        dead_switch_ns: config.dead_after,
        policy: config.job.tree_policy,
        // For a group registered in band, the controller holds only this upper limit of outstanding packets.
        strategies: Strategies {
            window: Window::at_least(MAX_OUTSTANDING),
            ..config.job.strategies
        },
        ecn: config.ecn,
        ..ControllerConfig::new(program.p4info.clone(), program.device_config.clone())
    }
}
