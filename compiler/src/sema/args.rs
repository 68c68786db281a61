//! Arguments and parameters: matching, inference of type arguments, conversion (spec § 6.8, 8.20).

use super::checked::*;
use super::checker::{BodyKind, Checker};
use super::types::{Substitution, Type};
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::ast::*;
use std::rc::Rc;

/// For each parameter, in order of declaration, the source of its value.
pub(super) type Matching = Vec<ArgSource>;

/// The callee of a call whose arguments are being matched with its parameters; input for a [`CallInfo`].
pub(super) struct CallTarget<'p> {
    /// Name of the callee in messages.
    pub name: Name,
    /// Source position of the callee's name.
    pub span: Span,
    pub callee: Callee,
    pub params: &'p [Rc<Param>],
    pub type_params: &'p [TypeParam],
    /// Type arguments of the extern instance that a method is called on; empty for other callees.
    pub outer: Substitution,
}

impl Checker<'_> {
    /// Matches arguments with parameters, infers the type arguments, records the call in [`CallInfo`], and returns its result type.
    pub fn resolve_call(
        &mut self,
        expr: &Expr,
        type_args: &[TypeRef],
        args: &[Arg],
        target: CallTarget<'_>,
        ret: &Type,
    ) -> Type {
        let given: Vec<Type> = type_args.iter().map(|t| self.type_argument(t)).collect();
        let type_params = target.type_params;
        if !given.is_empty() && given.len() != type_params.len() {
            let (want, got) = (type_params.len(), given.len());
            let message = format!("`{}` takes {want} type arguments, not {got}", target.name);
            self.error(Code::TYPE_ARGUMENTS, target.span, message);
            self.check_args_alone(args);
            return self.invalid();
        }
        let fresh: Vec<Type> = (0..type_params.len())
            .map(|i| given.get(i).cloned().unwrap_or_else(|| self.fresh()))
            .collect();
        let own = Substitution::new(type_params.iter().map(|p| p.id), fresh.iter().cloned());
        let mut all = target.outer.clone();
        all.extend(&own);
        let (name, span) = (target.name.clone(), target.span);
        let target = CallTarget {
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
            return self.invalid();
        }
        info.type_args = fresh.iter().map(|t| self.resolve(t)).collect();
        info.ret = self.resolve(&ret.substitute(&all));
        let ret = info.ret.clone();
        if !fresh.is_empty() {
            let types: Vec<Type> = info
                .args
                .iter()
                .map(|arg| arg.ty.clone())
                .chain([ret.clone()])
                .collect();
            if types.iter().any(|ty| self.report_too_large(ty, span)) {
                return self.invalid();
            }
            types.iter().for_each(|ty| self.check_specialized(ty, span));
        }
        self.out.calls.insert(expr.id, info);
        ret
    }

    /// Binds to `void` the type arguments that occur only in parameters of omitted arguments. Nothing else determines them. An example
    /// are the types of a pipeline that the package `Switch` leaves out.
    pub fn bind_omitted_to_void(&mut self, info: &CallInfo, type_args: &[Type]) {
        for open in type_args {
            let Type::Infer(n) = self.resolve(open) else {
                continue;
            };
            let has = |c: &Checker<'_>, arg: &ArgInfo| {
                c.resolve(&arg.ty).any(&mut |ty| *ty == Type::Infer(n))
            };
            let (omitted, given): (Vec<_>, Vec<_>) = info
                .args
                .iter()
                .partition(|arg| arg.source == ArgSource::Omitted);
            let is_given = given.into_iter().any(|arg| has(self, arg));
            if !is_given && omitted.into_iter().any(|arg| has(self, arg)) {
                self.unify(&Type::Infer(n), &Type::Void);
            }
        }
    }

    /// Binds to `void` the type arguments of an extern instance that are written `_`, such as in `Register<bit<32>, _>`, and that the
    /// constructor does not determine. Only methods use them; a method call on this instance then reports a type mismatch.
    pub fn bind_unused_to_void(&mut self, type_args: &[Type]) {
        for open in type_args {
            if let Type::Infer(n) = self.resolve(open) {
                if self.dont_cares.contains(&n) {
                    self.unify(&Type::Infer(n), &Type::Void);
                }
            }
        }
    }

    /// Matches arguments with parameters and checks their types. `None` after a reported mismatch.
    pub fn bind(
        &mut self,
        args: &[Arg],
        target: CallTarget<'_>,
        constructor: bool,
    ) -> Option<CallInfo> {
        let types: Vec<Type> = target
            .params
            .iter()
            .map(|p| {
                let declared = self.out.type_ref(&p.ty).clone();
                self.instantiate_wildcards(&declared)
                    .substitute(&target.outer)
            })
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
        // Infer from arguments with a width first: a literal without width has type `int`, and would bind a type parameter to `int`.
        for numbers in [false, true] {
            for &(p, a) in &pairs {
                let ty = self.type_of(&args[a].value);
                if (ty == Type::Int) == numbers && self.is_open(&types[p]) {
                    let adapted = self.type_implied_by(&types[p], &args[a].value, ty);
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
                            "`_` is allowed only as an `out` argument",
                        );
                        ok = false;
                    }
                    self.info_mut(value).ty = ty.clone();
                    source = ArgSource::Omitted;
                } else if ty == Type::Void {
                    let name = &param.name.name;
                    let what = format!("the type of parameter `{name}` is not known: the object was declared with `_`");
                    self.report(
                        Diagnostic::error(Code::TYPE_ARGUMENTS, value.span, what)
                            .help("give the object's declaration a type in place of `_`"),
                    );
                    ok = false;
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

    /// Replaces each `_` in a declared type by a fresh inference variable, so that every call infers its own type.
    fn instantiate_wildcards(&mut self, declared: &Type) -> Type {
        if !declared.any(&mut |t| matches!(t, Type::Infer(_))) {
            return declared.clone();
        }
        declared.map(&mut |t| matches!(t, Type::Infer(_)).then(|| self.fresh()))
    }

    /// The type to unify with a parameter type that has inference variables. The literals `{...}` take the parameter's struct, header or
    /// list type, and their elements are unified with its parts.
    fn type_implied_by(&mut self, param: &Type, arg: &Expr, ty: Type) -> Type {
        match (self.resolve(param), &arg.kind) {
            // A `{...}` literal: unify each element with the part of the parameter's type at its place.
            (Type::List(element), ExprKind::List(list)) => {
                for part in list {
                    let ty = self.type_of(part);
                    let ty = self.type_implied_by(&element, part, ty);
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
                    let ty = self.type_implied_by(&field, part, ty);
                    self.unify(&field, &ty);
                }
                open
            }
            (open @ (Type::Struct(_) | Type::Header(_)), ExprKind::Struct { fields, .. }) => {
                let table = self.field_table(&open);
                for field in fields {
                    if let Some(&i) = table.index.get(&field.name.name) {
                        let ty = self.type_of(&field.value);
                        let ty = self.type_implied_by(&table.list[i].1, &field.value, ty);
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
        if ty.is_invalid() || self.type_of(value).is_invalid() {
            return false;
        }
        if !self.check_instance_argument(value, param, ty, callee) {
            return false;
        }
        if param.direction.writes() {
            if !self.out.info(value.id).is_lvalue {
                self.report_not_assignable(value, "passed as an `out` argument");
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
                        "`{word}` argument `{}` must be exactly `{ty}`",
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
                self.report_not_constant(value, &what);
                return false;
            }
        }
        true
    }

    /// Whether an instance of an extern, parser or control may be the argument of a parameter whose type is a type parameter.
    fn check_instance_argument(
        &mut self,
        value: &Expr,
        param: &Param,
        ty: &Type,
        callee: Callee,
    ) -> bool {
        // Parameters with a declared instance type are checked at the declaration.
        if !matches!(self.out.type_ref(&param.ty), Type::Var(_)) {
            return true;
        }
        if param.direction != Direction::None && ty.is_instance() {
            let word = param.direction.as_str();
            self.error(
                Code::ARGUMENTS,
                value.span,
                format!(
                    "a `{ty}` cannot be passed as an `{word}` argument: instances are not copied"
                ),
            );
            return false;
        }
        let code = matches!(
            ty,
            Type::Parser(_) | Type::Control(_) | Type::Package(_) | Type::Table(_)
        );
        if code && matches!(callee, Callee::Function(_) | Callee::Action(_)) {
            self.error(
                Code::ARGUMENTS,
                value.span,
                format!("`{ty}` cannot be passed at run time"),
            );
            return false;
        }
        true
    }

    pub fn report_not_assignable(&mut self, expr: &Expr, how: &str) {
        let is_part_of_last = self.is_part_of_last(expr);
        if is_part_of_last && self.body_kind != BodyKind::State {
            // `last` exists only in parser states; that error has been reported.
            return;
        }
        let mut d = Diagnostic::error(
            Code::NOT_ASSIGNABLE,
            expr.span,
            format!("this cannot be {how}"),
        );
        if is_part_of_last {
            d = d
                .label("`last` of a stack can only be read")
                .help("write to an element by its index (`stack[0]`), extract to `next`");
        } else if let Some(id) = self.root(expr).filter(|id| !self.is_writable(*id)) {
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

    /// Whether an expression is `stack.last`, or a field or element of it.
    fn is_part_of_last(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Member(base, _) => {
                self.out.info(expr.id).resolution == Resolution::StackLast
                    || self.is_part_of_last(base)
            }
            ExprKind::Index(base, _)
            | ExprKind::Slice { base, .. }
            | ExprKind::SlicePlus { base, .. } => self.is_part_of_last(base),
            _ => false,
        }
    }

    /// The root variable of an access path, such as `x` of `x.f[3].g`; `None` for other expressions.
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

    fn report_mismatch(&mut self, problem: ArgMismatch, args: &[Arg], target: &CallTarget<'_>) {
        let name = &target.name;
        let mut d = match problem {
            ArgMismatch::TooMany(want) => {
                let (got, s) = (args.len(), if want == 1 { "" } else { "s" });
                let span = args[want].span();
                Diagnostic::error(
                    Code::ARGUMENTS,
                    span,
                    format!("`{name}` takes {want} argument{s}, not {got}"),
                )
                .label("unexpected argument")
            }
            ArgMismatch::Missing(missing) => {
                let names: Vec<String> = missing
                    .iter()
                    .map(|m| format!("`{}`", target.params[*m].name))
                    .collect();
                let s = if names.len() == 1 { "" } else { "s" };
                let message = format!("argument{s} {} of `{name}` missing", names.join(", "));
                Diagnostic::error(Code::ARGUMENTS, target.span, message)
            }
            ArgMismatch::Unknown(index) => {
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
            ArgMismatch::Twice(index) => {
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
            ArgMismatch::Mixed(index) => Diagnostic::error(
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

/// The reason why arguments do not match the parameters.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ArgMismatch {
    /// There are more arguments than parameters; the number of parameters.
    TooMany(usize),
    /// Required parameters without an argument; their indices.
    Missing(Vec<usize>),
    /// An argument names a parameter that does not exist; the index of the argument.
    Unknown(usize),
    /// Two arguments name the same parameter; the index of the second.
    Twice(usize),
    /// Positional and named arguments are mixed; the index of the first that differs from the others.
    Mixed(usize),
}

/// Matches arguments with parameters, by position or by name (spec § 8.20).
pub(super) fn match_args(params: &[Rc<Param>], args: &[Arg]) -> Result<Matching, ArgMismatch> {
    let mut matching: Vec<Option<ArgSource>> = vec![None; params.len()];
    let named = args.first().is_some_and(|a| a.name.is_some());
    for (i, arg) in args.iter().enumerate() {
        let index = match &arg.name {
            Some(_) if !named => return Err(ArgMismatch::Mixed(i)),
            None if named => return Err(ArgMismatch::Mixed(i)),
            Some(name) => params
                .iter()
                .position(|p| p.name.name == name.name)
                .ok_or(ArgMismatch::Unknown(i))?,
            None if i >= params.len() => return Err(ArgMismatch::TooMany(params.len())),
            None => i,
        };
        if matching[index].replace(ArgSource::Arg(i)).is_some() {
            return Err(ArgMismatch::Twice(i));
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
        return Err(ArgMismatch::Missing(missing));
    }
    Ok(matching.into_iter().flatten().collect())
}

pub(super) fn params_text(params: &[Rc<Param>]) -> String {
    let list: Vec<String> = params
        .iter()
        .map(|p| match p.direction {
            Direction::None => p.name.to_string(),
            direction => format!("{} {}", direction.as_str(), p.name),
        })
        .collect();
    format!("({})", list.join(", "))
}
