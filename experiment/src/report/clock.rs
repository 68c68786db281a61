//! Report of the slowed clock of a network of processes.

use alfirk_units::plural;
use serde::Serialize;

use super::text::{duration, grouped};

/// The slowed clock of a network of processes, and whether the machine's processors were fast enough for it. All other
/// times of the report are on this clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClockSummary {
    /// Nanoseconds of real time that one nanosecond of the network takes.
    pub scale: u32,
    /// Whether the scale was chosen automatically to suit this machine.
    pub is_chosen_here: bool,
    /// Number of processors of the machine.
    pub processors: usize,
    /// Processor use of each algorithm, in the order of the results.
    pub load: Vec<LoadSummary>,
}

/// Processor use during an algorithm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadSummary {
    /// Name of the algorithm.
    pub algorithm: String,
    /// Share of all processors' time used by the network's processes, from 0 to 1.
    pub network_busy: f64,
    /// Share of all processors' time used by any process, from 0 to 1.
    pub machine_busy: f64,
    /// Average time that a runnable process waits for a processor, in nanoseconds of the network's clock.
    pub wait_ns: f64,
    /// Limit of `wait_ns`, above which results may be wrong: a fixed share of the shortest time of a full packet from
    /// one switch to the next.
    pub wait_limit_ns: f64,
    /// Whether a lack of processor time may have changed the result.
    pub is_limited: bool,
}

impl ClockSummary {
    /// Names of the algorithms whose results a lack of processor time may have changed.
    pub fn limited(&self) -> impl Iterator<Item = &str> {
        let limited = self.load.iter().filter(|load| load.is_limited);
        limited.map(|load| load.algorithm.as_str())
    }

    /// Formats the clock's scale and the processors' load as text lines.
    pub fn lines(&self) -> String {
        let most = |part: fn(&LoadSummary) -> f64| self.load.iter().map(part).fold(0.0, f64::max);
        let chosen = match self.is_chosen_here {
            true => ", chosen for this machine",
            false => "",
        };
        let mut text = format!(
            "clock: {} times slower than real time{chosen}; times above are on it; the network had up to {:.0} % of {}, \
             and a process waited up to {} for a processor in the mean\n",
            grouped(self.scale.into()),
            100.0 * most(|load| load.network_busy),
            plural(self.processors, "processor", "processors"),
            duration(most(|load| load.wait_ns).round() as u64),
        );
        let limited: Vec<&str> = self.limited().collect();
        if !limited.is_empty() {
            text += &format!(
                "warning: processors were overloaded during {}, whose times may be too long: use a larger --scale than {}, \
                 or run nothing else on the machine\n",
                limited.join(", "),
                self.scale
            );
        }
        text
    }
}
