//! A network namespace of its own for each network, so that several stand on one machine at a time: interfaces, addresses and
//! ports of one are not those of another, and all of them are gone when its processes are.

use std::fs::File;
use std::process::Command;

use nix::sched::{setns, unshare, CloneFlags};

use crate::exit::Failure;

/// The calling thread, and the threads and processes that it starts, are in a new network namespace until this is dropped. To be
/// dropped by the same thread.
pub struct Namespace {
    before: File,
}

impl Namespace {
    /// # Errors
    /// The system refuses namespaces, or there is no `ip`.
    pub fn enter() -> Result<Namespace, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format_args!(
                "cannot make a network namespace: {error}; in a container, give it the rights to make namespaces and mounts \
                 (docker run --privileged)"
            ))
        };
        let before = File::open("/proc/thread-self/ns/net").map_err(|error| failed(&error))?;
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| failed(&error))?;
        let namespace = Namespace { before };
        // P4Runtime servers and the controller meet at 127.0.0.1.
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
            tracing::warn!("cannot go back to the network namespace of the start: {error}");
        }
    }
}
