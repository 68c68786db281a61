//! The valid programs from which broken ones are derived.

use std::path::{Path, PathBuf};

use alfirk_compiler::preproc::MemoryLoader;

/// The folder of the data plane's sources.
pub fn p4src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src")
}

/// P4 files in a folder and its subfolders, sorted by name.
pub fn p4_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is in the repository");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(p4_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "p4") {
            files.push(path);
        }
    }
    files
}

/// A loader of the P4 files in a folder, by their paths relative to the folder. The compiler's own files are available, too.
pub fn loader(folder: &Path) -> MemoryLoader {
    let mut loader = MemoryLoader::default();
    for file in p4_files(folder) {
        let name = file.strip_prefix(folder).expect("it lies in the folder");
        loader.add(name, text(&file));
    }
    loader
}

/// The content of a file.
pub fn text(file: &Path) -> String {
    std::fs::read_to_string(file).expect("the file is in the repository")
}
