//! Evaluation of expressions to values. Statements for side effects are emitted in the language's order of evaluation.

use std::rc::Rc;

use num_bigint::BigInt;

use super::frame::{Binding, Frame};
use super::{ops, Elaborator};
use crate::diag::{Code, Diagnostic, ErrorReported, Span, Warning};
use crate::ir::{self, Effect, Scalar};
use crate::passes::builder::data::{Data, Place};
use crate::passes::builder::{place_of, Absent};
use crate::passes::externs::call::Region;
use crate::sema::{DefKind, Resolution, Type, Value};
use crate::syntax::ast::{BinaryOp, DeclId, Expr, ExprKind, Ident, Name, NamedExpr, UnaryOp};

/// Maximum nesting of operators in an expression of the output. The reference switch reads JSON files nested up to 1,000 levels, Alfirk's switch up to 600,
/// and an operator whose result is wrapped uses six levels.
const MAX_HEIGHT: usize = 60;

impl Elaborator<'_> {
    /// The value of an expression after its implicit cast.
    pub fn eval(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Data {
        let data = self.one_level_deeper(expr.span, |this| this.eval_here(expr, frame));
        data.unwrap_or_else(Data::from)
    }

    /// The value of an expression after its implicit cast; the nesting is counted already.
    fn eval_here(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Data {
        let used = self.type_as_used(expr, frame);
        match &expr.kind {
            // The context determines the types of the parts.
            ExprKind::List(items) => return self.eval_list(items, &used, frame),
            ExprKind::Struct { fields, .. } => return self.eval_record(fields, &used, frame),
            ExprKind::Dots => return self.default_value(&used),
            _ => {}
        }
        let data = self.eval_uncast(expr, frame);
        let data = self.cast(data, &used);
        self.save_if_deep(data, expr.span, frame)
    }

    /// Stores a value in a variable if its expression is deeply nested, which later passes and loaders of the output may not support.
    /// Deparsers and checksum controls keep the expression, as they cannot contain assignments.
    fn save_if_deep(&mut self, data: Data, span: Span, frame: &Rc<Frame>) -> Data {
        let may_assign = matches!(
            self.region,
            Region::Parser | Region::Ingress | Region::Egress
        );
        match data {
            Data::Scalar(value) if may_assign && value.is_deeper_than(MAX_HEIGHT) => {
                Data::Scalar(self.save_value(value, span, &frame.name))
            }
            data => data,
        }
    }

    /// The value of an expression as a number or boolean.
    pub fn eval_scalar(&mut self, expr: &Expr, frame: &Rc<Frame>) -> ir::Expr {
        match self.eval(expr, frame) {
            Data::Scalar(expr) => expr,
            Data::Int(value) => {
                let width = (value.bits() as u32).max(1);
                ir::Expr::bits(value, width)
            }
            _ => self.placeholder(expr, frame),
        }
    }

    /// A placeholder for a value that is neither a number nor a boolean. Reports an error if none is reported yet.
    fn placeholder(&mut self, expr: &Expr, frame: &Rc<Frame>) -> ir::Expr {
        if self.diagnostics.error_reported().is_none() {
            let ty = self.type_as_used(expr, frame);
            self.target(
                expr.span,
                format!("a value of type {ty} cannot be used here on this target"),
            );
        }
        let ty = self.type_as_used(expr, frame);
        ir::Expr::number(0, self.scalar(&ty).unwrap_or(Scalar::Bit(1)))
    }

    /// The value of an expression that must be a constant number.
    ///
    /// # Errors
    /// The value is not constant, which is reported unless an earlier error may be the reason.
    pub fn eval_constant(
        &mut self,
        expr: &Expr,
        frame: &Rc<Frame>,
    ) -> Result<BigInt, ErrorReported> {
        if let Some(value) = self.eval(expr, frame).constant() {
            return Ok(value);
        }
        Err(self.diagnostics.error_reported().unwrap_or_else(|| {
            let message = "the value must be known at compile time";
            self.error(Code::NOT_CONSTANT, expr.span, message)
        }))
    }

    /// The value of an expression that must be a constant number below 2^32.
    ///
    /// # Errors
    /// As for [`Elaborator::eval_constant`], or the number is out of range.
    pub fn eval_u32(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Result<u32, ErrorReported> {
        let value = self.eval_constant(expr, frame)?;
        u32::try_from(&value).map_err(|_| {
            self.error(
                Code::EVALUATION,
                expr.span,
                format!("{value} is not between 0 and 2^32 - 1"),
            )
        })
    }

    /// The bounds of a slice, most significant first.
    ///
    /// # Errors
    /// As for [`Elaborator::eval_u32`].
    pub fn slice_bounds(
        &mut self,
        high: &Expr,
        low: &Expr,
        frame: &Rc<Frame>,
    ) -> Result<(u32, u32), Absent> {
        match (self.eval_u32(high, frame), self.eval_u32(low, frame)) {
            (Ok(high), Ok(low)) if high >= low => Ok((high, low)),
            (Err(reported), _) | (_, Err(reported)) => Err(reported.into()),
            _ => Err(self.impossible(low.span, "the bounds of a slice are in the wrong order")),
        }
    }

    /// The value of an expression before its implicit cast.
    fn eval_uncast(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Data {
        let checked = self.checked;
        let info = checked.info(expr.id);
        if let Some(value) = &info.value {
            let ty = self.type_of(expr, frame);
            return self.data_of(value, &ty);
        }
        match &expr.kind {
            ExprKind::Int(literal) => Data::Int(literal.value.clone()),
            ExprKind::Bool(value) => Data::boolean(*value),
            ExprKind::String(text) => Data::String(text.clone()),
            ExprKind::InvalidHeader => Data::InvalidHeader,
            ExprKind::Name(_) => match info.resolution {
                Resolution::Decl(id) => self.eval_name(id, expr.span, frame),
                _ => self.no_data(expr.span, "a name is not resolved"),
            },
            ExprKind::Member(base, member) => {
                self.eval_member(expr, base, member, info.resolution, frame)
            }
            ExprKind::Index(base, index) => self.eval_index(expr, base, index, frame),
            ExprKind::Slice { base, hi, lo } => {
                let data = self.eval(base, frame);
                match self.slice_bounds(hi, lo, frame) {
                    Ok((high, low)) => self.slice(data, high, low),
                    Err(absent) => absent.into(),
                }
            }
            ExprKind::SlicePlus { base, lo, width } => {
                let operands = self.eval_operands(&[base, lo], frame);
                match self.eval_u32(width, frame) {
                    Ok(width) => self.slice_plus(operands, width, expr.span),
                    Err(reported) => reported.into(),
                }
            }
            ExprKind::Unary(op, arg) => {
                let data = self.eval(arg, frame);
                match self.type_as_used(arg, frame) {
                    Type::Int if *op == UnaryOp::Minus => self.negate_int(data, expr.span),
                    _ => self.unary(*op, data, expr.span),
                }
            }
            ExprKind::Binary(op, left, right) => self.eval_binary(*op, left, right, expr, frame),
            ExprKind::Ternary(cond, then, other) => {
                self.eval_ternary(expr, cond, then, other, frame)
            }
            ExprKind::Cast(ty, arg) => {
                let to = self.written_type(ty, frame);
                let data = match &arg.kind {
                    ExprKind::List(items) => return self.eval_list(items, &to, frame),
                    ExprKind::Struct { fields, .. } => return self.eval_record(fields, &to, frame),
                    _ => self.eval(arg, frame),
                };
                self.cast(data, &to)
            }
            ExprKind::Call(call) => match self.eval_call(expr, call, frame) {
                Data::Nothing => self.missing_result(expr.span),
                result => result,
            },
            ExprKind::Invalid(reported) => (*reported).into(),
            _ => self.no_data(expr.span, "an expression has no value"),
        }
    }

    /// A compile-time value of the checker as a value of type `ty`.
    pub fn data_of(&mut self, value: &Value, ty: &Type) -> Data {
        match value {
            Value::Int(number) => match self.scalar(ty) {
                Some(scalar) => Data::Scalar(ir::Expr::number(number.clone(), scalar)),
                None => Data::Int(number.clone()),
            },
            Value::Bool(value) => Data::boolean(*value),
            Value::String(text) => Data::String(text.clone()),
            Value::Member(id) => self.member(*id),
            Value::InvalidHeader => Data::InvalidHeader,
            Value::Aggregate(values) => {
                let parts = self.parts_of(ty, values.len());
                let parts = parts.iter().zip(values.iter());
                match self.checked.representation(ty) {
                    Type::Header(_) => Data::HeaderOf(
                        parts
                            .map(|((_, ty), value)| self.data_of(value, ty))
                            .collect(),
                    ),
                    _ => Data::Struct(
                        parts
                            .map(|((name, ty), value)| (name.clone(), self.data_of(value, ty)))
                            .collect(),
                    ),
                }
            }
        }
    }

    /// The number that represents an error or a member of an enum without an underlying type.
    fn member(&mut self, id: DeclId) -> Data {
        let def = self.checked.def(id);
        match &def.kind {
            DefKind::EnumMember(_, index) => {
                self.used_enums.extend(def.parent);
                Data::Scalar(ir::Expr::bits(
                    *index,
                    crate::passes::control_view::ENUM_BITS,
                ))
            }
            DefKind::ErrorMember(_, index) => Data::Scalar(ir::Expr::bits(
                *index,
                crate::passes::control_view::ENUM_BITS,
            )),
            _ => self.no_data(None, "a member is neither of an enum nor an error"),
        }
    }

    /// The value of a variable, parameter, constant or enum member.
    fn eval_name(&mut self, id: DeclId, span: Span, frame: &Rc<Frame>) -> Data {
        match frame.find(id) {
            Some(Binding::Data(data)) => return data,
            Some(Binding::Place(place)) => {
                let ty = self.declared_type(id, frame);
                let place = self.next_element(place, span, frame);
                return self.read(&place, &ty, span, &frame.name);
            }
            Some(Binding::Instance(_)) => {
                return self.no_data(span, "an instance is used as a value");
            }
            None => {}
        }
        let checked = self.checked;
        if let (Some(value), Some(ty)) = (checked.const_value(id), checked.decl_type(id)) {
            return self.data_of(value, ty);
        }
        match &checked.def(id).kind {
            DefKind::Const(decl) => {
                let ty = self.written_type(&decl.ty, frame);
                let data = self.eval(&decl.value, frame);
                self.cast(data, &ty)
            }
            DefKind::EnumMember(..) | DefKind::ErrorMember(..) => self.member(id),
            _ => self.no_data(span, "a name has no value"),
        }
    }

    /// The type of a variable or parameter, with type parameters replaced.
    pub fn declared_type(&self, id: DeclId, frame: &Frame) -> Type {
        self.checked
            .decl_type(id)
            .cloned()
            .unwrap_or(Type::Unknown)
            .substitute(&frame.substitution)
    }

    /// The value of `base.member`.
    fn eval_member(
        &mut self,
        expr: &Expr,
        base: &Expr,
        member: &Ident,
        resolution: Resolution,
        frame: &Rc<Frame>,
    ) -> Data {
        match resolution {
            Resolution::Hit => return self.apply_as_value(base, true, frame),
            Resolution::Miss => return self.apply_as_value(base, false, frame),
            Resolution::StackSize => return self.stack_size(base, frame),
            Resolution::StackLastIndex => {
                return match self.place(base, frame) {
                    Place::Stack(id) => Data::Scalar(ir::Expr::LastIndex(id)),
                    Place::UnionStack(id) => Data::Scalar(ir::Expr::UnionLastIndex(id)),
                    _ => self.no_data(expr.span, "`lastIndex` is not that of a stack"),
                }
            }
            Resolution::Decl(id)
                if matches!(self.checked.def(id).kind, DefKind::EnumMember(..)) =>
            {
                return self.member(id)
            }
            _ => {}
        }
        if self.checked.resolution(base) == Resolution::StackNext {
            let message =
                format!("field `{member}` of `next` is read before the element is extracted");
            self.diagnostics.report(
                Diagnostic::warning(Warning::InvalidHeader, expr.span, message)
                    .label("its value is undefined"),
            );
        }
        if matches!(resolution, Resolution::StackNext | Resolution::StackLast)
            || self.is_path(base, frame)
        {
            let place = self.place(expr, frame);
            let ty = self.type_of(expr, frame);
            return self.read(&place, &ty, expr.span, &frame.name);
        }
        let ty = self.type_of(base, frame);
        let data = self.eval_uncast(base, frame);
        self.project(data, &ty, &member.name)
    }

    fn stack_size(&mut self, base: &Expr, frame: &Rc<Frame>) -> Data {
        match self.type_of(base, frame) {
            Type::Stack(_, size) => Data::Scalar(ir::Expr::bits(size, 32)),
            _ => self.no_data(base.span, "`size` is not that of a stack"),
        }
    }

    /// The value of `base[index]`, an element of a stack, list or tuple.
    fn eval_index(&mut self, expr: &Expr, base: &Expr, index: &Expr, frame: &Rc<Frame>) -> Data {
        if self.is_path(base, frame) && matches!(self.type_of(base, frame), Type::Stack(..)) {
            let place = self.place(expr, frame);
            let ty = self.type_of(expr, frame);
            return self.read(&place, &ty, expr.span, &frame.name);
        }
        let stack = self.type_of(base, frame);
        let mut data = self.eval(base, frame);
        if matches!(stack, Type::Stack(..)) {
            let is_known = self.checked.value(index).is_some();
            let place = match &data {
                Data::Stack(_) | Data::UnionStack(_) if !self.has_effects(index) => place_of(&data),
                Data::Struct(_) if is_known => Place::Ignore,
                // A list needs storage if its index is computed at run time, and a stack if the index expression may change it.
                _ => {
                    let place = self.allocate(&stack, &super::join(&frame.name, "tmp"));
                    let held = std::mem::take(&mut data);
                    self.assign(&place, held, &stack, base.span, &frame.name);
                    place
                }
            };
            if !matches!(place, Place::Ignore) {
                let place = self.element(place, index, frame);
                let ty = self.type_of(expr, frame);
                return self.read(&place, &ty, expr.span, &frame.name);
            }
        }
        let index = match self.eval_u32(index, frame) {
            Ok(index) => index,
            Err(reported) => return reported.into(),
        };
        match data {
            Data::Struct(mut fields) if (index as usize) < fields.len() => {
                fields.swap_remove(index as usize).1
            }
            _ => self.no_data(expr.span, "an indexed value has no such element"),
        }
    }

    /// The value of the slice `base[low +: width]`, whose operands are `base` and `low`.
    fn slice_plus(&mut self, mut operands: Vec<Data>, width: u32, span: Span) -> Data {
        let (Some(low), Some(base)) = (operands.pop(), operands.pop()) else {
            return self.no_data(span, "a slice has no operands");
        };
        if let Some(low) = low.constant().and_then(|low| u32::try_from(low).ok()) {
            return self.slice(base, low + width - 1, low);
        }
        let shifted = self.binary(BinaryOp::Shr, base, low, span);
        match shifted {
            Data::Scalar(expr) => self.slice(Data::Scalar(expr), width - 1, 0),
            other => other,
        }
    }

    /// The value of a binary operation.
    fn eval_binary(
        &mut self,
        op: BinaryOp,
        left: &Expr,
        right: &Expr,
        expr: &Expr,
        frame: &Rc<Frame>,
    ) -> Data {
        if matches!(op, BinaryOp::And | BinaryOp::Or) {
            return Data::Scalar(self.eval_short_circuit(op, left, right, expr.span, frame));
        }
        let mut operands = self.eval_operands(&[left, right], frame);
        let (Some(b), Some(a)) = (operands.pop(), operands.pop()) else {
            return self.no_data(expr.span, "a binary operator has no operands");
        };
        if self.type_as_used(left, frame) == Type::Int {
            return self.binary_int(op, a, b, expr.span);
        }
        if matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
            let ty = self.type_as_used(left, frame);
            let other = self.type_as_used(right, frame);
            // A list has the type of the other operand.
            let ty = if matches!(ty, Type::Tuple(_) | Type::Record(_)) {
                other
            } else {
                ty
            };
            let (a, b) = (self.cast(a, &ty), self.cast(b, &ty));
            let equal = self.equal(a, b, &ty, expr.span);
            return Data::Scalar(if op == BinaryOp::Eq {
                equal
            } else {
                equal.not()
            });
        }
        self.binary(op, a, b, expr.span)
    }

    /// The value of `&&` or `||`, with short-circuit evaluation.
    fn eval_short_circuit(
        &mut self,
        op: BinaryOp,
        left: &Expr,
        right: &Expr,
        span: Span,
        frame: &Rc<Frame>,
    ) -> ir::Expr {
        let first = self.eval_scalar(left, frame);
        let decided = ir::Expr::Bool(op == BinaryOp::Or);
        if first == decided {
            return first;
        }
        let mut second = ir::Expr::Bool(true);
        let then = self.block(|this| second = this.eval_scalar(right, frame));
        if then.is_empty() {
            return ops::binary(op, first, second);
        }
        if first.is_constant() {
            self.out.extend(then);
            return second;
        }
        let result = self.temporary(&frame.name, "tmp", Scalar::Bool);
        self.emit(
            span,
            Effect::Assign {
                target: result.into(),
                value: first,
            },
        );
        let then = self.block(|this| {
            this.out = then;
            this.emit(
                right.span,
                Effect::Assign {
                    target: result.into(),
                    value: second,
                },
            );
        });
        let held = ir::Expr::field(result, Scalar::Bool);
        let cond = if op == BinaryOp::And {
            held.clone()
        } else {
            held.clone().not()
        };
        self.emit_if(span, cond, then, Vec::new());
        held
    }

    /// The value of a conditional expression, of which only the selected operand is evaluated.
    fn eval_ternary(
        &mut self,
        expr: &Expr,
        cond: &Expr,
        then: &Expr,
        other: &Expr,
        frame: &Rc<Frame>,
    ) -> Data {
        let cond = self.eval_scalar(cond, frame);
        if let ir::Expr::Bool(known) = cond {
            return self.eval(if known { then } else { other }, frame);
        }
        let ty = self.type_of(expr, frame);
        let (mut a, mut b) = (Data::Nothing, Data::Nothing);
        let then_code = self.block(|this| {
            a = this.eval(then, frame);
            a = this.cast(a.clone(), &ty);
        });
        let other_code = self.block(|this| {
            b = this.eval(other, frame);
            b = this.cast(b.clone(), &ty);
        });
        if then_code.is_empty() && other_code.is_empty() {
            if let (Data::Scalar(a), Data::Scalar(b)) = (&a, &b) {
                return Data::Scalar(self.choose(cond, a.clone(), b.clone()));
            }
            if let (Data::Int(_), Data::Int(_)) = (&a, &b) {
                let message =
                    "integers without a width cannot be selected at run time; give one a width";
                return self.error(Code::NOT_CONSTANT, expr.span, message).into();
            }
        }
        let result = self.allocate(&ty, &super::join(&frame.name, "tmp"));
        let then_code = self.block(|this| {
            this.out = then_code;
            this.assign(&result, a, &ty, then.span, &frame.name);
        });
        let other_code = self.block(|this| {
            this.out = other_code;
            this.assign(&result, b, &ty, other.span, &frame.name);
        });
        self.emit_if(expr.span, cond, then_code, other_code);
        self.value_of(&result, expr.span)
    }

    /// Evaluates operands from left to right. Values that a later operand may change are saved in variables.
    pub fn eval_operands(&mut self, exprs: &[&Expr], frame: &Rc<Frame>) -> Vec<Data> {
        let last_effect = exprs[1.min(exprs.len())..]
            .iter()
            .rposition(|expr| self.has_effects(expr));
        let mut values = Vec::with_capacity(exprs.len());
        for (position, expr) in exprs.iter().enumerate() {
            let mut data = self.eval(expr, frame);
            if last_effect.is_some_and(|last| position <= last) {
                let ty = self.type_as_used(expr, frame);
                data = self.materialize(data, &ty, expr.span, &frame.name);
            }
            values.push(data);
        }
        values
    }

    /// The value of a list expression with the structured type `ty`. Missing parts after `...` have default values.
    fn eval_list(&mut self, items: &[Expr], ty: &Type, frame: &Rc<Frame>) -> Data {
        let types = self.parts_of(ty, items.len());
        let last_effect = items.iter().rposition(|item| self.has_effects(item));
        let mut values = Vec::new();
        for (position, (name, part)) in types.iter().enumerate() {
            let Some(item) = items
                .get(position)
                .filter(|item| !matches!(item.kind, ExprKind::Dots))
            else {
                values.push((name.clone(), self.default_value(part)));
                continue;
            };
            let must_save = last_effect.is_some_and(|last| position < last);
            let data = self.eval_part(item, part, must_save, frame);
            values.push((name.clone(), data));
        }
        self.aggregate(values, ty)
    }

    /// The value of a structure-valued expression with the type `ty`. Missing fields have default values.
    fn eval_record(&mut self, fields: &[NamedExpr], ty: &Type, frame: &Rc<Frame>) -> Data {
        let parts = self.parts(ty);
        let last_effect = fields
            .iter()
            .rposition(|field| self.has_effects(&field.value));
        let mut found: Vec<(Name, Data)> = Vec::new();
        for (position, field) in fields.iter().enumerate() {
            let Some((_, part)) = parts.iter().find(|(name, _)| *name == field.name.name) else {
                continue;
            };
            let must_save = last_effect.is_some_and(|last| position < last);
            let data = self.eval_part(&field.value, part, must_save, frame);
            found.push((field.name.name.clone(), data));
        }
        let values = parts
            .iter()
            .map(|(name, part)| {
                let given = found
                    .iter()
                    .find(|(known, _)| known == name)
                    .map(|(_, data)| data.clone());
                (
                    name.clone(),
                    given.unwrap_or_else(|| self.default_value(part)),
                )
            })
            .collect();
        self.aggregate(values, ty)
    }

    /// The value of a part of a structured value of type `ty`, saved in a variable if `must_save`.
    fn eval_part(&mut self, item: &Expr, ty: &Type, must_save: bool, frame: &Rc<Frame>) -> Data {
        let data = match &item.kind {
            // A list has the type of its position in the structure.
            ExprKind::List(items) => self.eval_list(items, ty, frame),
            ExprKind::Struct { fields, .. } => self.eval_record(fields, ty, frame),
            _ => {
                let data = self.eval(item, frame);
                self.cast(data, ty)
            }
        };
        match must_save {
            true => self.materialize(data, ty, item.span, &frame.name),
            false => data,
        }
    }
}
