//! Arbitrary-precision integers, for expressions that do not fit 64 bits.
//!
//! BMv2 computes with unbounded integers and wraps only when a value is stored in a field. Nearly all expressions have
//! the same result in 64-bit words; the loader proves this for each (see `load::lower`). The others use this module.

use smallvec::SmallVec;
use std::cmp::Ordering;

/// Maximum size of a left shift's result, in words; higher bits are cut off. No field is wider.
const MAX_WORDS: usize = 2048;

/// A signed integer in two's complement, least significant word first.
///
/// The topmost bit of the last word is the sign. An empty vector is zero.
#[derive(Clone, Debug, Default)]
pub struct Big {
    words: SmallVec<[u64; 4]>,
}

impl Big {
    pub fn from_u64(value: u64) -> Big {
        Big::from_unsigned(&[value])
    }

    pub fn from_i64(value: i64) -> Big {
        Big {
            words: SmallVec::from_slice(&[value as u64]),
        }
    }

    pub fn from_bool(value: bool) -> Big {
        Big::from_u64(u64::from(value))
    }

    /// Converts an unsigned number, least significant word first.
    pub fn from_unsigned(words: &[u64]) -> Big {
        let mut words = SmallVec::from_slice(words);
        if words.last().is_some_and(|top: &u64| top >> 63 == 1) {
            words.push(0);
        }
        Big { words }.normal()
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
        let mut words: SmallVec<[u64; 4]> = SmallVec::new();
        for chunk in bytes.rchunks(8) {
            words.push(
                chunk
                    .iter()
                    .fold(0, |word, &byte| word << 8 | u64::from(byte)),
            );
        }
        let magnitude = Big::from_unsigned(&words);
        if negative {
            magnitude.negate()
        } else {
            magnitude
        }
    }

