//! The job to which this process belongs, from MPI_Init on.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::settings::{Settings, VERBOSE};
use crate::sys::{self, Comm, Result};

/// The job to which this process belongs, and its settings.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) settings: Settings,
    /// Random offset of the job's group addresses.
    pub(crate) start: u32,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// Whether MPI provides MPI_THREAD_MULTIPLE at all ranks, so that this library's threads may call it.
    pub(crate) threads: bool,
    verbose: bool,
    printed: Mutex<BTreeSet<String>>,
}

static JOB: OnceLock<Job> = OnceLock::new();

/// The job; `None` before the program has initialised MPI through this library.
pub(crate) fn job() -> Option<&'static Job> {
    JOB.get()
}

/// Starts the job after MPI_Init; `provided` is the level of thread support. Called by all ranks.
pub(crate) fn begin(provided: i32) -> Result<()> {
    let world = Comm::world();
    let (rank, ranks) = (world.rank()?, world.size()?);
    let threads = world.min((provided >= sys::thread_multiple()).into())? != 0;
    let mut shared = [0u8; 1024];
    if rank == 0 {
        let settings = Settings::read(|name| std::env::var(name).ok());
        let settings = settings.unwrap_or_else(|error| {
            eprintln!("alfirk: {error}; broadcasts and barriers fall back to the underlying MPI");
            Settings::off()
        });
        let lines = settings.lines();
        shared[..4].copy_from_slice(&start().to_be_bytes());
        shared[4..4 + lines.len()].copy_from_slice(lines.as_bytes());
    }
    world.bcast(&mut shared, 0)?;
    let (start, lines) = shared.split_at(4);
    let start = u32::from_be_bytes([start[0], start[1], start[2], start[3]]);
    let lines = String::from_utf8_lossy(lines);
    let settings = Settings::of_lines(lines.trim_end_matches('\0'));
    sys::make_attribute()?;
    let job = Job {
        settings: settings.unwrap_or_else(|_| Settings::off()),
        start,
        rank,
        ranks,
        threads,
        verbose: std::env::var_os(VERBOSE).is_some_and(|value| value != "0"),
        printed: Mutex::default(),
    };
    // MPI is initialised only once.
    let _ = JOB.set(job);
    Ok(())
}

/// A random offset, so that jobs rarely share addresses.
fn start() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id()) as u32
}

impl Job {
    /// Prints a warning, once per text.
    pub(crate) fn warn_once(&self, text: &str) {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        if printed.insert(text.to_owned()) {
            eprintln!("alfirk: {text}");
        }
    }

    /// Prints a message if the user wants verbose output.
    pub(crate) fn log_verbose(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("alfirk: {}", text());
        }
    }
}
