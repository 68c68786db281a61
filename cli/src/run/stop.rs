//! SIGINT and SIGTERM while fabrics run, and reports of runs that take long where no bar is drawn.
//!
//! The first signal ends fabrics in virtual time between two events, so that captures are complete, and has a network of processes taken
//! down; the command reports how far the runs were. A network that is not gone after [`GRACE`] is removed at once, so that
//! the command ends soon whatever it was doing. The second signal does that without delay.

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

/// How often runs are reported that show no bar.
const REPORT: Duration = Duration::from_secs(10);
/// Time that a network of processes has for its own end after a signal.
const GRACE: Duration = Duration::from_secs(1);
/// How often fabrics in virtual time are told to end, as some may begin later than the signal came.
const AGAIN: Duration = Duration::from_millis(100);

/// Holds the signals, until it is dropped. Must be made before any thread: threads inherit what is held.
pub struct Stop {
    runs: Arc<Runs>,
    /// Ends the thread when it is dropped.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    /// Drops last: then the signals have their usual effect again.
    _signals: Arc<Signals>,
}

impl Stop {
    /// Watches for signals from now on, for the sake of `runs`.
    pub fn watch(driver: Driver, runs: Arc<Runs>) -> Result<Stop, Failure> {
        let failed = |error| Failure::failed(format_args!("cannot watch for signals: {error}"));
        let signals = Arc::new(Signals::hold()?);
        runs.can_be_interrupted().map_err(failed)?;
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

    /// A result, whose failure names the signal that has come.
    pub fn explained<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
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
            // It reports; if it has panicked, that has been printed.
            let _ = thread.join();
        }
    }
}

struct Watcher {
    signals: Arc<Signals>,
    ended: UnixStream,
    runs: Arc<Runs>,
    /// How long networks have after a signal; fabrics in virtual time end by themselves.
    grace: Option<Duration>,
}

impl Watcher {
    fn run(self) {
        let started = Instant::now();
        let mut next_report = (!std::io::stderr().is_terminal()).then(|| started + REPORT);
        let mut deadline = None;
        loop {
            let again = self.runs.interrupted().map(|_| Instant::now() + AGAIN);
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
                    // Without a network there is nothing to wait for.
                    true if self.grace.is_some() && !self.runs.has_networks() => self.end(name),
                    true => deadline = self.grace.map(|grace| now + grace),
                    false => self.end(&format!("a second {name}")),
                }
            }
            if let Some(name) = self.runs.interrupted() {
                // Runs that begin now, too.
                self.runs.stop();
                next_report = None;
                if deadline.is_some_and(|deadline| deadline <= now) {
                    self.end(name);
                }
            } else if next_report.is_some_and(|at| at <= now) {
                self.report();
                next_report = next_report.map(|at| at + REPORT);
            }
        }
    }

    fn report(&self) {
        for line in self.runs.lines() {
            eprintln!("alfirk: {line}");
        }
    }

    /// Ends the process, and with it whatever it waits for.
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
