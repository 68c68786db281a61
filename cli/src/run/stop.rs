//! SIGINT and SIGTERM while fabrics run in virtual time, and reports of runs that take long where no bar is drawn.
//!
//! The first signal ends the fabrics between two events, so that captures are complete, and the command reports how far they were. The
//! second one ends the process at once.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::mininet::signals::Signals;
use super::progress::Runs;
use crate::exit::Failure;

/// When a run that shows no bar is reported first; then again after twice the time, and so on.
const FIRST_REPORT: Duration = Duration::from_secs(10);

/// Holds the signals, until it is dropped. Must be made before any thread: threads inherit what is held.
pub struct Stop {
    signal: Arc<OnceLock<&'static str>>,
    /// Ends the thread when it is dropped.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    /// Drops last: then the signals have their usual effect again.
    _signals: Arc<Signals>,
}

impl Stop {
    /// Watches for signals from now on, for the sake of `runs`.
    pub fn watch(signals: Signals, runs: Arc<Runs>) -> Result<Stop, Failure> {
        let failed = |error| Failure::failed(format_args!("cannot watch for signals: {error}"));
        let signals = Arc::new(signals);
        let signal = Arc::new(OnceLock::new());
        let (end, ended) = UnixStream::pair().map_err(failed)?;
        let watcher = Watcher {
            signals: Arc::clone(&signals),
            signal: Arc::clone(&signal),
            ended,
            runs,
        };
        let thread = thread::Builder::new().name("signals".to_owned());
        let thread = thread.spawn(move || watcher.run()).map_err(failed)?;
        Ok(Stop {
            signal,
            end: Some(end),
            thread: Some(thread),
            _signals: signals,
        })
    }

    /// The name of the signal that has come.
    pub fn signal(&self) -> Option<&'static str> {
        self.signal.get().copied()
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
    signal: Arc<OnceLock<&'static str>>,
    ended: UnixStream,
    runs: Arc<Runs>,
}

impl Watcher {
    fn run(self) {
        let started = Instant::now();
        let mut next_report = (!std::io::stderr().is_terminal()).then_some(FIRST_REPORT);
        loop {
            let wait = next_report.map(|at| at.saturating_sub(started.elapsed()));
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
            if let Some(name) = self.signals.take() {
                if self.signal.set(name).is_err() {
                    for line in self.runs.lines() {
                        eprintln!("alfirk: {line}");
                    }
                    eprintln!("alfirk: stopped by a second {name}");
                    process::exit(1);
                }
            }
            if self.signal.get().is_some() {
                // Runs that begin now, too.
                self.runs.stop();
                next_report = Some(started.elapsed() + Duration::from_millis(100));
            } else if next_report.is_some_and(|at| at <= started.elapsed()) {
                for line in self.runs.lines() {
                    eprintln!("alfirk: {line}");
                }
                next_report = next_report.map(|at| at * 2);
            }
        }
    }
}
