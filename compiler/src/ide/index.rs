//! Index of the names of a program: their occurrences and declarations.

use crate::diag::{FileId, Span};
use crate::sema::{Callee, CheckedProgram, DefKind, Resolution};
use crate::syntax::ast::*;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// The syntactic position of a name, which determines the kinds of names that are proposed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamePosition {
    /// The name in a declaration.
    Declared,
    /// A value, an instance or a function; also a type before a `.`.
    Value,
    /// The name of a type.
    Type,
    /// The name after the `.` of this expression.
    Member(ExprId),
    /// The name of an action in a table or a `switch`.
    Action,
    /// The match kind of a key.
    MatchKind,
    /// The next state in a transition.
    State,
    /// The name of a table property.
    Property,
    /// A field in a structure-valued expression, or a parameter before `=`.
    Label,
}

/// An occurrence of a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occurrence {
    pub span: Span,
    pub position: NamePosition,
    /// The declaration that the name refers to; `None` if it is not resolved.
    pub target: Option<DeclId>,
}

/// An index of the names of a program.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Occurrences in order of position.
    occurrences: Vec<Occurrence>,
    /// Span of the name in each declaration.
    names: FxHashMap<DeclId, Span>,
    /// Expressions other than names, in order of position.
    exprs: Vec<(Span, ExprId)>,
}

impl Index {
    pub fn of(checked: &CheckedProgram) -> Index {
        let mut walk = IndexBuilder {
            checked,
            out: Index::default(),
            states: FxHashMap::default(),
        };
        walk.decls(&checked.program.decls);
        let mut index = walk.out;
        index.occurrences.sort_by_key(|occurrence| occurrence.span);
        index.exprs.sort_by_key(|(span, _)| *span);
        index
    }

    /// The name at a position of a file, or just before it. Names in the source take precedence over names from macros.
    pub fn at(&self, file: FileId, offset: u32) -> Option<&Occurrence> {
        let found = self
            .of_file(file)
            .filter(|occurrence| is_at(occurrence.span, offset));
        found.min_by_key(|occurrence| {
            (
                occurrence.span.origin,
                occurrence.span.hi - occurrence.span.lo,
            )
        })
    }

    /// The smallest expression at a position, other than a name.
    pub fn expr_at(&self, file: FileId, offset: u32) -> Option<(Span, ExprId)> {
        let within = |(span, _): &&(Span, ExprId)| span.file == file && is_at(*span, offset);
        let found = self.exprs.iter().filter(within);
        found.min_by_key(|(span, _)| span.hi - span.lo).copied()
    }

    /// All occurrences in order of position.
    pub fn all(&self) -> impl Iterator<Item = &Occurrence> {
        self.occurrences.iter()
    }

    /// All occurrences of a declaration's name, including that in the declaration.
    pub fn occurrences_of(&self, id: DeclId) -> impl Iterator<Item = &Occurrence> {
        self.occurrences
            .iter()
            .filter(move |p| p.target == Some(id))
    }

    /// Span of the name in a declaration; `None` if it is not in the source.
    pub fn name_of(&self, id: DeclId) -> Option<Span> {
        self.names.get(&id).copied()
    }

    fn of_file(&self, file: FileId) -> impl Iterator<Item = &Occurrence> {
        let start = self.occurrences.partition_point(|p| p.span.file < file);
        self.occurrences[start..]
            .iter()
            .take_while(move |p| p.span.file == file)
    }
}

/// Whether `offset` is within a span, or at its end.
pub(super) fn is_at(span: Span, offset: u32) -> bool {
    span.lo <= offset && offset <= span.hi
}

struct IndexBuilder<'a> {
    checked: &'a CheckedProgram,
    out: Index,
    /// States of the enclosing parser, by name.
    states: FxHashMap<Name, DeclId>,
}

