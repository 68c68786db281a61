//! Check that the units of a match-action stage can execute each operation of a program, in whichever stage it is placed.
//!
//! It reports operations without an ALU instruction ([`operations`]), conditions that a gateway cannot evaluate ([`gateways`]), register
//! accesses that exceed a stateful ALU ([`stateful`]), and hashes that are used without a table hit ([`hashes`]).
//!
//! The check reads the syntax tree before inlining, so that each error is at a source line. It accepts operations whose legality depends on
//! the allocation of containers or on a constructor argument.
//! Code that no pipeline reaches ([`reachable`]) is not checked.

mod forwarding;
mod gateways;
mod hashes;
mod lvalue;
mod operations;
mod overwritten;
mod reachable;
mod stateful;

use num_bigint::BigInt;
use rustc_hash::FxHashSet;

use self::forwarding::Forwarded;
use self::reachable::constant_bool;
use crate::arch::Arch;
use crate::diag::{Code, Diagnostic, Diagnostics, Span};
use crate::sema::{CheckedProgram, DefKind, Resolution, Type};
use crate::syntax::ast::{
    Block, ControlDecl, Decl, DeclId, Direction, Expr, ExprKind, Stmt, StmtKind,
};

/// Reports the operations of a program that no stage of the chip can execute.
pub fn refuse(checked: &CheckedProgram, arch: Arch, diagnostics: &mut Diagnostics) {
    let mut units = Units {
        checked,
        arch,
        diagnostics,
        reachable: reachable::reachable(checked),
        forwarded: Forwarded::default(),
        forwarded_to: None,
        replacements: 0,
    };
    for decl in &checked.program.decls {
        match decl {
            Decl::Control(control) => units.control(control),
            other => units.local(other),
        }
    }
}

/// The block that contains a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    /// The `apply` block of a control, whose conditions are evaluated by gateways.
    Apply,
    /// An action, which becomes one instruction per container.
    Action,
}

/// The check of a program's operations against the units of a stage.
struct Units<'a> {
    checked: &'a CheckedProgram,
    arch: Arch,
    diagnostics: &'a mut Diagnostics,
    /// Declarations that `main` reaches; `None` without a `main`, where all are checked.
    reachable: Option<FxHashSet<DeclId>>,
    /// Expressions that conditions at the current statement of an `apply` block contain in place of fields.
    forwarded: Forwarded,
    /// Place of the condition in which the check has replaced a field by the expression that was assigned to it.
    forwarded_to: Option<Span>,
    /// Number of fields that were replaced in the current condition.
    replacements: usize,
}

