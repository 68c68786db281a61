//! Dead assignments of RegisterActions: assignments whose value is overwritten on every path before it is read.
//!
//! Compilers for the chip remove such assignments before they select instructions, so the stateful ALU need not execute them.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::lvalue::Target;
use crate::diag::Span;
use crate::sema::CheckedProgram;
use crate::syntax::ast::{Block, DeclId, Expr, ExprKind, Param, Stmt, StmtKind};

/// Spans of the dead assignments to parameters in the body of an `apply`.
///
/// A backward liveness analysis over the structured body. All parameters are live at its end.
pub(super) fn dead_assignments(
    checked: &CheckedProgram,
    body: &Block,
    params: &[Rc<Param>],
) -> Vec<Span> {
    let mut analysis = Overwritten {
        checked,
        params: params.iter().map(|param| param.id).collect(),
        dead: Vec::new(),
    };
    analysis.block(body, Targets::new());
    analysis.dead
}

/// The liveness analysis of an `apply` method's parameters, with the dead assignments found so far.
struct Overwritten<'a> {
    checked: &'a CheckedProgram,
    params: BTreeSet<DeclId>,
    dead: Vec<Span>,
}

/// The dead assignment targets at a program point: every path from the point assigns them before it reads them.
type Targets = BTreeSet<Target>;

impl Overwritten<'_> {
    /// Returns the dead assignment targets at the start of a block. `behind`: the dead targets at its end.
    fn block(&mut self, block: &Block, behind: Targets) -> Targets {
        (block.stmts.iter().rev()).fold(behind, |behind, stmt| self.statement(stmt, behind))
    }

    /// Returns the dead assignment targets before a statement, and records the statement if it is a dead assignment.
    /// `behind`: the dead targets after the statement.
    fn statement(&mut self, stmt: &Stmt, mut behind: Targets) -> Targets {
        match &stmt.kind {
            StmtKind::Empty => behind,
            StmtKind::Block(block) => self.block(block, behind),
            StmtKind::If {
                condition,
                then,
                otherwise,
            } => {
                let taken = self.statement(then, behind.clone());
                let not_taken = match otherwise {
                    Some(otherwise) => self.statement(otherwise, behind),
                    None => behind,
                };
                let mut before = on_both(&taken, &not_taken);
                self.read(&mut before, condition);
                before
            }
            StmtKind::Assign { left, op, right } => {
                let target = self.target(left);
                let is_overwritten = target
                    .as_ref()
                    .is_some_and(|target| is_covered(&behind, target));
                // A call may have side effects, so an assignment with a call is never dead.
                if is_overwritten && !may_call(right) {
                    self.dead.push(stmt.span);
                    return behind;
                }
                match target {
                    Some(target) if op.is_none() => {
                        behind.insert(target);
                    }
                    _ => self.read(&mut behind, left),
                }
                self.read(&mut behind, right);
                behind
            }
            StmtKind::Var(decl) => {
                if let Some(init) = &decl.init {
                    self.read(&mut behind, init);
                }
                behind
            }
            // A return ends the body, where all parameters are live. Other statements are treated as if they read all parameters.
            _ => Targets::new(),
        }
    }

    /// The parameter, or the member of one, that an expression denotes; `None` for other expressions.
    fn target(&self, expr: &Expr) -> Option<Target> {
        Target::of(self.checked, expr).filter(|target| self.params.contains(&target.decl))
    }

    /// Removes from `targets` those that an expression reads, in whole or in part, and those that are members of what
    /// it reads.
    fn read(&self, targets: &mut Targets, expr: &Expr) {
        if targets.is_empty() {
            return;
        }
        match self.target(expr) {
            Some(read) => targets.retain(|target| !target.overlaps(&read)),
            None => expr
                .kind
                .for_each_child(&mut |part| self.read(targets, part)),
        }
    }
}

/// Whether `targets` contains `target`, or a whole that `target` is a member of.
fn is_covered(targets: &Targets, target: &Target) -> bool {
    targets.iter().any(|whole| whole.covers(target))
}

/// The assignment targets that are dead in both sets.
fn on_both(a: &Targets, b: &Targets) -> Targets {
    let of_a = a.iter().filter(|target| is_covered(b, target));
    let of_b = b.iter().filter(|target| is_covered(a, target));
    of_a.chain(of_b).cloned().collect()
}

/// Whether an expression may contain a call: it has a part other than literals, names and operators.
fn may_call(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |part| {
        found |= !matches!(
            part.kind,
            ExprKind::Int(_)
                | ExprKind::Bool(_)
                | ExprKind::Name(_)
                | ExprKind::Member(..)
                | ExprKind::Unary(..)
                | ExprKind::Cast(..)
                | ExprKind::Slice { .. }
                | ExprKind::Binary(..)
                | ExprKind::Ternary(..)
        );
    });
    found
}
