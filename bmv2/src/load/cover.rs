//! Coverage: counters in the code, and the sites that they count.
//!
//! A counter is at the beginning of each straight line of code. Statements of one line share it. A line whose number of
//! executions follows from other counters has none, as each counter costs time: one outcome of a condition, code after
//! paths have joined, and actions, which run as often as tables and statements call them.

use super::reached::stopping_actions;
use super::Loader;
use crate::coverage::{table_counter, table_counters, Count, Derived, SiteKind, Sites};
use crate::exec::ops::Op;
use crate::program::{source, ParserStep};
use alfirk_bmv2_json::{self as json, SourceInfo};
use rustc_hash::{FxHashMap, FxHashSet};

/// The sites found so far, and the counter of the current line of code.
#[derive(Debug, Default)]
pub(super) struct Cover<'a> {
    pub sites: Sites,
    line: Option<Count>,
    /// The number of executions of the code that follows a condition that does not hold.
    otherwise: Option<Count>,
    /// Actions by the position of their first statement, for calls that the compiler has inlined.
    actions: FxHashMap<(&'a str, u64, u64), &'a json::Action>,
    /// Id of the action whose body is compiled.
    entered: Option<i64>,
    /// Number of calls of each action, by its number. Empty without coverage.
    calls: Vec<Derived>,
    /// Ids of the actions after which the pipeline may end.
    pub stopping: FxHashSet<i64>,
}

/// The numbers of entries of a parser's states, where they follow from transitions. Empty without coverage.
pub(super) struct ParserEntries(Vec<Option<Derived>>);

impl ParserEntries {
    fn of(&self, state: u16) -> Option<Derived> {
        self.0.get(usize::from(state)).copied().flatten()
    }

    /// Returns the number of entries of a state, if it follows from transitions.
    pub(super) fn count(&self, state: u16) -> Option<Count> {
        self.of(state).map(Count::derived)
    }
}

/// Returns whether a table is not in the source: compilers generate such tables for statements of a control.
fn is_hidden(table: &json::Table) -> bool {
    table.key.is_empty() && table.name.starts_with("tbl_")
}

fn position(info: &SourceInfo) -> (&str, u64, u64) {
    (&info.filename, info.line, info.column)
}

impl<'a> Cover<'a> {
    /// Creates the state for a program.
    pub fn new(json: &'a json::BmV2Json) -> Cover<'a> {
        let mut actions: FxHashMap<_, (_, &json::Action)> = FxHashMap::default();
        for action in &json.actions {
            let first = action.primitives.first();
            let first = first.and_then(|first| first.source_info.as_ref());
            let (Some(first), Some(declared)) = (first, &action.source_info) else {
                continue;
            };
            let (first, declared) = (position(first), position(declared));
            // The statement is declared in the last action before it. Others have called that one.
            if declared.0 != first.0 || declared > first {
                continue;
            }
            let known = actions.entry(first).or_insert((declared, action));
            if declared > known.0 {
                *known = (declared, action);
            }
        }
        let actions = actions.into_iter();
        Cover {
            actions: actions
                .map(|(first, (_, action))| (first, action))
                .collect(),
            stopping: stopping_actions(json),
            ..Cover::default()
        }
    }
}

impl<'a> Loader<'a> {
    /// Ends a straight line of code: what follows may be executed without what precedes, or the reverse.
    pub(super) fn end_line(&mut self) {
        self.cover.line = None;
    }

    /// Returns the number of executions of the current line of code, if it is known.
    pub(super) fn line(&self) -> Option<Count> {
        self.cover.line.clone()
    }

    /// Begins a line of code with this number of executions; `None` if it must be counted.
    pub(super) fn begin_line(&mut self, count: Option<Count>) {
        self.cover.line = count;
    }

    /// Takes the number of executions of the code that follows if the last condition does not hold, if it is known.
    pub(super) fn take_otherwise(&mut self) -> Option<Count> {
        self.cover.otherwise.take()
    }

    /// Adds a site at the current point of the code, if the program is loaded for coverage and the position is known.
    pub(super) fn cover(&mut self, kind: impl FnOnce() -> SiteKind, info: Option<&SourceInfo>) {
        if self.coverable(info).is_some() {
            let count = self.count_here();
            self.add_site(kind, info, &count);
        }
    }