    /// Returns the word at `index` of the infinitely sign-extended number.
    pub fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(self.fill())
    }

    pub fn low(&self) -> u64 {
        self.word(0)
    }

    pub fn is_negative(&self) -> bool {
        self.fill() != 0
    }

    pub fn is_zero(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Returns the number if it fits, for range proofs at load time.
    pub fn to_i128(&self) -> Option<i128> {
        let low = (u128::from(self.word(1)) << 64 | u128::from(self.word(0))) as i128;
        let sign = if low < 0 { u64::MAX } else { 0 };
        (2..self.words.len().max(2))
            .all(|i| self.word(i) == sign)
            .then_some(low)
            .filter(|low| (*low < 0) == self.is_negative())
    }

    /// Returns the number as a shift amount or index: large and negative numbers saturate to the greatest.
    pub fn to_amount(&self) -> u64 {
        if !self.is_negative() && self.words.iter().skip(1).all(|&word| word == 0) {
            self.low()
        } else {
            u64::MAX
        }
    }

    fn fill(&self) -> u64 {
        match self.words.last() {
            Some(&top) => ((top as i64) >> 63) as u64,
            None => 0,
        }
    }

    fn normal(mut self) -> Big {
        while let [.., below, top] = self.words[..] {
            if top != ((below as i64) >> 63) as u64 {
                break;
            }
            self.words.pop();
        }
        self
    }

    fn zip(&self, other: &Big, f: impl Fn(u64, u64) -> u64) -> Big {
        let n = self.words.len().max(other.words.len());
        Big {
            words: (0..n).map(|i| f(self.word(i), other.word(i))).collect(),
        }
        .normal()
    }

    pub fn and(&self, other: &Big) -> Big {
        self.zip(other, |a, b| a & b)
    }

    pub fn or(&self, other: &Big) -> Big {
        self.zip(other, |a, b| a | b)
    }

    pub fn xor(&self, other: &Big) -> Big {
        self.zip(other, |a, b| a ^ b)
    }

    pub fn not(&self) -> Big {
        self.zip(&Big::default(), |a, _| !a).or_all_ones_if_empty()
    }

    fn or_all_ones_if_empty(self) -> Big {
        if self.words.is_empty() {
            Big::from_i64(-1)
        } else {
            self
        }
    }

    pub fn add(&self, other: &Big) -> Big {
        self.add_with_carry(other, false)
    }

    pub fn sub(&self, other: &Big) -> Big {
        self.add_with_carry(&other.not(), true)
    }

    pub fn negate(&self) -> Big {
        Big::default().sub(self)
    }

    fn add_with_carry(&self, other: &Big, mut carry: bool) -> Big {
        let n = self.words.len().max(other.words.len()) + 1;
        let mut words = SmallVec::with_capacity(n);
        for i in 0..n {
            let (sum, c1) = self.word(i).overflowing_add(other.word(i));
            let (sum, c2) = sum.overflowing_add(u64::from(carry));
            carry = c1 | c2;
            words.push(sum);
        }
        Big { words }.normal()
    }

    pub fn mul(&self, other: &Big) -> Big {
        // Modulo 2^(64 n), two's complement and unsigned multiplication are the same.
        let n = (self.words.len() + other.words.len()).min(MAX_WORDS);
        let mut words: SmallVec<[u64; 4]> = SmallVec::from_elem(0, n);
        for i in 0..n {
            let mut carry = 0u128;
            for j in 0..n - i {
                let at = &mut words[i + j];
                let sum =
                    u128::from(self.word(i)) * u128::from(other.word(j)) + u128::from(*at) + carry;
                *at = sum as u64;
                carry = sum >> 64;
            }
        }
        Big { words }.normal()
    }

    /// Returns quotient and remainder of non-negative numbers. Division by zero, which BMv2 rejects at run time,
    /// returns zero for both.
    pub fn div_rem(&self, other: &Big) -> (Big, Big) {
        if other.is_zero() || other.is_negative() || self.is_negative() {
            return (Big::default(), Big::default());
        }
        let mut quotient: SmallVec<[u64; 4]> = SmallVec::from_elem(0, self.words.len());
        let mut rest = Big::default();
        for i in (0..self.words.len() * 64).rev() {
            let bit = self.words[i / 64] >> (i % 64) & 1;
            rest = rest.shl(1).or(&Big::from_u64(bit));
            if rest.cmp(other) != Ordering::Less {
                rest = rest.sub(other);
                quotient[i / 64] |= 1 << (i % 64);
            }
        }
        (Big::from_unsigned(&quotient), rest)
    }

    pub fn shl(&self, amount: u64) -> Big {
        let (skip, bits) = (amount / 64, (amount % 64) as u32);
        if self.is_zero() || skip >= MAX_WORDS as u64 {
            return Big::default();
        }
        let skip = skip as usize;
        let n = (self.words.len() + skip + 1).min(MAX_WORDS);
        let word = |i: usize| {
            let high = i.checked_sub(skip).map_or(0, |i| self.word(i));
            let low = i.checked_sub(skip + 1).map_or(0, |i| self.word(i));
            if bits == 0 {
                high
            } else {
                high << bits | low >> (64 - bits)
            }
        };
        Big {
            words: (0..n).map(word).collect(),
        }
        .normal()
    }

    /// Shifts right, rounding towards minus infinity.
    pub fn shr(&self, amount: u64) -> Big {
        let (skip, bits) = (amount / 64, (amount % 64) as u32);
        if skip >= self.words.len() as u64 {
            return Big::from_i64(self.fill() as i64);
        }
        let skip = skip as usize;
        let word = |i: usize| {
            let (low, high) = (self.word(i + skip), self.word(i + skip + 1));
            if bits == 0 {
                low
            } else {
                low >> bits | high << (64 - bits)
            }
        };
        Big {
            words: (0..self.words.len() - skip).map(word).collect(),
        }
        .normal()
    }

    /// Returns the low `bits` bits as an unsigned number.
    pub fn truncate(&self, bits: u32) -> Big {
        let n = (bits as usize).div_ceil(64);
        let mut words: SmallVec<[u64; 4]> = (0..n).map(|i| self.word(i)).collect();
        if let (Some(top), 1..) = (words.last_mut(), bits % 64) {
            *top &= (1 << (bits % 64)) - 1;
        }
        Big::from_unsigned(&words)
    }

    /// Returns the low `bits` bits as a signed number.
    pub fn sign_extend(&self, bits: u32) -> Big {
        let low = self.truncate(bits);
        let sign = bits
            .checked_sub(1)
            .is_some_and(|i| low.word(i as usize / 64) >> (i % 64) & 1 == 1);
        if sign {
            low.sub(&Big::from_u64(1).shl(u64::from(bits)))
        } else {
            low
        }
    }

    pub fn saturate_unsigned(&self, bits: u32) -> Big {
        let max = Big::from_u64(1).shl(u64::from(bits)).sub(&Big::from_u64(1));
        self.clamp(Big::default(), max)
    }

    pub fn saturate_signed(&self, bits: u32) -> Big {
        let half = Big::from_u64(1).shl(u64::from(bits.saturating_sub(1)));
        self.clamp(half.negate(), half.sub(&Big::from_u64(1)))
    }

    fn clamp(&self, min: Big, max: Big) -> Big {
        if self.cmp(&min) == Ordering::Less {
            min
        } else if self.cmp(&max) == Ordering::Greater {
            max
        } else {
            self.clone()
        }
    }

    pub fn cmp(&self, other: &Big) -> Ordering {
        let by_sign = other.is_negative().cmp(&self.is_negative());
        by_sign.then_with(|| {
            let n = self.words.len().max(other.words.len());
            (0..n)
                .rev()
                .map(|i| self.word(i).cmp(&other.word(i)))
                .find(|o| o.is_ne())
                .unwrap_or(Ordering::Equal)
        })
    }
}

/// Formats in decimal.
impl std::fmt::Display for Big {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let ten_18 = Big::from_u64(1_000_000_000_000_000_000);
        let mut rest = if self.is_negative() {
            self.negate()
        } else {
            self.clone()
        };
        let mut groups = Vec::new();
        while !rest.is_zero() {
            let (quotient, remainder) = rest.div_rem(&ten_18);
            groups.push(remainder.low());
            rest = quotient;
        }
        let first = groups.pop().unwrap_or(0);
        let sign = if self.is_negative() { "-" } else { "" };
        write!(f, "{sign}{first}")?;
        groups
            .iter()
            .rev()
            .try_for_each(|group| write!(f, "{group:018}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn big(value: i128) -> Big {
        Big {
            words: SmallVec::from_slice(&[value as u64, (value >> 64) as u64]),
        }
        .normal()
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
            prop_assert_eq!(int(&x.add(&y)), a + b);
            prop_assert_eq!(int(&x.sub(&y)), a - b);
            prop_assert_eq!(int(&x.mul(&y)), a * b);
            prop_assert_eq!(int(&x.and(&y)), a & b);
            prop_assert_eq!(int(&x.or(&y)), a | b);
            prop_assert_eq!(int(&x.xor(&y)), a ^ b);
            prop_assert_eq!(int(&x.not()), !a);
            prop_assert_eq!(int(&x.negate()), -a);
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
        fn shifts_undo_each_other(words in proptest::collection::vec(any::<u64>(), 0..6), s in 0u64..300) {
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
    fn absurd_shifts_stay_bounded() {
        assert!(Big::from_u64(1).shl(u64::MAX).is_zero());
        assert_eq!(int(&Big::from_i64(-1).shr(u64::MAX)), -1);
    }
}
