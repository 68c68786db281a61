//! Runs the cases of a target, and checks that each ends in time and in bounded memory.
//!
//! A case is a number, the seed of all its random choices. The tests run for about a second per target;
//! `ALFIRK_FUZZ_SECONDS=600` makes that ten minutes. `ALFIRK_FUZZ_SEED=N` starts with case N, to repeat a failed one.

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

use alfirk_bmv2::QueueState;
use alfirk_p4rt::{Event, Server};
use alfirk_test_budget::Fuzz;

use crate::chance::Chance;

/// Time after which a case has hung. Tests are hardly optimised and run in parallel, so the limit is generous.
const CASE_TIMEOUT: Duration = Duration::from_secs(60);
/// Limit of this process's memory in MiB, all targets and compiled programs together.
const MAX_MIB: u64 = 1_500;
/// Interval between two checks of time and memory.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Limit of events per frame: a program may recirculate a frame endlessly.
const MAX_EVENTS: usize = 300;

/// Progress that the worker thread reports to the watching one.
#[derive(Default)]
struct Progress {
    case: AtomicU64,
    done: AtomicU64,
    /// Sum of the cases' counts: see [`run`].
    counted: AtomicU64,
    stop: AtomicBool,
}

/// Runs cases of a target on the result of `prepare` until the duration has passed. Each case returns how many
/// operations, named by `what`, succeeded. Their number shows that inputs pass the first checks.
///
/// # Panics
/// When a case panics, hangs or uses too much memory; the message names the case.
pub fn run<T>(
    target: &str,
    what: &str,
    prepare: impl FnOnce() -> T + Send + 'static,
    mut case: impl FnMut(&mut T, &mut Chance) -> usize + Send + 'static,
) {
    let Fuzz { first, time } = Fuzz::from_env();
    let progress = Arc::new(Progress::default());
    let (ended, end) = mpsc::channel();
    let shared = progress.clone();
    let again = format!("run it again with ALFIRK_FUZZ_SEED=N and the test's name, {target}");
    thread::spawn(move || {
        let mut state = prepare();
        let start = Instant::now();
        for number in first.. {
            shared.case.store(number, Ordering::Relaxed);
            let once = AssertUnwindSafe(|| case(&mut state, &mut Chance::new(number)));
            let Ok(counted) = panic::catch_unwind(once) else {
                // Sending fails if the watching thread has failed the test and dropped the receiver.
                let _ = ended.send(Err(number));
                return;
            };
            shared.counted.fetch_add(counted as u64, Ordering::Relaxed);
            shared.done.fetch_add(1, Ordering::Relaxed);
            if start.elapsed() >= time || shared.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        let _ = ended.send(Ok(start.elapsed()));
    });

    let mut seen = (0, Instant::now());
    let mut most = 0;
    let elapsed = loop {
        match end.recv_timeout(CHECK_INTERVAL) {
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
        assert!(waited < CASE_TIMEOUT, "case {number} hangs; {again}");
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

/// Returns the memory of this process in MiB; 0 where the system does not report it.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}

/// Executes the server's events up to the limit. Returns the number of sent frames.
pub fn settle(server: &mut Server, now: u64) -> usize {
    let mut left = 0;
    settle_with(server, now, |event| {
        left += usize::from(matches!(event, Event::Output { .. }));
    });
    left
}

/// Executes the server's events up to the limit. Calls `each` with all events except those that enqueue a packet.
pub fn settle_with(server: &mut Server, now: u64, mut each: impl FnMut(Event)) {
    // A queue that a packet enters and leaves at the same time.
    let queue = QueueState {
        enq_timestamp: now,
        ..QueueState::default()
    };
    for _ in 0..MAX_EVENTS {
        match server.poll() {
            Some(Event::Enqueue(packet)) => server.dequeue(packet, now, queue),
            Some(event) => each(event),
            None => return,
        }
    }
    while server.poll().is_some() {}
}
