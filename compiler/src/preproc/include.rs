//! The search for files of `#include`.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// Name of the folder under which the shipped files appear in messages.
pub const SHIPPED: &str = "<p4include>";

/// A reader of source files.
pub trait SourceLoader: Sync {
    /// The text of a file. After [`io::ErrorKind::NotFound`], the search continues in the next folder.
    fn load(&self, path: &Path) -> io::Result<String>;

    /// Modification time of the file, for `__TIMESTAMP__`; `None` if unknown.
    fn modified(&self, _path: &Path) -> Option<SystemTime> {
        None
    }
}

/// Reads from the file system; `-` is the standard input.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskLoader;

impl SourceLoader for DiskLoader {
    fn load(&self, path: &Path) -> io::Result<String> {
        // Comments in other encodings than UTF-8 do no harm.
        let bytes = match path == Path::new("-") {
            true => {
                let mut bytes = Vec::new();
                io::stdin().lock().read_to_end(&mut bytes)?;
                bytes
            }
            false => std::fs::read(path)?,
        };
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn modified(&self, path: &Path) -> Option<SystemTime> {
        std::fs::metadata(path).ok()?.modified().ok()
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

/// The lexically normalised path: `a/../b` becomes `b`. Symbolic links are not resolved.
pub fn direct(path: &Path) -> PathBuf {
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

const TNA: &str = include_str!("../../../p4include/tna.p4");
const T2NA: &str = include_str!("../../../p4include/t2na.p4");

/// The architecture files inside the compiler: name and text.
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
        // Parts of both that some programs include one by one.
        ("tofino1_specs.p4", TNA),
        ("tofino1_base.p4", TNA),
        ("tofino1_arch.p4", TNA),
        ("tofino2_specs.p4", T2NA),
        ("tofino2_base.p4", T2NA),
        ("tofino2_arch.p4", T2NA),
    ]
}

/// A file found by `#include`.
pub(super) struct Found {
    pub name: String,
    pub text: String,
    /// Which of the `-I` folders it is in.
    pub folder: Option<usize>,
}

/// Where a search begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum From<'a> {
    /// In the folder of the including file (`"..."`), then in all `-I` folders.
    Own(&'a Path),
    /// In the `-I` folder with this index (0 for `<...>`; later for `#include_next`).
    Folder(usize),
}

/// Searches a file from `from` on, and last among the shipped files.
pub(super) fn find(
    name: &str,
    from: From<'_>,
    dirs: &[PathBuf],
    loader: &dyn SourceLoader,
) -> io::Result<Found> {
    let absolute = Path::new(name).is_absolute();
    let (own_dir, first) = match from {
        From::Own(dir) => (Some(dir).filter(|dir| !dir.starts_with(SHIPPED)), 0),
        From::Folder(first) => (None, first),
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
                return Ok(Found {
                    name: path.display().to_string(),
                    text,
                    folder,
                })
            }
            // A folder of that name is passed over.
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
        Some((shipped, text)) => Ok(Found {
            name: format!("{SHIPPED}/{shipped}"),
            text: (*text).to_owned(),
            folder: None,
        }),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}
