//! Removes a network of processes by force, when its own shutdown takes too long.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

/// Time limit for killed processes to disappear.
const KILL_LIMIT: Duration = Duration::from_millis(500);
/// Interval between two checks whether killed processes are gone.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Folder in which the Python process of each network lists the interfaces and other system objects that it created
/// (`alfirk_mininet.journal`). The file is named by the process number.
const JOURNALS: &str = "/run/alfirk";

/// A network of processes that may have to be removed by force: its main process and its files.
#[derive(Debug, Clone)]
pub struct Leftover {
    /// The process that builds and holds the network, in a namespace that is removed when all its processes have ended.
    /// `None` before it has been started, and for a network of another program or machine.
    pub process: Option<u32>,
    /// Folder with the files of the run, which is removed, too.
    pub folder: PathBuf,
}

impl Leftover {
    /// Kills the process and all its descendants, waits until they have ended, and removes their files.
    pub fn remove(&self) {
        if let Some(process) = self.process {
            let children = children_by_parent();
            let mut doomed = vec![process];
            doomed.extend(descendants(process, &children));
            for &pid in &doomed {
                // The process may have ended by itself.
                let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
            }
            let deadline = Instant::now() + KILL_LIMIT;
            while doomed.iter().any(|&pid| is_running(pid)) && Instant::now() < deadline {
                thread::sleep(POLL_INTERVAL);
            }
            for ending in ["json", "draft"] {
                // The files exist only if something was recorded.
                let _ = fs::remove_file(Path::new(JOURNALS).join(format!("{process}.{ending}")));
            }
        }
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::debug!("cannot remove {}: {error}", self.folder.display());
        }
    }
}

/// Process numbers of the children of each process on this machine, by number of the parent.
fn children_by_parent() -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some((_, parent)) = state(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

fn descendants(process: u32, children: &BTreeMap<u32, Vec<u32>>) -> Vec<u32> {
    let mut all = Vec::new();
    let mut next = vec![process];
    while let Some(process) = next.pop() {
        let children = children.get(&process).into_iter().flatten();
        for &child in children {
            all.push(child);
            next.push(child);
        }
    }
    all
}

/// Whether a process is running; a zombie is not.
fn is_running(pid: u32) -> bool {
    state(pid).is_some_and(|(state, _)| !['Z', 'X'].contains(&state))
}

/// State and parent of a process, from `/proc/PID/stat`; `None` if it does not exist.
fn state(pid: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the command in parentheses, may contain any characters.
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn descendants_are_killed_with_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        fs::create_dir(&work).unwrap();
        fs::write(work.join("log"), "").unwrap();
        // A shell with a child that has a session of its own.
        let script = "setsid sleep 1000 & echo $!; wait";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(shell.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        let child: u32 = line.trim().parse().unwrap();
        assert!(is_running(child));
        Leftover {
            process: Some(shell.id()),
            folder: work.clone(),
        }
        .remove();
        assert!(!is_running(child) && !is_running(shell.id()));
        assert!(!work.exists());
        shell.wait().unwrap();
    }
}
