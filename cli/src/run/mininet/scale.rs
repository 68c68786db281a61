//! How many times slower than equipment a network of processes goes.

use std::fmt;
use std::io::{Read, Write};
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};

use alfirk_ctrl::topology::Topology;
use alfirk_experiment::{ClockSummary, Fabric, Job, LoadSummary};
use alfirk_packet_io::wire::wire_bytes;
use alfirk_roce::collective::ExpectedData;
use alfirk_roce::wire::ethernet;
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::{Model, Network, Watch};
use alfirk_sim::VirtualFabric;
use alfirk_units::{SIZE, TIME};

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
/// The largest part of a packet's cost that is not for waking up, as a multiple of that. More is not about packets: on slow links a run in
/// virtual time is mostly timers.
const MOST_ALONE: f64 = 3.0;
/// The part of a hop's time by which a process may be late when it wakes up.
const LATE: f64 = 0.02;
/// The part of a hop's time that a process may wait for a processor, above which results are called into question.
const WAIT: f64 = 0.05;
/// The part of all processors' time above which the network is called limited by them.
const BUSY: f64 = 0.8;
/// Bytes of the message by which it is found out how many packets there are in which time.
const SAMPLE: usize = 256 << 10;
/// Bytes of a message that has hardly any packets.
const SMALL: usize = 4 << 10;
/// Real time that such a message may take in virtual time.
const SAMPLE_LIMIT: Duration = Duration::from_secs(30);
/// Real time that transfers may take on a clock that is chosen here.
const LONGEST: Duration = Duration::from_secs(600);
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

/// The clock that `--scale auto` has chosen, and what the runs will take on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    pub scale: NonZeroU32,
    /// What decided.
    reason: Reason,
    /// Nanoseconds of the network's time that all transfers take together by what was seen in virtual time.
    takes: f64,
}

/// What a clock has to be slow for.
#[derive(Debug, Clone, PartialEq)]
enum Reason {
    /// A hop takes so many nanoseconds of the network's time, and a process that many of real time to wake up.
    Waking { hop: f64, wake: f64 },
    /// Packets on links for each nanosecond of the network's time, and what one costs this machine in nanoseconds.
    Packets {
        algorithm: String,
        rate: f64,
        cost: f64,
    },
}

impl Choice {
    /// What the transfers take of real time, if the clock is `scale` times slower.
    fn real(&self, scale: NonZeroU32) -> Duration {
        let seconds = self.takes * f64::from(scale.get()) / 1e9;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Whether they are too long on such a clock to begin with them unasked.
    pub fn is_too_long(&self, scale: NonZeroU32) -> bool {
        self.real(scale) > LONGEST
    }

    /// What the clock costs, and why it is as it is, in a line.
    pub fn line(&self) -> String {
        let takes = span(self.real(self.scale));
        match self.scale.get() {
            1 => format!("--scale auto: 1, real time: links are slow enough for this machine; the transfers take about {takes}"),
            scale => format!(
                "--scale auto: {scale}, a clock {scale} times slower than real time, since {}; \
                 the transfers take about {takes} of real time",
                self.reason
            ),
        }
    }

    /// Refuses what would take too long.
    fn check(self) -> Result<Choice, Failure> {
        if !self.is_too_long(self.scale) {
            return Ok(self);
        }
        let (scale, takes) = (self.scale, span(self.real(self.scale)));
        Err(Failure::bad_input(format_args!(
            "--scale auto: the transfers would take about {takes} of real time, and no more than {} are begun unasked: the clock \
             has to be {scale} times slower than real time, since {}; send less (--size), by fewer algorithms (--algorithms), \
             in virtual time (--driver virtual), or give --scale {scale} to have it all the same",
            span(LONGEST),
            self.reason
        )))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Waking { hop, wake } => write!(
                f,
                "the shortest hop takes {}, and a process here wakes up after {}",
                TIME.show(*hop as u64),
                TIME.show(*wake as u64)
            ),
            Reason::Packets {
                algorithm,
                rate,
                cost,
            } => write!(
                f,
                "{algorithm} has {:.3} packets on links in a microsecond, each of which costs this machine {}",
                1e3 * rate,
                TIME.show(*cost as u64)
            ),
        }
    }
}

