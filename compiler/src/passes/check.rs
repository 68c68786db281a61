//! What holds between passes and types cannot say. Debug builds check it, and so do all tests; a violation is a mistake
//! of a pass, never of a program.

use std::collections::{BTreeMap, BTreeSet};

use super::entries;
use super::inlined::{self, BlockCode, InlinedProgram, StmtKind as Inlined};
use crate::ir::{
    self, Effect, EntryKey, Expr, FlatProgram, Key, Keyset, Label, MatchKind, ParserStmtKind,
    Pipeline, StateRef, StmtKind, Storage, Table, TableId, Transition,
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
    for table in &program.objects.tables {
        entries_fit(table).map_err(|what| format!("{}: {what}", table.meta.name))?;
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
        ends_open(&state.transition).map_err(|what| format!("{}: {what}", state.name))?;
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

/// The last case of a `select`, and no other, matches everything; values have no bits outside of their masks.
fn ends_open(transition: &Transition) -> Result<(), Violation> {
    let Transition::Select { keys, cases } = transition else {
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
                "the case {keyset:?} is none for {} keys",
                keys.len()
            ));
        }
    }
    Ok(())
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

/// Entries match as keys do, have priorities, and differ where the key alone tells them apart.
fn entries_fit(table: &Table) -> Result<(), Violation> {
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
            return Err(format!("{entry:?} does not match as the key does"));
        }
        if entry.control_priority < 1 {
            return Err(format!("{entry:?} has no priority for P4Runtime"));
        }
        if entries::own_key(entry, &table.keys).is_some_and(|key| !keys.insert(key)) {
            return Err(format!("{entry:?} has the key of another entry"));
        }
    }
    match table.const_entries || table.entries.is_sorted_by_key(|entry| entry.priority) {
        true => Ok(()),
        false => Err("entries do not stand in their order".to_owned()),
    }
}

