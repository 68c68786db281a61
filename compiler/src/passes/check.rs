//! Check of invariants between passes that types cannot express, in all builds. A violation is a fault of a pass, not an error of the
//! compiled program: it is reported as an internal error.

use std::collections::{BTreeMap, BTreeSet};

use super::entries;
use super::externs::call::{Callee, ExternArg, Externs};
use super::inlined::{self, BlockCode, InlinedProgram, Pending, StmtKind as Inlined};
use crate::diag::{Diagnostics, ErrorReported};
use crate::ir::{
    self, CalculationInput, Checksum, Deparser, Effect, EntryKey, Expr, FieldRef, FlatProgram, Key,
    Keyset, Label, MatchKind, ParserStmtKind, Pipeline, Primitive, Scalar, StateRef, StmtKind,
    Storage, Table, TableId, Transition,
};

/// A broken invariant.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    /// The pass that must establish the invariant.
    pass: &'static str,
    /// The description of the broken invariant.
    what: String,
}

/// Attributes the description of a broken invariant to a pass.
fn of(pass: &'static str) -> impl FnOnce(String) -> Violation {
    move |what| Violation { pass, what }
}

/// Reports a broken invariant as an internal error of its pass.
///
/// # Errors
/// The invariant is broken.
pub fn report(
    holds: Result<(), Violation>,
    diagnostics: &mut Diagnostics,
) -> Result<(), ErrorReported> {
    holds.map_err(|Violation { pass, what }| {
        diagnostics.enter(pass);
        diagnostics.internal(None, what)
    })
}

/// Invariants after elaboration: extern statements and values are valid calls, whose objects are declared
/// before their uses.
pub fn elaborated(program: &InlinedProgram) -> Result<(), Violation> {
    externs_are_declared(program).map_err(of("elaborate"))
}

/// Checks that extern statements and values are valid calls, whose objects are declared before their uses.
fn externs_are_declared(program: &InlinedProgram) -> Result<(), String> {
    let Externs {
        instances, calls, ..
    } = &program.externs;
    for (position, declared) in instances.iter().enumerate() {
        let mut used = declared.args.iter().filter_map(ExternArg::object);
        if used.any(|id| id.0 >= position) {
            return Err(format!(
                "{} is instantiated before an object that it uses",
                declared.name
            ));
        }
    }
    for (position, call) in calls.iter().enumerate() {
        let object = match &call.callee {
            Callee::Method(id, _) => Some(*id),
            Callee::Function(_) | Callee::This(_) => None,
        };
        let mut used = call.args.iter().filter_map(ExternArg::object).chain(object);
        if used.any(|id| id.0 >= instances.len()) {
            return Err(format!("call {position} refers to an unknown object"));
        }
    }
    let of_target = |stmt: &inlined::Stmt| match &stmt.kind {
        Inlined::Effect(Effect::Primitive(_)) | Inlined::Own(Pending::Checksum(_)) => true,
        Inlined::Own(Pending::Call(id)) => id.index() >= calls.len(),
        _ => false,
    };
    match find(program, of_target) {
        Some(stmt) => Err(format!("elaboration leaves {stmt:?}")),
        None => Ok(()),
    }
}

/// Invariants after the pass `externs`: all extern objects, calls and results are replaced.
pub fn lowered(program: &InlinedProgram) -> Result<(), Violation> {
    externs_are_replaced(program).map_err(of("externs"))
}

/// Checks that no object, call or result of an extern is left.
fn externs_are_replaced(program: &InlinedProgram) -> Result<(), String> {
    let has_result = |expr: &Expr| {
        let mut found = false;
        expr.walk(&mut |node| found |= matches!(node, Expr::Result { .. }));
        found
    };
    let of_extern = |stmt: &inlined::Stmt| {
        matches!(stmt.kind, Inlined::Own(Pending::Call(_)))
            || stmt.kind.exprs().into_iter().any(has_result)
    };
    if let Some(stmt) = find(program, of_extern) {
        return Err(format!("the pass for externs leaves {stmt:?}"));
    }
    let Externs {
        instances, calls, ..
    } = &program.externs;
    match instances.is_empty() && calls.is_empty() {
        true => Ok(()),
        false => Err("objects or calls of externs are left".to_owned()),
    }
}

