//! The MPI job that this process belongs to, and its settings, from MPI_Init on.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::buffer::Buffer;
use crate::settings::{Settings, VERBOSE};
use crate::sys::{self, Comm, Result};

/// The MPI job that this process belongs to, and its settings.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) settings: Settings,
    /// Random offset of the group addresses that this job uses.
    pub(crate) address_offset: u32,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// Whether MPI provides MPI_THREAD_MULTIPLE at all ranks, so that threads of this library may call MPI.
    pub(crate) allows_threads: bool,
    verbose: bool,
    printed: Mutex<BTreeSet<String>>,
}

static JOB: OnceLock<Job> = OnceLock::new();

/// The job; `None` before the program has initialised MPI through this library.
pub(crate) fn job() -> Option<&'static Job> {
    JOB.get()
}

/// Creates the job's state after MPI_Init. All ranks must call it. `provided`: level of thread support that MPI
/// provides.
pub(crate) fn begin(provided: i32) -> Result<()> {
    let world = Comm::world();
    let (rank, ranks) = (world.rank()?, world.size()?);
    let allows_threads = world.min((provided >= sys::thread_multiple()).into())? != 0;
    let mut shared = [0u8; 1024];
    if rank == 0 {
        let settings = Settings::read(|name| std::env::var(name).ok());
        let settings = settings.unwrap_or_else(|error| {
            eprintln!("alfirk: {error}; broadcasts and barriers fall back to the underlying MPI");
            Settings::disabled()
        });
        let lines = settings.lines();
        shared[..4].copy_from_slice(&random_offset().to_be_bytes());
        shared[4..4 + lines.len()].copy_from_slice(lines.as_bytes());
    }
    world.bcast(&mut Buffer::Target(&mut shared), 0)?;
    let (start, lines) = shared.split_at(4);
    let start = u32::from_be_bytes([start[0], start[1], start[2], start[3]]);
    let lines = String::from_utf8_lossy(lines);
    let settings = Settings::from_lines(lines.trim_end_matches('\0'));
    sys::make_attribute()?;
    let job = Job {
        settings: settings.unwrap_or_else(|_| Settings::disabled()),
        address_offset: start,
        rank,
        ranks,
        allows_threads,
        verbose: std::env::var_os(VERBOSE).is_some_and(|value| value != "0"),
        printed: Mutex::default(),
    };
    // MPI is initialised only once.
    let _ = JOB.set(job);
    Ok(())
}

/// Returns a random offset for group addresses, so that different jobs rarely use the same addresses.
fn random_offset() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id()) as u32
}

impl Job {
    /// Prints a warning, but each text only once.
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
