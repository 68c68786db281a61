//! A handle by which other threads read the virtual time of a running network and stop the run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// Handle of a running network, with its virtual time and a stop flag. Clones refer to the same network.
#[derive(Debug, Clone, Default)]
pub struct RunHandle(Arc<State>);

#[derive(Debug, Default)]
struct State {
    now: AtomicU64,
    stopped: AtomicBool,
}

impl RunHandle {
    /// Virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.0.now.load(Ordering::Relaxed)
    }

    /// Stores the virtual time in nanoseconds, for readers.
    pub fn set(&self, now: u64) {
        self.0.now.store(now, Ordering::Relaxed);
    }

    /// Requests that the run stop with an error before its next event.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether [`RunHandle::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Relaxed)
    }
}