    /// Adds a site that is executed this often, if its position is known.
    fn add_site(
        &mut self,
        kind: impl FnOnce() -> SiteKind,
        info: Option<&SourceInfo>,
        count: &Count,
    ) {
        if let Some(info) = self.coverable(info) {
            self.cover.sites.add(kind(), source(info), count.clone());
        }
    }

    /// Returns the number of executions of the current line of code, and its counter if the line begins here: the code must
    /// count then.
    fn count_line(&mut self) -> (Count, Option<u32>) {
        if let Some(count) = &self.cover.line {
            return (count.clone(), None);
        }
        let counter = self.cover.sites.allocate(1);
        let count = Count::of(counter);
        self.cover.line = Some(count.clone());
        (count, Some(counter))
    }

    /// Adds the beginning of the action whose first statement is at a position.
    pub(super) fn cover_inlined(&mut self, info: Option<&SourceInfo>) {
        let of_action = info.and_then(|info| self.cover.actions.get(&position(info)));
        let own = self.cover.entered;
        if let Some(action) = of_action.copied().filter(|action| own != Some(action.id)) {
            self.cover_function(&action.name, action.source_info.as_ref());
        }
    }

    /// Adds the statement of a table that is about to call `action`, if the compiler has generated the table for it.
    pub(super) fn cover_call(&mut self, table: &json::Table, action: &json::Action) {
        self.cover.entered = None;
        let info = table.source_info.as_ref();
        let mut primitives = action.primitives.iter();
        if is_hidden(table) && !primitives.any(|primitive| primitive.source_info.as_ref() == info) {
            self.cover(|| SiteKind::Statement, info);
        }
    }

    /// Adds the sites of a table of the source without a key whose only action is inlined at the current point.
    pub(super) fn cover_inlined_table(&mut self, table: &json::Table, called: &json::Action) {
        if !is_hidden(table) {
            let ids = &table.action_ids;
            let number = ids.iter().position(|id| *id == called.id);
            let kind = || SiteKind::TableAction {
                table: table.name.clone(),
                number: number.unwrap_or(ids.len()) as u32,
                action: called.name.clone(),
            };
            self.cover(kind, table.source_info.as_ref());
        }
        self.cover_action(called);
    }

    /// Adds the beginning of an action, before its body.
    pub(super) fn cover_action(&mut self, action: &json::Action) {
        self.cover.entered = Some(action.id);
        self.cover_function(&action.name, action.source_info.as_ref());
    }

    fn cover_function(&mut self, name: &str, info: Option<&SourceInfo>) {
        let name = || name.to_owned();
        self.cover(|| SiteKind::Function { name: name() }, info);
    }

    /// Counts both outcomes of a condition after its jumps, which are taken if it does not hold. Returns the jumps that are
    /// taken then. The line of code that follows is that of the condition that holds; [`Loader::take_otherwise`] returns the
    /// count of the other one. `is_likely`: whether most packets meet the condition.
    pub(super) fn cover_outcomes(
        &mut self,
        jumps: Vec<usize>,
        is_likely: bool,
        info: Option<&SourceInfo>,
    ) -> Vec<usize> {
        if !self.options.coverage {
            return jumps;
        }
        let of_condition = self.cover.line.take();
        let (of_true, of_false, jumps) = match of_condition {
            Some(all) if !is_likely => {
                let of_true = self.count_here();
                let of_false = all.minus(&of_true);
                (of_true, of_false, jumps)
            }
            Some(all) => {
                let (of_false, jump) = self.count_aside(jumps);
                (all.minus(&of_false), of_false, vec![jump])
            }
            None => {
                let of_true = self.count_here();
                let (of_false, jump) = self.count_aside(jumps);
                (of_true, of_false, vec![jump])
            }
        };
        for (holds, count) in [(true, &of_true), (false, &of_false)] {
            self.add_site(|| SiteKind::Branch { holds }, info, count);
        }
        self.cover.otherwise = Some(of_false);
        self.cover.line = Some(of_true);
        jumps
    }

    /// Counts how often jumps are taken. Returns the count, and the jump that is taken after it.
    fn count_aside(&mut self, jumps: Vec<usize>) -> (Count, usize) {
        self.aside(jumps, |this| {
            this.end_line();
            this.count_here()
        })
    }

    /// Returns the number of executions of the current point of the code, which counts them if it is not known. The program is
    /// loaded for coverage.
    pub(super) fn count_here(&mut self) -> Count {
        let (count, counter) = self.count_line();
        if let Some(counter) = counter {
            self.emit(Op::Cover { counter });
        }
        count
    }

