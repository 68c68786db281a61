//! The include graph of P4 files. It determines to which program a file belongs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use alfirk_compiler::arch::Arch;
use alfirk_compiler::driver::CompileOptions;
use alfirk_compiler::preproc::{normalize, MacroOption, SourceLoader};

use crate::settings::Settings;

/// Maximum number of P4 files that are read in the open folders.
const MAX_FILES: usize = 4_000;

/// A document that is open in the editor.
#[derive(Debug)]
pub struct Document {
    /// Current text of the document in the editor.
    pub text: String,
    /// Version of the document's text, assigned by the editor.
    pub version: i32,
}

/// A source loader that returns the editor's text for open files. It reads other files with the loader `disk`.
pub struct Files {
    /// Documents that are open in the editor, by path.
    pub open: BTreeMap<PathBuf, Document>,
    /// The loader for files that are not open.
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
    /// File names in the `#include` directives of each file.
    included_names: BTreeMap<PathBuf, Vec<String>>,
    /// For each file, the files that include it directly.
    includers: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    /// Files that declare the instance `main`.
    mains: BTreeSet<PathBuf>,
}

impl Includes {
    /// Builds the include graph of all P4 files in `folders` and of the files that are open in the editor.
    pub fn of(folders: &[PathBuf], files: &Files, settings: &Settings) -> Includes {
        let mut found: BTreeSet<PathBuf> = files.open.keys().cloned().collect();
        for folder in folders {
            collect(folder, &mut found);
        }
        let mut includes = Includes::default();
        for path in &found {
            let Ok(text) = files.load(path) else { continue };
            if declares_main(&text) {
                includes.mains.insert(path.clone());
            }
            let names: Vec<String> = included_names(&text).collect();
            let own = path.parent().unwrap_or(Path::new(""));
            let dirs = dirs(folders, settings);
            for name in &names {
                let candidates = std::iter::once(own).chain(dirs.iter().map(PathBuf::as_path));
                let mut candidates = candidates.map(|dir| normalize(&dir.join(name)));
                if let Some(included) = candidates.find(|path| found.contains(path)) {
                    includes
                        .includers
                        .entry(included)
                        .or_default()
                        .insert(path.clone());
                }
            }
            includes.included_names.insert(path.clone(), names);
        }
        includes
    }

    /// Returns the main file of the program to which a file belongs. This is the file itself, or the nearest main file
    /// that includes it; open files take precedence. A file that no main file includes is its own main file.
    pub fn main_of(&self, path: &Path, files: &Files) -> PathBuf {
        if self.mains.contains(path) {
            return path.to_owned();
        }
        let mut seen = BTreeSet::from([path]);
        let mut next = VecDeque::from([path]);
        let mut found: Vec<&Path> = Vec::new();
        while let Some(path) = next.pop_front() {
            for includer in self.includers.get(path).into_iter().flatten() {
                if seen.insert(includer) {
                    next.push_back(includer);
                    found.push(includer);
                }
            }
        }
        let mains = found.iter().filter(|path| self.mains.contains(**path));
        let open = mains.clone().find(|path| files.open.contains_key(**path));
        let any = open.or_else(|| mains.clone().next());
        any.map_or_else(|| path.to_owned(), |path| path.to_path_buf())
    }

    /// Returns whether a file declares the instance `main`.
    pub fn is_main(&self, path: &Path) -> bool {
        self.mains.contains(path)
    }

    /// Returns the architecture of a program, by the names of the files that it includes; v1model by default.
    fn arch(&self, main: &Path) -> Arch {
        let mut seen = BTreeSet::new();
        let mut next = vec![main.to_owned()];
        let mut arch = Arch::V1MODEL;
        while let Some(path) = next.pop() {
            let own = path.parent().unwrap_or(Path::new("")).to_owned();
            for name in self.included_names.get(&path).into_iter().flatten() {
                match name.rsplit('/').next() {
                    // Programs that support both chips are checked for Tofino 1.
                    Some("tna.p4") => return Arch::TNA,
                    Some("t2na.p4") => arch = Arch::T2NA,
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

    /// Returns the compiler options for the program with the main file `main`.
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

/// Iterates over the file names in the `#include` directives of a text.
fn included_names(text: &str) -> impl Iterator<Item = String> + '_ {
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

/// Returns whether a text declares an instance named `main`, judged by the tokens around the name.
fn declares_main(text: &str) -> bool {
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
    fn includes_and_main_instances_are_found() {
        let text = "#include <core.p4>\n  # include \"a/b.p4\" // c\n#includes\n#include MACRO\n";
        assert_eq!(
            included_names(text).collect::<Vec<_>>(),
            ["core.p4", "a/b.p4"]
        );
        assert!(declares_main("V1Switch(a(), b()) main;"));
        assert!(declares_main("Switch(pipe)\n main ;"));
        assert!(!declares_main("// the main thing;\nbit<8> main;"));
    }
}