/// A time for people, in whole seconds, or minutes where there are many.
fn span(time: Duration) -> String {
    match time.as_secs() {
        0 => "1 s".to_owned(),
        seconds @ 1..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3_600)),
    }
}

/// How slow a clock this machine needs for what is to be measured.
///
/// The virtual driver says how many packets there are on how many links in which of the network's time, and what one costs this
/// machine; two threads that wake each other up say what that costs.
///
/// # Errors
/// What is to be measured fails in virtual time, too, or would take too long in real time.
pub fn choose(
    config: &Config,
    program: &CompiledProgram,
    job: &Job,
    equipment: Equipment,
) -> Result<Choice, Failure> {
    let (wake, hop) = (equipment.wake, hop(&config.topology, config.model));
    let mut needed = WAKES * wake / (LATE * hop);
    let mut reason = Reason::Waking { hop, wake };
    let mut takes = 0.0;
    let (sample, small) = (sample(job, SAMPLE), sample(job, SMALL));
    let bytes = |job: &Job| job.data.bytes().len() as f64;
    let processors = equipment.processors as f64;
    for &algorithm in &config.algorithms {
        let network = Network::build(
            &config.topology,
            controller_config(config, program),
            config.model,
            FaultProbabilities::lossy(config.loss.everywhere),
            config.job.seed,
        );
        let network = network.map_err(Failure::bad_input)?;
        let limit = Limit::start(network.watch());
        let fabric = VirtualFabric::bring_up(network);
        let mut fabric = fabric.map_err(Failure::failed)?;
        let mut measure = |job: &Job| {
            let (before, started) = (Share::of_this_thread(), fabric.now());
            let row = run_one(&mut fabric, config, job, algorithm, &Bars::hidden())?;
            let ran = Share::of_this_thread().since(before).ran;
            // Where not all receivers got everything, the run took until it was given up.
            let took = match row.verified && row.completion_ns > 0 {
                true => row.completion_ns,
                false => fabric.now() - started,
            };
            Ok::<Sampled, Failure>(Sampled {
                packets: row.wire_packets as f64,
                ran: ran as f64,
                took: took.max(1) as f64,
            })
        };
        let sampled = measure(&sample);
        // What a run costs without many packets.
        let fixed = match (&sampled, bytes(&small) < bytes(&sample)) {
            (Ok(_), true) => measure(&small).ok(),
            _ => None,
        };
        if limit.is_over() {
            return Err(Failure::bad_input(format_args!(
                "--scale auto: {} by {algorithm} in virtual time, by which the clock is chosen, has not ended after {}; \
                 give --scale N",
                SIZE.show(sample.data.bytes().len() as u64),
                span(SAMPLE_LIMIT)
            )));
        }
        let sampled = sampled?;
        let cost = packet_cost(&sampled, fixed.as_ref(), wake);
        let rate = sampled.packets / sampled.took;
        tracing::info!("{algorithm}: {rate:.3} packets/ns on links, {cost:.0} ns each, {wake:.0} ns to wake up");
        let by_packets = rate * cost / (processors * SHARE);
        if by_packets > needed {
            needed = by_packets;
            let algorithm = algorithm.to_string();
            reason = Reason::Packets {
                algorithm,
                rate,
                cost,
            };
        }
        let more = bytes(job) - bytes(&sample);
        takes += sampled.took + more * sampled.took / bytes(&sample).max(1.0);
    }
    let scale = rounded(needed);
    let choice = Choice {
        scale,
        reason,
        takes,
    };
    choice.check()
}

/// Ends a fabric in virtual time that takes too long, until it is dropped.
struct Limit {
    watch: Watch,
    /// Ends the thread when it is dropped.
    _end: mpsc::Sender<()>,
}

