//! The folder of one run, with the sockets, logs and files that its processes share.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::exit::Failure;

/// Prefix of the folder's name; the process number of the run follows.
const PREFIX: &str = "alfirk-run-";
/// Name of the file that a run keeps locked. The kernel releases the lock when the run is killed.
const LOCK: &str = "owner.lock";

/// The folder of this run. It is removed when this value is dropped, or after a kill by the next run.
pub struct WorkDir {
    path: PathBuf,
    _lock: Flock<File>,
}

impl WorkDir {
    /// Creates `alfirk-run-PID` in the folder for temporary files. First removes the folders of killed runs, because
    /// process numbers are reused: one of them may have this run's number.
    pub fn new() -> Result<WorkDir, Failure> {
        WorkDir::new_in(&std::env::temp_dir(), std::process::id())
    }

    /// Path at which [`WorkDir::new`] creates the folder.
    pub fn planned_path() -> PathBuf {
        path_in(&std::env::temp_dir(), std::process::id())
    }

    fn new_in(parent: &Path, pid: u32) -> Result<WorkDir, Failure> {
        remove_abandoned(parent, pid);
        let path = path_in(parent, pid);
        let failure = |error| {
            let path = path.display();
            Failure::failed(format_args!("cannot create the folder {path}: {error}"))
        };
        // Locked before it gets its name, so that no other run takes it for an abandoned one.
        let unnamed = parent.join(format!(".{PREFIX}{pid}"));
        let _ = fs::remove_dir_all(&unnamed);
        fs::create_dir(&unnamed).map_err(failure)?;
        let locked = File::create(unnamed.join(LOCK)).and_then(lock);
        let lock = locked.and_then(|lock| fs::rename(&unnamed, &path).map(|()| lock));
        let lock = lock.map_err(|error| {
            let _ = fs::remove_dir_all(&unnamed);
            failure(error)
        })?;
        Ok(WorkDir { path, _lock: lock })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        match fs::remove_dir_all(&self.path) {
            // The folder may have been removed at a signal.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("cannot remove {}: {error}", self.path.display());
            }
            _ => {}
        }
    }
}

fn path_in(parent: &Path, pid: u32) -> PathBuf {
    parent.join(format!("{PREFIX}{pid}"))
}

/// Locks a file exclusively; fails if another process has locked it.
fn lock(file: File) -> io::Result<Flock<File>> {
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error.into())
}

/// Removes this user's run folders in `parent` that no run has locked. Folders that cannot be removed stay.
fn remove_abandoned(parent: &Path, pid: u32) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(owner) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        let Ok(owner) = owner.parse::<u32>() else {
            continue;
        };
        let ours = entry
            .metadata()
            .is_ok_and(|folder| folder.is_dir() && folder.uid() == nix::unistd::getuid().as_raw());
        if ours && is_abandoned(&entry.path(), owner, pid) {
            tracing::debug!(
                "removing {}, which a killed run left",
                entry.path().display()
            );
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether the run of a folder has ended. `owner`: process number in its name; `pid`: that of this process.
fn is_abandoned(folder: &Path, owner: u32, pid: u32) -> bool {
    match File::open(folder.join(LOCK)) {
        Ok(file) => lock(file).is_ok(),
        // Without a lock file, the folder is abandoned if no other process has its number.
        Err(_) => owner == pid || !Path::new("/proc").join(owner.to_string()).exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_killed_runs_are_removed_and_those_of_running_ones_stay() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |pid: u32| parent.path().join(format!("{PREFIX}{pid}"));
        let running = WorkDir::new_in(parent.path(), 1).unwrap();
        // Killed: its lock is released, and its number is in use again.
        fs::create_dir(folder(7)).unwrap();
        fs::write(folder(7).join(LOCK), "").unwrap();
        fs::write(folder(7).join("h1.log"), "").unwrap();
        // Without a lock file; no process has such a number.
        fs::create_dir(folder(u32::MAX)).unwrap();
        // Not a folder of a run.
        fs::create_dir(parent.path().join("alfirk-run-notes")).unwrap();

        let ours = WorkDir::new_in(parent.path(), 7).unwrap();
        assert_eq!(ours.path(), folder(7));
        assert!(!folder(7).join("h1.log").exists());
        assert!(!folder(u32::MAX).exists());
        assert!(folder(1).exists());
        assert!(parent.path().join("alfirk-run-notes").exists());

        drop((running, ours));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn missing_parent_is_named() {
        let Err(failure) = WorkDir::new_in(Path::new("/nowhere"), 7) else {
            panic!("made");
        };
        assert!(
            format!("{failure:?}").contains("/nowhere/alfirk-run-7"),
            "{failure:?}"
        );
    }
}
