//! How far runs are: progress bars on a terminal, lines on stderr elsewhere when a run takes long, and a report when one is stopped.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use super::mininet::leftover::Leftover;
use alfirk_roce::collective::{Algorithm, Progress};
use alfirk_sim::network::Watch;
use alfirk_units::TIME;
use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a bar is drawn though nothing was reported.
const REDRAW: Duration = Duration::from_millis(500);

/// The bars of algorithms that run side by side, on stderr.
pub struct Bars {
    drawn: MultiProgress,
    runs: Arc<Runs>,
    /// Whether this command reports to people by itself.
    is_shown: bool,
}

/// Shows how many bytes the receivers of one algorithm have together.
pub struct Bar {
    drawn: ProgressBar,
    run: Arc<Run>,
    runs: Arc<Runs>,
}

/// The algorithms that run at this moment, what is done before and behind them, and whether a signal has come.
#[derive(Default)]
pub struct Runs {
    runs: Mutex<Vec<Arc<Run>>>,
    /// What is done while no algorithm runs, and since when.
    phase: Mutex<Option<(String, Instant)>>,
    interruption: OnceLock<Interruption>,
    /// How far the run was that a signal has ended.
    stopped_at: Mutex<Option<String>>,
    /// Networks that stand.
    networks: Mutex<Vec<Leftover>>,
}

/// A signal that has come or may come, as something that can be waited for.
struct Interruption {
    name: OnceLock<&'static str>,
    /// Readable once a signal has come.
    came: UnixStream,
    tell: UnixStream,
}

/// What is done while this lives.
pub struct Phase {
    drawn: ProgressBar,
    runs: Arc<Runs>,
}

/// How far one algorithm is.
pub struct Run {
    algorithm: Algorithm,
    started: Instant,
    /// The clock of a fabric in virtual time.
    clock: Option<Watch>,
    bytes: AtomicU64,
    total: AtomicU64,
}

impl Bars {
    pub fn new() -> Bars {
        Bars::on(target(), true)
    }

    /// Of runs whose progress somebody else shows.
    pub fn hidden() -> Bars {
        Bars::on(ProgressDrawTarget::hidden(), false)
    }

    fn on(target: ProgressDrawTarget, is_shown: bool) -> Bars {
        Bars {
            drawn: MultiProgress::with_draw_target(target),
            runs: Arc::default(),
            is_shown,
        }
    }

    /// Writes a line to stderr that is not about an algorithm.
    pub fn note(&self, line: &str) {
        match self.is_shown {
            // Bars are drawn below it.
            true => self.drawn.suspend(|| eprintln!("alfirk: {line}")),
            false => tracing::info!("{line}"),
        }
    }

    /// Reports that this is done now, until the phase is dropped.
    pub fn phase(&self, what: &str) -> Phase {
        let bar = self.drawn.add(ProgressBar::new_spinner());
        let style = ProgressStyle::with_template("{msg}, {elapsed}");
        bar.set_style(style.expect("the template is right"));
        bar.set_message(what.to_owned());
        if !self.drawn.is_hidden() {
            bar.enable_steady_tick(REDRAW);
        }
        *locked(&self.runs.phase) = Some((what.to_owned(), Instant::now()));
        Phase {
            drawn: bar,
            runs: self.runs(),
        }
    }

    /// The algorithms that have a bar.
    pub fn runs(&self) -> Arc<Runs> {
        Arc::clone(&self.runs)
    }

    /// `clock`: that of the fabric, if it is one in virtual time.
    pub fn start(&self, algorithm: Algorithm, clock: Option<Watch>) -> Bar {
        let bar = self.drawn.add(ProgressBar::new(0));
        let style = ProgressStyle::with_template(
            "{prefix:<10} {bar:40} {binary_bytes:>11} of {binary_total_bytes}, {elapsed}{msg}",
        );
        bar.set_style(style.expect("the template is right"));
        bar.set_prefix(algorithm.to_string());
        if !self.drawn.is_hidden() {
            bar.enable_steady_tick(REDRAW);
        }
        let run = Arc::new(Run {
            algorithm,
            started: Instant::now(),
            clock,
            bytes: AtomicU64::new(0),
            total: AtomicU64::new(0),
        });
        self.runs.all().push(Arc::clone(&run));
        Bar {
            drawn: bar,
            run,
            runs: self.runs(),
        }
    }
}

