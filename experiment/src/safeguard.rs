//! When to give a group up for an overlay, and when to try it again.
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
//! The machine receives the time and how many bytes the source has acknowledged; it reads no clock. What a fall back and a return
//! take is its user's business.

use std::fmt;

/// How many windows in a row must be low before a group is given up, and good before it is trusted again.
pub const WINDOWS: u32 = 2;

/// How much longer than at first a failed group is left alone at most.
const LONGEST_WAIT: u64 = 64;

/// What is too slow, and how long to wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SafeguardConfig {
    /// The share of the normal goodput, above 0 and below 1, under which a window is low. A group on probation must reach the
    /// middle between this and 1, so that one at the edge does not go to and fro.
    pub below: f64,
    /// Length of a window in ns. Shorter ones act sooner and mistake pauses, such as one ACK timeout, for trouble.
    pub window: u64,
    /// After how many ns on the overlay the group is tried again. Each time that it fails makes it twice as long, up to 64 times.
    pub retry: u64,
    /// What a good group delivers, in bit/s. If `None`, the best window of this transfer alone says what is normal.
    pub expected_bps: Option<f64>,
}

impl SafeguardConfig {
    /// 50 %, as paper 003 suggests, and another try after eight windows.
    pub fn new(window: u64) -> SafeguardConfig {
        SafeguardConfig {
            below: 0.5,
            window,
            retry: window.saturating_mul(8),
            expected_bps: None,
        }
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// Go on as before.
    Stay,
    /// Give the group up.
    FallBack(LowGoodput),
    /// Try the group again.
    Return,
}

/// Why a group was given up: its goodput over the low windows, and what is normal, in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LowGoodput {
    pub got_bps: f64,
    pub normal_bps: f64,
}

impl fmt::Display for LowGoodput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let normal = self.normal_bps / 1e9;
        if self.got_bps > 0.0 {
            let got = self.got_bps / 1e9;
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

/// The machine.
#[derive(Debug, Clone)]
pub struct Safeguard {
    config: SafeguardConfig,
    /// Bit/s of the best window of a group so far.
    best_bps: f64,
    /// How long the group is left alone the next time, in ns.
    wait: u64,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Group {
        /// Where the present window began.
        since: u64,
        bytes: u64,
        /// Low and good windows in a row; one of them is 0.
        low: u32,
        good: u32,
        /// When and at how many bytes the low ones began.
        low_since: (u64, u64),
        standing: Standing,
    },
    Overlay {
        try_at: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Probation,
    /// Trusted since then.
    Trusted(u64),
}

impl Safeguard {
    /// A group is about to be asked for.
    pub fn new(config: SafeguardConfig) -> Safeguard {
        Safeguard {
            wait: config.retry,
            config,
            best_bps: 0.0,
            state: State::Overlay { try_at: 0 },
        }
    }

    /// The message goes through the group from now on; `on_probation` unless this is the first time.
    pub fn group_begins(&mut self, now: u64, on_probation: bool) {
        self.state = State::Group {
            since: now,
            bytes: 0,
            low: 0,
            good: 0,
            low_since: (now, 0),
            standing: match on_probation {
                true => Standing::Probation,
                false => Standing::Trusted(now),
            },
        };
    }

    /// The message goes through the overlay: there is no group, it has been given up, or it was refused once more. The next such
    /// time is twice as long, unless the group does well for a while.
    pub fn overlay_begins(&mut self, now: u64) {
        self.state = State::Overlay {
            try_at: now.saturating_add(self.wait),
        };
        let longest = self.config.retry.saturating_mul(LONGEST_WAIT);
        self.wait = self.wait.saturating_mul(2).min(longest);
    }

    /// Takes how many bytes have been acknowledged since the group, or the overlay, began.
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
                standing,
            } => {
                let elapsed = now.saturating_sub(*since);
                if elapsed < self.config.window.max(1) {
                    return Decision::Stay;
                }
                let got_bps = rate(acknowledged.saturating_sub(*bytes), elapsed);
                let needed = match standing {
                    Standing::Trusted(_) => self.config.below,
                    Standing::Probation => (1.0 + self.config.below) / 2.0,
                };
                // Nothing at all is low even where nobody knows what is normal.
                if got_bps == 0.0 || got_bps < needed * normal_bps {
                    if *low == 0 {
                        *low_since = (*since, *bytes);
                    }
                    (*low, *good) = (*low + 1, 0);
                } else {
                    (*low, *good) = (0, *good + 1);
                }
                (*since, *bytes) = (now, acknowledged);
                self.best_bps = self.best_bps.max(got_bps);
                if *low >= WINDOWS {
                    let (from, had) = *low_since;
                    return Decision::FallBack(LowGoodput {
                        got_bps: rate(acknowledged.saturating_sub(had), now - from),
                        normal_bps,
                    });
                }
                match *standing {
                    Standing::Probation if *good >= WINDOWS => *standing = Standing::Trusted(now),
                    Standing::Trusted(at) if now - at >= self.wait => {
                        self.wait = self.config.retry;
                    }
                    Standing::Probation | Standing::Trusted(_) => {}
                }
                Decision::Stay
            }
        }
    }

    /// Whether the group runs and has not proved itself yet.
    pub fn is_on_probation(&self) -> bool {
        let State::Group { standing, .. } = self.state else {
            return false;
        };
        standing == Standing::Probation
    }

    /// When [`Safeguard::observe`] decides next, unless something else happens before.
    pub fn next(&self) -> u64 {
        match self.state {
            State::Group { since, .. } => since.saturating_add(self.config.window.max(1)),
            State::Overlay { try_at } => try_at,
        }
    }

    fn normal_bps(&self) -> f64 {
        self.config
            .expected_bps
            .map_or(self.best_bps, |expected| expected.max(self.best_bps))
    }
}

