//! Statements (spec § 12).

use super::checked::*;
use super::checker::{BodyKind, Checker};
use super::types::{Nominal, Type};
use super::value::Value;
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::ast::*;
use rustc_hash::FxHashMap;

impl Checker<'_> {
    pub fn block(&mut self, block: &Block) {
        self.in_scope(|c| c.stmts(&block.stmts));
    }

    pub fn stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    /// Checks the branch of an `if` in a new scope. Blocks open their own scope. An `if` needs none, so that a chain of `else if`s does
    /// not nest scopes.
    fn branch(&mut self, stmt: &Stmt) {
        match stmt.kind {
            StmtKind::Block(_) | StmtKind::If { .. } => self.stmt(stmt),
            _ => self.in_scope(|c| c.stmt(stmt)),
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Empty | StmtKind::Invalid(_) => {}
            StmtKind::Assign { left, op, right } => self.assign(left, *op, right, stmt.span),
            StmtKind::Call(call) => self.call_statement(call),
            StmtKind::If {
                condition,
                then,
                otherwise,
            } => {
                self.condition(condition);
                self.branch(then);
                if let Some(otherwise) = otherwise {
                    self.branch(otherwise);
                }
            }
            StmtKind::Block(block) => self.block(block),
            StmtKind::Switch { subject, cases } => self.switch(subject, cases, stmt.span),
            StmtKind::For {
                init,
                condition,
                update,
                body,
                ..
            } => {
                self.reject_in_parser(stmt.span, "loops");
                self.in_scope(|c| {
                    c.stmts(init);
                    c.condition(condition);
                    c.stmts(update);
                    c.loops += 1;
                    c.in_scope(|c| c.stmt(body));
                    c.loops -= 1;
                });
            }
            StmtKind::ForIn {
                variable,
                collection,
                body,
                ..
            } => {
                self.reject_in_parser(stmt.span, "loops");
                self.for_in(variable, collection, body);
            }
            StmtKind::Break | StmtKind::Continue => {
                if self.loops == 0 {
                    let word = if matches!(stmt.kind, StmtKind::Break) {
                        "break"
                    } else {
                        "continue"
                    };
                    self.error(
                        Code::STATEMENT,
                        stmt.span,
                        format!("`{word}` outside of a loop"),
                    );
                }
            }
            StmtKind::Return(value) => self.return_statement(value.as_ref(), stmt.span),
            StmtKind::Exit => match self.body_kind {
                BodyKind::State => {
                    self.error(
                        Code::STATEMENT,
                        stmt.span,
                        "`exit` is not allowed in parsers",
                    );
                }
                BodyKind::Function => {
                    self.error(
                        Code::STATEMENT,
                        stmt.span,
                        "`exit` is not allowed in functions",
                    );
                }
                _ => {}
            },
            StmtKind::Const(decl) => self.const_decl(decl),
            StmtKind::Var(decl) => self.var_decl(decl),
            StmtKind::Instantiation(decl) => {
                self.instantiation(decl);
                self.report(
                    Diagnostic::error(
                        Code::STATEMENT,
                        stmt.span,
                        "an instance cannot be declared among statements",
                    )
                    .help("move it to the declarations of the parser or control"),
                );
            }
        }
    }

    fn reject_in_parser(&mut self, span: Span, what: &str) {
        if self.body_kind == BodyKind::State {
            self.error(
                Code::STATEMENT,
                span,
                format!("{what} are not allowed in parsers"),
            );
        }
    }

    fn assign(&mut self, left: &Expr, op: Option<BinaryOp>, right: &Expr, span: Span) {
        let ty = self.expr(left);
        self.expr(right);
        if ty.is_invalid() {
            return;
        }
        if !self.out.info(left.id).is_lvalue {
            self.report_not_assignable(left, "assigned to");
            return;
        }
        match op {
            None => {
                self.coerce_assigned(right, &ty, "the assigned value");
            }
            Some(op) => {
                if self.type_of(right).is_invalid() {
                    return;
                }
                // Restore the results for the left side: as an lvalue it has no implicit cast.
                let own = self.out.info(left.id).clone();
                let result = self.binary_type(span, op, left, right);
                let fits = result == ty
                    || result.is_invalid()
                    || self.out.underlying(&ty).is_some_and(|u| u == result);
                self.out.exprs[left.id.0 as usize] = own;
                if !fits {
                    let message = format!("`{}=` gives `{result}`, not `{ty}`", op.as_str());
                    self.error(Code::TYPE_MISMATCH, span, message);
                }
            }
        }
    }

    fn call_statement(&mut self, expr: &Expr) {
        let ExprKind::Call(call) = &expr.kind else {
            return;
        };
        let ty = self.call(expr, call);
        self.info_mut(expr).ty = ty;
        let constructor = self.out.call(expr.id).is_some_and(|c| {
            matches!(
                c.callee,
                Callee::ExternConstructor { .. }
                    | Callee::ParserConstructor(_)
                    | Callee::ControlConstructor(_)
                    | Callee::PackageConstructor(_)
            )
        });
        if constructor {
            self.report(
                Diagnostic::error(Code::STATEMENT, expr.span, "this instance is not used")
                    .help("give it a name, among the declarations"),
            );
        }
    }

    fn return_statement(&mut self, value: Option<&Expr>, span: Span) {
        if self.body_kind == BodyKind::State {
            self.error(Code::STATEMENT, span, "`return` is not allowed in parsers");
        }
        let ret = self.ret.clone();
        match (value, ret) {
            (None, None | Some(Type::Void | Type::Invalid(_) | Type::Unknown)) => {}
            (None, Some(ty)) => {
                self.report(
                    Diagnostic::error(Code::STATEMENT, span, "`return` without a value")
                        .label(format!("the function returns `{ty}`")),
                );
            }
            (Some(value), Some(ty)) if ty != Type::Void => {
                self.expr_assigned(value, &ty, "the result");
            }
            (Some(value), _) => {
                self.expr(value);
                self.error(
                    Code::STATEMENT,
                    value.span,
                    "`return` cannot have a value here: there is no result type",
                );
            }
        }
    }

    fn for_in(&mut self, variable: &std::rc::Rc<VarDecl>, collection: &Expr, body: &Stmt) {
        let ty = self.type_ref(&variable.ty);
        match &collection.kind {
            ExprKind::Range(first, last) => {
                for end in [&**first, &**last] {
                    self.expr_as(end, &ty, "an end of the range");
                }
                let numeric = self.out.representation(&ty).is_numeric();
                if !numeric && !ty.is_invalid() {
                    self.error(
                        Code::TYPE_MISMATCH,
                        variable.ty.span,
                        format!("a range needs numbers, found `{ty}`"),
                    );
                }
                self.info_mut(collection).ty = Type::Set(std::rc::Rc::new(ty.clone()));
            }
            ExprKind::List(_) => {
                self.expr(collection);
                let to = Type::List(std::rc::Rc::new(ty.clone()));
                self.coerce(collection, &to, "the collection");
            }
            _ => {
                let from = self.expr(collection);
                let element = match &from {
                    Type::Stack(element, _) | Type::List(element) => Some((**element).clone()),
                    Type::Tuple(types) if types.windows(2).all(|w| w[0] == w[1]) => {
                        types.first().cloned()
                    }
                    Type::Invalid(_) | Type::Unknown => None,
                    from => {
                        self.report(
                            Diagnostic::error(
                                Code::TYPE_MISMATCH,
                                collection.span,
                                format!("`{from}` cannot be iterated over"),
                            )
                            .help("iterate over a range (`0 .. 7`), a header stack or a list"),
                        );
                        None
                    }
                };
                if let Some(element) = element {
                    if !self.unify(&element, &ty) {
                        let message = format!("elements are `{element}`, the variable is `{ty}`");
                        self.error(Code::TYPE_MISMATCH, variable.ty.span, message);
                    }
                }
            }
        }
        self.in_scope(|c| {
            c.define(
                variable.id,
                DefKind::Var(variable.clone()),
                variable.name.span,
            );
            c.out.decl_types.insert(variable.id, ty);
            c.declare(variable.id, &variable.name);
            c.loops += 1;
            c.in_scope(|c| c.stmt(body));
            c.loops -= 1;
        });
    }

    fn switch(&mut self, subject: &Expr, cases: &[SwitchCase], span: Span) {
        if self.body_kind == BodyKind::State {
            self.error(Code::STATEMENT, span, "`switch` is not allowed in parsers");
        }
        let ty = self.expr(subject);
        let mut default: Option<Span> = None;
        let mut seen: FxHashMap<Value, Span> = FxHashMap::default();
        if let Type::Enum(_)
        | Type::SerializableEnum(_)
        | Type::Bit(_)
        | Type::Signed(_)
        | Type::Error
        | Type::Bool = ty
        {
        } else if !matches!(
            ty,
            Type::ActionRun(_) | Type::Invalid(_) | Type::Unknown | Type::NewType(_) | Type::Int
        ) {
            let mut d = Diagnostic::error(
                Code::TYPE_MISMATCH,
                subject.span,
                format!("cannot switch on `{ty}`"),
            );
            if matches!(ty, Type::ApplyResult(_)) {
                d = d.help("switch on `.action_run`");
            }
            self.report(d);
        }
        for case in cases {
            if let Some(at) = default {
                self.report(
                    Diagnostic::error(
                        Code::STATEMENT,
                        case.label.span,
                        "`default` must be the last label",
                    )
                    .other(at, "`default`"),
                );
                default = None;
            }
            if matches!(case.label.kind, ExprKind::DontCare(_)) {
                self.info_mut(&case.label).ty = ty.clone();
                default = Some(case.label.span);
            } else if let Type::ActionRun(table) = &ty {
                self.action_label(&case.label, table, &mut seen);
            } else {
                self.value_label(&case.label, &ty, &mut seen);
            }
            if let Some(body) = &case.body {
                self.block(body);
            }
        }
    }

    fn action_label(&mut self, label: &Expr, table: &Nominal, seen: &mut FxHashMap<Value, Span>) {
        let ExprKind::Name(path) = &label.kind else {
            self.error(
                Code::STATEMENT,
                label.span,
                "the label must be the name of an action",
            );
            return;
        };
        let Some(id) = self.lookup(path) else { return };
        let info = self.info_mut(label);
        info.resolution = Resolution::Decl(id);
        info.ty = Type::ActionRun(table.clone());
        let DefKind::Table(decl) = self.def(table.id).clone() else {
            return;
        };
        let listed = decl.actions().iter().any(|a| {
            matches!(self.out.call(a.call), Some(CallInfo { callee: Callee::Action(action), .. }) if *action == id)
        });
        if !listed {
            let at = self.name_span(table.id);
            self.report(
                Diagnostic::error(
                    Code::STATEMENT,
                    label.span,
                    format!("`{}` is not an action of table `{}`", path.name, table.name),
                )
                .other(at, "the table"),
            );
        }
        self.reject_duplicate_label(Value::Member(id), label.span, seen);
    }

    fn value_label(&mut self, label: &Expr, ty: &Type, seen: &mut FxHashMap<Value, Span>) {
        if !self.expr_as(label, ty, "the label") {
            return;
        }
        match self.value_of(label) {
            Some(value) => self.reject_duplicate_label(value, label.span, seen),
            None => self.report_not_constant(label, "a label"),
        }
    }

    fn reject_duplicate_label(
        &mut self,
        value: Value,
        span: Span,
        seen: &mut FxHashMap<Value, Span>,
    ) {
        if let Some(first) = seen.insert(value, span) {
            self.report(
                Diagnostic::error(Code::DUPLICATE, span, "duplicate label")
                    .other(first, "first occurrence"),
            );
        }
    }
}
