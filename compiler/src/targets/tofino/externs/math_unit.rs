//! The extern `MathUnit`: a stateful ALU's approximation of a product, power or root.
//!
//! The unit uses the four most significant bits of a number as the mantissa, and their position as the exponent. The mantissa selects one of
//! 16 bytes. The byte is shifted by the exponent, which is doubled, halved or negated (for reciprocals), and by a scale. Results have a
//! relative error of about 1/16.
//!
//! Sources are the published descriptions of Tofino's stateful ALUs (`math_unit_*` of P4_14's `stateful_alu`, `MathUnit` of tna.p4), and
//! the table in the open bf-p4c. They do not describe two cases: here, an input of 0 selects the first byte with exponent 0, and bits
//! beyond the width of the result are discarded.

use crate::passes::builder::ops;
use crate::passes::externs::Lowering;
use num_bigint::BigInt;

use crate::diag::Span;
use crate::ir::{Expr, Scalar};
use crate::syntax::ast::BinaryOp;

/// Width in bits of the input and the result.
const BITS: u32 = 32;
/// Width in bits of the mantissa.
const MANTISSA_BITS: u32 = 4;
/// Number of bytes in the table.
const ENTRIES: usize = 1 << MANTISSA_BITS;
/// Range of the scale, a signed number of 6 bits.
const SCALES: std::ops::RangeInclusive<i32> = -32..=31;
/// Maximum shift in bits; a larger shift gives the same result.
const MAX_SHIFT: i32 = 63;

/// Configuration of a math unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MathUnit {
    /// Whether the exponent is negated, for reciprocals.
    pub invert: bool,
    /// 1 doubles the exponent, for squares; -1 halves it, for roots; 0 keeps it.
    pub shift: i32,
    /// Number that is added to the exponent.
    pub scale: i32,
    /// The table of bytes, indexed by the mantissa.
    pub table: [u8; ENTRIES],
}

impl MathUnit {
    /// The unit that computes the operation `op` of the enum `MathOp_t`, times `factor`. `None` for an unknown operation.
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
        // A root needs an even exponent, so the most significant bit of the number may be the second bit of the mantissa.
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

    /// The exponent of a number whose most significant bit is at position `top`: the position of the mantissa's first bit.
    fn exponent(&self, top: u32) -> u32 {
        match self.shift {
            -1 => top.next_multiple_of(2),
            _ => top,
        }
    }

    /// The left shift of the byte for a number whose most significant bit is at position `top`; negative for a right shift.
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

    /// The result of the unit for a number.
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
    /// Lowers `MathUnit.execute(number)`.
    pub fn math_unit_call(
        &mut self,
        unit: &MathUnit,
        number: Expr,
        span: Span,
        scope: &str,
    ) -> Expr {
        let word = Scalar::Bit(BITS);
        let number = self.save_value(ops::cast(number, word), span, scope);
        let part = Scalar::Bit(MANTISSA_BITS);
        // The two shift amounts as one number: the left shift in the upper byte, the right shift in the lower byte.
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
            // The mantissa: four bits from the position `exponent` downwards, of which the first may be beyond the number.
            let aligned = match exponent.checked_sub(3) {
                Some(right) => ops::binary(BinaryOp::Shr, number.clone(), Expr::bits(right, 8)),
                None => ops::binary(BinaryOp::Shl, number.clone(), Expr::bits(3 - exponent, 8)),
            };
            index = self.choose(is_there.clone(), ops::cast(aligned, part), index);
            amounts = self.choose(is_there, shifts(unit.power(top)), amounts);
        }
        let index = self.save_value(index, span, scope);
        let amounts = self.save_value(amounts, span, scope);
        let mut byte = Expr::bits(unit.table[0], 64);
        for (position, entry) in unit.table.iter().enumerate().skip(1) {
            let here = Expr::bits(position, MANTISSA_BITS);
            let is_here = ops::binary(BinaryOp::Eq, index.clone(), here);
            byte = self.choose(is_here, Expr::bits(*entry, 64), byte);
        }
        let byte = self.save_value(byte, span, scope);
        let amount = |high: u32, low: u32| Expr::Slice {
            high,
            low,
            arg: Box::new(amounts.clone()),
        };
        let left = ops::binary(BinaryOp::Shl, byte, amount(15, 8));
        let left = self.save_value(left, span, scope);
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
        /// The mantissa determines a number with a relative error below 1/8 (1/4 for half of the roots), and a square below 2/8. A right
        /// shift discards the fraction.
        #[test]
        fn results_have_the_precision_of_the_mantissa(
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
    fn scale_makes_full_use_of_the_table_bytes() {
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
