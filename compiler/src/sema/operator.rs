//! Operators, slices, conditional expressions and casts.

use super::checker::Checker;
use super::types::Type;
use super::value::{self, FoldError, Value, MAX_WIDTH};
use crate::diag::{Code, Diagnostic, Span, Warning};
use crate::syntax::ast::*;
use num_traits::{Signed, ToPrimitive};

impl Checker<'_> {
    /// Type of an operand: serializable enums are replaced by their underlying type.
    fn operand_type(&self, expr: &Expr) -> Type {
        let mut ty = self.type_of(expr);
        while let (Type::SerializableEnum(_), Some(under)) = (&ty, self.out.underlying(&ty)) {
            ty = under;
        }
        ty
    }

    /// Casts an operand of a serializable enum implicitly to the underlying type, and returns the operand's type.
    fn unwrap_enum(&mut self, expr: &Expr) -> Type {
        let ty = self.operand_type(expr);
        if ty != self.type_of(expr) {
            self.info_mut(expr).cast = Some(ty.clone());
        }
        ty
    }

    /// Reports a failed constant evaluation. Returns [`Type::Invalid`], or `ty` if the value is merely unknown at compile time.
    fn report_fold_error(&mut self, error: FoldError, span: Span, ty: Type) -> Type {
        if error == FoldError::NotConstant {
            return ty;
        }
        self.error(Code::EVALUATION, span, error.to_string());
        self.invalid()
    }

    pub fn unary(&mut self, expr: &Expr, op: UnaryOp, operand: &Expr) -> Type {
        self.expr(operand);
        let ty = self.unwrap_enum(operand);
        let fits = match op {
            UnaryOp::Not => ty == Type::Bool,
            UnaryOp::Complement => matches!(ty, Type::Bit(_) | Type::Signed(_)),
            UnaryOp::Minus | UnaryOp::Plus => ty.is_numeric(),
        };
        if ty.is_invalid() {
            return ty;
        }
        if !fits {
            let mut d = Diagnostic::error(
                Code::OPERATOR,
                expr.span,
                format!("`{}` cannot be applied to `{ty}`", op.as_str()),
            );
            d = match (op, &ty) {
                (UnaryOp::Complement, Type::Int) => {
                    d.help("give the number a width, such as `8w1`")
                }
                (UnaryOp::Complement, Type::Bool) => d.help("use `!` for `bool`"),
                (UnaryOp::Not, Type::Bit(_)) => d.help("use `~` for bits, or compare with `== 0`"),
                _ => d,
            };
            self.report(d);
            return self.invalid();
        }
        if let Some(v) = self.value_of(operand) {
            match value::unary(op, &v, &ty) {
                Ok(v) => self.info_mut(expr).value = Some(v),
                Err(e) => return self.report_fold_error(e, expr.span, ty),
            }
        }
        ty
    }

    pub fn binary(&mut self, expr: &Expr, op: BinaryOp, left: &Expr, right: &Expr) -> Type {
        let (a, b) = (self.expr(left), self.expr(right));
        if a.is_invalid() || b.is_invalid() {
            return match op {
                BinaryOp::Eq
                | BinaryOp::Ne
                | BinaryOp::Lt
                | BinaryOp::Gt
                | BinaryOp::Le
                | BinaryOp::Ge => Type::Bool,
                BinaryOp::And | BinaryOp::Or => Type::Bool,
                _ => self.invalid(),
            };
        }
        let result = self.binary_type(expr.span, op, left, right);
        if result.is_invalid() {
            return result;
        }
        self.fold_binary(expr, op, left, right, result)
    }

    /// Type of `left op right`; reports operands that the operator does not accept.
    pub fn binary_type(&mut self, span: Span, op: BinaryOp, left: &Expr, right: &Expr) -> Type {
        match op {
            BinaryOp::And | BinaryOp::Or => {
                for side in [left, right] {
                    let ty = self.type_of(side);
                    if ty != Type::Bool {
                        let mut d = Diagnostic::error(
                            Code::OPERATOR,
                            side.span,
                            format!("`{}` takes `bool`, not `{ty}`", op.as_str()),
                        );
                        if matches!(ty, Type::Bit(_)) {
                            d = d.help("compare it: `... != 0`");
                        }
                        self.report(d);
                        return self.invalid();
                    }
                }
                Type::Bool
            }
            BinaryOp::Eq | BinaryOp::Ne => self.equality(span, op, left, right),
            BinaryOp::Shl | BinaryOp::Shr => self.shift(span, op, left, right),
            BinaryOp::Concat => self.concat(span, left, right),
            _ => self.arithmetic(span, op, left, right),
        }
    }

    fn arithmetic(&mut self, span: Span, op: BinaryOp, left: &Expr, right: &Expr) -> Type {
        let (a, b) = (self.operand_type(left), self.operand_type(right));
        if !a.is_numeric() || !b.is_numeric() {
            return self.report_bad_operands(span, op, left, right);
        }
        self.unwrap_enum(left);
        self.unwrap_enum(right);
        if matches!(op, BinaryOp::Div | BinaryOp::Mod) && !self.check_division_signs(left, right) {
            return self.invalid();
        }
        let ty = match (&a, &b) {
            _ if a == b => a.clone(),
            (Type::Int, to) => {
                if !self.coerce(left, to, "the left operand") {
                    return self.invalid();
                }
                to.clone()
            }
            (to, Type::Int) => {
                if !self.coerce(right, to, "the right operand") {
                    return self.invalid();
                }
                to.clone()
            }
            _ => return self.report_bad_operands(span, op, left, right),
        };
        match op {
            BinaryOp::AddSat | BinaryOp::SubSat if ty == Type::Int => {
                self.report(
                    Diagnostic::error(
                        Code::OPERATOR,
                        span,
                        format!("`{}` needs operands with a width", op.as_str()),
                    )
                    .help("give a number a width, such as `8w1`"),
                );
                self.invalid()
            }
            BinaryOp::Div | BinaryOp::Mod if matches!(ty, Type::Signed(_)) => {
                let message = format!("`{}` is not defined for signed numbers", op.as_str());
                self.error(Code::OPERATOR, span, message);
                self.invalid()
            }
            BinaryOp::Lt | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Ge => Type::Bool,
            _ => ty,
        }
    }

    /// Reports a negative literal on either side of a division: the cast to the other side's type would make it a large positive number.
    /// Returns whether there is none.
    fn check_division_signs(&mut self, left: &Expr, right: &Expr) -> bool {
        for side in [left, right] {
            let literal = self.type_of(side) == Type::Int;
            let value = self.value_of(side).filter(|_| literal);
            if matches!(value, Some(Value::Int(n)) if n.is_negative()) {
                self.error(
                    Code::EVALUATION,
                    side.span,
                    "division is not defined for negative numbers",
                );
                return false;
            }
        }
        true
    }

    fn report_bad_operands(&mut self, span: Span, op: BinaryOp, left: &Expr, right: &Expr) -> Type {
        let (a, b) = (self.type_of(left), self.type_of(right));
        let mut d = Diagnostic::error(
            Code::OPERATOR,
            span,
            format!("`{}` cannot be applied to `{a}` and `{b}`", op.as_str()),
        )
        .other(left.span, format!("`{a}`"))
        .other(right.span, format!("`{b}`"));
        match (&a, &b) {
            (Type::Bit(_) | Type::Signed(_), Type::Bit(_) | Type::Signed(_)) => {
                d = d.help(format!("cast one of them, for example `({a}) ...`"));
            }
            (Type::NewType(_), _) | (_, Type::NewType(_)) => {
                d = d.note(
                    "types declared with `type` have no arithmetic: cast to the underlying type",
                );
            }
            (Type::Bool, Type::Bit(1)) | (Type::Bit(1), Type::Bool) => {
                d = d.help("cast: `(bit<1>) ...`")
            }
            _ => {}
        }
        self.report(d);
        self.invalid()
    }

    fn equality(&mut self, span: Span, op: BinaryOp, left: &Expr, right: &Expr) -> Type {
        let (a, b) = (self.type_of(left), self.type_of(right));
        let literal = |e: &Expr| {
            matches!(
                e.kind,
                ExprKind::List(_)
                    | ExprKind::Struct { .. }
                    | ExprKind::InvalidHeader
                    | ExprKind::Dots
            )
        };
        let comparable = |ty: &Type| {
            !ty.is_instance()
                && !matches!(
                    ty,
                    Type::Void
                        | Type::Table(_)
                        | Type::Callable(_)
                        | Type::ApplyResult(_)
                        | Type::Set(_)
                        | Type::ActionRun(_)
                )
        };
        if !comparable(&a) || !comparable(&b) {
            return self.report_bad_operands(span, op, left, right);
        }
        let ok = if a == b && !literal(left) {
            true
        } else if literal(right) && !literal(left) {
            self.coerce(right, &a, "the right operand")
        } else if literal(left) && !literal(right) {
            self.coerce(left, &b, "the left operand")
        } else if literal(left) && literal(right) {
            a == b || self.unify(&a, &b) || {
                self.report_bad_operands(span, op, left, right);
                false
            }
        } else {
            let (x, y) = (self.operand_type(left), self.operand_type(right));
            match (&x, &y) {
                _ if x == y => {
                    self.unwrap_enum(left);
                    self.unwrap_enum(right);
                    true
                }
                (Type::Int, Type::Bit(_) | Type::Signed(_)) => {
                    self.unwrap_enum(right);
                    self.coerce(left, &y, "the left operand")
                }
                (Type::Bit(_) | Type::Signed(_), Type::Int) => {
                    self.unwrap_enum(left);
                    self.coerce(right, &x, "the right operand")
                }
                _ => {
                    self.report_bad_operands(span, op, left, right);
                    false
                }
            }
        };
        if ok {
            Type::Bool
        } else {
            self.invalid()
        }
    }

    fn shift(&mut self, span: Span, op: BinaryOp, left: &Expr, right: &Expr) -> Type {
        let (a, b) = (self.operand_type(left), self.operand_type(right));
        if !a.is_numeric() || !b.is_numeric() {
            return self.report_bad_operands(span, op, left, right);
        }
        self.unwrap_enum(left);
        self.unwrap_enum(right);
        let amount = self.value_of(right).and_then(|v| v.as_int().cloned());
        match (&b, &amount) {
            (Type::Signed(_), _) => {
                self.report(
                    Diagnostic::error(
                        Code::OPERATOR,
                        right.span,
                        "the amount of a shift must be unsigned",
                    )
                    .help("cast it to `bit`"),
                );
                return self.invalid();
            }
            (_, Some(n)) if n.is_negative() => {
                self.error(Code::EVALUATION, right.span, "shift by a negative amount");
                return self.invalid();
            }
            (Type::Int, None) => {
                self.report_not_constant(right, "the amount of this shift");
                return self.invalid();
            }
            _ => {}
        }
        if a == Type::Int && amount.is_none() {
            self.report(
                Diagnostic::error(Code::OPERATOR, left.span, "the shifted number has no width")
                    .help("give it a width, such as `8w1`"),
            );
            return self.invalid();
        }
        if let (Some(width), Some(n)) = (a.bits(), &amount) {
            if n.to_u32().is_none_or(|n| n >= width) && width > 0 {
                self.warn(
                    Diagnostic::warning(
                        Warning::Overflow,
                        span,
                        format!("shift of `{a}` by {n}, at least its width"),
                    )
                    .label("all bits are shifted out"),
                );
            }
        }
        a
    }

    fn concat(&mut self, span: Span, left: &Expr, right: &Expr) -> Type {
        let (a, b) = (self.operand_type(left), self.operand_type(right));
        if a == Type::String && b == Type::String {
            return Type::String;
        }
        for (side, ty) in [(left, &a), (right, &b)] {
            if *ty == Type::Int {
                self.report(
                    Diagnostic::error(
                        Code::OPERATOR,
                        side.span,
                        "a concatenated number must have a width",
                    )
                    .help("give it a width, such as `8w1`"),
                );
                return self.invalid();
            }
        }
        let (Some(wa), Some(wb)) = (a.bits(), b.bits()) else {
            return self.report_bad_operands(span, BinaryOp::Concat, left, right);
        };
        self.unwrap_enum(left);
        self.unwrap_enum(right);
        if wa + wb > MAX_WIDTH {
            self.error(
                Code::BAD_TYPE,
                span,
                format!(
                    "the result has {} bits; the maximum is {MAX_WIDTH}",
                    wa + wb
                ),
            );
            return self.invalid();
        }
        if matches!(a, Type::Signed(_)) {
            Type::Signed(wa + wb)
        } else {
            Type::Bit(wa + wb)
        }
    }

    fn fold_binary(
        &mut self,
        expr: &Expr,
        op: BinaryOp,
        left: &Expr,
        right: &Expr,
        result: Type,
    ) -> Type {
        let (a, b) = (self.value_of(left), self.value_of(right));
        let value = match (op, &a, &b) {
            // Short-circuit evaluation: the left operand alone determines the result.
            (BinaryOp::And, Some(Value::Bool(false)), _) => Ok(Value::Bool(false)),
            (BinaryOp::Or, Some(Value::Bool(true)), _) => Ok(Value::Bool(true)),
            (_, Some(a), Some(b)) => {
                let (ta, tb) = (
                    self.out.type_as_used(left).clone(),
                    self.out.type_as_used(right).clone(),
                );
                value::binary(op, (a, &ta), (b, &tb))
            }
            (BinaryOp::Div | BinaryOp::Mod, None, Some(Value::Int(n))) if n.to_u32() == Some(0) => {
                Err(FoldError::DivisionByZero)
            }
            _ => return result,
        };
        match value {
            Ok(value) => self.constant(expr, result, value),
            Err(e) => self.report_fold_error(e, expr.span, result),
        }
    }

    pub fn ternary(&mut self, expr: &Expr, condition: &Expr, yes: &Expr, no: &Expr) -> Type {
        self.condition(condition);
        let (a, b) = (self.expr(yes), self.expr(no));
        if a.is_invalid() || b.is_invalid() {
            return if a.is_invalid() { b } else { a };
        }
        let literal = |e: &Expr| {
            matches!(
                e.kind,
                ExprKind::List(_) | ExprKind::Struct { .. } | ExprKind::InvalidHeader
            )
        };
        let ty = match (&a, &b) {
            _ if a == b => a,
            (Type::Int, _) => {
                self.coerce(yes, &b, "the first branch");
                b
            }
            (_, Type::Int) => {
                self.coerce(no, &a, "the second branch");
                a
            }
            _ if literal(yes) && !literal(no) => {
                self.coerce(yes, &b, "the first branch");
                b
            }
            _ => {
                if self.coerce(no, &a, "the second branch") {
                    a
                } else {
                    self.invalid()
                }
            }
        };
        let value = match self.value_of(condition) {
            Some(Value::Bool(true)) => self.value_of(yes),
            Some(Value::Bool(false)) => self.value_of(no),
            _ => None,
        };
        self.info_mut(expr).value = value;
        ty
    }

    /// Checks the condition of an `if`, a loop or `? :`, which must be a `bool`.
    pub fn condition(&mut self, expr: &Expr) {
        let ty = self.expr(expr);
        if ty == Type::Bool || ty.is_invalid() {
            return;
        }
        let mut d = Diagnostic::error(
            Code::TYPE_MISMATCH,
            expr.span,
            format!("expected `bool`, found `{ty}`"),
        )
        .label("a condition must be `bool`");
        d = match ty {
            Type::Bit(_) | Type::Signed(_) | Type::Int => d.help("compare it: `... != 0`"),
            Type::ApplyResult(_) => d.help("use `.hit` or `.miss`"),
            Type::Header(_) => d.help("use `.isValid()`"),
            _ => d,
        };
        self.report(d);
    }

    pub fn slice(&mut self, expr: &Expr, base: &Expr, hi: &Expr, lo: &Expr) -> Type {
        self.expr(base);
        let ty = self.unwrap_enum(base);
        let ends = (
            self.constant_int(hi, "the end of a slice"),
            self.constant_int(lo, "the end of a slice"),
        );
        let (Some(h), Some(l)) = ends else {
            return self.invalid();
        };
        let Some(width) = self.sliced_width(base, &ty) else {
            return self.invalid();
        };
        let (Some(high), Some(low)) = (h.to_u32(), l.to_u32()) else {
            self.error(
                Code::BOUNDS,
                expr.span,
                format!("[{h}:{l}] is not a valid slice: bits are counted from 0"),
            );
            return self.invalid();
        };
        if high < low {
            self.report(
                Diagnostic::error(
                    Code::BOUNDS,
                    expr.span,
                    format!("[{h}:{l}] is not a valid slice"),
                )
                .help(format!(
                    "the more significant bit is written first: `[{l}:{h}]`"
                )),
            );
            return self.invalid();
        }
        if high >= width {
            self.report(
                Diagnostic::error(Code::BOUNDS, hi.span, format!("bit {h} is out of range")).label(
                    format!("the highest bit of `{ty}` is {}", i64::from(width) - 1),
                ),
            );
            return self.invalid();
        }
        let is_lvalue = self.out.info(base.id).is_lvalue;
        let value = self
            .value_of(base)
            .and_then(|v| value::slice(&v, &ty, high, low).ok());
        let info = self.info_mut(expr);
        info.is_lvalue = is_lvalue;
        info.value = value;
        Type::Bit(high - low + 1)
    }

    /// Width of the sliced operand, in bits; `MAX_WIDTH` for an `int`, which has no width. `None` after a reported error.
    fn sliced_width(&mut self, base: &Expr, ty: &Type) -> Option<u32> {
        match ty {
            Type::Bit(w) | Type::Signed(w) => Some(*w),
            Type::Int if self.value_of(base).is_some() => Some(MAX_WIDTH),
            Type::Invalid(_) | Type::Unknown => None,
            ty => {
                self.error(
                    Code::OPERATOR,
                    base.span,
                    format!("`{ty}` cannot be sliced"),
                );
                None
            }
        }
    }

    pub fn slice_plus(&mut self, expr: &Expr, base: &Expr, lo: &Expr, width: &Expr) -> Type {
        self.expr(base);
        let ty = self.unwrap_enum(base);
        let low_type = self.expr(lo);
        if !matches!(
            self.out.representation(&low_type),
            Type::Bit(_) | Type::Int | Type::Invalid(_) | Type::Unknown
        ) {
            self.error(
                Code::TYPE_MISMATCH,
                lo.span,
                format!("the start of a slice must be unsigned, not `{low_type}`"),
            );
            return self.invalid();
        }
        let Some(n) = self.constant_int(width, "the width of a slice") else {
            return self.invalid();
        };
        let Some(total) = self.sliced_width(base, &ty) else {
            return self.invalid();
        };
        let count = n.to_u32().filter(|n| *n >= 1 && *n <= total);
        let Some(count) = count else {
            self.report(
                Diagnostic::error(
                    Code::BOUNDS,
                    width.span,
                    format!("a slice of `{ty}` cannot be {n} bits wide"),
                )
                .label(format!("must be from 1 to {total}")),
            );
            return self.invalid();
        };
        let low = self.value_of(lo).and_then(|v| v.as_int().cloned());
        let mut value = None;
        if let Some(low) = low {
            let high = low
                .to_u32()
                .and_then(|low| low.checked_add(count - 1))
                .filter(|high| *high < total);
            match (high, low.to_u32()) {
                (Some(high), Some(low)) => {
                    value = self
                        .value_of(base)
                        .and_then(|v| value::slice(&v, &ty, high, low).ok());
                }
                _ => {
                    let message =
                        format!("{count} bits from bit {low} on are out of range of `{ty}`");
                    self.error(Code::BOUNDS, expr.span, message);
                    return self.invalid();
                }
            }
        }
        let is_lvalue = self.out.info(base.id).is_lvalue;
        let info = self.info_mut(expr);
        info.is_lvalue = is_lvalue;
        info.value = value;
        Type::Bit(count)
    }

    pub fn cast(&mut self, expr: &Expr, written: &TypeRef, operand: &Expr) -> Type {
        let to = self.type_ref(written);
        let from = self.expr(operand);
        if to.is_invalid() || from.is_invalid() {
            return to;
        }
        let converts = matches!(
            operand.kind,
            ExprKind::List(_) | ExprKind::Struct { .. } | ExprKind::InvalidHeader
        ) || matches!(operand.kind, ExprKind::Dots);
        if converts {
            self.coerce(operand, &to, "the operand");
        } else if !self.can_cast(&from, &to) {
            let mut d = Diagnostic::error(
                Code::CAST,
                expr.span,
                format!("`{from}` cannot be cast to `{to}`"),
            );
            d = match (&from, &to) {
                (Type::Bit(a), Type::Signed(b)) if a != b => {
                    d.help(format!("cast to `int<{a}>` first, then to `{to}`"))
                }
                (Type::Signed(a), Type::Bit(b)) if a != b => {
                    d.help(format!("cast to `bit<{a}>` first, then to `{to}`"))
                }
                (Type::NewType(_) | Type::SerializableEnum(_), _) => {
                    match self.out.underlying(&from) {
                        Some(under) if self.can_cast(&under, &to) => {
                            d.help(format!("cast to `{under}` first, then to `{to}`"))
                        }
                        _ => d,
                    }
                }
                (Type::Bit(_), Type::Bool) => d.help("compare it: `... != 0`"),
                (Type::Bool, Type::Bit(_)) => d.help("cast to `bit<1>` first"),
                _ => d,
            };
            self.report(d);
            return to;
        }
        // A `bool` can be cast to `int` only at compile time; numbers can be cast at run time, too.
        if to == Type::Int && from == Type::Bool && self.out.info(operand.id).value.is_none() {
            self.report_not_constant(operand, "a `bool` cast to `int`");
        }
        if let (Type::Int, Type::Bool, Some(Value::Int(n))) = (&from, &to, self.value_of(operand)) {
            if n.to_u32().is_none_or(|n| n > 1) {
                self.error(
                    Code::CAST,
                    operand.span,
                    format!("{n} cannot be cast to `bool`: only 0 and 1 can"),
                );
            }
        }
        let value = self.value_of(operand).and_then(|v| {
            let from = self.out.type_as_used(operand).clone();
            self.out.cast_value(&v, &from, &to)
        });
        self.info_mut(expr).value = value;
        to
    }
}
