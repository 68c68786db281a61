//! Calls: overloads, type arguments, arguments (spec § 6.8, 8.20).

use super::checked::*;
use super::checker::{Checker, Place};
use super::types::{Nominal, Substitution, Type};
use super::value::Value;
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::ast::*;
use num_bigint::BigInt;
use std::rc::Rc;

/// Which argument goes to each parameter.
type Matching = Vec<ArgSource>;

/// How a call was matched: used to build its [`CallInfo`].
pub(super) struct Target<'p> {
    /// Name for messages.
    pub name: Name,
    /// Where the callee is written.
    pub span: Span,
    pub callee: Callee,
    pub params: &'p [Rc<Param>],
    pub type_params: &'p [TypeParam],
    /// Type arguments of the instance that a method belongs to.
    pub outer: Substitution,
}

impl Checker<'_> {
    /// Checks a call and returns the type of its result.
    pub fn call(&mut self, expr: &Expr, call: &Call) -> Type {
        match &call.callee.kind {
            ExprKind::Name(path) => self.call_name(expr, call, path),
            ExprKind::Member(base, method) => self.call_method(expr, call, base, method),
            _ => {
                self.expr(&call.callee);
                self.check_args_alone(&call.args);
                self.error(
                    Code::NOT_CALLABLE,
                    call.callee.span,
                    "this cannot be called",
                );
                Type::Invalid
            }
        }
    }

    /// Checks arguments whose parameters are not known.
    fn check_args_alone(&mut self, args: &[Arg]) {
        for arg in args {
            if !matches!(arg.value.kind, ExprKind::DontCare(_)) {
                self.expr(&arg.value);
            }
        }
    }

    fn call_name(&mut self, expr: &Expr, call: &Call, path: &Path) -> Type {
        let Some(id) = self.find(path) else {
            self.lookup(path);
            self.check_args_alone(&call.args);
            return Type::Invalid;
        };
        self.used.insert(id);
        let kind = self.def(id).clone();
        match &kind {
            DefKind::Action(action) => {
                self.info_mut(&call.callee).resolution = Resolution::Decl(id);
                self.check_deprecated(id, path.span());
                if !matches!(self.place, Place::Apply | Place::Action) {
                    self.error(
                        Code::CALL_CONTEXT,
                        expr.span,
                        "actions can only be called in controls and actions",
                    );
                }
                self.check_recursion(id, path);
                let target = Target {
                    name: path.name.name.clone(),
                    span: path.span(),
                    callee: Callee::Action(id),
                    params: &action.params,
                    type_params: &[],
                    outer: Substitution::default(),
                };
                self.resolve_call(expr, &call.type_args, &call.args, target, &Type::Void)
            }
            DefKind::Function(_) | DefKind::ExternFunction(_) => {
                self.call_function(expr, call, id, path)
            }
            kind if kind.is_type() => {
                self.info_mut(&call.callee).resolution = Resolution::Decl(id);
                let written: Vec<Type> = call
                    .type_args
                    .iter()
                    .map(|t| self.type_argument(t))
                    .collect();
                let ty = self.open_type(id, path.span());
                if !written.is_empty() {
                    self.apply_type_arguments(&ty, written, path.span());
                }
                self.construct(expr.id, expr.span, &ty, &call.args)
            }
            other => {
                let message = format!(
                    "`{}` is {}, which cannot be called",
                    path.name,
                    other.noun()
                );
                let mut d = Diagnostic::error(Code::NOT_CALLABLE, path.span(), message);
                if matches!(other, DefKind::Table(_) | DefKind::Instance(_)) {
                    d = d.help(format!("write `{}.apply(...)`", path.name));
                }
                self.report(d);
                self.check_args_alone(&call.args);
                Type::Invalid
            }
        }
    }

    fn apply_type_arguments(&mut self, ty: &Type, written: Vec<Type>, span: Span) {
        let Some(n) = ty.nominal() else { return };
        if n.args.len() != written.len() {
            let (want, got) = (n.args.len(), written.len());
            let message = format!("`{}` takes {want} type arguments, not {got}", n.name);
            self.error(Code::TYPE_ARGUMENTS, span, message);
            return;
        }
        for (open, written) in n.args.iter().zip(written) {
            self.unify(open, &written);
        }
    }

    fn check_recursion(&mut self, id: DeclId, path: &Path) {
        if self.parent == Some(id) {
            let message = format!("`{}` calls itself", path.name);
            self.report(
                Diagnostic::error(Code::RECURSION, path.span(), message)
                    .note("P4 has no recursion, so that all programs end"),
            );
        }
    }

    /// All functions with the name of `first` in its scope.
    fn overloads(&self, first: DeclId) -> Vec<DeclId> {
        let mut list = vec![first];
        while let Some(next) = self.next_overload.get(&list[list.len() - 1]) {
            list.push(*next);
        }
        list
    }

    fn call_function(&mut self, expr: &Expr, call: &Call, first: DeclId, path: &Path) -> Type {
        let candidates: Vec<(DeclId, Rc<FunctionDecl>)> = self
            .overloads(first)
            .into_iter()
            .filter_map(|id| match self.def(id) {
                DefKind::Function(f) | DefKind::ExternFunction(f) => Some((id, f.clone())),
                _ => None,
            })
            .collect();
        let Some((id, function)) = self.choose(&candidates, &call.args, &path.name) else {
            self.check_args_alone(&call.args);
            return Type::Invalid;
        };
        self.used.insert(id);
        self.info_mut(&call.callee).resolution = Resolution::Decl(id);
        self.check_deprecated(id, path.span());
        self.check_recursion(id, path);
        let callee = if function.body.is_some() {
            Callee::Function(id)
        } else {
            Callee::ExternFunction(id)
        };
        if callee == Callee::ExternFunction(id)
            && &*function.name.name == "verify"
            && self.place != Place::State
        {
            self.error(
                Code::CALL_CONTEXT,
                expr.span,
                "`verify` may only be called in parser states",
            );
        }
        let target = Target {
            name: path.name.name.clone(),
            span: path.span(),
            callee,
            params: &function.params,
            type_params: &function.type_params,
            outer: Substitution::default(),
        };
        let ret = function
            .ret
            .as_ref()
            .map_or(Type::Void, |t| self.out.type_ref(t).clone());
        let result = self.resolve_call(expr, &call.type_args, &call.args, target, &ret);
        if &*function.name.name == "static_assert" {
            self.static_assert(expr, call);
        }
        result
    }

    fn static_assert(&mut self, expr: &Expr, call: &Call) {
        let [check, rest @ ..] = &call.args[..] else {
            return;
        };
        match self.value_of(&check.value) {
            Some(Value::Bool(true)) => self.info_mut(expr).value = Some(Value::Bool(true)),
            Some(Value::Bool(false)) => {
                let text = match rest.first().and_then(|arg| self.value_of(&arg.value)) {
                    Some(Value::String(text)) => format!("static_assert failed: {text}"),
                    _ => "static_assert failed".into(),
                };
                self.report(Diagnostic::error(Code::EVALUATION, expr.span, text).label("is false"));
            }
            _ if self.out.call(expr.id).is_some() => {
                self.not_constant(&check.value, "the condition of `static_assert`")
            }
            _ => {}
        }
    }

    /// The overload that takes these arguments; reports when there is none, or more than one.
    fn choose(
        &mut self,
        candidates: &[(DeclId, Rc<FunctionDecl>)],
        args: &[Arg],
        name: &Ident,
    ) -> Option<(DeclId, Rc<FunctionDecl>)> {
        if let [only] = candidates {
            return Some(only.clone());
        }
        let fitting: Vec<_> = candidates
            .iter()
            .filter(|(_, f)| match_args(&f.params, args).is_ok())
            .collect();
        match fitting[..] {
            [one] => Some(one.clone()),
            [] => {
                let n = args.len();
                let (s, name_text) = (if n == 1 { "" } else { "s" }, &name.name);
                let mut d = Diagnostic::error(
                    Code::ARGUMENTS,
                    name.span,
                    format!("no `{name_text}` takes these {n} argument{s}"),
                );
                for (id, f) in candidates {
                    d = d.other(
                        self.name_span(*id),
                        format!("takes {}", params_text(&f.params)),
                    );
                }
                self.report(d);
                None
            }
            [first, ..] => {
                // With default values several may fit: the one with as many parameters as arguments is meant.
                let exact: Vec<_> = fitting
                    .iter()
                    .filter(|(_, f)| f.params.len() == args.len())
                    .collect();
                if let [one] = exact[..] {
                    return Some((*one).clone());
                }
                let mut d = Diagnostic::error(
                    Code::ARGUMENTS,
                    name.span,
                    format!("call of `{}` is ambiguous", name.name),
                );
                for (id, _) in &fitting {
                    d = d.other(self.name_span(*id), "could be meant");
                }
                self.report(d.help("name the arguments"));
                Some(first.clone())
            }
        }
    }

    fn call_method(&mut self, expr: &Expr, call: &Call, base: &Expr, method: &Ident) -> Type {
        if let Some(ty) = self.type_before_dot(base) {
            return self.direct_apply(expr, call, base, ty, method);
        }
        let ty = self.expr(base);
        match (&ty, &*method.name) {
            (Type::Invalid, _) => {
                self.check_args_alone(&call.args);
                Type::Invalid
            }
            (Type::Table(n), "apply") => self.table_apply(expr, call, n, method),
            (Type::Parser(n), "apply") => {
                self.block_apply(expr, call, n, method, Callee::ParserApply(n.id))
            }
            (Type::Control(n), "apply") => {
                self.block_apply(expr, call, n, method, Callee::ControlApply(n.id))
            }
            (Type::Extern(n), _) => self.extern_method(expr, call, n, method),
            (Type::Callable(_), _) => {
                self.check_args_alone(&call.args);
                self.expr(&call.callee)
            }
            _ => self.builtin_method(expr, call, base, &ty, method),
        }
    }

    fn extern_method(&mut self, expr: &Expr, call: &Call, n: &Nominal, method: &Ident) -> Type {
        let DefKind::Extern(ext) = self.def(n.id).clone() else {
            return Type::Invalid;
        };
        let candidates: Vec<(DeclId, Rc<FunctionDecl>)> = ext
            .methods
            .iter()
            .filter(|m| m.name.name == method.name)
            .map(|m| (m.id, m.clone()))
            .collect();
        if candidates.is_empty() {
            self.check_args_alone(&call.args);
            let ty = Type::Extern(n.clone());
            return self.unknown_member(method, &ty, ext.methods.iter().map(|m| &*m.name.name));
        }
        let Some((id, function)) = self.choose(&candidates, &call.args, method) else {
            self.check_args_alone(&call.args);
            return Type::Invalid;
        };
        self.info_mut(&call.callee).resolution = Resolution::Decl(id);
        self.check_deprecated(id, method.span);
        if &*ext.name.name == "packet_in" && self.place != Place::State {
            let message = format!("`{}` may only be called in parser states", method.name);
            self.error(Code::CALL_CONTEXT, expr.span, message);
        }
        let target = Target {
            name: method.name.clone(),
            span: method.span,
            callee: Callee::Method(id),
            params: &function.params,
            type_params: &function.type_params,
            outer: Substitution::new(ext.type_params.iter().map(|p| p.id), n.args.iter().cloned()),
        };
        let ret = function
            .ret
            .as_ref()
            .map_or(Type::Void, |t| self.out.type_ref(t).clone());
        let result = self.resolve_call(expr, &call.type_args, &call.args, target, &ret);
        self.check_core_method(expr, &ext.name.name, &method.name, call);
        result
    }

    /// Rules about `packet_in` and `packet_out` that their types do not tell (spec § 13.8, 16).
    fn check_core_method(&mut self, expr: &Expr, ext: &str, method: &str, call: &Call) {
        let Some(info) = self.out.call(expr.id).cloned() else {
            return;
        };
        let Some(ty) = info.type_args.first().cloned() else {
            return;
        };
        let span = call.args.first().map_or(expr.span, |a| a.value.span);
        match (ext, method) {
            ("packet_in", "extract") => {
                if !matches!(
                    ty,
                    Type::Header(_) | Type::HeaderUnion(_) | Type::Invalid | Type::Var(_)
                ) {
                    self.error(
                        Code::ARGUMENTS,
                        span,
                        format!("only headers can be extracted, not `{ty}`"),
                    );
                    return;
                }
                let variable = self.varbit_fields(&ty);
                if info.args.len() == 1 && variable > 0 {
                    self.report(
                        Diagnostic::error(
                            Code::ARGUMENTS,
                            span,
                            format!("`{ty}` has a field of variable size"),
                        )
                        .help("give the size of its `varbit` field, in bits, as second argument"),
                    );
                } else if info.args.len() == 2 && variable != 1 && matches!(ty, Type::Header(_)) {
                    self.report(
                        Diagnostic::error(
                            Code::ARGUMENTS,
                            span,
                            format!("`{ty}` has no field of variable size"),
                        )
                        .help("leave out the second argument"),
                    );
                }
            }
            ("packet_in", "lookahead") => {
                let bad = !matches!(ty, Type::Var(_))
                    && (self.varbit_fields(&ty) > 0 || self.size_in_bits(&ty).is_none());
                if bad && ty != Type::Invalid {
                    self.error(
                        Code::TYPE_ARGUMENTS,
                        expr.span,
                        format!("`lookahead` cannot read a `{ty}`: it has no fixed size"),
                    );
                }
            }
            ("packet_out", "emit") => {
                let bad = !matches!(
                    ty,
                    Type::Header(_)
                        | Type::HeaderUnion(_)
                        | Type::Stack(..)
                        | Type::Struct(_)
                        | Type::Invalid
                        | Type::Var(_)
                ) && !matches!(ty, Type::Tuple(_) | Type::Record(_));
                if bad {
                    self.error(
                        Code::ARGUMENTS,
                        span,
                        format!("only headers can be emitted, not `{ty}`"),
                    );
                }
            }
            _ => {}
        }
    }

    fn table_apply(&mut self, expr: &Expr, call: &Call, table: &Nominal, method: &Ident) -> Type {
        if self.place != Place::Apply {
            self.report(
                Diagnostic::error(
                    Code::CALL_CONTEXT,
                    expr.span,
                    "tables can only be applied in `apply` blocks of controls",
                )
                .help("move it to the control's `apply` block"),
            );
        }
        let target = Target {
            name: method.name.clone(),
            span: method.span,
            callee: Callee::TableApply(table.id),
            params: &[],
            type_params: &[],
            outer: Substitution::default(),
        };
        self.resolve_call(
            expr,
            &call.type_args,
            &call.args,
            target,
            &Type::ApplyResult(table.clone()),
        )
    }

    fn block_apply(
        &mut self,
        expr: &Expr,
        call: &Call,
        n: &Nominal,
        method: &Ident,
        callee: Callee,
    ) -> Type {
        let (params, type_params, want, noun) = match self.def(n.id).clone() {
            DefKind::Parser(d) => (
                d.params.clone(),
                d.type_params.clone(),
                Place::State,
                "parsers",
            ),
            DefKind::Control(d) => (
                d.params.clone(),
                d.type_params.clone(),
                Place::Apply,
                "controls",
            ),
            _ => return Type::Invalid,
        };
        if self.place != want {
            let place = if want == Place::State {
                "in parser states"
            } else {
                "in `apply` blocks of controls"
            };
            self.error(
                Code::CALL_CONTEXT,
                expr.span,
                format!("{noun} can only be applied {place}"),
            );
        }
        let target = Target {
            name: n.name.clone(),
            span: method.span,
            callee,
            params: &params,
            type_params: &[],
            outer: Substitution::new(type_params.iter().map(|p| p.id), n.args.iter().cloned()),
        };
        self.resolve_call(expr, &call.type_args, &call.args, target, &Type::Void)
    }

    /// `C.apply(...)` with a type before the dot: makes an instance without constructor arguments.
    fn direct_apply(
        &mut self,
        expr: &Expr,
        call: &Call,
        base: &Expr,
        ty: Type,
        method: &Ident,
    ) -> Type {
        let (n, ctor_params) = match &ty {
            Type::Parser(n) => match self.def(n.id) {
                DefKind::Parser(d) => (n.clone(), d.body.as_ref().map(|b| b.ctor_params.clone())),
                _ => return Type::Invalid,
            },
            Type::Control(n) => match self.def(n.id) {
                DefKind::Control(d) => (n.clone(), d.body.as_ref().map(|b| b.ctor_params.clone())),
                _ => return Type::Invalid,
            },
            Type::Invalid => {
                self.check_args_alone(&call.args);
                return Type::Invalid;
            }
            ty => {
                self.check_args_alone(&call.args);
                let message = format!("type `{ty}` has no method `{method}`");
                self.error(Code::UNKNOWN_MEMBER, method.span, message);
                return Type::Invalid;
            }
        };
        if &*method.name != "apply" {
            self.check_args_alone(&call.args);
            return self.unknown_member(method, &ty, ["apply"]);
        }
        if self.parent == Some(n.id) {
            self.check_args_alone(&call.args);
            self.error(
                Code::RECURSION,
                base.span,
                format!("`{}` applies itself", n.name),
            );
            return Type::Invalid;
        }
        match ctor_params {
            None => {
                let message = format!(
                    "`{}` is a type without a body and cannot be applied",
                    n.name
                );
                self.error(Code::NOT_CALLABLE, base.span, message);
            }
            Some(params) if params.iter().any(|p| p.default.is_none()) => {
                self.report(
                    Diagnostic::error(
                        Code::ARGUMENTS,
                        base.span,
                        format!("`{}` has constructor parameters", n.name),
                    )
                    .help("make an instance of it and apply that"),
                );
            }
            Some(_) => {}
        }
        self.block_apply(expr, call, &n, method, Callee::DirectApply(n.id))
    }

    fn builtin_method(
        &mut self,
        expr: &Expr,
        call: &Call,
        base: &Expr,
        ty: &Type,
        method: &Ident,
    ) -> Type {
        let found = match (&*method.name, ty) {
            ("isValid", Type::Header(_) | Type::HeaderUnion(_)) => BuiltinMethod::IsValid,
            ("setValid", Type::Header(_)) => BuiltinMethod::SetValid,
            ("setInvalid", Type::Header(_)) => BuiltinMethod::SetInvalid,
            ("push_front", Type::Stack(..)) => BuiltinMethod::PushFront,
            ("pop_front", Type::Stack(..)) => BuiltinMethod::PopFront,
            ("minSizeInBits", _) => BuiltinMethod::MinSizeInBits,
            ("minSizeInBytes", _) => BuiltinMethod::MinSizeInBytes,
            ("maxSizeInBits", _) => BuiltinMethod::MaxSizeInBits,
            ("maxSizeInBytes", _) => BuiltinMethod::MaxSizeInBytes,
            _ => {
                self.check_args_alone(&call.args);
                if let Type::Struct(_) | Type::Header(_) | Type::HeaderUnion(_) = ty {
                    let table = self.field_table(ty);
                    if table.index.contains_key(&method.name) {
                        let message = format!("`{method}` is a field and cannot be called");
                        self.error(Code::NOT_CALLABLE, method.span, message);
                        return Type::Invalid;
                    }
                }
                let names: Vec<String> = self
                    .method_names(ty)
                    .into_iter()
                    .map(str::to_owned)
                    .collect();
                return self.unknown_member(method, ty, names.iter().map(String::as_str));
            }
        };
        self.check_writable_object(found, base);
        let wants = matches!(found, BuiltinMethod::PushFront | BuiltinMethod::PopFront);
        if call.args.len() != usize::from(wants) {
            self.check_args_alone(&call.args);
            let message = format!(
                "`{method}` takes {} argument{}",
                u8::from(wants),
                if wants { "" } else { "s" }
            );
            self.error(Code::ARGUMENTS, expr.span, message);
            return Type::Invalid;
        }
        let mut args = Vec::new();
        if wants {
            self.constant_int(&call.args[0].value, "the number of elements");
            args.push(ArgInfo {
                param: None,
                direction: Direction::In,
                ty: Type::Int,
                source: ArgSource::Arg(0),
            });
        }
        let (ret, value) = self.builtin_result(found, ty, base.span);
        self.info_mut(expr).value = value;
        self.out.calls.insert(
            expr.id,
            CallInfo {
                callee: Callee::Builtin(found),
                type_args: Vec::new(),
                args,
                ret: ret.clone(),
            },
        );
        ret
    }

    fn check_writable_object(&mut self, method: BuiltinMethod, base: &Expr) {
        let writes = matches!(
            method,
            BuiltinMethod::SetValid
                | BuiltinMethod::SetInvalid
                | BuiltinMethod::PushFront
                | BuiltinMethod::PopFront
        );
        if writes && !self.out.info(base.id).is_lvalue {
            self.not_assignable(base, "changed");
        }
    }

    fn builtin_result(
        &mut self,
        method: BuiltinMethod,
        ty: &Type,
        span: Span,
    ) -> (Type, Option<Value>) {
        let bits = match method {
            BuiltinMethod::IsValid => return (Type::Bool, None),
            BuiltinMethod::SetValid
            | BuiltinMethod::SetInvalid
            | BuiltinMethod::PushFront
            | BuiltinMethod::PopFront => return (Type::Void, None),
            _ => self.size_in_bits(ty),
        };
        let Some((min, max)) = bits else {
            if *ty != Type::Invalid {
                self.error(Code::BAD_TYPE, span, format!("`{ty}` has no size"));
            }
            return (Type::Int, None);
        };
        let size = match method {
            BuiltinMethod::MinSizeInBits => min,
            BuiltinMethod::MinSizeInBytes => min.div_ceil(8),
            BuiltinMethod::MaxSizeInBits => max,
            _ => max.div_ceil(8),
        };
        (Type::Int, Some(Value::Int(BigInt::from(size))))
    }

    /// Smallest and largest size of values, `None` for types that have no size.
    pub fn size_in_bits(&mut self, ty: &Type) -> Option<(u64, u64)> {
        Some(match ty {
            Type::Bool => (1, 1),
            Type::Bit(w) | Type::Signed(w) => (u64::from(*w), u64::from(*w)),
            Type::Varbit(w) => (0, u64::from(*w)),
            Type::SerializableEnum(_) | Type::NewType(_) => {
                let under = self.out.underlying(ty)?;
                self.size_in_bits(&under)?
            }
            Type::Struct(_) | Type::Header(_) | Type::HeaderUnion(_) => {
                let table = self.field_table(ty);
                let sizes: Option<Vec<(u64, u64)>> = table
                    .list
                    .iter()
                    .map(|(_, ty)| self.size_in_bits(ty))
                    .collect();
                let sizes = sizes?;
                if matches!(ty, Type::HeaderUnion(_)) {
                    (
                        sizes.iter().map(|s| s.0).min().unwrap_or(0),
                        sizes.iter().map(|s| s.1).max().unwrap_or(0),
                    )
                } else {
                    (
                        sizes.iter().map(|s| s.0).sum(),
                        sizes.iter().map(|s| s.1).sum(),
                    )
                }
            }
            Type::Tuple(types) => {
                let mut sum = (0, 0);
                for ty in types.iter() {
                    let (min, max) = self.size_in_bits(ty)?;
                    sum = (sum.0 + min, sum.1 + max);
                }
                sum
            }
            Type::Stack(element, n) => {
                let (min, max) = self.size_in_bits(element)?;
                (min * u64::from(*n), max * u64::from(*n))
            }
            _ => return None,
        })
    }

    /// Number of fields of variable size.
    pub fn varbit_fields(&mut self, ty: &Type) -> usize {
        match ty {
            Type::Varbit(_) => 1,
            Type::Struct(_) | Type::Header(_) => {
                let table = self.field_table(ty);
                table
                    .list
                    .iter()
                    .map(|(_, ty)| self.varbit_fields(ty))
                    .sum()
            }
            _ => 0,
        }
    }

    /// Checks a constructor call of a type whose arguments may be open, and returns the type with its arguments found.
    pub fn construct(&mut self, id: ExprId, span: Span, ty: &Type, args: &[Arg]) -> Type {
        let (callee, params, name) = match ty {
            Type::Extern(n) => {
                let DefKind::Extern(ext) = self.def(n.id).clone() else {
                    return Type::Invalid;
                };
                let candidates: Vec<_> =
                    ext.constructors.iter().map(|c| (c.id, c.clone())).collect();
                let name = Ident {
                    name: n.name.clone(),
                    span,
                };
                if candidates.is_empty() {
                    self.check_args_alone(args);
                    self.error(
                        Code::NOT_CALLABLE,
                        span,
                        format!("extern `{}` has no constructor", n.name),
                    );
                    return Type::Invalid;
                }
                let Some((constructor, function)) = self.choose(&candidates, args, &name) else {
                    self.check_args_alone(args);
                    return Type::Invalid;
                };
                self.check_deprecated(n.id, span);
                (
                    Callee::ExternConstructor {
                        ext: n.id,
                        constructor,
                    },
                    function.params.clone(),
                    n.name.clone(),
                )
            }
            Type::Parser(n) | Type::Control(n) => {
                let (callee, params) = match self.def(n.id).clone() {
                    DefKind::Parser(d) => (
                        Callee::ParserConstructor(n.id),
                        d.body.as_ref().map(|b| b.ctor_params.clone()),
                    ),
                    DefKind::Control(d) => (
                        Callee::ControlConstructor(n.id),
                        d.body.as_ref().map(|b| b.ctor_params.clone()),
                    ),
                    _ => return Type::Invalid,
                };
                if self.parent == Some(n.id) {
                    self.check_args_alone(args);
                    self.error(
                        Code::RECURSION,
                        span,
                        format!("`{}` contains itself", n.name),
                    );
                    return Type::Invalid;
                }
                let Some(params) = params else {
                    self.check_args_alone(args);
                    let message = format!(
                        "`{}` is a type without a body: there are no instances of it",
                        n.name
                    );
                    self.error(Code::NOT_CALLABLE, span, message);
                    return Type::Invalid;
                };
                (callee, params, n.name.clone())
            }
            Type::Package(n) => match self.def(n.id).clone() {
                DefKind::Package(d) => (
                    Callee::PackageConstructor(n.id),
                    d.params.clone(),
                    n.name.clone(),
                ),
                _ => return Type::Invalid,
            },
            Type::Invalid => {
                self.check_args_alone(args);
                return Type::Invalid;
            }
            ty => {
                self.check_args_alone(args);
                self.report(
                    Diagnostic::error(
                        Code::NOT_CALLABLE,
                        span,
                        format!("there are no instances of type `{ty}`"),
                    )
                    .note("externs, parsers, controls and packages can be instantiated"),
                );
                return Type::Invalid;
            }
        };
        let nominal = ty
            .nominal()
            .cloned()
            .expect("instances have declared types");
        let type_params = self.type_params_of(nominal.id);
        let outer = Substitution::new(
            type_params.iter().map(|p| p.id),
            nominal.args.iter().cloned(),
        );
        let target = Target {
            name,
            span,
            callee,
            params: &params,
            type_params: &[],
            outer,
        };
        let Some(mut info) = self.bind(args, target, true) else {
            return Type::Invalid;
        };
        for arg in &info.args {
            if let ArgSource::Arg(i) = arg.source {
                let value = &args[i].value;
                if !self.is_compile_time(value) && self.type_of(value) != Type::Invalid {
                    self.not_constant(value, "a constructor argument");
                }
            }
        }
        let resolved = self.resolve(ty);
        if self.is_open(&resolved) {
            let open = type_params
                .iter()
                .zip(nominal.args.iter())
                .filter(|(_, t)| self.is_open(t));
            let names: Vec<String> = open.map(|(p, _)| format!("`{}`", p.name)).collect();
            self.report(
                Diagnostic::error(
                    Code::TYPE_ARGUMENTS,
                    span,
                    format!("cannot infer {} of `{}`", names.join(", "), nominal.name),
                )
                .help(format!("give type arguments: `{}<...>`", nominal.name)),
            );
            return Type::Invalid;
        }
        info.type_args = resolved
            .nominal()
            .map(|n| n.args.to_vec())
            .unwrap_or_default();
        info.ret = resolved.clone();
        self.out.calls.insert(id, info);
        resolved
    }

    fn type_params_of(&self, id: DeclId) -> Vec<TypeParam> {
        match self.def(id) {
            DefKind::Extern(d) => d.type_params.clone(),
            DefKind::Parser(d) => d.type_params.clone(),
            DefKind::Control(d) => d.type_params.clone(),
            DefKind::Package(d) => d.type_params.clone(),
            _ => Vec::new(),
        }
    }

    /// Binds arguments, infers type arguments, records the call, and returns the type of its result.
    fn resolve_call(
        &mut self,
        expr: &Expr,
        type_args: &[TypeRef],
        args: &[Arg],
        target: Target<'_>,
        ret: &Type,
    ) -> Type {
        let given: Vec<Type> = type_args.iter().map(|t| self.type_argument(t)).collect();
        let type_params = target.type_params;
        if !given.is_empty() && given.len() != type_params.len() {
            let (want, got) = (type_params.len(), given.len());
            let message = format!("`{}` takes {want} type arguments, not {got}", target.name);
            self.error(Code::TYPE_ARGUMENTS, target.span, message);
        }
        let fresh: Vec<Type> = (0..type_params.len())
            .map(|i| given.get(i).cloned().unwrap_or_else(|| self.fresh()))
            .collect();
        let own = Substitution::new(type_params.iter().map(|p| p.id), fresh.iter().cloned());
        let mut all = target.outer.clone();
        all.extend(&own);
        let (name, span) = (target.name.clone(), target.span);
        let target = Target {
            outer: all.clone(),
            ..target
        };
        let Some(mut info) = self.bind(args, target, false) else {
            return self.resolve(&ret.substitute(&all));
        };
        let open: Vec<String> = type_params
            .iter()
            .zip(&fresh)
            .filter(|(_, t)| self.is_open(t))
            .map(|(p, _)| format!("`{}`", p.name))
            .collect();
        if !open.is_empty() {
            self.report(
                Diagnostic::error(
                    Code::TYPE_ARGUMENTS,
                    span,
                    format!("cannot infer {} of `{name}`", open.join(", ")),
                )
                .help(format!("give type arguments: `{name}<...>(...)`")),
            );
            return Type::Invalid;
        }
        info.type_args = fresh.iter().map(|t| self.resolve(t)).collect();
        info.ret = self.resolve(&ret.substitute(&all));
        let ret = info.ret.clone();
        self.out.calls.insert(expr.id, info);
        ret
    }

    /// Checks arguments against parameters. `None` when they do not fit; that is reported.
    pub fn bind(
        &mut self,
        args: &[Arg],
        target: Target<'_>,
        constructor: bool,
    ) -> Option<CallInfo> {
        let types: Vec<Type> = target
            .params
            .iter()
            .map(|p| self.out.type_ref(&p.ty).substitute(&target.outer))
            .collect();
        let matching = match match_args(target.params, args) {
            Ok(matching) => matching,
            Err(problem) => {
                self.check_args_alone(args);
                self.report_mismatch(problem, args, &target);
                return None;
            }
        };
        let mut ok = true;
        let pairs: Vec<(usize, usize)> = matching
            .iter()
            .enumerate()
            .filter_map(|(p, source)| match source {
                ArgSource::Arg(a) => Some((p, *a)),
                _ => None,
            })
            .collect();
        for &(p, a) in &pairs {
            let value = &args[a].value;
            if matches!(value.kind, ExprKind::DontCare(_)) {
                self.info_mut(value).ty = types[p].clone();
                continue;
            }
            self.expr(value);
        }
        // Numbers without a width bind no type as long as something else may.
        for numbers in [false, true] {
            for &(p, a) in &pairs {
                let ty = self.type_of(&args[a].value);
                if (ty == Type::Int) == numbers && self.is_open(&types[p]) {
                    let adapted = self.adapt(&types[p], &args[a].value, ty);
                    self.unify(&types[p], &adapted);
                }
            }
        }
        let mut infos = Vec::with_capacity(types.len());
        for (p, param) in target.params.iter().enumerate() {
            let ty = self.resolve(&types[p]);
            let mut source = matching[p];
            if let ArgSource::Arg(a) = source {
                let value = &args[a].value;
                if matches!(value.kind, ExprKind::DontCare(_)) {
                    if param.direction != Direction::Out {
                        self.error(
                            Code::ARGUMENTS,
                            value.span,
                            "`_` can only stand for an `out` argument",
                        );
                        ok = false;
                    }
                    self.info_mut(value).ty = ty.clone();
                    source = ArgSource::Omitted;
                } else {
                    ok &= self.argument(value, param, &ty, constructor, target.callee);
                }
            }
            infos.push(ArgInfo {
                param: Some(param.id),
                direction: param.direction,
                ty,
                source,
            });
        }
        let info = CallInfo {
            callee: target.callee,
            type_args: Vec::new(),
            args: infos,
            ret: Type::Void,
        };
        ok.then_some(info)
    }

    /// The type that an argument gives a parameter of open type: with the parameter's shape, where a literal takes any.
    fn adapt(&mut self, param: &Type, arg: &Expr, ty: Type) -> Type {
        match (self.resolve(param), &arg.kind) {
            // A literal for a list, a struct or a tuple whose parts are open.
            (Type::List(element), ExprKind::List(list)) => {
                for part in list {
                    let ty = self.type_of(part);
                    let ty = self.adapt(&element, part, ty);
                    if ty != Type::Int {
                        self.unify(&element, &ty);
                    }
                }
                Type::List(element)
            }
            (open @ (Type::Struct(_) | Type::Header(_)), ExprKind::List(list)) => {
                let fields: Vec<Type> = self
                    .field_table(&open)
                    .list
                    .iter()
                    .map(|(_, ty)| ty.clone())
                    .collect();
                for (part, field) in list.iter().zip(fields) {
                    let ty = self.type_of(part);
                    let ty = self.adapt(&field, part, ty);
                    self.unify(&field, &ty);
                }
                open
            }
            (open @ (Type::Struct(_) | Type::Header(_)), ExprKind::Struct { fields, .. }) => {
                let table = self.field_table(&open);
                for field in fields {
                    if let Some(&i) = table.index.get(&field.name.name) {
                        let ty = self.type_of(&field.value);
                        let ty = self.adapt(&table.list[i].1, &field.value, ty);
                        self.unify(&table.list[i].1, &ty);
                    }
                }
                open
            }
            _ => ty,
        }
    }

    fn argument(
        &mut self,
        value: &Expr,
        param: &Param,
        ty: &Type,
        constructor: bool,
        callee: Callee,
    ) -> bool {
        if *ty == Type::Invalid || self.type_of(value) == Type::Invalid {
            return false;
        }
        if param.direction.writes() {
            if !self.out.info(value.id).is_lvalue {
                self.not_assignable(value, "passed as an `out` argument");
                return false;
            }
            let have = self.type_of(value);
            if !self.unify(ty, &have) {
                let word = param.direction.as_str();
                self.report(
                    Diagnostic::error(
                        Code::TYPE_MISMATCH,
                        value.span,
                        format!("expected `{ty}`, found `{have}`"),
                    )
                    .label(format!(
                        "`{word}` parameter `{}` must have exactly this type",
                        param.name
                    )),
                );
                return false;
            }
            return true;
        }
        let what = format!("argument `{}`", param.name);
        if !self.coerce(value, ty, &what) {
            return false;
        }
        if *ty == Type::Int && !constructor && param.direction != Direction::None {
            self.report(
                Diagnostic::error(
                    Code::TYPE_ARGUMENTS,
                    value.span,
                    "the width of this number cannot be inferred",
                )
                .help("give it a width, such as `32w1`"),
            );
            return false;
        }
        let runtime = matches!(callee, Callee::Action(_) | Callee::Function(_));
        if param.direction == Direction::None && !constructor && !runtime {
            let instance = ty.is_instance() || matches!(ty, Type::Table(_));
            if !instance && !self.is_compile_time(value) {
                self.not_constant(value, &what);
                return false;
            }
        }
        true
    }

    pub fn not_assignable(&mut self, expr: &Expr, how: &str) {
        let mut d = Diagnostic::error(
            Code::NOT_ASSIGNABLE,
            expr.span,
            format!("this cannot be {how}"),
        );
        if let Some(id) = self.root(expr).filter(|id| !self.is_writable(*id)) {
            let name = self.out.name(id);
            let at = self.name_span(id);
            d = match self.def(id) {
                DefKind::Const(_) => d
                    .label(format!("`{name}` is a constant"))
                    .other(at, "declared here"),
                DefKind::Param(p) if p.direction == Direction::In => d
                    .label(format!("`{name}` is an `in` parameter"))
                    .other(at, "declared here")
                    .help("declare the parameter `inout`, or copy it to a variable"),
                DefKind::Param(_) => d
                    .label(format!("`{name}` is a parameter without direction"))
                    .other(at, "declared here"),
                DefKind::CtorParam(_) => d
                    .label(format!("`{name}` is a constructor parameter"))
                    .other(at, "declared here"),
                other => d.label(format!("`{name}` is {}", other.noun())),
            };
        } else {
            d = d.label("not a variable, a field, or a part of one");
        }
        self.report(d);
    }

    fn is_writable(&self, id: DeclId) -> bool {
        match self.def(id) {
            DefKind::Var(_) => true,
            DefKind::Param(p) => p.direction.writes(),
            _ => false,
        }
    }

    /// The declaration at the bottom of `x.f[3].g`.
    fn root(&self, expr: &Expr) -> Option<DeclId> {
        match &expr.kind {
            ExprKind::Member(base, _) | ExprKind::Index(base, _) => self.root(base),
            ExprKind::Slice { base, .. } | ExprKind::SlicePlus { base, .. } => self.root(base),
            ExprKind::Name(_) => match self.out.info(expr.id).resolution {
                Resolution::Decl(id) => Some(id),
                _ => None,
            },
            _ => None,
        }
    }

    fn report_mismatch(&mut self, problem: Problem, args: &[Arg], target: &Target<'_>) {
        let name = &target.name;
        let mut d = match problem {
            Problem::TooMany(want) => {
                let (got, s) = (args.len(), if want == 1 { "" } else { "s" });
                let span = args[want].span();
                Diagnostic::error(
                    Code::ARGUMENTS,
                    span,
                    format!("`{name}` takes {want} argument{s}, not {got}"),
                )
                .label("unexpected argument")
            }
            Problem::Missing(missing) => {
                let names: Vec<String> = missing
                    .iter()
                    .map(|m| format!("`{}`", target.params[*m].name))
                    .collect();
                let s = if names.len() == 1 { "" } else { "s" };
                let message = format!("argument{s} {} of `{name}` missing", names.join(", "));
                Diagnostic::error(Code::ARGUMENTS, target.span, message)
            }
            Problem::Unknown(index) => {
                let arg = args[index]
                    .name
                    .as_ref()
                    .expect("only named arguments can be unknown");
                Diagnostic::error(
                    Code::ARGUMENTS,
                    arg.span,
                    format!("`{name}` has no parameter `{arg}`"),
                )
            }
            Problem::Twice(index) => {
                let arg = args[index]
                    .name
                    .as_ref()
                    .expect("only named arguments are matched by name");
                Diagnostic::error(
                    Code::ARGUMENTS,
                    arg.span,
                    format!("argument `{arg}` is given twice"),
                )
            }
            Problem::Mixed(index) => Diagnostic::error(
                Code::ARGUMENTS,
                args[index].span(),
                "either all arguments are named or none",
            ),
        };
        if !target.params.is_empty() {
            d = d.note(format!("`{name}` takes {}", params_text(target.params)));
        }
        self.report(d);
    }
}

