//! Coverage: counters in the code, and the sites that they count.
//!
//! A counter is at the beginning of each straight line of code. Statements of one line share it. A line whose number of
//! executions follows from other counters has none: that of an outcome of a condition, or after both have joined.

use super::Loader;
use crate::coverage::{Count, SiteKind, Sites};
use crate::exec::ops::Op;
use crate::program::{source, ParserStep};
use alfirk_bmv2_json::{self as json, SourceInfo};
use rustc_hash::FxHashMap;

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
        if let Some(counter) = self.add_site(kind, info) {
            self.emit(Op::Cover { counter });
        }
    }

    /// Adds a site with the counter of the current line of code. Returns the counter if the line begins here: the code
    /// must count then.
    fn add_site(
        &mut self,
        kind: impl FnOnce() -> SiteKind,
        info: Option<&SourceInfo>,
    ) -> Option<u32> {
        let info = self.coverable(info)?;
        let counter = match self.cover.line {
            Some(_) => None,
            None => Some(self.cover.sites.allocate(1)),
        };
        let count = self.cover.line.take();
        let count = count.unwrap_or_else(|| counter.map(Count::of).unwrap_or_default());
        self.cover.line = Some(count.clone());
        self.cover.sites.add(kind(), source(info), count);
        counter
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

    /// Adds both outcomes of a condition after its jumps, which are taken if it does not hold. Returns the jumps that are
    /// taken then. The line of code that follows is that of the condition that holds; [`Loader::take_otherwise`] returns the
    /// count of the other one.
    pub(super) fn cover_outcomes(
        &mut self,
        jumps: Vec<usize>,
        info: Option<&SourceInfo>,
    ) -> Vec<usize> {
        let Some(of) = self.coverable(info) else {
            self.end_line();
            self.cover.otherwise = None;
            return jumps;
        };
        let of_condition = self.cover.line.take();
        self.cover(|| SiteKind::Branch { holds: true }, info);
        let of_true = self.cover.line.take().unwrap_or_default();
        if let Some(all) = of_condition {
            let of_false = all.minus(&of_true);
            let kind = SiteKind::Branch { holds: false };
            self.cover.sites.add(kind, source(of), of_false.clone());
            self.cover.otherwise = Some(of_false);
            self.cover.line = Some(of_true);
            return jumps;
        }
        let over = self.emit(Op::Jump { to: 0 });
        self.land(jumps);
        self.cover(|| SiteKind::Branch { holds: false }, info);
        self.cover.otherwise = self.cover.line.take();
        let jump = self.emit(Op::Jump { to: 0 });
        self.land(vec![over]);
        self.cover.line = Some(of_true);
        vec![jump]
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
        if let Some(counter) = self.add_site(kind, info) {
            steps.push(ParserStep::Cover { counter });
        }
    }

    /// Adds a transition of a parser state, and returns its counter.
    pub(super) fn cover_transition(
        &mut self,
        transition: &json::Transition,
        is_select: bool,
    ) -> Option<u32> {
        let info = self.coverable(transition.source_info.as_ref())?;
        let counter = self.cover.sites.allocate(1);
        let next = || transition.next_state.clone();
        let kind = match is_select {
            false => SiteKind::Statement,
            true => SiteKind::Case { next: next() },
        };
        self.cover.sites.add(kind, source(info), Count::of(counter));
        Some(counter)
    }

    /// Adds the sites of a table: hit, miss, and each of `actions`. Returns the first of their counters.
    pub(super) fn cover_table(&mut self, table: &json::Table, actions: &[u16]) -> Option<u32> {
        let info = self.coverable(table.source_info.as_ref())?;
        if is_hidden(table) {
            return None;
        }
        let first = self.cover.sites.allocate(2 + actions.len() as u32);
        let mut kinds = Vec::new();
        if !table.key.is_empty() {
            for (hit, counter) in [(true, first), (false, first + 1)] {
                let table = table.name.clone();
                kinds.push((SiteKind::Table { table, hit }, counter));
            }
        }
        for (number, action) in (0..).zip(actions) {
            let kind = SiteKind::TableAction {
                table: table.name.clone(),
                number,
                action: self.actions[usize::from(*action)].name.clone(),
            };
            kinds.push((kind, first + 2 + number));
        }
        for (kind, counter) in kinds {
            self.cover.sites.add(kind, source(info), Count::of(counter));
        }
        Some(first)
    }
}
