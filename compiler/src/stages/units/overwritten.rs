//! Dead assignments of RegisterActions: a later assignment overwrites the value on every path before a read.
//!
//! Compilers for the chip remove such assignments before they choose instructions, so they take no part in what the stateful ALU must do.

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

struct Overwritten<'a> {
    params: &'a [Name],
    dead: Vec<Span>,
}

/// Parameters, or their members, that every path from a point assigns before it reads them.
type Targets = BTreeSet<String>;

impl Overwritten<'_> {
    /// The targets before a block, given those behind it.
    fn block(&mut self, block: &Block, behind: Targets) -> Targets {
        (block.stmts.iter().rev()).fold(behind, |behind, stmt| self.statement(stmt, behind))
    }

    /// The targets before a statement, given those behind it.
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
                // Calls have effects beyond the assignment.
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
            // Returns end the body, where parameters are live; of others nothing is assumed.
            _ => Targets::new(),
        }
    }

    /// The parameter, or the member of one, that an lvalue is as a whole.
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

/// Whether a target, or the whole that it is a member of, is among the targets.
fn is_covered(targets: &Targets, target: &str) -> bool {
    (targets.iter()).any(|whole| {
        target
            .strip_prefix(whole.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Removes the targets whose root occurs in an expression.
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

/// Whether an expression may call anything: it has a part that is not a value, a name or an operator.
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
