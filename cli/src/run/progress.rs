//! Shows the progress of runs: as bars on a terminal, else as lines on stderr for long runs. A stopped run reports how
//! far it got.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use super::mininet::leftover::Leftover;
use alfirk_roce::collective::{Algorithm, Progress};
use alfirk_sim::network::RunHandle;
use alfirk_units::TIME;
use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Interval at which bars are redrawn if there is no new progress.
const REDRAW: Duration = Duration::from_millis(500);

/// Progress bars of algorithms that run in parallel, on stderr.
pub struct Bars {
    bars: MultiProgress,
    runs: Arc<Runs>,
    /// Whether notes are printed to stderr; otherwise they are only logged.
    is_shown: bool,
}

/// Progress bar of one algorithm. It shows the number of bytes that all its receivers together hold.
pub struct Bar {
    bar: ProgressBar,
    run: Arc<Run>,
    runs: Arc<Runs>,
}

/// State of the command for progress reports and signals: running algorithms, the current phase before or after them,
/// and a received signal.
#[derive(Default)]
pub struct Runs {
    runs: Mutex<Vec<Arc<Run>>>,
    /// Description and start of the current phase while no algorithm runs; `None` between phases.
    phase: Mutex<Option<(String, Instant)>>,
    interruption: OnceLock<Interruption>,
    /// Progress of the run that a signal ended; `None` if no run was ended.
    stopped_at: Mutex<Option<String>>,
    /// Networks of processes that must be removed before this process ends.
    networks: Mutex<Vec<Leftover>>,
}

/// The received signal, if any, and a pair of sockets through which threads wait for one.
struct Interruption {
    /// Name of the received signal; unset if none has arrived.
    name: OnceLock<&'static str>,
    /// End of the pair that becomes readable when a signal arrives; never read.
    read_end: UnixStream,
    /// End of the pair to which a byte is written when a signal arrives.
    write_end: UnixStream,
}

/// A phase of the command before or after its algorithms, such as the construction of a network. Dropping this value
/// ends it.
pub struct Phase {
    bar: ProgressBar,
    runs: Arc<Runs>,
}

/// Progress of one algorithm.
pub struct Run {
    algorithm: Algorithm,
    started: Instant,
    /// Clock of a fabric in virtual time; `None` on Mininet.
    clock: Option<RunHandle>,
    /// Bytes that all receivers together hold.
    bytes: AtomicU64,
    /// Bytes that all receivers together hold at the end.
    total: AtomicU64,
}

impl Bars {
    /// Creates progress bars, which are drawn only if stderr is a terminal.
    pub fn new() -> Bars {
        Bars::on(target(), true)
    }

    /// Creates bars that are never drawn, for a caller that shows progress itself.
    pub fn hidden() -> Bars {
        Bars::on(ProgressDrawTarget::hidden(), false)
    }

    fn on(target: ProgressDrawTarget, is_shown: bool) -> Bars {
        Bars {
            bars: MultiProgress::with_draw_target(target),
            runs: Arc::default(),
            is_shown,
        }
    }

    /// Writes a line about the whole command to stderr, above the bars.
    pub fn note(&self, line: &str) {
        match self.is_shown {
            // The bars are redrawn below the line.
            true => self.bars.suspend(|| eprintln!("alfirk: {line}")),
            false => tracing::info!("{line}"),
        }
    }

    /// Starts a phase of the command with the description `what`; it ends when the returned value is dropped.
    pub fn phase(&self, what: &str) -> Phase {
        let bar = self.bars.add(ProgressBar::new_spinner());
        let style = ProgressStyle::with_template("{msg}, {elapsed}");
        bar.set_style(style.expect("the template is right"));
        bar.set_message(what.to_owned());
        if !self.bars.is_hidden() {
            bar.enable_steady_tick(REDRAW);
        }
        *locked(&self.runs.phase) = Some((what.to_owned(), Instant::now()));
        Phase {
            bar,
            runs: self.runs(),
        }
    }

    /// Returns the shared state of running algorithms and signals.
    pub fn runs(&self) -> Arc<Runs> {
        Arc::clone(&self.runs)
    }

