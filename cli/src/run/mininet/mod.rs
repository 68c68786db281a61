//! The main job on Mininet: real veth links, one process per switch and per host, P4Runtime over gRPC.
//!
//! Everything that can bring news is a file descriptor (the Mininet process, the hosts' control sockets, signals),
//! and one `poll` waits for all of them, so that a switch that dies ends the run whatever it was doing.

mod fabric;
mod load;
mod network;
mod scale;
mod signals;
mod work_dir;

use std::num::NonZeroU32;

use alfirk_experiment::{ClockSummary, Job, Row};

use super::config::{Config, Scale};
use super::progress::Bars;
use super::run_one;
use crate::exit::Failure;
use crate::program::CompiledProgram;
use fabric::MininetFabric;
use load::Meter;

/// How often a run is repeated with a slower clock if processors were short, where the clock is chosen here.
const TRIES: usize = 2;

/// Runs all algorithms on one network, one after the other, each with queue pairs and a group of its own; tells how slow its clock
/// was, if it had one of its own.
pub fn run(
    config: &Config,
    program: &CompiledProgram,
    job: &Job,
    bars: &Bars,
) -> Result<(Vec<Row>, Option<ClockSummary>), Failure> {
    must_be_root()?;
    let mut scale = match config.scale {
        Scale::Off => None,
        Scale::By(scale) => Some(scale),
        Scale::Auto => Some(scale::choose(config, program, job)?),
    };
    for _ in 0..TRIES {
        let (rows, clock) = run_with(config, program, job, bars, scale)?;
        let larger = clock.as_ref().and_then(scale::larger);
        match larger {
            Some(larger) if config.scale == Scale::Auto => {
                tracing::info!("processors were short; once more with --scale {larger}");
                scale = Some(larger);
            }
            _ => return Ok((rows, clock)),
        }
    }
    run_with(config, program, job, bars, scale)
}

/// Refuses to go on without the rights that networks need.
pub fn must_be_root() -> Result<(), Failure> {
    match nix::unistd::geteuid().is_root() {
        true => Ok(()),
        false => Err(Failure::bad_input(
            "--driver mininet makes network namespaces, which needs root: run it with sudo",
        )),
    }
}

fn run_with(
    config: &Config,
    program: &CompiledProgram,
    job: &Job,
    bars: &Bars,
    scale: Option<NonZeroU32>,
) -> Result<(Vec<Row>, Option<ClockSummary>), Failure> {
    let mut fabric = match &config.attach {
        Some(folder) => MininetFabric::attach(config, folder)?,
        None => MininetFabric::start(config, program, scale)?,
    };
    let hop = scale::hop(&config.topology, config.model);
    let (mut rows, mut load) = (Vec::new(), Vec::new());
    for &algorithm in &config.algorithms {
        let meter = Meter::start(fabric.processes());
        let row = run_one(&mut fabric, config, job, algorithm, bars)?;
        if let Some(scale) = scale {
            load.push(scale::summary(&row.algorithm, meter.read(), scale, hop));
        }
        rows.push(row);
    }
    let clock = scale.map(|scale| ClockSummary {
        scale: scale.get(),
        is_chosen_here: config.scale == Scale::Auto,
        processors: scale::processors(),
        load,
    });
    Ok((rows, clock))
}
