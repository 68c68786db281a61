//! `alfirk compare-drivers`: runs the same transfer in virtual time and on Mininet, and compares the times.

use alfirk_experiment::{aligned, duration, ClockSummary, Report, Row, TopologySummary};
use serde::Serialize;

use crate::exit::{print, Failure, Outcome};
use crate::program;
use crate::run;
use crate::run::progress::Bars;
use crate::run::stop::Stop;

/// Run one experiment in virtual time and on Mininet, and check that both take the same time.
///
/// Takes the flags of `alfirk run`, without --driver. --scale is auto unless a number is given. Exit code 1 if a time on
/// Mininet differs by more than --tolerance, or if alfirk is the fastest in virtual time but not on Mininet. Needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo alfirk compare-drivers
  sudo alfirk compare-drivers --topology topologies/testbed.yaml --size 1MiB --tolerance 5%")]
pub struct CompareArgs {
    /// Largest relative difference between the times of the two drivers, as 0.1 or 10%
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = run::share)]
    tolerance: f64,

    #[command(flatten)]
    run: run::Args,
}

/// Result of the comparison, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Comparison {
    results: Vec<AlgorithmTimes>,
    /// Largest allowed difference between the two times, divided by the time in virtual time.
    tolerance: f64,
    /// False if the algorithm `alfirk` is the fastest in virtual time but not on Mininet; else true.
    alfirk_stays_first: bool,
    /// Whether the times of every algorithm agree within `tolerance`, and `alfirk_stays_first` is true.
    agrees: bool,
    topology: TopologySummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<ClockSummary>,
    seed: u64,
}

/// Times of one algorithm on both drivers.
#[derive(Debug, Serialize)]
struct AlgorithmTimes {
    algorithm: String,
    /// Completion time in virtual time, in nanoseconds.
    virtual_ns: u64,
    /// Completion time on Mininet, in nanoseconds of the network's scaled clock.
    mininet_ns: u64,
    /// Time on Mininet divided by time in virtual time.
    ratio: f64,
    agrees: bool,
}

/// Runs `alfirk compare-drivers`.
pub fn run(args: CompareArgs) -> Outcome {
    let tolerance = args.tolerance;
    let target = args.run.target;
    let mut config = args.run.check_for_both_drivers()?;
    run::mininet::must_be_root()?;
    let program = program::compile_program(target, config.p4src.as_deref())?;
    let bars = Bars::new();
    let stop = Stop::watch(run::Driver::Mininet, bars.runs())?;
    // Captures are taken on Mininet only.
    let pcap = config.pcap.take();
    config.driver = run::Driver::Virtual;
    let virtual_time = stop.with_signal_name(run::measure(&config, &program, &bars))?;
    config.pcap = pcap;
    config.driver = run::Driver::Mininet;
    let mininet = stop.with_signal_name(run::measure(&config, &program, &bars))?;
    drop(stop);
    for (report, driver) in [(&virtual_time, "virtual time"), (&mininet, "Mininet")] {
        if !report.verified() {
            return Err(Failure::failed(format_args!(
                "{driver}: some receivers do not have the bytes that were sent"
            )));
        }
    }
    let comparison = Comparison::new(virtual_time, mininet, tolerance);
    match config.json {
        true => {
            let object = serde_json::to_string(&comparison).expect("it has no strange keys");
            print(format_args!("{object}\n"))?;
        }
        false => print(comparison.table())?,
    }
    match comparison.agrees {
        true => Ok(()),
        false => Err(Failure::failed(
            "the times of the two drivers differ by more than --tolerance; if the report has `limited` or a warning, use a larger --scale",
        )),
    }
}

impl Comparison {
    fn new(virtual_time: Report, mininet: Report, tolerance: f64) -> Comparison {
        let rows = virtual_time.results.iter().zip(&mininet.results);
        let results: Vec<AlgorithmTimes> = rows
            .map(|(one, other)| AlgorithmTimes::new(one, other, tolerance))
            .collect();
        let alfirk_stays_first =
            !is_alfirk_first(&virtual_time.results) || is_alfirk_first(&mininet.results);
        Comparison {
            agrees: alfirk_stays_first && results.iter().all(|pair| pair.agrees),
            results,
            tolerance,
            alfirk_stays_first,
            topology: mininet.topology,
            clock: mininet.clock,
            seed: mininet.seed,
        }
    }

    fn table(&self) -> String {
        let head = ["algorithm", "virtual time", "Mininet", "ratio", ""];
        let mut lines = vec![head.map(str::to_owned)];
        lines.extend(self.results.iter().map(|pair| {
            let verdict = if pair.agrees { "agrees" } else { "differs" };
            [
                pair.algorithm.clone(),
                duration(pair.virtual_ns),
                duration(pair.mininet_ns),
                format!("{:.3}", pair.ratio),
                verdict.to_owned(),
            ]
        }));
        let (topology, percent) = (&self.topology, 100.0 * self.tolerance);
        let mut text = format!(
            "{}: {} hosts, {} switches; agreement within {percent} %\n\n{}\n",
            topology.name,
            topology.hosts,
            topology.switches,
            aligned(&lines)
        );
        if !self.alfirk_stays_first {
            text += "alfirk is the fastest in virtual time, but not on Mininet\n";
        }
        if let Some(clock) = &self.clock {
            text += &clock.lines();
        }
        text
    }
}

impl AlgorithmTimes {
    fn new(virtual_time: &Row, mininet: &Row, tolerance: f64) -> AlgorithmTimes {
        let ratio = mininet.completion_ns as f64 / virtual_time.completion_ns.max(1) as f64;
        AlgorithmTimes {
            algorithm: mininet.algorithm.clone(),
            virtual_ns: virtual_time.completion_ns,
            mininet_ns: mininet.completion_ns,
            ratio,
            agrees: (ratio - 1.0).abs() <= tolerance,
        }
    }
}

/// Whether the algorithm `alfirk` has a shorter completion time than all other algorithms; false if it was not run.
fn is_alfirk_first(rows: &[Row]) -> bool {
    let (alfirk, others): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.algorithm == "alfirk");
    let Some(alfirk) = alfirk.first() else {
        return false;
    };
    others
        .iter()
        .all(|row| row.completion_ns > alfirk.completion_ns)
}
