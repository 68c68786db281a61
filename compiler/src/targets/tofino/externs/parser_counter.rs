//! The extern `ParserCounter`: a signed 8-bit counter of a parser, for headers with a variable number of elements.

use super::{Object, ObjectId};
use crate::diag::Span;
use crate::ir::{Effect, Expr, FieldRef, Scalar, Take};
use crate::passes::builder::data::Data;
use crate::passes::builder::ops;
use crate::passes::externs::call::ExternArg;
use crate::passes::externs::{named_value, number, Lowering};
use crate::syntax::ast::BinaryOp;

/// Width in bits of a counter.
const BITS: u32 = 8;
/// Type of a counter.
const COUNTER: Scalar = Scalar::Bit(BITS);
/// Number of counters below the current one in Tofino 2's stack of counters.
const STACK: usize = 4;
/// The value of the argument `mask` that selects all bits of a field: the position of the most significant bit.
const WHOLE_MASK: u32 = BITS - 1;

/// Name of the parser error for a field that exceeds the argument `max` of `set`.
const RANGE_ERROR: &str = "CounterRange";

impl Lowering<'_> {
    /// Lowers a call of a method of a counter. `fields` are the variables of the current counter and of the stack below it; they are created
    /// by the first call.
    pub fn parser_counter_call(
        &mut self,
        id: ObjectId,
        fields: &[FieldRef],
        method: &str,
        args: &[ExternArg],
        span: Span,
        scope: &str,
    ) -> Data {
        let fields = match fields {
            [] => {
                let fields: Vec<FieldRef> = (0..=STACK)
                    .map(|_| self.temporary(scope, "counter", COUNTER))
                    .collect();
                *self.tofino_object(id) = Object::ParserCounter {
                    fields: fields.clone(),
                };
                fields
            }
            fields => fields.to_vec(),
        };
        let present = Expr::field(fields[0], COUNTER);
        match method {
            "set" | "push" => {
                let named = |wanted: &str| named_value(args, wanted);
                let updates_top = number(args, "update_with_top") == Some(1.into());
                if updates_top {
                    let message =
                        "the software model does not support update_with_top of a ParserCounter";
                    return self.beyond_model(span, message).into();
                }
                let field = match self.number_at(args, 0, span) {
                    Ok(field) => field,
                    Err(absent) => return absent.into(),
                };
                let number = match [named("max"), named("rotate"), named("mask"), named("add")] {
                    [Some(max), Some(rotate), Some(mask), Some(add)] => {
                        self.counter_input(field, [max, rotate, mask, add], span, scope)
                    }
                    _ => self.save_value(ops::cast(field, COUNTER), span, scope),
                };
                if method == "push" {
                    for at in (1..fields.len()).rev() {
                        let below = Expr::field(fields[at - 1], COUNTER);
                        self.set_counter(fields[at], below, span);
                    }
                }
                self.set_counter(fields[0], number, span);
            }
            "pop" => {
                for at in 1..fields.len() {
                    let above = Expr::field(fields[at], COUNTER);
                    self.set_counter(fields[at - 1], above, span);
                }
            }
            "is_zero" => {
                let is_zero = ops::binary(BinaryOp::Eq, present, Expr::bits(0, BITS));
                return Data::Scalar(self.save_value(is_zero, span, scope));
            }
            "is_negative" => {
                let least = Expr::bits(1 << (BITS - 1), BITS);
                let is_negative = ops::binary(BinaryOp::Ge, present, least);
                return Data::Scalar(self.save_value(is_negative, span, scope));
            }
            "increment" | "decrement" => {
                let op = match method {
                    "increment" => BinaryOp::Add,
                    _ => BinaryOp::Sub,
                };
                match self.number_at(args, 0, span) {
                    Ok(amount) => {
                        let amount = ops::cast(amount, COUNTER);
                        self.set_counter(fields[0], ops::binary(op, present, amount), span);
                    }
                    Err(absent) => return absent.into(),
                }
            }
            _ => return self.no_data(span, "an unknown method of a ParserCounter is called"),
        }
        Data::Nothing
    }

    /// The initial value of a counter from a packet field: range check against `max`, right rotation by `rotate`, a mask that keeps the bits
    /// up to `mask`, and addition of `add`.
    fn counter_input(
        &mut self,
        field: Expr,
        [max, rotate, mask, add]: [Expr; 4],
        span: Span,
        scope: &str,
    ) -> Expr {
        let field = self.save_value(ops::cast(field, COUNTER), span, scope);
        let [max, rotate, mask, add] =
            [max, rotate, mask, add].map(|part| ops::cast(part, COUNTER));
        let in_range = ops::binary(BinaryOp::Le, field.clone(), max);
        let error = self
            .program
            .errors
            .iter()
            .position(|name| name == RANGE_ERROR);
        if let Some(error) = error {
            let error = Expr::bits(error, 32);
            self.emit(
                span,
                Take::Verify {
                    cond: in_range,
                    error,
                },
            );
        }
        let bits = |number: u32| Expr::bits(number, BITS);
        let back = ops::binary(BinaryOp::BitAnd, rotate, bits(WHOLE_MASK));
        let forth = ops::binary(BinaryOp::Sub, bits(BITS), back.clone());
        let rotated = ops::binary(
            BinaryOp::BitOr,
            ops::binary(BinaryOp::Shr, field.clone(), back),
            ops::binary(BinaryOp::Shl, field, forth),
        );
        let rotated = self.save_value(rotated, span, scope);
        let kept = ops::binary(BinaryOp::Sub, bits(WHOLE_MASK), mask);
        let kept = ops::binary(BinaryOp::Shr, bits(u32::from(u8::MAX)), kept);
        let masked = ops::binary(BinaryOp::BitAnd, rotated, kept);
        let sum = ops::binary(BinaryOp::Add, masked, add);
        self.save_value(sum, span, scope)
    }

    /// Emits an assignment to a counter.
    fn set_counter(&mut self, field: FieldRef, value: Expr, span: Span) {
        let target = field.into();
        self.emit(span, Effect::Assign { target, value });
    }
}
