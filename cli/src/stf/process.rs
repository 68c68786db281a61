//! The switch as a process of its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

use crate::exit::Failure;

/// How long it may take to end when asked.
const GRACE: Duration = Duration::from_secs(2);

/// A running switch; ended when dropped.
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts it on these interfaces, without a program.
    pub fn start(
        exe: &Path,
        address: &str,
        interfaces: &[(u32, String)],
    ) -> Result<Process, Failure> {
        let name = exe.display().to_string();
        let mut command = Command::new(exe);
        // Under its own name `alfirk` is many things.
        if exe.file_stem().is_some_and(|stem| stem == "alfirk") {
            command.arg("switch");
        }
        command.args(["--no-p4", "--device-id", "0"]);
        for (port, interface) in interfaces {
            command.arg("-i").arg(format!("{port}@{interface}"));
        }
        command
            .args(["--", "--grpc-server-addr", address])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child = command
            .spawn()
            .map_err(|error| Failure::bad_input(format_args!("--switch {name}: {error}")))?;
        Ok(Process { child, name })
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// When it has ended; the message says how.
    pub fn is_alive(&mut self) -> Result<(), Failure> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Failure::failed(format_args!(
                "--switch {}: ended before it served P4Runtime: {status}",
                self.name
            ))),
            Err(error) => Err(Failure::failed(format_args!(
                "--switch {}: {error}",
                self.name
            ))),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing can be done about one that does not obey, and one that has ended needs nothing.
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
