//! Parsers and controls.

use super::checked::*;
use super::checker::{BodyKind, Checker};
use super::decl::ParamOwner;
use super::types::{Nominal, Type};
use crate::diag::{closest, Code, Diagnostic, Span, Warning};
use crate::syntax::ast::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

impl Checker<'_> {
    pub fn parser_decl(&mut self, d: &Rc<ParserDecl>) {
        self.define(d.id, DefKind::Parser(d.clone()), d.name.span);
        self.declare(d.id, &d.name);
        self.structured_annotations(&d.annotations);
        self.in_declaration(d.id, &d.annotations, |c| {
            c.type_params(&d.type_params);
            c.params(&d.params, ParamOwner::Block);
            let Some(body) = &d.body else {
                return c.reject_default_values(&d.params, "parser");
            };
            c.params(&body.ctor_params, ParamOwner::Constructor);
            let ty = Type::Parser(Nominal::plain(d.id, d.name.name.clone()));
            let this = c.this.take();
            c.out.decl_types.insert(d.id, ty);
            let outer = std::mem::replace(&mut c.body_kind, BodyKind::Declarations);
            for local in &body.locals {
                c.declaration(local);
            }
            c.states(d, body);
            c.body_kind = outer;
            c.this = this;
        });
    }

    /// Reports default values of parameters in the declaration of a parser or control type, which cannot have any.
    fn reject_default_values(&mut self, params: &[Rc<Param>], what: &str) {
        for default in params.iter().filter_map(|param| param.default.as_ref()) {
            self.error(
                Code::DECLARATION_RULE,
                default.span,
                format!("parameters of a {what} type cannot have default values"),
            );
        }
    }

    fn states(&mut self, d: &ParserDecl, body: &ParserBody) {
        let outer = std::mem::take(&mut self.states);
        for state in &body.states {
            self.define(state.id, DefKind::State(state.clone()), state.name.span);
            self.structured_annotations(&state.annotations);
            if matches!(&*state.name.name, "accept" | "reject") {
                let message = format!(
                    "state `{}` is predefined and cannot be declared",
                    state.name
                );
                self.error(Code::PARSER_RULE, state.name.span, message);
            }
            if let Some(first) = self.states.insert(state.name.name.clone(), state.id) {
                let at = self.name_span(first);
                self.report(
                    Diagnostic::error(
                        Code::DUPLICATE,
                        state.name.span,
                        format!("state `{}` is declared twice", state.name),
                    )
                    .other(at, "first declaration"),
                );
            }
        }
        if !self.states.contains_key("start") && !self.skipped_names.contains("start") {
            self.report(
                Diagnostic::error(
                    Code::PARSER_RULE,
                    d.name.span,
                    format!("parser `{}` has no state `start`", d.name),
                )
                .help("parsing begins in the state `start`"),
            );
        }
        self.body_kind = BodyKind::State;
        for state in &body.states {
            self.in_scope(|c| {
                c.stmts(&state.stmts);
                c.transition(state);
            });
        }
        self.body_kind = BodyKind::Declarations;
        if !self.has_skipped_text() {
            self.report_endless_loops(body);
            self.unreachable_states(body);
        }
        self.states = outer;
    }

    fn transition(&mut self, state: &State) {
        match &state.transition {
            // The transition may be missing because of a syntax error.
            Transition::None if self.has_skipped_text() => {}
            Transition::None => {
                self.warn(
                    Diagnostic::warning(
                        Warning::ParserTransition,
                        state.name.span,
                        format!(
                            "state `{}` has no transition: it goes to `reject`",
                            state.name
                        ),
                    )
                    .help("write `transition accept;` or `transition reject;`"),
                );
            }
            Transition::Direct(target) => self.target(target),
            Transition::Select(select) => self.select(select),
        }
    }

    fn target(&mut self, target: &Ident) {
        if matches!(&*target.name, "accept" | "reject")
            || self.states.contains_key(&target.name)
            || self.skipped_names.contains(&target.name)
        {
            return;
        }
        let mut d = Diagnostic::error(
            Code::UNKNOWN_NAME,
            target.span,
            format!("there is no state `{target}`"),
        );
        let mut names: Vec<&str> = self
            .states
            .keys()
            .map(|n| &**n)
            .chain(["accept", "reject"])
            .collect();
        names.sort_unstable();
        if let Some(near) = closest(&target.name, names) {
            d = d.did_you_mean(target.span, near);
        }
        self.report(d);
    }

    fn select(&mut self, select: &Select) {
        let types: Vec<Type> = select
            .keys
            .iter()
            .map(|key| {
                let ty = self.expr(key);
                self.key_type(key, &ty)
            })
            .collect();
        let mut catch_all: Option<Span> = None;
        for case in &select.cases {
            if let Some(before) = catch_all {
                self.warn(
                    Diagnostic::warning(
                        Warning::Unreachable,
                        case.span,
                        "this case is never reached",
                    )
                    .other(before, "this case matches everything"),
                );
            }
            self.keyset(&case.keyset, &types);
            self.reject_calls(&case.keyset);
            if is_catch_all(&case.keyset) {
                catch_all = Some(case.span);
            }
            self.target(&case.target);
        }
        if self.has_skipped_text() {
            return;
        }
        if select.cases.is_empty() {
            self.warn(Diagnostic::warning(
                Warning::ParserTransition,
                select.span,
                "this `select` has no cases: it always goes to `reject`",
            ));
        } else if catch_all.is_none() && !self.may_be_complete(select, &types) {
            self.warn(
                Diagnostic::warning(
                    Warning::Missing,
                    select.span,
                    "this `select` has no case for other values",
                )
                .note("other values go to `reject`, with error.NoMatch")
                .help("add `default: accept;` or `default: reject;`"),
            );
        }
    }

    /// Reports calls in a keyset of `select`.
    fn reject_calls(&mut self, keyset: &Expr) {
        if let ExprKind::Call(_) = &keyset.kind {
            let runs = self.out.call(keyset.id).is_some_and(|info| {
                matches!(
                    info.callee,
                    Callee::Function(_) | Callee::ExternFunction(_) | Callee::Method(_)
                )
            });
            if runs {
                self.report(
                    Diagnostic::error(
                        Code::CALL_CONTEXT,
                        keyset.span,
                        "a case of `select` cannot contain a call",
                    )
                    .help("call it before, and add its result to the keys"),
                );
            }
        }
        keyset
            .kind
            .for_each_child(&mut |child| self.reject_calls(child));
    }

    /// Whether a `select` without a default case may match all values. It may if it has as many cases as there are values of its keys, or
    /// if a case matches more than one value.
    fn may_be_complete(&mut self, select: &Select, types: &[Type]) -> bool {
        let bits = types.iter().try_fold(0, |sum: u64, ty| {
            self.size_in_bits(ty)
                .map(|(_, max)| sum.saturating_add(max))
        });
        bits.is_none_or(|bits| bits < 16 && select.cases.len() as u64 >= 1 << bits)
            || !select.cases.iter().all(|case| self.is_value(&case.keyset))
    }

    /// Whether a keyset is a single constant value, neither a mask, a range nor a value set.
    fn is_value(&self, keyset: &Expr) -> bool {
        match &keyset.kind {
            ExprKind::Keyset(list) => list.iter().all(|part| self.is_value(part)),
            _ => self.out.info(keyset.id).value.is_some(),
        }
    }

    /// The type to which the keysets of a `select` or table key are converted.
    pub fn key_type(&mut self, key: &Expr, ty: &Type) -> Type {
        match self.out.representation(ty) {
            Type::Bit(_)
            | Type::Signed(_)
            | Type::Bool
            | Type::Enum(_)
            | Type::Error
            | Type::Int
            | Type::Varbit(_) => ty.clone(),
            Type::Invalid(_) | Type::Unknown => self.invalid(),
            _ if matches!(ty, Type::NewType(_) | Type::SerializableEnum(_)) => ty.clone(),
            other => {
                self.error(
                    Code::TYPE_MISMATCH,
                    key.span,
                    format!("`{other}` cannot be matched"),
                );
                self.invalid()
            }
        }
    }

    /// Checks a keyset against the types of the keys.
    pub fn keyset(&mut self, keyset: &Expr, types: &[Type]) {
        match &keyset.kind {
            ExprKind::Keyset(list) if list.len() == types.len() => {
                for (part, ty) in list.iter().zip(types) {
                    self.simple_keyset(part, ty);
                }
                self.info_mut(keyset).ty = Type::Set(Rc::new(Type::Tuple(types.into())));
            }
            ExprKind::Keyset(list) => {
                let (want, got) = (types.len(), list.len());
                let s = if want == 1 { " is" } else { "s are" };
                let message = format!("{want} key{s} matched, but {got} values given");
                self.error(Code::TYPE_MISMATCH, keyset.span, message);
            }
            ExprKind::DontCare(_) => {
                self.info_mut(keyset).ty = Type::Set(Rc::new(Type::Tuple(types.into())))
            }
            // `{a, b}` in place of `(a, b)`, which older programs write.
            ExprKind::List(list) if list.len() == types.len() => {
                for (part, ty) in list.iter().zip(types) {
                    self.simple_keyset(part, ty);
                }
                self.info_mut(keyset).ty = Type::Set(Rc::new(Type::Tuple(types.into())));
            }
            _ => match types {
                [ty] => self.simple_keyset(keyset, ty),
                types => {
                    let ty = self.expr(keyset);
                    if !self.is_value_set_for_keys(&ty, types) && !ty.is_invalid() {
                        let message = format!(
                            "{} keys are matched, but the keyset has one value",
                            types.len()
                        );
                        self.report(
                            Diagnostic::error(Code::TYPE_MISMATCH, keyset.span, message).help(
                                "write `(value, value, ...)`, with `_` for a key that matches any value",
                            ),
                        );
                    }
                }
            },
        }
    }

    /// Whether `set` is a value set whose elements have one component for each key.
    fn is_value_set_for_keys(&mut self, set: &Type, types: &[Type]) -> bool {
        let Type::Set(element) = set else {
            return false;
        };
        let mut parts = Vec::new();
        match &**element {
            Type::Tuple(list) => parts.extend(list.iter().cloned()),
            Type::Struct(_) => self.collect_scalar_types(element, &mut parts),
            _ => return false,
        };
        parts.len() == types.len() && parts.iter().zip(types).all(|(a, b)| self.unify(a, b))
    }

    /// Appends the types of the scalar fields of a struct to `into`; fields of nested structs are included.
    fn collect_scalar_types(&mut self, ty: &Type, into: &mut Vec<Type>) {
        let table = self.field_table(ty);
        for (_, field) in &table.list {
            match field {
                Type::Struct(_) => self.collect_scalar_types(field, into),
                field => into.push(field.clone()),
            }
        }
    }

    fn simple_keyset(&mut self, keyset: &Expr, ty: &Type) {
        // The keyset of a serializable enum is a set of numbers of its underlying type.
        let number = match ty {
            Type::SerializableEnum(_) => self.out.representation(ty),
            ty => ty.clone(),
        };
        match &keyset.kind {
            ExprKind::DontCare(_) => {}
            ExprKind::Mask(value, mask) => {
                self.expr_as(value, &number, "the value");
                self.expr_as(mask, &number, "the mask");
                if !matches!(
                    self.out.representation(ty),
                    Type::Bit(_) | Type::Invalid(_) | Type::Unknown | Type::Int | Type::Signed(_)
                ) {
                    self.error(
                        Code::OPERATOR,
                        keyset.span,
                        format!("`{ty}` cannot be masked"),
                    );
                }
            }
            ExprKind::Range(low, high) => {
                self.expr_as(low, &number, "the low end");
                self.expr_as(high, &number, "the high end");
                if !matches!(
                    self.out.representation(ty),
                    Type::Bit(_) | Type::Signed(_) | Type::Int | Type::Invalid(_) | Type::Unknown
                ) {
                    self.error(
                        Code::OPERATOR,
                        keyset.span,
                        format!("a range needs numbers, found `{ty}`"),
                    );
                }
                let ends = (self.value_of(low), self.value_of(high));
                if let (Some(super::Value::Int(a)), Some(super::Value::Int(b))) = ends {
                    if a > b {
                        self.error(
                            Code::BOUNDS,
                            keyset.span,
                            format!("the range {a} .. {b} is empty"),
                        );
                    }
                }
            }
            _ => {
                let own = self.expr(keyset);
                match &own {
                    Type::Set(element) => {
                        let single = self.single_field(element);
                        if !self.unify(element, ty)
                            && !single.is_some_and(|single| self.unify(&single, ty))
                        {
                            let message =
                                format!("a set of `{element}` cannot be matched with `{ty}`");
                            self.error(Code::TYPE_MISMATCH, keyset.span, message);
                        }
                        return;
                    }
                    _ => {
                        self.coerce(keyset, ty, "the value");
                    }
                }
            }
        }
        if matches!(
            keyset.kind,
            ExprKind::DontCare(_) | ExprKind::Mask(..) | ExprKind::Range(..)
        ) {
            self.info_mut(keyset).ty = Type::Set(Rc::new(ty.clone()));
        }
    }

    /// The type of the field of a struct with one field, or of the component of a tuple with one; `None` for other types.
    fn single_field(&mut self, ty: &Type) -> Option<Type> {
        match ty {
            Type::Struct(_) => match &self.field_table(ty).list[..] {
                [(_, ty)] => Some(ty.clone()),
                _ => None,
            },
            Type::Tuple(types) if types.len() == 1 => Some(types[0].clone()),
            _ => None,
        }
    }

    /// Reports an unconditional cycle of states that is reachable from `start` and contains no call.
    fn report_endless_loops(&mut self, body: &ParserBody) {
        let runs_on = |stmt: &Stmt| match &stmt.kind {
            StmtKind::Empty | StmtKind::Const(_) => true,
            StmtKind::Var(d) => d.init.as_ref().is_none_or(has_no_calls),
            StmtKind::Assign { left, right, .. } => has_no_calls(left) && has_no_calls(right),
            _ => false,
        };
        let mut way: Vec<&Rc<State>> = Vec::new();
        let mut next = body.states.iter().find(|s| &*s.name.name == "start");
        while let Some(state) = next {
            if let Some(back) = way.iter().position(|s| s.id == state.id) {
                if way[back..].iter().all(|s| s.stmts.iter().all(runs_on)) {
                    let message = format!("infinite loop: parsing returns to `{}`", state.name);
                    self.report(
                        Diagnostic::error(Code::PARSER_RULE, state.name.span, message).note(
                            "no state of the loop extracts, selects, or leads to `accept` or `reject`",
                        ),
                    );
                }
                return;
            }
            let Transition::Direct(target) = &state.transition else {
                return;
            };
            if matches!(&*target.name, "accept" | "reject") {
                return;
            }
            way.push(state);
            next = body.states.iter().find(|s| s.name.name == target.name);
        }
    }

    fn unreachable_states(&mut self, body: &ParserBody) {
        let by_name: FxHashMap<&Name, &Rc<State>> =
            body.states.iter().map(|s| (&s.name.name, s)).collect();
        let Some((start, _)) = by_name.iter().find(|(name, _)| &****name == "start") else {
            return;
        };
        let mut reached: FxHashSet<&Name> = FxHashSet::default();
        let mut todo: Vec<&Name> = vec![start];
        let mut accepts = false;
        while let Some(name) = todo.pop() {
            accepts |= &**name == "accept" || self.skipped_names.contains(name);
            let Some(state) = by_name.get(name).filter(|_| reached.insert(name)) else {
                continue;
            };
            match &state.transition {
                Transition::None => {}
                Transition::Direct(target) => todo.push(&target.name),
                Transition::Select(select) => {
                    todo.extend(select.cases.iter().map(|c| &c.target.name))
                }
            }
        }
        if !accepts && !self.diagnostics.has_errors() {
            self.warn(
                Diagnostic::warning(
                    Warning::Unreachable,
                    start_state_span(body),
                    "no state of this parser leads to `accept`",
                )
                .label("every packet is rejected"),
            );
        }
        for state in body
            .states
            .iter()
            .filter(|s| !reached.contains(&s.name.name))
        {
            let quiet = |a: &Annotation| a.silences(Warning::Unreachable);
            if state.annotations.iter().any(quiet) {
                continue;
            }
            self.warn(
                Diagnostic::warning(
                    Warning::Unreachable,
                    state.name.span,
                    format!("state `{}` is never reached", state.name),
                )
                .label("no transition leads here"),
            );
        }
    }

    pub fn value_set_decl(&mut self, d: &Rc<ValueSetDecl>) {
        let ty = self.type_ref(&d.ty);
        self.structured_annotations(&d.annotations);
        let mut parts = Vec::new();
        match &ty {
            Type::Tuple(types) => parts.extend(types.iter().cloned()),
            Type::Struct(_) => self.collect_scalar_types(&ty, &mut parts),
            ty => parts.push(ty.clone()),
        }
        let fits = parts.iter().all(|ty| {
            matches!(
                self.out.representation(ty),
                Type::Bit(_)
                    | Type::Signed(_)
                    | Type::Bool
                    | Type::Enum(_)
                    | Type::Error
                    | Type::Invalid(_)
                    | Type::Unknown
            )
        });
        if !fits {
            self.error(
                Code::BAD_TYPE,
                d.ty.span,
                format!("a value set cannot hold `{ty}`"),
            );
        }
        let size = self.expr(&d.size);
        if !self.out.representation(&size).is_numeric() && !size.is_invalid() {
            self.error(
                Code::TYPE_MISMATCH,
                d.size.span,
                format!("the size of a value set must be a number, not `{size}`"),
            );
        } else if !size.is_invalid() && !self.is_compile_time(&d.size) {
            self.report_not_constant(&d.size, "the size of a value set");
        }
        self.define(d.id, DefKind::ValueSet(d.clone()), d.name.span);
        self.out.decl_types.insert(d.id, ty);
        self.declare(d.id, &d.name);
    }

    pub fn control_decl(&mut self, d: &Rc<ControlDecl>) {
        self.define(d.id, DefKind::Control(d.clone()), d.name.span);
        self.declare(d.id, &d.name);
        self.structured_annotations(&d.annotations);
        self.in_declaration(d.id, &d.annotations, |c| {
            c.type_params(&d.type_params);
            c.params(&d.params, ParamOwner::Block);
            let Some(body) = &d.body else {
                return c.reject_default_values(&d.params, "control");
            };
            c.params(&body.ctor_params, ParamOwner::Constructor);
            for param in &body.ctor_params {
                if let Type::Parser(_) = c.out.type_ref(&param.ty) {
                    c.error(
                        Code::DECLARATION_RULE,
                        param.span,
                        "a control cannot instantiate a parser",
                    );
                }
            }
            let outer = std::mem::replace(&mut c.body_kind, BodyKind::Declarations);
            let this = c.this.take();
            for local in &body.locals {
                c.declaration(local);
            }
            c.body_kind = BodyKind::Apply;
            let ret = c.ret.replace(Type::Void);
            c.structured_annotations(&body.apply.annotations);
            c.block(&body.apply);
            c.ret = ret;
            c.body_kind = outer;
            c.this = this;
        });
    }
}

/// Whether an expression contains no call.
fn has_no_calls(expr: &Expr) -> bool {
    let mut calls = false;
    expr.walk(&mut |part| calls |= matches!(part.kind, ExprKind::Call(_)));
    !calls
}

/// Source position of the state `start`; the default span if there is none.
fn start_state_span(body: &ParserBody) -> Span {
    let start = body
        .states
        .iter()
        .find(|state| &*state.name.name == "start");
    start.map_or_else(Span::default, |state| state.name.span)
}

/// Whether a keyset matches every value: `default`, `_`, or a tuple of these.
fn is_catch_all(keyset: &Expr) -> bool {
    match &keyset.kind {
        ExprKind::DontCare(_) => true,
        ExprKind::Keyset(list) => list.iter().all(is_catch_all),
        _ => false,
    }
}
