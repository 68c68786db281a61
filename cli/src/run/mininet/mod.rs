//! Runs `alfirk run --driver mininet`: veth links, one process per switch and per host, and P4Runtime over gRPC.
//!
//! Every source of events is a file descriptor (the Mininet process, the hosts' control sockets, signals), and one
//! `poll` waits for all of them. A run therefore ends as soon as the process of a switch does.

mod fabric;
pub mod leftover;
pub mod load;
mod machines;
mod namespace;
pub mod network;
pub mod scale;
pub mod signals;
mod work_dir;

use std::num::NonZeroU32;

use alfirk_experiment::{ClockSummary, Job, MachinesSummary, Row};

use super::config::{Config, Scale};
use super::progress::Bars;
use super::run_with_bar;
use crate::exit::Failure;
use crate::program::CompiledProgram;
use fabric::MininetFabric;
use machines::MachinesNetwork;
use scale::MachineCapacity;

/// Maximum number of times that a run with `--scale auto` is repeated on a slower clock, because processors were
/// overloaded.
const MAX_REPETITIONS: usize = 2;

/// Results of all algorithms, with the clock and the machines of the network.
pub struct Measured {
    pub rows: Vec<Row>,
    /// Scale and load of the network's slowed clock; `None` if it uses real time.
    pub clock: Option<ClockSummary>,
    /// The machines of the network; `None` for one machine.
    pub machines: Option<MachinesSummary>,
}

/// Runs all algorithms in sequence on one network, each with queue pairs and a group of its own.
pub fn run(
    config: &Config,
    program: &CompiledProgram,
    job: &Job,
    bars: &Bars,
) -> Result<Measured, Failure> {
    // Other machines check their own permissions.
    if config.machines.as_ref().is_none_or(|m| m.has_local()) {
        must_be_root()?;
    }
    let mut choice = None;
    let mut scale = match config.scale {
        Scale::Off => None,
        Scale::By(scale) => Some(scale),
        Scale::Auto => {
            let phase = bars.phase("choosing the clock in virtual time");
            let capacity = match &config.machines {
                Some(machines) => MachinesNetwork::connect(machines)?.capacity(),
                None => MachineCapacity::of_this_machine(),
            };
            let choice = choice.insert(scale::choose(config, program, job, capacity)?);
            drop(phase);
            bars.note(&choice.description());
            Some(choice.scale)
        }
    };
    for _ in 0..MAX_REPETITIONS {
        let measured = run_with(config, program, job, bars, scale)?;
        let larger = measured.clock.as_ref().and_then(scale::sufficient_scale);
        match (larger, &choice) {
            (Some(larger), Some(choice)) if !choice.is_too_long(larger) => {
                bars.note(&format!(
                    "processors were overloaded; repeating with --scale {larger}"
                ));
                scale = Some(larger);
            }
            _ => return Ok(measured),
        }
    }
    run_with(config, program, job, bars, scale)
}

/// Returns an error unless the user is root, as network namespaces require.
pub fn must_be_root() -> Result<(), Failure> {
    match nix::unistd::geteuid().is_root() {
        true => Ok(()),
        false => Err(Failure::bad_input(
            "--driver mininet creates network namespaces, which needs root; run it with sudo",
        )),
    }
}

/// Builds the network with a clock that is `scale` times slower than real time, and runs all algorithms on it.
fn run_with(
    config: &Config,
    program: &CompiledProgram,
    job: &Job,
    bars: &Bars,
    scale: Option<NonZeroU32>,
) -> Result<Measured, Failure> {
    let mut fabric = match &config.attach {
        Some(folder) => MininetFabric::attach(config, folder, bars)?,
        None => MininetFabric::start(config, program, scale, bars)?,
    };
    let hop = scale::shortest_hop(&config.topology, config.model);
    let (mut rows, mut load) = (Vec::new(), Vec::new());
    for &algorithm in &config.algorithms {
        let before = fabric.counters().map_err(Failure::failed)?;
        let row = run_with_bar(&mut fabric, config, job, algorithm, bars)?;
        if let Some(scale) = scale {
            let after = fabric.counters().map_err(Failure::failed)?;
            let each = after.into_iter().zip(before).map(|(after, before)| {
                let (load, processors) = (after.0.since(&before.0), after.1);
                scale::load_summary(&row.algorithm, load, processors, scale, hop)
            });
            // The most overloaded machine decides.
            let worst = each.max_by(|a, b| {
                let limited = a.is_limited.cmp(&b.is_limited);
                limited.then(a.wait_ns.total_cmp(&b.wait_ns))
            });
            load.extend(worst);
        }
        rows.push(row);
    }
    let machines = fabric.machines();
    let processors = fabric.processors();
    let phase = bars.phase("removing the network");
    drop(fabric);
    drop(phase);
    let clock = scale.map(|scale| ClockSummary {
        scale: scale.get(),
        is_chosen_here: config.scale == Scale::Auto,
        processors,
        load,
    });
    Ok(Measured {
        rows,
        clock,
        machines,
    })
}
