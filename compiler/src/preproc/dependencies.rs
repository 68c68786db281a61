//! Dependency rules for `make`, in the form of `cpp -M`.

use crate::diag::SourceMap;
use std::fmt::Write;
use std::path::Path;

/// Maximum length of a line of a rule, in characters.
const MAX_COLUMNS: usize = 72;

/// Options of a dependency rule (`-M` and related options).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// `-MT`: the targets of the rule, and those of `-MQ`, quoted for `make`. Default: the source's name with the extension `.o`.
    pub targets: Vec<String>,
    /// `-MP`: add an empty rule for each included file, so that `make` does not fail after the file is deleted.
    pub phony: bool,
}

impl Dependencies {
    /// The dependency rule of a program. `map` has its files, the main one first; `missing` are the included files that were not found.
    /// The files that are built into the compiler are omitted.
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

/// Quotes the characters of a file name that are special to `make`.
pub(crate) fn quoted_for_make(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (at, c) in name.char_indices() {
        match c {
            ' ' | '\t' => {
                // Backslashes before a blank must be doubled.
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
