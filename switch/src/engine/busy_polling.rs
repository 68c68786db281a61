//! Decides whether the event loop looks for frames for a moment before it sleeps.
//!
//! A sender on the same machine wakes a sleeping switch, which takes the sender longer than sending a frame. Under a
//! steady load the loop therefore polls: if the last sleeps were shorter than the time of polling, the next frame is
//! expected within that time. Polling in vain, as on a processor that the sender needs, doubles the number of short
//! sleeps before the next attempt.

/// Maximum time of polling in nanoseconds.
pub(super) const POLLING_TIME: u64 = 20_000;
/// Maximum number of short sleeps before the next attempt.
const MAX_SLEEPS: u32 = 256;

/// The history of sleeping and polling.
#[derive(Debug)]
pub(super) struct BusyPolling {
    /// Number of short sleeps since the last long one, or since polling in vain.
    short_sleeps: u32,
    /// Number of short sleeps after which the loop polls.
    needed: u32,
}

impl Default for BusyPolling {
    fn default() -> BusyPolling {
        BusyPolling {
            short_sleeps: 0,
            needed: 2,
        }
    }
}

impl BusyPolling {
    /// Whether the loop polls before the next sleep.
    pub fn is_due(&self) -> bool {
        self.short_sleeps >= self.needed
    }

    /// Records the duration of a sleep in nanoseconds.
    pub fn slept(&mut self, duration: u64) {
        self.short_sleeps = match duration < POLLING_TIME {
            true => self.short_sleeps.saturating_add(1),
            false => 0,
        };
    }

    /// Records whether polling has found a frame.
    pub fn polled(&mut self, has_found: bool) {
        if has_found {
            self.needed = BusyPolling::default().needed;
        } else {
            self.short_sleeps = 0;
            self.needed = (self.needed * 2).min(MAX_SLEEPS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of short sleeps until the loop polls.
    fn sleeps_until_due(polling: &mut BusyPolling) -> u32 {
        let mut sleeps = 0;
        while !polling.is_due() {
            polling.slept(POLLING_TIME - 1);
            sleeps += 1;
        }
        sleeps
    }

    #[test]
    fn the_loop_polls_under_a_steady_load_only() {
        let mut polling = BusyPolling::default();
        assert!(!polling.is_due());
        for _ in 0..1000 {
            polling.slept(POLLING_TIME - 1);
            polling.slept(POLLING_TIME);
            assert!(!polling.is_due());
        }
        assert_eq!(sleeps_until_due(&mut polling), 2);
        // Waits that return at once are short sleeps.
        for _ in 0..1000 {
            polling.polled(true);
            polling.slept(0);
            assert!(polling.is_due());
        }
        polling.slept(POLLING_TIME);
        assert!(!polling.is_due());
    }

    #[test]
    fn polling_in_vain_becomes_rare() {
        let mut polling = BusyPolling::default();
        let mut sleeps = Vec::new();
        for _ in 0..10 {
            sleeps.push(sleeps_until_due(&mut polling));
            polling.polled(false);
        }
        assert_eq!(sleeps, [2, 4, 8, 16, 32, 64, 128, 256, 256, 256]);
        sleeps_until_due(&mut polling);
        polling.polled(true);
        polling.slept(POLLING_TIME);
        assert_eq!(sleeps_until_due(&mut polling), 2);
    }
}
