//! Pass: parse states.
//!
//! Input: the states of a parser as written, whose bodies may branch, loop and call sub-parsers. Output: the states of the target.
//! Invariants: bodies contain no branches, every state is reachable from the first one, and names are unique.
//!
//! A condition becomes a `select` on a field. A call of a sub-parser becomes a transition to its first state, whose end returns. Generated
//! states are then merged where this keeps the behaviour.

use std::collections::BTreeMap;

use num_bigint::BigInt;

use super::inlined::{self, to_parser_stmt, Pending, State, StmtKind};
use crate::diag::{Diagnostics, Span};
use crate::ir::{
    Expr, Keyset, Label, ParseState, ParserStmtKind, SelectKey, Source, StateId, StateRef, Stmt,
    Transition,
};
use crate::names::Names;

/// Lowers parser states to those of the target.
pub fn lower(states: Vec<State<Transition>>, diagnostics: &mut Diagnostics) -> Vec<ParseState> {
    let mut graph = StateGraph {
        diagnostics,
        states: Vec::new(),
        names: Names::default(),
        after: BTreeMap::new(),
    };
    let mut code = Vec::with_capacity(states.len());
    for state in states {
        graph.names.insert(state.name.clone());
        graph.states.push(DraftState {
            name: state.name,
            body: Vec::new(),
            transition: Transition::Always(StateRef::End),
            source: state.source,
            synthetic: state.synthetic,
            written: StateId::from(code.len()),
        });
        code.push(state.code);
    }
    for (index, code) in code.into_iter().enumerate() {
        let Some(code) = code else { continue };
        if let Some(end) = graph.lower_code(code.body, StateId::from(index)) {
            graph.states[end.index()].transition = code.transition;
        }
    }
    let mut states = graph.states;
    skip_empty_states(&mut states);
    merge_states(&mut states);
    renumber_reachable(states)
}

/// A state of the target under construction.
struct DraftState {
    name: String,
    body: Vec<Stmt<ParserStmtKind>>,
    transition: Transition,
    source: Source,
    /// Whether the compiler generated the state, so that it may be merged with its neighbours.
    synthetic: bool,
    /// The state of the program to which the statements belong.
    written: StateId,
}

/// Maximum number of characters of a state's name from which names of generated states are derived. For a longer name, the name of the state
/// in the program is used instead.
const MAX_NAME: usize = 100;

/// The states under construction.
struct StateGraph<'d> {
    diagnostics: &'d mut Diagnostics,
    states: Vec<DraftState>,
    names: Names,
    /// For each enclosing block or loop, the state after it, to which its breaks lead.
    after: BTreeMap<Label, StateId>,
}

impl StateGraph<'_> {
    /// Appends statements to a state, and adds states for branches. Returns the state in which the statements end; `None` if all paths leave
    /// by a break.
    fn lower_code(&mut self, code: Vec<inlined::Stmt>, mut state: StateId) -> Option<StateId> {
        for stmt in code {
            match stmt.kind {
                StmtKind::If {
                    cond, then, other, ..
                } => {
                    let (yes, no) = (
                        self.add_generated_state(state),
                        self.add_generated_state(state),
                    );
                    self.branch(state, &cond, yes, no, stmt.source.span);
                    let ends = [self.lower_code(then, yes), self.lower_code(other, no)];
                    if ends.iter().all(Option::is_none) {
                        return None;
                    }
                    let join = self.add_generated_state(state);
                    for end in ends.into_iter().flatten() {
                        self.goto(end, join);
                    }
                    state = join;
                }
                StmtKind::Block { label, body } => {
                    let join = self.add_generated_state(state);
                    self.after.insert(label, join);
                    if let Some(end) = self.lower_code(body, state) {
                        self.goto(end, join);
                    }
                    state = join;
                }
                StmtKind::Loop { label, body } => {
                    let (head, join) = (
                        self.add_generated_state(state),
                        self.add_generated_state(state),
                    );
                    self.after.insert(label, join);
                    self.goto(state, head);
                    if let Some(end) = self.lower_code(body, head) {
                        self.goto(end, head);
                    }
                    state = join;
                }
                StmtKind::Break(label) => {
                    match self.after.get(&label).copied() {
                        Some(to) => self.goto(state, to),
                        None => self.impossible(stmt.source.span, "a break leaves no block"),
                    }
                    return None;
                }
                StmtKind::Own(Pending::Enter { start, join }) => {
                    self.goto(state, start);
                    state = join;
                }
                kind => {
                    let source = stmt.source;
                    match to_parser_stmt(kind) {
                        Some(kind) => self.states[state.index()].body.push(Stmt { kind, source }),
                        None => self
                            .impossible(source.span, "a parser has a statement of another block"),
                    }
                }
            }
        }
        Some(state)
    }

    /// Reports an internal error, unless an earlier error may be the reason.
    fn impossible(&mut self, span: Span, what: &str) {
        self.diagnostics.follow_up(Some(span), what);
    }

    /// Adds a generated state, whose name and source position are derived from those of the state `like`.
    fn add_generated_state(&mut self, like: StateId) -> StateId {
        let DraftState {
            name,
            source,
            written,
            ..
        } = &self.states[like.index()];
        let (source, written) = (source.clone(), *written);
        let name = match name.len() > MAX_NAME {
            true => &self.states[written.index()].name,
            false => name,
        };
        let name = self.names.unique(name);
        self.states.push(DraftState {
            name,
            body: Vec::new(),
            transition: Transition::Always(StateRef::End),
            source,
            synthetic: true,
            written,
        });
        StateId::from(self.states.len() - 1)
    }

    /// Sets an unconditional transition.
    fn goto(&mut self, from: StateId, to: StateId) {
        self.states[from.index()].transition = Transition::Always(StateRef::State(to));
    }

    /// Sets a transition that depends on a condition, which is a field.
    fn branch(&mut self, state: StateId, cond: &Expr, yes: StateId, no: StateId, span: Span) {
        let Expr::Field { place, .. } = cond else {
            return self.impossible(span, "a condition of a parser is not a field");
        };
        let one = vec![(BigInt::from(1), BigInt::from(1))];
        self.states[state.index()].transition = Transition::Select {
            keys: vec![SelectKey {
                place: *place,
                width: 1,
            }],
            cases: vec![
                (Keyset::Values(one), StateRef::State(yes)),
                (Keyset::Default, StateRef::State(no)),
            ],
            sources: vec![Source::default(); 2],
        };
    }
}

