//! Statements of parsers, controls, actions and functions.

use std::rc::Rc;

use super::control::Outcome;
use super::frame::{Binding, Frame};
use super::{ops, Elaborator};
use crate::diag::{Code, ErrorReported, Span};
use crate::ir::walk;
use crate::ir::{self};
use crate::passes::builder::data::Data;
use crate::passes::inlined::StmtKind;
use crate::sema::{Callee, Resolution};
use crate::syntax::ast::{
    BinaryOp, Block, DeclId, Expr, ExprKind, Stmt, StmtKind as Ast, SwitchCase, UnaryOp, VarDecl,
};

impl Elaborator<'_> {
    /// Elaborates a block in a new environment.
    pub fn block_statement(&mut self, block: &Block, frame: &Rc<Frame>) {
        self.statements(&block.stmts, &Rc::new(Frame::inside(frame)));
    }

    /// Elaborates statements in an environment, up to the first one after which the rest is unreachable.
    pub fn statements(&mut self, stmts: &[Stmt], frame: &Rc<Frame>) {
        for (position, stmt) in stmts.iter().enumerate() {
            if self.observes_limit().is_err() {
                return;
            }
            self.statement(stmt, frame);
            let last = self.out.last().map(|last| &last.kind);
            if matches!(last, Some(StmtKind::Exit)) {
                self.list_actions_after_exit(&stmts[position + 1..], frame);
            }
            if matches!(self.out.last().map(|last| &last.kind), Some(kind) if is_jump(kind)) {
                // Later statements are unreachable.
                break;
            }
        }
    }

    /// Elaborates a statement.
    pub fn statement(&mut self, stmt: &Stmt, frame: &Rc<Frame>) {
        // A statement beyond a limit is dropped, after the error.
        let _: Result<(), ErrorReported> =
            self.one_level_deeper(stmt.span, |this| this.statement_here(stmt, frame));
    }

    /// Elaborates a statement; the nesting is counted already.
    fn statement_here(&mut self, stmt: &Stmt, frame: &Rc<Frame>) {
        match &stmt.kind {
            Ast::Empty | Ast::Invalid(_) => {}
            Ast::Assign { left, op, right } => self.assignment(left, *op, right, stmt.span, frame),
            Ast::Call(expr) => match &expr.kind {
                ExprKind::Call(call) => {
                    self.eval_call(expr, call, frame);
                }
                _ => {
                    self.impossible(expr.span, "a statement is not a call");
                }
            },
            Ast::If {
                condition,
                then,
                otherwise,
            } => {
                self.if_statement(condition, then, otherwise.as_deref(), frame);
            }
            Ast::Block(block) => self.block_statement(block, frame),
            Ast::Switch { subject, cases } => self.switch(subject, cases, stmt.span, frame),
            Ast::For {
                init,
                condition,
                update,
                body,
                ..
            } => {
                self.for_loop(init, condition, update, body, stmt.span, frame);
            }
            Ast::ForIn {
                variable,
                collection,
                body,
                ..
            } => {
                self.for_in(variable, collection, body, stmt.span, frame);
            }
            Ast::Break | Ast::Continue => match self.loops.last().copied() {
                Some((after, _)) if matches!(stmt.kind, Ast::Break) => {
                    self.emit(stmt.span, StmtKind::Break(after));
                }
                Some((_, round)) => self.emit(stmt.span, StmtKind::Break(round)),
                None => {
                    self.impossible(stmt.span, "a `break` or `continue` is outside of a loop");
                }
            },
            Ast::Return(value) => self.return_statement(value.as_ref(), stmt.span, frame),
            Ast::Exit => self.exit_statement(stmt.span, frame),
            Ast::Const(decl) => {
                let ty = self.written_type(&decl.ty, frame);
                let data = match self.checked.const_value(decl.id) {
                    Some(value) => self.data_of(value, &ty),
                    None => self.eval(&decl.value, frame),
                };
                frame.bind(decl.id, Binding::Data(data));
            }
            Ast::Var(decl) => self.variable(decl, frame, true),
            Ast::Instantiation(decl) => {
                self.instantiate(decl, frame);
            }
        }
    }

    /// Elaborates the declaration of a variable and assigns its initial value. Unless `fresh`, storage of an earlier elaboration is reused.
    pub fn variable(&mut self, decl: &Rc<VarDecl>, frame: &Rc<Frame>, fresh: bool) {
        let ty = self.written_type(&decl.ty, frame);
        // The scope of the name begins after the initial value.
        let value = decl.init.as_ref().map(|init| {
            let data = self.eval(init, frame);
            self.cast(data, &ty)
        });
        let place = match frame.find(decl.id) {
            Some(Binding::Place(place)) if !fresh => place,
            _ => {
                let name =
                    crate::passes::annotations::local_name(&decl.annotations, &decl.name.name);
                self.allocate(&ty, &super::join(&frame.name, &name))
            }
        };
        match value {
            Some(data) => self.assign(&place, data, &ty, decl.span, &frame.name),
            None => self.invalidate(&place, decl.span),
        }
        frame.bind(decl.id, Binding::Place(place));
    }

    /// Elaborates an assignment, or a compound assignment with the operator `op`.
    fn assignment(
        &mut self,
        left: &Expr,
        op: Option<BinaryOp>,
        right: &Expr,
        span: Span,
        frame: &Rc<Frame>,
    ) {
        let ty = self.type_of(left, frame);
        let place = self.place(left, frame);
        let mut old = Data::Nothing;
        if op.is_some() {
            // The left operand is read first, as in `left = left op right`.
            old = self.read(&place, &ty, left.span, &frame.name);
            if self.has_effects(right) {
                old = self.materialize(old, &ty, left.span, &frame.name);
            }
        }
        let mut data = self.eval(right, frame);
        if let Some(op) = op {
            data = match (op, old, data) {
                (BinaryOp::And | BinaryOp::Or, Data::Scalar(old), Data::Scalar(new)) => {
                    Data::Scalar(ops::binary(op, old, new))
                }
                (op, old, new) => self.binary(op, old, new, span),
            };
        }
        let data = self.cast(data, &ty);
        self.assign(&place, data, &ty, span, &frame.name);
    }

    /// Elaborates a branch of an `if` in a new environment.
    fn branch(&mut self, stmt: &Stmt, frame: &Rc<Frame>) {
        match stmt.kind {
            Ast::Block(_) | Ast::If { .. } => self.statement(stmt, frame),
            _ => self.statement(stmt, &Rc::new(Frame::inside(frame))),
        }
    }

    /// Elaborates an `if`. A condition on a table application becomes part of the application.
    fn if_statement(
        &mut self,
        condition: &Expr,
        then: &Stmt,
        otherwise: Option<&Stmt>,
        frame: &Rc<Frame>,
    ) {
        let body = |this: &mut Self, stmt: Option<&Stmt>| {
            this.block(|this| {
                if let Some(stmt) = stmt {
                    this.branch(stmt, frame);
                }
            })
        };
        // The branches of `if (t.apply().hit)` become the successors of the table.
        if let Some((table, hit)) = self.table_condition(condition) {
            let then = body(self, Some(then));
            let other = body(self, otherwise);
            let (hit, miss) = if hit { (then, other) } else { (other, then) };
            self.apply_table(
                table,
                condition.span,
                frame,
                Outcome {
                    hit,
                    miss,
                    ..Outcome::default()
                },
            );
            return;
        }
        let cond = self.eval_scalar(condition, frame);
        match cond {
            ir::Expr::Bool(true) => self.branch(then, frame),
            ir::Expr::Bool(false) => {
                if let Some(otherwise) = otherwise {
                    self.branch(otherwise, frame);
                }
            }
            cond => {
                let then = body(self, Some(then));
                let other = body(self, otherwise);
                if !then.is_empty() || !other.is_empty() {
                    self.emit(
                        condition.span,
                        StmtKind::If {
                            cond,
                            then,
                            other,
                            inline: false,
                        },
                    );
                }
            }
        }
    }

    /// The table of a condition `t.apply().hit` or `t.apply().miss`, possibly negated, and whether the condition is true on a hit. `None` for
    /// other conditions.
    fn table_condition(&self, condition: &Expr) -> Option<(DeclId, bool)> {
        match &condition.kind {
            ExprKind::Unary(UnaryOp::Not, inner) => self
                .table_condition(inner)
                .map(|(table, hit)| (table, !hit)),
            ExprKind::Member(base, _) => {
                let hit = match self.checked.resolution(condition) {
                    Resolution::Hit => true,
                    Resolution::Miss => false,
                    _ => return None,
                };
                self.applied_table(base).map(|table| (table, hit))
            }
            _ => None,
        }
    }

    /// The table of a call `t.apply()`; `None` for other calls.
    pub fn applied_table(&self, call: &Expr) -> Option<DeclId> {
        match self.checked.call(call.id)?.callee {
            Callee::TableApply(id) => Some(id),
            _ => None,
        }
    }

    /// Elaborates a `switch`. A switch on a value becomes a chain of conditions.
    fn switch(&mut self, subject: &Expr, cases: &[SwitchCase], span: Span, frame: &Rc<Frame>) {
        if let (ExprKind::Member(base, _), Resolution::ActionRun) =
            (&subject.kind, self.checked.resolution(subject))
        {
            match self.applied_table(base) {
                Some(table) => self.switch_on_action(table, cases, span, frame),
                None => {
                    self.impossible(span, "`action_run` is not that of a table");
                }
            }
            return;
        }
        let ty = self.type_as_used(subject, frame);
        let data = self.eval(subject, frame);
        let data = match data {
            // The value is saved once, as it is compared with each label.
            Data::Scalar(expr) => Data::Scalar(self.save_value(expr, subject.span, &frame.name)),
            other => other,
        };
        let mut chain: Vec<(ir::Expr, &Block, Span)> = Vec::new();
        let mut default: Option<&Block> = None;
        let mut cond = ir::Expr::Bool(false);
        let mut is_default = false;
        for case in cases {
            if matches!(case.label.kind, ExprKind::DontCare(_)) {
                is_default = true;
            } else {
                let label = self.eval(&case.label, frame);
                let label = self.cast(label, &ty);
                let same = self.equal(data.clone(), label, &ty, case.label.span);
                cond = ops::or(cond, same);
            }
            if let Some(body) = &case.body {
                if is_default {
                    default = Some(body);
                }
                let cond = std::mem::replace(&mut cond, ir::Expr::Bool(false));
                if cond != ir::Expr::Bool(false) {
                    chain.push((cond, body, case.span));
                }
                is_default = false;
            }
        }
        let mut rest = match default {
            Some(block) => self.block(|this| this.block_statement(block, frame)),
            None => Vec::new(),
        };
        for (cond, block, span) in chain.into_iter().rev() {
            let body = self.block(|this| this.block_statement(block, frame));
            rest = self.block(|this| match cond {
                ir::Expr::Bool(true) => this.out = body,
                ir::Expr::Bool(false) => this.out = rest,
                cond => this.emit(
                    span,
                    StmtKind::If {
                        cond,
                        then: body,
                        other: rest,
                        inline: false,
                    },
                ),
            });
        }
        self.out.extend(rest);
    }

    /// Elaborates a `switch` on `t.apply().action_run`.
    fn switch_on_action(
        &mut self,
        table: DeclId,
        cases: &[SwitchCase],
        span: Span,
        frame: &Rc<Frame>,
    ) {
        let mut outcome = Outcome {
            by_action: true,
            ..Outcome::default()
        };
        let mut labels: Vec<DeclId> = Vec::new();
        let mut is_default = false;
        for case in cases {
            match (&case.label.kind, self.checked.resolution(&case.label)) {
                (ExprKind::DontCare(_), _) => is_default = true,
                (_, Resolution::Decl(action)) => labels.push(action),
                _ => {
                    self.impossible(case.label.span, "a label of a switch is not an action");
                }
            }
            let Some(body) = &case.body else { continue };
            let body = self.block(|this| this.block_statement(body, frame));
            let labels = std::mem::take(&mut labels);
            if std::mem::take(&mut is_default) {
                let mut statements = 0;
                walk(&body, &mut |_| statements += 1);
                if !labels.is_empty() && self.count_parts(case.span, statements).is_err() {
                    return;
                }
                outcome.other = body.clone();
            }
            if !labels.is_empty() {
                outcome.actions.push((labels, body));
            }
        }
        self.apply_table(table, span, frame, outcome);
    }

    /// Elaborates a `return`: stores the result, and leaves the block of the inlined body.
    fn return_statement(&mut self, value: Option<&Expr>, span: Span, frame: &Rc<Frame>) {
        let Some(target) = frame.returns.clone() else {
            self.impossible(span, "a `return` is outside of a body");
            return;
        };
        if let (Some(value), Some((place, ty))) = (value, &target.result) {
            let data = self.eval(value, frame);
            let data = self.cast(data, ty);
            self.assign(place, data, ty, span, &frame.name);
        }
        self.emit(span, StmtKind::Break(target.label));
    }

    /// Elaborates an `exit`, which ends the pipeline after copying out the results of the enclosing calls.
    fn exit_statement(&mut self, span: Span, frame: &Rc<Frame>) {
        self.copy_out(self.all_pending_copies(), span, frame);
        if matches!(self.region, super::Region::Parser) {
            self.error(Code::STATEMENT, span, "exit is not allowed in a parser");
            return;
        }
        self.emit(span, StmtKind::Exit);
    }
}

/// Whether the statements after a statement are unreachable.
fn is_jump(kind: &StmtKind) -> bool {
    matches!(kind, StmtKind::Break(_) | StmtKind::Exit)
}
