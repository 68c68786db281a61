//! Arbitrary-precision integers, for expressions whose values may exceed 64 bits.
//!
//! BMv2 computes with unbounded integers, and wraps only when a value is stored in a field. Nearly all expressions
//! have the same result in 64-bit words, which the loader proves for each (see `load::lower`). The others use this
//! module. The arithmetic is that of `num-bigint`; this module adds BMv2's conventions (words in two's complement,
//! truncation to a field, saturation) and limits the width of products and left shifts.

use num_bigint::{BigInt, BigUint, Sign};
use num_traits::{One, Zero};

/// Maximum width of the result of a left shift or product, in bits; no field is wider. Higher bits are truncated.
const MAX_BITS: u32 = 64 * 2048;

/// A signed integer of any width.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Big(BigInt);

impl Big {
    pub fn from_u64(value: u64) -> Big {
        Big(value.into())
    }

    pub fn from_i64(value: i64) -> Big {
        Big(value.into())
    }

    pub fn from_bool(value: bool) -> Big {
        Big::from_u64(u64::from(value))
    }

    /// Converts an unsigned number, least significant word first.
    pub fn from_unsigned(words: &[u64]) -> Big {
        let halves = |word: &u64| [*word as u32, (word >> 32) as u32];
        Big(BigUint::new(words.iter().flat_map(halves).collect()).into())
    }

    /// Converts a field of `bits` bits from its stored form, sign-extended if the field is signed.
    pub fn from_field(words: &[u64], bits: u32, signed: bool) -> Big {
        let value = Big::from_unsigned(words);
        if signed {
            value.sign_extend(bits)
        } else {
            value
        }
    }

    /// Converts sign and big-endian magnitude, the form of hexadecimal constants.
    pub fn from_sign_and_bytes(negative: bool, bytes: &[u8]) -> Big {
        let sign = if negative { Sign::Minus } else { Sign::Plus };
        Big(BigInt::from_bytes_be(sign, bytes))
    }

    /// Returns the word at `index` of the infinitely sign-extended number, in two's complement.
    pub fn word(&self, index: usize) -> u64 {
        let mut digits = self.0.magnitude().iter_u64_digits();
        if !self.is_negative() {
            return digits.nth(index).unwrap_or(0);
        }
        // The negation of a magnitude inverts it and adds one. The carry passes through words that are zero.
        let lower = digits.by_ref().take(index);
        let carried = lower.filter(|digit| *digit != 0).count() == 0;
        (!digits.next().unwrap_or(0)).wrapping_add(u64::from(carried))
    }

    pub fn low(&self) -> u64 {
        self.word(0)
    }

    pub fn is_negative(&self) -> bool {
        self.0.sign() == Sign::Minus
    }

    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    /// Returns the number if it fits, for range proofs at load time.
    pub fn to_i128(&self) -> Option<i128> {
        i128::try_from(&self.0).ok()
    }

    /// Returns the number as a shift amount or index: numbers beyond 64 bits and negative ones become `u64::MAX`.
    pub fn to_amount(&self) -> u64 {
        u64::try_from(&self.0).unwrap_or(u64::MAX)
    }

    pub fn and(&self, other: &Big) -> Big {
        Big(&self.0 & &other.0)
    }

    pub fn or(&self, other: &Big) -> Big {
        Big(&self.0 | &other.0)
    }

    pub fn xor(&self, other: &Big) -> Big {
        Big(&self.0 ^ &other.0)
    }

    pub fn not(&self) -> Big {
        Big(!&self.0)
    }

    pub fn add(&self, other: &Big) -> Big {
        Big(&self.0 + &other.0)
    }

    pub fn sub(&self, other: &Big) -> Big {
        Big(&self.0 - &other.0)
    }

    pub fn mul(&self, other: &Big) -> Big {
        Big(&self.0 * &other.0).limited()
    }

    /// Returns quotient and remainder of non-negative numbers. Division by zero, which BMv2 rejects at run time,
    /// returns zero for both.
    pub fn div_rem(&self, other: &Big) -> (Big, Big) {
        if other.is_zero() || other.is_negative() || self.is_negative() {
            return (Big::default(), Big::default());
        }
        (Big(&self.0 / &other.0), Big(&self.0 % &other.0))
    }

    pub fn shl(&self, amount: u64) -> Big {
        if self.is_zero() || amount >= u64::from(MAX_BITS) {
            return Big::default();
        }
        Big(&self.0 << amount).limited()
    }

    /// Shifts the number right by `amount` bits, rounding towards minus infinity.
    pub fn shr(&self, amount: u64) -> Big {
        Big(&self.0 >> amount)
    }

    /// Returns the low `bits` bits as an unsigned number.
    pub fn truncate(&self, bits: u32) -> Big {
        Big(&self.0 & (power_of_two(bits) - 1))
    }

    /// Returns the low `bits` bits as a signed number.
    pub fn sign_extend(&self, bits: u32) -> Big {
        let low = self.truncate(bits);
        if bits > 0 && low.0.bit(u64::from(bits) - 1) {
            Big(low.0 - power_of_two(bits))
        } else {
            low
        }
    }

