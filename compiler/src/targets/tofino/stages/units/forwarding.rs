//! Forwarding of assigned expressions to later reads in an `apply` block (copy propagation).
//!
//! Compilers for the chip replace the read of a field or variable by the expression that was assigned to it, as long as nothing on the way
//! writes the field or an operand of the expression. A gateway then has to evaluate that expression: after `md.x = a - b;`, the condition
//! `md.x == 0` needs an ALU, as `a - b == 0` does. The body of an action is a boundary: what an action assigns is read from the field.

use std::collections::BTreeMap;

use super::Units;
use crate::sema::{Callee, DefKind};
use crate::syntax::ast::{
    Block, DeclId, Expr, ExprKind, Stmt, StmtKind, TableDecl, TablePropertyValue, VarDecl,
};
use crate::syntax::print::print_expr;

/// The assigned expressions that reads at the current statement are replaced by, each by the text of its target (`md.x`).
pub(super) type Forwarded = BTreeMap<String, Expr>;

impl Units<'_> {
    /// The expression that a read of a field or variable is replaced by; `None` if the field is read.
    pub(super) fn forwarded(&self, read: &Expr) -> Option<Expr> {
        match read.kind {
            ExprKind::Name(_) | ExprKind::Member(..) => {
                self.forwarded.get(&print_expr(read)).cloned()
            }
            _ => None,
        }
    }

    /// Records the assignment of `value` to `target`; without a value, only that the target is written.
    pub(super) fn assigned(&mut self, target: &Expr, value: Option<&Expr>) {
        let whole = lvalue(target);
        let value = value.filter(|_| std::ptr::eq(whole, target));
        self.record(print_expr(whole), value);
    }

    /// Records the declaration of a variable.
    pub(super) fn declared(&mut self, variable: &VarDecl) {
        self.record(variable.name.name.to_string(), variable.init.as_ref());
    }

    fn record(&mut self, target: String, value: Option<&Expr>) {
        self.written(&target);
        let mut reads = Vec::new();
        let value = value.filter(|value| operands(value, &mut reads));
        if let Some(value) = value.filter(|_| !reads.iter().any(|read| overlap(read, &target))) {
            self.forwarded.insert(target, value.clone());
        }
    }

    /// Removes the expressions that a write of `target` invalidates: those assigned to it, and those that read it.
    fn written(&mut self, target: &str) {
        self.forwarded.retain(|text, value| {
            let mut reads = vec![text.clone()];
            operands(value, &mut reads);
            !reads.iter().any(|read| overlap(read, target))
        });
    }

    /// Removes the expressions that the calls in an expression invalidate.
    pub(super) fn called(&mut self, expr: &Expr) {
        let mut targets = Vec::new();
        self.targets_of_calls(expr, &mut targets);
        targets.iter().for_each(|target| self.written(target));
    }

    /// Removes the expressions that a statement, such as a branch, may invalidate.
    pub(super) fn executed(&mut self, stmt: &Stmt) {
        let mut targets = Vec::new();
        self.targets_of_statement(stmt, &mut targets);
        targets.iter().for_each(|target| self.written(target));
    }

    /// Adds the targets that a block may write.
    fn targets_of_block(&self, block: &Block, targets: &mut Vec<String>) {
        for stmt in &block.stmts {
            self.targets_of_statement(stmt, targets);
        }
    }

    /// Adds the targets that a statement may write.
    fn targets_of_statement(&self, stmt: &Stmt, targets: &mut Vec<String>) {
        match &stmt.kind {
            StmtKind::Assign { left, right, .. } => {
                targets.push(print_expr(lvalue(left)));
                self.targets_of_calls(right, targets);
            }
            StmtKind::Var(variable) => {
                targets.push(variable.name.name.to_string());
                if let Some(init) = &variable.init {
                    self.targets_of_calls(init, targets);
                }
            }
            StmtKind::Call(call) | StmtKind::Return(Some(call)) => {
                self.targets_of_calls(call, targets);
            }
            StmtKind::If {
                condition,
                then,
                otherwise,
            } => {
                self.targets_of_calls(condition, targets);
                self.targets_of_statement(then, targets);
                if let Some(otherwise) = otherwise {
                    self.targets_of_statement(otherwise, targets);
                }
            }
            StmtKind::Block(block) => self.targets_of_block(block, targets),
            StmtKind::Switch { subject, cases } => {
                self.targets_of_calls(subject, targets);
                for body in cases.iter().filter_map(|case| case.body.as_ref()) {
                    self.targets_of_block(body, targets);
                }
            }
            StmtKind::For {
                init,
                condition,
                update,
                body,
                ..
            } => {
                for stmt in init.iter().chain(update) {
                    self.targets_of_statement(stmt, targets);
                }
                self.targets_of_calls(condition, targets);
                self.targets_of_statement(body, targets);
            }
            StmtKind::ForIn {
                collection, body, ..
            } => {
                self.targets_of_calls(collection, targets);
                self.targets_of_statement(body, targets);
            }
            StmtKind::Empty
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Return(None)
            | StmtKind::Exit
            | StmtKind::Const(_)
            | StmtKind::Instantiation(_)
            | StmtKind::Invalid => {}
        }
    }

    /// Adds the targets that the calls in an expression may write: the object of a method, all arguments, and what actions assign.
    fn targets_of_calls(&self, expr: &Expr, targets: &mut Vec<String>) {
        expr.walk(&mut |part| {
            let ExprKind::Call(call) = &part.kind else {
                return;
            };
            if let ExprKind::Member(object, _) = &call.callee.kind {
                targets.push(print_expr(object));
            }
            for arg in &call.args {
                targets.push(print_expr(lvalue(&arg.value)));
            }
            match self.checked.call(part.id).map(|info| info.callee) {
                Some(Callee::Action(action)) => self.targets_of_action(action, targets),
                Some(Callee::TableApply(table)) => {
                    if let DefKind::Table(table) = &self.checked.def(table).kind {
                        self.targets_of_table(table, targets);
                    }
                }
                _ => {}
            }
        });
    }

    /// Adds the targets that the actions of a table may write.
    fn targets_of_table(&self, table: &TableDecl, targets: &mut Vec<String>) {
        for property in &table.properties {
            if let TablePropertyValue::Actions(actions) = &property.value {
                for action in actions {
                    if let Some(Callee::Action(id)) =
                        self.checked.call(action.call).map(|info| info.callee)
                    {
                        self.targets_of_action(id, targets);
                    }
                    for arg in action.args.iter().flatten() {
                        targets.push(print_expr(lvalue(&arg.value)));
                    }
                }
            }
        }
    }

    fn targets_of_action(&self, action: DeclId, targets: &mut Vec<String>) {
        if let DefKind::Action(action) = &self.checked.def(action).kind {
            self.targets_of_block(&action.body, targets);
        }
    }
}

/// The field or variable that a write of an lvalue changes: of a slice or an element of a stack, the whole.
fn lvalue(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Slice { base, .. } => lvalue(base),
        ExprKind::Index(base, _) => lvalue(base),
        _ => expr,
    }
}

/// Adds the fields and variables that an expression of operators reads. Returns whether it has only operators, names and constants.
fn operands(expr: &Expr, reads: &mut Vec<String>) -> bool {
    match &expr.kind {
        ExprKind::Int(_) | ExprKind::Bool(_) => true,
        ExprKind::Name(_) | ExprKind::Member(..) => {
            reads.push(print_expr(expr));
            true
        }
        ExprKind::Unary(_, arg) | ExprKind::Cast(_, arg) => operands(arg, reads),
        ExprKind::Slice { base, .. } => operands(base, reads),
        ExprKind::Binary(_, a, b) => operands(a, reads) & operands(b, reads),
        _ => false,
    }
}

/// Whether two targets are equal, or one contains the other.
fn overlap(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let rest = long.strip_prefix(short);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
