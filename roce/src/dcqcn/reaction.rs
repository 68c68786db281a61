//! The reaction point: controls the rate of a sender.
//!
//! A CNP cuts the rate by the share alpha/2 and saves the previous rate as the target. Timer and byte counter then
//! cause increases. The first ones halve the distance to the target (fast recovery). Later ones also raise the target
//! (additive increase), by more when both timer and byte counter have passed fast recovery (hyper increase). Alpha
//! increases with each CNP and decreases with each period without one.
//!
//! The driver does not run these timers. Their effects up to `now` are computed when a packet is sent or a CNP arrives,
//! because the rate is not needed in between.

use super::config::DcqcnConfig;

/// Phase of DCQCN's rate control, which defines how far an increase raises the target rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The sender uses the full line rate: no CNP has arrived, or the rate has recovered since the last one.
    FullRate,
    /// The target rate stays the same, and the current rate approaches it.
    FastRecovery,
    /// Each increase raises the target rate by R_AI ([`DcqcnConfig::additive_step`]).
    AdditiveIncrease,
    /// Each increase raises the target rate by R_HAI ([`DcqcnConfig::hyper_step`]).
    HyperIncrease,
}

/// Fraction of the line rate from which on the current rate counts as the line rate.
const NEARLY_FULL: f64 = 0.9999;
/// Value of alpha (the estimate of congestion) below which it counts as zero.
const NO_ALPHA: f64 = 1e-9;

/// DCQCN's reaction point of one queue pair: controls the rate of the sender, and paces its packets.
#[derive(Debug, Clone)]
pub struct ReactionPoint {
    config: DcqcnConfig,
    /// Current rate R_C in bit/s.
    current: f64,
    /// Target rate R_T in bit/s.
    target: f64,
    /// Alpha: the estimate of congestion, 0 to 1.
    alpha: f64,
    /// Start of the present period of the alpha timer, in nanoseconds; unused before the first CNP.
    alpha_since: u64,
    /// Start of the present period of the increase timer, in nanoseconds.
    timer_since: u64,
    /// Bytes sent since the last increase by the byte counter.
    bytes: u64,
    /// Number of increases by the timer since the last CNP.
    timer_count: u32,
    /// Number of increases by the byte counter since the last CNP.
    byte_count: u32,
    /// Whether a CNP has reduced the rate, and the rate has not recovered to the line rate since.
    limited: bool,
    /// Earliest time of the next packet, in nanoseconds.
    next_send: u64,
}

impl ReactionPoint {
    /// Creates a reaction point at line rate, with alpha 1.
    pub fn new(config: DcqcnConfig) -> ReactionPoint {
        let line = line_rate(&config);
        ReactionPoint {
            config,
            current: line,
            target: line,
            alpha: 1.0,
            alpha_since: 0,
            timer_since: 0,
            bytes: 0,
            timer_count: 0,
            byte_count: 0,
            limited: false,
            next_send: 0,
        }
    }

    /// The current rate R_C in bit/s, as of the last packet or CNP.
    pub fn rate(&self) -> f64 {
        self.current
    }

    /// The target rate R_T in bit/s, to which the current rate recovers after a CNP.
    pub fn target(&self) -> f64 {
        self.target
    }

    /// Alpha: the estimate of congestion, 0 to 1. A CNP cuts the rate by the fraction alpha/2.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Phase of the last increase of the rate, or of the next one if there was none since the last CNP.
    pub fn phase(&self) -> Phase {
        let bound = self.config.fast_recovery;
        if !self.limited {
            Phase::FullRate
        } else if self.timer_count.max(self.byte_count) <= bound {
            Phase::FastRecovery
        } else if self.timer_count.min(self.byte_count) > bound {
            Phase::HyperIncrease
        } else {
            Phase::AdditiveIncrease
        }
    }

    /// Handles a congestion notification packet (CNP): reduces the rate.
    pub fn congested(&mut self, now: u64) {
        self.advance(now);
        self.target = self.current;
        self.current *= 1.0 - self.alpha / 2.0;
        let floor = (self.config.min_rate as f64).min(line_rate(&self.config));
        self.current = self.current.max(floor);
        let gain = self.gain();
        self.alpha = (1.0 - gain) * self.alpha + gain;
        self.alpha_since = now;
        self.timer_since = now;
        self.bytes = 0;
        self.timer_count = 0;
        self.byte_count = 0;
        self.limited = true;
    }

