//! Formats the checked claims of `alfirk reproduce` as text and as JSON.

use std::fmt::Write;

use serde_json::{json, Value};

use crate::experiment::claims::{Dependence, Finding};
use crate::experiment::spec::Published;
use crate::experiment::Results;

/// Table of all claims as text, one line each: published and measured ratio, and the verdict.
pub fn summary(results: &[Results<'_>], quick: bool) -> String {
    let mut lines = Vec::new();
    for results in results {
        for finding in results.findings() {
            lines.push([
                results.experiment.name.clone(),
                finding.published_text(),
                finding.measured_text(),
                factor_text(&finding),
                finding.verdict().to_owned(),
                finding.claim.text.clone(),
            ]);
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    lines.insert(
        0,
        ["figure", "paper", "measured", "share", "", "claim"].map(str::to_owned),
    );
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].len())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..6).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        let cells = line
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:width$}"));
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    if quick {
        out +=
            "\nquick: smaller groups and fewer points than in the papers, so claims may not hold\n";
    }
    out
}

/// The claims of one figure with their verdicts, as JSON.
pub fn claims(results: &Results<'_>) -> Vec<Value> {
    let findings = results.findings();
    let objects = findings.iter().map(|finding| {
        let paper = match finding.claim.paper {
            Published::Most(most) => json!({ "least": null, "most": most }),
            Published::Range(least, most) => json!({ "least": least, "most": most }),
            Published::Above(least) => json!({ "above": least }),
        };
        let dependences = finding.dependences.iter();
        json!({
            "figure": results.experiment.name,
            "claim": finding.claim.text,
            "paper": paper,
            "measured": finding.ratios.map(|ratios| json!({ "least": ratios.least, "most": ratios.most })),
            "verdict": finding.verdict(),
            "why": finding.claim.why,
            "depends_on": dependences.map(|dependence| depends_on(finding, dependence)).collect::<Vec<_>>(),
        })
    });
    objects.collect()
}

fn depends_on(finding: &Finding<'_>, dependence: &Dependence<'_>) -> Value {
    let ratios = dependence.measured().map(
        |(value, ratios)| json!({ "value": value, "least": ratios.least, "most": ratios.most }),
    );
    let reached = dependence.reached(finding.claim).into_iter();
    let reached = reached.map(|(paper, at)| json!({ "ratio": paper, "at": at }));
    json!({
        "flag": dependence.variation.flag,
        "about": dependence.variation.about,
        "ratios": ratios.collect::<Vec<_>>(),
        "paper_comes_out": reached.collect::<Vec<_>>(),
    })
}

fn factor_text(finding: &Finding<'_>) -> String {
    finding
        .measured_to_published()
        .map_or_else(|| "-".to_owned(), |factor| format!("{factor:.2}"))
}