impl Limit {
    fn start(watch: Watch) -> Limit {
        let (end, ended) = mpsc::channel();
        let watched = watch.clone();
        thread::spawn(move || {
            if ended.recv_timeout(SAMPLE_LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                watched.stop();
            }
        });
        Limit { watch, _end: end }
    }

    fn is_over(&self) -> bool {
        self.watch.is_stopped()
    }
}

/// What a run in virtual time was.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sampled {
    /// Packets on all links.
    packets: f64,
    /// Nanoseconds of a processor.
    ran: f64,
    /// Nanoseconds of the network's time.
    took: f64,
}

/// What a packet on a link costs this machine in nanoseconds, after a run in virtual time. `fixed` is one with far fewer packets, which
/// tells what is not about packets.
fn packet_cost(sampled: &Sampled, fixed: Option<&Sampled>, wake: f64) -> f64 {
    let few = fixed.filter(|few| few.packets < sampled.packets && few.ran < sampled.ran);
    let (packets, ran) = match few {
        Some(few) => (sampled.packets - few.packets, sampled.ran - few.ran),
        None => (sampled.packets, sampled.ran),
    };
    let waking = WAKES * wake;
    (ALONE * ran / packets.max(1.0)).min(MOST_ALONE * waking) + waking
}

/// The job with a message of at most so many bytes, and without faults.
fn sample(job: &Job, most: usize) -> Job {
    let bytes = job.data.bytes();
    let data = match job.messages {
        // So many need their bytes.
        Some(_) => Arc::clone(&job.data),
        None => Arc::new(ExpectedData::new(bytes[..bytes.len().min(most)].into())),
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
    fn what_a_run_costs_without_packets_is_not_a_packets_cost() {
        let run = |packets, ran| Sampled {
            packets,
            ran,
            took: 1e6,
        };
        let (many, few) = (run(1_000.0, 3e6), run(100.0, 2.1e6));
        assert_eq!(packet_cost(&many, Some(&few), 2_000.0), 18_000.0);
        assert_eq!(packet_cost(&many, None, 2_000.0), 30_000.0);
        // One that was disturbed tells nothing.
        let disturbed = run(100.0, 4e6);
        assert_eq!(packet_cost(&many, Some(&disturbed), 2_000.0), 30_000.0);
    }

    #[test]
    fn what_passes_while_links_are_slow_is_not_a_packets_cost() {
        let slow = Sampled {
            packets: 355.0,
            ran: 146e6,
            took: 300e6,
        };
        let cost = packet_cost(&slow, None, 15_000.0);
        assert_eq!(cost, 360_000.0);
        // Real time is slow enough for two processors.
        assert_eq!(
            rounded(slow.packets / slow.took * cost / (2.0 * SHARE)).get(),
            1
        );
    }

    #[test]
    fn what_takes_longer_than_ten_minutes_is_refused_with_the_reason() {
        let choice = |scale, takes| Choice {
            scale: NonZeroU32::new(scale).unwrap(),
            reason: Reason::Waking {
                hop: 1_239.0,
                wake: 20_000.0,
            },
            takes,
        };
        let good = choice(5_000, 100e6).check().unwrap();
        let line = good.line();
        assert!(line.contains("5000 times slower"), "{line}");
        assert!(line.contains("about 9 min"), "{line}");
        assert!(line.contains("hop takes 1239ns"), "{line}");
        assert!(good.is_too_long(NonZeroU32::new(7_000).unwrap()));
        let Err(Failure::BadInput(why)) = choice(220_000_000, 100e6).check() else {
            panic!("it would take most of a year");
        };
        let why = why.to_string();
        for part in ["about 6112 h", "more than 10 min", "--scale 220000000"] {
            assert!(why.contains(part), "{part}: {why}");
        }
        let line = choice(1, 100e6).line();
        assert!(line.contains("1, real time"), "{line}");
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
