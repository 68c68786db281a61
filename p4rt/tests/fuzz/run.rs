//! Runs the cases of a target, and sees that each ends, in time and in bounded memory.
//!
//! A case is a number, which is the seed of all its choices. The tests run for about a second per target; `ALFIRK_FUZZ_SECONDS=600`
//! makes that ten minutes, and `ALFIRK_FUZZ_SEED=N` starts with case N, which is how one that failed is run again.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
        Arc,
    },
    thread,
    time::{Duration, Instant},
};

use alfirk_test_budget::Fuzz;

use crate::chance::Chance;

/// A case that takes longer hangs. It is generous, since tests run hardly optimised and beside others.
const PATIENCE: Duration = Duration::from_secs(60);
/// Memory that the process may have, all targets and compiled programs together.
const MAX_MIB: u64 = 1_500;
/// Between two looks at the clock and at the memory.
const LOOK: Duration = Duration::from_millis(20);

/// What the thread at work reports to the one that watches it.
#[derive(Default)]
struct Progress {
    case: AtomicU64,
    done: AtomicU64,
    /// What the cases count: see [`run`].
    counted: AtomicU64,
    stop: AtomicBool,
}

/// Runs cases of a target on what `prepare` makes, until the time is over. Each case gives a number of `what` came through, which
/// shows that the target does not stop at the first check.
///
/// # Panics
/// When a case panics, hangs or takes too much memory; the message says which.
pub fn run<T>(
    target: &str,
    what: &str,
    prepare: impl FnOnce() -> T + Send + 'static,
    mut case: impl FnMut(&mut T, &mut Chance) -> usize + Send + 'static,
) {
    let Fuzz { first, time } = Fuzz::from_env();
    let progress = Arc::new(Progress::default());
    let (ended, end) = mpsc::channel();
    let told = progress.clone();
    let again = format!("run it again with ALFIRK_FUZZ_SEED=N and the test's name, {target}");
    thread::spawn(move || {
        let mut state = prepare();
        let start = Instant::now();
        for number in first.. {
            told.case.store(number, Ordering::Relaxed);
            let once = AssertUnwindSafe(|| case(&mut state, &mut Chance::new(number)));
            let Ok(counted) = panic::catch_unwind(once) else {
                // Nobody waits any more when the watch has failed the test before.
                let _ = ended.send(Err(number));
                return;
            };
            told.counted.fetch_add(counted as u64, Ordering::Relaxed);
            told.done.fetch_add(1, Ordering::Relaxed);
            if start.elapsed() >= time || told.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        let _ = ended.send(Ok(start.elapsed()));
    });

    let mut seen = (0, Instant::now());
    let mut most = 0;
    let elapsed = loop {
        match end.recv_timeout(LOOK) {
            Ok(Ok(elapsed)) => break elapsed,
            Ok(Err(number)) => panic!("case {number} panicked; {again}"),
            Err(RecvTimeoutError::Disconnected) => panic!("{target} cannot be prepared"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let (done, number) = (
            progress.done.load(Ordering::Relaxed),
            progress.case.load(Ordering::Relaxed),
        );
        if done != seen.0 {
            seen = (done, Instant::now());
        }
        let waited = seen.1.elapsed();
        assert!(waited < PATIENCE, "case {number} hangs; {again}");
        most = most.max(resident_mib());
        if most > MAX_MIB {
            progress.stop.store(true, Ordering::Relaxed);
            panic!("{most} MiB at case {number} are too much; {again}");
        }
    };
    let done = progress.done.load(Ordering::Relaxed);
    let last = progress.case.load(Ordering::Relaxed);
    let counted = progress.counted.load(Ordering::Relaxed);
    println!(
        "{target}: {done} cases ({first} to {last}), {counted} {what}, in {elapsed:.0?}, at most {most} MiB"
    );
}

/// Memory of this process; 0 where the system does not say.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}
