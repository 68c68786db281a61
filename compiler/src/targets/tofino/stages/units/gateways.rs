//! Check that a gateway can evaluate each condition of an `apply` block.
//!
//! A gateway compares up to 4 rows with the packet; a row is a conjunction of comparisons. Its input has 4 bytes from the crossbar and
//! 12 bits from a hash function. Each crossbar byte is compared for equality with a constant or with a byte of another field.
//! Only the hash bits support comparisons by `<`.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use num_traits::{One, Zero};

use super::Units;
use crate::diag::Span;
use crate::sema::{BuiltinMethod, Callee};
use crate::syntax::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::syntax::print::print_expr;

/// Width in bits of a gateway's input from the crossbar.
const CROSSBAR_BITS: u32 = 32;
/// Width in bits of a gateway's input from a hash function, the only input that supports comparisons by `<`.
const HASH_BITS: u32 = 12;
/// Maximum number of rows of a condition that is checked; a condition with more rows is accepted unchecked.
const MOST_ROWS: usize = 64;
/// Maximum number of fields in a condition that are replaced by the expressions assigned to them; at this number, the inputs of the
/// condition are not counted. Each assignment of a variable from two uses of the last one doubles the condition.
const MAX_REPLACEMENTS: usize = 64;

/// The inputs of a conjunction: for each kind of comparison, the compared fields with their numbers of compared bits.
#[derive(Clone, Debug, Default)]
struct Row {
    /// Fields compared with a constant for equality; on Tofino 2 also the validity bits of headers.
    equal: BTreeMap<String, u32>,
    /// Pairs of fields compared with each other for equality, by the text of the comparison.
    paired: BTreeMap<String, u32>,
    /// Fields compared by `<`, `<=`, `>` or `>=`, which need hash bits.
    range: BTreeMap<String, u32>,
    /// Validity bits of headers on Tofino 1, which need hash bits.
    valid: BTreeMap<String, u32>,
}

impl Row {
    /// The conjunction of two rows. A field compared in both counts once, with the larger number of bits.
    fn and(&self, other: &Row) -> Row {
        let join = |one: &BTreeMap<String, u32>, other: &BTreeMap<String, u32>| {
            let mut all = one.clone();
            for (field, bits) in other {
                let most = all.entry(field.clone()).or_insert(0);
                *most = (*most).max(*bits);
            }
            all
        };
        Row {
            equal: join(&self.equal, &other.equal),
            paired: join(&self.paired, &other.paired),
            range: join(&self.range, &other.range),
            valid: join(&self.valid, &other.valid),
        }
    }
}

