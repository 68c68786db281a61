//! Dataflow lints: values read before they are written, `out` parameters that are not written, and fields of invalid headers.
//!
//! A write to one field counts as a write of the whole variable, which avoids false positives. A call of an action or control is assumed to
//! write everything that its body assigns.

use super::state::FlowFacts;
use super::warn;
use crate::diag::{Diagnostic, Diagnostics, Span, Warning};
use crate::sema::checked::*;
use crate::sema::types::Type;
use crate::syntax::ast::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Maximum iterations of the fixed-point computation over a parser's states.
const MAX_ROUNDS: usize = 64;

/// Maximum number of tracked headers; further ones are assumed to be valid.
const MAX_HEADERS: usize = 512;

pub(super) fn flow(checked: &CheckedProgram, diagnostics: &mut Diagnostics) {
    let mut flow = FlowAnalysis {
        checked,
        diagnostics,
        enclosing: None,
        quiet: false,
        state: FlowFacts::default(),
        loops: Vec::new(),
        exits: FlowFacts::unreachable(),
        needs_init: FxHashMap::default(),
        written: FxHashMap::default(),
    };
    for decl in &checked.program.decls {
        flow.declaration(decl);
    }
}

struct FlowAnalysis<'a> {
    checked: &'a CheckedProgram,
    diagnostics: &'a mut Diagnostics,
    /// The analysed declaration.
    enclosing: Option<DeclId>,
    /// Whether the analysis iterates to a fixed point, during which nothing is reported.
    quiet: bool,
    state: FlowFacts,
    /// For each enclosing loop, the join of the facts at its `break`s.
    loops: Vec<FlowFacts>,
    /// The join of the facts at the `return`s and `exit`s of the analysed body.
    exits: FlowFacts,
    /// Cached results of `needs_initialization`.
    needs_init: FxHashMap<Type, bool>,
    /// Variables that each action may write; a cache of `writes_of`.
    written: FxHashMap<DeclId, Rc<FxHashSet<DeclId>>>,
}

impl<'a> FlowAnalysis<'a> {
    fn declaration(&mut self, decl: &'a Decl) {
        match decl {
            Decl::Function(d) => {
                if let Some(body) = &d.body {
                    self.body(d.id, &d.params, |f| f.block(body));
                }
            }
            Decl::Action(d) => self.body(d.id, &d.params, |f| f.block(&d.body)),
            Decl::Control(d) => {
                let Some(body) = &d.body else { return };
                body.locals.iter().for_each(|local| self.declaration(local));
                self.body(d.id, &d.params, |f| {
                    f.locals(&body.locals);
                    f.block(&body.apply);
                });
            }
            Decl::Parser(d) => {
                if let Some(body) = &d.body {
                    self.body(d.id, &d.params, |f| {
                        f.locals(&body.locals);
                        f.states(&body.states);
                    });
                }
            }
            Decl::Instantiation(d) => d
                .body
                .iter()
                .flatten()
                .for_each(|member| self.declaration(member)),
            _ => {}
        }
    }

    /// Analyses a body: `follow` traverses it from the entry state; then unwritten `out` parameters are reported.
    fn body(&mut self, id: DeclId, params: &[Rc<Param>], follow: impl FnOnce(&mut Self)) {
        self.enclosing = Some(id);
        self.state = FlowFacts::default();
        self.exits = FlowFacts::unreachable();
        let outs: Vec<&Rc<Param>> = params
            .iter()
            .filter(|p| p.direction == Direction::Out)
            .collect();
        for param in &outs {
            self.mark_unassigned(param.id);
        }
        follow(self);
        let end = std::mem::take(&mut self.state);
        self.exits.join(&end);
        if self.exits.dead {
            return;
        }
        let unset: Vec<&Rc<Param>> = outs
            .into_iter()
            .filter(|p| self.exits.unset.contains(&p.id))
            .collect();
        for param in unset {
            let message = format!(
                "`out` parameter `{}` may be undefined at the end",
                param.name
            );
            self.warn(
                Warning::UninitializedOutParam,
                param.name.span,
                message,
                "not written on every path",
            );
        }
    }

