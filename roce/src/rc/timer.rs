//! The timers of a queue pair.

use crate::steady::StateVisitor;

/// A timer of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The local ACK timeout, after which the requester retransmits.
    AckTimeout,
    /// End of the delay that an RNR NAK requested.
    RnrBackoff,
    /// Earliest time of the next request packet, by rate limit and congestion control.
    Pacing,
    /// Time of the next selective NAK (loss report) of missing packets, with selective repeat.
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

/// Expiry time of each timer in nanoseconds; `None` for a stopped timer.
#[derive(Debug, Default)]
pub(super) struct TimerTable([Option<u64>; Timer::ALL.len()]);

impl TimerTable {
    pub(super) fn set(&mut self, timer: Timer, at: u64) {
        self.0[timer as usize] = Some(at);
    }

    pub(super) fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    /// Visits the expiry times.
    pub(super) fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        for at in &mut self.0 {
            *at = visitor.optional_time(*at);
        }
    }

    pub(super) fn stop_all(&mut self) {
        *self = TimerTable::default();
    }

    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_some()
    }

    /// The earliest expiry time in nanoseconds; `None` if no timer runs.
    pub(super) fn next(&self) -> Option<u64> {
        self.0.iter().flatten().min().copied()
    }

    /// Stops the timer if it has expired by `now`. Returns whether it had.
    pub(super) fn take_due(&mut self, timer: Timer, now: u64) -> bool {
        let due = self.0[timer as usize].is_some_and(|at| at <= now);
        if due {
            self.stop(timer);
        }
        due
    }
}
