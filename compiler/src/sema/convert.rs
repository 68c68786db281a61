//! Unification, implicit casts (spec § 8.11.2) and explicit casts (§ 8.11.1).

use super::checked::*;
use super::checker::Checker;
use super::types::{Nominal, Substitution, Type};
use super::value::{self, Value};
use crate::diag::{Code, Diagnostic, Span, Warning};
use crate::syntax::ast::*;
use num_bigint::{BigInt, Sign};
use num_traits::Zero;
use std::rc::Rc;

/// Maximum number of fields and elements that one `...` fills with default values.
const MAX_CONSTANT: u32 = 1 << 16;

impl Checker<'_> {
    /// Creates an inference variable.
    pub fn fresh(&mut self) -> Type {
        self.inferred.push(None);
        Type::Infer(self.inferred.len() as u32 - 1)
    }

    /// Replaces the bound inference variables in a type by their types.
    pub fn resolve(&self, ty: &Type) -> Type {
        if !ty.any(&mut |t| matches!(t, Type::Infer(_))) {
            return ty.clone();
        }
        ty.map(&mut |t| match t {
            Type::Infer(n) => self.inferred[*n as usize]
                .as_ref()
                .map(|bound| self.resolve(bound)),
            _ => None,
        })
    }

    /// Whether a type contains an unbound inference variable.
    pub fn is_open(&self, ty: &Type) -> bool {
        self.resolve(ty).any(&mut |t| matches!(t, Type::Infer(_)))
    }

    /// Unifies two types by binding inference variables; false if they differ. A parser or control `b` may lack parameters that are
    /// `@optional` in `a`.
    pub fn unify(&mut self, a: &Type, b: &Type) -> bool {
        let (a, b) = (self.resolve(a), self.resolve(b));
        match (&a, &b) {
            _ if a == b => true,
            (Type::Invalid(_) | Type::Unknown, _) | (_, Type::Invalid(_) | Type::Unknown) => true,
            (Type::Infer(n), other) | (other, Type::Infer(n)) => {
                let n = *n;
                if other.any(&mut |t| *t == Type::Infer(n)) {
                    return false;
                }
                self.inferred[n as usize] = Some(other.clone());
                true
            }
            (Type::Stack(x, m), Type::Stack(y, n)) => m == n && self.unify(x, y),
            (Type::List(x), Type::List(y)) | (Type::Set(x), Type::Set(y)) => self.unify(x, y),
            (Type::Tuple(x), Type::Tuple(y)) => {
                x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| self.unify(x, y))
            }
            (Type::Parser(x), Type::Parser(y)) | (Type::Control(x), Type::Control(y))
                if x.id != y.id =>
            {
                self.unify_signatures(x, y)
            }
            (Type::Struct(x), Type::Struct(y))
            | (Type::Header(x), Type::Header(y))
            | (Type::HeaderUnion(x), Type::HeaderUnion(y))
            | (Type::Extern(x), Type::Extern(y))
            | (Type::Parser(x), Type::Parser(y))
            | (Type::Control(x), Type::Control(y))
            | (Type::Package(x), Type::Package(y)) => {
                x.id == y.id
                    && x.args.len() == y.args.len()
                    && x.args
                        .iter()
                        .zip(y.args.iter())
                        .all(|(x, y)| self.unify(x, y))
            }
            _ => false,
        }
    }

    /// Unifies the `apply` parameters of a parser or control (`have`) with those of a parser or control type (`want`). Returns whether they
    /// match.
    fn unify_signatures(&mut self, want: &Nominal, have: &Nominal) -> bool {
        let (want, have) = (self.apply_signature(want), self.apply_signature(have));
        let fits = |w: &(Rc<Param>, Type), h: &(Rc<Param>, Type)| w.0.direction == h.0.direction;
        if have.len() > want.len() {
            return false;
        }
        for (i, w) in want.iter().enumerate() {
            match have.get(i) {
                Some(h) if fits(w, h) && self.unify(&w.1, &h.1) => {}
                None if w.0.annotations.annotation("optional").is_some() => {}
                _ => return false,
            }
        }
        true
    }

    /// The `apply` parameters of a parser or control, and their types with type arguments applied.
    pub fn apply_signature(&self, n: &Nominal) -> Vec<(Rc<Param>, Type)> {
        let (params, type_params) = match self.def(n.id) {
            DefKind::Parser(d) => (&d.params, &d.type_params),
            DefKind::Control(d) => (&d.params, &d.type_params),
            _ => return Vec::new(),
        };
        let args = Substitution::new(type_params.iter().map(|p| p.id), n.args.iter().cloned());
        params
            .iter()
            .map(|p| (p.clone(), self.out.type_ref(&p.ty).substitute(&args)))
            .collect()
    }

    /// Casts a checked expression implicitly to the type that its context requires; reports a mismatch and returns false if no implicit
    /// cast exists. `what` names the context in messages.
    pub fn coerce(&mut self, expr: &Expr, to: &Type, what: &str) -> bool {
        let to = &self.resolve(to);
        let from = self.resolve(&self.type_of(expr));
        if from.is_invalid() || to.is_invalid() {
            return false;
        }
        match &expr.kind {
            ExprKind::Dots => return self.coerce_dots(expr, to),
            ExprKind::InvalidHeader if matches!(to, Type::Header(_) | Type::HeaderUnion(_)) => {
                let info = self.info_mut(expr);
                info.ty = to.clone();
                info.value = Some(Value::InvalidHeader);
                return true;
            }
            ExprKind::List(list) => {
                if let Some(ok) = self.coerce_list(expr, list, to, what) {
                    return ok;
                }
            }
            ExprKind::Struct { fields, dots } if to.is_struct_like() => {
                return self.coerce_record(expr, fields, *dots, to);
            }
            ExprKind::Ternary(_, yes, no) if from != *to => {
                let ok = self.coerce(yes, to, what) & self.coerce(no, to, what);
                let info = self.info_mut(expr);
                info.ty = to.clone();
                return ok;
            }
            _ => {}
        }
        if from == *to || self.unify(to, &from) {
            return true;
        }
        if from == Type::Int && matches!(to, Type::Bit(_) | Type::Signed(_)) {
            return self.coerce_int(expr, to);
        }
        let mut under = from.clone();
        while let (Type::SerializableEnum(_), Some(next)) = (&under, self.out.underlying(&under)) {
            under = next;
            if under == *to {
                self.info_mut(expr).cast = Some(to.clone());
                return true;
            }
        }
        self.report_type_mismatch(expr, &from, to, what);
        false
    }

    /// Like [`Checker::coerce`], for initializers, assignments and `return`. Here, as in p4c, an `int` is also cast to a `type`, and a
    /// constant of any width to `int`.
    pub fn coerce_assigned(&mut self, expr: &Expr, to: &Type, what: &str) -> bool {
        let from = self.type_of(expr);
        if *to == Type::Int && matches!(from, Type::Bit(_) | Type::Signed(_)) {
            self.info_mut(expr).cast = Some(Type::Int);
            return true;
        }
        // Only to a `type` whose underlying type is numeric: a `type` over another `type` needs an explicit cast, as in p4c.
        let of_numbers = matches!(to, Type::NewType(_))
            && matches!(
                self.out.underlying(to),
                Some(Type::Bit(_) | Type::Signed(_))
            );
        if of_numbers && from == Type::Int {
            return self.coerce_int(expr, to);
        }
        self.coerce(expr, to, what)
    }

    fn coerce_int(&mut self, expr: &Expr, to: &Type) -> bool {
        if let Some(Value::Int(n)) = self.out.info(expr.id).value.clone() {
            self.warn_overflow(&n, to, expr.span);
        }
        self.info_mut(expr).cast = Some(to.clone());
        true
    }

    /// Warns when a number does not fit a type, as p4c does.
    pub fn warn_overflow(&mut self, n: &BigInt, to: &Type, span: Span) {
        let to = &self.out.representation(to);
        if value::fits(n, to) {
            return;
        }
        let wrapped = value::wrap(n.clone(), to);
        let message = if n.sign() == Sign::Minus && matches!(to, Type::Bit(_)) {
            format!("negative number {n} for the unsigned type `{to}`")
        } else {
            format!("{n} does not fit `{to}`")
        };
        self.warn(
            Diagnostic::warning(Warning::Overflow, span, message)
                .label(format!("becomes {wrapped}")),
        );
    }

    /// Reports `...` for a type with a `varbit` field, which has no default value; returns whether there is no such field.
    fn check_has_defaults(&mut self, ty: &Type, span: Span) -> bool {
        let varbit = match ty {
            Type::Varbit(_) => true,
            Type::Header(_) => self
                .field_table(ty)
                .list
                .iter()
                .any(|(_, ty)| matches!(ty, Type::Varbit(_))),
            _ => false,
        };
        if varbit {
            self.report(
                Diagnostic::error(
                    Code::TYPE_MISMATCH,
                    span,
                    "`...` cannot initialise a field of variable size",
                )
                .note("a `varbit` has no default value")
                .help("leave the header invalid with `{#}`, or write its fields one by one"),
            );
        }
        !varbit
    }

    fn coerce_dots(&mut self, expr: &Expr, to: &Type) -> bool {
        if !self.check_has_defaults(to, expr.span) {
            return false;
        }
        let value = self.default_value(to);
        let info = self.info_mut(expr);
        info.ty = to.clone();
        info.value = value;
        true
    }

    /// Converts `{x, y}` to `to`; `None` if `to` is not a type that lists convert to.
    fn coerce_list(&mut self, expr: &Expr, list: &[Expr], to: &Type, what: &str) -> Option<bool> {
        let dots = matches!(
            list.last(),
            Some(Expr {
                kind: ExprKind::Dots,
                ..
            })
        );
        let targets: Vec<Type> = match to {
            Type::Tuple(types) => types.to_vec(),
            Type::Struct(_) | Type::Header(_) => self
                .field_table(to)
                .list
                .iter()
                .map(|(_, ty)| ty.clone())
                .collect(),
            Type::Stack(element, size) => vec![(**element).clone(); *size as usize],
            Type::List(element) => vec![(**element).clone(); list.len()],
            _ => return None,
        };
        let given = if dots { list.len() - 1 } else { list.len() };
        let short_stack = matches!(to, Type::Stack(..)) && given <= targets.len();
        if given > targets.len() || (given < targets.len() && !dots && !short_stack) {
            let (want, s) = (targets.len(), if targets.len() == 1 { "" } else { "s" });
            self.report(
                Diagnostic::error(
                    Code::TYPE_MISMATCH,
                    expr.span,
                    format!("`{to}` has {want} element{s}, not {given}"),
                )
                .label(format!("{what} of type `{to}`")),
            );
            return Some(false);
        }
        let mut ok = true;
        let mut values = Some(Vec::with_capacity(targets.len()));
        for (i, target) in targets.iter().enumerate() {
            let value = match list.get(i).filter(|_| i < given) {
                Some(element) => {
                    ok &= self.coerce(element, target, "an element");
                    self.value_of(element)
                }
                None => {
                    let span = list.last().map_or(expr.span, |last| last.span);
                    ok &=
                        !matches!(target, Type::Varbit(_)) || self.check_has_defaults(target, span);
                    self.default_value(target)
                }
            };
            match (values.as_mut(), value) {
                (Some(values), Some(value)) => values.push(value),
                _ => values = None,
            }
        }
        if let Some(last) = list.last().filter(|_| dots) {
            self.info_mut(last).ty = Type::Tuple(targets[given.min(targets.len())..].into());
        }
        let own = if dots || *to != self.type_of(expr) {
            Some(to.clone())
        } else {
            None
        };
        let info = self.info_mut(expr);
        info.cast = own;
        info.value = values.map(|v| Value::Aggregate(v.into()));
        Some(ok)
    }

    /// Converts `{f = x, g = y}` to a struct or header type; returns false after a reported error.
    fn coerce_record(
        &mut self,
        expr: &Expr,
        fields: &[NamedExpr],
        dots: Option<Span>,
        to: &Type,
    ) -> bool {
        let table = self.field_table(to);
        let mut ok = true;
        let mut values: Vec<Option<Value>> = vec![None; table.list.len()];
        let mut seen = vec![false; table.list.len()];
        for field in fields {
            let Some(&index) = table.index.get(&field.name.name) else {
                self.unknown_field(&field.name, to, &table);
                ok = false;
                continue;
            };
            if std::mem::replace(&mut seen[index], true) {
                self.error(
                    Code::DUPLICATE,
                    field.name.span,
                    format!("field `{}` is given twice", field.name),
                );
                ok = false;
            }
            ok &= self.coerce(&field.value, &table.list[index].1, "the field");
            values[index] = self.value_of(&field.value);
        }
        let missing: Vec<usize> = (0..seen.len()).filter(|i| !seen[*i]).collect();
        if let Some(span) = dots {
            for i in missing {
                let ty = &table.list[i].1;
                ok &= !matches!(ty, Type::Varbit(_)) || self.check_has_defaults(ty, span);
                values[i] = self.default_value(&table.list[i].1);
            }
        } else if !missing.is_empty() {
            let names: Vec<String> = missing
                .iter()
                .map(|i| format!("`{}`", table.list[*i].0.name))
                .collect();
            let s = if names.len() == 1 { "" } else { "s" };
            self.report(
                Diagnostic::error(
                    Code::TYPE_MISMATCH,
                    expr.span,
                    format!("field{s} {} of `{to}` missing", names.join(", ")),
                )
                .help("give all fields, or end with `...` for default values"),
            );
            ok = false;
        }
        let info = self.info_mut(expr);
        info.cast = Some(to.clone());
        info.value = values
            .into_iter()
            .collect::<Option<Vec<Value>>>()
            .map(|v| Value::Aggregate(v.into()));
        ok
    }

    fn report_type_mismatch(&mut self, expr: &Expr, from: &Type, to: &Type, what: &str) {
        let mut d = Diagnostic::error(
            Code::TYPE_MISMATCH,
            expr.span,
            format!("expected `{to}`, found `{from}`"),
        )
        .label(format!("{what} must be `{to}`"));
        if !matches!(expr.kind, ExprKind::List(_) | ExprKind::Struct { .. })
            && self.can_cast(from, to)
            && *to != Type::Bool
        {
            d = d.help(format!("an explicit cast is needed: `({to}) ...`"));
        }
        if let (Type::Parser(have), Type::Parser(want))
        | (Type::Control(have), Type::Control(want)) = (from, to)
        {
            d = d.note(self.signature_difference(have, want));
        }
        self.report(d);
    }

    /// Describes, for a message, the first difference between the parameters of a parser or control and the required type.
    fn signature_difference(&mut self, have: &Nominal, want: &Nominal) -> String {
        let (own, other) = (self.apply_signature(have), self.apply_signature(want));
        let written = |(p, ty): &(Rc<Param>, Type)| match p.direction {
            Direction::None => format!("{ty} {}", p.name),
            direction => format!("{} {ty} {}", direction.as_str(), p.name),
        };
        if own.len() != other.len() {
            let (n, m) = (own.len(), other.len());
            return format!(
                "`{}` has {n} parameters, `{}` has {m}",
                have.name, want.name
            );
        }
        for (h, w) in own.iter().zip(&other) {
            if h.0.direction != w.0.direction || !self.unify(&w.1, &h.1) {
                return format!(
                    "`{}` has the parameter `{}`, where `{}` has `{}`",
                    have.name,
                    written(h),
                    want.name,
                    written(w)
                );
            }
        }
        format!(
            "the parameters of `{}` and `{}` use type parameters differently",
            have.name, want.name
        )
    }

    /// Whether an explicit cast from `from` to `to` exists (spec § 8.11.1).
    pub fn can_cast(&self, from: &Type, to: &Type) -> bool {
        if from == to {
            return true;
        }
        match (from, to) {
            (Type::Invalid(_) | Type::Unknown, _) | (_, Type::Invalid(_) | Type::Unknown) => true,
            (Type::Bit(a), Type::Signed(b)) | (Type::Signed(a), Type::Bit(b)) => a == b,
            (Type::Bit(_), Type::Bit(_)) | (Type::Signed(_), Type::Signed(_)) => true,
            (Type::Bit(1), Type::Bool) | (Type::Bool, Type::Bit(1)) | (Type::Int, Type::Bool) => {
                true
            }
            (Type::Bool, Type::Int) => true,
            (Type::Int, Type::Bit(_) | Type::Signed(_))
            | (Type::Bit(_) | Type::Signed(_), Type::Int) => true,
            // To a `type` or serializable enum, only from its underlying type or from `int`. Another width needs a second cast.
            (_, Type::NewType(_) | Type::SerializableEnum(_))
                if self.out.underlying(to).is_some_and(|under| {
                    *from == under || *from == Type::Int && self.can_cast(from, &under)
                }) =>
            {
                true
            }
            // From a `type` or serializable enum, only to its underlying type (spec § 8.11.1), or to another type with the same
            // underlying type.
            (Type::NewType(_) | Type::SerializableEnum(_), _) => {
                self.out.underlying(from).is_some_and(|under| {
                    under == *to
                        || matches!(to, Type::NewType(_) | Type::SerializableEnum(_))
                            && self.can_cast(&under, to)
                })
            }
            _ => false,
        }
    }

    /// The default value of a type, which `...` stands for (spec § 7.3). `None` for types without one, and for types with more than
    /// [`MAX_CONSTANT`] parts.
    pub fn default_value(&mut self, ty: &Type) -> Option<Value> {
        let mut budget = MAX_CONSTANT;
        self.default_within(ty, &mut budget)
    }

    fn default_within(&mut self, ty: &Type, budget: &mut u32) -> Option<Value> {
        *budget = budget.checked_sub(1)?;
        Some(match ty {
            Type::Bit(_) | Type::Signed(_) | Type::Int | Type::Varbit(_) => {
                Value::Int(BigInt::zero())
            }
            Type::SerializableEnum(_) => Value::Int(BigInt::zero()),
            Type::Bool => Value::Bool(false),
            Type::String => Value::String("".into()),
            Type::Error => Value::Member(*self.out.errors.first()?),
            Type::Enum(n) => match self.def(n.id) {
                DefKind::Enum(d) => Value::Member(d.members.first()?.id),
                _ => return None,
            },
            Type::NewType(_) => {
                let under = self.out.underlying(ty)?;
                self.default_within(&under, budget)?
            }
            Type::Header(_) | Type::HeaderUnion(_) => Value::InvalidHeader,
            Type::Struct(_) => {
                let table = self.field_table(ty);
                let values: Option<Vec<Value>> = table
                    .list
                    .iter()
                    .map(|(_, ty)| self.default_within(ty, budget))
                    .collect();
                Value::Aggregate(values?.into())
            }
            Type::Tuple(types) => {
                let values: Option<Vec<Value>> = types
                    .iter()
                    .map(|ty| self.default_within(ty, budget))
                    .collect();
                Value::Aggregate(values?.into())
            }
            Type::Stack(element, size) => {
                *budget = budget.checked_sub(*size)?;
                Value::Aggregate(vec![self.default_within(element, budget)?; *size as usize].into())
            }
            Type::List(_) => Value::Aggregate(Rc::new([])),
            _ => return None,
        })
    }
}
