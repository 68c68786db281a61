//! Random early detection: a value against thresholds of the control plane's.

use std::rc::Rc;

use num_bigint::BigInt;

use super::super::externs::value;
use super::super::frame::Frame;
use super::super::{ops, Elaborator};
use crate::diag::Span;
use crate::ir::{Effect, Expr, Primitive, RegisterId, Scalar};
use crate::passes::builder::data::Data;
use crate::syntax::ast::{BinaryOp, Name};

/// Bits of a threshold, and of the share in a hundred.
const THRESHOLD_BITS: u32 = 32;
const SHARE_BITS: u32 = 8;
/// Bits of a profile: two thresholds and a share.
pub const CELL_BITS: u32 = 2 * THRESHOLD_BITS + SHARE_BITS;

impl Elaborator<'_> {
    /// `Wred.execute(val, index)`, and `DirectWred.execute(val)`, which has one profile for all entries.
    pub fn wred_call(
        &mut self,
        (thresholds, is_direct): (RegisterId, bool),
        (drop, no_drop): (BigInt, BigInt),
        args: &[(Option<Name>, super::super::call::Bound)],
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        let index = match is_direct {
            true => Some(Expr::bits(0, THRESHOLD_BITS)),
            false => value(args, 1),
        };
        let (Some(measured), Some(index)) = (value(args, 0), index) else {
            return Data::Invalid;
        };
        let wide = Scalar::Bit(THRESHOLD_BITS);
        let index = self.hold(index, span, &frame.name);
        let measured = self.hold(ops::cast(measured, wide), span, &frame.name);
        let cell = self.read_cell(thresholds, &index, span, frame);
        let part = |high: u32, low: u32| Expr::Slice {
            high,
            low,
            arg: Box::new(cell.clone()),
        };
        let from = part(CELL_BITS - 1, CELL_BITS - THRESHOLD_BITS);
        let to = part(THRESHOLD_BITS + SHARE_BITS - 1, SHARE_BITS);
        let share = part(SHARE_BITS - 1, 0);
        let (from, to) = (
            self.hold(from, span, &frame.name),
            self.hold(to, span, &frame.name),
        );
        let share = self.hold(ops::cast(share, wide), span, &frame.name);

        let zero = || Expr::bits(0, THRESHOLD_BITS);
        let mut random = |low: Expr, high: Expr| {
            let target = self.temporary(&frame.name, "random", wide);
            self.emit(
                span,
                Effect::Primitive(Primitive::Random { target, low, high }),
            );
            Expr::field(target, wide)
        };
        // The chance of both together rises with the value, up to the share.
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
