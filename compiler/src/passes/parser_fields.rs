//! Pass: fields of parsers.
//!
//! Input: parser states, which branch on expressions. Output: the same. Invariant: conditions and keys of `select` are fields, as the
//! target can branch on nothing else in a parser; statements after an unconditional exit are removed.

use super::inlined::{BlockCode, InlinedProgram, StateCode, Stmt, StmtKind, Transition};
use crate::ir::{Effect, Expr, Objects, Scalar, Source};
use crate::names::{join, Names};

/// Stores conditions and keys that are not fields in variables.
pub fn hold(program: &mut InlinedProgram) {
    let mut fields = Fields {
        objects: &mut program.objects,
        names: &mut program.names,
        scope: String::new(),
    };
    for block in &mut program.blocks {
        let BlockCode::Parser(states) = &mut block.code else {
            continue;
        };
        for state in states {
            if let Some(code) = &mut state.code {
                fields.hold_in(code);
            }
        }
    }
}

struct Fields<'p> {
    objects: &'p mut Objects,
    names: &'p mut Names,
    /// Prefix of the names of new variables.
    scope: String,
}

impl Fields<'_> {
    fn hold_in(&mut self, code: &mut StateCode) {
        self.scope.clone_from(&code.scope);
        // Keys are evaluated at the end of the body, whose statements may change their fields.
        if let Transition::Select { keys, .. } = &mut code.transition {
            for key in keys {
                if !matches!(key.value, Expr::Field { .. }) {
                    let held = self.held(&mut key.value, key.ty, &key.source);
                    code.body.push(held);
                }
            }
        }
        let body = std::mem::take(&mut code.body);
        self.conditions(body, &mut code.body);
    }

    /// Replaces a value by a variable, and returns the statement that stores the value in it.
    fn held(&mut self, value: &mut Expr, ty: Scalar, source: &Source) -> Stmt {
        let name = self.names.unique(&join(&self.scope, "tmp"));
        let field = self.objects.storage.add_scalar(name, ty);
        let value = std::mem::replace(value, Expr::field(field, ty));
        let target = field.into();
        Stmt {
            kind: Effect::Assign { target, value }.into(),
            source: source.clone(),
        }
    }

    /// Appends the code with a field for each condition. Returns whether its end is reachable.
    fn conditions(&mut self, code: Vec<Stmt>, out: &mut Vec<Stmt>) -> bool {
        for mut stmt in code {
            let goes_on = match &mut stmt.kind {
                StmtKind::If {
                    cond, then, other, ..
                } => {
                    if !matches!(cond, Expr::Field { .. }) {
                        out.push(self.held(cond, Scalar::Bool, &stmt.source));
                    }
                    let mut ends = [false; 2];
                    for (end, way) in ends.iter_mut().zip([then, other]) {
                        let code = std::mem::take(way);
                        *end = self.conditions(code, way);
                    }
                    ends.contains(&true)
                }
                StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => {
                    let code = std::mem::take(body);
                    self.conditions(code, body);
                    true
                }
                StmtKind::Break(_) => false,
                _ => true,
            };
            out.push(stmt);
            if !goes_on {
                return false;
            }
        }
        true
    }
}
