//! The system's clocks, and slower ones.

use std::num::NonZeroU32;

/// The monotonic clock, or one that goes so many times slower.
///
/// Where every process of a network goes by the same slow clock, the processors have that much more time for the same work, and
/// rates, delays and timeouts mean what they mean on faster equipment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    scale: u64,
}

impl Default for Clock {
    /// As fast as the system's.
    fn default() -> Clock {
        Clock { scale: 1 }
    }
}

impl Clock {
    /// A clock on which one nanosecond takes `scale` of the system's.
    pub fn slower(scale: NonZeroU32) -> Clock {
        Clock {
            scale: u64::from(scale.get()),
        }
    }

    /// How many times slower it goes.
    pub fn scale(self) -> u64 {
        self.scale
    }

    /// Nanoseconds on this clock.
    pub fn now(self) -> u64 {
        monotonic() / self.scale
    }

    /// The first nanosecond of the system's monotonic clock at which this one says `at`.
    pub fn system(self, at: u64) -> u64 {
        at.saturating_mul(self.scale)
    }
}

/// Nanoseconds of the monotonic clock.
pub fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since the Unix epoch.
pub fn wall_clock() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time is alive for the call; these clocks always exist.
    unsafe { libc::clock_gettime(id, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_clock_stays_with_the_systems() {
        let slow = Clock::slower(NonZeroU32::new(1000).unwrap());
        let before = monotonic();
        let now = slow.now();
        assert!((before / 1000..=monotonic() / 1000).contains(&now));
        assert_eq!(slow.system(now) / 1000, now);
        assert_eq!(slow.system(u64::MAX), u64::MAX);
        assert_eq!(Clock::default().system(7), 7);
    }
}
