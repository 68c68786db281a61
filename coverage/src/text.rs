//! A report as a table, and the places that were not reached.

use crate::report::{Report, Summary};
use std::fmt::{self, Write};

impl Report {
    /// Returns a table with a line for each file and the totals.
    pub fn table(&self) -> String {
        let mut out = String::new();
        // Writing to a string never fails.
        let _ = self.write_table(&mut out);
        out
    }

    fn write_table(&self, out: &mut String) -> fmt::Result {
        let width = self.files.keys().map(|path| path.chars().count()).max();
        let width = width.unwrap_or(0).max("file".len());
        let [lines, branches, functions] = ["lines", "branches", "functions"];
        writeln!(
            out,
            "{:width$}  {lines:>16}  {branches:>16}  {functions:>16}",
            "file"
        )?;
        let mut row = |name: &str, of: &Summary| {
            let [lines, branches, functions] = [of.lines, of.branches, of.functions].map(share);
            writeln!(
                out,
                "{name:width$}  {lines:>16}  {branches:>16}  {functions:>16}"
            )
        };
        for (path, file) in &self.files {
            row(path, &file.summary())?;
        }
        row("all", &self.summary())
    }

    /// Returns a line for each source line and branch that was not reached, with the source's text. `source` returns the
    /// text of a file, if it is available.
    pub fn missed(&self, source: impl Fn(&str) -> Option<String>) -> String {
        let mut out = String::new();
        for (path, file) in &self.files {
            let text = source(path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let line_text = |line: u64| {
                let at = usize::try_from(line).ok().and_then(|at| at.checked_sub(1));
                at.and_then(|at| lines.get(at))
                    .map_or("", |line| line.trim())
            };
            let missed = file.missed_lines().map(|line| (line, None));
            let branches = file.missed_branches();
            let branches = branches.map(|(line, name)| (line, Some(name)));
            let mut all: Vec<(u64, Option<&str>)> = missed.chain(branches).collect();
            all.sort_unstable();
            for (line, branch) in all {
                let what = branch.map_or("not reached".to_owned(), |name| format!("never: {name}"));
                out += &format!("{path}:{line}: {what}: {}\n", line_text(line));
            }
        }
        out
    }
}

/// Returns covered and all places with their share, such as `12/16  75.0 %`.
pub(crate) fn share((covered, all): (usize, usize)) -> String {
    match all {
        0 => "-".to_owned(),
        _ => format!(
            "{covered}/{all} {:5.1} %",
            // Rounded down, so that only a complete coverage is 100 %.
            (covered * 1000 / all) as f64 / 10.0
        ),
    }
}
