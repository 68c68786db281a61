//! `MathUnit`: a stateful ALU's approximation of a product, power or root.
//!
//! The unit uses the four most significant bits of a number, and their position as exponent. The four bits select one of 16 bytes. The byte
//! is shifted by the exponent, which is doubled, halved or negated (for reciprocals), and by a scale. Results have a relative error of about
//! 1/16.
//!
//! Sources: the published descriptions of Tofino's stateful ALUs (`math_unit_*` of P4_14's `stateful_alu`, `MathUnit` of tna.p4), and the table
//! in the open bf-p4c. Two cases are not described. Here an input of 0 selects the first byte with exponent 0, and bits beyond the width of
//! the result are discarded.

use super::super::Lowering;
use crate::passes::builder::ops;
use num_bigint::BigInt;

use crate::diag::Span;
use crate::ir::{Expr, Scalar};
use crate::syntax::ast::BinaryOp;

/// Bits of the numbers that a unit computes with.
const BITS: u32 = 32;
/// Number of leading bits that select a byte.
const MANTISSA_BITS: u32 = 4;
const ENTRIES: usize = 1 << MANTISSA_BITS;
/// The scale is a signed number of 6 bits.
const SCALES: std::ops::RangeInclusive<i32> = -32..=31;
/// Maximum shift; beyond it the result is 0 or truncated.
const MAX_SHIFT: i32 = 63;

/// Configuration of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MathUnit {
    /// Whether the exponent is negated.
    pub invert: bool,
    /// 1 doubles the exponent, -1 halves it.
    pub shift: i32,
    /// Added to the exponent.
    pub scale: i32,
    /// The table of bytes, indexed by the four leading bits.
    pub table: [u8; ENTRIES],
}

impl MathUnit {
    /// The unit of one of `MathOp_t`, times `factor`.
    pub fn of(op: &str, factor: f64) -> Option<MathUnit> {
        let (invert, shift) = match op {
            "MUL" => (false, 0),
            "SQR" => (false, 1),
            "SQRT" => (false, -1),
            "DIV" => (true, 0),
            "RSQR" => (true, 1),
            "RSQRT" => (true, -1),
            _ => return None,
        };
        let exact = |index: usize| {
            let number = index as f64 / 8.0;
            let power = match shift {
                1 => number * number,
                -1 => number.sqrt(),
                _ => number,
            };
            factor * if invert { power.recip() } else { power }
        };
        // For a root the exponent must be even, so the leading bit may be the second of the four.
        let first = if shift == -1 {
            ENTRIES / 4
        } else {
            ENTRIES / 2
        };
        let largest = (first..ENTRIES).map(exact).fold(0.0, f64::max);
        // The largest scale with which all entries fit their bytes.
        let mut scale = 0;
        while largest * 2f64.powi(-scale) >= 256.0 && scale < *SCALES.end() {
            scale += 1;
        }
        while largest > 0.0 && largest * 2f64.powi(-scale) < 128.0 && scale > *SCALES.start() {
            scale -= 1;
        }
        let mut table = [0; ENTRIES];
        for (index, entry) in table.iter_mut().enumerate().skip(first) {
            let rounded = (exact(index) * 2f64.powi(-scale)).round_ties_even();
            *entry = rounded.clamp(0.0, 255.0) as u8;
        }
        Some(MathUnit {
            invert,
            shift,
            scale,
            table,
        })
    }

    /// The exponent of a number whose highest bit is at `top`: the position of the first of the four bits.
    fn exponent(&self, top: u32) -> u32 {
        match self.shift {
            -1 => top.next_multiple_of(2),
            _ => top,
        }
    }

    /// The left shift of the byte for a number whose highest bit is at `top`.
    fn power(&self, top: u32) -> i32 {
        let exponent = self.exponent(top) as i32;
        let power = match self.shift {
            0 => exponent,
            -1 => exponent / 2,
            _ => 2 * exponent,
        };
        let power = if self.invert { -power } else { power };
        (power + self.scale).clamp(-MAX_SHIFT, MAX_SHIFT)
    }

    /// The result for a number.
    #[cfg(test)]
    fn value(&self, number: u32) -> u32 {
        let (index, power) = match number.checked_ilog2() {
            None => (0, self.scale),
            Some(top) => {
                let aligned = (u64::from(number) << 3) >> self.exponent(top);
                (aligned as usize, self.power(top))
            }
        };
        let byte = u128::from(self.table[index]);
        let shifted = if power >= 0 {
            byte << power
        } else {
            byte >> -power
        };
        shifted as u32
    }
}

