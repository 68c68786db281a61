//! The externs `Wred` and `DirectWred`: weighted random early detection, with thresholds that the control plane sets.

use crate::passes::builder::data::Data;
use crate::passes::builder::ops;
use crate::passes::externs::call::ExternArg;
use crate::passes::externs::Lowering;
use num_bigint::BigInt;

use crate::diag::Span;
use crate::ir::{Effect, Expr, FieldRef, Primitive, RegisterId, Scalar};
use crate::syntax::ast::BinaryOp;

/// Width in bits of a threshold.
const THRESHOLD_BITS: u32 = 32;
/// Width in bits of a drop probability in percent.
const SHARE_BITS: u32 = 8;
/// Width in bits of a profile: minimum threshold, maximum threshold and maximum drop probability.
pub const CELL_BITS: u32 = 2 * THRESHOLD_BITS + SHARE_BITS;

impl Lowering<'_> {
    /// Lowers `Wred.execute(val, index)`, and `DirectWred.execute(val)`, whose profile is that of the hit entry (`entry`). `drop` and
    /// `no_drop` are the possible results.
    pub fn wred_call(
        &mut self,
        (thresholds, entry): (RegisterId, Option<FieldRef>),
        (drop, no_drop): (BigInt, BigInt),
        args: &[ExternArg],
        span: Span,
        scope: &str,
    ) -> Data {
        let index = match entry {
            Some(entry) => Ok(Expr::field(entry, Scalar::Bit(super::direct::ENTRY_BITS))),
            None => self.number_at(args, 1, span),
        };
        let (measured, index) = match (self.number_at(args, 0, span), index) {
            (Ok(measured), Ok(index)) => (measured, index),
            (Err(absent), _) | (_, Err(absent)) => return absent.into(),
        };
        let wide = Scalar::Bit(THRESHOLD_BITS);
        let index = self.save_value(index, span, scope);
        let measured = self.save_value(ops::cast(measured, wide), span, scope);
        let cell = self.read_cell(thresholds, &index, span, scope);
        let part = |high: u32, low: u32| Expr::Slice {
            high,
            low,
            arg: Box::new(cell.clone()),
        };
        let from = part(CELL_BITS - 1, CELL_BITS - THRESHOLD_BITS);
        let to = part(THRESHOLD_BITS + SHARE_BITS - 1, SHARE_BITS);
        let share = part(SHARE_BITS - 1, 0);
        let (from, to) = (
            self.save_value(from, span, scope),
            self.save_value(to, span, scope),
        );
        let share = self.save_value(ops::cast(share, wide), span, scope);

        let zero = || Expr::bits(0, THRESHOLD_BITS);
        let mut random = |low: Expr, high: Expr| {
            let target = self.temporary(scope, "random", wide);
            self.emit(
                span,
                Effect::Primitive(Primitive::Random { target, low, high }),
            );
            Expr::field(target, wide)
        };
        // Between the thresholds, the drop probability rises linearly with the value: a random point between them must be below the value.
        let place = random(from.clone(), to.clone());
        let lot = random(zero(), Expr::bits(99, THRESHOLD_BITS));
        let is_set = ops::binary(BinaryOp::Ne, to.clone(), zero());
        let beyond = ops::binary(BinaryOp::Ge, measured.clone(), to);
        let between = ops::and(
            ops::binary(BinaryOp::Gt, measured.clone(), from),
            ops::and(
                ops::binary(BinaryOp::Lt, place, measured),
                ops::binary(BinaryOp::Lt, lot, share),
            ),
        );
        let is_dropped = ops::and(is_set, ops::or(beyond, between));
        let result = |value: BigInt| Expr::bits(value, 8);
        Data::Scalar(self.choose(is_dropped, result(drop), result(no_drop)))
    }
}
