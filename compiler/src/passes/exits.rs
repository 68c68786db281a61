//! Pass: exits.
//!
//! Input: the elaborated bodies of controls and actions. Output: the same as statements of the IR. Invariant: an `exit` only ends the
//! pipeline; the values that enclosing calls copy out are stored before it.
//!
//! An `exit` copies out the results of the enclosing calls (spec § 12.5). In a body the copies are right before it. An action of a table
//! cannot contain them, as they depend on the application of the table. It sets a variable instead, which each application tests.

use std::collections::BTreeSet;

use super::inlined::{self, exits, walk, InlinedProgram};
use crate::ir::{
    ActionId, Apply, Effect, Expr, FieldRef, Label, Objects, Scalar, Source, Stmt, StmtKind,
};

/// The lowered bodies of controls and actions, each in the order of the input.
pub struct Lowered {
    /// Of controls.
    pub controls: Vec<Vec<Stmt>>,
    /// Of actions.
    pub actions: Vec<Vec<Stmt>>,
}

/// Lowers `exit`. An exiting action returns to its table's application if values must be stored there first.
pub fn lower(program: &mut InlinedProgram, controls: Vec<Vec<inlined::Stmt>>) -> Lowered {
    let mut telling = BTreeSet::new();
    for body in &controls {
        collect(body, program, &mut telling);
    }
    let mut flag = None;
    if !telling.is_empty() {
        let name = program.unique("exited");
        flag = Some(program.objects.storage.add_scalar(name, Scalar::Bool));
    }
    let mut actions = Vec::with_capacity(program.action_bodies.len());
    for (index, body) in (0..).zip(std::mem::take(&mut program.action_bodies)) {
        let tells = flag.filter(|_| telling.contains(&ActionId(index)));
        let exit = match tells {
            Some(flag) => Exit::Tell(flag, program.label()),
            None => Exit::End,
        };
        actions.push(action(body, exit, &program.objects));
    }
    let lowering = Lowering {
        objects: &program.objects,
        exit: Exit::End,
        listening: flag.map(|flag| (flag, &telling)),
    };
    let controls = controls.into_iter().map(|body| lowering.body(body));
    Lowered {
        controls: controls.collect(),
        actions,
    }
}

/// Collects the actions that must set the exit flag: they exit, and an application of their table has values to store.
fn collect(body: &[inlined::Stmt], program: &InlinedProgram, telling: &mut BTreeSet<ActionId>) {
    walk(body, &mut |stmt| {
        let inlined::StmtKind::Apply(apply) = &stmt.kind else {
            return;
        };
        if !apply.exit.is_empty() {
            let actions = program.objects.table(apply.table).actions.iter();
            telling.extend(
                actions
                    .map(|action| action.action)
                    .filter(|action| exits(&program.action_bodies[action.index()])),
            );
        }
    });
}

fn action(body: Vec<inlined::Stmt>, exit: Exit, objects: &Objects) -> Vec<Stmt> {
    let source = body.first().map(|first| first.source.clone());
    let lowering = Lowering {
        objects,
        exit,
        listening: None,
    };
    let body = lowering.body(body);
    match (exit, source) {
        (Exit::Tell(_, label), Some(source)) => {
            vec![statement(StmtKind::Block { label, body }, &source)]
        }
        _ => body,
    }
}

/// The lowering of an `exit`.
#[derive(Clone, Copy)]
enum Exit {
    /// The end of the pipeline.
    End,
    /// Sets the flag and leaves the block of the action.
    Tell(FieldRef, Label),
}

struct Lowering<'p> {
    objects: &'p Objects,
    exit: Exit,
    /// The flag, and the actions that set it.
    listening: Option<(FieldRef, &'p BTreeSet<ActionId>)>,
}

impl Lowering<'_> {
    fn body(&self, body: Vec<inlined::Stmt>) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            self.stmt(stmt, &mut out);
        }
        out
    }

    fn stmt(&self, stmt: inlined::Stmt, out: &mut Vec<Stmt>) {
        let source = stmt.source;
        let kind = match stmt.kind {
            inlined::StmtKind::Effect(effect) => StmtKind::Effect(effect),
            inlined::StmtKind::If {
                cond,
                then,
                other,
                inline,
            } => StmtKind::If {
                cond,
                then: self.body(then),
                other: self.body(other),
                inline,
            },
            inlined::StmtKind::Block { label, body } => StmtKind::Block {
                label,
                body: self.body(body),
            },
            inlined::StmtKind::Loop { label, body } => StmtKind::Loop {
                label,
                body: self.body(body),
            },
            inlined::StmtKind::Break(label) => StmtKind::Break(label),
            inlined::StmtKind::Exit => match self.exit {
                Exit::End => StmtKind::Exit,
                Exit::Tell(flag, label) => {
                    out.push(set(flag, true, &source));
                    StmtKind::Break(label)
                }
            },
            inlined::StmtKind::Apply(apply) => return self.apply(*apply, source, out),
            // Reported by elaboration, or removed by the pass `externs` or the pass of their block.
            inlined::StmtKind::Call(_)
            | inlined::StmtKind::Take(_)
            | inlined::StmtKind::Enter { .. }
            | inlined::StmtKind::Checksum(_)
            | inlined::StmtKind::Emit(_) => return,
        };
        out.push(Stmt { kind, source });
    }

    /// Emits an application, followed by the exit if an action sets the flag.
    fn apply(&self, apply: inlined::Apply, source: Source, out: &mut Vec<Stmt>) {
        let inlined::Apply { table, then, exit } = apply;
        let mut then = then.map(|body| self.body(body));
        let flag = self.listening.and_then(|(flag, telling)| {
            let mut actions = self.objects.table(table).actions.iter();
            let listens = actions.any(|action| telling.contains(&action.action));
            listens.then_some(flag)
        });
        let mut behind = None;
        if let Some(flag) = flag {
            let leave = leave(flag, self.body(exit), &source);
            match then.bodies().into_iter().all(Vec::is_empty) {
                true => behind = Some(leave),
                false => {
                    for body in then.bodies_mut() {
                        body.insert(0, leave.clone());
                    }
                }
            }
        }
        let apply = Apply {
            table,
            then,
            site: None,
        };
        out.push(Stmt {
            kind: StmtKind::Apply(Box::new(apply)),
            source,
        });
        out.extend(behind);
    }
}

/// Exits if the flag is set. The flag is cleared, as metadata is kept for the next pipeline.
fn leave(flag: FieldRef, copies: Vec<Stmt>, source: &Source) -> Stmt {
    let mut then = vec![set(flag, false, source)];
    then.extend(copies);
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
    let effect = Effect::Assign {
        target: flag.into(),
        value: Expr::Bool(value),
    };
    statement(effect.into(), source)
}

fn statement(kind: StmtKind, source: &Source) -> Stmt {
    Stmt {
        kind,
        source: source.clone(),
    }
}