impl Units<'_> {
    /// Reports a condition that a gateway cannot evaluate.
    pub(super) fn gateway(&mut self, condition: &Expr) {
        if self.is_constant(condition) {
            return;
        }
        let errors = self.diagnostics.error_count();
        self.replacements = 0;
        let rows = self.rows(condition, true);
        if self.diagnostics.error_count() > errors || self.replacements == MAX_REPLACEMENTS {
            return;
        }
        for row in rows.into_iter().flatten() {
            let sum = |bits: &BTreeMap<String, u32>| {
                bits.values().fold(0, |a: u32, b| a.saturating_add(*b))
            };
            let hashed = sum(&row.range).saturating_add(sum(&row.valid));
            let (paired, equal) = (sum(&row.paired), sum(&row.equal));
            let room = CROSSBAR_BITS + HASH_BITS.saturating_sub(hashed);
            if hashed <= HASH_BITS
                && paired <= CROSSBAR_BITS
                && paired.saturating_add(equal) <= room
            {
                continue;
            }
            let chip = self.chip();
            let (what, has) = match () {
                () if hashed > HASH_BITS => {
                    (hashed, format!("{HASH_BITS} by `<` and for validity"))
                }
                () if paired > CROSSBAR_BITS => (
                    paired,
                    format!("{CROSSBAR_BITS} of two fields with each other"),
                ),
                () => (paired + equal, format!("{room}")),
            };
            self.cannot(
                condition.span,
                format!("this condition compares {what} bits at once, and a gateway of {chip} at most {has}"),
                "divide it into `if`s within each other, or make the fields keys of a table",
            );
            return;
        }
    }

    /// The disjunctive normal form of a condition, or of its negation if `holds` is false. `None` if it has more than `MOST_ROWS` rows.
    fn rows(&mut self, condition: &Expr, holds: bool) -> Option<Vec<Row>> {
        match &condition.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => self.rows(inner, !holds),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let (left, right) = (self.rows(a, holds), self.rows(b, holds));
                let (left, right) = (left?, right?);
                match (*op == BinaryOp::And) == holds {
                    true if left.len() * right.len() > MOST_ROWS => None,
                    true => Some(
                        (left.iter())
                            .flat_map(|a| right.iter().map(|b| a.and(b)))
                            .collect(),
                    ),
                    false => Some([left, right].concat()),
                }
            }
            _ => match self.replaced(condition, |units, value| units.rows(value, holds)) {
                Some(rows) => rows,
                None => Some(self.comparison(condition, holds)),
            },
        }
    }

    /// The rows of one comparison or Boolean value, or of its negation if `holds` is false. Empty after a reported error.
    fn comparison(&mut self, expr: &Expr, holds: bool) -> Vec<Row> {
        let one = |field: String, bits: u32| BTreeMap::from([(field, bits)]);
        if self.is_constant(expr) {
            return vec![Row::default()];
        }
        let ExprKind::Binary(op, a, b) = &expr.kind else {
            return vec![match self.checked.call(expr.id).map(|call| call.callee) {
                Some(Callee::Builtin(BuiltinMethod::IsValid))
                    if self.arch == crate::arch::Arch::TNA =>
                {
                    Row {
                        valid: one(print_expr(expr), 1),
                        ..Row::default()
                    }
                }
                Some(Callee::Builtin(BuiltinMethod::IsValid)) => Row {
                    equal: one(print_expr(expr), 1),
                    ..Row::default()
                },
                Some(_) => Row::default(),
                None if matches!(expr.kind, ExprKind::Name(_) | ExprKind::Member(..))
                    && !self.is_result(expr) =>
                {
                    Row {
                        equal: one(print_expr(expr), 1),
                        ..Row::default()
                    }
                }
                None => Row::default(),
            }];
        };
        let constants = [a, b].map(|side| self.is_constant(side));
        for (side, constant) in [a, b].into_iter().zip(constants) {
            if !constant && !self.operand(side) {
                return Vec::new();
            }
        }
        let Some((width, signed)) = self.width(a) else {
            return vec![Row::default()];
        };
        let (field, constant) = match constants {
            [false, true] => (a, Some(b)),
            [true, false] => (b, Some(a)),
            _ => (a, None),
        };
        match op {
            BinaryOp::Eq | BinaryOp::Ne => {
                // `!=` needs no input of its own: a preceding row tests equality and has the opposite outcome.
                if (*op == BinaryOp::Eq) != holds {
                    return vec![Row::default()];
                }
                let bits = width;
                vec![match constant {
                    Some(_) => {
                        let (name, bits) = self.masked(field, bits);
                        Row {
                            equal: one(name, bits),
                            ..Row::default()
                        }
                    }
                    None => Row {
                        paired: one(print_expr(expr), bits),
                        ..Row::default()
                    },
                }]
            }
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
                let Some(constant) = constant else {
                    self.cannot(
                        self.place(expr),
                        format!(
                            "a gateway of {} compares two fields for equality only: one side of `{}` must be a constant",
                            self.chip(),
                            op.as_str()
                        ),
                        "subtract one from the other in a table before, and look at the difference's sign bit; or compare in a RegisterAction",
                    );
                    return Vec::new();
                };
                let Some(number) = self.number(constant) else {
                    return vec![Row::default()];
                };
                // Normalise to `field < above` or `field >= above`.
                let flipped = constants[0];
                let above = match (op, flipped) {
                    (BinaryOp::Lt | BinaryOp::Ge, false) | (BinaryOp::Gt | BinaryOp::Le, true) => {
                        number
                    }
                    _ => number + 1,
                };
                let name = print_expr(field);
                match range_bits(&above, width, signed) {
                    Range::Equal(bits) => vec![Row {
                        equal: one(name, bits),
                        ..Row::default()
                    }],
                    Range::Bits(bits) if bits <= HASH_BITS => vec![Row {
                        range: one(name, bits),
                        ..Row::default()
                    }],
                    Range::Bits(bits) => {
                        self.cannot(
                            self.place(expr),
                            format!(
                                "`{}` compares {bits} bits by `{}`, and a gateway of {} at most {HASH_BITS}",
                                print_expr(expr),
                                op.as_str(),
                                self.chip()
                            ),
                            "compare with a multiple of a power of 2, whose zeros at the end do not count, or make the field a `range` key of a table",
                        );
                        Vec::new()
                    }
                }
            }
            _ => vec![Row::default()],
        }
    }

    /// The field of a comparison or key without its mask, and the number of compared bits. `bits` is the field's width.
    pub(super) fn masked(&self, field: &Expr, bits: u32) -> (String, u32) {
        if let ExprKind::Binary(BinaryOp::BitAnd, a, b) = &field.kind {
            for (value, mask) in [(a, b), (b, a)] {
                if let Some(mask) = self.number(mask) {
                    let ones = u32::try_from(mask.magnitude().count_ones()).unwrap_or(bits);
                    return (print_expr(value), ones.min(bits));
                }
            }
        }
        (print_expr(field), bits)
    }

    /// Whether an expression is the result of a table's `apply`: `hit`, `miss` or `action_run`.
    fn is_result(&self, expr: &Expr) -> bool {
        use crate::sema::Resolution;
        matches!(
            self.checked.resolution(expr),
            Resolution::Hit | Resolution::Miss | Resolution::ActionRun
        )
    }

    /// Applies `check` to the expression that replaces the read of a field; `None` if the field is read.
    fn replaced<T>(&mut self, read: &Expr, check: impl FnOnce(&mut Self, &Expr) -> T) -> Option<T> {
        if self.replacements == MAX_REPLACEMENTS {
            return None;
        }
        let value = self.forwarded(read)?;
        self.replacements += 1;
        let outer = self.forwarded_to.replace(self.place(read));
        let result = check(self, &value);
        self.forwarded_to = outer;
        Some(result)
    }

    /// The place of an expression in a condition: of a forwarded expression, the place of the field that it replaces.
    fn place(&self, expr: &Expr) -> Span {
        self.forwarded_to.unwrap_or(expr.span)
    }

    /// Whether one side of a comparison is a field or a slice of a field. Reports an arithmetic expression, for which a gateway has no ALU.
    fn operand(&mut self, expr: &Expr) -> bool {
        let op = match &expr.kind {
            ExprKind::Cast(_, arg) => return self.operand(arg),
            ExprKind::Slice { base, .. } => return self.operand(base),
            ExprKind::Name(_) | ExprKind::Member(..) => {
                return self.replaced(expr, Units::operand).unwrap_or(true);
            }
            ExprKind::Binary(BinaryOp::BitAnd, a, b)
                if self.is_constant(a) || self.is_constant(b) =>
            {
                return true
            }
            ExprKind::Binary(
                op @ (BinaryOp::Add
                | BinaryOp::Sub
                | BinaryOp::AddSat
                | BinaryOp::SubSat
                | BinaryOp::Mul
                | BinaryOp::Div
                | BinaryOp::Mod
                | BinaryOp::BitAnd
                | BinaryOp::BitOr
                | BinaryOp::BitXor),
                ..,
            ) => *op,
            ExprKind::Binary(op @ (BinaryOp::Shl | BinaryOp::Shr), _, amount)
                if !self.is_constant(amount) =>
            {
                *op
            }
            _ => return true,
        };
        let message = format!(
            "a gateway of {} compares fields, and has no ALU for `{}` in `{}`",
            self.chip(),
            op.as_str(),
            print_expr(expr)
        );
        self.cannot(
            self.place(expr),
            message,
            "assign it to a metadata field in an action that is called before, and compare that field; an assignment outside of actions is forwarded to the condition",
        );
        false
    }
}

/// The implementation of a comparison by `<`, with its number of input bits.
enum Range {
    /// An equality comparison of crossbar bits.
    Equal(u32),
    /// A range comparison of hash bits.
    Bits(u32),
}

/// The input bits that decide whether a value of `width` bits is less than `number`.
fn range_bits(number: &BigInt, width: u32, signed: bool) -> Range {
    if signed {
        return match number.is_zero() {
            true => Range::Equal(1),
            false => Range::Bits(width),
        };
    }
    // The condition is constant.
    if number.is_zero() || *number >= BigInt::one() << width {
        return Range::Equal(0);
    }
    let zeros = u32::try_from(number.trailing_zeros().unwrap_or(0)).unwrap_or(0);
    let bits = width.saturating_sub(zeros);
    match (number >> zeros).is_one() {
        true => Range::Equal(bits),
        false => Range::Bits(bits),
    }
}
