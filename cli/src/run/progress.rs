//! How far runs are: progress bars on a terminal, lines on stderr elsewhere when a run takes long, and a report when one is stopped.

use std::fmt;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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
}

/// Shows how many bytes the receivers of one algorithm have together.
pub struct Bar {
    drawn: ProgressBar,
    run: Arc<Run>,
    runs: Arc<Runs>,
}

/// The algorithms that run at this moment.
#[derive(Default)]
pub struct Runs(Mutex<Vec<Arc<Run>>>);

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
        Bars::on(target())
    }

    /// Of runs whose progress somebody else shows.
    pub fn hidden() -> Bars {
        Bars::on(ProgressDrawTarget::hidden())
    }

    fn on(target: ProgressDrawTarget) -> Bars {
        Bars {
            drawn: MultiProgress::with_draw_target(target),
            runs: Arc::default(),
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

impl Runs {
    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Run>>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Stops the fabrics in virtual time. Those that begin later run on.
    pub fn stop(&self) {
        for run in self.all().iter() {
            if let Some(clock) = &run.clock {
                clock.stop();
            }
        }
    }

    /// A line for each.
    pub fn lines(&self) -> Vec<String> {
        self.all().iter().map(ToString::to_string).collect()
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
}