/// Replaces transitions to empty generated states by transitions to the successors of these states.
fn skip_empty_states(states: &mut [DraftState]) {
    let through: Vec<Option<StateRef>> = states
        .iter()
        .enumerate()
        .map(|(index, state)| match (&state.transition, index) {
            (Transition::Always(next), 1..) if state.synthetic && state.body.is_empty() => {
                Some(*next)
            }
            _ => None,
        })
        .collect();
    // The final target of each empty state. A cycle of empty states ends parsing.
    let mut ends: Vec<Option<StateRef>> = vec![None; through.len()];
    for first in 0..through.len() {
        let mut way = Vec::new();
        let mut next = StateRef::State(StateId::from(first));
        let end = loop {
            let StateRef::State(id) = next else {
                break next;
            };
            if let Some(end) = ends[id.index()] {
                break end;
            }
            let Some(to) = through[id.index()] else {
                break next;
            };
            if way.len() > through.len() {
                break StateRef::End;
            }
            way.push(id);
            next = to;
        };
        way.into_iter().for_each(|id| ends[id.index()] = Some(end));
    }
    let resolve = |next: &mut StateRef| {
        if let StateRef::State(id) = next {
            *next = ends[id.index()].unwrap_or(*next);
        }
    };
    for state in states {
        match &mut state.transition {
            Transition::Always(next) => resolve(next),
            Transition::Select { cases, .. } => {
                cases.iter_mut().for_each(|(_, next)| resolve(next))
            }
        }
    }
}

/// Merges a state into its only predecessor, if the predecessor's transition is unconditional and at least one of the
/// two states is generated.
fn merge_states(states: &mut [DraftState]) {
    let mut incoming = vec![0usize; states.len()];
    incoming[0] = 1;
    let mut reached = vec![0];
    let mut seen = vec![false; states.len()];
    seen[0] = true;
    while let Some(state) = reached.pop() {
        for next in successors(&states[state].transition) {
            incoming[next] += 1;
            if !std::mem::replace(&mut seen[next], true) {
                reached.push(next);
            }
        }
    }
    for index in 0..states.len() {
        if !seen[index] {
            continue;
        }
        while let Transition::Always(StateRef::State(next)) = states[index].transition {
            let next = next.index();
            let fits = states[index].synthetic || states[next].synthetic;
            if next == index || next == 0 || incoming[next] != 1 || !fits {
                break;
            }
            let taken = std::mem::replace(
                &mut states[next],
                DraftState {
                    name: String::new(),
                    body: Vec::new(),
                    transition: Transition::Always(StateRef::End),
                    source: Source::default(),
                    synthetic: true,
                    written: StateId::from(next),
                },
            );
            seen[next] = false;
            let state = &mut states[index];
            state.body.extend(taken.body);
            state.transition = taken.transition;
            if state.synthetic && !taken.synthetic {
                state.source = taken.source;
                state.synthetic = false;
                if index != 0 {
                    state.name = taken.name;
                }
            }
        }
    }
}

/// The reachable states, numbered in the order of traversal.
fn renumber_reachable(states: Vec<DraftState>) -> Vec<ParseState> {
    let mut numbers: BTreeMap<usize, StateId> = BTreeMap::new();
    let mut order = vec![0];
    let mut seen = vec![false; states.len()];
    seen[0] = true;
    let mut position = 0;
    while position < order.len() {
        let state = order[position];
        numbers.insert(state, StateId::from(position));
        for next in successors(&states[state].transition) {
            if !std::mem::replace(&mut seen[next], true) {
                order.push(next);
            }
        }
        position += 1;
    }
    let renumber = |next: &mut StateRef| {
        if let StateRef::State(id) = next {
            *next = (numbers.get(&id.index())).map_or(StateRef::End, |id| StateRef::State(*id));
        }
    };
    let mut states: Vec<Option<DraftState>> = states.into_iter().map(Some).collect();
    let states = (order.iter()).filter_map(|index| states[*index].take());
    states
        .map(|mut state| {
            match &mut state.transition {
                Transition::Always(next) => renumber(next),
                Transition::Select { cases, .. } => {
                    cases.iter_mut().for_each(|(_, next)| renumber(next));
                }
            }
            ParseState {
                name: state.name,
                body: state.body,
                transition: state.transition,
                source: state.source,
            }
        })
        .collect()
}

/// Positions of the states to which a transition may lead.
fn successors(transition: &Transition) -> Vec<usize> {
    let one = |next: &StateRef| match next {
        StateRef::State(id) => Some(id.index()),
        StateRef::End => None,
    };
    match transition {
        Transition::Always(next) => one(next).into_iter().collect(),
        Transition::Select { cases, .. } => {
            cases.iter().filter_map(|(_, next)| one(next)).collect()
        }
    }
}
