//! Dead assignments of RegisterActions: assignments whose value is overwritten on every path before it is read.
//!
//! Compilers for the chip remove such assignments before they select instructions, so the stateful ALU need not execute them.

use std::collections::BTreeSet;

use crate::diag::Span;
use crate::syntax::ast::{Block, Expr, ExprKind, Name, Stmt, StmtKind};
use crate::syntax::print::print_expr;

/// Spans of the dead assignments to parameters in the body of an `apply`.
///
/// A backward liveness analysis over the structured body. All parameters are live at its end.
pub(super) fn dead_assignments(body: &Block, params: &[Name]) -> Vec<Span> {
    let mut analysis = Overwritten {
        params,
        dead: Vec::new(),
    };
    analysis.block(body, BTreeSet::new());
    analysis.dead
}

/// The state of the liveness analysis.
struct Overwritten<'a> {
    params: &'a [Name],
    dead: Vec<Span>,
}

/// Parameters, or their members, that every path from a point assigns before it reads them.
type Targets = BTreeSet<String>;

impl Overwritten<'_> {
    /// The targets at the start of a block, given those at its end (`behind`).
    fn block(&mut self, block: &Block, behind: Targets) -> Targets {
        (block.stmts.iter().rev()).fold(behind, |behind, stmt| self.statement(stmt, behind))
    }

    /// The targets before a statement, given those after it (`behind`). Records the statement if it is a dead assignment.
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
                let mut before = taken.intersection(&not_taken).cloned().collect();
                read(&mut before, condition);
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
                    _ => read(&mut behind, left),
                }
                read(&mut behind, right);
                behind
            }
            StmtKind::Var(decl) => {
                if let Some(init) = &decl.init {
                    read(&mut behind, init);
                }
                behind
            }
            // A return ends the body, where all parameters are live. Other statements are treated as if they read all parameters.
            _ => Targets::new(),
        }
    }

    /// The text of an lvalue that is a parameter or a member of one; `None` for slices and other lvalues.
    fn target(&self, left: &Expr) -> Option<String> {
        let mut root = left;
        while let ExprKind::Member(base, _) = &root.kind {
            root = base;
        }
        let ExprKind::Name(path) = &root.kind else {
            return None;
        };
        self.params
            .contains(&path.name.name)
            .then(|| print_expr(left))
    }
}

/// Whether `targets` has `target` or a structure that contains it.
fn is_covered(targets: &Targets, target: &str) -> bool {
    (targets.iter()).any(|whole| {
        target
            .strip_prefix(whole.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Removes the targets whose parameter occurs in an expression, which reads them.
fn read(targets: &mut Targets, expr: &Expr) {
    if targets.is_empty() {
        return;
    }
    let text = print_expr(expr);
    let words: BTreeSet<&str> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    targets.retain(|target| {
        let root = target.split('.').next().unwrap_or(target);
        !words.contains(root)
    });
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
