//! A network namespace for each network, so that several run on one machine at a time without conflicts of interfaces, addresses and
//! ports. A namespace is removed with its last process.

use std::fs::File;
use std::process::Command;

use nix::sched::{setns, unshare, CloneFlags};

use crate::exit::Failure;

/// A new network namespace, which the calling thread and the threads and processes that it starts use while this value
/// exists. Must be dropped by the same thread.
pub struct Namespace {
    /// The thread's namespace before, to which it returns.
    before: File,
}

impl Namespace {
    /// Moves the calling thread to a new namespace.
    ///
    /// # Errors
    /// The system does not permit namespaces, or `ip` is missing.
    pub fn enter() -> Result<Namespace, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format_args!(
                "cannot create a network namespace: {error}; in a container, grant the rights to create namespaces and mounts \
                 (docker run --privileged)"
            ))
        };
        let before = File::open("/proc/thread-self/ns/net").map_err(|error| failed(&error))?;
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| failed(&error))?;
        let namespace = Namespace { before };
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
        if let Err(error) = setns(&self.before, CloneFlags::CLONE_NEWNET) {
            tracing::warn!("cannot return to the original network namespace: {error}");
        }
    }
}