/// Bit/s.
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

    /// Shows one window after another with these bytes, from `now` on; gives the decisions.
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
    fn one_low_window_is_forgiven_and_two_are_not() {
        let (mut guard, mut now, mut total) = (group(), 0, 0);
        let told = windows(
            &mut guard,
            &mut now,
            &mut total,
            &[100, 40, 100, 50, 49, 49],
        );
        assert_eq!(told, [false, false, false, false, false, true]);
    }

    #[test]
    fn a_group_that_never_moved_has_stalled() {
        let mut guard = group();
        assert_eq!(guard.observe(WINDOW, 0), Decision::Stay);
        let Decision::FallBack(why) = guard.observe(2 * WINDOW, 0) else {
            panic!("a stalled group is kept");
        };
        assert_eq!(why.to_string(), "nothing was ever acknowledged");
    }

    #[test]
    fn a_group_that_was_slow_from_the_start_is_known_by_what_is_expected() {
        let mut guard = Safeguard::new(SafeguardConfig {
            expected_bps: Some(1e9),
            ..config()
        });
        guard.group_begins(0, false);
        assert_eq!(guard.observe(WINDOW, 60), Decision::Stay);
        let why = LowGoodput {
            got_bps: 4.8e8,
            normal_bps: 1e9,
        };
        assert_eq!(guard.observe(2 * WINDOW, 120), Decision::FallBack(why));
        assert_eq!(
            why.to_string(),
            "0.480 Gbit/s where 1.000 Gbit/s are normal"
        );
    }

    #[test]
    fn nothing_is_decided_within_a_window() {
        let mut guard = group();
        for now in 0..WINDOW {
            assert_eq!(guard.observe(now, 0), Decision::Stay);
        }
        assert_eq!(guard.next(), WINDOW);
    }

    #[test]
    fn a_group_on_probation_must_do_better_than_one_that_is_trusted() {
        let (mut guard, mut now, mut total) = (group(), 0, 0);
        windows(&mut guard, &mut now, &mut total, &[100, 0, 0]);
        guard.group_begins(now, true);
        total = 0;
        let told = windows(&mut guard, &mut now, &mut total, &[60, 60]);
        assert_eq!(told, [false, true]);

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
    fn the_wait_is_short_again_when_the_group_has_been_good_as_long() {
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
        /// Whatever a group does: it is kept while every other window is good, and given up within two windows and a bit when
        /// it has stopped; and it is never tried before its time.
        #[test]
        fn good_groups_are_kept_and_dead_ones_are_not(
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
            let told = guard.observe(now + 2 * WINDOW, total);
            prop_assert!(matches!(told, Decision::FallBack(_)), "{:?}", told);
            now += 2 * WINDOW;
            guard.overlay_begins(now);
            let wait = guard.next() - now;
            prop_assert!(wait >= config().retry);
            prop_assert_eq!(guard.observe(now + wait - 1, 0), Decision::Stay);
            prop_assert_eq!(guard.observe(now + wait, 0), Decision::Return);
        }

        /// Falling back and returning alternate in any history, and never come faster than the windows and the wait allow.
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