/// Where progress is drawn.
pub fn target() -> ProgressDrawTarget {
    match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    }
}

impl Bar {
    pub fn show(&self, progress: Progress) {
        self.run.bytes.store(progress.bytes, Ordering::Relaxed);
        self.run.total.store(progress.total, Ordering::Relaxed);
        self.drawn.set_length(progress.total);
        self.drawn.set_position(progress.bytes);
        if !self.drawn.is_hidden() {
            self.drawn.set_message(self.run.rest());
        }
    }

    /// How far the run is now.
    pub fn run(&self) -> &Run {
        &self.run
    }

    pub fn finish(self) {
        self.drawn.finish_and_clear();
        let is_other = |run: &Arc<Run>| !Arc::ptr_eq(run, &self.run);
        self.runs.all().retain(is_other);
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        self.drawn.finish_and_clear();
        *locked(&self.runs.phase) = None;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Runs {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Run>>> {
        locked(&self.runs)
    }

    /// Prepares for [`Runs::interrupt`].
    pub(super) fn can_be_interrupted(&self) -> io::Result<()> {
        let (came, tell) = UnixStream::pair()?;
        let name = OnceLock::new();
        // Whoever was first prepared it as well.
        let _ = self.interruption.set(Interruption { name, came, tell });
        Ok(())
    }

    /// Reports that a signal has come; false if one had come before.
    pub(super) fn interrupt(&self, name: &'static str) -> bool {
        let Some(interruption) = self.interruption.get() else {
            return false;
        };
        let is_first = interruption.name.set(name).is_ok();
        // One byte finds room, and is never read.
        let _ = (&interruption.tell).write_all(&[1]);
        is_first
    }

    /// The name of the signal that has come.
    pub fn interrupted(&self) -> Option<&'static str> {
        self.interruption.get()?.name.get().copied()
    }

    /// Keeps how far a run was, for the report of a command that cannot wait for its network's end.
    pub fn stopped_at(&self, run: &Run) {
        *locked(&self.stopped_at) = Some(run.to_string());
    }

    /// Readable once a signal has come; `None` if signals have their usual effect.
    pub fn interruption(&self) -> Option<BorrowedFd<'_>> {
        Some(self.interruption.get()?.came.as_fd())
    }

    /// Has a network removed if this process must end before the network does.
    pub fn network_stands(&self, network: Leftover) {
        locked(&self.networks).push(network);
    }

    /// All networks have ended.
    pub fn networks_are_gone(&self) {
        locked(&self.networks).clear();
    }

    /// Whether a network stands.
    pub(super) fn has_networks(&self) -> bool {
        !locked(&self.networks).is_empty()
    }

    /// Removes the networks that stand, at once.
    pub(super) fn remove_networks(&self) {
        for network in locked(&self.networks).drain(..) {
            network.remove();
        }
    }

    /// Stops the fabrics in virtual time. Those that begin later run on.
    pub fn stop(&self) {
        for run in self.all().iter() {
            if let Some(clock) = &run.clock {
                clock.stop();
            }
        }
    }

    /// A line for each algorithm, or one about what is done while none runs, or how far a run was that has been stopped.
    pub fn lines(&self) -> Vec<String> {
        let lines: Vec<String> = self.all().iter().map(ToString::to_string).collect();
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
    /// Time that is left if the receivers go on as fast as so far; `None` before they have anything.
    fn left(&self) -> Option<Duration> {
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

    /// What a bar has no place for.
    fn rest(&self) -> String {
        let left = match self.left() {
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
        f.write_str(&self.rest())
    }
}

/// Whole seconds, or tenths below ten.
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
        let clock = Watch::default();
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
    fn a_phase_is_reported_while_no_algorithm_runs() {
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
    fn a_signal_can_be_waited_for_and_the_first_one_counts() {
        let runs = Runs::default();
        assert!(runs.interruption().is_none());
        runs.can_be_interrupted().unwrap();
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
