//! Rendering of diagnostics in the format of rustc.

use super::{Diagnostic, Diagnostics, Severity, SourceMap, Span};
use std::fmt::Write;

/// Maximum length of a source line in characters; longer lines are truncated around the caret.
const MAX_LINE: usize = 160;

/// Renders all diagnostics, each followed by an empty line.
pub fn render_all(diagnostics: &Diagnostics, map: &SourceMap) -> String {
    diagnostics.iter().map(|d| render(d, map) + "\n").collect()
}

/// Renders a diagnostic in one line: `file:line:col: error[E0400]: message`.
pub fn render_short(d: &Diagnostic, map: &SourceMap) -> String {
    let mut out = String::new();
    if let Some(span) = d.span {
        let at = map.location(map.reported_span(span));
        let _ = write!(out, "{}:{}:{}: ", at.file, at.line, at.column);
    }
    let _ = write!(out, "{}: {}", head(d), d.message);
    if !d.label.is_empty() {
        let _ = write!(out, ": {}", d.label);
    }
    out.push('\n');
    out
}

/// Renders a diagnostic: message, source line, caret, notes and helps.
pub fn render(d: &Diagnostic, map: &SourceMap) -> String {
    let mut out = format!("{}: {}\n", head(d), d.message);
    let mut snippets: Vec<Snippet> = Vec::new();
    if let Some(span) = d.span {
        let reported_span = map.reported_span(span);
        snippets.push(Snippet::new(map, reported_span, &d.label, '^'));
        if reported_span != span {
            snippets.push(Snippet::new(map, span, "in this use of the macro", '-'));
        }
    }
    snippets.extend(
        d.others
            .iter()
            .map(|(s, text)| Snippet::new(map, *s, text, '-')),
    );
    let gutter = snippets
        .iter()
        .map(|p| p.line_number().len())
        .max()
        .unwrap_or(1);
    let pad = " ".repeat(gutter);
    let main_file = snippets.first().map(|p| p.location.file.clone());
    // Positions in the main file are shown in order of lines, those in other files after them.
    let (mut same, others): (Vec<_>, Vec<_>) = snippets
        .iter()
        .partition(|p| Some(&p.location.file) == main_file.as_ref());
    if let Some(first) = snippets.first() {
        let at = &first.location;
        let _ = writeln!(out, "{pad}--> {}:{}:{}", at.file, at.line, at.column);
        same.sort_by_key(|p| (p.index, p.column));
        let _ = writeln!(out, "{pad} |");
        lines(&mut out, &same, gutter);
    }
    for snippet in others {
        let at = &snippet.location;
        let _ = writeln!(out, "{pad}::: {}:{}:{}", at.file, at.line, at.column);
        let _ = writeln!(out, "{pad} |");
        lines(&mut out, &[snippet], gutter);
    }
    for note in &d.notes {
        let _ = writeln!(out, "{pad} = note: {note}");
    }
    for help in &d.helps {
        let _ = writeln!(out, "{pad} = help: {help}");
    }
    out
}

fn head(d: &Diagnostic) -> String {
    match (d.severity, d.code, d.warning) {
        (Severity::Error, Some(code), _) => format!("error[{code}]"),
        (Severity::Error, None, Some(warning)) => format!("error[{}]", warning.name()),
        (Severity::Warning, _, Some(warning)) => format!("warning[{}]", warning.name()),
        (Severity::Error, None, None) => "error".into(),
        (Severity::Warning, _, None) => "warning".into(),
        (Severity::Info, _, Some(warning)) => format!("info[{}]", warning.name()),
        (Severity::Info, _, None) => "info".into(),
    }
}

/// The source line of a span, with the label that is printed below it.
struct Snippet<'a> {
    location: super::Location,
    index: usize,
    text: String,
    /// Column of the first caret, in characters from 0.
    column: usize,
    width: usize,
    label: &'a str,
    mark: char,
}

impl<'a> Snippet<'a> {
    fn new(map: &SourceMap, span: Span, label: &'a str, mark: char) -> Snippet<'a> {
        let file = map.file(span.file);
        let index = file.line_index(span.lo);
        let line = file.line_text(index);
        let start = file.line_start(index);
        let lo = (span.lo - start) as usize;
        let hi = ((span.hi.max(span.lo) - start) as usize).min(line.len());
        let before = line.get(..lo.min(line.len())).unwrap_or(line);
        let marked = line
            .get(lo.min(line.len())..hi.max(lo.min(line.len())))
            .unwrap_or("");
        let mut text: String = line.replace('\t', " ");
        let mut column = before.chars().count();
        let mut width = marked.chars().count().max(1);
        if text.chars().count() > MAX_LINE {
            let from = column.saturating_sub(MAX_LINE / 2);
            text = text.chars().skip(from).take(MAX_LINE).collect();
            column -= from;
            width = width.min(MAX_LINE - column.min(MAX_LINE - 1));
            if from > 0 {
                text.insert_str(0, "...");
                column += 3;
            }
            text.push_str("...");
        }
        Snippet {
            location: map.location(span),
            index,
            text,
            column,
            width,
            label,
            mark,
        }
    }

    fn line_number(&self) -> String {
        self.location.line.to_string()
    }
}

fn lines(out: &mut String, snippets: &[&Snippet<'_>], gutter: usize) {
    let pad = " ".repeat(gutter);
    let mut last = None;
    for snippet in snippets {
        if last != Some(snippet.index) {
            if last.is_some_and(|l| snippet.index > l + 1) {
                out.push_str("...\n");
            }
            let line = format!("{:>gutter$} | {}", snippet.line_number(), snippet.text);
            let _ = writeln!(out, "{}", line.trim_end());
            last = Some(snippet.index);
        }
        let marks = snippet.mark.to_string().repeat(snippet.width);
        let line = format!(
            "{pad} | {}{marks} {}",
            " ".repeat(snippet.column),
            snippet.label
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
}
