//! `exit` in the actions of tables that are applied below a call with copies to make.
//!
//! An `exit` passes out what the calls around it have done so far (spec § 12.5). In a body the copies stand right before
//! it. An action of a table cannot make them: it does not know from where the table was applied. So it says by a
//! variable that it wants to exit, and each application of the table looks there first.

use std::collections::BTreeSet;

use super::Elaborator;
use crate::ir::{
    ActionId, Apply, Expr, FieldRef, FlatProgram, Label, Scalar, Source, Stmt, StmtKind,
};

impl Elaborator<'_> {
    /// Lets actions that exit return to where their table was applied, if there is something to store first.
    pub fn exit_from_actions(&mut self) {
        let mut pipelines = std::mem::take(&mut self.program.pipelines);
        let mut telling = BTreeSet::new();
        for pipeline in &pipelines {
            collect(&pipeline.body, &self.program, &mut telling);
        }
        if !telling.is_empty() {
            let name = self.unique("exited");
            let flag = self.program.storage.add_scalar(name, Scalar::Bool);
            for action in &telling {
                let label = self.label();
                let action = &mut self.program.actions[action.index()];
                let mut body = std::mem::take(&mut action.body);
                let Some(source) = body.first().map(|first| first.source.clone()) else {
                    continue;
                };
                tell(&mut body, flag, label);
                action.body = vec![statement(StmtKind::Block { label, body }, &source)];
            }
            for pipeline in &mut pipelines {
                listen(&mut pipeline.body, &self.program, &telling, flag);
            }
        }
        self.program.pipelines = pipelines;
    }
}

/// Whether a body has an `exit`.
pub fn exits(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Exit => true,
        StmtKind::If { then, other, .. } => exits(then) || exits(other),
        StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => exits(body),
        _ => false,
    })
}

/// The actions that must tell: those that exit, of tables whose application has something to store then.
fn collect(body: &[Stmt], program: &FlatProgram, telling: &mut BTreeSet<ActionId>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::If { then, other, .. } => {
                collect(then, program, telling);
                collect(other, program, telling);
            }
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => {
                collect(body, program, telling)
            }
            StmtKind::Apply(apply) => {
                if !apply.exit.is_empty() {
                    let actions = program.table(apply.table).actions.iter();
                    telling.extend(
                        actions
                            .map(|action| action.action)
                            .filter(|action| exits(&program.actions[action.index()].body)),
                    );
                }
                for body in apply.bodies() {
                    collect(body, program, telling);
                }
            }
            _ => {}
        }
    }
}

/// Sets the variable and leaves the action in place of each `exit`.
fn tell(body: &mut Vec<Stmt>, flag: FieldRef, label: Label) {
    for mut stmt in std::mem::take(body) {
        match &mut stmt.kind {
            StmtKind::Exit => {
                body.push(set(flag, true, &stmt.source));
                stmt.kind = StmtKind::Break(label);
            }
            StmtKind::If { then, other, .. } => {
                tell(then, flag, label);
                tell(other, flag, label);
            }
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => tell(body, flag, label),
            _ => {}
        }
        body.push(stmt);
    }
}

/// Exits behind each application of a table with such an action.
fn listen(
    body: &mut Vec<Stmt>,
    program: &FlatProgram,
    telling: &BTreeSet<ActionId>,
    flag: FieldRef,
) {
    for mut stmt in std::mem::take(body) {
        match &mut stmt.kind {
            StmtKind::If { then, other, .. } => {
                listen(then, program, telling, flag);
                listen(other, program, telling, flag);
            }
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => {
                listen(body, program, telling, flag);
            }
            StmtKind::Apply(apply) => {
                for body in apply.bodies_mut() {
                    listen(body, program, telling, flag);
                }
                let actions = &program.table(apply.table).actions;
                if actions
                    .iter()
                    .any(|action| telling.contains(&action.action))
                {
                    let leave = leave(apply, flag, &stmt.source);
                    if apply.bodies().all(Vec::is_empty) {
                        body.extend([stmt, leave]);
                        continue;
                    }
                    match apply.actions.is_empty() {
                        true => {
                            apply.hit.insert(0, leave.clone());
                            apply.miss.insert(0, leave);
                        }
                        false => {
                            for (_, body) in &mut apply.actions {
                                body.insert(0, leave.clone());
                            }
                            apply.other.insert(0, leave);
                        }
                    }
                }
            }
            _ => {}
        }
        body.push(stmt);
    }
}

/// Exits if the variable says so. It is free again then, as the same metadata may go on to the other pipeline.
fn leave(apply: &mut Apply, flag: FieldRef, source: &Source) -> Stmt {
    let mut then = vec![set(flag, false, source)];
    then.append(&mut apply.exit);
    then.push(statement(StmtKind::Exit, source));
    let kind = StmtKind::If {
        cond: Expr::field(flag, Scalar::Bool),
        then,
        other: Vec::new(),
        inline: false,
    };
    statement(kind, source)
}

fn set(flag: FieldRef, value: bool, source: &Source) -> Stmt {
    let kind = StmtKind::Assign {
        target: flag.into(),
        value: Expr::Bool(value),
    };
    statement(kind, source)
}

fn statement(kind: StmtKind, source: &Source) -> Stmt {
    Stmt {
        kind,
        source: source.clone(),
    }
}
