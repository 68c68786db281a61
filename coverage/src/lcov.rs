//! The format of LCOV (geninfo(1), "Files"), which editors and `genhtml` read.
//!
//! Names of branches are in comments, since the format has only their numbers.

use crate::report::{File, Report};
use std::collections::BTreeMap;
use std::fmt::Write;
use thiserror::Error;

/// Beginning of a comment with the name of a branch.
const BRANCH_NAME: &str = "#branch:";

/// A line that is not LCOV.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line} is not LCOV: {text:?}")]
pub struct LcovError {
    line: usize,
    text: String,
}

impl Report {
    /// Returns the report in LCOV.
    pub fn to_lcov(&self) -> String {
        let mut out = String::new();
        for (path, file) in &self.files {
            // Writing to a string never fails.
            let _ = write_file(&mut out, path, file);
        }
        out
    }

    /// Parses LCOV. Records that a report does not have are ignored.
    ///
    /// # Errors
    /// A record is damaged, or the text is not LCOV.
    pub fn from_lcov(text: &str) -> Result<Report, LcovError> {
        let mut report = Report::default();
        let mut current: Option<(String, File, BTreeMap<String, u64>)> = None;
        let mut last = (0, "");
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_end();
            last = (number, line);
            let damaged = || LcovError {
                line: number,
                text: line.chars().take(60).collect(),
            };
            if line.is_empty() {
                continue;
            }
            if let Some(path) = line.strip_prefix("SF:") {
                if path.is_empty() || current.is_some() {
                    return Err(damaged());
                }
                current = Some((path.to_owned(), File::default(), BTreeMap::new()));
                continue;
            }
            if line == "end_of_record" {
                let (path, file, _) = current.take().ok_or_else(damaged)?;
                report.files.entry(path).or_default().add(&file);
                continue;
            }
            match (&mut current, line.split_once(':')) {
                (Some((_, file, functions)), Some((name, value))) => {
                    record(file, functions, name, value).ok_or_else(damaged)?;
                }
                (None, Some(("TN" | "VER", _))) => {}
                _ if line.starts_with('#') => {}
                _ => return Err(damaged()),
            }
        }
        match current {
            None => Ok(report),
            Some(_) => Err(LcovError {
                line: last.0,
                text: format!("{} (the file ends here)", last.1),
            }),
        }
    }
}

/// Adds a record of a file. `functions`: line of each name. `None` for a damaged record.
fn record(
    file: &mut File,
    functions: &mut BTreeMap<String, u64>,
    name: &str,
    value: &str,
) -> Option<()> {
    let mut parts = value.split(',');
    match name {
        "DA" => {
            let (line, count) = (number(parts.next()?)?, number(parts.next()?)?);
            *file.lines.entry(line).or_default() += count;
        }
        "FN" => {
            let line = number(parts.next()?)?;
            let mut name = value.split_once(',')?.1;
            // Since version 2, a last line may precede the name.
            if let Some((end, rest)) = name.split_once(',') {
                if number(end).is_some() {
                    name = rest;
                }
            }
            functions.insert(name.to_owned(), line);
            file.functions.entry((line, plain(name, line))).or_default();
        }
        "FNDA" => {
            let count = number(parts.next()?)?;
            let name = value.split_once(',')?.1;
            let line = *functions.get(name)?;
            let function = file.functions.entry((line, plain(name, line))).or_default();
            function.count += count;
        }
        "BRDA" => {
            let at = branch_at(&mut parts)?;
            let count = match parts.next()? {
                "-" => 0,
                count => number(count)?,
            };
            file.branches.entry(at).or_default().count += count;
        }
        "#branch" => {
            let at = branch_at(&mut parts)?;
            let name = value.splitn(4, ',').nth(3)?;
            file.branches.entry(at).or_default().name = name.to_owned();
        }
        "LF" | "LH" | "FNF" | "FNH" | "BRF" | "BRH" => {
            number(value)?;
        }
        name if name.starts_with('#') || name.chars().all(|c| c.is_ascii_uppercase()) => {}
        _ => return None,
    }
    Some(())
}

fn branch_at<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Option<(u64, u64, u64)> {
    Some((
        number(parts.next()?)?,
        number(parts.next()?)?,
        number(parts.next()?)?,
    ))
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// Returns a function's name without the line that makes it unique.
fn plain(name: &str, line: u64) -> String {
    let suffix = format!(":{line}");
    name.strip_suffix(&suffix).unwrap_or(name).to_owned()
}

fn write_file(out: &mut String, path: &str, file: &File) -> std::fmt::Result {
    let summary = file.summary();
    writeln!(out, "TN:\nSF:{path}")?;
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, name) in file.functions.keys() {
        *uses.entry(name).or_default() += 1;
    }
    let unique = |line: u64, name: &str| match uses[name] {
        1 => name.to_owned(),
        _ => format!("{name}:{line}"),
    };
    for (line, name) in file.functions.keys() {
        writeln!(out, "FN:{line},{}", unique(*line, name))?;
    }
    for ((line, name), function) in &file.functions {
        writeln!(out, "FNDA:{},{}", function.count, unique(*line, name))?;
    }
    let (covered, all) = summary.functions;
    writeln!(out, "FNF:{all}\nFNH:{covered}")?;
    for ((line, block, number), branch) in &file.branches {
        if !branch.name.is_empty() {
            let name = branch.name.replace(['\n', '\r'], " ");
            writeln!(out, "{BRANCH_NAME}{line},{block},{number},{name}")?;
        }
        // Branches of a line that was not executed have not been decided.
        match file.lines.get(line) {
            Some(0) => writeln!(out, "BRDA:{line},{block},{number},-")?,
            _ => writeln!(out, "BRDA:{line},{block},{number},{}", branch.count)?,
        }
    }
    let (covered, all) = summary.branches;
    writeln!(out, "BRF:{all}\nBRH:{covered}")?;
    for (line, count) in &file.lines {
        writeln!(out, "DA:{line},{count}")?;
    }
    let (covered, all) = summary.lines;
    writeln!(out, "LF:{all}\nLH:{covered}\nend_of_record")
}
