//! `alfirk run`: the main job, in virtual time or on Mininet.

mod args;
mod config;
pub mod hardware;
mod input;
mod lose;
mod losses;
pub mod machines;
pub mod mininet;
pub mod progress;
mod quantity;
mod rates;
mod records;
mod workload;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use alfirk_ctrl::constants::RECOMPUTE_NETWORK;
use alfirk_ctrl::controller::{ControllerConfig, GroupRange};
use alfirk_ctrl::strategy::IcrcMode;
use alfirk_experiment::workload::Workload;
use alfirk_experiment::{
    run_algorithm, run_workload, Congestion, Fabric, GroupSummary, Input, Job, Registration,
    Report, Row, Settings, SharedFabric, TopologySummary, WorkloadSummary,
};
use alfirk_roce::collective::{Algorithm, TransferOp, WriteMode};
use alfirk_roce::rc::Recovery;
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::Network;
use alfirk_sim::VirtualFabric;
use alfirk_view::server::{Exhibit, Growing};

pub use args::Args;
pub use config::{Config, Driver};
use input::Input as Content;
use progress::Bars;
pub(crate) use quantity::{quantity, share};
use records::Records;

use crate::exit::{print, Failure, Outcome};
use crate::program::{self, CompiledProgram};

pub fn run(args: Args) -> Outcome {
    if args.list_algorithms {
        return print(algorithms());
    }
    if args.workload.list_workloads {
        return print(workload::list());
    }
    if args.model.list_host_models {
        return print(hardware::list());
    }
    // The built-in program has nothing to say; it is compiled while the arguments are checked and the input is read.
    let target = args.target;
    let built_in = args
        .p4src
        .is_none()
        .then(|| thread::spawn(move || program::compile_program(target, None)));
    let config = args.check()?;
    let program = match built_in {
        Some(thread) => thread.join().expect("the compiler reports errors"),
        None => program::compile_program(target, config.p4src.as_deref()),
    }?;
    let page = match config.web {
        Some(address) => Some((crate::view::listen(address, "--web")?, Page::new(&config))),
        None => None,
    };
    let traces = page.as_ref().map(|(_, page)| page);
    let report = measure_watched(&config, &program, &Bars::new(), traces)?;
    if config.json {
        let object = serde_json::to_string(&report).expect("a report has no strange keys");
        print(format_args!("{object}\n"))?;
    } else {
        print(report.table())?;
    }
    if let Some((listener, page)) = page {
        crate::view::serve(listener, page.0)?;
    }
    if report.verified() {
        Ok(())
    } else {
        Err(Failure::failed(
            "some receivers do not hold the bytes that were sent",
        ))
    }
}

/// What the page plays of each algorithm, in the order of the configuration.
struct Page(Vec<Exhibit>);

impl Page {
    fn new(config: &Config) -> Page {
        let exhibit = |algorithm: &Algorithm| Exhibit {
            name: algorithm.to_string(),
            bytes: Growing::default(),
            is_live: false,
        };
        Page(config.algorithms.iter().map(exhibit).collect())
    }
}

/// Reads the input, runs every algorithm, and prints nothing.
///
/// # Errors
/// The input cannot be read, the driver cannot work here, or a run failed.
pub fn measure(config: &Config, program: &CompiledProgram, bars: &Bars) -> Result<Report, Failure> {
    measure_watched(config, program, bars, None)
}

fn measure_watched(
    config: &Config,
    program: &CompiledProgram,
    bars: &Bars,
    page: Option<&Page>,
) -> Result<Report, Failure> {
    let input = Content::load(&config.source, config.seed)?;
    config.check_messages(input.data.bytes().len() as u64)?;
    let job = job(config, &input);
    let measured = match config.driver {
        Driver::Virtual => mininet::Measured {
            rows: run_virtual(config, program, &job, bars, page)?,
            clock: None,
            machines: None,
        },
        Driver::Mininet => mininet::run(config, program, &job, bars)?,
    };
    Ok(Report {
        clock: measured.clock,
        machines: measured.machines,
        ..report(config, &input, measured.rows)
    })
}

