//! The main job on Mininet: real veth links, one process per switch and per host, P4Runtime over gRPC.
//!
//! Everything that can bring news is a file descriptor (the Mininet process, the hosts' control sockets, signals),
//! and one `poll` waits for all of them, so that a switch that dies ends the run whatever it was doing.

mod fabric;
mod network;
mod scale;
mod signals;
mod work_dir;

use std::num::NonZeroU32;

use alfirk_experiment::{Job, Row};

use super::args::Config;
use super::progress::Bars;
use super::run_one;
use crate::exit::Failure;
use crate::program::Program;
use fabric::MininetFabric;
pub use scale::Scale;

/// Runs all algorithms on one network, one after the other, each with queue pairs and a group of its own.
pub fn run(
    config: &Config,
    program: &Program,
    job: &Job,
    bars: &Bars,
) -> Result<Vec<Row>, Failure> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Failure::bad_input(
            "--driver mininet makes network namespaces, which needs root: run it with sudo",
        ));
    }
    let scale = match config.scale {
        Scale::Off => None,
        Scale::By(scale) => Some(scale),
        Scale::Auto => NonZeroU32::new(1000),
    };
    let mut fabric = MininetFabric::start(config, program, scale)?;
    config
        .algorithms
        .iter()
        .map(|&algorithm| run_one(&mut fabric, config, job, algorithm, bars))
        .collect()
}
