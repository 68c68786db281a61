//! A report as one HTML page without external parts, which follows the browser's light or dark mode.

use crate::report::{File, Report};
use crate::text::share;
use std::fmt::{self, Write};

const STYLE: &str = "\
:root{color-scheme:light dark;--hit:#dafbe1;--miss:#ffd7d5;--part:#fff3c4;--rule:#d0d7de;--dim:#57606a}
@media(prefers-color-scheme:dark){:root{--hit:#12361f;--miss:#5a1e1e;--part:#4d3d0a;--rule:#3d444d;--dim:#9198a1}}
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}
table{border-collapse:collapse}
.files td,.files th{border-bottom:1px solid var(--rule);padding:.25rem .75rem;text-align:right}
.files td:first-child,.files th:first-child{text-align:left}
details{margin:1rem 0}
summary{cursor:pointer;font-weight:600}
.code{display:block;font:13px/1.45 ui-monospace,monospace;overflow-x:auto}
.code td{padding:0 .5rem;white-space:pre;vertical-align:top}
.code .n{color:var(--dim);text-align:right;user-select:none}
.hit{background:var(--hit)}
.miss{background:var(--miss)}
.part{background:var(--part)}
.key span{padding:0 .5rem}
";

/// Returns the report as an HTML page. `source` returns the text of a file, if it is available.
pub fn html(report: &Report, title: &str, source: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    // Writing to a string never fails.
    let _ = page(&mut out, report, title, source);
    out
}

fn page(
    out: &mut String,
    report: &Report,
    title: &str,
    source: impl Fn(&str) -> Option<String>,
) -> fmt::Result {
    let title = escape(title);
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p class=\"key\"><span class=\"hit\">executed</span> <span class=\"part\">some branches never taken</span> \
         <span class=\"miss\">not reached</span> Lines without colour have no code.</p>\n\
         <table class=\"files\">\n<thead><tr><th>File</th><th>Lines</th><th>Branches</th>\
         <th>States, actions, controls</th></tr></thead>\n<tbody>\n"
    )?;
    let mut row = |name: &str, of: &crate::report::Summary| {
        let [lines, branches, functions] = [of.lines, of.branches, of.functions].map(share);
        writeln!(
            out,
            "<tr><td>{name}</td><td>{lines}</td><td>{branches}</td><td>{functions}</td></tr>"
        )
    };
    for (number, (path, file)) in report.files.iter().enumerate() {
        let link = format!("<a href=\"#f{number}\">{}</a>", escape(path));
        row(&link, &file.summary())?;
    }
    row("all", &report.summary())?;
    out.write_str("</tbody>\n</table>\n")?;
    for (number, (path, file)) in report.files.iter().enumerate() {
        let name = escape(path);
        writeln!(
            out,
            "<details id=\"f{number}\" open>\n<summary>{name}</summary>"
        )?;
        match source(path) {
            Some(text) => code(out, file, &text)?,
            None => out.write_str("<p>The source is not available.</p>\n")?,
        }
        out.write_str("</details>\n")?;
    }
    out.write_str("</body>\n</html>\n")
}

fn code(out: &mut String, file: &File, text: &str) -> fmt::Result {
    out.write_str("<table class=\"code\">\n")?;
    for (number, line) in (1..).zip(text.lines()) {
        let on_line = (file.branches).range((number, 0, 0)..=(number, u64::MAX, u64::MAX));
        let missed: Vec<&str> = on_line
            .filter(|(_, branch)| branch.count == 0)
            .map(|(_, branch)| branch.name.as_str())
            .collect();
        let count = file.lines.get(&number);
        let class = match count {
            None => "",
            Some(0) => "miss",
            Some(_) if missed.is_empty() => "hit",
            Some(_) => "part",
        };
        let note = match class {
            "part" => format!("never: {}", missed.join(", ")),
            _ => String::new(),
        };
        let count = count.map(u64::to_string).unwrap_or_default();
        writeln!(
            out,
            "<tr class=\"{class}\"><td class=\"n\">{number}</td><td class=\"n\">{count}</td>\
             <td>{}</td><td class=\"n\">{}</td></tr>",
            escape(line),
            escape(&note)
        )?;
    }
    out.write_str("</table>\n")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
