//! How many times slower than equipment a network of processes goes.

use std::io::{Read, Write};
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use alfirk_ctrl::topology::Topology;
use alfirk_experiment::{ClockSummary, Job, LoadSummary, Row};
use alfirk_packet_io::wire::wire_bytes;
use alfirk_roce::collective::Original;
use alfirk_roce::wire::ethernet;
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::{Model, Network};
use alfirk_sim::VirtualFabric;

use super::load::{Load, Share};
use crate::exit::Failure;
use crate::program::CompiledProgram;
use crate::run::config::Config;
use crate::run::controller_config;
use crate::run::progress::Bars;
use crate::run::{processors, run_one};

/// The part of all processors' time that the network may need by what is expected. The rest is for what is not: other
/// programs, and the moments at which more packets are about than in the mean.
const SHARE: f64 = 0.4;
/// What system calls, timers and waking up cost for one packet on one link, in times that two threads take to wake each other up.
const WAKES: f64 = 6.0;
/// What a packet costs in a process of its own, as a multiple of what it costs in the simulator: caches are cold, and packets are
/// copied.
const ALONE: f64 = 6.0;
/// The part of a hop's time by which a process may be late when it wakes up.
const LATE: f64 = 0.02;
/// The part of a hop's time that a process may wait for a processor, above which results are called into question.
const WAIT: f64 = 0.05;
/// The part of all processors' time above which the network is called limited by them.
const BUSY: f64 = 0.8;
/// Bytes of the message by which it is found out how many packets there are in which time.
const SAMPLE: usize = 256 << 10;
/// Messages between two threads by which it is found out how long waking up takes.
const KNOCKS: usize = 201;

/// What there is to run a network on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equipment {
    /// Of all machines together.
    pub processors: usize,
    /// Nanoseconds until a thread that sleeps does something about a message, on the slowest of them.
    pub wake: f64,
}

impl Equipment {
    /// This machine.
    pub fn here() -> Equipment {
        Equipment {
            processors: processors(),
            wake: wake(),
        }
    }
}

/// How slow a clock this machine needs for what is to be measured.
///
/// The virtual driver says how many packets there are on how many links in which of the network's time, and what one costs this
/// machine; two threads that wake each other up say what that costs.
///
/// # Errors
/// What is to be measured fails in virtual time, too.
pub fn choose(
    config: &Config,
    program: &CompiledProgram,
    job: &Job,
    equipment: Equipment,
) -> Result<NonZeroU32, Failure> {
    let wake = equipment.wake;
    let mut needed = WAKES * wake / (LATE * hop(&config.topology, config.model));
    let sample = sample(job);
    let processors = equipment.processors as f64;
    for &algorithm in &config.algorithms {
        let network = Network::build(
            &config.topology,
            controller_config(config, program),
            config.model,
            FaultProbabilities::lossy(config.loss.everywhere),
            config.job.seed,
        );
        let fabric = VirtualFabric::bring_up(network.map_err(Failure::bad_input)?);
        let mut fabric = fabric.map_err(Failure::failed)?;
        let before = Share::of_this_thread();
        let row = run_one(&mut fabric, config, &sample, algorithm, &Bars::hidden())?;
        let ran = Share::of_this_thread().since(before).ran;
        let cost = packet_cost(&row, ran, wake);
        let rate = row.wire_packets as f64 / row.completion_ns.max(1) as f64;
        tracing::info!("{algorithm}: {rate:.3} packets/ns on links, {cost:.0} ns each, {wake:.0} ns to wake up");
        needed = needed.max(rate * cost / (processors * SHARE));
    }
    Ok(rounded(needed))
}

/// What a packet on a link costs this machine in nanoseconds, after a virtual run that took so many.
fn packet_cost(row: &Row, ran: u64, wake: f64) -> f64 {
    ALONE * ran as f64 / row.wire_packets.max(1) as f64 + WAKES * wake
}

/// The job with a small message, and without faults.
fn sample(job: &Job) -> Job {
    let bytes = job.data.bytes();
    let data = match job.messages {
        // So many need their bytes.
        Some(_) => Arc::clone(&job.data),
        None => Arc::new(Original::new(bytes[..bytes.len().min(SAMPLE)].into())),
    };
    Job {
        data,
        kills: Vec::new(),
        outages: Vec::new(),
        suspensions: Vec::new(),
        ..job.clone()
    }
}

