//! Calls and overload resolution (spec § 8.20).

use super::args::{match_args, params_text, CallTarget};
use super::checked::*;
use super::checker::{BodyKind, Checker};
use super::types::{Nominal, Substitution, Type};
use super::value::Value;
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::ast::*;
use std::rc::Rc;

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
                self.invalid()
            }
        }
    }

    /// Checks each argument by itself, without a parameter type, after an error in the callee.
    pub fn check_args_alone(&mut self, args: &[Arg]) {
        for arg in args {
            if !matches!(arg.value.kind, ExprKind::DontCare(_)) {
                self.expr(&arg.value);
            }
        }
    }

    fn call_name(&mut self, expr: &Expr, call: &Call, path: &Path) -> Type {
        let Some(id) = self.find_callee(path) else {
            self.lookup(path);
            self.check_args_alone(&call.args);
            return self.invalid();
        };
        self.used.insert(id);
        let kind = self.def(id).clone();
        match &kind {
            DefKind::Action(action) => {
                self.info_mut(&call.callee).resolution = Resolution::Decl(id);
                self.check_deprecated(id, path.span());
                if !matches!(self.body_kind, BodyKind::Apply | BodyKind::Action) {
                    self.error(
                        Code::CALL_CONTEXT,
                        expr.span,
                        "actions can only be called in controls and actions",
                    );
                }
                self.check_recursion(id, path);
                let target = CallTarget {
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
                let ty = self.construct(expr.id, expr.span, &ty, &call.args);
                self.reject_abstract(&ty, expr.span);
                ty
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
                self.invalid()
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
            return self.invalid();
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
            && self.body_kind != BodyKind::State
        {
            self.error(
                Code::CALL_CONTEXT,
                expr.span,
                "`verify` may only be called in parser states",
            );
        }
        let target = CallTarget {
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
                self.report_not_constant(&check.value, "the condition of `static_assert`")
            }
            _ => {}
        }
    }

    /// The overload for these arguments; reports an error if there is none, or more than one.
    pub fn choose(
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
                    format!("no overload of `{name_text}` takes these {n} argument{s}"),
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
                // Because of default values several overloads may match: prefer the overload with as many parameters as there are
                // arguments.
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
                    d = d.other(self.name_span(*id), "candidate");
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
            (Type::Invalid(_) | Type::Unknown, _) => {
                self.check_args_alone(&call.args);
                self.invalid()
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
            return self.invalid();
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
            return self.invalid();
        };
        self.info_mut(&call.callee).resolution = Resolution::Decl(id);
        self.check_deprecated(id, method.span);
        if &*ext.name.name == "packet_in" && self.body_kind != BodyKind::State {
            let message = format!("`{}` may only be called in parser states", method.name);
            self.error(Code::CALL_CONTEXT, expr.span, message);
        }
        let target = CallTarget {
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

    fn table_apply(&mut self, expr: &Expr, call: &Call, table: &Nominal, method: &Ident) -> Type {
        if self.body_kind != BodyKind::Apply {
            self.report(
                Diagnostic::error(
                    Code::CALL_CONTEXT,
                    expr.span,
                    "tables can only be applied in `apply` blocks of controls",
                )
                .help("move it to the control's `apply` block"),
            );
        }
        let target = CallTarget {
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
                BodyKind::State,
                "parsers",
            ),
            DefKind::Control(d) => (
                d.params.clone(),
                d.type_params.clone(),
                BodyKind::Apply,
                "controls",
            ),
            _ => return self.invalid(),
        };
        if self.body_kind != want {
            let place = if want == BodyKind::State {
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
        let target = CallTarget {
            name: n.name.clone(),
            span: method.span,
            callee,
            params: &params,
            type_params: &[],
            outer: Substitution::new(type_params.iter().map(|p| p.id), n.args.iter().cloned()),
        };
        self.resolve_call(expr, &call.type_args, &call.args, target, &Type::Void)
    }

    /// Checks `C.apply(...)` with a type `C` (direct application, spec § 15.1): instantiates `C` without constructor arguments and
    /// applies it.
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
                _ => return self.invalid(),
            },
            Type::Control(n) => match self.def(n.id) {
                DefKind::Control(d) => (n.clone(), d.body.as_ref().map(|b| b.ctor_params.clone())),
                _ => return self.invalid(),
            },
            Type::Invalid(_) | Type::Unknown => {
                self.check_args_alone(&call.args);
                return self.invalid();
            }
            ty if is_size(&method.name) => {
                self.info_mut(base).ty = ty.clone();
                return self.builtin_method(expr, call, base, ty, method);
            }
            ty => {
                self.check_args_alone(&call.args);
                let message = format!("type `{ty}` has no method `{method}`");
                self.error(Code::UNKNOWN_MEMBER, method.span, message);
                return self.invalid();
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
            return self.invalid();
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
                    .help("declare an instance, and apply it"),
                );
            }
            Some(_) => {}
        }
        self.block_apply(expr, call, &n, method, Callee::DirectApply(n.id))
    }
}

/// Whether a method returns the size of a type, such as `minSizeInBits`. These methods can be called on types too.
fn is_size(method: &str) -> bool {
    matches!(
        method,
        "minSizeInBits" | "minSizeInBytes" | "maxSizeInBits" | "maxSizeInBytes"
    )
}