/// The first statement of any body that satisfies a predicate.
fn find(
    program: &InlinedProgram,
    predicate: impl Fn(&inlined::Stmt) -> bool,
) -> Option<&inlined::Stmt> {
    let mut found = None;
    for body in program.bodies() {
        ir::walk(body, &mut |stmt| {
            if found.is_none() && predicate(stmt) {
                found = Some(stmt);
            }
        });
    }
    found
}

/// Invariants of the inlined program: statements are allowed in their blocks, and every break leaves an enclosing block.
pub fn inlined(program: &InlinedProgram) -> Result<(), Violation> {
    statements_are_placed(program).map_err(of("parser_fields"))
}

/// Checks the statements of all blocks and actions.
fn statements_are_placed(program: &InlinedProgram) -> Result<(), String> {
    for block in &program.blocks {
        match &block.code {
            BlockCode::Parser(states) => {
                for code in states.iter().filter_map(|state| state.code.as_ref()) {
                    check_placement(&code.body, BodyKind::Parser, &mut Vec::new())?;
                }
            }
            BlockCode::Control(body) => check_placement(body, BodyKind::Control, &mut Vec::new())?,
            BlockCode::Checksums(body) => {
                check_placement(body, BodyKind::Checksums, &mut Vec::new())?;
            }
            BlockCode::Deparser(body) => {
                check_placement(body, BodyKind::Deparser, &mut Vec::new())?;
            }
        }
    }
    for body in &program.action_bodies {
        check_placement(body, BodyKind::Action, &mut Vec::new())?;
    }
    match program.action_bodies.len() == program.objects.actions.len() {
        true => Ok(()),
        false => Err("not every action has a body".to_owned()),
    }
}

/// The kind of block that contains statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyKind {
    Parser,
    Control,
    Action,
    /// A control that verifies or updates checksums. The pass `checksums` reports statements that the target does not
    /// support.
    Checksums,
    /// A deparser. The pass `deparsers` reports statements that the target does not support.
    Deparser,
}

/// Checks that each statement is allowed in its kind of block, and that each break leaves one of the enclosing blocks, whose labels are in
/// `enclosing`.
fn check_placement(
    body: &[inlined::Stmt],
    kind: BodyKind,
    enclosing: &mut Vec<Label>,
) -> Result<(), String> {
    for stmt in body {
        let allowed = match &stmt.kind {
            Inlined::Effect(_) | Inlined::Block { .. } | Inlined::Loop { .. } => true,
            Inlined::If { cond, .. } => {
                kind != BodyKind::Parser || matches!(cond, Expr::Field { .. })
            }
            Inlined::Break(label) => enclosing.contains(label),
            Inlined::Exit => kind != BodyKind::Parser,
            Inlined::Apply(_) => !matches!(kind, BodyKind::Parser | BodyKind::Action),
            Inlined::Own(Pending::Take(_) | Pending::Enter { .. }) => kind == BodyKind::Parser,
            Inlined::Own(Pending::Checksum(_)) => kind == BodyKind::Checksums,
            Inlined::Own(Pending::Emit(_)) => kind == BodyKind::Deparser,
            Inlined::Own(Pending::Call(_)) => false,
        };
        if !allowed {
            return Err(format!("{kind:?} has {stmt:?}"));
        }
        let label = match &stmt.kind {
            Inlined::Block { label, .. } | Inlined::Loop { label, .. } => Some(*label),
            _ => None,
        };
        enclosing.extend(label);
        for body in stmt.kind.bodies() {
            check_placement(body, kind, enclosing)?;
        }
        if label.is_some() {
            enclosing.pop();
        }
    }
    Ok(())
}

/// Invariants of the final program, as documented by the passes.
pub fn flat(program: &FlatProgram) -> Result<(), Violation> {
    let storage = &program.objects.storage;
    for parser in &program.parsers {
        states_are_valid(parser, storage).map_err(of("parse_states"))?;
    }
    for checksum in &program.checksums {
        checksum_is_valid(checksum, program).map_err(of("checksums"))?;
    }
    for deparser in &program.deparsers {
        deparser_is_valid(deparser, program).map_err(of("deparsers"))?;
    }
    for Pipeline { name, body, .. } in &program.pipelines {
        breaks_are_enclosed(body, &mut Vec::new()).map_err(of("exits"))?;
        stores_have_field_widths(body, storage).map_err(of("elaborate"))?;
        sites_are_consistent(body).map_err(|what| of("sites")(format!("{name}: {what}")))?;
    }
    for body in &program.action_bodies {
        breaks_are_enclosed(body, &mut Vec::new()).map_err(of("exits"))?;
        stores_have_field_widths(body, storage).map_err(of("elaborate"))?;
        if table_applications(body).next().is_some() {
            return Err(of("elaborate")("an action applies a table".to_owned()));
        }
    }
    for table in &program.objects.tables {
        let named = |what| of("entries")(format!("{}: {what}", table.meta.name));
        entries_are_valid(table).map_err(named)?;
    }
    let mut meters = program.objects.meters.iter();
    match meters.find(|meter| meter.direct && meter.table.is_some() && meter.result.is_none()) {
        Some(meter) => {
            let what = format!("direct meter {} has no field", meter.meta.name);
            Err(of("direct_meters")(what))
        }
        None => Ok(()),
    }
}

