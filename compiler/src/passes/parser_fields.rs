//! Pass: fields of parsers.
//!
//! Input: parser states, which branch on expressions. Output: the same states. Invariants: conditions and keys of `select` are fields, the
//! only values on which a parser of the target can branch. Unreachable statements after a break are removed.

use super::inlined::{BlockCode, InlinedProgram, StateCode, Stmt, StmtKind, Transition};
use crate::ir::{Effect, Expr, Objects, Scalar, Source};
use crate::names::{join, Names};

/// Stores conditions and keys that are not fields in variables.
pub fn store_conditions(program: &mut InlinedProgram) {
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
                fields.store_conditions_in(code);
            }
        }
    }
}

/// Stores conditions and keys of parser states in new variables.
struct Fields<'p> {
    objects: &'p mut Objects,
    names: &'p mut Names,
    /// Prefix of the names of new variables.
    scope: String,
}

impl Fields<'_> {
    /// Stores the conditions and keys of one parser state.
    fn store_conditions_in(&mut self, code: &mut StateCode) {
        self.scope.clone_from(&code.scope);
        // Keys are evaluated at the end of the body, whose statements may change their fields.
        if let Transition::Select { keys, .. } = &mut code.transition {
            for key in keys {
                if !matches!(key.value, Expr::Field { .. }) {
                    let store = self.store_in_variable(&mut key.value, key.ty, &key.source);
                    code.body.push(store);
                }
            }
        }
        let body = std::mem::take(&mut code.body);
        self.conditions(body, &mut code.body);
    }

    /// Replaces a value by a variable, and returns the statement that stores the value in it.
    fn store_in_variable(&mut self, value: &mut Expr, ty: Scalar, source: &Source) -> Stmt {
        let name = self.names.unique(&join(&self.scope, "tmp"));
        let field = self.objects.storage.add_scalar(name, ty);
        let value = std::mem::replace(value, Expr::field(field, ty));
        let target = field.into();
        Stmt {
            kind: Effect::Assign { target, value }.into(),
            source: source.clone(),
        }
    }

    /// Appends `code` to `out`, with a field as each condition. Returns whether the end of `code` is reachable.
    fn conditions(&mut self, code: Vec<Stmt>, out: &mut Vec<Stmt>) -> bool {
        for mut stmt in code {
            let end_is_reachable = match &mut stmt.kind {
                StmtKind::If {
                    cond, then, other, ..
                } => {
                    if !matches!(cond, Expr::Field { .. }) {
                        out.push(self.store_in_variable(cond, Scalar::Bool, &stmt.source));
                    }
                    let mut ends = [false; 2];
                    for (end, branch) in ends.iter_mut().zip([then, other]) {
                        let code = std::mem::take(branch);
                        *end = self.conditions(code, branch);
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
            if !end_is_reachable {
                return false;
            }
        }
        true
    }
}
