//! Decides when a transfer leaves its multicast group for an overlay (unicast connections between members), and when it
//! returns.
//!
//! ```text
//!                     several low windows in a row
//!            ┌───────────────────────────────────────────┐
//!            │                                           ▼
//!   trusted group ◄── several good windows ── group on ◄── the wait is over ── overlay
//!            (the wait is short again when     probation                        ▲
//!             it has stayed good as long)          └── several low windows, ────┘
//!                                                      the wait doubles
//! ```
//!
//! The state machine's input is the time and the number of bytes acknowledged to the source; it reads no clock. The caller performs the
//! change to an overlay and back.

use std::fmt;

/// Number of low windows in a row after which a group is left, and of good windows in a row after which it is trusted
/// again. A window is an interval of measurement. It is low if its goodput is below the threshold.
pub const WINDOWS: u32 = 2;

/// Maximum wait before the group is tried again, as a multiple of [`SafeguardConfig::retry`].
const MAX_WAIT_FACTOR: u64 = 64;

/// Thresholds and waits of a safeguard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SafeguardConfig {
    /// Threshold as a share of the normal goodput, above 0 and below 1: a window (interval of measurement) below it is
    /// low. A group on probation must reach the middle between this share and 1, so that a group near the threshold is
    /// not left and retried repeatedly.
    pub threshold: f64,
    /// Length of a measurement window in ns. A shorter window reacts sooner, but mistakes pauses such as an ACK timeout
    /// for a failure.
    pub window: u64,
    /// First wait in ns on the overlay before the group is tried again. Each failure doubles the wait, up to 64 times
    /// this value.
    pub retry: u64,
    /// Minimum for the normal goodput of the group in bit/s: the normal goodput is the larger of this value and the
    /// best window so far. If `None`, the best window alone.
    pub expected_bps: Option<f64>,
}

impl SafeguardConfig {
    /// Creates a configuration with windows of `window` ns, a threshold of 50 % of the normal goodput (as Cepheus
    /// suggests), and a retry after eight windows.
    pub fn new(window: u64) -> SafeguardConfig {
        SafeguardConfig {
            threshold: 0.5,
            window,
            retry: window.saturating_mul(8),
            expected_bps: None,
        }
    }
}

/// Decision of a safeguard: whether a transfer leaves its group for an overlay, or returns to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// Continue as before, on the group or on the overlay.
    Stay,
    /// Leave the group for the overlay, because of this goodput.
    FallBack(LowGoodput),
    /// Leave the overlay, and try the group again.
    Return,
}

/// Reason why a group was left: its goodput over the low windows, compared with the normal goodput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LowGoodput {
    /// Goodput over the low windows in bit/s; 0 if nothing was acknowledged in them.
    pub measured_bps: f64,
    /// Normal goodput of the group, in bit/s; 0 if nothing was ever acknowledged.
    pub normal_bps: f64,
}

impl fmt::Display for LowGoodput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let normal = self.normal_bps / 1e9;
        if self.measured_bps > 0.0 {
            let got = self.measured_bps / 1e9;
            write!(f, "{got:.3} Gbit/s where {normal:.3} Gbit/s are normal")
        } else if normal > 0.0 {
            write!(
                f,
                "nothing was acknowledged where {normal:.3} Gbit/s are normal"
            )
        } else {
            f.write_str("nothing was ever acknowledged")
        }
    }
}

/// State machine that measures the goodput of a group, and decides when to leave it and when to return.
#[derive(Debug, Clone)]
pub struct Safeguard {
    config: SafeguardConfig,
    /// Goodput of the best window of a group so far, in bit/s.
    best_bps: f64,
    /// Wait in ns before the group is tried again when the overlay is used next.
    wait: u64,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Group {
        /// Start of the current window in ns.
        since: u64,
        /// Bytes acknowledged through the group at the start of the window.
        bytes: u64,
        /// Number of low windows in a row; 0 after a good one.
        low: u32,
        /// Number of good windows in a row; 0 after a low one.
        good: u32,
        /// Time in ns and acknowledged bytes at the start of the first low window in a row.
        low_since: (u64, u64),
        trust: TrustState,
    },
    Overlay {
        /// Time in ns at which the group is tried again.
        try_at: u64,
    },
}

/// Trust in the group after the transfer has returned to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrustState {
    /// Not trusted yet: since the return there were fewer good windows (intervals of measurement) than needed. The
    /// threshold of goodput is higher than for a trusted group.
    Probation,
    /// Trusted, since the given time in ns.
    Trusted(u64),
}

impl Safeguard {
    /// Creates the state on an overlay, before the group is requested.
    pub fn new(config: SafeguardConfig) -> Safeguard {
        Safeguard {
            wait: config.retry,
            config,
            best_bps: 0.0,
            state: State::Overlay { try_at: 0 },
        }
    }

    /// Records that the message is now sent through the group, from time `now` on. `on_probation`: true except for the
    /// first use of the group.
    pub fn group_begins(&mut self, now: u64, on_probation: bool) {
        self.state = State::Group {
            since: now,
            bytes: 0,
            low: 0,
            good: 0,
            low_since: (now, 0),
            trust: match on_probation {
                true => TrustState::Probation,
                false => TrustState::Trusted(now),
            },
        };
    }