/// Checks that the condition of a checksum is a boolean, and that its target and all inputs of its calculation are fields.
fn checksum_is_valid(checksum: &Checksum, program: &FlatProgram) -> Result<(), String> {
    if checksum.condition.scalar() != Some(Scalar::Bool) {
        return Err(format!("the condition of {checksum:?} is not a boolean"));
    }
    let calculations = &program.objects.calculations;
    let Some(calculation) = calculations.get(checksum.calculation.index()) else {
        return Err(format!("{checksum:?} has an unknown calculation"));
    };
    let inputs = calculation.inputs.iter().filter_map(|input| match input {
        CalculationInput::Field(field) => Some(field),
        CalculationInput::Constant { .. } | CalculationInput::Payload => None,
    });
    let storage = &program.objects.storage;
    match inputs
        .chain([&checksum.target])
        .find(|field| !exists(**field, storage))
    {
        Some(field) => Err(format!("{checksum:?} has the unknown field {field:?}")),
        None => Ok(()),
    }
}

/// Whether a field of a header instance exists.
fn exists(field: FieldRef, storage: &Storage) -> bool {
    let header = storage.headers.get(field.header.index());
    let ty = header.and_then(|header| storage.header_types.get(header.ty.index()));
    ty.is_some_and(|ty| (field.field as usize) < ty.fields.len())
}

/// Checks that a deparser emits headers that exist, and that its calls are those that a deparser can make.
fn deparser_is_valid(deparser: &Deparser, program: &FlatProgram) -> Result<(), String> {
    let headers = program.objects.storage.headers.len();
    if let Some(header) = deparser.headers.iter().find(|id| id.index() >= headers) {
        return Err(format!("{} emits the unknown {header:?}", deparser.name));
    }
    let is_allowed = |kind: &Primitive| {
        matches!(
            kind,
            Primitive::LogMsg { .. }
                | Primitive::Assert(_)
                | Primitive::Assume(_)
                | Primitive::Truncate(_)
        )
    };
    match deparser.calls.iter().find(|call| !is_allowed(&call.kind)) {
        Some(call) => Err(format!("{} has {call:?}", deparser.name)),
        None => Ok(()),
    }
}

/// Checks that state names are unique, that transitions lead to existing states, and that all states are reachable.
fn states_are_valid(parser: &ir::Parser, storage: &Storage) -> Result<(), String> {
    let mut names = BTreeSet::new();
    let mut reached = BTreeSet::from([0]);
    for state in &parser.states {
        if !names.insert(&state.name) {
            return Err(format!(
                "two states of {} are named {}",
                parser.name, state.name
            ));
        }
        for stmt in &state.body {
            if let ParserStmtKind::Effect(effect) = &stmt.kind {
                store_has_field_width(effect, storage)?;
            }
        }
        select_is_valid(&state.transition).map_err(|what| format!("{}: {what}", state.name))?;
        let next: Vec<StateRef> = match &state.transition {
            Transition::Always(next) => vec![*next],
            Transition::Select { cases, .. } => cases.iter().map(|(_, next)| *next).collect(),
        };
        for next in next {
            if let StateRef::State(id) = next {
                if id.index() >= parser.states.len() {
                    return Err(format!("{} leads to an unknown state", state.name));
                }
                reached.insert(id.index());
            }
        }
    }
    match reached.len() == parser.states.len().max(1) {
        true => Ok(()),
        false => Err(format!("{} has unreachable states", parser.name)),
    }
}