    /// Adds a bar for an algorithm that starts to run. `clock`: clock of its fabric in virtual time; `None` on Mininet.
    pub fn start(&self, algorithm: Algorithm, clock: Option<RunHandle>) -> Bar {
        let bar = self.bars.add(ProgressBar::new(0));
        let style = ProgressStyle::with_template(
            "{prefix:<10} {bar:40} {binary_bytes:>11} of {binary_total_bytes}, {elapsed}{msg}",
        );
        bar.set_style(style.expect("the template is right"));
        bar.set_prefix(algorithm.to_string());
        if !self.bars.is_hidden() {
            bar.enable_steady_tick(REDRAW);
        }
        let run = Arc::new(Run {
            algorithm,
            started: Instant::now(),
            clock,
            bytes: AtomicU64::new(0),
            total: AtomicU64::new(0),
        });
        self.runs.lock_runs().push(Arc::clone(&run));
        Bar {
            bar,
            run,
            runs: self.runs(),
        }
    }
}

/// Selects where bars are drawn: on stderr if that is a terminal, else nowhere.
pub fn target() -> ProgressDrawTarget {
    match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    }
}

impl Bar {
    /// Sets the bar to the progress of the run.
    pub fn show(&self, progress: Progress) {
        self.run.bytes.store(progress.bytes, Ordering::Relaxed);
        self.run.total.store(progress.total, Ordering::Relaxed);
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.bytes);
        if !self.bar.is_hidden() {
            self.bar.set_message(self.run.status_suffix());
        }
    }

    /// Current progress of the run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Removes the bar of an ended run.
    pub fn finish(self) {
        self.bar.finish_and_clear();
        let is_other = |run: &Arc<Run>| !Arc::ptr_eq(run, &self.run);
        self.runs.lock_runs().retain(is_other);
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        *locked(&self.runs.phase) = None;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Runs {
    fn lock_runs(&self) -> MutexGuard<'_, Vec<Arc<Run>>> {
        locked(&self.runs)
    }

    /// Prepares for signals: creates the descriptor that [`Runs::interrupt`] makes readable.
    pub(super) fn enable_interruption(&self) -> io::Result<()> {
        let (read_end, write_end) = UnixStream::pair()?;
        let name = OnceLock::new();
        // A concurrent caller may have set it already.
        let _ = self.interruption.set(Interruption {
            name,
            read_end,
            write_end,
        });
        Ok(())
    }

    /// Records the received signal `name`, and ends all waits on [`Runs::interruption`]. Returns false if a signal was
    /// recorded before.
    pub(super) fn interrupt(&self, name: &'static str) -> bool {
        let Some(interruption) = self.interruption.get() else {
            return false;
        };
        let is_first = interruption.name.set(name).is_ok();
        // One byte always fits; it is never read, so the descriptor stays readable.
        let _ = (&interruption.write_end).write_all(&[1]);
        is_first
    }

    /// Name of the received signal; `None` if none has arrived.
    pub fn interrupted(&self) -> Option<&'static str> {
        self.interruption.get()?.name.get().copied()
    }

    /// Records the progress of a stopped run, which is reported if the command ends while its network is being removed.
    pub fn stopped_at(&self, run: &Run) {
        *locked(&self.stopped_at) = Some(run.to_string());
    }

    /// Descriptor that becomes readable when a signal arrives; `None` if signals are not handled and have their default
    /// effect.
    pub fn interruption(&self) -> Option<BorrowedFd<'_>> {
        Some(self.interruption.get()?.read_end.as_fd())
    }

    /// Registers a network of processes, which must be removed by force if this process ends early.
    pub fn add_network(&self, network: Leftover) {
        locked(&self.networks).push(network);
    }

    /// Unregisters all networks, after they have been removed.
    pub fn clear_networks(&self) {
        locked(&self.networks).clear();
    }

    /// Whether a network of processes is registered.
    pub(super) fn has_networks(&self) -> bool {
        !locked(&self.networks).is_empty()
    }

    /// Removes all registered networks by force.
    pub(super) fn remove_networks(&self) {
        for network in locked(&self.networks).drain(..) {
            network.remove();
        }
    }

    /// Stops all running fabrics in virtual time. Fabrics that start later are not stopped.
    pub fn stop(&self) {
        for run in self.lock_runs().iter() {
            if let Some(clock) = &run.clock {
                clock.stop();
            }
        }
    }

    /// Returns progress as text: a line for each running algorithm; without one, the progress of a stopped run or the
    /// current phase.
    pub fn lines(&self) -> Vec<String> {
        let lines: Vec<String> = self.lock_runs().iter().map(ToString::to_string).collect();
        if !lines.is_empty() {
            return lines;
        }
        if let Some(line) = locked(&self.stopped_at).clone() {
            return vec![line];
        }
        let phase = locked(&self.phase);
        let phase = phase.iter();
        phase
            .map(|(what, since)| format!("{what}, for {}", Seconds(since.elapsed())))
            .collect()
    }
}

