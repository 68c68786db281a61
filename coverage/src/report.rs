//! Counts by file, line, function and branch.

use alfirk_bmv2::coverage::{Covered, SiteKind};
use std::collections::BTreeMap;
use thiserror::Error;

/// Files of the architectures, which declare what targets implement. Their few actions are not the program's.
const LIBRARIES: [&str; 4] = ["core.p4", "v1model.p4", "tna.p4", "t2na.p4"];

/// Coverage of source files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The files by path, as it was given to the compiler.
    pub files: BTreeMap<String, File>,
}

/// Coverage of a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Number of executions by line, from 1. A line with several places has the largest number of them.
    pub lines: BTreeMap<u64, u64>,
    /// Parser states, actions, controls and deparsers by line and name.
    pub functions: BTreeMap<(u64, String), Function>,
    /// Branches by line, block and number. The block is the column of the condition, table or case. A condition has the
    /// branches 0 (true) and 1 (false), a table 0 (hit), 1 (miss) and then its actions, and a case of a `select` 0.
    pub branches: BTreeMap<(u64, u64, u64), Branch>,
}

/// Coverage of a parser state, action, control or deparser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Number of executions.
    pub count: u64,
}

/// Coverage of a branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// Number of executions.
    pub count: u64,
    /// Description of the branch, such as `false`; empty if it is unknown.
    pub name: String,
}

/// Numbers of covered and of all lines, functions and branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines: with executions, and all.
    pub lines: (usize, usize),
    /// Functions: with executions, and all.
    pub functions: (usize, usize),
    /// Branches: with executions, and all.
    pub branches: (usize, usize),
}

/// Reports that do not belong together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file} is another version: {name} was at line {before}, and is at line {after}")]
pub struct MergeError {
    file: String,
    name: String,
    before: u64,
    after: u64,
}

impl Report {
    /// Sums the counts of a switch by their positions in the source.
    pub fn new(covered: &[Covered]) -> Report {
        // Executions of each position. Kinds of sites at one position are counted separately.
        let mut positions: BTreeMap<(String, u64, u64, u8), u64> = BTreeMap::new();
        let mut report = Report::default();
        for Covered { site, count } in covered {
            let source = &site.source;
            let name = source.file.rsplit('/').next().unwrap_or_default();
            if LIBRARIES.contains(&name) {
                continue;
            }
            let path = normal(&source.file);
            let file = report.files.entry(path.clone()).or_default();
            let (line, column) = (source.line, source.column);
            let mut branch = |number: u64, name: String| {
                let branch = file.branches.entry((line, column, number)).or_default();
                branch.count += count;
                branch.name = name;
            };
            let kind = match &site.kind {
                SiteKind::Function { name } => {
                    let function = file.functions.entry((line, name.clone())).or_default();
                    function.count += count;
                    0
                }
                SiteKind::Statement => 1,
                SiteKind::Branch { holds } => {
                    branch(u64::from(!holds), holds.to_string());
                    2
                }
                SiteKind::Case { .. } => {
                    branch(0, format!("case {}", source.text));
                    3
                }
                SiteKind::Table { hit, .. } => {
                    let name = if *hit { "hit" } else { "miss" };
                    branch(u64::from(!hit), name.to_owned());
                    4
                }
                SiteKind::TableAction { number, action, .. } => {
                    branch(2 + u64::from(*number), format!("action {action}"));
                    5
                }
            };
            let position = (path, line, column, kind);
            *positions.entry(position).or_default() += count;
        }
        for ((file, line, _, _), count) in positions {
            let lines = &mut report.files.entry(file).or_default().lines;
            let most = lines.entry(line).or_default();
            *most = count.max(*most);
        }
        report
    }