impl Units<'_> {
    fn control(&mut self, control: &ControlDecl) {
        let Some(body) = &control.body else { return };
        let is_deparser = control.params.iter().any(|param| {
            matches!(self.checked.decl_type(param.id), Some(Type::Extern(ty)) if &*ty.name == "packet_out")
        });
        if is_deparser || !self.is_reachable(control.id) {
            return;
        }
        for decl in &body.locals {
            self.local(decl);
        }
        self.block(&body.apply, Around::Apply);
        self.forwarded = Forwarded::default();
    }

    fn local(&mut self, decl: &Decl) {
        match decl {
            Decl::Action(action) if self.is_reachable(action.id) => {
                self.block(&action.body, Around::Action);
            }
            Decl::Instantiation(instance) if self.is_reachable(instance.id) => {
                self.stateful(instance);
            }
            Decl::Table(table) if self.is_reachable(table.id) => self.hashes(table),
            _ => {}
        }
    }

    fn is_reachable(&self, id: DeclId) -> bool {
        self.reachable.as_ref().is_none_or(|all| all.contains(&id))
    }

    fn block(&mut self, block: &Block, around: Around) {
        for stmt in &block.stmts {
            self.statement(stmt, around);
            if around == Around::Apply {
                self.forward(stmt);
            }
        }
        // Variables of the block end with it.
        for stmt in &block.stmts {
            if let StmtKind::Var(variable) = &stmt.kind {
                self.forwarded.ended(variable.id);
            }
        }
    }

    fn statement(&mut self, stmt: &Stmt, around: Around) {
        match &stmt.kind {
            StmtKind::Assign { left, op, right } => {
                if let Some(op) = op {
                    self.operator(*op, left, right, stmt.span);
                }
                self.operations(right, around);
            }
            StmtKind::Var(decl) => {
                if let Some(init) = &decl.init {
                    self.operations(init, around);
                }
            }
            StmtKind::Return(Some(value)) => self.operations(value, around),
            StmtKind::Call(call) => self.operations(call, around),
            StmtKind::If {
                condition,
                then,
                otherwise,
            } => {
                match around {
                    Around::Apply => {
                        self.called(condition);
                        self.gateway(condition);
                    }
                    Around::Action => self.condition_in_action(condition),
                }
                let constant = constant_bool(self.checked, condition);
                let before = self.forwarded.clone();
                if constant != Some(false) {
                    self.statement(then, around);
                }
                self.forwarded.clone_from(&before);
                if let Some(otherwise) = otherwise.as_ref().filter(|_| constant != Some(true)) {
                    self.statement(otherwise, around);
                }
                self.forwarded = before;
            }
            StmtKind::Block(block) => self.block(block, around),
            StmtKind::Switch { subject, cases } => {
                self.called(subject);
                let before = self.forwarded.clone();
                for body in cases.iter().filter_map(|case| case.body.as_ref()) {
                    self.block(body, around);
                    self.forwarded.clone_from(&before);
                }
            }
            StmtKind::For { body, .. } | StmtKind::ForIn { body, .. } => {
                // A later iteration reads what an earlier one has written.
                self.executed(stmt);
                let before = self.forwarded.clone();
                self.statement(body, around);
                self.forwarded = before;
            }
            _ => {}
        }
    }

    /// Updates the forwarded expressions after a statement of an `apply` block.
    fn forward(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Assign { left, op, right } => {
                self.called(right);
                self.assigned(left, op.is_none().then_some(right));
            }
            StmtKind::Var(variable) => {
                if let Some(init) = &variable.init {
                    self.called(init);
                }
                self.declared(variable);
            }
            // Its statements have been processed.
            StmtKind::Block(_) => {}
            _ => self.executed(stmt),
        }
    }

    /// Reports an operation that the chip cannot execute, with the remedy `help`.
    fn cannot(&mut self, span: Span, what: impl Into<String>, help: impl Into<String>) {
        self.diagnostics
            .report(Diagnostic::error(Code::UNITS, span, what).help(help));
    }

    /// The name of the architecture, for messages.
    fn chip(&self) -> &'static str {
        self.arch.name()
    }

    /// The value of a compile-time constant integer; `None` for other expressions.
    fn number(&self, expr: &Expr) -> Option<BigInt> {
        self.checked.value(expr)?.as_int().cloned()
    }

    /// Whether an expression is a compile-time constant or consists of constants and constructor parameters.
    fn is_constant(&self, expr: &Expr) -> bool {
        if self.checked.info(expr.id).value.is_some() {
            return true;
        }
        match &expr.kind {
            ExprKind::Name(_) => match self.checked.resolution(expr) {
                Resolution::Decl(id) => {
                    matches!(
                        self.checked.def(id).kind,
                        DefKind::CtorParam(_) | DefKind::Const(_)
                    )
                }
                _ => false,
            },
            ExprKind::Cast(_, arg) | ExprKind::Unary(_, arg) => self.is_constant(arg),
            ExprKind::Binary(_, a, b) => self.is_constant(a) && self.is_constant(b),
            _ => false,
        }
    }

    /// Whether an expression consists of constants and action data, which are the action parameters without a direction.
    fn is_action_data(&self, expr: &Expr) -> bool {
        if self.is_constant(expr) {
            return true;
        }
        match &expr.kind {
            ExprKind::Name(_) => match self.checked.resolution(expr) {
                Resolution::Decl(id) => matches!(
                    &self.checked.def(id).kind,
                    DefKind::Param(param) if param.direction == Direction::None
                ),
                _ => false,
            },
            ExprKind::Cast(_, arg) | ExprKind::Unary(_, arg) => self.is_action_data(arg),
            ExprKind::Slice { base, .. } => self.is_action_data(base),
            ExprKind::Member(base, _) => self.is_action_data(base),
            ExprKind::Binary(_, a, b) => self.is_action_data(a) && self.is_action_data(b),
            _ => false,
        }
    }

    /// The width in bits of an expression and whether it is signed; `None` for a type other than `bit`, `int` or `bool`.
    fn width(&self, expr: &Expr) -> Option<(u32, bool)> {
        match self.checked.representation(self.checked.type_as_used(expr)) {
            Type::Bit(width) => Some((width, false)),
            Type::Signed(width) => Some((width, true)),
            Type::Bool => Some((1, false)),
            _ => None,
        }
    }
}
