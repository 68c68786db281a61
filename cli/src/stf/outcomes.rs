//! `alfirk stf --all-outcomes`: prints all outcomes of a test as a tree.

use std::path::Path;

use alfirk_bmv2::choices::{Choice, ChoiceKind};
use alfirk_stf::{hex, summary, Failure, Outcome, Outcomes};
use alfirk_switch::stdout_has_colors;
use serde_json::{json, Value};

use super::{Args, TraceFormat};
use crate::exit::{print, Failure as CommandFailure, Outcome as CommandOutcome};

/// Maximum number of outcomes.
const MAX_OUTCOMES: usize = 1000;

/// Runs a test with all outcomes, and prints them. With `--trace`, the steps of the packets precede each result.
pub(super) fn run(
    args: &Args,
    test: &Path,
    session: &alfirk_stf::Session,
    lines: &[alfirk_stf::Line],
) -> CommandOutcome {
    let outcomes = session.all_outcomes(lines, MAX_OUTCOMES);
    let failures = all_failures(&outcomes);
    let test = test.display().to_string();
    match args.json {
        true => print(format_args!("{}\n", as_json(args, &test, &outcomes)))?,
        false => print(text(args, &test, &outcomes, &failures))?,
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(CommandFailure::AlreadyReported(1)),
    }
}

/// The failures of all outcomes, each once.
fn all_failures(outcomes: &Outcomes) -> Vec<Failure> {
    let mut all: Vec<Failure> = Vec::new();
    let of_outcomes = outcomes.outcomes.iter().flat_map(|of| &of.failures);
    for failure in of_outcomes.chain(&outcomes.failures) {
        if !all.contains(failure) {
            all.push(failure.clone());
        }
    }
    all
}

fn text(args: &Args, test: &str, outcomes: &Outcomes, failures: &[Failure]) -> String {
    let color = stdout_has_colors();
    let has_undefined = outcomes.outcomes.iter().any(|of| of.fills_undefined);
    let mut text = String::new();
    let mut before: Vec<String> = Vec::new();
    for outcome in &outcomes.outcomes {
        let path = path(outcome, has_undefined);
        let common = before.iter().zip(&path).take_while(|(a, b)| a == b).count();
        for (depth, choice) in path.iter().enumerate().skip(common) {
            text += &format!("{:depth$}{choice}\n", "", depth = 2 * depth);
        }
        let indent = " ".repeat(2 * path.len());
        if args.trace == Some(TraceFormat::Text) {
            for step in &outcome.trace {
                text += &format!("{indent}{}\n", step.text(color));
            }
        }
        if outcome.packets.is_empty() {
            text += &format!("{indent}no packet\n");
        }
        for (port, frame) in &outcome.packets {
            text += &format!("{indent}port {port}: {}\n", hex(frame));
        }
        for failure in &outcome.failures {
            let failure = failure.text(test).replace('\n', &format!("\n{indent}"));
            text += &format!("{indent}{failure}\n");
        }
        before = path;
    }
    for failure in &outcomes.failures {
        text += &format!("{}\n", failure.text(test));
    }
    let count = match outcomes.outcomes.len() {
        1 => "1 outcome".to_owned(),
        count => format!("{count} outcomes"),
    };
    let cut = match outcomes.is_cut {
        true => ", and others that were not tried",
        false => "",
    };
    text + &format!("{test}: {count}{cut}\n{}\n", summary(test, failures))
}

/// The choices of an outcome, each as a line.
fn path(outcome: &Outcome, has_undefined: bool) -> Vec<String> {
    let undefined = has_undefined.then(|| match outcome.fills_undefined {
        true => "undefined values: all bits 1".to_owned(),
        false => "undefined values: all bits 0".to_owned(),
    });
    let choices = outcome.choices.iter().map(choice_text);
    undefined.into_iter().chain(choices).collect()
}

fn choice_text(choice: &Choice) -> String {
    let Choice {
        value,
        alternative,
        alternatives,
        is_cut,
        ..
    } = choice;
    let what = match &choice.kind {
        ChoiceKind::Random { low, high } => format!("random number {low} to {high}: {value}"),
        ChoiceKind::Member { table } => {
            return format!(
                "table {table}: action {} of {alternatives}",
                alternative + 1
            )
        }
    };
    match is_cut {
        true => format!("{what} (of {alternatives} that are tried)"),
        false => what,
    }
}

fn as_json(args: &Args, test: &str, outcomes: &Outcomes) -> Value {
    let failure = |failure: &Failure| json!({"line": failure.line, "what": failure.message});
    let failures = |all: &[Failure]| all.iter().map(failure).collect::<Vec<_>>();
    let choice = |choice: &Choice| {
        let (kind, table) = match &choice.kind {
            ChoiceKind::Random { .. } => ("random", None),
            ChoiceKind::Member { table } => ("member", Some(table)),
        };
        json!({
            "kind": kind,
            "table": table,
            "value": choice.value,
            "alternative": choice.alternative + 1,
            "alternatives": choice.alternatives,
            "cut": choice.is_cut,
        })
    };
    let outcome = |outcome: &Outcome| {
        let packets = outcome.packets.iter();
        let packets = packets.map(|(port, frame)| json!({"port": port, "data": hex(frame)}));
        json!({
            "undefined_bits": u8::from(outcome.fills_undefined),
            "choices": outcome.choices.iter().map(choice).collect::<Vec<_>>(),
            "packets": packets.collect::<Vec<_>>(),
            "failures": failures(&outcome.failures),
            "trace": args.trace.map(|_| &outcome.trace),
        })
    };
    json!({
        "program": args.program.display().to_string(),
        "test": test,
        "passed": all_failures(outcomes).is_empty(),
        "cut": outcomes.is_cut,
        "outcomes": outcomes.outcomes.iter().map(outcome).collect::<Vec<_>>(),
        "failures": failures(&outcomes.failures),
    })
}