    pub fn saturate_unsigned(&self, bits: u32) -> Big {
        self.clamp(BigInt::zero(), power_of_two(bits) - 1)
    }

    pub fn saturate_signed(&self, bits: u32) -> Big {
        let half = power_of_two(bits.saturating_sub(1));
        self.clamp(-&half, half - 1)
    }

    fn clamp(&self, min: BigInt, max: BigInt) -> Big {
        Big(self.0.clone().clamp(min, max))
    }

    /// Truncates the result of an operation to [`MAX_BITS`].
    fn limited(self) -> Big {
        if self.0.bits() < u64::from(MAX_BITS) {
            self
        } else {
            self.sign_extend(MAX_BITS)
        }
    }
}

fn power_of_two(bits: u32) -> BigInt {
    BigInt::one() << bits
}

impl Big {
    /// Formats the number in hexadecimal, with a sign if it is negative.
    pub fn to_hex(&self) -> String {
        format!("{:#x}", self.0)
    }
}

/// Formats the number in decimal.
impl std::fmt::Display for Big {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn big(value: i128) -> Big {
        Big(value.into())
    }

    fn int(value: &Big) -> i128 {
        value.to_i128().expect("tests stay within 128 bits")
    }

    proptest! {
        #[test]
        fn agrees_with_128_bit_integers(a in any::<i64>(), b in any::<i64>(), s in 0u64..63) {
            let (a, b) = (i128::from(a), i128::from(b));
            let (x, y) = (big(a), big(b));
            prop_assert_eq!(int(&x), a);
            prop_assert_eq!([x.word(0), x.word(1), x.word(2)], [a as u64, (a >> 64) as u64, (a >> 127) as u64]);
            prop_assert_eq!(int(&x.add(&y)), a + b);
            prop_assert_eq!(int(&x.sub(&y)), a - b);
            prop_assert_eq!(int(&x.mul(&y)), a * b);
            prop_assert_eq!(int(&x.and(&y)), a & b);
            prop_assert_eq!(int(&x.or(&y)), a | b);
            prop_assert_eq!(int(&x.xor(&y)), a ^ b);
            prop_assert_eq!(int(&x.not()), !a);
            prop_assert_eq!(int(&x.shl(s)), a << s);
            prop_assert_eq!(int(&x.shr(s)), a >> s);
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            if a >= 0 && b > 0 {
                let (q, r) = x.div_rem(&y);
                prop_assert_eq!((int(&q), int(&r)), (a / b, a % b));
            }
            prop_assert_eq!(int(&x.mul(&y).sign_extend(16)), i128::from((a * b) as i16));
            prop_assert_eq!(int(&x.truncate(20)), a & 0xfffff);
            prop_assert_eq!(int(&x.saturate_signed(8)), a.clamp(-128, 127));
            prop_assert_eq!(int(&x.saturate_unsigned(8)), a.clamp(0, 255));
        }

        #[test]
        fn a_right_shift_reverts_a_left_shift(words in proptest::collection::vec(any::<u64>(), 0..6), s in 0u64..300) {
            let x = Big::from_unsigned(&words);
            prop_assert_eq!(x.shl(s).shr(s).cmp(&x), Ordering::Equal);
        }
    }

    #[test]
    fn constants_keep_their_sign() {
        assert_eq!(int(&Big::from_sign_and_bytes(true, &[0x01, 0x00])), -256);
        assert_eq!(
            int(&Big::from_sign_and_bytes(false, &[0xff; 8])),
            i128::from(u64::MAX)
        );
    }

    #[test]
    fn numbers_print_in_decimal() {
        assert_eq!(Big::default().to_string(), "0");
        assert_eq!(Big::from_i64(-42).to_string(), "-42");
        assert_eq!(big(i128::MAX).to_string(), i128::MAX.to_string());
    }

    #[test]
    fn words_of_negative_numbers_are_in_twos_complement() {
        let power = Big::from_u64(1).shl(128);
        let words = |value: &Big| [0, 1, 2, 3].map(|i| value.word(i));
        let negative = Big::default().sub(&power);
        assert_eq!(words(&negative), [0, 0, u64::MAX, u64::MAX]);
        let one_less = negative.sub(&Big::from_u64(1));
        assert_eq!(
            words(&one_less),
            [u64::MAX, u64::MAX, u64::MAX - 1, u64::MAX]
        );
    }

    #[test]
    fn huge_products_do_not_exhaust_memory() {
        let mut x = Big::from_unsigned(&[u64::MAX; 1500]);
        for _ in 0..4 {
            x = x.mul(&x);
        }
        assert!(x.word(2048) == 0 || x.word(2048) == u64::MAX);
        assert_eq!(x.low(), 1);
    }

    #[test]
    fn huge_shifts_do_not_exhaust_memory() {
        assert!(Big::from_u64(1).shl(u64::MAX).is_zero());
        assert_eq!(int(&Big::from_i64(-1).shr(u64::MAX)), -1);
    }
}