    fn warn(&mut self, warning: Warning, span: Span, message: String, label: &str) {
        if !self.quiet {
            let diagnostic = Diagnostic::warning(warning, span, message).label(label);
            warn(self.checked, self.diagnostics, self.enclosing, diagnostic);
        }
    }

    /// Records a declaration without initial value: the variable is unassigned, and its headers are invalid.
    fn mark_unassigned(&mut self, id: DeclId) {
        let Some(ty) = self.checked.decl_type(id).cloned() else {
            return;
        };
        if self.needs_initialization(&ty) {
            self.state.unset.insert(id);
        }
        self.mark_headers_invalid(&ty, format!("{}", id.0), 0);
    }

    /// Marks the headers in a new variable as invalid.
    fn mark_headers_invalid(&mut self, ty: &Type, path: String, depth: u32) {
        match ty {
            Type::Header(_) => {
                self.state.invalid.insert(path);
            }
            Type::Struct(_) if depth < 4 => {
                for (field, ty) in self.checked.fields(ty) {
                    if self.state.invalid.len() < MAX_HEADERS {
                        self.mark_headers_invalid(&ty, format!("{path}.{}", field.name), depth + 1);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether reading an unassigned variable of this type is reported: the type consists of scalars only, without headers.
    fn needs_initialization(&mut self, ty: &Type) -> bool {
        if let Some(known) = self.needs_init.get(ty) {
            return *known;
        }
        let checked = self.checked;
        let needs_init = match ty {
            Type::Struct(_) => {
                let fields = checked.fields(ty);
                !fields.is_empty() && fields.iter().all(|(_, ty)| self.needs_initialization(ty))
            }
            Type::Tuple(types) => {
                !types.is_empty() && types.iter().all(|ty| self.needs_initialization(ty))
            }
            Type::Bit(_) | Type::Signed(_) | Type::Bool | Type::Varbit(_) | Type::Error => true,
            Type::Enum(_) | Type::SerializableEnum(_) | Type::NewType(_) => true,
            _ => false,
        };
        self.needs_init.insert(ty.clone(), needs_init);
        needs_init
    }

    fn locals(&mut self, locals: &'a [Decl]) {
        for local in locals {
            if let Decl::Var(v) = local {
                self.variable(v);
            }
        }
    }

    fn variable(&mut self, v: &'a VarDecl) {
        match &v.init {
            Some(init) => {
                self.read(init);
                self.state.unset.remove(&v.id);
                self.state.clear(&v.id.0.to_string());
                self.copy_validity(&v.id.0.to_string(), init);
            }
            None => self.mark_unassigned(v.id),
        }
    }

    /// Analyses the states of a parser: iterates to a fixed point along transitions, then reports once.
    fn states(&mut self, states: &'a [Rc<crate::syntax::ast::State>]) {
        let index: BTreeMap<&Name, usize> = states
            .iter()
            .enumerate()
            .map(|(i, s)| (&s.name.name, i))
            .collect();
        let mut entry = vec![FlowFacts::unreachable(); states.len()];
        let Some(&start) = states
            .iter()
            .position(|s| &*s.name.name == "start")
            .as_ref()
        else {
            return;
        };
        entry[start] = std::mem::take(&mut self.state);
        let quiet = std::mem::replace(&mut self.quiet, true);
        let mut todo = vec![start];
        let mut visits = vec![0; states.len()];
        while let Some(i) = todo.pop() {
            visits[i] += 1;
            if visits[i] > MAX_ROUNDS {
                continue;
            }
            self.state = entry[i].clone();
            for target in self.parser_state(&states[i]) {
                let Some(&next) = index.get(target) else {
                    continue;
                };
                let before = entry[next].clone();
                entry[next].join(&self.state);
                if entry[next] != before {
                    todo.push(next);
                }
            }
        }
        self.quiet = quiet;
        self.exits = FlowFacts::unreachable();
        for (i, state) in states.iter().enumerate().filter(|(i, _)| !entry[*i].dead) {
            self.state = entry[i].clone();
            let targets = self.parser_state(state);
            if targets.iter().any(|t| &***t == "accept") {
                let end = self.state.clone();
                self.exits.join(&end);
            }
        }
        self.state = FlowFacts::unreachable();
    }

    /// Analyses one state; returns its successors.
    fn parser_state(&mut self, state: &'a crate::syntax::ast::State) -> Vec<&'a Name> {
        self.stmts(&state.stmts);
        match &state.transition {
            Transition::None => Vec::new(),
            Transition::Direct(target) => vec![&target.name],
            Transition::Select(select) => {
                select.keys.iter().for_each(|key| self.read(key));
                for case in &select.cases {
                    self.read(&case.keyset);
                }
                select.cases.iter().map(|case| &case.target.name).collect()
            }
        }
    }

    fn block(&mut self, block: &'a Block) {
        self.stmts(&block.stmts);
    }

    fn stmts(&mut self, stmts: &'a [Stmt]) {
        for stmt in stmts {
            match (self.state.dead, &stmt.kind) {
                (true, StmtKind::Empty) => continue,
                (true, _) => {
                    let message = "this statement is never reached".to_owned();
                    let label = "every path has left before it";
                    self.warn(Warning::Unreachable, stmt.span, message, label);
                    return;
                }
                (false, _) => {}
            }
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Empty
            | StmtKind::Invalid(_)
            | StmtKind::Const(_)
            | StmtKind::Instantiation(_) => {}
            StmtKind::Var(v) => self.variable(v),
            StmtKind::Assign { left, op, right } => {
                self.read(right);
                if op.is_some() {
                    self.read(left);
                }
                self.write(left);
                if let Some(path) = self.path(left) {
                    self.copy_validity(&path, right);
                }
            }
            StmtKind::Call(call) => self.read(call),
            StmtKind::Block(block) => self.block(block),
            StmtKind::If {
                condition,
                then,
                otherwise,
            } => {
                self.read(condition);
                let before = self.state.clone();
                self.assume(condition, true);
                self.stmt(then);
                let after_then = std::mem::replace(&mut self.state, before);
                self.assume(condition, false);
                if let Some(otherwise) = otherwise {
                    self.stmt(otherwise);
                }
                self.state.join(&after_then);
            }
            StmtKind::Switch { subject, cases } => self.switch(subject, cases),
            StmtKind::For {
                init,
                condition,
                update,
                body,
                ..
            } => {
                self.stmts(init);
                self.read(condition);
                self.repeat(|f| {
                    f.stmt(body);
                    f.stmts(update);
                });
            }
            StmtKind::ForIn {
                collection, body, ..
            } => {
                self.read(collection);
                self.repeat(|f| f.stmt(body));
            }
            StmtKind::Break => {
                let end = std::mem::replace(&mut self.state, FlowFacts::unreachable());
                if let Some(exits) = self.loops.last_mut() {
                    exits.join(&end);
                }
            }
            StmtKind::Continue | StmtKind::Exit => self.state = FlowFacts::unreachable(),
            StmtKind::Return(value) => {
                if let Some(value) = value {
                    self.read(value);
                }
                let end = std::mem::replace(&mut self.state, FlowFacts::unreachable());
                self.exits.join(&end);
            }
        }
    }

    /// Analyses the body of a loop, which runs zero or more times.
    fn repeat(&mut self, body: impl Fn(&mut Self)) {
        let before = self.state.clone();
        // An earlier iteration may have changed the validity of headers, so nothing is assumed about it.
        self.state.invalid.clear();
        self.loops.push(FlowFacts::unreachable());
        body(self);
        let exits = self.loops.pop().unwrap_or_default();
        self.state.join(&before);
        self.state.join(&exits);
        self.state.invalid.clear();
    }

    fn switch(&mut self, subject: &'a Expr, cases: &'a [SwitchCase]) {
        self.read(subject);
        let before = self.state.clone();
        let default = cases
            .iter()
            .any(|c| matches!(c.label.kind, ExprKind::DontCare(_)));
        let mut after = if default {
            FlowFacts::unreachable()
        } else {
            before.clone()
        };
        for case in cases {
            if let Some(body) = &case.body {
                self.state = before.clone();
                self.block(body);
                after.join(&self.state);
            }
        }
        self.state = after;
    }

    /// Updates the validity of headers after a test of `condition`. `holds`: the outcome of the test.
    fn assume(&mut self, condition: &'a Expr, holds: bool) {
        match &condition.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => self.assume(inner, !holds),
            ExprKind::Binary(BinaryOp::And, a, b) if holds => {
                self.assume(a, true);
                self.assume(b, true);
            }
            ExprKind::Binary(BinaryOp::Or, a, b) if !holds => {
                self.assume(a, false);
                self.assume(b, false);
            }
            ExprKind::Call(call) => {
                let ExprKind::Member(base, _) = &call.callee.kind else {
                    return;
                };
                let is_valid = matches!(
                    self.checked.call(condition.id).map(|c| c.callee),
                    Some(Callee::Builtin(BuiltinMethod::IsValid))
                );
                if let Some(path) = self.path(base).filter(|_| is_valid) {
                    if holds {
                        self.state.invalid.remove(&path);
                    } else {
                        self.state.invalid.insert(path);
                    }
                }
            }
            _ => {}
        }
    }

    /// Records the validity of a header after an assignment: it is invalid if the assigned header is.
    fn copy_validity(&mut self, to: &str, from: &'a Expr) {
        let invalid = match &from.kind {
            ExprKind::InvalidHeader => true,
            ExprKind::Cast(_, inner) => return self.copy_validity(to, inner),
            _ => self
                .path(from)
                .is_some_and(|path| self.state.invalid.contains(&path)),
        };
        if invalid && matches!(self.checked.type_as_used(from), Type::Header(_)) {
            self.state.invalid.insert(to.to_owned());
        }
    }

    /// The key of an lvalue such as `hdr.ipv4` or `stack[3]` in [`FlowFacts`]; `None` if an index is not known at compile time.
    fn path(&self, expr: &Expr) -> Option<String> {
        match &expr.kind {
            ExprKind::Name(_) => match self.checked.resolution(expr) {
                Resolution::Decl(id) => Some(id.0.to_string()),
                _ => None,
            },
            ExprKind::Member(base, name) => match self.checked.resolution(expr) {
                Resolution::Decl(_) => {
                    let mut path = self.path(base)?;
                    path.push('.');
                    path.push_str(&name.name);
                    Some(path)
                }
                _ => None,
            },
            ExprKind::Index(base, index) => {
                let index = self.checked.value(index)?;
                Some(format!("{}[{}]", self.path(base)?, index.as_int()?))
            }
            _ => None,
        }
    }

    /// The root variable of an lvalue, such as `x` of `x.f[3].g`; `None` for other expressions.
    fn root(&self, expr: &Expr) -> Option<DeclId> {
        match &expr.kind {
            ExprKind::Name(_) => match self.checked.resolution(expr) {
                Resolution::Decl(id) => Some(id),
                _ => None,
            },
            ExprKind::Member(base, _) | ExprKind::Index(base, _) => self.root(base),
            ExprKind::Slice { base, .. } | ExprKind::SlicePlus { base, .. } => self.root(base),
            _ => None,
        }
    }

    /// Records a write to an lvalue.
    fn write(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Index(_, index) => self.read(index),
            ExprKind::SlicePlus { lo, .. } => self.read(lo),
            _ => {}
        }
        if let Some(id) = self.root(expr) {
            self.state.unset.remove(&id);
            let header = matches!(
                self.checked.type_of(expr),
                Type::Header(_) | Type::HeaderUnion(_) | Type::Struct(_) | Type::Stack(..)
            );
            if header {
                let path = self.path(expr).unwrap_or_else(|| id.0.to_string());
                self.state.clear(&path);
            }
        }
    }

    /// Analyses the reads of an expression.
    fn read(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Name(_) => {
                let Resolution::Decl(id) = self.checked.resolution(expr) else {
                    return;
                };
                if self.state.unset.remove(&id) {
                    let name = self.checked.name(id);
                    let message = format!("`{name}` may be undefined here");
                    self.warn(
                        Warning::UninitializedUse,
                        expr.span,
                        message,
                        "read before it is written",
                    );
                }
            }
            ExprKind::Member(base, name) => {
                self.read(base);
                if matches!(self.checked.type_of(base), Type::Header(_)) {
                    let invalid = self
                        .path(base)
                        .is_some_and(|path| self.state.invalid.contains(&path));
                    if invalid {
                        let message = format!("field `{name}` of a header that is not valid here");
                        self.warn(
                            Warning::InvalidHeader,
                            expr.span,
                            message,
                            "its value is undefined",
                        );
                    }
                }
            }
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, b) => {
                self.read(a);
                let before = self.state.clone();
                self.assume(a, matches!(expr.kind, ExprKind::Binary(BinaryOp::And, ..)));
                self.read(b);
                self.state.join(&before);
            }
            ExprKind::Ternary(condition, yes, no) => {
                self.read(condition);
                let before = self.state.clone();
                self.assume(condition, true);
                self.read(yes);
                let after = std::mem::replace(&mut self.state, before);
                self.assume(condition, false);
                self.read(no);
                self.state.join(&after);
            }
            ExprKind::Call(call) => self.call(expr, call),
            kind => kind.for_each_child(&mut |child| self.read(child)),
        }
    }

    fn call(&mut self, expr: &'a Expr, call: &'a Call) {
        let Some(info) = self.checked.call(expr.id) else {
            return;
        };
        if let ExprKind::Member(base, _) = &call.callee.kind {
            self.receiver(base, info.callee);
        }
        let sources = |wanted: fn(Direction) -> bool| {
            info.args
                .iter()
                .filter(move |a| wanted(a.direction))
                .filter_map(|a| match a.source {
                    ArgSource::Arg(i) => call.args.get(i).map(|arg| &arg.value),
                    _ => None,
                })
        };
        for value in sources(Direction::reads) {
            self.read(value);
        }
        for value in sources(Direction::writes) {
            self.write(value);
        }
        if let Callee::Method(id) = info.callee {
            if &*self.checked.name(id) == "extract" {
                call.args
                    .first()
                    .into_iter()
                    .for_each(|arg| self.extract(&arg.value));
            }
        }
        match info.callee {
            Callee::Action(id) => self.action(id),
            Callee::TableApply(id) => self.table(id),
            _ => {}
        }
    }

    /// Records the extraction of a header; warns if it may have been extracted before.
    fn extract(&mut self, header: &'a Expr) {
        let Some(path) = self.path(header) else {
            return;
        };
        if !self.state.extracted.insert(path) {
            let message = "this header may be extracted a second time here".to_owned();
            self.warn(
                Warning::MultiHeaderExtract,
                header.span,
                message,
                "its earlier content is overwritten",
            );
        }
    }

    /// Analyses the object of a method call.
    fn receiver(&mut self, base: &'a Expr, callee: Callee) {
        let Callee::Builtin(method) = callee else {
            // `t.apply()`, `instance.method()`: naming the object reads no value.
            if let ExprKind::Member(inner, _) = &base.kind {
                self.read(inner);
            }
            return;
        };
        let path = self.path(base);
        match (method, path) {
            (BuiltinMethod::SetInvalid, Some(path)) => {
                self.state.clear(&path);
                self.state.extracted.remove(&path);
                self.state.invalid.insert(path);
            }
            (BuiltinMethod::SetValid, Some(path)) => self.state.clear(&path),
            (
                BuiltinMethod::SetValid
                | BuiltinMethod::SetInvalid
                | BuiltinMethod::PushFront
                | BuiltinMethod::PopFront,
                _,
            ) => {
                self.write(base);
            }
            _ => {}
        }
    }

    /// Marks the control's variables that an action may write as assigned.
    fn action(&mut self, id: DeclId) {
        for variable in self.writes_of(id).iter() {
            self.state.unset.remove(variable);
        }
        self.state.invalid.clear();
    }

    fn table(&mut self, id: DeclId) {
        let DefKind::Table(table) = &self.checked.def(id).kind else {
            return;
        };
        let checked: &'a CheckedProgram = self.checked;
        let table: &'a TableDecl = match &checked.def(id).kind {
            DefKind::Table(t) => t,
            _ => table,
        };
        for element in table.key() {
            self.read(&element.expr);
        }
        for listed in table.actions() {
            let Some(CallInfo {
                callee: Callee::Action(action),
                args,
                ..
            }) = checked.call(listed.call)
            else {
                continue;
            };
            for arg in args.iter().filter(|a| a.direction.writes()) {
                if let (ArgSource::Arg(i), Some(list)) = (arg.source, &listed.args) {
                    if let Some(root) = list.get(i).and_then(|a| self.root(&a.value)) {
                        self.state.unset.remove(&root);
                    }
                }
            }
            self.action(*action);
        }
        self.state.invalid.clear();
    }

    /// Variables that an action and its callees assign or pass as `out` or `inout` arguments.
    fn writes_of(&mut self, id: DeclId) -> Rc<FxHashSet<DeclId>> {
        if let Some(known) = self.written.get(&id) {
            return known.clone();
        }
        self.written.insert(id, Rc::default());
        let mut set = FxHashSet::default();
        if let DefKind::Action(action) = &self.checked.def(id).kind {
            self.collect(&action.body.stmts, &mut set);
        }
        let set = Rc::new(set);
        self.written.insert(id, set.clone());
        set
    }

    fn collect(&mut self, stmts: &[Stmt], set: &mut FxHashSet<DeclId>) {
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::Assign { left, .. } => set.extend(self.root(left)),
                StmtKind::Block(block) => self.collect(&block.stmts, set),
                StmtKind::If {
                    then, otherwise, ..
                } => {
                    self.collect(std::slice::from_ref(then), set);
                    if let Some(otherwise) = otherwise {
                        self.collect(std::slice::from_ref(otherwise), set);
                    }
                }
                StmtKind::For { body, .. } | StmtKind::ForIn { body, .. } => {
                    self.collect(std::slice::from_ref(body), set)
                }
                StmtKind::Switch { cases, .. } => {
                    cases
                        .iter()
                        .filter_map(|c| c.body.as_ref())
                        .for_each(|body| self.collect(&body.stmts, set));
                }
                StmtKind::Call(expr) => {
                    let (Some(info), ExprKind::Call(call)) =
                        (self.checked.call(expr.id), &expr.kind)
                    else {
                        continue;
                    };
                    for arg in info.args.iter().filter(|a| a.direction.writes()) {
                        if let ArgSource::Arg(i) = arg.source {
                            set.extend(call.args.get(i).and_then(|arg| self.root(&arg.value)));
                        }
                    }
                    if let Callee::Action(inner) = info.callee {
                        let inner = self.writes_of(inner);
                        set.extend(inner.iter().copied());
                    }
                }
                _ => {}
            }
        }
    }
}
