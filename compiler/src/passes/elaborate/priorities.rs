//! Priorities of the entries that a program gives.

use std::collections::BTreeMap;
use std::rc::Rc;

use num_bigint::BigInt;

use super::frame::Frame;
use super::Elaborator;
use crate::diag::{Code, Diagnostic, Span, Warning};
use crate::passes::annotations;
use crate::syntax::ast::{Annotated, Entry as AstEntry, TableDecl, TablePropertyValue};

impl Elaborator<'_> {
    /// Priorities of all entries (spec § 14.2.1.4).
    pub fn priorities(
        &mut self,
        decl: &TableDecl,
        entries: &[AstEntry],
        frame: &Rc<Frame>,
    ) -> Vec<Priority> {
        let annotated: Vec<Option<u32>> = entries
            .iter()
            .map(|entry| {
                let exprs = entry.annotations.annotation("priority")?.exprs()?;
                annotations::number(self.checked, exprs.first()?)
            })
            .collect();
        if annotated.iter().any(Option::is_some) {
            let given = annotated.iter().zip(1..);
            let mut priorities = ranked(given.map(|(given, position)| given.unwrap_or(position)));
            // The annotation is of BMv2 alone: P4Runtime has these entries in their order, as p4c writes them.
            for (priority, rank) in priorities.iter_mut().rev().zip(1..) {
                priority.control = rank;
            }
            return priorities;
        }
        if entries.iter().all(|entry| entry.priority.is_none()) {
            return ranked((1..).take(entries.len()));
        }
        let mut setting = |name: &str| match decl.property(name).map(|property| &property.value) {
            Some(TablePropertyValue::Expr(value)) => self.eval(value, frame).constant(),
            _ => None,
        };
        let largest_wins =
            setting("largest_priority_wins").is_none_or(|value| value != BigInt::ZERO);
        let delta = setting("priority_delta").unwrap_or_else(|| BigInt::from(1));
        let mut values: Vec<BigInt> = Vec::new();
        for entry in entries {
            let given = entry
                .priority
                .as_ref()
                .and_then(|expr| self.eval_constant(expr, frame));
            let value = match (given, values.last()) {
                (Some(value), _) => value,
                // The checker asks for the first one.
                (None, None) => BigInt::from(1),
                (None, Some(last)) if largest_wins => last - &delta,
                (None, Some(last)) => last + &delta,
            };
            if value < BigInt::ZERO && !self.diagnostics.has_errors() {
                self.diagnostics.report(
                    Diagnostic::error(
                        Code::TABLE_RULE,
                        entry.span,
                        format!("the priority of this entry would be {value}"),
                    )
                    .help("begin with a larger one, or set a smaller `priority_delta`"),
                );
            }
            values.push(value);
        }
        self.doubtful_priorities(decl, entries, &values, largest_wins);
        let mut order: Vec<&BigInt> = values.iter().collect();
        order.sort();
        order.dedup();
        let rank =
            |value: &BigInt| order.iter().position(|known| *known == value).unwrap_or(0) as u32;
        let last = order.len() as u32;
        let mut priorities = ranked(values.iter().map(|value| match largest_wins {
            true => last - rank(value),
            false => rank(value) + 1,
        }));
        // The numbers of the program stay as they are, in tables where the smallest wins too, as p4c writes them.
        let written: Option<Vec<i32>> = values
            .iter()
            .map(|value| i32::try_from(value).ok().filter(|value| *value > 0))
            .collect();
        for (priority, written) in priorities.iter_mut().zip(written.into_iter().flatten()) {
            priority.control = written;
        }
        priorities
    }

    /// Warns about entries of one priority, of which any may win, and about the first one that stands below a weaker one.
    fn doubtful_priorities(
        &mut self,
        decl: &TableDecl,
        entries: &[AstEntry],
        values: &[BigInt],
        largest_wins: bool,
    ) {
        let property = decl
            .properties
            .iter()
            .find(|property| matches!(property.value, TablePropertyValue::Entries(_)));
        let silenced = |warning: Warning| {
            let annotations = property.map_or(&[][..], |property| &property.annotations);
            let mut all = annotations.iter().chain(&decl.annotations);
            all.any(|annotation| annotation.silences(warning))
        };
        let mut seen: BTreeMap<&BigInt, Span> = BTreeMap::new();
        let mut disordered = silenced(Warning::EntriesOutOfOrder);
        let same = silenced(Warning::DuplicatePriorities);
        for (position, (entry, value)) in entries.iter().zip(values).enumerate() {
            if let Some(first) = seen.insert(value, entry.span).filter(|_| !same) {
                let message = format!("another entry has the priority {value}, too");
                self.diagnostics.report(
                    Diagnostic::warning(Warning::DuplicatePriorities, entry.span, message)
                        .other(first, "this one")
                        .note("where both match, either may win"),
                );
            }
            let before = position
                .checked_sub(1)
                .map(|before| (&values[before], &entries[before]));
            let Some((last, weaker)) = before.filter(|_| !disordered) else {
                continue;
            };
            if (largest_wins && value > last) || (!largest_wins && value < last) {
                disordered = true;
                let message =
                    format!("this entry wins over the one before it: {value} against {last}");
                self.diagnostics.report(
                    Diagnostic::warning(Warning::EntriesOutOfOrder, entry.span, message)
                        .other(weaker.span, "the one before"),
                );
            }
        }
    }
}

/// The priority of an entry.
pub struct Priority {
    /// For the switch's program, where the smallest wins.
    pub bmv2: u32,
    /// For P4Runtime, where the largest wins.
    pub control: i32,
}

/// Priorities for the switch's program, and the same order for P4Runtime.
fn ranked(priorities: impl Iterator<Item = u32> + Clone) -> Vec<Priority> {
    let last = priorities.clone().max().unwrap_or(0);
    priorities
        .map(|bmv2| Priority {
            bmv2,
            control: i32::try_from(last - bmv2).unwrap_or(i32::MAX - 1) + 1,
        })
        .collect()
}
