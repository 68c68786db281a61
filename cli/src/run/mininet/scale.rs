//! Chooses the scale of a network's clock: how many times slower than real time a network of processes must run.

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
use alfirk_sim::network::{Model, Network, RunHandle};
use alfirk_sim::VirtualFabric;
use alfirk_units::{SIZE, TIME};

use super::load::{Load, SchedStat};
use crate::exit::Failure;
use crate::program::CompiledProgram;
use crate::run::config::Config;
use crate::run::controller_config;
use crate::run::progress::Bars;
use crate::run::{processors, run_with_bar};

/// Share of all processors' time that the expected load of the network may use. The rest is for other programs and for
/// bursts of packets.
const PROCESSOR_BUDGET: f64 = 0.4;
/// Processor time of system calls, timers and wake-ups for one packet on one link, as a multiple of the wake-up
/// latency.
const WAKEUPS_PER_PACKET: f64 = 6.0;
/// Processor time of a packet in a network of processes, as a multiple of that in the simulator: caches are cold, and
/// packets are copied.
const PROCESS_COST_FACTOR: f64 = 6.0;
/// Upper limit of the processor time of a packet without wake-ups, as a multiple of that of wake-ups. A larger measured
/// time is not caused by packets: on slow links, a run in virtual time processes mostly timers.
const MAX_PROCESS_COST_FACTOR: f64 = 3.0;
/// Maximum wake-up latency of a process, as a share of the time of a hop. A hop is the way of a full packet over a link
/// and into the queue of the next switch.
const MAX_LATENESS: f64 = 0.02;
/// Maximum mean wait of a process for a processor, as a share of the time of a hop. A run with longer waits is reported
/// as limited by processors.
const MAX_WAIT: f64 = 0.05;
/// Share of the time of all processors above which a run is reported as limited by processors.
const MAX_BUSY: f64 = 0.8;
/// Size in bytes of the message of the run in virtual time that measures packet rate and cost.
const SAMPLE_LEN: usize = 256 << 10;
/// Size in bytes of the small message of the run in virtual time that measures the fixed cost of a run.
const SMALL_SAMPLE_LEN: usize = 4 << 10;
/// Limit of real time for the runs in virtual time that measure one algorithm.
const SAMPLE_LIMIT: Duration = Duration::from_secs(30);
/// Limit of real time for all transfers on a clock that `--scale auto` chooses.
const MAX_DURATION: Duration = Duration::from_secs(600);
/// Number of round trips between two threads that measure the wake-up latency.
const WAKE_SAMPLES: usize = 201;

/// Processors and wake-up latency of the machines of a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineCapacity {
    /// Number of processors of all machines together.
    pub processors: usize,
    /// Wake-up latency of the slowest machine: nanoseconds until a sleeping thread reacts to a message.
    pub wake: f64,
}

impl MachineCapacity {
    /// Measures the capacity of this machine.
    pub fn of_this_machine() -> MachineCapacity {
        MachineCapacity {
            processors: processors(),
            wake: measure_wake_latency(),
        }
    }
}

/// The clock that `--scale auto` chose, and the expected duration of the runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleChoice {
    pub scale: NonZeroU32,
    /// Why the scale is not smaller.
    reason: Reason,
    /// Expected duration of all transfers in nanoseconds of the network's clock, from runs in virtual time.
    duration_ns: f64,
}

/// What makes a slower clock necessary.
#[derive(Debug, Clone, PartialEq)]
enum Reason {
    /// Processes wake up too late: a hop takes `hop` nanoseconds of the network's clock, and a wake-up `wake`
    /// nanoseconds of real time.
    Waking { hop: f64, wake: f64 },
    /// Processors are too slow: an algorithm has `rate` packets on links per nanosecond of the network's clock, and
    /// each takes `cost` nanoseconds of processor time.
    Packets {
        algorithm: String,
        rate: f64,
        cost: f64,
    },
}

