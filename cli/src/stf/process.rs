//! Starts and ends the switch under test as a separate process.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

use crate::exit::Failure;

/// Time limit for the shutdown of the switch after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// A running switch process; ended when dropped.
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts the switch `exe` without a program. `interfaces`: its ports with their network interfaces.
    pub fn start(
        exe: &Path,
        address: &str,
        interfaces: &[(u32, String)],
    ) -> Result<Process, Failure> {
        let name = exe.display().to_string();
        let mut command = Command::new(exe);
        // The executable `alfirk` needs the verb `switch`.
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

    /// Returns an error if the process has ended.
    ///
    /// # Errors
    /// The process has ended; the message has its exit status.
    pub fn check_alive(&mut self) -> Result<(), Failure> {
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
        // Errors are ignored: the process may have ended already.
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
