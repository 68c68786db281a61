//! Check that the ALUs of a stage have an instruction for each operation of actions and of assignments in `apply` blocks. The compiler turns
//! the latter into actions.

use num_traits::{One, Zero};

use super::{Around, Units};
use crate::diag::Span;
use crate::sema::Callee;
use crate::syntax::ast::{BinaryOp, Expr, ExprKind};
use crate::syntax::print::print_expr;

/// Width in bits of the widest container. A saturating operation must be in one container.
const WIDEST_CONTAINER: u32 = 32;

impl Units<'_> {
    /// Reports operations of an expression, and of its parts, that no ALU can execute.
    pub(super) fn operations(&mut self, expr: &Expr, around: Around) {
        if self.is_constant(expr) {
            return;
        }
        match &expr.kind {
            ExprKind::Binary(op, left, right) => {
                self.operator(*op, left, right, expr.span);
                self.operations(left, around);
                self.operations(right, around);
            }
            ExprKind::Ternary(cond, then, other) => {
                if around == Around::Action && !is_extreme(cond, then, other) {
                    self.condition_in_action(cond);
                }
                self.operations(then, around);
                self.operations(other, around);
            }
            ExprKind::Unary(_, arg) | ExprKind::Cast(_, arg) => self.operations(arg, around),
            ExprKind::Slice { base, .. } | ExprKind::Member(base, _) => {
                self.operations(base, around);
            }
            ExprKind::List(items) => items.iter().for_each(|item| self.operations(item, around)),
            ExprKind::Struct { fields, .. } => {
                let values = fields.iter().map(|field| &field.value);
                values.for_each(|value| self.operations(value, around));
            }
            ExprKind::Call(call) => {
                let callee = self.checked.call(expr.id).map(|info| info.callee);
                // Arguments of externs and methods are not computed by the action's ALUs.
                if let Some(Callee::Action(_) | Callee::Function(_)) = callee {
                    for arg in &call.args {
                        self.operations(&arg.value, around);
                    }
                }
            }
            _ => {}
        }
    }

    /// Reports an operator that no ALU can execute for these operands.
    pub(super) fn operator(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span) {
        let chip = self.chip();
        let symbol = op.as_str();
        let is_power = |number: Option<num_bigint::BigInt>| {
            number.is_some_and(|n| n.is_zero() || n.magnitude().count_ones().is_one())
        };
        match op {
            BinaryOp::Mul => {
                let known = [left, right].map(|side| self.number(side));
                let unknown = [left, right].iter().any(|side| self.is_constant(side));
                let does = match known.iter().any(Option::is_some) {
                    true => known.into_iter().any(is_power),
                    false => unknown,
                };
                if !does {
                    self.cannot(
                        span,
                        format!("no ALU of {chip} multiplies: `{symbol}` needs a power of 2 on one side"),
                        "a product with a constant is a sum of shifts, one operation each in tables one after another; a `MathUnit` in a \
                         RegisterAction approximates others",
                    );
                }
            }
            BinaryOp::Div | BinaryOp::Mod => {
                let does = match self.number(right) {
                    Some(number) => is_power(Some(number)),
                    None => self.is_constant(right),
                };
                if !does {
                    self.cannot(
                        span,
                        format!("no ALU of {chip} divides: `{symbol}` needs a power of 2 on its right"),
                        "divide by a power of 2, or look the quotient up in a table; a `MathUnit` in a RegisterAction approximates it",
                    );
                }
            }
            BinaryOp::Shl | BinaryOp::Shr if !self.is_constant(right) => {
                self.cannot(
                    span,
                    format!(
                        "`{symbol} {}` shifts by a number that the packet gives, and {chip} shifts by constants",
                        print_expr(right)
                    ),
                    "match the number in a table with an action for each value, which shifts by a constant",
                );
            }
            BinaryOp::AddSat | BinaryOp::SubSat => {
                if let Some((width, _)) = self
                    .width(left)
                    .filter(|(width, _)| *width > WIDEST_CONTAINER)
                {
                    self.cannot(
                        span,
                        format!(
                            "`{symbol}` of {width} bits: {chip} saturates in one container, which has at most {WIDEST_CONTAINER}"
                        ),
                        format!("use at most {WIDEST_CONTAINER} bits, or an addition that wraps"),
                    );
                }
            }
            _ => {}
        }
    }

    /// Reports a condition in an action that depends on more than constants and action data.
    pub(super) fn condition_in_action(&mut self, condition: &Expr) {
        if self.is_action_data(condition) {
            return;
        }
        let message = format!(
            "an action of {} cannot decide by `{}`: its conditions are comparisons of its own parameters, which an entry gives",
            self.chip(),
            print_expr(condition)
        );
        self.cannot(
            condition.span,
            message,
            "put the `if` into the `apply` block around two actions, or make what it looks at a key of the table",
        );
    }
}

/// Whether a conditional expression computes a minimum or maximum, such as `a < b ? a : b`, for which ALUs have an instruction.
fn is_extreme(cond: &Expr, then: &Expr, other: &Expr) -> bool {
    let ExprKind::Binary(BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge, a, b) =
        &cond.kind
    else {
        return false;
    };
    let [a, b, then, other] = [&**a, &**b, then, other].map(print_expr);
    (a == then && b == other) || (a == other && b == then)
}
