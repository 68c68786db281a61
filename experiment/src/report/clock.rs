//! The slow clock that processes on one machine need.

use alfirk_units::plural;
use serde::Serialize;

use super::text::{duration, grouped};

/// The slow clock of a network of processes, and whether its machine could keep up. All other times of the report are on that
/// clock, so that they compare with those in virtual time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClockSummary {
    /// Nanoseconds of real time for one of the network's.
    pub scale: u32,
    /// Whether the machine was looked at to choose it.
    pub is_chosen_here: bool,
    /// Processors of the machine.
    pub processors: usize,
    /// What each algorithm had of them, in the order of the results.
    pub load: Vec<LoadSummary>,
}

/// What a network of processes had of its machine while an algorithm ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadSummary {
    pub algorithm: String,
    /// The part of all processors' time that the network's processes had, from 0 to 1.
    pub network_busy: f64,
    /// The part in which processors worked for whomever.
    pub machine_busy: f64,
    /// How long a process waited for a processor at each of its turns, on average, in nanoseconds of the network's clock.
    pub wait_ns: f64,
    /// The part of the shortest time that a full packet takes from a switch to the next, above which waiting counts.
    pub wait_limit_ns: f64,
    /// Whether the processors may have been what was measured.
    pub is_limited: bool,
}

impl ClockSummary {
    /// The algorithms that the processors may have slowed down.
    pub fn limited(&self) -> impl Iterator<Item = &str> {
        let limited = self.load.iter().filter(|load| load.is_limited);
        limited.map(|load| load.algorithm.as_str())
    }

    /// How slow the clock was, and whether that was slow enough, for people.
    pub fn lines(&self) -> String {
        let most = |part: fn(&LoadSummary) -> f64| self.load.iter().map(part).fold(0.0, f64::max);
        let chosen = match self.is_chosen_here {
            true => ", chosen for this machine",
            false => "",
        };
        let mut text = format!(
            "clock: {} times slower than real time{chosen}; times above are on it; the network had up to {:.0} % of {}, \
             and a process waited up to {} for its turn in the mean\n",
            grouped(self.scale.into()),
            100.0 * most(|load| load.network_busy),
            plural(self.processors, "processor", "processors"),
            duration(most(|load| load.wait_ns).round() as u64),
        );
        let limited: Vec<&str> = self.limited().collect();
        if !limited.is_empty() {
            text += &format!(
                "warning: processors were short for {}, whose times may be too long: give a larger --scale than {}, \
                 or leave the machine alone\n",
                limited.join(", "),
                self.scale
            );
        }
        text
    }
}