    /// Records a packet of `bytes` on the wire (preamble and gap included), sent at `now` nanoseconds. Returns the
    /// earliest time of the next packet in nanoseconds, if that is later than `now`.
    pub fn sent(&mut self, now: u64, bytes: u64) -> Option<u64> {
        self.advance(now);
        if !self.limited {
            self.next_send = now;
            return None;
        }
        self.bytes += bytes;
        let per_increase = self.config.byte_counter.max(1);
        while self.limited && self.bytes >= per_increase {
            self.bytes -= per_increase;
            self.byte_count = self.byte_count.saturating_add(1);
            self.increase();
        }
        let since = now.saturating_sub(self.time_of(self.config.burst));
        self.next_send = self.next_send.max(since) + self.time_of(bytes);
        (self.next_send > now).then_some(self.next_send)
    }

    /// Applies the effects that the alpha timer and the increase timer have had up to `now`.
    fn advance(&mut self, now: u64) {
        let period = self.config.alpha_timer.max(1);
        let mut periods = now.saturating_sub(self.alpha_since) / period;
        self.alpha_since += periods * period;
        while periods > 0 && self.alpha > 0.0 {
            periods -= 1;
            self.alpha *= 1.0 - self.gain();
            if self.alpha < NO_ALPHA {
                self.alpha = 0.0;
            }
        }
        let period = self.config.increase_timer.max(1);
        let mut increases = now.saturating_sub(self.timer_since) / period;
        self.timer_since += increases * period;
        while increases > 0 && self.limited {
            increases -= 1;
            self.timer_count = self.timer_count.saturating_add(1);
            let before = (self.current, self.target);
            self.increase();
            if (self.current, self.target) == before {
                // Further periods have no effect.
                break;
            }
        }
    }

    fn increase(&mut self) {
        let line = line_rate(&self.config);
        let step = match self.phase() {
            Phase::FullRate => return,
            Phase::FastRecovery => 0,
            Phase::AdditiveIncrease => self.config.additive_step,
            Phase::HyperIncrease => self.config.hyper_step,
        };
        self.target = (self.target + step as f64).min(line);
        self.current = (self.target + self.current) / 2.0;
        if self.current >= line * NEARLY_FULL {
            self.current = line;
            self.target = line;
            self.limited = false;
        }
    }

    fn gain(&self) -> f64 {
        1.0 / f64::from(self.config.inverse_gain.max(1))
    }

    /// Nanoseconds that sending `bytes` takes at the current rate.
    fn time_of(&self, bytes: u64) -> u64 {
        (bytes as f64 * 8e9 / self.current).ceil() as u64
    }
}

