//! Check that a stateful ALU can execute each RegisterAction in one pass.
//!
//! A stateful ALU has two comparators (four on Tofino 2), each of which compares a sum of a cell, a field and a constant. For each half of a
//! cell it has two instructions, which the comparators enable. An instruction is one operation, or the bitwise OR of two operations.

use std::collections::BTreeMap;

use super::overwritten::dead_assignments;
use super::reachable::constant_bool;
use super::Units;
use crate::arch::Arch;
use crate::diag::Span;
use crate::syntax::ast::{
    BinaryOp, Block, Decl, Expr, ExprKind, FunctionDecl, Instantiation, Name, Stmt, StmtKind,
    TypeRefKind, UnaryOp,
};
use crate::syntax::print::print_expr;

/// Maximum number of different values that are assigned to a half of a cell or to a result: one per instruction.
const INSTRUCTIONS: usize = 2;

/// The comparisons and assignments found so far in the `apply` method of a RegisterAction.
#[derive(Default)]
struct Found {
    /// Source position of the first occurrence of each comparison, by the comparison's text. A comparison and its
    /// negation have the same text.
    comparisons: BTreeMap<String, Span>,
    /// Assignments by the text of their lvalue.
    assigned: BTreeMap<String, Vec<Assigned>>,
    /// Conditions under which the current statement is executed, from the outermost to the innermost.
    way: Vec<String>,
    /// The parameters of `apply`: the value of the cell, then the results.
    params: Vec<Name>,
    /// Spans of dead assignments, which are not counted.
    dead: Vec<Span>,
}

/// An assignment to a parameter of `apply`.
struct Assigned {
    /// The conditions under which it is executed.
    way: Vec<String>,
    /// Text of the assigned value.
    value: String,
    span: Span,
}

