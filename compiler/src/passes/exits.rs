//! Pass: exits.
//!
//! Input: the elaborated bodies of controls and actions. Output: the same bodies as statements of the IR. Invariant: an `exit` only ends the
//! pipeline; the results of the enclosing calls are stored before it.
//!
//! An `exit` copies out the results of the enclosing calls (P4_16 spec § 12.5). In the body of a control, the copies precede the `exit`. An
//! action of a table cannot contain the copies, which differ between applications of the table. Such an action sets a flag instead, and
//! each application tests the flag.

use std::collections::BTreeSet;

use super::inlined::{self, has_exit, AtExit, InlinedProgram};
use crate::diag::Diagnostics;
use crate::ir::{
    walk, ActionId, Apply, Effect, Expr, FieldRef, Label, Objects, Scalar, Site, Source, Stmt,
    StmtKind,
};

/// The lowered bodies of controls and actions, each in the order of the input.
pub struct Lowered {
    /// Bodies of controls.
    pub controls: Vec<Vec<Stmt>>,
    /// Bodies of actions.
    pub actions: Vec<Vec<Stmt>>,
}

/// Lowers all `exit` statements. An action with an `exit` returns to the application of its table if results must be stored there first.
pub fn lower(
    program: &mut InlinedProgram,
    controls: Vec<Vec<inlined::Stmt>>,
    diagnostics: &mut Diagnostics,
) -> Lowered {
    let mut flag_setters = BTreeSet::new();
    for body in &controls {
        collect(body, program, &mut flag_setters);
    }
    let mut flag = None;
    if !flag_setters.is_empty() {
        let name = program.unique("exited");
        flag = Some(program.objects.storage.add_scalar(name, Scalar::Bool));
    }
    let mut actions = Vec::with_capacity(program.action_bodies.len());
    for (index, body) in (0..).zip(std::mem::take(&mut program.action_bodies)) {
        let flag_to_set = flag.filter(|_| flag_setters.contains(&ActionId(index)));
        let exit = match flag_to_set {
            Some(flag) => Exit::SetFlag(flag, program.label()),
            None => Exit::End,
        };
        actions.push(action(body, exit, &program.objects, diagnostics));
    }
    let mut lowering = Lowering {
        diagnostics,
        objects: &program.objects,
        exit: Exit::End,
        exit_flag: flag.map(|flag| (flag, &flag_setters)),
    };
    let controls = controls.into_iter().map(|body| lowering.body(body));
    Lowered {
        controls: controls.collect(),
        actions,
    }
}

/// Collects the actions that must set the exit flag: they contain an `exit`, and an application of their table has results to store.
fn collect(
    body: &[inlined::Stmt],
    program: &InlinedProgram,
    flag_setters: &mut BTreeSet<ActionId>,
) {
    walk(body, &mut |stmt| {
        let inlined::StmtKind::Apply(apply) = &stmt.kind else {
            return;
        };
        if !apply.own.stores.is_empty() {
            let actions = program.objects.table(apply.table).actions.iter();
            flag_setters.extend(
                actions
                    .map(|action| action.action)
                    .filter(|action| has_exit(&program.action_bodies[action.index()])),
            );
        }
    });
}

/// Lowers the body of an action. `exit`: the statements that replace each `exit`.
fn action(
    body: Vec<inlined::Stmt>,
    exit: Exit,
    objects: &Objects,
    diagnostics: &mut Diagnostics,
) -> Vec<Stmt> {
    let source = body.first().map(|first| first.source.clone());
    let mut lowering = Lowering {
        diagnostics,
        objects,
        exit,
        exit_flag: None,
    };
    let body = lowering.body(body);
    match (exit, source) {
        (Exit::SetFlag(_, label), Some(source)) => {
            vec![statement(StmtKind::Block { label, body }, &source)]
        }
        _ => body,
    }
}

/// The statements to which an `exit` is lowered.
#[derive(Clone, Copy)]
enum Exit {
    /// The end of the pipeline.
    End,
    /// A store to the exit flag, and a break out of the action's block.
    SetFlag(FieldRef, Label),
}

/// The lowering of one body.
struct Lowering<'p> {
    diagnostics: &'p mut Diagnostics,
    objects: &'p Objects,
    exit: Exit,
    /// The exit flag, and the actions that set it; `None` in actions, or if no action sets it.
    exit_flag: Option<(FieldRef, &'p BTreeSet<ActionId>)>,
}

impl Lowering<'_> {
    fn body(&mut self, body: Vec<inlined::Stmt>) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            self.stmt(stmt, &mut out);
        }
        out
    }

    fn stmt(&mut self, stmt: inlined::Stmt, out: &mut Vec<Stmt>) {
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
                Exit::SetFlag(flag, label) => {
                    out.push(set(flag, true, &source));
                    StmtKind::Break(label)
                }
            },
            inlined::StmtKind::Apply(apply) => return self.apply(*apply, source, out),
            // Elaboration reports these, or the pass `externs` or the pass of their block removes them.
            inlined::StmtKind::Own(_) => {
                let what = "a control or an action has a statement of another block";
                self.diagnostics.follow_up(Some(source.span), what);
                return;
            }
        };
        out.push(Stmt { kind, source });
    }

    /// Emits a table application, followed by a test of the exit flag if an action of the table may set it.
    fn apply(&mut self, apply: inlined::Apply, source: Source, out: &mut Vec<Stmt>) {
        let inlined::Apply { table, then, own } = apply;
        let AtExit { stores } = own;
        let mut then = then.map(|body| self.body(body));
        let flag = self.exit_flag.and_then(|(flag, flag_setters)| {
            let mut actions = self.objects.table(table).actions.iter();
            let may_set_flag = actions.any(|action| flag_setters.contains(&action.action));
            may_set_flag.then_some(flag)
        });
        let mut after = None;
        if let Some(flag) = flag {
            let exit = exit_if_set(flag, self.body(stores), &source);
            match then.bodies().into_iter().all(Vec::is_empty) {
                true => after = Some(exit),
                false => {
                    for body in then.bodies_mut() {
                        body.insert(0, exit.clone());
                    }
                }
            }
        }
        let apply = Apply {
            table,
            then,
            own: Site::default(),
        };
        out.push(Stmt {
            kind: StmtKind::Apply(Box::new(apply)),
            source,
        });
        out.extend(after);
    }
}

/// A statement that tests the exit flag, and if it is set, stores the results and exits. The flag is cleared for the next pipeline, which
/// shares the metadata.
fn exit_if_set(flag: FieldRef, copies: Vec<Stmt>, source: &Source) -> Stmt {
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

/// Creates a statement that stores `value` in the exit flag.
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
