//! Coverage of pipelines: how often the nodes of their control flow are reached.
//!
//! A node is reached as often as those before it lead to it, so it needs no counter of its own. What leads to a node is
//! known when all nodes before it are compiled, and the counters of their tables allocated.

use super::cover::Cover;
use super::Loader;
use crate::coverage::{table_counter, Count, Derived};
use crate::program::Table;
use alfirk_bmv2_json::{self as json, Pipeline, Primitive};
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum number of nodes of a pipeline whose numbers follow from each other. In a longer one every node that others lead to
/// has a counter, since the sums may be long.
const MAX_NODES: usize = 2048;

/// Minimum number of nodes that are reached only if a condition holds, for a condition that most packets are taken to meet: long
/// code is what a program is for.
const LIKELY_NODES: usize = 8;

/// How often the nodes of a pipeline are reached, where it follows from the nodes before. Empty without coverage.
#[derive(Debug, Default)]
pub(super) struct Reached<'a> {
    nodes: FxHashMap<&'a str, Derived>,
    /// Number of applications of each table that is not inlined, by its name.
    applied: FxHashMap<&'a str, Count>,
    /// Conditions that most packets are taken to meet.
    likely: FxHashSet<&'a str>,
}

impl Reached<'_> {
    fn of(&self, node: Option<&str>) -> Option<Derived> {
        self.nodes.get(node?).copied()
    }

    /// Returns how often a node is reached, if it follows from the nodes before.
    pub fn count(&self, node: &str) -> Option<Count> {
        self.of(Some(node)).map(Count::derived)
    }

    /// Whether most packets are taken to meet a condition.
    pub fn is_likely(&self, condition: &str) -> bool {
        self.likely.contains(condition)
    }
}

impl<'a> Loader<'a> {
    /// Finds the nodes of a pipeline that need no counter of their own.
    pub(super) fn reached(&mut self, pipeline: &'a Pipeline) -> Reached<'a> {
        let mut reached = Reached::default();
        let next = successors(pipeline);
        if !self.options.coverage || next.len() > MAX_NODES || has_loop(&next) {
            return reached;
        }
        reached.likely = likely(pipeline, &next);
        let tables = pipeline.tables.iter();
        let uncounted = tables.filter(|table| !self.cover.counts_successors_of(table));
        let uncounted: FxHashSet<&str> = uncounted
            .flat_map(|table| next[table.name.as_str()].iter().copied())
            .collect();
        for name in next.into_keys().filter(|name| !uncounted.contains(name)) {
            reached.nodes.insert(name, self.cover.sites.derive());
        }
        reached
    }

    /// Adds executions of a node.
    pub(super) fn count_reached(&mut self, reached: &Reached, node: Option<&str>, count: &Count) {
        if let Some(node) = reached.of(node) {
            self.cover.sites.add_to(node, count);
        }
    }

    /// Handles that the code leads to a node, which may be compiled already, from here.
    pub(super) fn lead(&mut self, reached: &Reached, node: Option<&str>) {
        if reached.of(node).is_some() {
            let count = self.count_here();
            self.count_reached(reached, node, &count);
        }
    }

    /// Handles a call of an action from here.
    pub(super) fn count_call(&mut self, action: u16) {
        if self.options.coverage {
            let count = self.count_here();
            self.count_calls(action, &count);
        }
    }

    /// Handles that a table is applied here.
    pub(super) fn begin_apply(&mut self, reached: &mut Reached<'a>, table: &'a json::Table) {
        if self.options.coverage {
            let count = self.count_here();
            reached.applied.insert(&table.name, count);
        }
    }

    /// Adds the executions of the nodes after a table. `loaded`: the table with its counters.
    pub(super) fn end_apply(&mut self, reached: &Reached, table: &json::Table, loaded: &Table) {
        let applied = reached.applied.get(table.name.as_str());
        let (Some(applied), Some(first)) = (applied, loaded.coverage) else {
            return;
        };
        let named = |name: &str| table.next_tables.iter().find(|(known, _)| known == name);
        let (on_hit, on_miss) = (named("__HIT__"), named("__MISS__"));
        let otherwise = table.base_default_next.as_deref();
        let mut counts: FxHashMap<Option<&str>, Count> = FxHashMap::default();
        for (number, (action, _)) in loaded.actions.iter().enumerate() {
            let of_action = named(&self.actions[usize::from(*action)].name);
            for (is_hit, of_result) in [(true, on_hit), (false, on_miss)] {
                let next = of_result.or(of_action);
                let next = next.map_or(otherwise, |(_, next)| next.as_deref());
                let counter = first + table_counter(is_hit, Some(number));
                let count = counts.entry(next).or_default();
                *count = count.plus(&Count::of(counter));
            }
        }
        let no_action = on_miss.map_or(otherwise, |(_, next)| next.as_deref());
        let count = counts.entry(no_action).or_default();
        *count = count.plus(&Count::of(first + table_counter(false, None)));
        // All paths together are executed as often as the table: the sums of those that join again are short.
        counts.remove(&otherwise);
        let others = counts.values();
        let rest = others.fold(applied.clone(), |rest, count| rest.minus(count));
        counts.insert(otherwise, rest);
        for (next, count) in counts {
            self.count_reached(reached, next, &count);
        }
    }
}

impl Cover<'_> {
    /// Whether the counters of a table tell how often each node after it is reached.
    fn counts_successors_of(&self, table: &json::Table) -> bool {
        let named = table.next_tables.iter().map(|(_, next)| next);
        let is_same = named.clone().all(|next| *next == table.base_default_next);
        // Which action ran, and whether an entry matched, leaves open where a group without members leads to.
        let is_counted = is_same || table.action_profile.is_none();
        // Older files name actions, without their ids.
        let has_ids = table.actions.is_empty() || !table.action_ids.is_empty();
        let default = table.default_entry.as_ref().map(|entry| entry.action_id);
        let mut actions = table.action_ids.iter().copied().chain(default);
        is_counted && has_ids && !actions.any(|action| self.stopping.contains(&action))
    }
}

