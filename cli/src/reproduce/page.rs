//! Writes the report of `alfirk reproduce` as one HTML page, which loads no scripts or other files.

use std::fmt::Write;

use crate::experiment::claims::{Finding, TOLERANCE};
use crate::experiment::{CellTable, Results};

const STYLE: &str = "
:root { color-scheme: light dark; --line: #ccc; --paper: #fff; --ink: #1a1a1a; --link: #0b5394; --good: #1b7f4b; --near: #7a5c00; --other: #b3401e; }
@media (prefers-color-scheme: dark) {
  :root { --line: #444; --paper: #16181c; --ink: #e6e6e6; --link: #8ab8f0; --good: #5fd39a; --near: #e0c060; --other: #f0906a; }
}
body { font: 16px/1.5 system-ui, sans-serif; background: var(--paper); color: var(--ink); max-width: 64rem; margin: 0 auto; padding: 1rem; overflow-wrap: break-word; }
a { color: var(--link); }
h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
td, th { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
table.numbers { font-size: .85rem; margin: .5rem 0 1.5rem; white-space: nowrap; }
table.numbers caption { text-align: left; font-weight: 600; padding: .2rem 0; }
table.numbers td:nth-child(n+2), table.numbers th:nth-child(n+2) { text-align: right; font-variant-numeric: tabular-nums; }
table.claims td:nth-child(3), table.claims td:nth-child(4) { white-space: nowrap; }
.holds { color: var(--good); } .explained { color: var(--near); } .differs { color: var(--other); }
figure { margin: 1rem 0; overflow-x: auto; }
figure svg { width: 100%; min-width: 40rem; height: auto; }
pre { overflow-x: auto; font-size: .85rem; }
@media (max-width: 40rem) {
  table.claims, table.claims tbody, table.claims tr, table.claims td { display: block; }
  table.claims tr:first-child { display: none; }
  table.claims tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
  table.claims td { border: 0; padding: 0; }
  table.claims td:nth-child(3)::before { content: 'paper '; } table.claims td:nth-child(4)::before { content: 'measured '; }
  table.claims td:nth-child(n+3) { display: inline-block; margin-right: 1rem; }
}
";

/// Returns the HTML page: all claims first, then each figure with its plots and tables. `table`: text of the table on
/// multicast with a binomial tree of ACKs.
pub fn html(results: &[Results<'_>], table: Option<&str>, quick: bool) -> String {
    let mut out =
        String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Reproduced figures of the papers</title>\n";
    let _ = write!(
        out,
        "<style>{STYLE}</style>\n</head>\n<body>\n<h1>Reproduced figures of the papers</h1>\n"
    );
    out += &introduction(quick);
    out += &summary(results);
    for results in results {
        out += &section(results, quick);
    }
    if let Some(table) = table {
        let _ = writeln!(
            out,
            "<h2>Mansoor and Meehan, table 1</h2>\n<pre>{}</pre>\n<p><code>alfirk reproduce binomial-ack-table-1</code></p>",
            escaped(table)
        );
    }
    out + "</body>\n</html>\n"
}

/// The paragraph that explains the verdicts on claims.
fn introduction(quick: bool) -> String {
    let mut out = String::new();
    let tolerance = TOLERANCE * 100.0;
    let _ = writeln!(
        out,
        "<p>alfirk {}, in virtual time by the fast model, whose results are those of the compiled pipelines with real packets. Ratios as the papers state them and as they were \
         measured. A claim <span class=\"holds\">holds</span> where what was measured is within {tolerance:.0} % of what was published, at both ends. It is \
         <span class=\"explained\">explained</span> where it is not, but something that the paper does not state was varied, and the published ratio comes out at one of its \
         values; else it <span class=\"differs\">differs</span>.</p>",
        env!("CARGO_PKG_VERSION")
    );
    out += "<p>In claims and plots, <code>alfirk</code> is the multicast that the papers call Cepheus and Gleam.</p>\n";
    if quick {
        out += "<p><strong>A quick run: smaller groups and fewer points than the papers have, so that claims need not come out.</strong></p>\n";
    }
    out
}

/// The table of all claims with their verdicts.
fn summary(results: &[Results<'_>]) -> String {
    let mut out = String::new();
    let all: Vec<(&str, Finding<'_>)> = results
        .iter()
        .flat_map(|results| {
            let name = results.experiment.name.as_str();
            results
                .findings()
                .into_iter()
                .map(move |finding| (name, finding))
        })
        .collect();
    let count = |verdict: &str| all.iter().filter(|(_, f)| f.verdict() == verdict).count();
    let _ = writeln!(
        out,
        "<p>{}: {}, {}, {} from the paper.</p>",
        counted(all.len(), "claim", "claims"),
        counted(count("holds"), "claim holds", "claims hold"),
        counted(
            count("explained"),
            "claim is explained",
            "claims are explained"
        ),
        counted(count("differs"), "claim differs", "claims differ")
    );
    out += "<div class=\"wide\"><table class=\"claims\">\n<tr><th>Figure</th><th>Claim</th><th>Paper</th><th>Measured</th><th></th></tr>\n";
    for (name, finding) in &all {
        let verdict = finding.verdict();
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#{name}\">{name}</a></td><td>{}</td><td>{}</td><td>{}</td><td class=\"{verdict}\">{verdict}</td></tr>",
            escaped(&finding.claim.text),
            finding.published_text(),
            finding.measured_text(),
        );
    }
    out + "</table></div>\n"
}

/// Formats a number of items, such as `1 claim` or `2 claims`.
fn counted(count: usize, one: &str, several: &str) -> String {
    let items = if count == 1 { one } else { several };
    format!("{count} {items}")
}

/// The section of one figure: its claims, plots and tables.
fn section(results: &Results<'_>, quick: bool) -> String {
    let mut out = String::new();
    let experiment = results.experiment;
    let name = &experiment.name;
    let _ = writeln!(
        out,
        "<h2 id=\"{name}\">{}</h2>\n<p>{}</p>",
        escaped(&experiment.source),
        escaped(&experiment.about)
    );
    for finding in results.findings() {
        let verdict = finding.verdict();
        let _ = writeln!(
            out,
            "<p>{} Paper {}, measured {}, <span class=\"{verdict}\">{verdict}</span>. {}</p>",
            escaped(&finding.claim.text),
            finding.published_text(),
            finding.measured_text(),
            escaped(&finding.claim.why)
        );
        let dependences = finding.dependence_sentences();
        if !dependences.is_empty() {
            let items = dependences
                .iter()
                .map(|dependence| format!("<li>{}</li>", escaped(dependence)));
            let _ = writeln!(out, "<ul>{}</ul>", items.collect::<String>());
        }
    }
    for plot in results.plots() {
        let _ = writeln!(out, "<figure>{}</figure>", recoloured(&plot.svg));
    }
    for sheet in results.cell_tables() {
        out += &html_table(&sheet);
    }
    let seeds = match experiment.repeats {
        1 => "Seed 1".to_owned(),
        repeats => format!("Seeds 1 to {repeats}"),
    };
    let quick = if quick { " --quick" } else { "" };
    let _ = writeln!(
        out,
        "<p>{seeds}. <code>alfirk reproduce {name}{quick}</code></p>"
    );
    out
}

/// Formats a table of results as HTML.
fn html_table(sheet: &CellTable) -> String {
    let mut out = format!(
        "<div class=\"wide\"><table class=\"numbers\"><caption>{}</caption>\n",
        escaped(&sheet.title)
    );
    for (number, line) in sheet.lines.iter().enumerate() {
        let tag = if number == 0 { "th" } else { "td" };
        let cells = line
            .iter()
            .map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
        let _ = writeln!(out, "<tr>{}</tr>", cells.collect::<String>());
    }
    out + "</table></div>\n"
}

/// Replaces black and white in an SVG by the text and background colours of the page, which has a light and a dark
/// theme.
fn recoloured(svg: &str) -> String {
    svg.replace("\"#FFFFFF\"", "\"var(--paper)\"")
        .replace("\"#000000\"", "\"currentColor\"")
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_pictures_have_the_pages_colours() {
        assert_eq!(escaped("a < b & c"), "a &lt; b &amp; c");
        let svg = "<rect fill=\"#FFFFFF\"/><text fill=\"#000000\"/><path stroke=\"#0072B2\"/>";
        let ours = recoloured(svg);
        assert!(ours.contains("var(--paper)") && ours.contains("currentColor"));
        assert!(ours.contains("#0072B2"));
    }
}
