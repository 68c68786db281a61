//! Parameters of DCQCN, for senders and receivers.

use serde::{Deserialize, Serialize};

/// Lowest and highest port rate in bit/s for which the paper's parameters apply unscaled: the rate of the paper's own
/// ports, and the highest rate that Gleam and Cepheus measure.
const PAPER_RATES: (u64, u64) = (40_000_000_000, 100_000_000_000);

/// Parameters of DCQCN. Names and defaults are those of the paper's section 5.2 and figure 14, unless stated otherwise.
///
/// Rates and bytes are for ports of 40 to 100 Gbit/s; [`DcqcnConfig::new`] scales them for others. Times are the same for every port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DcqcnConfig {
    /// Rate of the host's port in bit/s: the initial and highest rate of every queue pair. At least 1.
    pub line_rate: u64,
    /// Lowest rate of a queue pair in bit/s; 10 Mbit/s. (The paper has no such bound; NICs do.) A higher bound makes the shares of
    /// many flows less fair.
    pub min_rate: u64,
    /// N: nanoseconds between two CNPs of a queue pair; 50 us. A longer interval makes senders react later.
    pub cnp_interval: u64,
    /// 1/g: number of CNPs, or of periods without one, after which alpha has changed by about a factor e; 256.
    pub inverse_gain: u32,
    /// K: nanoseconds without a CNP after which alpha decreases; 55 us. Must be longer than `cnp_interval`.
    pub alpha_timer: u64,
    /// T: period of the increase timer, in nanoseconds; 55 us.
    pub increase_timer: u64,
    /// B: bytes sent between two increases of the rate by the byte counter; 10 MB.
    pub byte_counter: u64,
    /// F: number of increases, by timer or by byte counter, that only recover the rate before the last decrease; 5.
    pub fast_recovery: u32,
    /// R_AI: additive increase of the target rate in bit/s; 40 Mbit/s.
    pub additive_step: u64,
    /// R_HAI: hyper increase of the target rate in bit/s, when both timer and byte counter have passed fast recovery; 400 Mbit/s. (The
    /// paper gives no value; this is ten times R_AI.)
    pub hyper_step: u64,
    /// Number of bytes that a queue pair may send in one burst after a pause, or when its driver is late; 8,192. (Not in
    /// the paper, whose NICs are never late.)
    pub burst: u64,
}

impl DcqcnConfig {
    /// Creates the defaults for a port of `line_rate` bit/s.
    ///
    /// Below 40 and above 100 Gbit/s, `min_rate`, `byte_counter` and both increases are proportional to the rate, so
    /// that recovery takes the same time on any port. Unscaled, a port of 100 Mbit/s would need 0.8 s for each increase
    /// by the byte counter. A port of 400 Gbit/s would recover four times as slowly as one of 100 Gbit/s.
    pub const fn new(line_rate: u64) -> DcqcnConfig {
        DcqcnConfig {
            line_rate,
            min_rate: scaled(10_000_000, line_rate),
            cnp_interval: 50_000,
            inverse_gain: 256,
            alpha_timer: 55_000,
            increase_timer: 55_000,
            byte_counter: scaled(10_000_000, line_rate),
            fast_recovery: 5,
            additive_step: scaled(40_000_000, line_rate),
            hyper_step: scaled(400_000_000, line_rate),
            burst: 8_192,
        }
    }
}

/// Scales `figure`, a parameter of the paper, to a port of `line_rate` bit/s; the result is at least 1.
const fn scaled(figure: u64, line_rate: u64) -> u64 {
    let (low, high) = PAPER_RATES;
    let reference = if line_rate < low {
        low
    } else if line_rate > high {
        high
    } else {
        return figure;
    };
    let scaled = figure as u128 * line_rate as u128 / reference as u128;
    match scaled {
        0 => 1,
        1..=0xffff_ffff_ffff_ffff => scaled as u64,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_equal_the_papers_from_40_to_100_gbit_per_second() {
        for line_rate in [40_000_000_000, 56_000_000_000, 100_000_000_000] {
            let config = DcqcnConfig::new(line_rate);
            assert_eq!(config.min_rate, 10_000_000);
            assert_eq!(config.byte_counter, 10_000_000);
            assert_eq!(config.additive_step, 40_000_000);
            assert_eq!(config.hyper_step, 400_000_000);
        }
    }

    #[test]
    fn parameters_are_proportional_to_other_rates() {
        let slow = DcqcnConfig::new(100_000_000);
        assert_eq!(slow.min_rate, 25_000);
        assert_eq!(slow.byte_counter, 25_000);
        assert_eq!(slow.additive_step, 100_000);
        assert_eq!(slow.hyper_step, 1_000_000);
        let fast = DcqcnConfig::new(400_000_000_000);
        assert_eq!(fast.additive_step, 160_000_000);
        assert_eq!(fast.hyper_step, 1_600_000_000);
        for config in [slow, fast] {
            assert_eq!(
                (config.cnp_interval, config.increase_timer),
                (50_000, 55_000)
            );
        }
    }

    #[test]
    fn extreme_rates_give_valid_parameters() {
        assert_eq!(DcqcnConfig::new(0).additive_step, 1);
        assert_eq!(DcqcnConfig::new(u64::MAX).line_rate, u64::MAX);
    }
}