impl ScaleChoice {
    /// Duration of the transfers in real time on a clock that is `scale` times slower.
    fn real_duration(&self, scale: NonZeroU32) -> Duration {
        let seconds = self.duration_ns * f64::from(scale.get()) / 1e9;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Whether the transfers would exceed [`MAX_DURATION`] on a clock that is `scale` times slower.
    pub fn is_too_long(&self, scale: NonZeroU32) -> bool {
        self.real_duration(scale) > MAX_DURATION
    }

    /// Formats the scale, its reason and the expected duration in one line.
    pub fn description(&self) -> String {
        let takes = span(self.real_duration(self.scale));
        match self.scale.get() {
            1 => format!("--scale auto: 1, real time: links are slow enough for this machine; the transfers take about {takes}"),
            scale => format!(
                "--scale auto: {scale}, a clock {scale} times slower than real time, because {}; \
                 the transfers take about {takes} of real time",
                self.reason
            ),
        }
    }

    /// Returns an error if the transfers would exceed [`MAX_DURATION`] of real time.
    fn check(self) -> Result<ScaleChoice, Failure> {
        if !self.is_too_long(self.scale) {
            return Ok(self);
        }
        let (scale, takes) = (self.scale, span(self.real_duration(self.scale)));
        Err(Failure::bad_input(format_args!(
            "--scale auto: the transfers would take about {takes} of real time, and the limit is {}: the clock \
                 must be {scale} times slower than real time, because {}; send less (--size), use fewer algorithms (--algorithms) or \
                 virtual time (--driver virtual), or give --scale {scale} to run them anyway",
            span(MAX_DURATION),
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

/// Formats a time in whole seconds, minutes or hours.
fn span(time: Duration) -> String {
    match time.as_secs() {
        0 => "1 s".to_owned(),
        seconds @ 1..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3_600)),
    }
}

/// Chooses the scale of the network's clock that the machines need to run the transfers of `job` accurately.
///
/// For each algorithm, runs in virtual time measure the packet rate of the network and the processor time of a packet.
/// `capacity` has the measured wake-up latency.
///
/// # Errors
/// A measurement in virtual time fails or takes too long, or the transfers would take too long in real time.
pub fn choose(
    config: &Config,
    program: &CompiledProgram,
    job: &Job,
    capacity: MachineCapacity,
) -> Result<ScaleChoice, Failure> {
    let (wake, hop) = (capacity.wake, shortest_hop(&config.topology, config.model));
    let mut needed = WAKEUPS_PER_PACKET * wake / (MAX_LATENESS * hop);
    let mut reason = Reason::Waking { hop, wake };
    let mut duration_ns = 0.0;
    let (sample, small) = (sample(job, SAMPLE_LEN), sample(job, SMALL_SAMPLE_LEN));
    let bytes = |job: &Job| job.data.bytes().len() as f64;
    let processors = capacity.processors as f64;
    for &algorithm in &config.algorithms {
        let network = Network::build(
            &config.topology,
            controller_config(config, program),
            config.model,
            FaultProbabilities::lossy(config.loss.everywhere),
            config.job.seed,
        );
        let network = network.map_err(Failure::bad_input)?;
        let limit = RunTimeLimit::start(network.run_handle());
        let fabric = VirtualFabric::bring_up(network);
        let mut fabric = fabric.map_err(Failure::failed)?;
        let mut measure = |job: &Job| {
            let (before, started) = (SchedStat::of_this_thread(), fabric.now());
            let row = run_with_bar(&mut fabric, config, job, algorithm, &Bars::hidden())?;
            let ran = SchedStat::of_this_thread().since(before).ran;
            // If not all receivers got the data, the run took until its time limit.
            let took = match row.verified && row.completion_ns > 0 {
                true => row.completion_ns,
                false => fabric.now() - started,
            };
            Ok::<VirtualMeasurement, Failure>(VirtualMeasurement {
                packets: row.wire_packets as f64,
                ran: ran as f64,
                took: took.max(1) as f64,
            })
        };
        let sampled = measure(&sample);
        // Cost of a run with few packets.
        let fixed = match (&sampled, bytes(&small) < bytes(&sample)) {
            (Ok(_), true) => measure(&small).ok(),
            _ => None,
        };
        if limit.is_over() {
            return Err(Failure::bad_input(format_args!(
                "--scale auto: {} by {algorithm} in virtual time, which measures the load, has not ended within {}; \
                 give --scale N",
                SIZE.show(sample.data.bytes().len() as u64),
                span(SAMPLE_LIMIT)
            )));
        }
        let sampled = sampled?;
        let cost = packet_cost(&sampled, fixed.as_ref(), wake);
        let rate = sampled.packets / sampled.took;
        tracing::info!("{algorithm}: {rate:.3} packets/ns on links, {cost:.0} ns each, {wake:.0} ns to wake up");
        let by_packets = rate * cost / (processors * PROCESSOR_BUDGET);
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
        duration_ns += sampled.took + more * sampled.took / bytes(&sample).max(1.0);
    }
    let scale = rounded(needed);
    let choice = ScaleChoice {
        scale,
        reason,
        duration_ns,
    };
    choice.check()
}

/// Stops a run in virtual time after [`SAMPLE_LIMIT`] of real time, unless this value is dropped before.
struct RunTimeLimit {
    watch: RunHandle,
    /// Ends the thread when dropped.
    _end: mpsc::Sender<()>,
}

impl RunTimeLimit {
    fn start(watch: RunHandle) -> RunTimeLimit {
        let (end, ended) = mpsc::channel();
        let watched = watch.clone();
        thread::spawn(move || {
            if ended.recv_timeout(SAMPLE_LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                watched.stop();
            }
        });
        RunTimeLimit { watch, _end: end }
    }

    fn is_over(&self) -> bool {
        self.watch.is_stopped()
    }
}

/// Measurements of a run in virtual time, from which the load of machines is estimated.
#[derive(Debug, Clone, Copy, PartialEq)]
struct VirtualMeasurement {
    /// Number of packets, counted on every link.
    packets: f64,
    /// Processor time of the run in nanoseconds.
    ran: f64,
    /// Duration of the run in virtual nanoseconds.
    took: f64,
}

/// Estimated processor time of a packet on a link in nanoseconds, from a run in virtual time (`sampled`). `fixed`: a
/// run with far fewer packets, whose processor time is subtracted as fixed cost.
fn packet_cost(sampled: &VirtualMeasurement, fixed: Option<&VirtualMeasurement>, wake: f64) -> f64 {
    let few = fixed.filter(|few| few.packets < sampled.packets && few.ran < sampled.ran);
    let (packets, ran) = match few {
        Some(few) => (sampled.packets - few.packets, sampled.ran - few.ran),
        None => (sampled.packets, sampled.ran),
    };
    let waking = WAKEUPS_PER_PACKET * wake;
    (PROCESS_COST_FACTOR * ran / packets.max(1.0)).min(MAX_PROCESS_COST_FACTOR * waking) + waking
}

/// Returns a copy of the job with a message of at most `most` bytes, and without faults.
fn sample(job: &Job, most: usize) -> Job {
    let bytes = job.data.bytes();
    let data = match job.messages {
        // A division into messages needs the whole data.
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

/// Time of the shortest hop in nanoseconds: from the start of a full packet on a link until it is in the queue of the
/// next switch.
pub fn shortest_hop(topology: &Topology, model: Model) -> f64 {
    let times = topology.links().iter().map(|link| {
        let does = &link.attributes;
        let bits = wire_bytes(does.mtu as usize + ethernet::HEADER_LEN) as f64 * 8.0;
        bits * 1e9 / does.rate_bps as f64 + does.delay_ns as f64
    });
    times.fold(f64::INFINITY, f64::min) + model.pipeline_latency as f64
}

/// Measures the wake-up latency: median of the nanoseconds until a sleeping thread reacts to a message.
pub fn measure_wake_latency() -> f64 {
    // Without sockets the run fails anyway, so any figure does.
    let Ok((mut here, mut there)) = UnixStream::pair() else {
        return 0.0;
    };
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
    });
    let mut times = Vec::with_capacity(WAKE_SAMPLES);
    let mut byte = [0];
    for _ in 0..WAKE_SAMPLES {
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
    // The thread ends with its socket.
    let _ = echo.join();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

/// Summarizes the processor use of an algorithm for the report. `processors`: their number; `scale`: how many times
/// slower than real time the clock was; `hop`: time of a hop in nanoseconds of that clock.
pub fn load_summary(
    algorithm: &str,
    load: Load,
    processors: usize,
    scale: NonZeroU32,
    hop: f64,
) -> LoadSummary {
    let (wait, limit) = (load.mean_wait() / f64::from(scale.get()), MAX_WAIT * hop);
    let network_busy = load.share.ran as f64 / (load.took.max(1) as f64 * processors as f64);
    LoadSummary {
        algorithm: algorithm.to_owned(),
        network_busy,
        machine_busy: load.busy,
        wait_ns: wait,
        wait_limit_ns: limit,
        is_limited: wait > limit || network_busy > MAX_BUSY,
    }
}

/// Estimates the scale at which no algorithm is limited by processors, from the load of a run; `None` if none was
/// limited.
pub fn sufficient_scale(clock: &ClockSummary) -> Option<NonZeroU32> {
    let limited = clock.load.iter().filter(|load| load.is_limited);
    let lacked = limited.map(|load| {
        let wait = load.wait_ns / load.wait_limit_ns;
        wait.max(load.network_busy / PROCESSOR_BUDGET)
            .clamp(1.5, 4.0)
    });
    let most = lacked.reduce(f64::max)?;
    Some(rounded(f64::from(clock.scale) * most))
}

/// Rounds a scale up to two significant digits.
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
    fn chosen_scales_are_rounded_up() {
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
    fn the_fixed_cost_of_a_run_is_excluded_from_the_cost_per_packet() {
        let run = |packets, ran| VirtualMeasurement {
            packets,
            ran,
            took: 1e6,
        };
        let (many, few) = (run(1_000.0, 3e6), run(100.0, 2.1e6));
        assert_eq!(packet_cost(&many, Some(&few), 2_000.0), 18_000.0);
        assert_eq!(packet_cost(&many, None, 2_000.0), 30_000.0);
        // A disturbed measurement is not used.
        let disturbed = run(100.0, 4e6);
        assert_eq!(packet_cost(&many, Some(&disturbed), 2_000.0), 30_000.0);
    }

    #[test]
    fn timers_on_slow_links_are_not_a_packets_cost() {
        let slow = VirtualMeasurement {
            packets: 355.0,
            ran: 146e6,
            took: 300e6,
        };
        let cost = packet_cost(&slow, None, 15_000.0);
        assert_eq!(cost, 360_000.0);
        // Real time is slow enough for two processors.
        assert_eq!(
            rounded(slow.packets / slow.took * cost / (2.0 * PROCESSOR_BUDGET)).get(),
            1
        );
    }

    #[test]
    fn more_than_ten_minutes_are_rejected_with_the_reason() {
        let choice = |scale, takes| ScaleChoice {
            scale: NonZeroU32::new(scale).unwrap(),
            reason: Reason::Waking {
                hop: 1_239.0,
                wake: 20_000.0,
            },
            duration_ns: takes,
        };
        let good = choice(5_000, 100e6).check().unwrap();
        let line = good.description();
        assert!(line.contains("5000 times slower"), "{line}");
        assert!(line.contains("about 9 min"), "{line}");
        assert!(line.contains("hop takes 1239ns"), "{line}");
        assert!(good.is_too_long(NonZeroU32::new(7_000).unwrap()));
        let Err(Failure::BadInput(why)) = choice(220_000_000, 100e6).check() else {
            panic!("it would take most of a year");
        };
        let why = why.to_string();
        for part in ["about 6112 h", "the limit is 10 min", "--scale 220000000"] {
            assert!(why.contains(part), "{part}: {why}");
        }
        let line = choice(1, 100e6).description();
        assert!(line.contains("1, real time"), "{line}");
    }

    #[test]
    fn a_hop_takes_the_time_of_a_link_and_a_switch() {
        let topology = topology::fat_tree(4).unwrap();
        // 4,214 bytes and 24 of preamble, FCS and gap at 100 Gbit/s, 500 ns of fibre, 400 ns of switch.
        let hop = shortest_hop(&topology, Model::default());
        assert!((hop - (339.04 + 500.0 + 400.0)).abs() < 0.01, "{hop}");
    }

    #[test]
    fn waits_are_measured_on_the_networks_clock() {
        let load = |waited| Load {
            share: SchedStat {
                ran: 500_000,
                waited,
                turns: 10,
            },
            busy: 1.0,
            took: 1_000_000,
        };
        let of = |waited, scale| {
            load_summary(
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
