//! What processors had to do while something ran, and whether processes had to wait for them.

use std::fs;
use std::ops::AddAssign;

use alfirk_packet_io::monotonic;
use serde::{Deserialize, Serialize};

/// What a set of processes got of the processors, as the scheduler counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Nanoseconds on a processor, all processes together.
    pub ran: u64,
    /// Nanoseconds in which they could have run and no processor was free.
    pub waited: u64,
    /// How often they were given one.
    pub turns: u64,
}

impl AddAssign for Share {
    fn add_assign(&mut self, other: Share) {
        self.ran += other.ran;
        self.waited += other.waited;
        self.turns += other.turns;
    }
}

impl Share {
    /// From `/proc/PID/task/TID/schedstat`: time on a processor, time waited for one, turns.
    fn read(text: &str) -> Option<Share> {
        let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
        Some(Share {
            ran: numbers.next()??,
            waited: numbers.next()??,
            turns: numbers.next()??,
        })
    }

    /// Of all threads of processes; those that have ended count no more.
    fn of(processes: &[u32]) -> Share {
        let mut all = Share::default();
        for process in processes {
            let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
                continue;
            };
            for thread in threads.flatten() {
                let text = fs::read_to_string(thread.path().join("schedstat"));
                all += text.ok().and_then(|t| Share::read(&t)).unwrap_or_default();
            }
        }
        all
    }

    /// Of the thread that asks.
    pub fn of_this_thread() -> Share {
        let text = fs::read_to_string("/proc/thread-self/schedstat");
        text.ok()
            .and_then(|text| Share::read(&text))
            .unwrap_or_default()
    }

    pub fn since(self, before: Share) -> Share {
        Share {
            ran: self.ran.saturating_sub(before.ran),
            waited: self.waited.saturating_sub(before.waited),
            turns: self.turns.saturating_sub(before.turns),
        }
    }
}

/// Processors of the machine: ticks in which they worked, and all ticks, from the first line of `/proc/stat`.
fn machine(text: &str) -> Option<(u64, u64)> {
    let numbers = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = numbers
        .split_whitespace()
        // Guests are in the first two already.
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

/// What has been counted since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    share: Share,
    /// Ticks in which processors worked, and all ticks.
    machine: (u64, u64),
    /// Nanoseconds of the machine's clock.
    at: u64,
}

/// What a measurement found.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// What the network's processes got.
    pub share: Share,
    /// The part of all processors' time in which they worked, for whomever, from 0 to 1.
    pub busy: f64,
    /// Nanoseconds of real time that it took.
    pub took: u64,
}

impl Counters {
    pub fn read(processes: &[u32]) -> Counters {
        Counters {
            share: Share::of(processes),
            machine: read_machine(),
            at: monotonic(),
        }
    }

    /// What there was between an earlier reading and this one.
    pub fn since(self, before: Counters) -> Load {
        let busy = self.machine.0.saturating_sub(before.machine.0);
        let all = self.machine.1.saturating_sub(before.machine.1);
        Load {
            share: self.share.since(before.share),
            busy: busy as f64 / all.max(1) as f64,
            took: self.at.saturating_sub(before.at),
        }
    }
}

impl Load {
    /// How long a process waited for a processor at each of its turns, on average, in nanoseconds.
    pub fn wait(&self) -> f64 {
        self.share.waited as f64 / self.share.turns.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedulers_figures_are_read() {
        let share = Share::read("172567 3297399 2\n").unwrap();
        assert_eq!(
            (share.ran, share.waited, share.turns),
            (172_567, 3_297_399, 2)
        );
        assert_eq!(Share::read("1 2"), None);
        assert_eq!(Share::read("a b c"), None);
    }

    #[test]
    fn idle_time_is_not_work() {
        let text = "cpu  10 1 4 80 5 0 1 2 3 0\ncpu0 1 1 1 1\n";
        assert_eq!(machine(text), Some((18, 103)));
        assert_eq!(machine("intr 1"), None);
    }

    #[test]
    fn what_a_process_does_is_seen() {
        let us = [std::process::id()];
        let before = Counters::read(&us);
        let mut sum = 0u64;
        while monotonic() < before.at + 5_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        // Threads of other tests may add to it.
        let load = Counters::read(&us).since(before);
        assert!(load.share.ran >= 1_000_000 && load.took >= 5_000_000);
    }
}
