//! Declarations that a pipeline reaches from `main`: controls, tables, actions, functions and instances of externs.
//!
//! Compilers for the chip remove unreachable declarations before they select instructions, so the units of a stage need not execute them.

use rustc_hash::FxHashSet;

use crate::sema::{Callee, CheckedProgram, DefKind, Resolution};
use crate::syntax::ast::{
    ActionRef, Block, Decl, DeclId, Expr, ExprId, ExprKind, FunctionDecl, Stmt, StmtKind, StmtPart,
    TableDecl, TablePropertyValue,
};

/// The declarations that are reached from `main`; `None` if the program has no `main`.
pub(super) fn reachable(checked: &CheckedProgram) -> Option<FxHashSet<DeclId>> {
    let main = checked.main()?;
    let mut search = Search {
        checked,
        reached: FxHashSet::default(),
        queue: Vec::new(),
    };
    search.add(main.id);
    while let Some(id) = search.queue.pop() {
        search.declaration(id);
    }
    Some(search.reached)
}

/// Value of a boolean expression; `None` if it is not constant.
pub(super) fn constant_bool(checked: &CheckedProgram, expr: &Expr) -> Option<bool> {
    checked.value(expr)?.as_bool()
}

struct Search<'a> {
    checked: &'a CheckedProgram,
    reached: FxHashSet<DeclId>,
    /// Reached declarations that are to be searched.
    queue: Vec<DeclId>,
}

impl Search<'_> {
    fn add(&mut self, id: DeclId) {
        if self.reached.insert(id) {
            self.queue.push(id);
        }
    }

    /// Adds the declarations that a declaration names.
    fn declaration(&mut self, id: DeclId) {
        let Some(def) = self.checked.opt_def(id) else {
            return;
        };
        match &def.kind {
            DefKind::Instance(instance) => {
                self.callee(instance.call);
                for arg in &instance.args {
                    self.expr(&arg.value);
                }
                for decl in instance.body.iter().flatten() {
                    if let Decl::Function(function) = decl {
                        self.function(function);
                    }
                }
            }
            DefKind::Control(control) => {
                if let Some(body) = &control.body {
                    self.block(&body.apply);
                }
            }
            DefKind::Parser(parser) => {
                if let Some(body) = &parser.body {
                    for state in &body.states {
                        state.stmts.iter().for_each(|stmt| self.statement(stmt));
                    }
                }
            }
            DefKind::Action(action) => self.block(&action.body),
            DefKind::Function(function) => self.function(function),
            DefKind::Table(table) => self.table(table),
            DefKind::Var(variable) => {
                if let Some(init) = &variable.init {
                    self.expr(init);
                }
            }
            _ => {}
        }
    }

    fn function(&mut self, function: &FunctionDecl) {
        if let Some(body) = &function.body {
            self.block(body);
        }
    }

    fn table(&mut self, table: &TableDecl) {
        for property in &table.properties {
            match &property.value {
                TablePropertyValue::Key(elements) => {
                    for element in elements {
                        self.expr(&element.expr);
                    }
                }
                TablePropertyValue::Actions(actions) => {
                    for action in actions {
                        self.action(action);
                    }
                }
                TablePropertyValue::Entries(entries) => {
                    for entry in entries {
                        self.action(&entry.action);
                    }
                }
                TablePropertyValue::DefaultAction(action) => self.action(action),
                TablePropertyValue::Expr(value) => self.expr(value),
            }
        }
    }

    fn action(&mut self, action: &ActionRef) {
        self.callee(action.call);
        for arg in action.args.iter().flatten() {
            self.expr(&arg.value);
        }
    }

    fn block(&mut self, block: &Block) {
        block.stmts.iter().for_each(|stmt| self.statement(stmt));
    }

    fn statement(&mut self, stmt: &Stmt) {
        let never = match &stmt.kind {
            StmtKind::If {
                condition,
                then,
                otherwise,
            } => match constant_bool(self.checked, condition) {
                Some(true) => otherwise.as_deref(),
                Some(false) => Some(&**then),
                None => None,
            },
            _ => None,
        };
        stmt.kind.for_each_part(&mut |part| match part {
            StmtPart::Lvalue(expr) | StmtPart::Expr(expr) => self.expr(expr),
            StmtPart::Stmt(part) if never.is_some_and(|never| std::ptr::eq(never, part)) => {}
            StmtPart::Stmt(part) => self.statement(part),
            StmtPart::Var(variable) => self.add(variable.id),
            StmtPart::Instantiation(instance) => self.add(instance.id),
        });
    }

    /// Adds the declarations that an expression names or calls.
    fn expr(&mut self, expr: &Expr) {
        let mut named = Vec::new();
        let mut called = Vec::new();
        expr.walk(&mut |part| match &part.kind {
            ExprKind::Call(_) => called.push(part.id),
            ExprKind::Name(_) => {
                if let Resolution::Decl(id) = self.checked.resolution(part) {
                    named.push(id);
                }
            }
            _ => {}
        });
        named.into_iter().for_each(|id| self.add(id));
        called.into_iter().for_each(|id| self.callee(id));
    }

    fn callee(&mut self, call: ExprId) {
        let Some(info) = self.checked.call(call) else {
            return;
        };
        match info.callee {
            Callee::Action(id)
            | Callee::Function(id)
            | Callee::ParserApply(id)
            | Callee::ControlApply(id)
            | Callee::DirectApply(id)
            | Callee::TableApply(id)
            | Callee::ParserConstructor(id)
            | Callee::ControlConstructor(id) => self.add(id),
            _ => {}
        }
    }
}