/// A table that is applied in several places, and no other, has a number for each.
fn sites(body: &[ir::Stmt]) -> Result<(), Violation> {
    let mut places: BTreeMap<TableId, (usize, usize)> = BTreeMap::new();
    for apply in applied(body) {
        let (all, told) = places.entry(apply.table).or_default();
        *all += 1;
        *told += usize::from(apply.site.is_some());
    }
    let is_right = |&(all, told): &(usize, usize)| told == if all > 1 { all } else { 0 };
    match places.iter().find(|(_, places)| !is_right(places)) {
        Some((table, _)) => Err(format!("{table:?} does not know from where it is applied")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{FieldRef, HeaderId, ParseState, Parser, Scalar, Source, StateId, Stmt};

    fn stmt<K>(kind: impl Into<K>) -> ir::Stmt<K> {
        ir::Stmt {
            kind: kind.into(),
            source: Source::default(),
        }
    }

    fn with_pipeline(body: Vec<Stmt>) -> FlatProgram {
        FlatProgram {
            pipelines: vec![Pipeline {
                name: "ingress",
                body,
                source: Source::default(),
            }],
            ..FlatProgram::default()
        }
    }

    fn with_action(body: Vec<inlined::Stmt>) -> InlinedProgram {
        let mut program = InlinedProgram::default();
        program.objects.actions.push(ir::Action {
            meta: ir::Meta::default(),
            params: Vec::new(),
        });
        program.action_bodies.push(body);
        program
    }

    fn apply(site: Option<Expr>) -> Stmt {
        stmt(StmtKind::Apply(Box::new(ir::Apply {
            table: TableId(0),
            then: ir::Follow::default(),
            site,
        })))
    }

    #[test]
    fn a_break_leaves_a_block_around_it() {
        let leave = || stmt(StmtKind::Break(Label(1)));
        let block = |label| {
            stmt(StmtKind::Block {
                label: Label(label),
                body: vec![leave()],
            })
        };
        assert_eq!(flat(&with_pipeline(vec![block(1)])), Ok(()));
        assert!(flat(&with_pipeline(vec![block(2)])).is_err());
        assert!(flat(&with_pipeline(vec![block(1), leave()])).is_err());
    }

    #[test]
    fn a_table_of_several_places_and_no_other_is_told_from_where() {
        let site = || Some(Expr::Bool(true));
        assert_eq!(flat(&with_pipeline(vec![apply(None)])), Ok(()));
        assert!(flat(&with_pipeline(vec![apply(site())])).is_err());
        let twice = |second| flat(&with_pipeline(vec![apply(site()), apply(second)]));
        assert_eq!(twice(site()), Ok(()));
        assert!(twice(None).is_err());
    }

    #[test]
    fn a_field_gets_values_of_its_width() {
        let mut program = with_pipeline(Vec::new());
        let storage = &mut program.objects.storage;
        storage.header_types.push(ir::HeaderType {
            name: "scalars_0".to_owned(),
            fields: Vec::new(),
        });
        storage.headers.push(ir::Header {
            name: "scalars".to_owned(),
            ty: ir::HeaderTypeId(0),
            metadata: true,
        });
        let field: FieldRef = storage.add_scalar("x".to_owned(), Scalar::Bit(8));
        let mut store = |width| {
            let effect = Effect::Assign {
                target: field.into(),
                value: Expr::bits(1, width),
            };
            program.pipelines[0].body = vec![stmt(effect)];
            flat(&program)
        };
        assert_eq!(store(8), Ok(()));
        assert!(store(9).is_err());
    }

    #[test]
    fn states_are_named_once_and_reached() {
        let state = |name: &str, next| ParseState {
            name: name.to_owned(),
            body: Vec::new(),
            transition: Transition::Always(next),
            source: Source::default(),
        };
        let check = |states| {
            let parser = Parser {
                name: "parser",
                states,
                source: Source::default(),
            };
            flat(&FlatProgram {
                parsers: vec![parser],
                ..FlatProgram::default()
            })
        };
        let second = StateRef::State(StateId(1));
        let end = StateRef::End;
        assert_eq!(check(vec![state("a", second), state("b", end)]), Ok(()));
        assert!(check(vec![state("a", second), state("a", end)]).is_err());
        assert!(check(vec![state("a", end), state("b", end)]).is_err());
        assert!(check(vec![state("a", second)]).is_err());
    }

    #[test]
    fn the_last_case_and_no_other_matches_everything() {
        let keys = || {
            let place = FieldRef {
                header: HeaderId(0),
                field: 0,
            };
            vec![ir::SelectKey {
                place: place.into(),
                width: 8,
            }]
        };
        let one = |value: u32, mask: u32| Keyset::Values(vec![(value.into(), mask.into())]);
        let check = |cases: Vec<Keyset>| {
            let cases = cases.into_iter().map(|keyset| (keyset, StateRef::End));
            ends_open(&Transition::Select {
                keys: keys(),
                cases: cases.collect(),
            })
        };
        assert_eq!(check(vec![one(1, 0xff), Keyset::Default]), Ok(()));
        assert!(check(vec![one(1, 0xff)]).is_err());
        assert!(check(vec![Keyset::Default, Keyset::Default]).is_err());
        assert!(check(vec![one(1, 0xfe), Keyset::Default]).is_err());
        assert!(check(vec![one(1, 0x1ff), Keyset::Default]).is_err());
    }

    #[test]
    fn entries_match_as_their_keys_and_differ() {
        let entry = |value: u32, priority: u32| ir::Entry {
            keys: vec![EntryKey::Exact(value.into())],
            action: ir::ActionId(0),
            args: Vec::new(),
            priority,
            control_priority: 1,
            constant: true,
            source: Source::default(),
        };
        let check = |kind, entries| {
            entries_fit(&Table {
                keys: vec![Key::of(kind)],
                entries,
                ..Table::new(ir::Meta::default())
            })
        };
        let exact = |entries| check(MatchKind::Exact, entries);
        assert_eq!(exact(vec![entry(1, 1), entry(2, 2)]), Ok(()));
        assert!(exact(vec![entry(1, 1), entry(1, 2)]).is_err());
        assert!(exact(vec![entry(1, 2), entry(2, 1)]).is_err());
        assert!(check(MatchKind::Ternary, vec![entry(1, 1)]).is_err());
    }

    #[test]
    fn statements_stand_only_where_they_may() {
        let exit = || stmt(Inlined::Exit);
        assert_eq!(inlined(&with_action(vec![exit()])), Ok(()));
        let emit = stmt(Inlined::Emit(HeaderId(0)));
        assert!(inlined(&with_action(vec![emit])).is_err());
        let mut parser = with_action(Vec::new());
        parser.blocks.push(inlined::Block {
            name: "parser",
            source: Source::default(),
            code: BlockCode::Parser(vec![inlined::State {
                name: "start".to_owned(),
                code: Some(inlined::StateCode {
                    body: vec![exit()],
                    transition: inlined::Transition::Always(inlined::Next::End),
                }),
                source: Source::default(),
                synthetic: false,
            }]),
        });
        assert!(inlined(&parser).is_err());
    }
}
