//! Expressions: types, constant values and name resolution.

use super::checked::*;
use super::checker::{BodyKind, Checker};
use super::types::{Nominal, Type};
use super::value::{Value, MAX_CONSTANT_BYTES};
use crate::diag::{closest, Code, Diagnostic, Span};
use crate::syntax::ast::*;
use crate::syntax::print::print_type;
use num_bigint::BigInt;
use num_traits::ToPrimitive;

impl Checker<'_> {
    /// Checks an expression without an expected type, records and returns its type.
    pub fn expr(&mut self, expr: &Expr) -> Type {
        let ty = self.expr_inner(expr);
        self.info_mut(expr).ty = ty.clone();
        ty
    }

    /// Checks an expression and casts it implicitly to `to`, the type that its context requires. `what` names the context in messages.
    /// Returns false after an error.
    pub fn expr_as(&mut self, expr: &Expr, to: &Type, what: &str) -> bool {
        self.expr(expr);
        self.coerce(expr, to, what)
    }

    /// Like [`Checker::expr_as`], for initializers, assignments and `return`, which allow more casts (see [`Checker::coerce_assigned`]).
    pub fn expr_assigned(&mut self, expr: &Expr, to: &Type, what: &str) -> bool {
        self.expr(expr);
        self.coerce_assigned(expr, to, what)
    }

    fn expr_inner(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            ExprKind::Invalid(reported) => Type::Invalid(*reported),
            ExprKind::Int(literal) => self.int_literal(expr, literal),
            ExprKind::Bool(b) => self.constant(expr, Type::Bool, Value::Bool(*b)),
            ExprKind::String(text) => {
                self.constant(expr, Type::String, Value::String(text.clone()))
            }
            ExprKind::This => self.this(expr.span),
            ExprKind::DontCare(_) => {
                self.error(
                    Code::SYNTAX,
                    expr.span,
                    "`_` is allowed only as a key or an `out` argument",
                );
                self.invalid()
            }
            ExprKind::Dots => Type::Tuple(std::rc::Rc::new([])),
            ExprKind::Name(path) => self.name_expr(expr, path),
            ExprKind::Type(ty) => {
                self.type_ref(ty);
                let message = format!("expected a value, found the type `{}`", print_type(ty));
                self.error(Code::WRONG_KIND, expr.span, message);
                self.invalid()
            }
            ExprKind::Member(base, name) => self.member(expr, base, name),
            ExprKind::Index(base, index) => self.index(expr, base, index),
            ExprKind::Slice { base, hi, lo } => self.slice(expr, base, hi, lo),
            ExprKind::SlicePlus { base, lo, width } => self.slice_plus(expr, base, lo, width),
            ExprKind::Unary(op, operand) => self.unary(expr, *op, operand),
            ExprKind::Binary(op, left, right) => self.binary(expr, *op, left, right),
            ExprKind::Ternary(condition, yes, no) => self.ternary(expr, condition, yes, no),
            ExprKind::Cast(ty, operand) => self.cast(expr, ty, operand),
            ExprKind::Call(call) => {
                let ty = self.call(expr, call);
                if ty == Type::Void {
                    self.error(
                        Code::TYPE_MISMATCH,
                        expr.span,
                        "expected a value, but this call has no result",
                    );
                    return self.invalid();
                }
                ty
            }
            ExprKind::List(list) => {
                let types: Vec<Type> = list.iter().map(|e| self.expr(e)).collect();
                for element in &list[..list.len().saturating_sub(1)] {
                    if matches!(element.kind, ExprKind::Dots) {
                        self.error(
                            Code::SYNTAX,
                            element.span,
                            "`...` may only be the last element",
                        );
                    }
                }
                let values: Option<Vec<Value>> = list.iter().map(|e| self.value_of(e)).collect();
                self.info_mut(expr).value = values.map(|v| Value::Aggregate(v.into()));
                Type::Tuple(types.into())
            }
            ExprKind::Struct { fields, .. } => {
                let mut types: Vec<(Name, Type)> = Vec::with_capacity(fields.len());
                for field in fields {
                    let ty = self.expr(&field.value);
                    if types.iter().any(|(name, _)| *name == field.name.name) {
                        let message = format!("field `{}` is given twice", field.name);
                        self.error(Code::DUPLICATE, field.name.span, message);
                    }
                    types.push((field.name.name.clone(), ty));
                }
                let values: Option<Vec<Value>> =
                    fields.iter().map(|f| self.value_of(&f.value)).collect();
                self.info_mut(expr).value = values.map(|v| Value::Aggregate(v.into()));
                Type::Record(types.into())
            }
            // `{#}` gets its type from the context.
            ExprKind::InvalidHeader => Type::Tuple(std::rc::Rc::new([])),
            ExprKind::Range(..) | ExprKind::Mask(..) | ExprKind::Keyset(_) => {
                self.error(
                    Code::SYNTAX,
                    expr.span,
                    "ranges and masks are allowed only in keysets",
                );
                self.invalid()
            }
        }
    }

    /// Records the value of a constant expression. Reports an error once all values together exceed [`MAX_CONSTANT_BYTES`].
    pub(super) fn constant(&mut self, expr: &Expr, ty: Type, value: Value) -> Type {
        self.constant_bytes += value.bytes();
        if self.constant_bytes > MAX_CONSTANT_BYTES {
            let message = format!(
                "the constants of the program take more than {MAX_CONSTANT_BYTES} bytes; this is the first beyond the limit"
            );
            let what = Diagnostic::error(Code::LIMIT, expr.span, message);
            self.diagnostics
                .report_last(what.help("give them types with widths"));
            return self.invalid();
        }
        self.info_mut(expr).value = Some(value);
        ty
    }

    fn int_literal(&mut self, expr: &Expr, literal: &IntLiteral) -> Type {
        let Some(width) = literal.width else {
            return self.constant(expr, Type::Int, Value::Int(literal.value.clone()));
        };
        let ty = if width.signed {
            Type::Signed(width.bits)
        } else {
            Type::Bit(width.bits)
        };
        if width.bits == 0 && width.signed {
            self.error(Code::BAD_TYPE, expr.span, "`int` needs at least one bit");
            return self.invalid();
        }
        // `8s0xff` is a common way to write the bit pattern of a negative number, so there is no warning about overflow.
        if !(width.signed && literal.base != 10 && literal.value.bits() <= u64::from(width.bits)) {
            self.warn_overflow(&literal.value, &ty, expr.span);
        }
        let value = super::value::wrap(literal.value.clone(), &ty);
        self.constant(expr, ty, Value::Int(value))
    }

    fn this(&mut self, span: Span) -> Type {
        match &self.this {
            Some(ty) => ty.clone(),
            None => {
                self.error(
                    Code::WRONG_KIND,
                    span,
                    "`this` exists only in implementations of abstract methods",
                );
                self.invalid()
            }
        }
    }

    fn name_expr(&mut self, expr: &Expr, path: &Path) -> Type {
        let Some(id) = self.lookup(path) else {
            return self.invalid();
        };
        let info = self.info_mut(expr);
        info.resolution = Resolution::Decl(id);
        let kind = self.def(id).clone();
        let own = self.out.decl_types.get(&id).cloned();
        match kind {
            DefKind::Const(_) => {
                let value = self.out.consts.get(&id).cloned();
                self.info_mut(expr).value = value;
                own.unwrap_or_else(|| self.invalid())
            }
            DefKind::Var(_) => {
                self.info_mut(expr).is_lvalue = true;
                own.unwrap_or_else(|| self.invalid())
            }
            DefKind::Param(p) => {
                self.info_mut(expr).is_lvalue = p.direction.writes();
                own.unwrap_or_else(|| self.invalid())
            }
            DefKind::MatchKindMember(_) => self.constant(expr, Type::MatchKind, Value::Member(id)),
            DefKind::CtorParam(_) | DefKind::Instance(_) | DefKind::Table(_) => {
                own.unwrap_or_else(|| self.invalid())
            }
            DefKind::ValueSet(_) => {
                Type::Set(std::rc::Rc::new(own.unwrap_or_else(|| self.invalid())))
            }
            DefKind::Action(_) | DefKind::Function(_) | DefKind::ExternFunction(_) => {
                Type::Callable(path.name.name.clone())
            }
            other => {
                let message = format!("`{}` is {}, not a value", path.name, other.noun());
                self.error(Code::WRONG_KIND, path.span(), message);
                self.invalid()
            }
        }
    }

    /// The type before a `.`, as in `E.member`; `None` if the base is a value.
    pub fn type_before_dot(&mut self, base: &Expr) -> Option<Type> {
        match &base.kind {
            ExprKind::Name(path) => {
                let id = self.find(path)?;
                if !self.def(id).is_type() {
                    return None;
                }
                self.lookup(path);
                self.info_mut(base).resolution = Resolution::Decl(id);
                Some(self.open_type(id, base.span))
            }
            ExprKind::Type(written) => {
                let ty = self.instance_type(written);
                self.info_mut(base).ty = ty.clone();
                Some(ty)
            }
            _ => None,
        }
    }

    fn member(&mut self, expr: &Expr, base: &Expr, name: &Ident) -> Type {
        if let Some(ty) = self.type_before_dot(base) {
            return self.type_member(expr, ty, name);
        }
        let ty = self.expr(base);
        let lvalue = self.out.info(base.id).is_lvalue;
        match &ty {
            Type::Invalid(_) | Type::Unknown => self.invalid(),
            Type::Struct(_) | Type::Header(_) | Type::HeaderUnion(_) => {
                let table = self.field_table(&ty);
                let Some(&index) = table.index.get(&name.name) else {
                    self.unknown_field(name, &ty, &table);
                    return self.invalid();
                };
                let (field, field_type) = &table.list[index];
                if self.report_too_large(field_type, expr.span) {
                    return self.invalid();
                }
                let value = match self.out.info(base.id).value.as_ref() {
                    Some(Value::Aggregate(values)) => values.get(index).cloned(),
                    _ => None,
                };
                let info = self.info_mut(expr);
                info.resolution = Resolution::Decl(field.id);
                info.is_lvalue = lvalue;
                info.value = value;
                field_type.clone()
            }
            Type::Record(fields) => {
                match fields.iter().position(|(field, _)| *field == name.name) {
                    Some(index) => {
                        let value = match self.out.info(base.id).value.as_ref() {
                            Some(Value::Aggregate(values)) => values.get(index).cloned(),
                            _ => None,
                        };
                        self.info_mut(expr).value = value;
                        fields[index].1.clone()
                    }
                    None => self.unknown_member(name, &ty, fields.iter().map(|(n, _)| &**n)),
                }
            }
            Type::Stack(element, size) => {
                self.stack_member(expr, name, &ty, element, *size, lvalue)
            }
            Type::ApplyResult(table) => {
                let (resolution, ty) = match &*name.name {
                    "hit" => (Resolution::Hit, Type::Bool),
                    "miss" => (Resolution::Miss, Type::Bool),
                    "action_run" => (Resolution::ActionRun, Type::ActionRun(table.clone())),
                    _ => return self.unknown_member(name, &ty, ["hit", "miss", "action_run"]),
                };
                self.info_mut(expr).resolution = resolution;
                ty
            }
            Type::Callable(function) => {
                self.report(
                    Diagnostic::error(
                        Code::UNKNOWN_MEMBER,
                        name.span,
                        format!("`{function}` has no member `{name}`"),
                    )
                    .help(format!(
                        "actions and functions are called by their name alone: `{function}(...)`"
                    )),
                );
                self.invalid()
            }
            _ => {
                let methods = self.method_names(&ty);
                if methods.iter().any(|m| *m == &*name.name) {
                    self.report(
                        Diagnostic::error(
                            Code::CALL_CONTEXT,
                            name.span,
                            format!("method `{name}` must be called"),
                        )
                        .help(format!("write `{name}(...)`")),
                    );
                    return self.invalid();
                }
                let methods: Vec<String> = methods.iter().map(|m| (*m).to_owned()).collect();
                self.unknown_member(name, &ty, methods.iter().map(String::as_str))
            }
        }
    }

    fn stack_member(
        &mut self,
        expr: &Expr,
        name: &Ident,
        ty: &Type,
        element: &Type,
        size: u32,
        lvalue: bool,
    ) -> Type {
        let (resolution, result) = match &*name.name {
            "next" => (Resolution::StackNext, element.clone()),
            "last" => (Resolution::StackLast, element.clone()),
            "lastIndex" => (Resolution::StackLastIndex, Type::Bit(32)),
            "size" => (Resolution::StackSize, Type::Bit(32)),
            _ => return self.unknown_member(name, ty, ["next", "last", "lastIndex", "size"]),
        };
        if matches!(&*name.name, "next" | "last" | "lastIndex") && self.body_kind != BodyKind::State
        {
            self.report(
                Diagnostic::error(
                    Code::CALL_CONTEXT,
                    name.span,
                    format!("`{name}` of a stack exists only in parser states"),
                )
                .help("elsewhere, name an element by its index: `stack[0]`"),
            );
        }
        let value = (resolution == Resolution::StackSize).then(|| Value::Int(BigInt::from(size)));
        let info = self.info_mut(expr);
        info.resolution = resolution;
        info.is_lvalue = lvalue && resolution == Resolution::StackNext;
        info.value = value;
        result
    }

    /// Checks `E.member` of an enum, and `error.Name`.
    fn type_member(&mut self, expr: &Expr, ty: Type, name: &Ident) -> Type {
        match &ty {
            Type::Invalid(_) | Type::Unknown => self.invalid(),
            Type::Error => match self.error_names.get(&name.name).copied() {
                Some(id) => {
                    self.info_mut(expr).resolution = Resolution::Decl(id);
                    self.constant(expr, Type::Error, Value::Member(id))
                }
                None => {
                    let mut names: Vec<Name> = self.error_names.keys().cloned().collect();
                    names.sort_unstable();
                    let mut d = Diagnostic::error(
                        Code::UNKNOWN_MEMBER,
                        name.span,
                        format!("error `{name}` is not declared"),
                    );
                    d = match closest(&name.name, names.iter().map(|n| &**n)) {
                        Some(near) => d.did_you_mean(name.span, near),
                        None => d.help(format!("declare it: `error {{ {name} }}`")),
                    };
                    self.report(d);
                    self.invalid()
                }
            },
            Type::Enum(n) | Type::SerializableEnum(n) => {
                let DefKind::Enum(decl) = self.def(n.id).clone() else {
                    return self.invalid();
                };
                let Some(member) = decl.members.iter().find(|m| m.name.name == name.name) else {
                    return self.unknown_member(
                        name,
                        &ty,
                        decl.members.iter().map(|m| &*m.name.name),
                    );
                };
                self.used.insert(member.id);
                let value = match &ty {
                    Type::Enum(_) => Some(Value::Member(member.id)),
                    _ => self.out.consts.get(&member.id).cloned(),
                };
                let info = self.info_mut(expr);
                info.resolution = Resolution::Decl(member.id);
                info.value = value;
                ty
            }
            ty => {
                let message = format!("type `{ty}` has no member `{name}`");
                self.error(Code::UNKNOWN_MEMBER, name.span, message);
                self.invalid()
            }
        }
    }

    pub fn unknown_field(&mut self, name: &Ident, ty: &Type, table: &super::checker::FieldTable) {
        let methods = self.method_names(ty);
        if methods.iter().any(|m| *m == &*name.name) {
            self.report(
                Diagnostic::error(
                    Code::CALL_CONTEXT,
                    name.span,
                    format!("method `{name}` must be called"),
                )
                .help(format!("write `{name}()`")),
            );
            return;
        }
        let mut d = Diagnostic::error(
            Code::UNKNOWN_MEMBER,
            name.span,
            format!("`{ty}` has no field `{name}`"),
        )
        .label("unknown field");
        if let Some(near) = closest(&name.name, table.list.iter().map(|(f, _)| &*f.name.name)) {
            d = d.did_you_mean(name.span, near);
        }
        if let Some(nominal) = ty.nominal() {
            d = d.other(self.name_span(nominal.id), "declared here");
        }
        self.report(d);
    }

    /// Reports an unknown member, with the most similar of `known` as a suggestion; returns [`Type::Invalid`].
    pub fn unknown_member<'n>(
        &mut self,
        name: &Ident,
        ty: &Type,
        known: impl IntoIterator<Item = &'n str>,
    ) -> Type {
        let known: Vec<&str> = known.into_iter().collect();
        let mut d = Diagnostic::error(
            Code::UNKNOWN_MEMBER,
            name.span,
            format!("`{ty}` has no member `{name}`"),
        )
        .label("unknown member");
        if let Some(near) = closest(&name.name, known.iter().copied()) {
            d = d.did_you_mean(name.span, near);
        } else if !known.is_empty() && known.len() <= 12 {
            d = d.note(format!(
                "it has {}",
                known
                    .iter()
                    .map(|n| format!("`{n}`"))
                    .collect::<Vec<_>>()
                    .join(", ")
            ));
        }
        self.report(d);
        self.invalid()
    }

    fn index(&mut self, expr: &Expr, base: &Expr, index: &Expr) -> Type {
        let ty = self.expr(base);
        let index_type = self.expr(index);
        let representation = self.out.representation(&index_type);
        if !representation.is_numeric() && !index_type.is_invalid() {
            self.error(
                Code::TYPE_MISMATCH,
                index.span,
                format!("an index must be a number, not `{index_type}`"),
            );
            return self.invalid();
        }
        let value = self.value_of(index).and_then(|v| v.as_int().cloned());
        let size = match &ty {
            Type::Invalid(_) | Type::Unknown => return self.invalid(),
            Type::Stack(_, size) => Some(*size as usize),
            Type::Tuple(types) => Some(types.len()),
            Type::List(_) => None,
            ty => {
                self.report(
                    Diagnostic::error(Code::OPERATOR, base.span, format!("`{ty}` cannot be indexed"))
                        .note("only header stacks and tuples can be indexed; for a single bit, use a slice such as `x[3:3]`"),
                );
                return self.invalid();
            }
        };
        let position = value.as_ref().and_then(ToPrimitive::to_usize);
        if let (Some(value), Some(size)) = (&value, size) {
            if position.is_none_or(|p| p >= size) {
                self.report(
                    Diagnostic::error(
                        Code::BOUNDS,
                        index.span,
                        format!("index {value} is out of range"),
                    )
                    .label(format!("`{ty}` has {size} elements")),
                );
                return self.invalid();
            }
        }
        if index_type == Type::Int && value.is_some() && matches!(ty, Type::Stack(..)) {
            self.info_mut(index).cast = Some(Type::Bit(32));
        }
        let element_value = match (self.out.info(base.id).value.as_ref(), position) {
            (Some(Value::Aggregate(values)), Some(p)) => values.get(p).cloned(),
            _ => None,
        };
        let is_lvalue = self.out.info(base.id).is_lvalue;
        let info = self.info_mut(expr);
        info.is_lvalue = is_lvalue;
        info.value = element_value;
        match ty {
            Type::Stack(element, _) | Type::List(element) => (*element).clone(),
            Type::Tuple(types) => match position {
                Some(p) => types[p].clone(),
                None => {
                    self.error(
                        Code::NOT_CONSTANT,
                        index.span,
                        "the index of a tuple must be known at compile time",
                    );
                    self.invalid()
                }
            },
            _ => self.invalid(),
        }
    }

    /// Names of the methods of a type, for suggestions and completion.
    pub fn method_names(&self, ty: &Type) -> Vec<&str> {
        let sizes = [
            "minSizeInBits",
            "minSizeInBytes",
            "maxSizeInBits",
            "maxSizeInBytes",
        ];
        match ty {
            Type::Header(_) => [&["isValid", "setValid", "setInvalid"][..], &sizes].concat(),
            Type::HeaderUnion(_) => [&["isValid"][..], &sizes].concat(),
            Type::Stack(..) => [&["push_front", "pop_front"][..], &sizes].concat(),
            Type::Table(_) | Type::Parser(_) | Type::Control(_) => vec!["apply"],
            Type::Extern(Nominal { id, .. }) => match self.def(*id) {
                DefKind::Extern(d) => d.methods.iter().map(|m| &*m.name.name).collect(),
                _ => Vec::new(),
            },
            Type::Invalid(_)
            | Type::Unknown
            | Type::Callable(_)
            | Type::ApplyResult(_)
            | Type::ActionRun(_)
            | Type::Package(_) => Vec::new(),
            _ => sizes.to_vec(),
        }
    }

    /// Checks an expression that must be a compile-time integer and returns its value. `what` names the context in messages. `None` after
    /// a reported error, and for values that depend on constructor parameters.
    pub fn constant_int(&mut self, expr: &Expr, what: &str) -> Option<BigInt> {
        let ty = self.expr(expr);
        if ty.is_invalid() {
            return None;
        }
        if !self.out.representation(&ty).is_numeric() {
            self.error(
                Code::TYPE_MISMATCH,
                expr.span,
                format!("{what} must be a number, not `{ty}`"),
            );
            return None;
        }
        match self.value_of(expr) {
            Some(Value::Int(n)) => Some(n),
            _ => {
                self.report_not_constant(expr, what);
                None
            }
        }
    }

    pub fn report_not_constant(&mut self, expr: &Expr, what: &str) {
        self.report(
            Diagnostic::error(
                Code::NOT_CONSTANT,
                expr.span,
                format!("{what} must be known at compile time"),
            )
            .label("not a compile-time value"),
        );
    }

    /// Whether the value of an expression is known when instances are elaborated: it consists of constants, constructor parameters and
    /// instances.
    pub fn is_compile_time(&self, expr: &Expr) -> bool {
        if self.out.info(expr.id).value.is_some() {
            return true;
        }
        match &expr.kind {
            ExprKind::Name(_) => match self.out.info(expr.id).resolution {
                Resolution::Decl(id) => {
                    matches!(
                        self.out.opt_def(id).map(|d| &d.kind),
                        Some(
                            DefKind::CtorParam(_)
                                | DefKind::Instance(_)
                                | DefKind::Const(_)
                                | DefKind::Table(_)
                        )
                    )
                }
                _ => false,
            },
            ExprKind::Call(_) => self.out.call(expr.id).is_some_and(|call| {
                matches!(
                    call.callee,
                    Callee::ExternConstructor { .. }
                        | Callee::ParserConstructor(_)
                        | Callee::ControlConstructor(_)
                        | Callee::PackageConstructor(_)
                )
            }),
            ExprKind::Member(base, _) | ExprKind::Unary(_, base) | ExprKind::Cast(_, base) => {
                self.is_compile_time(base)
            }
            ExprKind::Binary(_, a, b) | ExprKind::Index(a, b) => {
                self.is_compile_time(a) && self.is_compile_time(b)
            }
            ExprKind::Ternary(a, b, c)
            | ExprKind::Slice {
                base: a,
                hi: b,
                lo: c,
            } => self.is_compile_time(a) && self.is_compile_time(b) && self.is_compile_time(c),
            ExprKind::List(list) => list.iter().all(|e| self.is_compile_time(e)),
            ExprKind::Struct { fields, .. } => {
                fields.iter().all(|f| self.is_compile_time(&f.value))
            }
            ExprKind::Dots | ExprKind::InvalidHeader | ExprKind::This => true,
            _ => false,
        }
    }
}
