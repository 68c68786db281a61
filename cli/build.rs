//! Embeds the sources of the data plane, so that the installed command works without the repository.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let root =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../p4src");
    let root = root.canonicalize().expect("p4src lies beside the crate");
    println!("cargo::rerun-if-changed={}", root.display());

    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();

    let mut table = String::from("pub const P4SRC: &[(&str, &str)] = &[\n");
    for file in &files {
        let name = file.strip_prefix(&root).expect("it was found there");
        let name = Path::new("p4src").join(name);
        writeln!(table, "    ({:?}, include_str!({:?})),", name, file)
            .expect("a String takes everything");
    }
    table.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("p4src.rs"), table).expect("OUT_DIR is writable");
}

/// Collects the `.p4` files in `folder` and its subfolders into `files`.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder).expect("p4src is readable") {
        let path = entry.expect("p4src is readable").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "p4") {
            files.push(path);
        }
    }
}
