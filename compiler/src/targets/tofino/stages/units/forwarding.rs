//! Forwarding of assigned expressions to later reads in an `apply` block (copy propagation).
//!
//! Compilers for the chip replace the read of a field or variable by the expression that was assigned to it, as long as nothing on the way
//! writes the field or an operand of the expression. A gateway then has to evaluate that expression: after `md.x = a - b;`, the condition
//! `md.x == 0` needs an ALU, as `a - b == 0` does. The body of an action is a boundary: what an action assigns is read from the field.
//! Fields of elements of header stacks are read, too.

use std::rc::Rc;

use super::lvalue::Target;
use super::Units;
use crate::sema::{Callee, CheckedProgram, DefKind};
use crate::syntax::ast::{
    Block, DeclId, Expr, ExprKind, Stmt, StmtPart, TableDecl, TablePropertyValue, VarDecl,
};

/// Maximum number of assignments that are remembered; another one discards the oldest, whose field is then read.
const MAX_ASSIGNMENTS: usize = 1_000;

/// The assignments whose expressions replace reads at the current statement, in the order of execution.
#[derive(Clone, Default)]
pub(super) struct Forwarded(Vec<Rc<Assignment>>);

/// An assignment of an expression of operators to a field or variable.
struct Assignment {
    target: Target,
    value: Expr,
    /// The fields and variables that `value` reads.
    reads: Vec<Target>,
}

impl Forwarded {
    /// Removes the assignments that a write of `target` invalidates: those to it, and those whose expressions read it.
    fn written(&mut self, target: &Target) {
        self.0.retain(|assignment| {
            !assignment.target.overlaps(target)
                && !assignment.reads.iter().any(|read| read.overlaps(target))
        });
    }

    fn all_written(&mut self, targets: &[Target]) {
        targets.iter().for_each(|target| self.written(target));
    }

    /// Removes the assignments to a variable or its members.
    pub(super) fn ended(&mut self, variable: DeclId) {
        self.0
            .retain(|assignment| assignment.target.decl != variable);
    }

    fn record(&mut self, checked: &CheckedProgram, target: Target, value: Option<&Expr>) {
        self.written(&target);
        let Some(value) = value else { return };
        let mut reads = Vec::new();
        if !operands(checked, value, &mut reads) || reads.iter().any(|read| read.overlaps(&target))
        {
            return;
        }
        if self.0.len() == MAX_ASSIGNMENTS {
            self.0.remove(0);
        }
        self.0.push(Rc::new(Assignment {
            target,
            value: value.clone(),
            reads,
        }));
    }
}

impl Units<'_> {
    /// The expression that a read of a field or variable is replaced by; `None` if the field is read.
    pub(super) fn forwarded(&self, read: &Expr) -> Option<Expr> {
        let target = Target::of(self.checked, read)?;
        let assignment = (self.forwarded.0.iter()).find(|assigned| assigned.target == target)?;
        Some(assignment.value.clone())
    }

    /// Records the assignment of `value` to `lvalue`; without a value, only that it is written.
    pub(super) fn assigned(&mut self, lvalue: &Expr, value: Option<&Expr>) {
        if let Some(target) = Target::of(self.checked, lvalue) {
            self.forwarded.record(self.checked, target, value);
        } else if let Some(target) = Target::containing(self.checked, lvalue) {
            self.forwarded.written(&target);
        }
    }

    /// Records the declaration of a variable.
    pub(super) fn declared(&mut self, variable: &VarDecl) {
        let target = Target::variable(variable.id);
        self.forwarded
            .record(self.checked, target, variable.init.as_ref());
    }

    /// Removes the expressions that the calls in an expression invalidate.
    pub(super) fn called(&mut self, expr: &Expr) {
        let mut targets = Vec::new();
        self.targets_of_calls(expr, &mut targets);
        self.forwarded.all_written(&targets);
    }

    /// Removes the expressions that a statement, such as a branch, may invalidate.
    pub(super) fn executed(&mut self, stmt: &Stmt) {
        let mut targets = Vec::new();
        self.targets_of_statement(stmt, &mut targets);
        self.forwarded.all_written(&targets);
    }

    /// Adds the targets that a block may write.
    fn targets_of_block(&self, block: &Block, targets: &mut Vec<Target>) {
        for stmt in &block.stmts {
            self.targets_of_statement(stmt, targets);
        }
    }

    /// Adds the targets that a statement may write.
    fn targets_of_statement(&self, stmt: &Stmt, targets: &mut Vec<Target>) {
        stmt.kind.for_each_part(&mut |part| match part {
            StmtPart::Lvalue(lvalue) => targets.extend(Target::containing(self.checked, lvalue)),
            StmtPart::Expr(expr) => self.targets_of_calls(expr, targets),
            StmtPart::Stmt(stmt) => self.targets_of_statement(stmt, targets),
            StmtPart::Var(variable) => {
                targets.push(Target::variable(variable.id));
                if let Some(init) = &variable.init {
                    self.targets_of_calls(init, targets);
                }
            }
            StmtPart::Instantiation(_) => {}
        });
    }

    /// Adds the targets that the calls in an expression may write: the object of a method, all arguments, and what actions assign.
    fn targets_of_calls(&self, expr: &Expr, targets: &mut Vec<Target>) {
        expr.walk(&mut |part| {
            let ExprKind::Call(call) = &part.kind else {
                return;
            };
            if let ExprKind::Member(object, _) = &call.callee.kind {
                targets.extend(Target::containing(self.checked, object));
            }
            for arg in &call.args {
                targets.extend(Target::containing(self.checked, &arg.value));
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
    fn targets_of_table(&self, table: &TableDecl, targets: &mut Vec<Target>) {
        for property in &table.properties {
            if let TablePropertyValue::Actions(actions) = &property.value {
                for action in actions {
                    if let Some(Callee::Action(id)) =
                        self.checked.call(action.call).map(|info| info.callee)
                    {
                        self.targets_of_action(id, targets);
                    }
                    for arg in action.args.iter().flatten() {
                        targets.extend(Target::containing(self.checked, &arg.value));
                    }
                }
            }
        }
    }

    fn targets_of_action(&self, action: DeclId, targets: &mut Vec<Target>) {
        if let DefKind::Action(action) = &self.checked.def(action).kind {
            self.targets_of_block(&action.body, targets);
        }
    }
}

/// Adds the fields and variables that an expression of operators reads. Returns whether it has only operators, names and constants.
fn operands(checked: &CheckedProgram, expr: &Expr, reads: &mut Vec<Target>) -> bool {
    match &expr.kind {
        ExprKind::Int(_) | ExprKind::Bool(_) => true,
        ExprKind::Name(_) | ExprKind::Member(..) => {
            reads.extend(Target::containing(checked, expr));
            true
        }
        ExprKind::Unary(_, arg) | ExprKind::Cast(_, arg) => operands(checked, arg, reads),
        ExprKind::Slice { base, .. } => operands(checked, base, reads),
        ExprKind::Binary(_, a, b) => operands(checked, a, reads) & operands(checked, b, reads),
        _ => false,
    }
}