/// The shortest time in nanoseconds from the beginning of a full packet on a link until it is in the next switch's queue.
pub fn hop(topology: &Topology, model: Model) -> f64 {
    let times = topology.links().iter().map(|link| {
        let does = &link.attributes;
        let bits = wire_bytes(does.mtu as usize + ethernet::HEADER_LEN) as f64 * 8.0;
        bits * 1e9 / does.rate_bps as f64 + does.delay_ns as f64
    });
    times.fold(f64::INFINITY, f64::min) + model.pipeline_latency as f64
}

/// Nanoseconds until a thread that sleeps does something about a message, half of all times being shorter.
pub fn wake() -> f64 {
    // Without sockets nothing else works either; then any figure does.
    let Ok((mut here, mut there)) = UnixStream::pair() else {
        return 0.0;
    };
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
    });
    let mut times = Vec::with_capacity(KNOCKS);
    let mut byte = [0];
    for _ in 0..KNOCKS {
        let asked = Instant::now();
        if here
            .write_all(&byte)
            .and_then(|()| here.read_exact(&mut byte))
            .is_err()
        {
            break;
        }
        times.push(asked.elapsed().as_nanos() as f64 / 2.0);
    }
    drop(here);
    // It ends as its socket does.
    let _ = echo.join();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

/// What an algorithm had of a machine with so many processors, on a clock that was `scale` times slower, where a hop takes so many
/// nanoseconds of it.
pub fn summary(
    algorithm: &str,
    load: Load,
    processors: usize,
    scale: NonZeroU32,
    hop: f64,
) -> LoadSummary {
    let (wait, limit) = (load.wait() / f64::from(scale.get()), WAIT * hop);
    let network_busy = load.share.ran as f64 / (load.took.max(1) as f64 * processors as f64);
    LoadSummary {
        algorithm: algorithm.to_owned(),
        network_busy,
        machine_busy: load.busy,
        wait_ns: wait,
        wait_limit_ns: limit,
        is_limited: wait > limit || network_busy > BUSY,
    }
}

/// What would have been slow enough for those that processors were short for, by what they lacked; `None` if there are none.
pub fn larger(clock: &ClockSummary) -> Option<NonZeroU32> {
    let limited = clock.load.iter().filter(|load| load.is_limited);
    let lacked = limited.map(|load| {
        let wait = load.wait_ns / load.wait_limit_ns;
        wait.max(load.network_busy / SHARE).clamp(1.5, 4.0)
    });
    let most = lacked.reduce(f64::max)?;
    Some(rounded(f64::from(clock.scale) * most))
}

/// The next number with two digits and zeros behind them.
fn rounded(needed: f64) -> NonZeroU32 {
    let mut unit = 1.0;
    while needed / unit > 99.0 {
        unit *= 10.0;
    }
    // The cast saturates.
    NonZeroU32::new(((needed / unit).ceil() * unit) as u32).unwrap_or(NonZeroU32::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_ctrl::topology;

    #[test]
    fn chosen_scales_are_round_and_not_too_small() {
        let round = |needed| rounded(needed).get();
        assert_eq!(
            [round(0.0), round(0.3), round(98.1), round(99.0)],
            [1, 1, 99, 99]
        );
        assert_eq!(
            [round(99.1), round(1_234.0), round(56_700.0)],
            [100, 1_300, 57_000]
        );
    }

    #[test]
    fn a_hop_is_the_time_on_a_link_and_in_a_switch() {
        let topology = topology::fat_tree(4).unwrap();
        // 4,214 bytes and 24 around them at 100 Gbit/s, 500 ns of fibre, 400 ns of switch.
        let hop = hop(&topology, Model::default());
        assert!((hop - (339.04 + 500.0 + 400.0)).abs() < 0.01, "{hop}");
    }

    #[test]
    fn waiting_counts_by_the_networks_clock() {
        let load = |waited| Load {
            share: Share {
                ran: 500_000,
                waited,
                turns: 10,
            },
            busy: 1.0,
            took: 1_000_000,
        };
        let of = |waited, scale| {
            summary(
                "chain",
                load(waited),
                2,
                NonZeroU32::new(scale).unwrap(),
                1_000.0,
            )
        };
        let late = of(1_000_000, 1_000);
        assert!((late.wait_ns - 100.0).abs() < 0.01 && late.is_limited);
        assert!(!of(1_000_000, 10_000).is_limited);
        assert!(!of(0, 1).is_limited);
    }
}
