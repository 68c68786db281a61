//! The stage report as text.

use std::fmt::Write;

use super::{Report, Resources};

/// Maximum number of characters of a name in the table of steps.
const NAME: usize = 44;

/// Renders a report as text for the terminal.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, report);
    text
}

fn write(text: &mut String, report: &Report) -> std::fmt::Result {
    let verdict = if report.fits() {
        "fits"
    } else {
        "does not fit"
    };
    writeln!(
        text,
        "{}: {} of {} stages for {}: it {verdict}. By dependencies alone {} stages.",
        report.title(),
        report.needed,
        report.stages,
        report.architecture,
        report.longest_chain
    )?;
    writeln!(text, "Not checked: {}.", report.not_checked.join(", "))?;
    writeln!(
        text,
        "\nWhat each stage takes (a stage has {}):\n",
        list(&report.budget)
    )?;
    let heads = report.budget.list().map(|(name, _)| name);
    write!(text, "{:>5}", "stage")?;
    for head in heads {
        write!(text, "  {head}")?;
    }
    writeln!(text)?;
    for (stage, used) in report.used.iter().enumerate() {
        write!(text, "{stage:>5}")?;
        for ((_, number), head) in used.list().iter().zip(heads) {
            write!(text, "  {number:>width$}", width = head.len())?;
        }
        writeln!(text)?;
    }
    writeln!(
        text,
        "\nSteps (tables, registers and conditions; statements are listed in the JSON):\n"
    )?;
    let mut steps: Vec<_> = report
        .steps
        .iter()
        .filter(|step| step.kind != "statement")
        .collect();
    steps.sort_by_key(|step| (step.stage, step.gress != "ingress"));
    for step in steps {
        let stages = match step.last > step.stage {
            true => format!("{}-{}", step.stage, step.last),
            false => step.stage.to_string(),
        };
        let takes = list(&step.takes);
        let name = shortened(&step.name);
        writeln!(
            text,
            "{stages:>5}  {:<7} {:<9} {name:<NAME$} {}  {takes}",
            step.gress, step.kind, step.source
        )?;
    }
    writeln!(text, "\nThe longest chain:\n")?;
    for link in &report.chain {
        let step = &report.steps[link.step];
        let why = match (link.dependency, link.field.as_str()) {
            ("", _) => String::new(),
            (dependency, "") => dependency.to_owned(),
            (dependency, field) => format!("{dependency} on {field}"),
        };
        let name = shortened(&step.name);
        writeln!(
            text,
            "{:>5}  {name:<NAME$} {}  {why}",
            link.stage, step.source
        )?;
    }
    if let Some(cut) = &report.cut {
        writeln!(
            text,
            "\nThe cheapest cut: without `{}` from {} to {} the longest chain would take {} stages.",
            cut.field, report.steps[cut.from].source, report.steps[cut.to].source, cut.left
        )?;
    }
    if !report.notes.is_empty() {
        writeln!(text, "\nNotes:\n")?;
        for note in &report.notes {
            writeln!(text, "{}: {}", note.source, note.text)?;
        }
    }
    Ok(())
}

/// The amounts of the resources that are not 0, such as `1 tables, 4 SRAM`.
fn list(takes: &Resources) -> String {
    let parts: Vec<String> = (takes.list().iter())
        .filter(|(_, number)| *number > 0)
        .map(|(name, number)| format!("{number} {name}"))
        .collect();
    parts.join(", ")
}

/// A name, truncated with an ellipsis if it is too long.
fn shortened(name: &str) -> String {
    match name.chars().count() > NAME {
        true => name.chars().take(NAME - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}