    /// Records that the message is now sent through the overlay: there is no group, it was left, or it was refused
    /// again. Doubles the wait after this one; a group that stays good resets the wait.
    pub fn overlay_begins(&mut self, now: u64) {
        self.state = State::Overlay {
            try_at: now.saturating_add(self.wait),
        };
        let longest = self.config.retry.saturating_mul(MAX_WAIT_FACTOR);
        self.wait = self.wait.saturating_mul(2).min(longest);
    }

    /// Decides whether to change between group and overlay. `acknowledged`: number of bytes acknowledged so far through
    /// the current group.
    pub fn observe(&mut self, now: u64, acknowledged: u64) -> Decision {
        let normal_bps = self.normal_bps();
        match &mut self.state {
            State::Overlay { try_at } if now >= *try_at => Decision::Return,
            State::Overlay { .. } => Decision::Stay,
            State::Group {
                since,
                bytes,
                low,
                good,
                low_since,
                trust,
            } => {
                let elapsed = now.saturating_sub(*since);
                if elapsed < self.config.window.max(1) {
                    return Decision::Stay;
                }
                let measured_bps = rate(acknowledged.saturating_sub(*bytes), elapsed);
                let needed = match trust {
                    TrustState::Trusted(_) => self.config.threshold,
                    TrustState::Probation => (1.0 + self.config.threshold) / 2.0,
                };
                // A window without bytes is low even if the normal goodput is unknown.
                if measured_bps == 0.0 || measured_bps < needed * normal_bps {
                    if *low == 0 {
                        *low_since = (*since, *bytes);
                    }
                    (*low, *good) = (*low + 1, 0);
                } else {
                    (*low, *good) = (0, *good + 1);
                }
                (*since, *bytes) = (now, acknowledged);
                self.best_bps = self.best_bps.max(measured_bps);
                if *low >= WINDOWS {
                    let (from, had) = *low_since;
                    return Decision::FallBack(LowGoodput {
                        measured_bps: rate(acknowledged.saturating_sub(had), now - from),
                        normal_bps,
                    });
                }
                match *trust {
                    TrustState::Probation if *good >= WINDOWS => *trust = TrustState::Trusted(now),
                    TrustState::Trusted(at) if now - at >= self.wait => {
                        self.wait = self.config.retry;
                    }
                    TrustState::Probation | TrustState::Trusted(_) => {}
                }
                Decision::Stay
            }
        }
    }

    /// Whether the group is in use, but not trusted yet.
    pub fn is_on_probation(&self) -> bool {
        let State::Group { trust, .. } = self.state else {
            return false;
        };
        trust == TrustState::Probation
    }

    /// Earliest time in ns at which [`Safeguard::observe`] can decide to change.
    pub fn next(&self) -> u64 {
        match self.state {
            State::Group { since, .. } => since.saturating_add(self.config.window.max(1)),
            State::Overlay { try_at } => try_at,
        }
    }

    /// Normal goodput of the group in bit/s.
    fn normal_bps(&self) -> f64 {
        self.config
            .expected_bps
            .map_or(self.best_bps, |expected| expected.max(self.best_bps))
    }
}