/// Returns the ids of the actions after which the pipeline may end.
pub(super) fn stopping_actions(json: &json::BmV2Json) -> FxHashSet<i64> {
    let stops = |call: &json::PrimitiveCall| {
        matches!(
            call.primitive,
            Primitive::Exit { .. }
                | Primitive::Assert { .. }
                | Primitive::Assume { .. }
                | Primitive::RegisterAccess { .. }
        )
    };
    let actions = json.actions.iter();
    let stopping = actions.filter(|action| action.primitives.iter().any(stops));
    stopping.map(|action| action.id).collect()
}

/// Returns the nodes of a pipeline, each with those to which it may lead.
fn successors(pipeline: &Pipeline) -> FxHashMap<&str, Vec<&str>> {
    let tables = pipeline.tables.iter().map(|table| {
        let named = table.next_tables.iter().map(|(_, next)| next);
        let nexts = named.chain([&table.base_default_next]);
        (&*table.name, nexts.flatten().map(|next| &**next).collect())
    });
    let conditionals = pipeline.conditionals.iter().map(|condition| {
        let nexts = [&condition.true_next, &condition.false_next].into_iter();
        let nexts = nexts.flatten().map(|next| &**next);
        (&*condition.name, nexts.collect())
    });
    let calls = pipeline.action_calls.iter().map(|call| {
        let next = call.next_node.iter().map(|next| &**next);
        (&*call.name, next.collect())
    });
    tables.chain(conditionals).chain(calls).collect()
}

/// Whether a node leads to itself again.
fn has_loop(next: &FxHashMap<&str, Vec<&str>>) -> bool {
    let mut before: FxHashMap<&str, usize> = FxHashMap::default();
    for node in next.values().flatten() {
        *before.entry(node).or_default() += 1;
    }
    let first = next.keys().filter(|node| !before.contains_key(*node));
    let mut ready: Vec<&str> = first.copied().collect();
    let mut ordered = 0;
    while let Some(node) = ready.pop() {
        let Some(nodes) = next.get(node) else {
            continue;
        };
        ordered += 1;
        for after in nodes {
            if let Some(before) = before.get_mut(after) {
                *before -= 1;
                if *before == 0 {
                    ready.push(after);
                }
            }
        }
    }
    ordered < next.len()
}

/// Returns the conditions that most packets are taken to meet: those before long code.
fn likely<'a>(
    pipeline: &'a Pipeline,
    next: &FxHashMap<&'a str, Vec<&'a str>>,
) -> FxHashSet<&'a str> {
    let ahead = |node: &'a Option<String>| {
        let mut found: FxHashSet<&str> = FxHashSet::default();
        let mut ways: Vec<&str> = node.iter().map(|node| &**node).collect();
        while let Some(node) = ways.pop() {
            if found.insert(node) {
                ways.extend(next.get(node).into_iter().flatten());
            }
        }
        found
    };
    let is_likely = |condition: &&'a json::Conditional| {
        let (holds, not) = (ahead(&condition.true_next), ahead(&condition.false_next));
        let only = holds.difference(&not).count();
        only >= LIKELY_NODES && only > not.difference(&holds).count()
    };
    let likely = pipeline.conditionals.iter().filter(is_likely);
    likely.map(|condition| condition.name.as_str()).collect()
}