impl Run {
    /// Estimated remaining real time, at the average rate so far; `None` before any bytes have arrived.
    fn remaining(&self) -> Option<Duration> {
        let (bytes, total) = self.bytes();
        let share = bytes as f64 / total as f64;
        let left = self.started.elapsed().as_secs_f64() * (1.0 / share - 1.0);
        (bytes > 0).then(|| Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX))
    }

    fn bytes(&self) -> (u64, u64) {
        (
            self.bytes.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        )
    }

    /// Returns the text after a bar: estimated remaining time, and current virtual time.
    fn status_suffix(&self) -> String {
        let left = match self.remaining() {
            Some(left) => format!(", about {} left", Seconds(left)),
            None => String::new(),
        };
        match &self.clock {
            Some(clock) => format!("{left}, virtual time {}", TIME.show(clock.now())),
            None => left,
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, total) = self.bytes();
        let (has, of) = (HumanBytes(bytes), HumanBytes(total));
        write!(
            f,
            "{}: after {}",
            self.algorithm,
            Seconds(self.started.elapsed())
        )?;
        match total {
            0 => write!(f, " the receivers have nothing")?,
            _ => write!(f, " the receivers have {has} of {of}")?,
        }
        f.write_str(&self.status_suffix())
    }
}

/// Formats a duration in whole seconds, or tenths below ten.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0..=9 => write!(f, "{:.1} s", self.0.as_secs_f64()),
            seconds => write!(f, "{seconds} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_reports_bytes_virtual_time_and_an_estimate() {
        let bars = Bars::hidden();
        let clock = RunHandle::default();
        let bar = bars.start(Algorithm::Alfirk, Some(clock.clone()));
        let only = || bars.runs().lines().pop().unwrap();
        assert!(only().starts_with("alfirk: after 0.0 s the receivers have nothing"));
        clock.set(1_500_000);
        bar.show(Progress {
            bytes: 1 << 20,
            total: 1 << 22,
        });
        let line = only();
        assert!(
            line.contains("the receivers have 1.00 MiB of 4.00 MiB, about "),
            "{line}"
        );
        assert!(line.ends_with(" left, virtual time 1500us"), "{line}");
        assert!(!clock.is_stopped());
        bars.runs().stop();
        assert!(clock.is_stopped());
        bar.finish();
        assert!(bars.runs().lines().is_empty());
    }

    #[test]
    fn phases_are_reported_between_algorithms() {
        let bars = Bars::hidden();
        let phase = bars.phase("building the network");
        assert_eq!(bars.runs().lines(), ["building the network, for 0.0 s"]);
        let bar = bars.start(Algorithm::Chain, None);
        assert!(bars.runs().lines()[0].starts_with("chain: after "));
        bar.finish();
        drop(phase);
        assert!(bars.runs().lines().is_empty());
    }

    #[test]
    fn signals_can_be_awaited_and_the_first_one_is_kept() {
        let runs = Runs::default();
        assert!(runs.interruption().is_none());
        runs.enable_interruption().unwrap();
        assert_eq!(runs.interrupted(), None);
        assert!(runs.interrupt("SIGTERM"));
        assert!(!runs.interrupt("SIGINT"));
        assert_eq!(runs.interrupted(), Some("SIGTERM"));
        let fd = runs.interruption().unwrap();
        let mut fds = [nix::poll::PollFd::new(fd, nix::poll::PollFlags::POLLIN)];
        assert_eq!(
            nix::poll::poll(&mut fds, nix::poll::PollTimeout::ZERO),
            Ok(1)
        );
    }
}
