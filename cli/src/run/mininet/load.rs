//! Measures processor use: how busy processors were, and how long processes waited for one.

use std::collections::BTreeMap;
use std::fs;
use std::ops::AddAssign;

use alfirk_packet_io::monotonic;
use serde::{Deserialize, Serialize};

/// Scheduler statistics of a set of processes: processor time, waiting time and number of time slices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedStat {
    /// Nanoseconds of processor time, summed over the processes.
    pub ran: u64,
    /// Nanoseconds that processes were runnable but waited for a processor, summed over the processes.
    pub waited: u64,
    /// Number of time slices: how often a process started to run on a processor.
    pub turns: u64,
}

impl AddAssign for SchedStat {
    fn add_assign(&mut self, other: SchedStat) {
        self.ran += other.ran;
        self.waited += other.waited;
        self.turns += other.turns;
    }
}

impl SchedStat {
    /// Parses `/proc/PID/task/TID/schedstat`: processor time, waiting time and number of time slices.
    fn read(text: &str) -> Option<SchedStat> {
        let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
        Some(SchedStat {
            ran: numbers.next()??,
            waited: numbers.next()??,
            turns: numbers.next()??,
        })
    }

    /// Reads the statistics of each thread of `processes`, by thread id.
    fn of(processes: &[u32]) -> BTreeMap<u32, SchedStat> {
        let mut all = BTreeMap::new();
        for process in processes {
            let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
                continue;
            };
            for thread in threads.flatten() {
                let id = thread.file_name().to_str().and_then(|id| id.parse().ok());
                let text = fs::read_to_string(thread.path().join("schedstat")).ok();
                let stat = text.and_then(|text| SchedStat::read(&text));
                all.extend(id.zip(stat));
            }
        }
        all
    }

    /// Statistics of the calling thread.
    pub fn of_this_thread() -> SchedStat {
        let text = fs::read_to_string("/proc/thread-self/schedstat");
        text.ok()
            .and_then(|text| SchedStat::read(&text))
            .unwrap_or_default()
    }

    /// Subtracts an earlier reading: the statistics of the time between.
    pub fn since(self, before: SchedStat) -> SchedStat {
        SchedStat {
            ran: self.ran.saturating_sub(before.ran),
            waited: self.waited.saturating_sub(before.waited),
            turns: self.turns.saturating_sub(before.turns),
        }
    }
}

/// Parses the first line of `/proc/stat`: busy ticks and all ticks of all processors.
fn machine(text: &str) -> Option<(u64, u64)> {
    let numbers = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = numbers
        .split_whitespace()
        // Guest time is already included in the first two.
        .take(8)
        .map_while(|number| number.parse().ok())
        .collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    let all = ticks.iter().sum::<u64>();
    Some((all - idle, all))
}

fn read_machine() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    machine(&text).unwrap_or_default()
}

/// A reading of the processor counters of a machine, which count from its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Thread id of each thread of the network's processes, ascending, with its scheduler statistics since its start.
    /// A list, because serde cannot read the keys of a map as numbers within a message that has a tag.
    threads: Vec<(u32, SchedStat)>,
    /// Busy ticks and all ticks of all processors.
    machine: (u64, u64),
    /// Time of the reading in nanoseconds of the machine's monotonic clock.
    at: u64,
}

/// Processor use during a measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Scheduler statistics of the network's processes during the measurement.
    pub share: SchedStat,
    /// Share of the time of all processors that was used by any process, from 0 to 1.
    pub busy: f64,
    /// Duration of the measurement in nanoseconds of real time.
    pub took: u64,
}

impl Counters {
    /// Reads the statistics of `processes`, and the busy time of the whole machine.
    pub fn read(processes: &[u32]) -> Counters {
        Counters {
            threads: SchedStat::of(processes).into_iter().collect(),
            machine: read_machine(),
            at: monotonic(),
        }
    }

    /// Processor use between an earlier reading and this one. That of threads which have ended since is not known.
    pub fn since(&self, before: &Counters) -> Load {
        let earlier: BTreeMap<u32, SchedStat> = before.threads.iter().copied().collect();
        let mut share = SchedStat::default();
        for (id, now) in &self.threads {
            share += now.since(earlier.get(id).copied().unwrap_or_default());
        }
        let busy = self.machine.0.saturating_sub(before.machine.0);
        let all = self.machine.1.saturating_sub(before.machine.1);
        Load {
            share,
            busy: busy as f64 / all.max(1) as f64,
            took: self.at.saturating_sub(before.at),
        }
    }
}

impl Load {
    /// Mean time that a runnable process waited for a processor, in nanoseconds.
    pub fn mean_wait(&self) -> f64 {
        self.share.waited as f64 / self.share.turns.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_is_parsed() {
        let share = SchedStat::read("172567 3297399 2\n").unwrap();
        assert_eq!(
            (share.ran, share.waited, share.turns),
            (172_567, 3_297_399, 2)
        );
        assert_eq!(SchedStat::read("1 2"), None);
        assert_eq!(SchedStat::read("a b c"), None);
    }

    #[test]
    fn idle_time_is_not_busy() {
        let text = "cpu  10 1 4 80 5 0 1 2 3 0\ncpu0 1 1 1 1\n";
        assert_eq!(machine(text), Some((18, 103)));
        assert_eq!(machine("intr 1"), None);
    }

    #[test]
    fn a_thread_that_has_ended_hides_no_work_of_others() {
        let stat = |ran| SchedStat {
            ran,
            waited: 0,
            turns: 1,
        };
        let reading = |threads: &[(u32, SchedStat)]| Counters {
            threads: threads.to_vec(),
            machine: (0, 0),
            at: 0,
        };
        let before = reading(&[(1, stat(10)), (2, stat(1_000))]);
        let after = reading(&[(1, stat(15)), (3, stat(7))]);
        assert_eq!(after.since(&before).share.ran, 5 + 7);
    }

    #[test]
    fn work_of_a_process_is_counted() {
        let us = [std::process::id()];
        let before = Counters::read(&us);
        let mut sum = 0u64;
        while monotonic() < before.at + 5_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        // Threads of other tests may add to it.
        let load = Counters::read(&us).since(&before);
        assert!(load.share.ran >= 1_000_000 && load.took >= 5_000_000);
    }
}
