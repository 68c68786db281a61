//! Where `#include` finds its files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Name of the folder under which the shipped files appear in messages.
pub(super) const SHIPPED: &str = "<p4include>";

/// Reads source files.
pub trait SourceLoader: Sync {
    /// The text of a file. [`io::ErrorKind::NotFound`] makes the search go on in the next folder.
    fn load(&self, path: &Path) -> io::Result<String>;
}

/// Reads from the file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskLoader;

impl SourceLoader for DiskLoader {
    fn load(&self, path: &Path) -> io::Result<String> {
        // Comments in other encodings than UTF-8 do no harm.
        let bytes = std::fs::read(path)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Reads from memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryLoader {
    files: BTreeMap<PathBuf, String>,
}

impl MemoryLoader {
    /// Adds a file.
    pub fn add(&mut self, path: impl Into<PathBuf>, text: impl Into<String>) {
        self.files.insert(direct(&path.into()), text.into());
    }
}

impl SourceLoader for MemoryLoader {
    fn load(&self, path: &Path) -> io::Result<String> {
        self.files
            .get(&direct(path))
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The same path without detours: `a/../b` as `b`.
fn direct(path: &Path) -> PathBuf {
    let mut direct = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if direct.file_name().is_some() => {
                direct.pop();
            }
            other => direct.push(other),
        }
    }
    direct
}

/// The architecture files inside the compiler: name and text.
pub fn shipped_files() -> &'static [(&'static str, &'static str)] {
    &[
        ("core.p4", include_str!("../../../p4include/core.p4")),
        ("v1model.p4", include_str!("../../../p4include/v1model.p4")),
    ]
}

/// A file found by `#include`.
pub(super) struct Found {
    pub name: String,
    pub text: String,
}

/// Searches a file: in the folder of the including file (for `"..."`), in the `-I` folders, among the shipped files.
pub(super) fn find(
    name: &str,
    includer_dir: Option<&Path>,
    dirs: &[PathBuf],
    loader: &dyn SourceLoader,
) -> io::Result<Found> {
    let own_dir = includer_dir.filter(|dir| !dir.starts_with(SHIPPED));
    let absolute = Path::new(name).is_absolute();
    let folders: Vec<&Path> = if absolute {
        vec![Path::new("")]
    } else {
        own_dir
            .into_iter()
            .chain(dirs.iter().map(PathBuf::as_path))
            .collect()
    };
    for folder in folders {
        let path = folder.join(name);
        match loader.load(&path) {
            Ok(text) => {
                return Ok(Found {
                    name: path.display().to_string(),
                    text,
                })
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
        }
    }
    match shipped_files().iter().find(|(shipped, _)| *shipped == name) {
        Some((shipped, text)) => Ok(Found {
            name: format!("{SHIPPED}/{shipped}"),
            text: (*text).to_owned(),
        }),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}
