//! All outcomes of a test: a run for each combination of what neither test nor program determines.

use std::collections::BTreeSet;

use alfirk_bmv2::choices::{next_script, Choice};
use alfirk_bmv2::trace::TraceLine;

use crate::packets::{Failure, Variant};
use crate::parse::Line;
use crate::session::Session;

/// An outcome of a test.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Whether values that P4 leaves undefined had all bits set, instead of none.
    pub fills_undefined: bool,
    /// The choices that lead to the outcome, in their order.
    pub choices: Vec<Choice>,
    /// The packets that left the switch, with their ports: ordered by port, and for each port in the order of departure.
    pub packets: Vec<(u32, Vec<u8>)>,
    /// The failed checks.
    pub failures: Vec<Failure>,
    /// The steps of the packets.
    pub trace: Vec<TraceLine>,
    /// The alternatives of the test with which the packets agree best.
    variant: Variant,
}

/// All outcomes of a test.
#[derive(Clone, Debug)]
pub struct Outcomes {
    /// The outcomes: those of equal first choices follow each other.
    pub outcomes: Vec<Outcome>,
    /// Whether there are more outcomes than were tried.
    pub is_cut: bool,
    /// Failures of the test as a whole: alternatives that no outcome has.
    pub failures: Vec<Failure>,
}

impl Session {
    /// Executes all commands of a test once for each combination of random numbers and members of action selectors, and,
    /// if they matter, with two values of everything that P4 leaves undefined. The session must be fresh, and record traces.
    ///
    /// `limit`: maximum number of outcomes.
    pub fn all_outcomes(&self, lines: &[Line], limit: usize) -> Outcomes {
        let (mut outcomes, mut is_cut) = self.outcomes(lines, false, limit);
        let (filled, is_filled_cut) = self.outcomes(lines, true, limit);
        // The choices and packets show whether the undefined values matter.
        let seen = |outcomes: &[Outcome]| -> Vec<_> {
            let outcomes = outcomes.iter();
            outcomes
                .map(|outcome| (outcome.choices.clone(), outcome.packets.clone()))
                .collect()
        };
        if seen(&outcomes) != seen(&filled) {
            outcomes.extend(filled);
            is_cut |= is_filled_cut;
        }
        let mut failures = Vec::new();
        if !is_cut {
            failures = self.unreached(lines, &outcomes);
        }
        Outcomes {
            outcomes,
            is_cut,
            failures,
        }
    }

    fn outcomes(
        &self,
        lines: &[Line],
        fills_undefined: bool,
        limit: usize,
    ) -> (Vec<Outcome>, bool) {
        let mut outcomes = Vec::new();
        let mut is_cut = false;
        let mut script = Some(Vec::new());
        while let Some(next) = script {
            if outcomes.len() == limit {
                return (outcomes, true);
            }
            let mut session = self.fork();
            session.script_choices(next, fills_undefined);
            let mut failures: Vec<Failure> =
                lines.iter().filter_map(|line| session.step(line)).collect();
            let choices = session.take_choices();
            let (variant, checks) = session.best_variant();
            failures.extend(checks);
            failures.sort_by_key(|failure| failure.line.unwrap_or(usize::MAX));
            is_cut |= choices.iter().any(|choice| choice.is_cut);
            script = next_script(&choices);
            outcomes.push(Outcome {
                fills_undefined,
                choices,
                packets: session.take_packets(),
                failures,
                trace: session.take_trace(),
                variant,
            });
        }
        (outcomes, is_cut)
    }

    /// Returns a failure for each alternative of the test that no outcome has.
    fn unreached(&self, lines: &[Line], outcomes: &[Outcome]) -> Vec<Failure> {
        let passed = outcomes
            .iter()
            .filter(|outcome| outcome.failures.is_empty());
        let reached: BTreeSet<(usize, usize)> = passed
            .flat_map(|outcome| outcome.variant.iter().copied().enumerate())
            .collect();
        let all = self.alternatives(lines).into_iter();
        let missing = all.filter(|(group, number, _)| !reached.contains(&(*group, *number)));
        missing
            .map(|(_, number, line)| Failure {
                line,
                message: format!(
                    "alternative {} is not an outcome of the program",
                    number + 1
                ),
            })
            .collect()
    }
}
