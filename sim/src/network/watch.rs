//! Access of other threads to a running network: its virtual time, and a stop flag.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// Virtual time and stop flag of a network. Clones refer to the same network.
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

    /// Sets the virtual time.
    pub fn set(&self, now: u64) {
        self.0.now.store(now, Ordering::Relaxed);
    }

    /// Requests that the run stops with an error before its next event.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether [`RunHandle::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Relaxed)
    }
}
