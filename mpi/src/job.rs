//! What this process knows of its job, from MPI_Init on.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::settings::{Settings, VERBOSE};
use crate::sys::{self, Comm, Result};

/// A job, as one of its processes has it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) settings: Settings,
    /// Where the job's addresses begin.
    pub(crate) start: u32,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// Whether threads of ours may call MPI, at all ranks.
    pub(crate) threads: bool,
    verbose: bool,
    said: Mutex<BTreeSet<String>>,
}

static JOB: OnceLock<Job> = OnceLock::new();

/// The job, unless the program has not initialised MPI through us.
pub(crate) fn job() -> Option<&'static Job> {
    JOB.get()
}

/// Begins, when MPI is initialised and gives this level of thread support. Called by all ranks.
pub(crate) fn begin(provided: i32) -> Result<()> {
    let world = Comm::world();
    let (rank, ranks) = (world.rank()?, world.size()?);
    let threads = world.min((provided >= sys::thread_multiple()).into())? != 0;
    let mut told = [0u8; 1024];
    if rank == 0 {
        let settings = Settings::read(|name| std::env::var(name).ok());
        let settings = settings.unwrap_or_else(|error| {
            eprintln!("alfirk: {error}; broadcasts and barriers go by the MPI beneath");
            Settings::off()
        });
        let lines = settings.lines();
        told[..4].copy_from_slice(&start().to_be_bytes());
        told[4..4 + lines.len()].copy_from_slice(lines.as_bytes());
    }
    world.bcast(&mut told, 0)?;
    let (start, lines) = told.split_at(4);
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
        said: Mutex::default(),
    };
    // MPI is initialised once.
    let _ = JOB.set(job);
    Ok(())
}

/// Something that other jobs hardly have.
fn start() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id()) as u32
}

impl Job {
    /// Tells people something, once.
    pub(crate) fn say(&self, text: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.insert(text.to_owned()) {
            eprintln!("alfirk: {text}");
        }
    }

    /// Tells people who want to know.
    pub(crate) fn tell(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("alfirk: {}", text());
        }
    }
}