impl Lowering<'_> {
    /// `MathUnit.execute(x)`.
    pub fn math_unit_call(
        &mut self,
        unit: &MathUnit,
        number: Expr,
        span: Span,
        scope: &str,
    ) -> Expr {
        let word = Scalar::Bit(BITS);
        let number = self.hold(ops::cast(number, word), span, scope);
        let part = Scalar::Bit(MANTISSA_BITS);
        // The right shift is the second byte, the left one the first.
        let shifts = |power: i32| {
            let (left, right) = (power.max(0), (-power).max(0));
            Expr::bits(BigInt::from(left << 8 | right), 16)
        };
        let mut index = Expr::bits(0, MANTISSA_BITS);
        let mut amounts = shifts(unit.scale);
        for top in 0..BITS {
            let least = Expr::bits(BigInt::from(1u64) << top, BITS);
            let is_there = ops::binary(BinaryOp::Ge, number.clone(), least);
            let exponent = unit.exponent(top);
            // Four bits, the highest of which is that of the exponent; it may be beyond the number.
            let aligned = match exponent.checked_sub(3) {
                Some(right) => ops::binary(BinaryOp::Shr, number.clone(), Expr::bits(right, 8)),
                None => ops::binary(BinaryOp::Shl, number.clone(), Expr::bits(3 - exponent, 8)),
            };
            index = self.choose(is_there.clone(), ops::cast(aligned, part), index);
            amounts = self.choose(is_there, shifts(unit.power(top)), amounts);
        }
        let index = self.hold(index, span, scope);
        let amounts = self.hold(amounts, span, scope);
        let mut byte = Expr::bits(unit.table[0], 64);
        for (position, entry) in unit.table.iter().enumerate().skip(1) {
            let here = Expr::bits(position, MANTISSA_BITS);
            let is_here = ops::binary(BinaryOp::Eq, index.clone(), here);
            byte = self.choose(is_here, Expr::bits(*entry, 64), byte);
        }
        let byte = self.hold(byte, span, scope);
        let amount = |high: u32, low: u32| Expr::Slice {
            high,
            low,
            arg: Box::new(amounts.clone()),
        };
        let left = ops::binary(BinaryOp::Shl, byte, amount(15, 8));
        let left = self.hold(left, span, scope);
        let shifted = ops::binary(BinaryOp::Shr, left, amount(7, 0));
        ops::cast(shifted, word)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Function = fn(f64) -> f64;

    const FUNCTIONS: [(&str, Function); 6] = [
        ("MUL", |x| x),
        ("SQR", |x| x * x),
        ("SQRT", f64::sqrt),
        ("DIV", f64::recip),
        ("RSQR", |x| (x * x).recip()),
        ("RSQRT", |x| x.sqrt().recip()),
    ];

    proptest! {
        /// Four bits of a number are known, so it is known to 1 part in 8 upwards (in 4 for half of the roots), a square to 2 in 8; and
        /// the rest of a shift to the right is lost.
        #[test]
        fn results_are_as_right_as_four_bits_make_them(
            number in prop_oneof![1u32..300, any::<u32>().prop_map(|n| n.max(1))],
            factor in 1u32..5000,
        ) {
            for (op, function) in FUNCTIONS {
                let unit = MathUnit::of(op, f64::from(factor)).unwrap();
                let exact = f64::from(factor) * function(f64::from(number));
                if exact >= 4294967295.0 {
                    continue;
                }
                let result = f64::from(unit.value(number));
                let known = 0.27 * exact + 1.0;
                prop_assert!((result - exact).abs() <= known, "{op} {number} x {factor}: {result} for {exact}");
            }
        }

        #[test]
        fn powers_of_four_are_exact(exponent in 0u32..15) {
            let number = 1 << (2 * exponent);
            prop_assert_eq!(MathUnit::of("MUL", 1.0).unwrap().value(number), number);
            prop_assert_eq!(MathUnit::of("SQRT", 1.0).unwrap().value(number), 1 << exponent);
            prop_assert_eq!(MathUnit::of("DIV", f64::from(number)).unwrap().value(number), 1);
        }
    }

    #[test]
    fn entries_fill_their_bytes() {
        for (op, _) in FUNCTIONS {
            for factor in [1.0, 3.0, 1000.0, 0.125] {
                let unit = MathUnit::of(op, factor).unwrap();
                assert!(
                    unit.table.iter().max() >= Some(&127),
                    "{op} x {factor}: {unit:?}"
                );
                assert!(SCALES.contains(&unit.scale), "{op} x {factor}: {unit:?}");
            }
        }
        assert_eq!(MathUnit::of("POW", 1.0), None);
    }
}
