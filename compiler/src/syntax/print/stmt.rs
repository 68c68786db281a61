//! Statements and states.

use super::Printer;
use crate::syntax::ast::*;

impl Printer {
    pub(super) fn block(&mut self, block: &Block) {
        self.annotations(&block.annotations, false);
        self.braces(|p| block.stmts.iter().for_each(|stmt| p.stmt(stmt)));
    }

    pub(super) fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Const(d) => return self.const_decl(d),
            StmtKind::Var(d) => return self.var_decl(d),
            StmtKind::Instantiation(d) => return self.instantiation(d),
            _ => {}
        }
        self.line_start();
        self.stmt_inline(stmt);
        self.word("\n");
    }

    /// Prints a branch or body after its head on the same line.
    fn stmt_inline(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Empty => self.word(";"),
            StmtKind::Invalid(_) => self.word("/* invalid */ ;"),
            StmtKind::Assign { .. } | StmtKind::Call(_) => {
                self.simple(stmt);
                self.word(";");
            }
            StmtKind::If {
                condition,
                then,
                otherwise,
            } => {
                self.word("if (");
                self.expr(condition);
                self.word(") ");
                self.stmt_inline(then);
                if let Some(otherwise) = otherwise {
                    self.word(" else ");
                    self.stmt_inline(otherwise);
                }
            }
            StmtKind::Block(block) => self.block(block),
            StmtKind::Switch { subject, cases } => {
                self.word("switch (");
                self.expr(subject);
                self.word(") ");
                self.braces(|p| cases.iter().for_each(|case| p.switch_case(case)));
            }
            StmtKind::For {
                annotations,
                init,
                condition,
                update,
                body,
            } => {
                self.annotations(annotations, false);
                self.word("for (");
                self.list(init, Printer::simple);
                self.word("; ");
                self.expr(condition);
                self.word("; ");
                self.list(update, Printer::simple);
                self.word(") ");
                self.stmt_inline(body);
            }
            StmtKind::ForIn {
                annotations,
                variable,
                collection,
                body,
            } => {
                self.annotations(annotations, false);
                self.word("for (");
                self.annotations(&variable.annotations, false);
                self.type_ref(&variable.ty);
                self.word(" ");
                self.word(&variable.name.name);
                self.word(" in ");
                self.expr(collection);
                self.word(") ");
                self.stmt_inline(body);
            }
            StmtKind::Break => self.word("break;"),
            StmtKind::Continue => self.word("continue;"),
            StmtKind::Return(None) => self.word("return;"),
            StmtKind::Return(Some(value)) => {
                self.word("return ");
                self.expr(value);
                self.word(";");
            }
            StmtKind::Exit => self.word("exit;"),
            StmtKind::Const(_) | StmtKind::Var(_) | StmtKind::Instantiation(_) => {
                // Only incorrect programs have a declaration in this position; braces make the text parse again.
                self.word("{\n");
                self.stmt(stmt);
                self.word("}");
            }
        }
    }

    /// Prints an assignment, call or declaration without its semicolon.
    fn simple(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Assign { left, op, right } => {
                self.expr(left);
                self.word(" ");
                self.word(op.map_or("", BinaryOp::as_str));
                self.word("= ");
                self.expr(right);
            }
            StmtKind::Call(call) => self.expr(call),
            StmtKind::Var(d) => self.var_without_semicolon(d),
            _ => {}
        }
    }

    fn switch_case(&mut self, case: &SwitchCase) {
        self.line_start();
        self.expr(&case.label);
        self.word(":");
        if let Some(body) = &case.body {
            self.word(" ");
            self.block(body);
        }
        self.word("\n");
    }

    pub(super) fn state(&mut self, state: &State) {
        self.annotations(&state.annotations, true);
        self.line_start();
        self.word("state ");
        self.word(&state.name.name);
        self.word(" ");
        self.braces(|p| {
            state.stmts.iter().for_each(|stmt| p.stmt(stmt));
            match &state.transition {
                Transition::None => {}
                Transition::Direct(target) => p.line(&format!("transition {target};")),
                Transition::Select(select) => {
                    p.line_start();
                    p.word("transition select(");
                    p.list(&select.keys, Printer::expr);
                    p.word(") ");
                    p.braces(|p| {
                        for case in &select.cases {
                            p.line_start();
                            p.expr(&case.keyset);
                            p.word(&format!(": {};\n", case.target));
                        }
                    });
                    p.word("\n");
                }
            }
        });
        self.word("\n");
    }
}
