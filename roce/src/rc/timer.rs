//! The timers of a queue pair.

/// Each variant says what falls due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Timer {
    /// When to go back to the oldest unacknowledged packet because no answer came.
    AckTimeout,
    /// When to send again after the responder said it had no buffer.
    RnrBackoff,
    /// When the next request packet may be sent at the rate that the path and congestion control allow.
    Pacing,
    /// When to report again what is missing: of selective repeat.
    Report,
}

impl Timer {
    pub(super) const ALL: [Timer; 4] = [
        Timer::AckTimeout,
        Timer::RnrBackoff,
        Timer::Pacing,
        Timer::Report,
    ];
}

/// When each timer falls due, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct TimerTable([Option<u64>; Timer::ALL.len()]);

impl TimerTable {
    pub(super) fn set(&mut self, timer: Timer, at: u64) {
        self.0[timer as usize] = Some(at);
    }

    pub(super) fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    pub(super) fn stop_all(&mut self) {
        *self = TimerTable::default();
    }

    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_some()
    }

    /// When the next timer falls due.
    pub(super) fn next(&self) -> Option<u64> {
        self.0.iter().flatten().min().copied()
    }

    /// Stops the timer and says whether it was due at `now`.
    pub(super) fn take_due(&mut self, timer: Timer, now: u64) -> bool {
        let due = self.0[timer as usize].is_some_and(|at| at <= now);
        if due {
            self.stop(timer);
        }
        due
    }
}