/// Why arguments and parameters do not fit.
#[derive(Debug, PartialEq, Eq)]
enum Problem {
    /// More arguments than this many parameters.
    TooMany(usize),
    /// Parameters without an argument.
    Missing(Vec<usize>),
    /// This argument's name belongs to no parameter.
    Unknown(usize),
    /// This argument's name came before.
    Twice(usize),
    /// This argument is positional among named ones, or the other way round.
    Mixed(usize),
}

/// Pairs arguments with parameters, by position or by name.
fn match_args(params: &[Rc<Param>], args: &[Arg]) -> Result<Matching, Problem> {
    let mut matching: Vec<Option<ArgSource>> = vec![None; params.len()];
    let named = args.first().is_some_and(|a| a.name.is_some());
    for (i, arg) in args.iter().enumerate() {
        let index = match &arg.name {
            Some(_) if !named => return Err(Problem::Mixed(i)),
            None if named => return Err(Problem::Mixed(i)),
            Some(name) => params
                .iter()
                .position(|p| p.name.name == name.name)
                .ok_or(Problem::Unknown(i))?,
            None if i >= params.len() => return Err(Problem::TooMany(params.len())),
            None => i,
        };
        if matching[index].replace(ArgSource::Arg(i)).is_some() {
            return Err(Problem::Twice(i));
        }
    }
    for (source, param) in matching.iter_mut().zip(params) {
        if source.is_none() {
            *source = if param.default.is_some() {
                Some(ArgSource::Default)
            } else if param.annotations.annotation("optional").is_some() {
                Some(ArgSource::Omitted)
            } else {
                None
            };
        }
    }
    let missing: Vec<usize> = (0..params.len())
        .filter(|i| matching[*i].is_none())
        .collect();
    if !missing.is_empty() {
        return Err(Problem::Missing(missing));
    }
    Ok(matching.into_iter().flatten().collect())
}

fn params_text(params: &[Rc<Param>]) -> String {
    let list: Vec<String> = params
        .iter()
        .map(|p| match p.direction {
            Direction::None => p.name.to_string(),
            direction => format!("{} {}", direction.as_str(), p.name),
        })
        .collect();
    format!("({})", list.join(", "))
}
