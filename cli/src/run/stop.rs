//! Handles SIGINT and SIGTERM during runs. Without a terminal, also prints progress reports of long runs.
//!
//! The first signal stops fabrics in virtual time between two events, so that captures are complete. A network of
//! processes on Mininet is removed, by force if that takes longer than [`GRACE`]. The command then reports how far the
//! runs got. A second signal removes the network by force immediately.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::config::Driver;
use super::mininet::signals::Signals;
use super::progress::Runs;
use crate::exit::Failure;

/// Interval of progress reports if stderr is not a terminal.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// Time limit for the shutdown of a network of processes after a signal; then it is removed by force.
const GRACE: Duration = Duration::from_secs(1);
/// Interval at which fabrics in virtual time are stopped again after a signal, since more may have started.
const REPEAT_INTERVAL: Duration = Duration::from_millis(100);

/// Handles SIGINT and SIGTERM in a thread until this value is dropped. Must be created before any other thread, because
/// threads inherit the signal mask.
pub struct Stop {
    runs: Arc<Runs>,
    /// Ends the thread when dropped.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    /// Blocks the signals; dropped last, which restores their default effect.
    _signals: Arc<Signals>,
}

impl Stop {
    /// Starts the thread, which applies signals to `runs`.
    pub fn watch(driver: Driver, runs: Arc<Runs>) -> Result<Stop, Failure> {
        let failed = |error| Failure::failed(format_args!("cannot watch for signals: {error}"));
        let signals = Arc::new(Signals::block()?);
        runs.enable_interruption().map_err(failed)?;
        let (end, ended) = UnixStream::pair().map_err(failed)?;
        let watcher = Watcher {
            signals: Arc::clone(&signals),
            ended,
            runs: Arc::clone(&runs),
            grace: (driver == Driver::Mininet).then_some(GRACE),
        };
        let thread = thread::Builder::new().name("signals".to_owned());
        let thread = thread.spawn(move || watcher.run()).map_err(failed)?;
        Ok(Stop {
            runs,
            end: Some(end),
            thread: Some(thread),
            _signals: signals,
        })
    }

    /// Adds `stopped by SIGNAL` to the message of a failure if a signal has been received.
    pub fn with_signal_name<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        result.map_err(|failure| match (failure, self.runs.interrupted()) {
            (Failure::Failed(error), Some(name)) => {
                Failure::failed(format_args!("stopped by {name}: {error}"))
            }
            (failure, _) => failure,
        })
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed already.
            let _ = thread.join();
        }
    }
}

/// The thread that handles signals.
struct Watcher {
    signals: Arc<Signals>,
    ended: UnixStream,
    runs: Arc<Runs>,
    /// Time limit for the shutdown of networks after a signal; `None` in virtual time, where there are none.
    grace: Option<Duration>,
}

impl Watcher {
    fn run(self) {
        let started = Instant::now();
        let mut next_report = (!std::io::stderr().is_terminal()).then(|| started + REPORT_INTERVAL);
        let mut deadline = None;
        loop {
            let again = self
                .runs
                .interrupted()
                .map(|_| Instant::now() + REPEAT_INTERVAL);
            let wake = [next_report, deadline, again].into_iter().flatten().min();
            let wait = wake.map(|at| at.saturating_duration_since(Instant::now()));
            let timeout = match wait.map(|wait| PollTimeout::try_from(wait.as_millis() + 1)) {
                Some(Ok(timeout)) => timeout,
                _ => PollTimeout::NONE,
            };
            let mut fds = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.ended.as_fd(), PollFlags::POLLIN),
            ];
            let polled = poll(&mut fds, timeout);
            let is_over = fds[1].any().unwrap_or(false);
            if is_over || matches!(polled, Err(error) if error != nix::errno::Errno::EINTR) {
                return;
            }
            let now = Instant::now();
            if let Some(name) = self.signals.take() {
                match self.runs.interrupt(name) {
                    // Without a network, the process can end at once.
                    true if self.grace.is_some() && !self.runs.has_networks() => self.end(name),
                    true => deadline = self.grace.map(|grace| now + grace),
                    false => self.end(&format!("a second {name}")),
                }
            }
            if let Some(name) = self.runs.interrupted() {
                // Repeated for runs that have just started.
                self.runs.stop();
                next_report = None;
                if deadline.is_some_and(|deadline| deadline <= now) {
                    self.end(name);
                }
            } else if next_report.is_some_and(|at| at <= now) {
                self.report();
                next_report = next_report.map(|at| at + REPORT_INTERVAL);
            }
        }
    }

    fn report(&self) {
        for line in self.runs.lines() {
            eprintln!("alfirk: {line}");
        }
    }

    /// Removes networks by force, reports the progress and ends the process, without waiting for its threads.
    fn end(&self, why: &str) -> ! {
        self.runs.remove_networks();
        match self.runs.lines() {
            lines if lines.is_empty() => eprintln!("alfirk: stopped by {why}"),
            lines => lines
                .iter()
                .for_each(|line| eprintln!("alfirk: stopped by {why}: {line}")),
        }
        process::exit(1);
    }
}