    /// Begins the code of the next action, whose number of executions is that of its calls.
    pub(super) fn begin_action(&mut self) {
        self.end_line();
        if self.options.coverage {
            let calls = self.cover.sites.derive();
            self.cover.calls.push(calls);
            self.begin_line(Some(Count::derived(calls)));
        }
    }

    /// Adds calls of an action.
    pub(super) fn count_calls(&mut self, action: u16, count: &Count) {
        if let Some(calls) = self.cover.calls.get(usize::from(action)) {
            self.cover.sites.add_to(*calls, count);
        }
    }

    /// Returns a position at which a site can be.
    fn coverable<'i>(&self, info: Option<&'i SourceInfo>) -> Option<&'i SourceInfo> {
        info.filter(|info| self.options.coverage && info.line > 0)
    }

    /// Adds a site to a parser state, before the statement that follows.
    pub(super) fn cover_step(
        &mut self,
        kind: impl FnOnce() -> SiteKind,
        info: Option<&SourceInfo>,
        steps: &mut Vec<ParserStep>,
    ) {
        if self.coverable(info).is_some() {
            let (count, counter) = self.count_line();
            steps.extend(counter.map(|counter| ParserStep::Cover { counter }));
            self.add_site(kind, info, &count);
        }
    }

    /// Returns the numbers of entries of a parser's states, to which transitions are to be added.
    pub(super) fn parser_entries(&mut self, states: usize, start: Option<u16>) -> ParserEntries {
        let states = (0..states).map(|state| match start {
            // It is entered from outside, too.
            Some(start) if usize::from(start) == state => None,
            _ => Some(self.cover.sites.derive()),
        });
        ParserEntries(match self.options.coverage {
            true => states.collect(),
            false => Vec::new(),
        })
    }

    /// Adds a transition to a state; `None` is the end of the parser.
    pub(super) fn count_entry(&mut self, entries: &ParserEntries, to: Option<u16>, count: &Count) {
        if let Some(entries) = to.and_then(|to| entries.of(to)) {
            self.cover.sites.add_to(entries, count);
        }
    }

    /// Adds a transition of a parser state. Returns its counter, if it needs one, and its number of executions. `count`: this
    /// number, if it is known.
    pub(super) fn cover_transition(
        &mut self,
        transition: &json::Transition,
        is_select: bool,
        count: Option<Count>,
    ) -> (Option<u32>, Count) {
        if !self.options.coverage {
            return (None, Count::default());
        }
        let (counter, count) = match count {
            Some(count) => (None, count),
            None => {
                let counter = self.cover.sites.allocate(1);
                (Some(counter), Count::of(counter))
            }
        };
        let kind = || match is_select {
            false => SiteKind::Statement,
            true => SiteKind::Case {
                next: transition.next_state.clone(),
            },
        };
        self.add_site(kind, transition.source_info.as_ref(), &count);
        (counter, count)
    }

    /// Adds the sites of a table: hit, miss, and each of `actions`; and its calls of actions. Returns the first of its
    /// counters, of which each application increments one.
    pub(super) fn cover_table(&mut self, table: &json::Table, actions: &[u16]) -> Option<u32> {
        if !self.options.coverage {
            return None;
        }
        let counters = table_counters(actions.len());
        let first = self.cover.sites.allocate(counters);
        let count = |is_hit, action| Count::of(first + table_counter(is_hit, action));
        let info = self.coverable(table.source_info.as_ref());
        let info = info.filter(|_| !is_hidden(table));
        if let Some(info) = info.filter(|_| !table.key.is_empty()) {
            for hit in [true, false] {
                let all = (0..actions.len()).fold(count(hit, None), |sum, number| {
                    sum.plus(&count(hit, Some(number)))
                });
                let table = table.name.clone();
                let kind = SiteKind::Table { table, hit };
                self.cover.sites.add(kind, source(info), all);
            }
        }
        for (number, action) in actions.iter().enumerate() {
            let calls = count(true, Some(number)).plus(&count(false, Some(number)));
            self.count_calls(*action, &calls);
            if let Some(info) = info {
                let kind = SiteKind::TableAction {
                    table: table.name.clone(),
                    number: number as u32,
                    action: self.actions[usize::from(*action)].name.clone(),
                };
                self.cover.sites.add(kind, source(info), calls);
            }
        }
        Some(first)
    }
}
