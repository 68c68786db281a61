//! The dependency graph of the steps.

use std::collections::BTreeSet;

use num_bigint::BigInt;

use super::steps::{Step, Thing};

/// The kind of a dependency between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Match dependency: it matches on a field that the other step writes.
    Match,
    /// Action dependency: its action reads or overwrites a field that the other step writes.
    Action,
    /// Successor dependency: it runs only after an outcome of the other step.
    Successor,
    /// Reverse dependency: it overwrites a field that the other step reads.
    Order,
}

impl Why {
    pub fn name(self) -> &'static str {
        match self {
            Why::Match => "match",
            Why::Action => "action",
            Why::Successor => "successor",
            Why::Order => "order",
        }
    }

    /// Whether the dependent step must be in a later stage.
    pub fn costs(self) -> bool {
        matches!(self, Why::Match | Why::Action)
    }
}

/// A dependency of one step on another.
#[derive(Clone, Copy, Debug)]
pub struct Dependency {
    pub from: usize,
    pub to: usize,
    pub why: Why,
    /// The field or object that causes the dependency.
    pub thing: Option<Thing>,
}

impl Dependency {
    /// Minimum number of stages between the first stages of both steps.
    pub fn distance(&self, steps: &[Step]) -> u32 {
        match self.why.costs() {
            true => steps[self.from].length,
            false => 0,
        }
    }
}

/// All dependencies, grouped by dependent step, in the order of steps.
pub fn all(steps: &[Step]) -> Vec<Dependency> {
    let mut found = Vec::new();
    for to in 0..steps.len() {
        of(steps, to, &mut found);
    }
    found
}

fn of(steps: &[Step], to: usize, found: &mut Vec<Dependency>) {
    let step = &steps[to];
    if let Some((from, _)) = step.ways.last() {
        found.push(Dependency {
            from: *from,
            to,
            why: Why::Successor,
            thing: None,
        });
    }
    let mut matches = step.matches.clone();
    let mut reads: BTreeSet<Thing> = step.reads.clone();
    let mut overwritten: BTreeSet<Thing> = step.writes.clone();
    for from in (0..to).rev() {
        let other = &steps[from];
        if other.gress != step.gress || exclude_each_other(other, step) {
            continue;
        }
        // An unconditional write hides earlier writers.
        let hides = other.certain && step.ways.starts_with(&other.ways);
        let written = on_the_way(other, from, step);
        for (wanted, why, of_writes) in [
            (&mut matches, Why::Match, false),
            (&mut reads, Why::Action, false),
            (&mut overwritten, Why::Action, true),
        ] {
            let common: Vec<Thing> = wanted
                .intersection(written)
                .filter(|thing| !(of_writes && apart(other, step, thing)))
                .copied()
                .collect();
            if let Some(thing) = common.first() {
                found.push(Dependency {
                    from,
                    to,
                    why,
                    thing: Some(*thing),
                });
            }
            if hides && other.slice.is_none() {
                for thing in common {
                    wanted.remove(&thing);
                }
            }
        }
        let looks = |things: &BTreeSet<Thing>| !things.is_disjoint(&step.writes);
        if looks(&other.matches) || looks(&other.reads) {
            found.push(Dependency {
                from,
                to,
                why: Why::Order,
                thing: None,
            });
        }
    }
}

/// Whether two steps write different bits of a field.
fn apart(one: &Step, other: &Step, thing: &Thing) -> bool {
    match (&one.slice, &other.slice) {
        (Some((first, bits)), Some((second, others))) => {
            first == thing && second == thing && (bits & others) == BigInt::ZERO
        }
        _ => false,
    }
}

/// Fields that `other` has written when `step` runs. If `step` runs after one outcome of `other` only, these are the writes of that outcome.
fn on_the_way<'s>(other: &'s Step, position: usize, step: &Step) -> &'s BTreeSet<Thing> {
    let way = step.ways.iter().find(|(decides, _)| *decides == position);
    let outcome = way.and_then(|(_, outcome)| other.outcomes.get(*outcome as usize));
    outcome.unwrap_or(&other.writes)
}

/// Whether the two steps are mutually exclusive.
pub fn exclude_each_other(one: &Step, other: &Step) -> bool {
    (one.ways.iter()).any(|(step, outcome)| {
        (other.ways.iter()).any(|(its, other)| step == its && outcome != other)
    })
}
