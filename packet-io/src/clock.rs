//! The system's clocks, and scaled ones.

use std::num::NonZeroU32;

use rustix::time::{clock_gettime, ClockId};

/// The system's monotonic clock, or a clock that runs N times slower.
///
/// If all processes of a network use the same slow clock, the processors have N times as long for the same work.
/// Rates, delays and timeouts then behave as on faster equipment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    scale: u64,
}

impl Default for Clock {
    /// The system's clock, not scaled.
    fn default() -> Clock {
        Clock { scale: 1 }
    }
}

impl Clock {
    /// A clock on which one nanosecond takes `scale` nanoseconds of the system's clock.
    pub fn slower(scale: NonZeroU32) -> Clock {
        Clock {
            scale: u64::from(scale.get()),
        }
    }

    /// The factor by which the clock is slower.
    pub fn scale(self) -> u64 {
        self.scale
    }

    /// Time of this clock in nanoseconds.
    pub fn now(self) -> u64 {
        monotonic() / self.scale
    }

    /// Converts a time of this clock to the first nanosecond of the system's monotonic clock at which it is reached.
    pub fn system(self, at: u64) -> u64 {
        at.saturating_mul(self.scale)
    }
}

/// The system's monotonic clock in nanoseconds.
pub fn monotonic() -> u64 {
    clock(ClockId::Monotonic)
}

/// The time since the Unix epoch in nanoseconds.
pub fn wall_clock() -> u64 {
    clock(ClockId::Realtime)
}

fn clock(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaled_clock_follows_the_system_clock() {
        let slow = Clock::slower(NonZeroU32::new(1000).unwrap());
        let before = monotonic();
        let now = slow.now();
        assert!((before / 1000..=monotonic() / 1000).contains(&now));
        assert_eq!(slow.system(now) / 1000, now);
        assert_eq!(slow.system(u64::MAX), u64::MAX);
        assert_eq!(Clock::default().system(7), 7);
    }
}
