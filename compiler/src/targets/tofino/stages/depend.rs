//! The dependency graph of a program's steps, which are its tables, conditions, registers and statements.

use std::collections::BTreeSet;

use num_bigint::BigInt;

use super::steps::{Location, Step};

/// The kind of a dependency of a step on an earlier step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DependencyKind {
    /// Match dependency: the step matches on a field that the earlier step writes.
    Match,
    /// Action dependency: the step's action reads or overwrites a field that the earlier step writes.
    Action,
    /// Successor dependency: the step runs only after one outcome of the earlier step.
    Successor,
    /// Reverse dependency: the step overwrites a field that the earlier step reads.
    Order,
}

impl DependencyKind {
    /// The kind's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            DependencyKind::Match => "match",
            DependencyKind::Action => "action",
            DependencyKind::Successor => "successor",
            DependencyKind::Order => "order",
        }
    }

    /// Whether the dependent step must be in a later stage.
    pub fn needs_later_stage(self) -> bool {
        matches!(self, DependencyKind::Match | DependencyKind::Action)
    }
}

/// A dependency of a step on an earlier step.
#[derive(Clone, Copy, Debug)]
pub struct Dependency {
    /// The earlier step, by its position in the list of steps.
    pub from: usize,
    /// The dependent step, by its position in the list of steps.
    pub to: usize,
    /// The reason of the dependency, which decides whether a later stage is needed.
    pub kind: DependencyKind,
    /// The field or validity bit that causes the dependency; `None` for successor and reverse dependencies.
    pub location: Option<Location>,
}

impl Dependency {
    /// Minimum number of stages between the first stages of both steps.
    pub fn distance(&self, steps: &[Step]) -> u32 {
        match self.kind.needs_later_stage() {
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

/// Adds the dependencies of step `to` on earlier steps.
fn of(steps: &[Step], to: usize, found: &mut Vec<Dependency>) {
    let step = &steps[to];
    if let Some((from, _)) = step.control_dependencies.last() {
        found.push(Dependency {
            from: *from,
            to,
            kind: DependencyKind::Successor,
            location: None,
        });
    }
    let mut matches = step.matches.clone();
    let mut reads: BTreeSet<Location> = step.reads.clone();
    let mut overwritten: BTreeSet<Location> = step.writes.clone();
    for from in (0..to).rev() {
        let other = &steps[from];
        if other.gress != step.gress || are_mutually_exclusive(other, step) {
            continue;
        }
        // An unconditional write hides earlier writers.
        let hides = other.is_unconditional
            && step
                .control_dependencies
                .starts_with(&other.control_dependencies);
        let written = writes_before(other, from, step);
        for (wanted, kind, of_writes) in [
            (&mut matches, DependencyKind::Match, false),
            (&mut reads, DependencyKind::Action, false),
            (&mut overwritten, DependencyKind::Action, true),
        ] {
            let common: Vec<Location> = wanted
                .intersection(written)
                .filter(|location| !(of_writes && write_disjoint_bits(other, step, location)))
                .copied()
                .collect();
            if let Some(location) = common.first() {
                found.push(Dependency {
                    from,
                    to,
                    kind,
                    location: Some(*location),
                });
            }
            if hides && other.slice.is_none() {
                for location in common {
                    wanted.remove(&location);
                }
            }
        }
        let looks = |locations: &BTreeSet<Location>| !locations.is_disjoint(&step.writes);
        if looks(&other.matches) || looks(&other.reads) {
            found.push(Dependency {
                from,
                to,
                kind: DependencyKind::Order,
                location: None,
            });
        }
    }
}

/// Whether two steps write different bits of a field.
fn write_disjoint_bits(one: &Step, other: &Step, location: &Location) -> bool {
    match (&one.slice, &other.slice) {
        (Some((first, bits)), Some((second, others))) => {
            first == location && second == location && (bits & others) == BigInt::ZERO
        }
        _ => false,
    }
}

/// Locations that the step `other`, at position `position`, may have written before `step` runs. If `step` runs only
/// after one outcome of `other`, only the locations that this outcome writes.
fn writes_before<'s>(other: &'s Step, position: usize, step: &Step) -> &'s BTreeSet<Location> {
    let way = step
        .control_dependencies
        .iter()
        .find(|(decides, _)| *decides == position);
    let outcome = way.and_then(|(_, outcome)| other.outcomes.get(*outcome as usize));
    outcome.unwrap_or(&other.writes)
}

/// Whether no packet runs both steps, because they depend on different outcomes of one step.
pub fn are_mutually_exclusive(one: &Step, other: &Step) -> bool {
    (one.control_dependencies.iter()).any(|(step, outcome)| {
        (other.control_dependencies.iter()).any(|(its, other)| step == its && outcome != other)
    })
}
