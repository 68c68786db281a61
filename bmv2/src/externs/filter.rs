//! Low-pass filters (`Lpf` of Tofino): an exponential moving average of values, or a decaying sum of amounts. The
//! average has two time constants, for rising and falling values.
//!
//! Over a time `t` between two calls, the stored value decays by the factor `exp(-t / T)` for the time constant `T`.
//! All computations use integers, so that results are the same on all machines.

use crate::exec::big::Big;

/// Configuration of a low-pass filter, decoded from its 80-bit register cell. The compiler's `Lpf` defines the layout
/// of the cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spec {
    kind: Kind,
    /// Time constant of the average for values above it, in nanoseconds.
    gain: u64,
    /// Time constant in nanoseconds: of the average for values below it, or of the decaying sum ([`Kind::Rate`]).
    decay: u64,
    /// Number of bits by which the output is shifted to the right.
    scale: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// No filtering: the output is the input.
    #[default]
    Off,
    /// The output is the moving average of the inputs.
    Sample,
    /// The output is the decaying sum of the inputs.
    Rate,
}

/// State of a low-pass filter, stored in a 128-bit register cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The average or sum, as a fixed-point number with [`POINT`] fractional bits.
    mean: u64,
    /// Time of the last input in nanoseconds.
    at: u64,
}

/// Number of fractional bits of the stored average or sum.
const POINT: u32 = 16;
/// Width of inputs and outputs in bits.
const RESULT_BITS: u32 = 32;

impl Spec {
    pub(crate) fn of(cell: &Big) -> Spec {
        let bits = u128::from(cell.word(1)) << 64 | u128::from(cell.word(0));
        Spec {
            kind: match (bits >> 72) as u8 {
                1 => Kind::Sample,
                2 => Kind::Rate,
                _ => Kind::Off,
            },
            gain: u64::from((bits >> 40) as u32),
            decay: u64::from((bits >> 8) as u32),
            scale: u32::from(bits as u8),
        }
    }

    /// Adds an input at time `now` in nanoseconds, and returns the filter's output.
    pub(crate) fn apply(self, memory: &mut Memory, value: u64, now: u64) -> u64 {
        let value = value & ((1 << RESULT_BITS) - 1);
        if self.kind == Kind::Off {
            return value;
        }
        let elapsed = now.saturating_sub(memory.at);
        memory.at = memory.at.max(now);
        let new = value << POINT;
        memory.mean = match self.kind {
            Kind::Rate => decayed(memory.mean, elapsed, self.decay).saturating_add(new),
            _ if new >= memory.mean => new - decayed(new - memory.mean, elapsed, self.gain),
            _ => new + decayed(memory.mean - new, elapsed, self.decay),
        };
        let result = (memory.mean >> POINT).checked_shr(self.scale).unwrap_or(0);
        result.min((1 << RESULT_BITS) - 1)
    }
}

impl Memory {
    pub(crate) fn of(cell: &Big) -> Memory {
        Memory {
            mean: cell.word(0),
            at: cell.word(1),
        }
    }

    pub(crate) fn to_cell(self) -> Big {
        Big::from_unsigned(&[self.mean, self.at])
    }
}

/// Returns `amount * exp(-elapsed / constant)`, or 0 if the constant is 0. `constant` is the time constant.
fn decayed(amount: u64, elapsed: u64, constant: u64) -> u64 {
    if constant == 0 {
        return 0;
    }
    // exp(-t / T) = 2^-n, with n = t / T * log2(e) in fixed point with 32 fractional bits.
    const LOG2_E: u128 = 0x1_7154_7653;
    let halvings = u128::from(elapsed).saturating_mul(LOG2_E) / u128::from(constant);
    let whole = halvings >> 32;
    if whole >= 64 {
        return 0;
    }
    let mut left = u128::from(amount) >> whole;
    let fraction = halvings as u32;
    for (place, root) in (1..=32).zip(ROOTS_OF_HALF) {
        if fraction >> (32 - place) & 1 == 1 {
            left = (left * u128::from(root)) >> 63;
        }
    }
    left as u64
}

