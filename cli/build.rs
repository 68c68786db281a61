//! Embeds the sources of the data plane, so that the installed command works without the repository, and the examples of the
//! playground.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let root = root
        .canonicalize()
        .expect("the crate has a folder above it");
    let mut tables = table(&root, "P4SRC", &["p4src"], &["p4"]);
    tables += &table(
        &root,
        "PLAY",
        &["labs", "compiler/tests/programs"],
        &["p4", "stf"],
    );
    tables += &table(&root, "TOPOLOGIES", &["topologies"], &["yaml"]);
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("p4src.rs"), tables).expect("OUT_DIR is writable");
}

/// Returns a constant with the paths, relative to `root`, and the texts of the files in `folders` with these extensions.
fn table(root: &Path, name: &str, folders: &[&str], extensions: &[&str]) -> String {
    let mut files = Vec::new();
    for folder in folders {
        collect(&root.join(folder), extensions, &mut files);
    }
    files.sort();
    let mut table = format!(
        "/// Paths and texts of files in {}.\npub const {name}: &[(&str, &str)] = &[\n",
        folders.join(" and ")
    );
    for file in &files {
        let name = file.strip_prefix(root).expect("it was found there");
        writeln!(table, "    ({name:?}, include_str!({file:?})),")
            .expect("a String takes everything");
    }
    table + "];\n"
}

/// Collects the files with these extensions in `folder` and its subfolders into `files`.
fn collect(folder: &Path, extensions: &[&str], files: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("the folder is readable").path();
        if path.is_dir() {
            collect(&path, extensions, files);
        } else if path
            .extension()
            .is_some_and(|own| extensions.iter().any(|extension| own == *extension))
        {
            files.push(path);
        }
    }
}
