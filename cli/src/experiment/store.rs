//! The results folder of an experiment. It has one file for each finished point (run), written atomically.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::flags;
use super::points::Point;
use crate::exit::Failure;

/// Stored result of one run, with all that it depends on: version, data plane and command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub experiment: String,
    /// Name of the point, which is also that of its file.
    pub id: String,
    /// Version of alfirk that produced the result.
    pub version: String,
    /// SHA-256 of the compiled data plane that was run.
    pub program: String,
    /// Shell command that reproduces the result.
    pub command: String,
    /// Report of the run: the object that `alfirk run --json` prints.
    pub report: Value,
}

/// Version of this alfirk; results of other versions are not used.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Name of the lock file in the folder. The file is never removed, because two commands could then lock two different
/// files of this name.
const LOCK_FILE: &str = ".lock";

/// Kind of lock on the results folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// Exclusive, for a command that runs all missing points.
    Exclusive,
    /// Shared, for commands that run a single point each, in parallel.
    Shared,
}

/// A lock on the results folder, released when dropped. The kernel releases it if the command is killed.
pub struct FolderLock {
    _lock: Option<Flock<fs::File>>,
}

/// The results folder of an experiment.
pub struct Store {
    folder: PathBuf,
    /// Subfolder with the results of points.
    points: PathBuf,
}

impl Store {
    /// Refers to a results folder, which need not exist yet.
    pub fn new(folder: &Path) -> Store {
        Store {
            points: folder.join("points"),
            folder: folder.to_path_buf(),
        }
    }

    /// Creates the results folder if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn make(&self) -> Result<(), Failure> {
        let points = &self.points;
        fs::create_dir_all(points).map_err(|error| unusable("create", points, &error))
    }

    /// Locks the results folder, which must exist, for one command.
    ///
    /// # Errors
    /// Another command has locked the folder; the message has its process number if known.
    pub fn lock(&self, how: LockKind) -> Result<FolderLock, Failure> {
        let path = self.folder.join(LOCK_FILE);
        let mut options = fs::File::options();
        let file = options.create(true).truncate(false).read(true).write(true);
        let file = file
            .open(&path)
            .map_err(|error| unusable("open", &path, &error))?;
        let arg = match how {
            LockKind::Exclusive => FlockArg::LockExclusiveNonblock,
            LockKind::Shared => FlockArg::LockSharedNonblock,
        };
        match Flock::lock(file, arg) {
            Ok(lock) => Ok(FolderLock { _lock: Some(lock) }),
            Err((file, Errno::EWOULDBLOCK)) => {
                let owner = match holder(&file) {
                    Some(process) => format!("process {process}"),
                    None => "another command".to_owned(),
                };
                Err(Failure::failed(format_args!(
                    "{}: {owner} is using this folder; wait until it has ended, or give another folder with --out",
                    self.folder.display()
                )))
            }
            // A file system without locks.
            Err(_) => Ok(FolderLock { _lock: None }),
        }
    }

    /// Removes incomplete files that killed commands left. The caller must hold the exclusive lock.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn remove_incomplete(&self) -> Result<(), Failure> {
        let unreadable = |error| unusable("read", &self.points, &error);
        for entry in fs::read_dir(&self.points).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            if entry.file_name().to_string_lossy().starts_with('.') {
                let path = entry.path();
                fs::remove_file(&path).map_err(|error| unusable("remove", &path, &error))?;
            }
        }
        Ok(())
    }

    /// Loads the result of a point; `None` if it has none. `program`: SHA-256 of its data plane.
    ///
    /// # Errors
    /// The file is damaged, or was written by another version or with another data plane.
    pub fn load(&self, point: &Point, program: &str) -> Result<Option<Record>, Failure> {
        let path = self.path(&point.id);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable("read", &path, &error)),
        };
        let shown = path.display();
        let record: Record = serde_json::from_str(&text).map_err(|error| {
            Failure::bad_input(format_args!(
                "{shown} is not a valid result: {error}; remove it to run that point again"
            ))
        })?;
        let other = if record.version != VERSION {
            format!("alfirk {}, and this version is {VERSION}", record.version)
        } else if record.program != program {
            "a data plane that has since changed".to_owned()
        } else if record.command != flags::command_line(&point.settings) {
            "other flags".to_owned()
        } else {
            return Ok(Some(record));
        };
        Err(Failure::bad_input(format_args!(
            "{shown} is a result of {other}; give another folder with --out, or --again to run every point again"
        )))
    }

    /// Writes the result of a point atomically: an interrupted write leaves the previous result intact.
    ///
    /// # Errors
    /// The disk is full, or the folder cannot be written.
    pub fn save(&self, record: &Record) -> Result<(), Failure> {
        let mut text = serde_json::to_vec_pretty(record).expect("a record has no strange keys");
        text.push(b'\n');
        self.write(&self.path(&record.id), &text)
    }

    /// Writes the file `name` in the results folder atomically, and returns its path.
    pub fn save_file(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
        let path = self.folder.join(name);
        self.write(&path, bytes)?;
        Ok(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        // In the same folder, as a rename needs the same file system; with the process number, as others may write other points.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let half = path.with_file_name(format!(".{name}.{}", std::process::id()));
        let written = fs::File::create(&half).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&half, path)).map_err(|error| {
            // A failure to remove it is not reported.
            let _ = fs::remove_file(&half);
            let path = path.display();
            Failure::failed(format_args!(
                "cannot write {path}: {error}; finished points are kept; repeat the command to run the others"
            ))
        })
    }

    fn path(&self, id: &str) -> PathBuf {
        self.points.join(format!("{id}.json"))
    }
}

/// Number of the process that holds the lock of `file`, for messages; `None` if it is unknown.
fn holder(file: &fs::File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    lock_holder(&locks, &inode)
}

/// Finds the process that has locked the file with number `inode` in the text of `/proc/locks`: `1: FLOCK  ADVISORY
/// WRITE 4711 fe:00:1234 0 EOF`.
fn lock_holder(locks: &str, inode: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (process, place) = (words.get(4)?, words.get(5)?);
        let is_it = words[1] == "FLOCK" && place.rsplit(':').next() == Some(inode);
        is_it.then(|| process.parse().ok()).flatten()
    })
}

fn unusable(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::bad_input(format_args!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_locked_by_one_command_or_shared_by_points() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        store.make().unwrap();
        let refusal = |how| match store.lock(how) {
            Err(Failure::Failed(error)) => error.to_string(),
            _ => String::new(),
        };
        let alone = store.lock(LockKind::Exclusive).unwrap();
        for how in [LockKind::Exclusive, LockKind::Shared] {
            let why = refusal(how);
            let us = format!(": process {} is using this folder", std::process::id());
            assert!(why.contains(&us), "{why}");
        }
        drop(alone);
        let points = [LockKind::Shared, LockKind::Shared].map(|how| store.lock(how).unwrap());
        assert!(!refusal(LockKind::Exclusive).is_empty());
        drop(points);
        assert!(store.lock(LockKind::Exclusive).is_ok());
    }

    #[test]
    fn lock_owner_is_found_by_inode() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fe:00:99 0 EOF\n2: FLOCK  ADVISORY  WRITE 8 fe:00:98 0 EOF\n\
            2: -> FLOCK  ADVISORY  WRITE 6 fe:00:98 0 EOF\n3: FLOCK  ADVISORY  READ 9 fe:00:99 0 EOF\n";
        assert_eq!(lock_holder(locks, "99"), Some(9));
        assert_eq!(lock_holder(locks, "98"), Some(8));
        assert_eq!(lock_holder(locks, "9"), None);
    }
}
