//! What the units of a match-action stage cannot do, wherever a step stands: operations that no ALU has ([`operations`]), conditions that
//! no gateway decides ([`gateways`]), accesses that are too much for a stateful ALU ([`stateful`]), and hashes where no entry is
//! hit ([`hashes`]).
//!
//! The program is looked at as its author wrote it, so that each refusal is at its line. What depends on where fields lie in containers, or
//! on a value that only a constructor's argument has, is not refused. Neither is code that no pipeline reaches ([`reachable`]).

mod gateways;
mod hashes;
mod operations;
mod overwritten;
mod reachable;
mod stateful;

use num_bigint::BigInt;
use rustc_hash::FxHashSet;

use self::reachable::constant_branch;
use crate::arch::Arch;
use crate::diag::{Code, Diagnostic, Diagnostics, Span};
use crate::sema::{CheckedProgram, DefKind, Resolution, Type};
use crate::syntax::ast::{
    Block, ControlDecl, Decl, DeclId, Direction, Expr, ExprKind, Stmt, StmtKind,
};

/// Refuses what no stage of the chip can do.
pub fn refuse(checked: &CheckedProgram, arch: Arch, diagnostics: &mut Diagnostics) {
    if !arch.is_tofino() {
        return;
    }
    let mut units = Units {
        checked,
        arch,
        diagnostics,
        reachable: reachable::reachable(checked),
    };
    for decl in &checked.program.decls {
        match decl {
            Decl::Control(control) => units.control(control),
            other => units.local(other),
        }
    }
}

/// Where a statement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    /// In the `apply` block of a control: conditions are gateways.
    Apply,
    /// In an action: all of it is one instruction for each container.
    Action,
}

struct Units<'a> {
    checked: &'a CheckedProgram,
    arch: Arch,
    diagnostics: &'a mut Diagnostics,
    /// Declarations that `main` reaches; `None` without a `main`, where all are checked.
    reachable: Option<FxHashSet<DeclId>>,
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
                    Around::Apply => self.gateway(condition),
                    Around::Action => self.condition_in_action(condition),
                }
                let constant = constant_branch(self.checked, condition);
                if constant != Some(1) {
                    self.statement(then, around);
                }
                if let Some(otherwise) = otherwise.as_ref().filter(|_| constant != Some(0)) {
                    self.statement(otherwise, around);
                }
            }
            StmtKind::Block(block) => self.block(block, around),
            StmtKind::Switch { cases, .. } => {
                for body in cases.iter().filter_map(|case| case.body.as_ref()) {
                    self.block(body, around);
                }
            }
            StmtKind::For { body, .. } | StmtKind::ForIn { body, .. } => {
                self.statement(body, around);
            }
            _ => {}
        }
    }

    /// Reports what the chip cannot do, and what would do.
    fn cannot(&mut self, span: Span, what: impl Into<String>, help: impl Into<String>) {
        self.diagnostics
            .report(Diagnostic::error(Code::UNITS, span, what).help(help));
    }

    /// The chip, as messages name it.
    fn chip(&self) -> &'static str {
        self.arch.name()
    }

    /// The number that an expression is, if it is known.
    fn number(&self, expr: &Expr) -> Option<BigInt> {
        self.checked.value(expr)?.as_int().cloned()
    }

    /// Whether a value is known when the program is compiled, if perhaps not here: the parameter of a constructor.
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

    /// Whether a value comes from an entry of a table or is known: parameters of actions without a direction, and constants.
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

    /// Bits of a number or truth value, and whether it has a sign.
    fn width(&self, expr: &Expr) -> Option<(u32, bool)> {
        match self.checked.representation(self.checked.type_as_used(expr)) {
            Type::Bit(width) => Some((width, false)),
            Type::Signed(width) => Some((width, true)),
            Type::Bool => Some((1, false)),
            _ => None,
        }
    }
}