impl IndexBuilder<'_> {
    fn record(&mut self, span: Span, position: NamePosition, target: Option<DeclId>) {
        self.out.occurrences.push(Occurrence {
            span,
            position,
            target,
        });
    }

    fn declared(&mut self, id: DeclId, name: &Ident) {
        self.out.names.insert(id, name.span);
        self.record(name.span, NamePosition::Declared, Some(id));
    }

    fn decls(&mut self, decls: &[Decl]) {
        for decl in decls {
            self.decl(decl);
        }
    }

    fn decl(&mut self, decl: &Decl) {
        if let Some((id, name)) = decl.id() {
            self.declared(id, name);
        }
        match decl {
            Decl::Const(d) => self.constant(d),
            Decl::Var(d) => self.variable(d),
            Decl::Instantiation(d) => self.instance(d),
            Decl::Extern(d) => {
                self.type_params(&d.type_params);
                for constructor in &d.constructors {
                    self.out.names.insert(constructor.id, constructor.name.span);
                    // A constructor has the name of its type, so its declaration is an occurrence of the type's name.
                    self.record(constructor.name.span, NamePosition::Type, Some(d.id));
                    self.signature(constructor);
                }
                for method in &d.methods {
                    self.declared(method.id, &method.name);
                    self.signature(method);
                }
            }
            Decl::ExternFunction(d) | Decl::Function(d) => self.signature(d),
            Decl::Action(d) => {
                self.params(&d.params);
                self.block(&d.body);
            }
            Decl::Parser(d) => self.parser(d),
            Decl::Control(d) => {
                self.type_params(&d.type_params);
                self.params(&d.params);
                if let Some(body) = &d.body {
                    self.params(&body.ctor_params);
                    self.decls(&body.locals);
                    self.block(&body.apply);
                }
            }
            Decl::Package(d) => {
                self.type_params(&d.type_params);
                self.params(&d.params);
            }
            Decl::Table(d) => self.table(d),
            Decl::ValueSet(d) => {
                self.type_ref(&d.ty);
                self.expr(&d.size);
            }
            Decl::Struct(d) | Decl::Header(d) | Decl::HeaderUnion(d) => {
                self.type_params(&d.type_params);
                for field in &d.fields {
                    self.type_ref(&field.ty);
                    self.declared(field.id, &field.name);
                }
            }
            Decl::Enum(d) => {
                d.underlying.iter().for_each(|ty| self.type_ref(ty));
                self.members(&d.members);
            }
            Decl::Error(d) | Decl::MatchKind(d) => self.members(&d.members),
            Decl::Typedef(d) | Decl::NewType(d) => match &d.target {
                TypedefTarget::Type(ty) => self.type_ref(ty),
                TypedefTarget::Decl(decl) => self.decl(decl),
            },
        }
    }

    fn constant(&mut self, d: &ConstDecl) {
        self.type_ref(&d.ty);
        self.expr(&d.value);
    }

    fn variable(&mut self, d: &VarDecl) {
        self.type_ref(&d.ty);
        d.init.iter().for_each(|init| self.expr(init));
    }

    fn instance(&mut self, d: &Instantiation) {
        self.type_ref(&d.ty);
        self.args(&d.args, d.call);
        d.body.iter().for_each(|body| self.decls(body));
    }

    fn members(&mut self, members: &[Rc<Member>]) {
        for member in members {
            self.declared(member.id, &member.name);
            member.value.iter().for_each(|value| self.expr(value));
        }
    }

    fn type_params(&mut self, params: &[TypeParam]) {
        for param in params {
            self.declared(param.id, &param.name);
        }
    }

    fn params(&mut self, params: &[Rc<Param>]) {
        for param in params {
            self.type_ref(&param.ty);
            self.declared(param.id, &param.name);
            param.default.iter().for_each(|value| self.expr(value));
        }
    }

    fn signature(&mut self, d: &FunctionDecl) {
        self.type_params(&d.type_params);
        d.ret.iter().for_each(|ret| self.type_ref(ret));
        self.params(&d.params);
        d.body.iter().for_each(|body| self.block(body));
    }

    fn parser(&mut self, d: &ParserDecl) {
        self.type_params(&d.type_params);
        self.params(&d.params);
        let Some(body) = &d.body else { return };
        self.params(&body.ctor_params);
        self.decls(&body.locals);
        let states = body.states.iter().map(|s| (s.name.name.clone(), s.id));
        self.states = states.collect();
        for state in &body.states {
            self.declared(state.id, &state.name);
            self.stmts(&state.stmts);
            match &state.transition {
                Transition::None => {}
                Transition::Direct(target) => self.target(target),
                Transition::Select(select) => {
                    select.keys.iter().for_each(|key| self.expr(key));
                    for case in &select.cases {
                        self.expr(&case.keyset);
                        self.target(&case.target);
                    }
                }
            }
        }
    }

    fn target(&mut self, name: &Ident) {
        let state = self.states.get(&name.name).copied();
        self.record(name.span, NamePosition::State, state);
    }

    fn table(&mut self, d: &TableDecl) {
        for property in &d.properties {
            self.record(property.name.span, NamePosition::Property, None);
            match &property.value {
                TablePropertyValue::Key(elements) => {
                    for element in elements {
                        self.expr(&element.expr);
                        let kinds = self.checked.match_kinds().iter().copied();
                        let kind = kinds.into_iter().find(|id| {
                            let def = self.checked.opt_def(*id);
                            def.is_some_and(|def| def.kind.name() == element.match_kind.name)
                        });
                        self.record(element.match_kind.span, NamePosition::MatchKind, kind);
                    }
                }
                TablePropertyValue::Actions(actions) => {
                    actions.iter().for_each(|action| self.action(action));
                }
                TablePropertyValue::DefaultAction(action) => self.action(action),
                TablePropertyValue::Entries(entries) => {
                    for entry in entries {
                        entry.priority.iter().for_each(|value| self.expr(value));
                        self.expr(&entry.keyset);
                        self.action(&entry.action);
                    }
                }
                TablePropertyValue::Expr(value) => self.expr(value),
            }
        }
    }

    fn action(&mut self, action: &ActionRef) {
        let target = self
            .checked
            .call(action.call)
            .and_then(|c| callee(c.callee));
        self.record(action.path.span(), NamePosition::Action, target);
        action
            .args
            .iter()
            .for_each(|args| self.args(args, action.call));
    }

    fn block(&mut self, block: &Block) {
        self.stmts(&block.stmts);
    }

    fn stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Empty
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Exit
            | StmtKind::Invalid(_) => {}
            StmtKind::Assign { left, right, .. } => {
                self.expr(left);
                self.expr(right);
            }
            StmtKind::Call(call) => self.expr(call),
            StmtKind::If {
                condition,
                then,
                otherwise,
            } => {
                self.expr(condition);
                self.stmt(then);
                otherwise.iter().for_each(|stmt| self.stmt(stmt));
            }
            StmtKind::Block(block) => self.block(block),
            StmtKind::Switch { subject, cases } => {
                self.expr(subject);
                for case in cases {
                    self.expr(&case.label);
                    case.body.iter().for_each(|body| self.block(body));
                }
            }
            StmtKind::For {
                init,
                condition,
                update,
                body,
                ..
            } => {
                self.stmts(init);
                self.expr(condition);
                self.stmts(update);
                self.stmt(body);
            }
            StmtKind::ForIn {
                variable,
                collection,
                body,
                ..
            } => {
                self.declared(variable.id, &variable.name);
                self.variable(variable);
                self.expr(collection);
                self.stmt(body);
            }
            StmtKind::Return(value) => value.iter().for_each(|value| self.expr(value)),
            StmtKind::Const(d) => {
                self.declared(d.id, &d.name);
                self.constant(d);
            }
            StmtKind::Var(d) => {
                self.declared(d.id, &d.name);
                self.variable(d);
            }
            StmtKind::Instantiation(d) => {
                self.declared(d.id, &d.name);
                self.instance(d);
            }
        }
    }

    fn type_ref(&mut self, ty: &TypeRef) {
        match &ty.kind {
            TypeRefKind::Name(path) => self.type_name(ty, path),
            TypeRefKind::Specialized(path, args) => {
                self.type_name(ty, path);
                args.iter().for_each(|arg| self.type_ref(arg));
            }
            TypeRefKind::Stack(element, size) => {
                self.type_ref(element);
                self.expr(size);
            }
            TypeRefKind::Tuple(types) => types.iter().for_each(|ty| self.type_ref(ty)),
            TypeRefKind::List(element) => self.type_ref(element),
            TypeRefKind::Bit(Some(width))
            | TypeRefKind::SignedInt(width)
            | TypeRefKind::Varbit(width) => self.expr(width),
            _ => {}
        }
    }

    fn type_name(&mut self, ty: &TypeRef, path: &Path) {
        self.record(path.span(), NamePosition::Type, self.checked.type_name(ty));
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Name(path) => {
                self.record(path.span(), NamePosition::Value, self.resolved(expr))
            }
            ExprKind::Type(ty) => self.type_ref(ty),
            ExprKind::Member(base, name) => {
                self.out.exprs.push((expr.span, expr.id));
                self.expr(base);
                self.record(
                    name.span,
                    NamePosition::Member(base.id),
                    self.resolved(expr),
                );
            }
            ExprKind::Cast(ty, operand) => {
                self.out.exprs.push((expr.span, expr.id));
                self.type_ref(ty);
                self.expr(operand);
            }
            ExprKind::Call(call) => {
                self.out.exprs.push((expr.span, expr.id));
                self.callee(&call.callee, expr.id);
                call.type_args.iter().for_each(|ty| self.type_ref(ty));
                self.args(&call.args, expr.id);
            }
            ExprKind::Struct { fields, .. } => {
                let fields_of = self.checked.fields(self.checked.type_as_used(expr));
                for field in fields {
                    let declared = fields_of
                        .iter()
                        .find(|(f, _)| f.name.name == field.name.name);
                    let target = declared.map(|(f, _)| f.id);
                    self.record(field.name.span, NamePosition::Label, target);
                    self.expr(&field.value);
                }
            }
            kind => {
                self.out.exprs.push((expr.span, expr.id));
                kind.for_each_child(&mut |child| self.expr(child));
            }
        }
    }

    /// Records the callee of a call. Its declaration is in the results of the call, not of the callee's expression.
    fn callee(&mut self, expr: &Expr, call: ExprId) {
        let called = self.checked.call(call).and_then(|c| callee(c.callee));
        match &expr.kind {
            ExprKind::Name(path) => {
                let target = self.resolved(expr).or(called);
                self.record(path.span(), NamePosition::Value, target);
            }
            ExprKind::Member(base, name) => {
                self.expr(base);
                let target = self.resolved(expr).or(called);
                self.record(name.span, NamePosition::Member(base.id), target);
            }
            _ => self.expr(expr),
        }
    }

    fn args(&mut self, args: &[Arg], call: ExprId) {
        for arg in args {
            if let Some(name) = &arg.name {
                let params = self.checked.call(call).map(|c| &c.args[..]);
                let mut params = params.unwrap_or_default().iter().filter_map(|p| p.param);
                let target = params.find(|id| {
                    let def = self.checked.opt_def(*id);
                    def.is_some_and(|def| def.kind.name() == name.name)
                });
                self.record(name.span, NamePosition::Label, target);
            }
            self.expr(&arg.value);
        }
    }

    fn resolved(&self, expr: &Expr) -> Option<DeclId> {
        match self.checked.resolution(expr) {
            // In a constructor call, the name refers to the type.
            Resolution::Decl(id) => {
                match self.checked.opt_def(id).map(|def| (&def.kind, def.parent)) {
                    Some((DefKind::Constructor(_), Some(ext))) => Some(ext),
                    _ => Some(id),
                }
            }
            _ => None,
        }
    }
}

/// The declaration that a call's name refers to.
fn callee(callee: Callee) -> Option<DeclId> {
    match callee {
        Callee::Action(id)
        | Callee::Function(id)
        | Callee::ExternFunction(id)
        | Callee::Method(id)
        | Callee::ExternConstructor { ext: id, .. }
        | Callee::ParserConstructor(id)
        | Callee::ControlConstructor(id)
        | Callee::PackageConstructor(id) => Some(id),
        // `apply` is not a declaration.
        Callee::ParserApply(_)
        | Callee::ControlApply(_)
        | Callee::DirectApply(_)
        | Callee::TableApply(_)
        | Callee::Builtin(_) => None,
    }
}