/// Checks that the last case of a `select`, and no other, is the default case, and that values have no bits outside their masks.
fn select_is_valid(transition: &Transition) -> Result<(), String> {
    let Transition::Select { keys, cases, .. } = transition else {
        return Ok(());
    };
    let Some(((Keyset::Default, _), others)) = cases.split_last() else {
        return Err("the last case does not match everything".to_owned());
    };
    for (keyset, _) in others {
        let is_right = match keyset {
            Keyset::Default => false,
            Keyset::ValueSet(_) => true,
            Keyset::Values(values) => {
                values.len() == keys.len()
                    && (values.iter().zip(keys)).all(|((value, mask), key)| {
                        value & mask == *value && mask & ir::mask(key.width) == *mask
                    })
            }
        };
        if !is_right {
            return Err(format!(
                "the case {keyset:?} is invalid for {} keys",
                keys.len()
            ));
        }
    }
    Ok(())
}

/// Checks that each break leaves one of the enclosing blocks, whose labels are in `enclosing`.
fn breaks_are_enclosed(body: &[ir::Stmt], enclosing: &mut Vec<Label>) -> Result<(), String> {
    for stmt in body {
        let label = match &stmt.kind {
            StmtKind::Block { label, .. } | StmtKind::Loop { label, .. } => Some(*label),
            StmtKind::Break(label) if !enclosing.contains(label) => {
                return Err(format!("{stmt:?} is outside the block that it leaves"));
            }
            _ => None,
        };
        enclosing.extend(label);
        for body in stmt.kind.bodies() {
            breaks_are_enclosed(body, enclosing)?;
        }
        if label.is_some() {
            enclosing.pop();
        }
    }
    Ok(())
}

/// Checks that a stored value has the width of its field.
fn store_has_field_width(effect: &Effect, storage: &Storage) -> Result<(), String> {
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

/// Checks that all stored values in a body have the widths of their fields.
fn stores_have_field_widths(body: &[ir::Stmt], storage: &Storage) -> Result<(), String> {
    let mut all = Ok(());
    ir::walk(body, &mut |stmt| {
        if let (StmtKind::Effect(effect), Ok(())) = (&stmt.kind, &all) {
            all = store_has_field_width(effect, storage);
        }
    });
    all
}

/// All table applications in a body.
fn table_applications(body: &[ir::Stmt]) -> impl Iterator<Item = &ir::Apply> {
    let mut applied = Vec::new();
    ir::walk(body, &mut |stmt| {
        if let StmtKind::Apply(apply) = &stmt.kind {
            applied.push(&**apply);
        }
    });
    applied.into_iter()
}

/// Checks that a table's entries have the match kinds of its key. Entries that are not const must be in the order of their priorities. If
/// the table has no priorities, no two entries may have the same key.
fn entries_are_valid(table: &Table) -> Result<(), String> {
    let mut keys = BTreeSet::new();
    for entry in &table.entries {
        let fits = |(value, key): (&EntryKey, &Key)| match (value, &key.kind) {
            (EntryKey::Exact(_), MatchKind::Exact)
            | (EntryKey::Range(..), MatchKind::Range)
            | (EntryKey::Ternary(..), MatchKind::Ternary | MatchKind::Optional) => true,
            (EntryKey::Lpm(_, length), MatchKind::Lpm) => *length <= key.width,
            _ => false,
        };
        if entry.keys.len() != table.keys.len() || !entry.keys.iter().zip(&table.keys).all(fits) {
            return Err(format!(
                "{entry:?} differs from the match kinds of the table's key"
            ));
        }
        if entry.control_priority < 1 {
            return Err(format!("{entry:?} has no priority for P4Runtime"));
        }
        if entries::unique_key(entry, &table.keys).is_some_and(|key| !keys.insert(key)) {
            return Err(format!("{entry:?} has the key of another entry"));
        }
    }
    match table.const_entries || table.entries.is_sorted_by_key(|entry| entry.priority) {
        true => Ok(()),
        false => Err("entries are not in the order of their priorities".to_owned()),
    }
}

/// Checks that applications of a table have a site number if and only if the table is applied in several places.
fn sites_are_consistent(body: &[ir::Stmt]) -> Result<(), String> {
    let mut places: BTreeMap<TableId, (usize, usize)> = BTreeMap::new();
    for apply in table_applications(body) {
        let (all, with_site) = places.entry(apply.table).or_default();
        *all += 1;
        *with_site += usize::from(apply.own.here.is_some());
    }
    let is_right = |&(all, with_site): &(usize, usize)| with_site == if all > 1 { all } else { 0 };
    match places.iter().find(|(_, places)| !is_right(places)) {
        Some((table, _)) => Err(format!(
            "{table:?} has several applications without sites, or one with a site"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