    /// Adds the counts of another report.
    ///
    /// # Errors
    /// A file has changed between the reports: a function of it is at another line. Nothing is added then.
    pub fn add(&mut self, other: &Report) -> Result<(), MergeError> {
        for (path, file) in &other.files {
            if let Some(known) = self.files.get(path) {
                known.check_same(path, file)?;
            }
        }
        for (path, file) in &other.files {
            self.files.entry(path.clone()).or_default().add(file);
        }
        Ok(())
    }

    /// Makes paths below a folder relative to it, and keeps only files whose paths then begin with `only`.
    pub fn relative_to(self, folder: &str, only: &str) -> Report {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let files = self.files.into_iter().map(|(path, file)| {
            let relative = path.strip_prefix(&prefix).map(str::to_owned);
            (relative.unwrap_or(path), file)
        });
        Report {
            files: files.filter(|(path, _)| path.starts_with(only)).collect(),
        }
    }

    /// Returns the totals of all files.
    pub fn summary(&self) -> Summary {
        let sum = |a: (usize, usize), b: (usize, usize)| (a.0 + b.0, a.1 + b.1);
        let files = self.files.values().map(File::summary);
        files.fold(Summary::default(), |total, file| Summary {
            lines: sum(total.lines, file.lines),
            functions: sum(total.functions, file.functions),
            branches: sum(total.branches, file.branches),
        })
    }
}

/// Returns a path without `.` and with `..` resolved, so that a file has one path wherever it is included.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            (".", _) => {}
            ("..", Some(&last)) if !["", ".."].contains(&last) => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

impl File {
    /// Returns the file's totals.
    pub fn summary(&self) -> Summary {
        fn of(counts: impl Iterator<Item = u64>) -> (usize, usize) {
            counts.fold((0, 0), |(covered, all), count| {
                (covered + usize::from(count > 0), all + 1)
            })
        }
        Summary {
            lines: of(self.lines.values().copied()),
            functions: of(self.functions.values().map(|function| function.count)),
            branches: of(self.branches.values().map(|branch| branch.count)),
        }
    }

    /// Returns the lines without executions.
    pub fn missed_lines(&self) -> impl Iterator<Item = u64> + '_ {
        let missed = self.lines.iter().filter(|(_, count)| **count == 0);
        missed.map(|(line, _)| *line)
    }

    /// Returns line and name of branches without executions, on lines that have some.
    pub fn missed_branches(&self) -> impl Iterator<Item = (u64, &str)> {
        let missed = self.branches.iter().filter(|((line, _, _), branch)| {
            branch.count == 0 && self.lines.get(line).is_some_and(|count| *count > 0)
        });
        missed.map(|((line, _, _), branch)| (*line, branch.name.as_str()))
    }

    /// Checks that no function has moved.
    fn check_same(&self, path: &str, other: &File) -> Result<(), MergeError> {
        for (after, name) in other.functions.keys() {
            let has_name = |(_, known): &&(u64, String)| known == name;
            let mut known = self.functions.keys().filter(has_name).peekable();
            let Some(&&(before, _)) = known.peek() else {
                continue;
            };
            // Several functions may share a name.
            if !known.any(|(line, _)| line == after)
                && other.functions.keys().filter(has_name).count() == 1
            {
                return Err(MergeError {
                    file: path.to_owned(),
                    name: name.clone(),
                    before,
                    after: *after,
                });
            }
        }
        Ok(())
    }

    /// Adds the counts of the same version of the file.
    pub(crate) fn add(&mut self, other: &File) {
        for (line, count) in &other.lines {
            let sum = self.lines.entry(*line).or_default();
            *sum = sum.saturating_add(*count);
        }
        for (at, function) in &other.functions {
            let sum = &mut self.functions.entry(at.clone()).or_default().count;
            *sum = sum.saturating_add(function.count);
        }
        for (at, branch) in &other.branches {
            let sum = self.branches.entry(*at).or_default();
            sum.count = sum.count.saturating_add(branch.count);
            if sum.name.is_empty() {
                sum.name.clone_from(&branch.name);
            }
        }
    }
}