impl Units<'_> {
    /// Checks the `apply` method of a RegisterAction or DirectRegisterAction; other instances are ignored.
    pub(super) fn stateful(&mut self, instance: &Instantiation) {
        let (TypeRefKind::Name(path) | TypeRefKind::Specialized(path, _)) = &instance.ty.kind
        else {
            return;
        };
        let name = &*path.name.name;
        let is_access =
            name.starts_with("RegisterAction") || name.starts_with("DirectRegisterAction");
        for decl in instance.body.iter().flatten().filter(|_| is_access) {
            if let Decl::Function(function) = decl {
                if &*function.name.name == "apply" {
                    self.implementation(function, &instance.name.name);
                }
            }
        }
    }

    /// Reports an `apply` method with more comparisons or more assigned values than a stateful ALU has units for.
    fn implementation(&mut self, function: &FunctionDecl, name: &str) {
        let Some(body) = &function.body else { return };
        let mut found = Found {
            params: (function.params.iter())
                .map(|param| param.name.name.clone())
                .collect(),
            ..Found::default()
        };
        found.dead = dead_assignments(self.checked, body, &function.params);
        self.alu_block(body, &mut found);
        let units = match self.arch == Arch::T2NA {
            true => 4,
            false => 2,
        };
        if let Some(span) = found
            .comparisons
            .values()
            .max_by_key(|span| span.lo)
            .copied()
        {
            let needed = found.comparisons.len();
            if needed > units {
                self.cannot(
                    span,
                    format!(
                        "RegisterAction `{name}` makes {needed} comparisons, and the stateful ALU of {} has {units}",
                        self.chip()
                    ),
                    "compare fields in the `apply` block before, and bring the outcome in a field of one bit",
                );
            }
        }
        for (target, assigned) in &found.assigned {
            let mut values: Vec<&str> = Vec::new();
            for one in assigned {
                if one.value != "0" && one.value != "false" && !values.contains(&&*one.value) {
                    values.push(&one.value);
                }
                if values.len() > INSTRUCTIONS {
                    self.cannot(
                        one.span,
                        format!(
                            "RegisterAction `{name}` gives `{target}` one of more than {INSTRUCTIONS} values, and the stateful ALU of {} has \
                             {INSTRUCTIONS} instructions for it",
                            self.chip()
                        ),
                        "let two branches be enough, or divide them among several RegisterActions of the register",
                    );
                    break;
                }
            }
        }
    }

    fn alu_block(&mut self, block: &Block, found: &mut Found) {
        let depth = found.way.len();
        for stmt in &block.stmts {
            self.alu_statement(stmt, found);
            // After a branch that returns, the negated condition holds, as in an `else`.
            if let StmtKind::If {
                condition,
                then,
                otherwise: None,
            } = &stmt.kind
            {
                if returns(then) {
                    found.way.push(format!("!({})", print_expr(condition)));
                }
            }
        }
        found.way.truncate(depth);
    }

    fn alu_statement(&mut self, stmt: &Stmt, found: &mut Found) {
        match &stmt.kind {
            StmtKind::Block(block) => self.alu_block(block, found),
            StmtKind::If {
                condition,
                then,
                otherwise,
            } => {
                if self.is_constant(condition) {
                    // The value of a constructor's argument is not known here.
                    match (constant_bool(self.checked, condition), otherwise) {
                        (Some(true), _) => self.alu_statement(then, found),
                        (Some(false), Some(otherwise)) => self.alu_statement(otherwise, found),
                        _ => {}
                    }
                    return;
                }
                self.alu_condition(condition, found);
                let way = print_expr(condition);
                found.way.push(way.clone());
                self.alu_statement(then, found);
                found.way.pop();
                if let Some(otherwise) = otherwise {
                    found.way.push(format!("!({way})"));
                    self.alu_statement(otherwise, found);
                    found.way.pop();
                }
            }
            StmtKind::Assign { .. } if found.dead.contains(&stmt.span) => {}
            StmtKind::Assign { left, op, right } => {
                if let Some(op) = op {
                    self.alu_operator(*op, &[left, right], stmt.span, false);
                }
                let is_result = self.is_result_of_alu(left, found);
                self.alu_value(right, found, is_result);
                let value = match op {
                    Some(op) => {
                        format!("{} {} {}", print_expr(left), op.as_str(), print_expr(right))
                    }
                    None => print_expr(right),
                };
                self.alu_assigned(left, value, stmt.span, found);
            }
            StmtKind::Var(decl) => {
                if let Some(init) = &decl.init {
                    self.alu_value(init, found, false);
                }
            }
            _ => {}
        }
    }

    /// Whether an lvalue is a result parameter, as opposed to the cell's value, which is the first parameter.
    fn is_result_of_alu(&self, left: &Expr, found: &Found) -> bool {
        match &left.kind {
            ExprKind::Name(path) => {
                let at = found
                    .params
                    .iter()
                    .position(|param| *param == path.name.name);
                at.is_some_and(|at| at > 0)
            }
            _ => false,
        }
    }

    /// Records an assignment. Reports it if an earlier one to the same lvalue is executed on the same path.
    fn alu_assigned(&mut self, left: &Expr, value: String, span: Span, found: &mut Found) {
        let mut root = left;
        while let ExprKind::Member(base, _) | ExprKind::Slice { base, .. } = &root.kind {
            root = base;
        }
        let is_param =
            matches!(&root.kind, ExprKind::Name(path) if found.params.contains(&path.name.name));
        if !is_param {
            return;
        }
        let target = print_expr(left);
        let known = found.assigned.entry(target.clone()).or_default();
        let is_zero = value == "0" || value == "false";
        // An initial zero is free: the outputs of the instructions are combined by bitwise OR, which is zero if none is enabled.
        if known.is_empty() && found.way.is_empty() && is_zero {
            return;
        }
        let before = known
            .iter()
            .find(|one| one.way.is_empty() || found.way.is_empty() || one.way == found.way);
        if before.is_some() {
            let message = format!(
                "`{target}` is assigned a second time on one way, and the stateful ALU of {} does all at once",
                self.chip()
            );
            self.cannot(
                span,
                message,
                "assign it once on each way: in the branches of an `if` and `else`",
            );
        }
        found.assigned.entry(target).or_default().push(Assigned {
            way: found.way.clone(),
            value,
            span,
        });
    }

    /// Collects the comparisons of a condition, which Boolean operators may combine freely.
    fn alu_condition(&mut self, condition: &Expr, found: &mut Found) {
        if self.is_constant(condition) {
            return;
        }
        match &condition.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => self.alu_condition(inner, found),
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, b) => {
                self.alu_condition(a, found);
                self.alu_condition(b, found);
            }
            ExprKind::Binary(op, a, b) => {
                for side in [a, b] {
                    self.alu_compared(side, found);
                }
                let (a, b) = (print_expr(a), print_expr(b));
                let key = match op {
                    BinaryOp::Eq | BinaryOp::Ne => format!("{a} == {b}"),
                    BinaryOp::Lt | BinaryOp::Ge => format!("{a} < {b}"),
                    BinaryOp::Gt | BinaryOp::Le => format!("{a} > {b}"),
                    _ => print_expr(condition),
                };
                found.comparisons.entry(key).or_insert(condition.span);
            }
            ExprKind::Call(_) => {}
            _ => {
                let key = print_expr(condition);
                found.comparisons.entry(key).or_insert(condition.span);
            }
        }
    }

    /// Checks one side of a comparison. A stateful ALU compares a sum of the cell, a field and constants; other
    /// operators in `expr` are reported.
    fn alu_compared(&mut self, expr: &Expr, found: &Found) {
        if self.is_constant(expr) {
            return;
        }
        match &expr.kind {
            ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) => {
                self.alu_compared(a, found);
                self.alu_compared(b, found);
            }
            ExprKind::Binary(BinaryOp::BitAnd, a, b)
                if self.is_constant(a) || self.is_constant(b) => {}
            ExprKind::Binary(BinaryOp::Concat, ..) => {}
            ExprKind::Binary(op, ..) => {
                let message = format!(
                    "a comparison of the stateful ALU of {} has no `{}`",
                    self.chip(),
                    op.as_str()
                );
                self.cannot(
                    expr.span,
                    message,
                    "it compares the sum of the cell, a field and a constant; compute operands that do not use the cell before the RegisterAction",
                );
            }
            ExprKind::Slice { base, .. } => {
                let mut root = base;
                while let ExprKind::Member(base, _) = &root.kind {
                    root = base;
                }
                let of_cell = matches!(&root.kind, ExprKind::Name(path) if found.params.contains(&path.name.name));
                if of_cell {
                    let message = format!(
                        "the stateful ALU of {} compares whole cells, and not the bits `{}`",
                        self.chip(),
                        print_expr(expr)
                    );
                    self.cannot(
                        expr.span,
                        message,
                        "give the bits a register of their own, or a half of the cell",
                    );
                }
            }
            ExprKind::Cast(_, arg) | ExprKind::Unary(_, arg) => self.alu_compared(arg, found),
            _ => {}
        }
    }

    /// Checks an assigned value, and reports it if no instruction of the stateful ALU computes it. `is_result`: whether
    /// it is assigned to a result of the access instead of to the cell.
    fn alu_value(&mut self, value: &Expr, found: &mut Found, is_result: bool) {
        if self.is_constant(value) {
            return;
        }
        match &value.kind {
            ExprKind::Binary(op, ..) if is_condition(*op) => match is_result {
                true => self.alu_condition(value, found),
                false => {
                    let message = format!(
                        "the stateful ALU of {} gives the outcome of `{}` out, and does not store it",
                        self.chip(),
                        op.as_str()
                    );
                    self.cannot(value.span, message, "store 1 in the branch of an `if`");
                }
            },
            ExprKind::Binary(op, a, b) => self.alu_operator(*op, &[a, b], value.span, is_result),
            ExprKind::Ternary(cond, a, b) => {
                self.alu_condition(cond, found);
                self.alu_value(a, found, is_result);
                self.alu_value(b, found, is_result);
            }
            ExprKind::Cast(_, arg) => self.alu_value(arg, found, is_result),
            ExprKind::Slice { base, .. } if matches!(base.kind, ExprKind::Binary(..)) => {
                let message = format!(
                    "the stateful ALU of {} does not cut bits out of the result `{}`",
                    self.chip(),
                    print_expr(base)
                );
                self.cannot(
                    value.span,
                    message,
                    "assign all of it, and cut where the result is used",
                );
            }
            _ => {}
        }
    }

    /// Reports an operation that no instruction has: an instruction is one operation, or the bitwise OR of two.
    fn alu_operator(&mut self, op: BinaryOp, sides: &[&Expr], span: Span, is_result: bool) {
        let chip = self.chip();
        let symbol = op.as_str();
        match op {
            BinaryOp::Div | BinaryOp::Mod if self.arch == Arch::T2NA && is_result => {}
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => {
                self.cannot(
                    span,
                    format!("the stateful ALU of {chip} has no `{symbol}`"),
                    "a `MathUnit` approximates products, quotients, squares and roots",
                );
                return;
            }
            BinaryOp::Shl | BinaryOp::Shr => {
                self.cannot(
                    span,
                    format!("the stateful ALU of {chip} has no `{symbol}`"),
                    "shift in the action that uses the result, or before by a table; `x + x` is a shift by 1",
                );
                return;
            }
            _ => {}
        }
        for side in sides {
            let mut inner = *side;
            while let ExprKind::Cast(_, arg) | ExprKind::Unary(UnaryOp::Complement, arg) =
                &inner.kind
            {
                inner = arg;
            }
            if self.is_constant(inner) {
                continue;
            }
            match &inner.kind {
                ExprKind::Binary(BinaryOp::Concat, ..) => {}
                // A bitwise OR may combine two operations.
                ExprKind::Binary(below, a, b)
                    if op == BinaryOp::BitOr && *below != BinaryOp::BitOr =>
                {
                    self.alu_operator(*below, &[a, b], inner.span, is_result);
                }
                ExprKind::Binary(..) | ExprKind::Unary(UnaryOp::Minus, _) => {
                    self.cannot(
                        inner.span,
                        format!(
                            "an instruction of the stateful ALU of {chip} has one operation, and `{}` is a second one beside `{symbol}`",
                            print_expr(inner)
                        ),
                        "compute operands that do not use the cell before the RegisterAction, or what uses only its result after it; only `|` joins two operations",
                    );
                }
                _ => {}
            }
        }
    }
}

/// Whether an operator has a Boolean result.
fn is_condition(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge
            | BinaryOp::And
            | BinaryOp::Or
    )
}

/// Whether a statement ends with a `return`.
fn returns(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Return(_) => true,
        StmtKind::Block(block) => block.stmts.last().is_some_and(returns),
        _ => false,
    }
}
