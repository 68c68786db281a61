//! Dependency rules for `make`, in the form of `cpp -M`.

use crate::diag::SourceMap;
use std::fmt::Write;
use std::path::Path;

/// Longest line of a rule.
const MAX_COLUMNS: usize = 72;

/// Options of a dependency rule (`-M` and related options).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// `-MT`, and `-MQ` with what is special to `make` quoted. Default: the source's name with `.o` for its extension.
    pub targets: Vec<String>,
    /// `-MP`: an empty rule for every included file, so that `make` goes on without it.
    pub phony: bool,
}

impl Dependencies {
    /// The rule for a program whose files are in `map`, its main file first. Files that are part of the compiler are left out.
    pub fn rule(&self, map: &SourceMap, missing: &[String]) -> String {
        let mut files: Vec<&str> = Vec::new();
        let read = map.files().map(|file| &*file.name);
        for file in read.chain(missing.iter().map(String::as_str)) {
            if !file.starts_with('<') && !files.contains(&file) {
                files.push(file);
            }
        }
        let mut rule = match self.targets.is_empty() {
            true => {
                let main = files.first().map_or(Path::new("-"), Path::new);
                let object = Path::new(main.file_name().unwrap_or_default()).with_extension("o");
                quoted_for_make(&object.to_string_lossy())
            }
            false => self.targets.join(" "),
        };
        rule.push(':');
        let mut column = rule.len();
        for file in &files {
            let file = quoted_for_make(file);
            if column + 1 + file.len() > MAX_COLUMNS {
                rule.push_str(" \\\n");
                column = 0;
            }
            rule.push(' ');
            rule.push_str(&file);
            column += 1 + file.len();
        }
        rule.push('\n');
        if self.phony {
            for file in files.iter().skip(1) {
                let _ = writeln!(rule, "{}:", quoted_for_make(file));
            }
        }
        rule
    }
}

/// A name with what is special to `make` quoted.
pub(crate) fn quoted_for_make(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (at, c) in name.char_indices() {
        match c {
            ' ' | '\t' => {
                // Backslashes before a blank count double.
                let slashes = name[..at].len() - name[..at].trim_end_matches('\\').len();
                out.push_str(&"\\".repeat(slashes + 1));
            }
            '$' => out.push('$'),
            '#' => out.push('\\'),
            _ => {}
        }
        out.push(c);
    }
    out
}
