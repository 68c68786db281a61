//! `min8`, `max8`, `min16` and `max16` of Tofino 2's stateful ALUs: the minimum or maximum of the parts of a cell, and its index.

use crate::diag::Span;
use crate::ir::{Expr, Scalar};
use crate::passes::builder::data::Data;
use crate::passes::builder::ops;
use crate::passes::externs::call::{Argument, ExternArg};
use crate::passes::externs::{named, Lowering};
use crate::syntax::ast::BinaryOp;

/// Width in bits of a cell.
const CELL_BITS: u32 = 128;

impl Lowering<'_> {
    /// Computes the minimum or maximum of the parts that the mask selects, and its index. Part 0 has the least significant bits. Among equal
    /// parts, the one with the lowest index is chosen. If the mask is 0, the result and the index are 0.
    pub fn min_max_call(
        &mut self,
        method: &str,
        args: &[ExternArg],
        span: Span,
        scope: &str,
    ) -> Data {
        let (cell, mask) = match (self.number_at(args, 0, span), self.number_at(args, 1, span)) {
            (Ok(cell), Ok(mask)) => (cell, mask),
            (Err(absent), _) | (_, Err(absent)) => return absent.into(),
        };
        let has_more = named(args, "postmod").is_some_and(ExternArg::is_passed);
        if has_more {
            let message =
                format!("the software model does not support the argument postmod of {method}");
            return self.beyond_model(span, message).into();
        }
        let bits = if method.ends_with("16") { 16 } else { 8 };
        let better = if method.starts_with("min") {
            BinaryOp::Lt
        } else {
            BinaryOp::Gt
        };
        let parts = CELL_BITS / bits;
        let index_bits = parts.ilog2();
        let cell = self.save_value(ops::cast(cell, Scalar::Bit(CELL_BITS)), span, scope);
        let mask = self.save_value(ops::cast(mask, Scalar::Bit(parts)), span, scope);
        let mut best = Expr::bits(0, bits);
        let mut index = Expr::bits(0, index_bits);
        let mut found = Expr::Bool(false);
        for part in 0..parts {
            let slice = |of: &Expr, high: u32, low: u32| Expr::Slice {
                high,
                low,
                arg: Box::new(of.clone()),
            };
            let one = Expr::bits(1, 1);
            let is_named = ops::binary(BinaryOp::Eq, slice(&mask, part, part), one);
            let here = slice(&cell, (part + 1) * bits - 1, part * bits);
            let is_better = ops::binary(better, here.clone(), best.clone());
            let takes = ops::and(is_named.clone(), ops::or(found.clone().not(), is_better));
            let takes = self.save_value(takes, span, scope);
            let next = self.choose(takes.clone(), here, best);
            best = self.save_value(next, span, scope);
            let next = self.choose(takes, Expr::bits(part, index_bits), index);
            index = self.save_value(next, span, scope);
            found = self.save_value(ops::or(found, is_named), span, scope);
        }
        if let Some(bound) = args.get(2) {
            if let Argument::Place(place) = &bound.argument {
                let data = self.cast(Data::Scalar(index), &bound.ty);
                self.assign(place, data, &bound.ty, span, scope);
            }
        }
        Data::Scalar(best)
    }
}
