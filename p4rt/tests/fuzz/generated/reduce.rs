//! Reduction of a program that fails to a small one that fails as well.

use std::mem;

use super::program::{Argument, Block, Expr, Program, Statement, Typed};

/// Removes statements, and replaces expressions by parts of them or by 0, as long as the program fails.
pub fn reduce(mut program: Program, fails: impl Fn(&Program) -> bool) -> Program {
    let mut at = 0;
    loop {
        let mut smaller = program.clone();
        let mut edit = Edit { left: Some(at) };
        edit.program(&mut smaller);
        match edit.left {
            // There is no such edit. All edits may be possible again after one that succeeded, but another round rarely helps.
            Some(_) => return program,
            None if fails(&smaller) => program = smaller,
            None => at += 1,
        }
    }
}

/// One change of a program, the one after `left` others; `None` after it.
struct Edit {
    left: Option<usize>,
}

impl Edit {
    /// Counts a place that can be changed, and returns whether it is the wanted one.
    fn is_here(&mut self) -> bool {
        let here = self.left == Some(0);
        self.left = match here {
            true => None,
            false => self.left.map(|left| left - 1),
        };
        here
    }

    fn program(&mut self, program: &mut Program) {
        for control in &mut program.controls {
            self.block(&mut control.body);
            for table in &mut control.tables {
                if !table.entries.is_empty() && self.is_here() {
                    table.entries.pop();
                }
                for (_, key) in &mut table.keys {
                    self.value(key);
                }
            }
            for action in &mut control.actions {
                self.block(&mut action.body);
            }
        }
        for function in &mut program.functions {
            self.block(&mut function.body);
        }
    }

    fn block(&mut self, block: &mut Block) {
        for at in 0..block.len() {
            // Without these, later statements could read undefined values.
            let is_needed = matches!(
                block[at],
                Statement::Declare(..)
                    | Statement::SetValid(..)
                    | Statement::SetHeader(..)
                    | Statement::Copy(..)
                    | Statement::Return(Some(_))
            );
            if !is_needed && self.is_here() {
                block.remove(at);
                return;
            }
            self.statement(&mut block[at]);
        }
    }

    fn statement(&mut self, statement: &mut Statement) {
        match statement {
            Statement::Declare(_, value)
            | Statement::Assign(.., value)
            | Statement::Return(Some(value)) => {
                self.value(value);
            }
            Statement::If(value, yes, no) => {
                self.value(value);
                self.block(yes);
                self.block(no);
            }
            Statement::CallAction(_, arguments) | Statement::CallFunction(_, arguments) => {
                self.arguments(arguments)
            }
            Statement::IfHit(_, _, yes, no) => {
                self.block(yes);
                self.block(no);
            }
            Statement::SwitchAction(_, cases, default) => {
                cases.iter_mut().for_each(|(_, block)| self.block(block));
                default.iter_mut().for_each(|block| self.block(block));
            }
            Statement::Switch(value, cases, default) => {
                self.value(value);
                cases.iter_mut().for_each(|(_, block)| self.block(block));
                default.iter_mut().for_each(|block| self.block(block));
            }
            Statement::For(_, _, last, body) => {
                if *last > 0 && self.is_here() {
                    *last -= 1;
                }
                self.block(body);
            }
            Statement::ReadRegister(_, _, index) => self.value(index),
            Statement::WriteRegister(_, index, value) => {
                self.value(index);
                self.value(value);
            }
            Statement::SetValid(_, values)
            | Statement::SetHeader(_, values)
            | Statement::SetStruct(_, values) => {
                values.iter_mut().for_each(|value| self.value(value))
            }
            Statement::Apply(_)
            | Statement::Break
            | Statement::Continue
            | Statement::SetInvalid(_)
            | Statement::Copy(..)
            | Statement::Exit
            | Statement::Return(None) => {}
        }
    }

    fn arguments(&mut self, arguments: &mut [Argument]) {
        for argument in arguments {
            if let Argument::In(value) = argument {
                self.value(value);
            }
        }
    }

    fn value(&mut self, value: &mut Typed) {
        if matches!(value.expr, Expr::Literal(_)) {
            return;
        }
        if self.is_here() {
            value.expr = Expr::Literal(0);
            return;
        }
        let ty = value.ty;
        let parts: &mut [Typed] = match &mut value.expr {
            Expr::Unary(_, a) | Expr::Slice(a, _) | Expr::Cast(a) => std::slice::from_mut(&mut **a),
            Expr::Binary(_, ab)
            | Expr::Shift(_, ab)
            | Expr::Compare(_, ab)
            | Expr::Logic(_, ab)
            | Expr::Concat(ab) => &mut **ab,
            Expr::Choose(abc) => &mut **abc,
            Expr::Call(_, arguments) => return self.arguments(arguments),
            Expr::Literal(_) | Expr::Read(_) | Expr::IsValid(_) => return,
        };
        for part in parts.iter_mut() {
            if part.ty == ty && self.is_here() {
                let part = mem::replace(&mut part.expr, Expr::Literal(0));
                value.expr = part;
                return;
            }
        }
        parts.iter_mut().for_each(|part| self.value(part));
    }
}
