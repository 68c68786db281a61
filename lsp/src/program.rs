//! The include graph: the program that a file is part of.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use alfirk_compiler::arch::Arch;
use alfirk_compiler::driver::CompileOptions;
use alfirk_compiler::preproc::{normalize, MacroOption, SourceLoader};

use crate::settings::Settings;

/// Maximum number of P4 files that are searched in a folder.
const MAX_FILES: usize = 4_000;

/// A document that is open in the editor.
#[derive(Debug)]
pub struct Document {
    pub text: String,
    pub version: i32,
}

/// Loads files, with the editor's text for open ones.
pub struct Files {
    pub open: BTreeMap<PathBuf, Document>,
    pub disk: Box<dyn SourceLoader + Send>,
}

impl SourceLoader for Files {
    fn load(&self, path: &Path) -> io::Result<String> {
        match self.open.get(&normalize(path)) {
            Some(document) => Ok(document.text.clone()),
            None => self.disk.load(path),
        }
    }

    fn modified(&self, path: &Path) -> Option<SystemTime> {
        self.disk.modified(path)
    }
}

/// The include graph of the P4 files in the open folders.
#[derive(Debug, Default)]
pub struct Includes {
    /// The names in `#include` directives, by file.
    named: BTreeMap<PathBuf, Vec<String>>,
    /// The files that include a file.
    by: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    /// Files that contain the instance `main`.
    mains: BTreeSet<PathBuf>,
}

impl Includes {
    /// Builds the graph of all P4 files in some folders, and of the open ones.
    pub fn of(folders: &[PathBuf], files: &Files, settings: &Settings) -> Includes {
        let mut found: BTreeSet<PathBuf> = files.open.keys().cloned().collect();
        for folder in folders {
            collect(folder, &mut found);
        }
        let mut includes = Includes::default();
        for path in &found {
            let Ok(text) = files.load(path) else { continue };
            if ends_program(&text) {
                includes.mains.insert(path.clone());
            }
            let named: Vec<String> = named_in(&text).collect();
            let own = path.parent().unwrap_or(Path::new(""));
            let dirs = dirs(folders, settings);
            for name in &named {
                let candidates = std::iter::once(own).chain(dirs.iter().map(PathBuf::as_path));
                let mut candidates = candidates.map(|dir| normalize(&dir.join(name)));
                if let Some(included) = candidates.find(|path| found.contains(path)) {
                    includes
                        .by
                        .entry(included)
                        .or_default()
                        .insert(path.clone());
                }
            }
            includes.named.insert(path.clone(), named);
        }
        includes
    }

    /// The main file of the program that contains a file: the file itself, or the nearest main file that includes it. An open one is
    /// preferred.
    pub fn main_of(&self, path: &Path, files: &Files) -> PathBuf {
        if self.mains.contains(path) {
            return path.to_owned();
        }
        let mut seen = BTreeSet::from([path]);
        let mut next = VecDeque::from([path]);
        let mut found: Vec<&Path> = Vec::new();
        while let Some(path) = next.pop_front() {
            for by in self.by.get(path).into_iter().flatten() {
                if seen.insert(by) {
                    next.push_back(by);
                    found.push(by);
                }
            }
        }
        let mains = found.iter().filter(|path| self.mains.contains(**path));
        let open = mains.clone().find(|path| files.open.contains_key(**path));
        let any = open.or_else(|| mains.clone().next());
        any.map_or_else(|| path.to_owned(), |path| path.to_path_buf())
    }

    /// Whether a file contains the instance `main`.
    pub fn is_main(&self, path: &Path) -> bool {
        self.mains.contains(path)
    }

    /// The architecture that a program includes.
    fn arch(&self, main: &Path) -> Arch {
        let mut seen = BTreeSet::new();
        let mut next = vec![main.to_owned()];
        let mut arch = Arch::V1model;
        while let Some(path) = next.pop() {
            let own = path.parent().unwrap_or(Path::new("")).to_owned();
            for name in self.named.get(&path).into_iter().flatten() {
                match name.rsplit('/').next() {
                    // A program for both chips is checked for Tofino 1.
                    Some("tna.p4") => return Arch::Tna,
                    Some("t2na.p4") => arch = Arch::T2na,
                    _ => {}
                }
                let included = normalize(&own.join(name));
                if seen.insert(included.clone()) {
                    next.push(included);
                }
            }
        }
        arch
    }

    /// The compiler options for a program.
    pub fn options(&self, main: &Path, folders: &[PathBuf], settings: &Settings) -> CompileOptions {
        let mut options = CompileOptions::new(main);
        options.preprocessor.include_dirs = dirs(folders, settings);
        let defines = settings.defines.iter();
        options.preprocessor.macros = defines
            .map(|define| MacroOption::Define(define.clone()))
            .collect();
        let chosen = settings.arch.as_deref();
        // An unknown name was reported when the settings were received.
        let chosen = chosen.and_then(|name| Arch::of(Some(name), None).ok());
        options.set_arch(chosen.unwrap_or_else(|| self.arch(main)));
        options
    }
}

fn dirs(folders: &[PathBuf], settings: &Settings) -> Vec<PathBuf> {
    let root = folders
        .first()
        .map(PathBuf::as_path)
        .unwrap_or(Path::new(""));
    settings
        .include_dirs
        .iter()
        .map(|dir| normalize(&root.join(dir)))
        .collect()
}

/// The names in `#include` directives of a text.
fn named_in(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start();
        let rest = rest.strip_prefix("include")?.trim_start();
        let close = match rest.chars().next()? {
            '"' => '"',
            '<' => '>',
            _ => return None,
        };
        let rest = &rest[1..];
        Some(rest[..rest.find(close)?].to_owned())
    })
}

/// Whether a text has an instance called `main`.
fn ends_program(text: &str) -> bool {
    text.match_indices("main").any(|(at, word)| {
        let before = text[..at].trim_end();
        let after = text[at + word.len()..].trim_start();
        before.len() < at && before.ends_with(')') && after.starts_with(';')
    })
}

fn collect(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    let mut next = vec![folder.to_owned()];
    while let Some(folder) = next.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            if found.len() >= MAX_FILES {
                return;
            }
            let (path, name) = (entry.path(), entry.file_name());
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let name = name.to_string_lossy();
            if kind.is_dir() && !name.starts_with('.') && name != "target" && name != "node_modules"
            {
                next.push(path);
            } else if kind.is_file() && (name.ends_with(".p4") || name.ends_with(".p4h")) {
                found.insert(normalize(&path));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_files_and_ends_of_programs_are_found() {
        let text = "#include <core.p4>\n  # include \"a/b.p4\" // c\n#includes\n#include MACRO\n";
        assert_eq!(named_in(text).collect::<Vec<_>>(), ["core.p4", "a/b.p4"]);
        assert!(ends_program("V1Switch(a(), b()) main;"));
        assert!(ends_program("Switch(pipe)\n main ;"));
        assert!(!ends_program("// the main thing;\nbit<8> main;"));
    }
}
