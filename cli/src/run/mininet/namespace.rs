//! Creates a network namespace for each network. Networks on one machine then have no conflicts of interfaces,
//! addresses and ports. A namespace is removed with its last process.

use std::fs::File;
use std::process::Command;

use nix::sched::{setns, unshare, CloneFlags};

use crate::exit::Failure;

/// A new network namespace. While this value exists, the thread that created it uses the namespace, with all threads
/// and processes that it starts. The same thread must drop the value.
pub struct Namespace {
    /// The thread's previous namespace, to which it returns.
    previous: File,
}

impl Namespace {
    /// Moves the calling thread to a new namespace.
    ///
    /// # Errors
    /// The kernel does not permit network namespaces, or `ip` is missing.
    pub fn enter() -> Result<Namespace, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format_args!(
                "cannot create a network namespace: {error}; in a container, grant the rights to create namespaces and mounts \
                 (docker run --privileged)"
            ))
        };
        let previous = File::open("/proc/thread-self/ns/net").map_err(|error| failed(&error))?;
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| failed(&error))?;
        let namespace = Namespace { previous };
        // P4Runtime servers and the controller use 127.0.0.1.
        let up = Command::new("ip")
            .args(["link", "set", "dev", "lo", "up"])
            .output()
            .map_err(|error| failed(&format_args!("ip: {error}")))?;
        match up.status.success() {
            true => Ok(namespace),
            false => Err(failed(&String::from_utf8_lossy(&up.stderr).trim())),
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = setns(&self.previous, CloneFlags::CLONE_NEWNET) {
            tracing::warn!("cannot return to the original network namespace: {error}");
        }
    }
}
