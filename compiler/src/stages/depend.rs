//! The dependency graph of the steps.

use std::collections::BTreeSet;

use num_bigint::BigInt;

use super::steps::{Step, Thing};

/// Why a step comes behind another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It matches on what the other writes.
    Match,
    /// Its action reads or overwrites what the other writes.
    Action,
    /// It runs only after an outcome of the other.
    Successor,
    /// It overwrites what the other reads.
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

    /// Whether the one that waits must be in a later stage.
    pub fn costs(self) -> bool {
        matches!(self, Why::Match | Why::Action)
    }
}

/// One step waits for another one.
#[derive(Clone, Copy, Debug)]
pub struct Dependency {
    pub from: usize,
    pub to: usize,
    pub why: Why,
    /// What it waits for.
    pub thing: Option<Thing>,
}

impl Dependency {
    /// Stages from the first stage of the one to the first in which the one that waits can be.
    pub fn distance(&self, steps: &[Step]) -> u32 {
        match self.why.costs() {
            true => steps[self.from].length,
            false => 0,
        }
    }
}

/// All dependencies, those of one step together, in the order of steps.
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

/// What a step has written when another one runs: if that runs only after one of its outcomes, what is written on the way to it.
fn on_the_way<'s>(other: &'s Step, position: usize, step: &Step) -> &'s BTreeSet<Thing> {
    let way = step.ways.iter().find(|(decides, _)| *decides == position);
    let outcome = way.and_then(|(_, outcome)| other.outcomes.get(*outcome as usize));
    outcome.unwrap_or(&other.writes)
}

/// Whether no packet runs both.
pub fn exclude_each_other(one: &Step, other: &Step) -> bool {
    (one.ways.iter()).any(|(step, outcome)| {
        (other.ways.iter()).any(|(its, other)| step == its && outcome != other)
    })
}