/// Rate of `bytes` bytes in `ns` nanoseconds, in bit/s.
fn rate(bytes: u64, ns: u64) -> f64 {
    bytes as f64 * 8e9 / ns.max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WINDOW: u64 = 1_000;

    fn config() -> SafeguardConfig {
        SafeguardConfig::new(WINDOW)
    }

    /// Feeds windows with these bytes, from `now` on; returns whether each caused a fallback.
    fn windows(guard: &mut Safeguard, now: &mut u64, total: &mut u64, bytes: &[u64]) -> Vec<bool> {
        let mut decide = |&bytes: &u64| {
            *now += WINDOW;
            *total += bytes;
            matches!(guard.observe(*now, *total), Decision::FallBack(_))
        };
        bytes.iter().map(&mut decide).collect()
    }

    fn group() -> Safeguard {
        let mut guard = Safeguard::new(config());
        guard.group_begins(0, false);
        guard
    }

    #[test]
    fn two_low_windows_cause_a_fallback_and_one_does_not() {
        let (mut guard, mut now, mut total) = (group(), 0, 0);
        let decisions = windows(
            &mut guard,
            &mut now,
            &mut total,
            &[100, 40, 100, 50, 49, 49],
        );
        assert_eq!(decisions, [false, false, false, false, false, true]);
    }

    #[test]
    fn group_without_progress_is_left() {
        let mut guard = group();
        assert_eq!(guard.observe(WINDOW, 0), Decision::Stay);
        let Decision::FallBack(why) = guard.observe(2 * WINDOW, 0) else {
            panic!("a stalled group is kept");
        };
        assert_eq!(why.to_string(), "nothing was ever acknowledged");
    }

    #[test]
    fn expected_goodput_reveals_a_group_that_is_slow_from_the_start() {
        let mut guard = Safeguard::new(SafeguardConfig {
            expected_bps: Some(1e9),
            ..config()
        });
        guard.group_begins(0, false);
        assert_eq!(guard.observe(WINDOW, 60), Decision::Stay);
        let why = LowGoodput {
            measured_bps: 4.8e8,
            normal_bps: 1e9,
        };
        assert_eq!(guard.observe(2 * WINDOW, 120), Decision::FallBack(why));
        assert_eq!(
            why.to_string(),
            "0.480 Gbit/s where 1.000 Gbit/s are normal"
        );
    }

    #[test]
    fn no_decision_within_a_window() {
        let mut guard = group();
        for now in 0..WINDOW {
            assert_eq!(guard.observe(now, 0), Decision::Stay);
        }
        assert_eq!(guard.next(), WINDOW);
    }

    #[test]
    fn group_on_probation_has_a_higher_threshold() {
        let (mut guard, mut now, mut total) = (group(), 0, 0);
        windows(&mut guard, &mut now, &mut total, &[100, 0, 0]);
        guard.group_begins(now, true);
        total = 0;
        let decisions = windows(&mut guard, &mut now, &mut total, &[60, 60]);
        assert_eq!(decisions, [false, true]);

        guard.group_begins(now, true);
        total = 0;
        windows(&mut guard, &mut now, &mut total, &[80]);
        assert!(guard.is_on_probation());
        windows(&mut guard, &mut now, &mut total, &[80]);
        assert!(!guard.is_on_probation());
        assert_eq!(
            windows(&mut guard, &mut now, &mut total, &[60, 60]),
            [false, false]
        );
    }

    #[test]
    fn each_failure_doubles_the_wait_up_to_a_limit() {
        let mut guard = Safeguard::new(config());
        let mut waits = Vec::new();
        for _ in 0..9 {
            guard.overlay_begins(0);
            waits.push(guard.next() / (8 * WINDOW));
            assert_eq!(guard.observe(guard.next() - 1, 0), Decision::Stay);
            assert_eq!(guard.observe(guard.next(), 0), Decision::Return);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }

    #[test]
    fn wait_is_reset_after_an_equally_long_good_time() {
        let mut guard = Safeguard::new(config());
        guard.overlay_begins(0);
        guard.overlay_begins(0);
        guard.group_begins(0, true);
        let (mut now, mut total) = (0, 0);
        // Trusted after two windows; the next wait would be 32.
        windows(&mut guard, &mut now, &mut total, &[100; 33]);
        let mut early = guard.clone();
        early.overlay_begins(now);
        assert_eq!(early.next() - now, 32 * WINDOW);
        windows(&mut guard, &mut now, &mut total, &[100; 1]);
        guard.overlay_begins(now);
        assert_eq!(guard.next() - now, 8 * WINDOW);
    }

    proptest! {
        /// For any history: a group is kept while every second window is good, left within about two windows after it stops, and not tried
        /// before the wait is over.
        #[test]
        fn good_groups_are_kept_and_failed_ones_are_not(
            bytes in proptest::collection::vec(50u64..=100, 1..60),
            looks in 1u64..7,
        ) {
            let mut guard = group();
            let (mut now, mut total) = (0, 0);
            for bytes in bytes {
                for look in 1..=looks {
                    let at = now + WINDOW * look / looks;
                    let had = total + bytes * look / looks;
                    prop_assert_eq!(guard.observe(at, had), Decision::Stay);
                }
                now += WINDOW;
                total += bytes;
            }
            prop_assert_eq!(guard.observe(now + WINDOW, total), Decision::Stay);
            let decision = guard.observe(now + 2 * WINDOW, total);
            prop_assert!(matches!(decision, Decision::FallBack(_)), "{:?}", decision);
            now += 2 * WINDOW;
            guard.overlay_begins(now);
            let wait = guard.next() - now;
            prop_assert!(wait >= config().retry);
            prop_assert_eq!(guard.observe(now + wait - 1, 0), Decision::Stay);
            prop_assert_eq!(guard.observe(now + wait, 0), Decision::Return);
        }

        /// For any history: leaving and returning alternate, and are not faster than windows and wait permit.
        #[test]
        fn it_does_not_flap(steps in proptest::collection::vec((1u64..3_000, 0u64..300), 1..400)) {
            let mut guard = group();
            let (mut now, mut total, mut began) = (0, 0, 0);
            let mut in_group = true;
            for (ns, bytes) in steps {
                now += ns;
                total += bytes;
                match guard.observe(now, total) {
                    Decision::Stay => {}
                    Decision::FallBack(_) => {
                        prop_assert!(in_group && now - began >= u64::from(WINDOWS) * WINDOW);
                        guard.overlay_begins(now);
                        (in_group, began, total) = (false, now, 0);
                    }
                    Decision::Return => {
                        prop_assert!(!in_group && now - began >= config().retry);
                        guard.group_begins(now, true);
                        (in_group, began, total) = (true, now, 0);
                    }
                }
            }
        }
    }
}
