//! What holds between passes and types cannot say. Debug builds check it, and so do all tests; a violation is a mistake
//! of a pass, never of a program.

use std::collections::{BTreeMap, BTreeSet};

use super::inlined::{self, BlockCode, InlinedProgram, StmtKind as Inlined};
use crate::ir::{
    self, Effect, Expr, FlatProgram, Label, ParserStmtKind, Pipeline, StateRef, StmtKind, Storage,
    TableId, Transition,
};

/// What is wrong with a program, for whoever mends the pass.
type Violation = String;

/// Panics in debug builds if a pass has broken its promise.
pub fn demand(pass: &str, holds: Result<(), Violation>) {
    if cfg!(debug_assertions) {
        if let Err(violation) = holds {
            panic!("a pass up to `{pass}` has a mistake: {violation}");
        }
    }
}

/// The inlined program: each kind of statement stands where it may, and every break leaves a block around it.
pub fn inlined(program: &InlinedProgram) -> Result<(), Violation> {
    for block in &program.blocks {
        match &block.code {
            BlockCode::Parser(states) => {
                for code in states.iter().filter_map(|state| state.code.as_ref()) {
                    stands(&code.body, Place::Parser, &mut Vec::new())?;
                }
            }
            BlockCode::Control(body) => stands(body, Place::Control, &mut Vec::new())?,
            // The passes for these report what does not belong there.
            BlockCode::Checksums(_) | BlockCode::Deparser(_) => {}
        }
    }
    for body in &program.action_bodies {
        stands(body, Place::Action, &mut Vec::new())?;
    }
    match program.action_bodies.len() == program.objects.actions.len() {
        true => Ok(()),
        false => Err("not every action has a body".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Parser,
    Control,
    Action,
}

fn stands(body: &[inlined::Stmt], place: Place, around: &mut Vec<Label>) -> Result<(), Violation> {
    for stmt in body {
        let allowed = match &stmt.kind {
            Inlined::Effect(_) | Inlined::Block { .. } | Inlined::Loop { .. } => true,
            Inlined::If { cond, .. } => {
                place != Place::Parser || matches!(cond, Expr::Field { .. })
            }
            Inlined::Break(label) => around.contains(label),
            Inlined::Exit => place != Place::Parser,
            Inlined::Apply(_) => place == Place::Control,
            Inlined::Take(_) | Inlined::Enter { .. } => place == Place::Parser,
            Inlined::Checksum(_) | Inlined::Emit(_) => false,
        };
        if !allowed {
            return Err(format!("{place:?} has {stmt:?}"));
        }
        let label = match &stmt.kind {
            Inlined::Block { label, .. } | Inlined::Loop { label, .. } => Some(*label),
            _ => None,
        };
        around.extend(label);
        for body in stmt.kind.bodies() {
            stands(body, place, around)?;
        }
        if label.is_some() {
            around.pop();
        }
    }
    Ok(())
}

/// The finished program: see the invariants of the passes.
pub fn flat(program: &FlatProgram) -> Result<(), Violation> {
    let storage = &program.objects.storage;
    for parser in &program.parsers {
        states(parser, storage)?;
    }
    for Pipeline { name, body, .. } in &program.pipelines {
        leaves_blocks_around(body, &mut Vec::new())?;
        stores_fit(body, storage)?;
        sites(body).map_err(|what| format!("{name}: {what}"))?;
    }
    for body in &program.action_bodies {
        leaves_blocks_around(body, &mut Vec::new())?;
        stores_fit(body, storage)?;
        if applied(body).next().is_some() {
            return Err("an action applies a table".to_owned());
        }
    }
    let mut meters = program.objects.meters.iter();
    match meters.find(|meter| meter.direct && meter.table.is_some() && meter.result.is_none()) {
        Some(meter) => Err(format!("direct meter {} has no field", meter.meta.name)),
        None => Ok(()),
    }
}

/// States are named once, lead to states that there are, and can all be reached.
fn states(parser: &ir::Parser, storage: &Storage) -> Result<(), Violation> {
    let mut names = BTreeSet::new();
    let mut reached = BTreeSet::from([0]);
    for state in &parser.states {
        if !names.insert(&state.name) {
            return Err(format!("two states of {} are {}", parser.name, state.name));
        }
        for stmt in &state.body {
            if let ParserStmtKind::Effect(effect) = &stmt.kind {
                fits(effect, storage)?;
            }
        }
        let next: Vec<StateRef> = match &state.transition {
            Transition::Always(next) => vec![*next],
            Transition::Select { cases, .. } => cases.iter().map(|(_, next)| *next).collect(),
        };
        for next in next {
            if let StateRef::State(id) = next {
                if id.index() >= parser.states.len() {
                    return Err(format!("{} leads to no state", state.name));
                }
                reached.insert(id.index());
            }
        }
    }
    match reached.len() == parser.states.len().max(1) {
        true => Ok(()),
        false => Err(format!("not all states of {} are reached", parser.name)),
    }
}

fn leaves_blocks_around(body: &[ir::Stmt], around: &mut Vec<Label>) -> Result<(), Violation> {
    for stmt in body {
        let label = match &stmt.kind {
            StmtKind::Block { label, .. } | StmtKind::Loop { label, .. } => Some(*label),
            StmtKind::Break(label) if !around.contains(label) => {
                return Err(format!("{stmt:?} leaves no block"));
            }
            _ => None,
        };
        around.extend(label);
        for body in stmt.kind.bodies() {
            leaves_blocks_around(body, around)?;
        }
        if label.is_some() {
            around.pop();
        }
    }
    Ok(())
}

/// A field gets values of its own width.
fn fits(effect: &Effect, storage: &Storage) -> Result<(), Violation> {
    let Effect::Assign { target, value } = effect else {
        return Ok(());
    };
    let field = storage.field(*target).scalar();
    let (field, value) = (
        field.map(ir::Scalar::width),
        value.scalar().map(ir::Scalar::width),
    );
    match field == value {
        true => Ok(()),
        false => Err(format!("{effect:?} stores {value:?} bits in {field:?}")),
    }
}

fn stores_fit(body: &[ir::Stmt], storage: &Storage) -> Result<(), Violation> {
    let mut all = Ok(());
    ir::walk(body, &mut |stmt| {
        if let (StmtKind::Effect(effect), Ok(())) = (&stmt.kind, &all) {
            all = fits(effect, storage);
        }
    });
    all
}

fn applied(body: &[ir::Stmt]) -> impl Iterator<Item = &ir::Apply> {
    let mut applied = Vec::new();
    ir::walk(body, &mut |stmt| {
        if let StmtKind::Apply(apply) = &stmt.kind {
            applied.push(&**apply);
        }
    });
    applied.into_iter()
}

/// A table that is applied in several places, and no other, is told from where.
fn sites(body: &[ir::Stmt]) -> Result<(), Violation> {
    let mut places: BTreeMap<TableId, (usize, usize)> = BTreeMap::new();
    for apply in applied(body) {
        let (all, told) = places.entry(apply.table).or_default();
        *all += 1;
        *told += usize::from(apply.site.is_some());
    }
    let is_right = |&(all, told): &(usize, usize)| told == if all > 1 { all } else { 0 };
    match places.iter().find(|(_, places)| !is_right(places)) {
        Some((table, _)) => Err(format!("{table:?} is not told from where it is applied")),
        None => Ok(()),
    }
}