/// 2^(-1/2), 2^(-1/4), 2^(-1/8), ..., with 63 fractional bits.
const ROOTS_OF_HALF: [u64; 32] = {
    let mut roots = [0; 32];
    let mut root = 1u128 << 62;
    let mut at = 0;
    while at < roots.len() {
        root = (root << 63).isqrt();
        roots[at] = root as u64;
        at += 1;
    }
    roots
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec(kind: Kind, gain: u64, decay: u64) -> Spec {
        Spec {
            kind,
            gain,
            decay,
            scale: 0,
        }
    }

    #[test]
    fn a_cell_is_decoded_to_kind_times_and_scale() {
        let bits: u128 = 2 << 72 | 0x1122_3344 << 40 | 0x5566_7788 << 8 | 3;
        let cell = Big::from_unsigned(&[bits as u64, (bits >> 64) as u64]);
        let expected = Spec {
            kind: Kind::Rate,
            gain: 0x1122_3344,
            decay: 0x5566_7788,
            scale: 3,
        };
        assert_eq!(Spec::of(&cell), expected);
        assert_eq!(Spec::of(&Big::default()), Spec::default());
    }

    #[test]
    fn an_unconfigured_filter_returns_the_value_and_stores_nothing() {
        let mut memory = Memory::default();
        assert_eq!(Spec::default().apply(&mut memory, 77, 1_000), 77);
        assert_eq!(memory, Memory::default());
    }

    #[test]
    fn a_mean_is_within_one_percent_after_five_time_constants() {
        let filter = spec(Kind::Sample, 1_000, 4_000);
        let mut memory = Memory::default();
        filter.apply(&mut memory, 0, 0);
        // After one time constant: 1 - 1/e of the step.
        assert_eq!(filter.apply(&mut memory, 100_000, 1_000), 63_212);
        assert!(filter.apply(&mut memory, 100_000, 5_000) > 99_000);
        // Decreases have a time constant four times as large.
        let mut memory = Memory {
            mean: 100_000 << POINT,
            at: 0,
        };
        assert_eq!(filter.apply(&mut memory, 0, 4_000), 36_787);
    }

    #[test]
    fn a_rate_is_the_amount_in_a_time_constant() {
        let filter = spec(Kind::Rate, 0, 1_000_000);
        let mut memory = Memory::default();
        // 100 bytes per microsecond: 100,000 per millisecond.
        let last = (0..20_000)
            .map(|n| filter.apply(&mut memory, 100, n * 1_000))
            .last();
        let last = last.unwrap() as i64;
        assert!((last - 100_000).abs() < 200, "{last}");
    }

    proptest! {
        #[test]
        fn decay_is_exact_to_the_last_bits(amount in 0u64..1 << 48, elapsed in 0u64..1 << 40, constant in 1u64..1 << 32) {
            let exact = amount as f64 * (-(elapsed as f64) / constant as f64).exp();
            let left = decayed(amount, elapsed, constant) as f64;
            prop_assert!((left - exact).abs() <= 34.0 + exact * 1e-7, "{left} for {exact}");
        }

        #[test]
        fn decay_in_two_steps_equals_decay_in_one(amount in 0u64..1 << 48, first in 0u64..1 << 33, second in 0u64..1 << 33, constant in 1u64..1 << 32) {
            let two = decayed(decayed(amount, first, constant), second, constant);
            let one = decayed(amount, first + second, constant);
            prop_assert!(one.abs_diff(two) <= 70 + (amount >> 24), "{one} and {two}");
        }

        #[test]
        fn a_mean_is_never_beyond_its_values(
            values in proptest::collection::vec((any::<u32>(), 0u64..10_000), 1..40),
            gain in 0u64..5_000,
            decay in 0u64..5_000,
        ) {
            let filter = spec(Kind::Sample, gain, decay);
            let mut memory = Memory::default();
            let (mut now, mut least, mut most) = (0, 0, 0);
            for (value, pause) in values {
                now += pause;
                let value = u64::from(value);
                (least, most) = (value.min(least), value.max(most));
                let result = filter.apply(&mut memory, value, now);
                prop_assert!((least..=most).contains(&result), "{result} beyond {least}..{most}");
            }
        }
    }
}