fn line_rate(config: &DcqcnConfig) -> f64 {
    config.line_rate.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 40_000_000_000;
    const T: u64 = 55_000;

    fn config() -> DcqcnConfig {
        DcqcnConfig {
            burst: 0,
            ..DcqcnConfig::new(LINE)
        }
    }

    /// Rate and target in Mbit/s, rounded, and the phase.
    fn state(point: &ReactionPoint) -> (u64, u64, Phase) {
        let mbit = |rate: f64| (rate / 1e6).round() as u64;
        (mbit(point.rate()), mbit(point.target()), point.phase())
    }

    #[test]
    fn trace_of_one_cut_and_the_recovery_by_timer() {
        let mut point = ReactionPoint::new(config());
        assert_eq!(state(&point), (40_000, 40_000, Phase::FullRate));
        point.congested(0);
        assert_eq!(state(&point), (20_000, 40_000, Phase::FastRecovery));
        let mut trace = Vec::new();
        for period in 1..=7 {
            point.advance(period * T);
            trace.push(state(&point));
        }
        let expected = [
            (30_000, 40_000, Phase::FastRecovery),
            (35_000, 40_000, Phase::FastRecovery),
            (37_500, 40_000, Phase::FastRecovery),
            (38_750, 40_000, Phase::FastRecovery),
            (39_375, 40_000, Phase::FastRecovery),
            (39_688, 40_000, Phase::AdditiveIncrease),
            (39_844, 40_000, Phase::AdditiveIncrease),
        ];
        assert_eq!(trace, expected);
        point.advance(100 * T);
        assert_eq!(state(&point), (40_000, 40_000, Phase::FullRate));
    }

    #[test]
    fn trace_of_additive_and_hyper_increase() {
        let mut point = ReactionPoint::new(config());
        // After two cuts in a row, the target is far below the line rate.
        point.congested(0);
        point.congested(0);
        assert_eq!(state(&point), (10_000, 20_000, Phase::FastRecovery));
        point.advance(5 * T);
        assert_eq!(state(&point), (19_688, 20_000, Phase::FastRecovery));
        point.advance(6 * T);
        assert_eq!(state(&point), (19_864, 20_040, Phase::AdditiveIncrease));
        point.advance(7 * T);
        assert_eq!(state(&point), (19_972, 20_080, Phase::AdditiveIncrease));
        // The byte counter is in its own fast recovery, while the timer has passed its.
        for count in 1..=5 {
            point.sent(7 * T, 10_000_000);
            let target = 20_080 + 40 * count;
            assert_eq!(
                (point.target() / 1e6).round() as u64,
                target,
                "{count} times 10 MB"
            );
            assert_eq!(point.phase(), Phase::AdditiveIncrease);
        }
        point.sent(7 * T, 10_000_000);
        assert_eq!(point.phase(), Phase::HyperIncrease);
        assert_eq!((point.target() / 1e6).round() as u64, 20_280 + 400);
        point.advance(8 * T);
        assert_eq!((point.target() / 1e6).round() as u64, 20_680 + 400);
    }

    #[test]
    fn alpha_rises_with_cnps_and_falls_in_silence() {
        let mut point = ReactionPoint::new(config());
        point.congested(0);
        assert_eq!(point.alpha(), 1.0, "the initial value is the highest");
        point.advance(55_000 - 1);
        assert_eq!(point.alpha(), 1.0);
        point.advance(2 * 55_000);
        let g = 1.0 / 256.0;
        assert!((point.alpha() - (1.0 - g) * (1.0 - g)).abs() < 1e-12);
        let low = point.alpha();
        let rate = point.rate();
        point.congested(3 * 55_000 - 1);
        assert!((point.alpha() - ((1.0 - g) * low + g)).abs() < 1e-12);
        assert!((point.rate() - rate * (1.0 - low / 2.0)).abs() < 1.0);
        point.advance(u64::MAX / 2);
        assert_eq!(point.alpha(), 0.0);
        assert_eq!(point.phase(), Phase::FullRate);
    }

    #[test]
    fn second_cut_in_mild_congestion_is_small() {
        let mut point = ReactionPoint::new(config());
        point.congested(0);
        // After half a second without CNPs: alpha is nearly 0, the rate is the line rate.
        point.advance(500_000_000);
        point.congested(500_000_000);
        assert!(point.rate() > 0.99 * LINE as f64);
    }

    #[test]
    fn packets_are_paced_at_the_rate() {
        let mut point = ReactionPoint::new(config());
        assert_eq!(point.sent(0, 5_000), None, "the line itself paces");
        point.congested(0);
        // 5,000 bytes take 2 us at 20 Gbit/s.
        assert_eq!(point.sent(0, 5_000), Some(2_000));
        assert_eq!(point.sent(2_000, 5_000), Some(4_000));
        assert_eq!(
            point.sent(9_000, 5_000),
            Some(11_000),
            "no credit for silence"
        );
    }

    #[test]
    fn late_driver_catches_up_within_the_burst() {
        let mut point = ReactionPoint::new(DcqcnConfig {
            burst: 10_000,
            ..DcqcnConfig::new(LINE)
        });
        point.congested(0);
        assert_eq!(point.sent(50_000, 5_000), None);
        assert_eq!(point.sent(50_000, 5_000), None);
        assert_eq!(point.sent(50_000, 5_000), Some(52_000));
    }

    #[test]
    fn rate_has_a_floor() {
        let mut point = ReactionPoint::new(config());
        for i in 0..100 {
            point.congested(i);
        }
        assert_eq!(point.rate(), 10e6);
    }

    /// Nanoseconds until a sender that was cut to a sixteenth of the line rate is back at it. It always has data to
    /// send.
    fn recovery(line_rate: u64) -> u64 {
        let mut point = ReactionPoint::new(DcqcnConfig {
            burst: 0,
            ..DcqcnConfig::new(line_rate)
        });
        for _ in 0..4 {
            point.congested(0);
        }
        let mut now = 0;
        while point.phase() != Phase::FullRate {
            now = point.sent(now, 1_000).unwrap_or(now + 1);
        }
        now
    }

    #[test]
    fn recovery_takes_about_as_long_on_any_port() {
        let at_paper = recovery(LINE) as f64;
        for line_rate in [100_000_000, 1_000_000_000, 10_000_000_000, 400_000_000_000] {
            let ratio = recovery(line_rate) as f64 / at_paper;
            assert!((0.3..3.0).contains(&ratio), "{line_rate} bit/s: {ratio}");
        }
    }

    #[test]
    fn invalid_parameters_neither_hang_nor_panic() {
        let mut point = ReactionPoint::new(DcqcnConfig {
            line_rate: 0,
            min_rate: u64::MAX,
            cnp_interval: 0,
            inverse_gain: 0,
            alpha_timer: 0,
            increase_timer: 0,
            byte_counter: 0,
            fast_recovery: 0,
            additive_step: 0,
            hyper_step: 0,
            burst: u64::MAX,
        });
        for now in [0, 1, u64::MAX / 4] {
            point.congested(now);
            point.sent(now, 100);
        }
    }
}
