//! A network namespace for the rest of this process's life, also for users other than root.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::process::Command;
use std::ptr;

use nix::sched::{unshare, CloneFlags};
use nix::unistd::{getegid, geteuid};

use crate::exit::Failure;

/// Moves this process to new network and mount namespaces, in which the loopback interface is up. A user other than
/// root becomes root of a user namespace. The namespaces and their interfaces end with the last process in them.
///
/// This process must have one thread.
///
/// # Errors
/// The kernel does not permit namespaces, or `ip` is missing.
pub fn enter() -> Result<(), Failure> {
    let (user, group) = (geteuid(), getegid());
    let mut flags = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS;
    if !user.is_root() {
        flags |= CloneFlags::CLONE_NEWUSER;
    }
    unshare(flags).map_err(|error| refused(&error))?;
    if !user.is_root() {
        let ids = [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("0 {user} 1")),
            ("gid_map", format!("0 {group} 1")),
        ];
        for (file, text) in ids {
            let path = format!("/proc/self/{file}");
            fs::write(&path, text).map_err(|error| refused(&format_args!("{path}: {error}")))?;
        }
    }
    mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE).map_err(|error| refused(&error))?;
    // Lists the interfaces of the namespace, which tests hardly need. Some containers do not permit it.
    if let Err(error) = mount(Some(c"sysfs"), c"/sys", Some(c"sysfs"), 0) {
        tracing::debug!("cannot mount /sys: {error}");
    }
    if !user.is_root() {
        // For the journal of interfaces, /run/alfirk.
        mount(Some(c"run"), c"/run", Some(c"tmpfs"), 0).map_err(|error| refused(&error))?;
    }
    let up = Command::new("ip")
        .args(["link", "set", "dev", "lo", "up"])
        .output()
        .map_err(|error| {
            Failure::bad_input(format_args!("cannot run ip: {error}; install iproute2"))
        })?;
    match up.status.success() {
        true => Ok(()),
        false => Err(refused(&String::from_utf8_lossy(&up.stderr).trim())),
    }
}

fn refused(error: &dyn std::fmt::Display) -> Failure {
    Failure::bad_input(format_args!(
        "cannot create a network namespace: {error}; run it with sudo, or allow user namespaces (sysctl \
         kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu, user.max_user_namespaces above 0 elsewhere), \
         or start a container with --privileged"
    ))
}

fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
) -> io::Result<()> {
    let text = |text: Option<&CStr>| text.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: the strings end with a zero byte and outlive the call; these mounts take no data.
    let result = unsafe {
        libc::mount(
            text(source),
            target.as_ptr(),
            text(kind),
            flags,
            ptr::null(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
