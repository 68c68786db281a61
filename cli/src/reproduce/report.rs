//! What was found, as lines for a terminal and as one HTML page that needs nothing else.

use std::fmt::Write;

use serde_json::{json, Value};

use crate::experiment::claims::{Finding, TOLERANCE};
use crate::experiment::Results;

/// Every claim in one line each.
pub fn summary(results: &[Results<'_>], quick: bool) -> String {
    let mut lines = Vec::new();
    for results in results {
        for finding in results.findings() {
            lines.push([
                results.experiment.name.clone(),
                finding.paper(),
                finding.ours(),
                factor(&finding),
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
        out += "\nquick: with smaller groups and fewer points than the papers have, so that claims need not come out\n";
    }
    out
}

/// The same as objects.
pub fn claims(results: &Results<'_>) -> Vec<Value> {
    let findings = results.findings();
    let objects = findings.iter().map(|finding| {
        let (least, most) = finding.claim.paper;
        json!({
            "figure": results.experiment.name,
            "claim": finding.claim.text,
            "paper": { "least": least, "most": most },
            "measured": finding.ratios.map(|ratios| json!({ "least": ratios.least, "most": ratios.most })),
            "verdict": finding.verdict(),
            "why": finding.claim.why,
        })
    });
    objects.collect()
}

fn factor(finding: &Finding<'_>) -> String {
    finding
        .factor()
        .map_or_else(|| "-".to_owned(), |factor| format!("{factor:.2}"))
}

const STYLE: &str = "
:root { color-scheme: light dark; --line: #ccc; --paper: #fff; --ink: #1a1a1a; --good: #1b7f4b; --other: #b3541e; }
@media (prefers-color-scheme: dark) { :root { --line: #444; --paper: #16181c; --ink: #e6e6e6; --good: #5fd39a; --other: #f0a06a; } }
body { font: 16px/1.5 system-ui, sans-serif; background: var(--paper); color: var(--ink); max-width: 62rem; margin: 0 auto; padding: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
td:nth-child(n+3), td:first-child { white-space: nowrap; }
td, th { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
.holds { color: var(--good); } .differs { color: var(--other); }
figure { margin: 1rem 0; background: #fff; overflow-x: auto; }
figure svg { max-width: 100%; height: auto; }
pre { overflow-x: auto; font-size: .85rem; }
";

/// The page: all claims first, then each figure with its plots and tables. `table` is that of the acknowledged multicast.
pub fn html(results: &[Results<'_>], table: Option<&str>, quick: bool) -> String {
    let mut out =
        String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>The papers' figures, measured anew</title>\n";
    let _ = write!(
        out,
        "<style>{STYLE}</style>\n</head>\n<body>\n<h1>The papers' figures, measured anew</h1>\n"
    );
    let tolerance = TOLERANCE * 100.0;
    let _ = writeln!(
        out,
        "<p>alfirk {}, in virtual time by the fast model, whose results are those of the compiled pipelines with real packets. Ratios as the papers state them and as they were \
         measured; a claim holds where both ends are within {tolerance:.0} % of what was published.</p>",
        env!("CARGO_PKG_VERSION")
    );
    if quick {
        out += "<p><strong>A quick run: smaller groups and fewer points than the papers have, so that claims need not come out.</strong></p>\n";
    }
    out += "<div class=\"wide\"><table>\n<tr><th>Figure</th><th>Claim</th><th>Paper</th><th>Measured</th><th></th></tr>\n";
    for results in results {
        let name = &results.experiment.name;
        for finding in results.findings() {
            let verdict = finding.verdict();
            let _ = writeln!(
                out,
                "<tr><td><a href=\"#{name}\">{name}</a></td><td>{}</td><td>{}</td><td>{}</td><td class=\"{verdict}\">{verdict}</td></tr>",
                text(&finding.claim.text),
                finding.paper(),
                finding.ours(),
            );
        }
    }
    out += "</table></div>\n";
    for results in results {
        let experiment = results.experiment;
        let name = &experiment.name;
        let _ = writeln!(
            out,
            "<h2 id=\"{name}\">{}</h2>\n<p>{}</p>",
            text(&experiment.source),
            text(&experiment.about)
        );
        for finding in results.findings() {
            let verdict = finding.verdict();
            let _ = writeln!(
                out,
                "<p>{} Paper {}, measured {}, <span class=\"{verdict}\">{verdict}</span>. {}</p>",
                text(&finding.claim.text),
                finding.paper(),
                finding.ours(),
                text(&finding.claim.why)
            );
        }
        for plot in results.plots() {
            let _ = writeln!(out, "<figure>{}</figure>", plot.svg);
        }
        let _ = writeln!(out, "<pre>{}</pre>", text(results.tables().trim()));
        let command = format!(
            "alfirk reproduce {name}{}",
            if quick { " --quick" } else { "" }
        );
        let _ = writeln!(out, "<p><code>{command}</code></p>");
    }
    if let Some(table) = table {
        let _ = writeln!(
            out,
            "<h2>Mansoor and Meehan, table 1</h2>\n<pre>{}</pre>\n<p><code>alfirk reproduce binomial-ack-table-1</code></p>",
            text(table)
        );
    }
    out + "</body>\n</html>\n"
}

/// Text as HTML.
fn text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
