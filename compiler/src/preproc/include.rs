//! The search for files of `#include`.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// Folder name of the shipped files in messages.
pub const SHIPPED: &str = "<p4include>";

/// Access to source files: the file system, or texts in memory.
pub trait SourceLoader: Sync {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// The file cannot be read. After [`io::ErrorKind::NotFound`], the search for the file continues in the next folder.
    fn load(&self, path: &Path) -> io::Result<String>;

    /// Modification time of a file, for `__TIMESTAMP__`; `None` if unknown.
    fn modified(&self, _path: &Path) -> Option<SystemTime> {
        None
    }
}

/// A loader that reads from the file system; the path `-` is standard input.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskLoader;

impl SourceLoader for DiskLoader {
    fn load(&self, path: &Path) -> io::Result<String> {
        // Replace bytes that are not UTF-8: comments may be in other encodings.
        let bytes = match path == Path::new("-") {
            true => {
                let mut bytes = Vec::new();
                io::stdin().lock().read_to_end(&mut bytes)?;
                bytes
            }
            false => std::fs::read(path)?,
        };
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    fn modified(&self, path: &Path) -> Option<SystemTime> {
        std::fs::metadata(path).ok()?.modified().ok()
    }
}

/// A loader that reads from memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryLoader {
    files: BTreeMap<PathBuf, String>,
}

impl MemoryLoader {
    /// Adds a file, or replaces it.
    pub fn add(&mut self, path: impl Into<PathBuf>, text: impl Into<String>) {
        self.files.insert(normalize(&path.into()), text.into());
    }
}

impl SourceLoader for MemoryLoader {
    fn load(&self, path: &Path) -> io::Result<String> {
        self.files
            .get(&normalize(path))
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Normalises a path lexically: `a/../b` becomes `b`. Symbolic links are not resolved.
pub fn normalize(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if normalized.file_name().is_some() => {
                normalized.pop();
            }
            other => normalized.push(other),
        }
    }
    normalized
}

const TNA: &str = include_str!("../../../p4include/tna.p4");
const T2NA: &str = include_str!("../../../p4include/t2na.p4");

/// The architecture files that are built into the compiler: names and texts.
pub fn shipped_files() -> &'static [(&'static str, &'static str)] {
    &[
        ("core.p4", include_str!("../../../p4include/core.p4")),
        ("v1model.p4", include_str!("../../../p4include/v1model.p4")),
        ("tna.p4", TNA),
        ("t2na.p4", T2NA),
        (
            "tofino_shared.p4",
            include_str!("../../../p4include/tofino_shared.p4"),
        ),
        (
            "tofino_pipeline.p4",
            include_str!("../../../p4include/tofino_pipeline.p4"),
        ),
        // Parts of both files that some programs include separately.
        ("tofino1_specs.p4", TNA),
        ("tofino1_base.p4", TNA),
        ("tofino1_arch.p4", TNA),
        ("tofino2_specs.p4", T2NA),
        ("tofino2_base.p4", T2NA),
        ("tofino2_arch.p4", T2NA),
    ]
}

/// A file found by `#include`.
pub(super) struct FoundFile {
    pub name: String,
    pub text: String,
    /// Index of the `-I` folder with the file; `None` for the folder of the including file and for shipped files.
    pub folder: Option<usize>,
}

/// The folder in which the search for a file begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum SearchStart<'a> {
    /// The folder of the including file (`"..."`); then all `-I` folders.
    Own(&'a Path),
    /// The `-I` folder with this index: 0 for `<...>`, larger for `#include_next`.
    Folder(usize),
}

/// Finds and reads a file: searches the folders from `from` on, then the shipped files.
pub(super) fn find(
    name: &str,
    from: SearchStart<'_>,
    dirs: &[PathBuf],
    loader: &dyn SourceLoader,
) -> io::Result<FoundFile> {
    let absolute = Path::new(name).is_absolute();
    let (own_dir, first) = match from {
        SearchStart::Own(dir) => (Some(dir).filter(|dir| !dir.starts_with(SHIPPED)), 0),
        SearchStart::Folder(first) => (None, first),
    };
    let dirs = dirs.iter().enumerate().skip(first);
    let folders: Vec<(&Path, Option<usize>)> = match absolute {
        true => vec![(Path::new(""), None)],
        false => own_dir
            .into_iter()
            .map(|dir| (dir, None))
            .chain(dirs.map(|(index, dir)| (dir.as_path(), Some(index))))
            .collect(),
    };
    for (dir, folder) in folders {
        let path = dir.join(name);
        match loader.load(&path) {
            Ok(text) => {
                return Ok(FoundFile {
                    name: path.display().to_string(),
                    text,
                    folder,
                })
            }
            // Ignore a folder of that name.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::NotFound
                        | io::ErrorKind::IsADirectory
                        | io::ErrorKind::NotADirectory
                ) => {}
            Err(e) => return Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
        }
    }
    match shipped_files().iter().find(|(shipped, _)| *shipped == name) {
        Some((shipped, text)) => Ok(FoundFile {
            name: format!("{SHIPPED}/{shipped}"),
            text: (*text).to_owned(),
            folder: None,
        }),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}