/// A line for each algorithm.
fn algorithms() -> String {
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

/// Each algorithm gets a fabric of its own, so that none profits from what another left behind, and so that
/// several can run at once, on every processor one. Nothing of a result depends on that.
fn run_virtual(
    config: &Config,
    program: &CompiledProgram,
    job: &Job,
    bars: &Bars,
    page: Option<&Page>,
) -> Result<Vec<Row>, Failure> {
    let processors = thread::available_parallelism().map_or(1, |processors| processors.get());
    let threads = processors.min(config.algorithms.len());
    let mut rows: Vec<Option<Result<Row, Failure>>> = Vec::new();
    rows.resize_with(config.algorithms.len(), || None);
    let numbered = config.algorithms.iter().enumerate();
    let mut waiting: Vec<_> = numbered.zip(&mut rows).rev().collect();
    if threads > 1 {
        waiting.sort_by_key(|((_, algorithm), _)| effort(**algorithm));
    }
    let waiting = Mutex::new(waiting);
    let work = || loop {
        let next = waiting.lock().expect("taking one cannot fail").pop();
        let Some(((number, &algorithm), row)) = next else {
            return;
        };
        let page = page.map(|page| page.0[number].bytes.clone());
        *row = Some(run_in_virtual_time(
            config, program, job, algorithm, bars, page,
        ));
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

/// A rank by packets on the wires. What takes longest begins first, so that no processor is left with it at the end.
fn effort(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::Alfirk => 0,
        Algorithm::Binomial => 1,
        Algorithm::Unicast => 3,
        _ => 2,
    }
}

fn run_in_virtual_time(
    config: &Config,
    program: &CompiledProgram,
    job: &Job,
    algorithm: Algorithm,
    bars: &Bars,
    page: Option<Growing>,
) -> Result<Row, Failure> {
    let mut network = Network::build(
        &config.topology,
        controller_config(config, program),
        config.model,
        FaultProbabilities::lossy(config.loss),
        config.seed,
    )
    .map_err(Failure::bad_input)?;
    if let Some(loss) = config.core_loss {
        for link in config.topology.core_links() {
            let set = network.set_own_loss(link, loss);
            set.map_err(Failure::bad_input)?;
        }
    }
    let records = Records::start(config, algorithm, &mut network, page)?;
    let started = Instant::now();
    let fabric = VirtualFabric::bring_up(network);
    let row = fabric.map_err(Failure::failed).and_then(|mut fabric| {
        let row = match &config.workload {
            Some(asked) => run_flows(&mut fabric, config, job, &asked.workload, algorithm, bars),
            None => run_one(&mut fabric, config, job, algorithm, bars),
        };
        let (events, seconds) = (fabric.network().events(), started.elapsed().as_secs_f64());
        let rate = events as f64 / seconds;
        tracing::info!("{algorithm}: {events} events in {seconds:.2} s, {rate:.0}/s");
        row
    });
    // What was recorded is worth most when the run failed.
    let recorded = records.finish();
    let row = row?;
    recorded?;
    Ok(row)
}

fn run_one(
    fabric: &mut dyn Fabric,
    config: &Config,
    job: &Job,
    algorithm: Algorithm,
    bars: &Bars,
) -> Result<Row, Failure> {
    let bar = bars.start(algorithm);
    let result = run_algorithm(fabric, &config.topology, job, algorithm, &mut |progress| {
        bar.show(progress);
    });
    bar.finish();
    result.map_err(Failure::failed)
}

fn run_flows(
    fabric: &mut dyn SharedFabric,
    config: &Config,
    job: &Job,
    workload: &Workload,
    algorithm: Algorithm,
    bars: &Bars,
) -> Result<Row, Failure> {
    let bar = bars.start(algorithm);
    let topology = &config.topology;
    let mut show = |progress| bar.show(progress);
    let result = run_workload(fabric, topology, job, workload, algorithm, &mut show);
    bar.finish();
    result.map_err(Failure::failed)
}

fn job(config: &Config, input: &Content) -> Job {
    Job {
        members: config.members.clone(),
        data: Arc::clone(&input.data),
        collective: config.collective,
        op: config.op,
        write: config.write,
        strategies: config.strategies,
        congestion: config.congestion,
        recovery: config.recovery,
        switch_source: config.switch_source,
        switch_early: config.switch_early,
        mtu: config.mtu,
        slices: config.slices,
        messages: config.messages,
        block: config.block,
        store_and_forward: config.store_and_forward,
        ready: config.ready,
        receives: config.receives,
        depth: config.queue_depth,
        time_limit: config.time_limit,
        mcst_id: match config.strategies.icrc {
            IcrcMode::Recompute => RECOMPUTE_NETWORK.into(),
            IcrcMode::Neutral | IcrcMode::Punt => GroupRange::default().first(),
        },
        seed: config.seed,
        initial_psn: config.initial_psn,
        registration: config.registration,
        fallback: config.fallback,
        safeguard: config.safeguard,
        outages: config.outages.clone(),
        kills: config.kills.clone(),
        hostiles: config.hostiles.clone(),
    }
}

fn controller_config(config: &Config, program: &CompiledProgram) -> ControllerConfig {
    ControllerConfig {
        // Some looks in that time, so that one lost answer does not matter.
        probe_interval_ns: config.dead_after / 8,
        dead_member_ns: config.dead_after,
        dead_switch_ns: config.dead_after,
        policy: config.tree_policy,
        strategies: config.strategies,
        ecn: config.ecn,
        ..ControllerConfig::new(program.p4info.clone(), program.device_config.clone())
    }
}

fn report(config: &Config, input: &Content, results: Vec<Row>) -> Report {
    let topology = &config.topology;
    let name = |&host| topology.host(host).name.clone();
    let members: Vec<String> = config.members.iter().map(name).collect();
    let is_one_message = config.workload.is_none();
    Report {
        clock: None,
        machines: None,
        results,
        input: is_one_message.then(|| Input {
            file: input.file.clone(),
            size: input.data.bytes().len() as u64,
            sha256: input.data.sha256().to_string(),
        }),
        workload: config.workload.as_ref().map(|asked| WorkloadSummary {
            kind: asked.text.clone(),
            background: asked.background.clone(),
            hosts: members.len(),
            flows: asked.workload.flows().count(),
            phases: asked.workload.phases.len(),
            bytes: asked.workload.bytes(),
        }),
        topology: TopologySummary {
            name: topology.name().to_string(),
            hosts: topology.hosts().len(),
            switches: topology.switches().len(),
            links: topology.links().len(),
        },
        group: is_one_message.then(|| GroupSummary {
            size: members.len(),
            source: members[0].clone(),
            members,
        }),
        settings: Settings {
            driver: config.driver.name().to_string(),
            collective: config.collective.to_string(),
            op: match config.op {
                TransferOp::Send => "send",
                TransferOp::Write => "write",
                TransferOp::WriteImm => "write-imm",
            }
            .to_string(),
            write: (config.op != TransferOp::Send).then(|| {
                match config.write {
                    WriteMode::Aligned => "aligned",
                    WriteMode::Uniform => "uniform",
                    WriteMode::PerRequest => "per-request",
                }
                .to_string()
            }),
            min_psn: config.strategies.min_psn.to_string(),
            icrc: config.strategies.icrc.to_string(),
            tree_policy: config.tree_policy.to_string(),
            switch_source: config.switch_source,
            switch_early: config.switch_early,
            congestion: match config.congestion {
                Congestion::None => "none",
                Congestion::Dcqcn => "dcqcn",
            }
            .to_string(),
            recovery: match config.recovery {
                Recovery::GoBackN => None,
                Recovery::SelectiveRepeat => Some("selective-repeat".to_string()),
            },
            mtu: config.mtu.bytes() as u32,
            slices: config.slices,
            loss: config.loss,
            outages: config.outage_names.clone(),
            rates: config.rates.clone(),
            fallback_below: config.safeguard.map(|config| config.below),
            registration: match config.registration {
                Registration::Service => "api",
                Registration::InBand => "mrp",
            }
            .to_string(),
            switching: (!topology.switching().is_default())
                .then(|| topology.switching().to_string()),
            host_model: hardware::show(config.model),
        },
        seed: config.seed,
    }
}
