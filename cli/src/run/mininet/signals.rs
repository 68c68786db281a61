//! Receives SIGINT and SIGTERM through a file descriptor instead of ending the process, so that networks can be removed
//! first.

use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::exit::Failure;

/// Blocks SIGINT and SIGTERM while this value exists, and receives them through a file descriptor.
pub struct Signals {
    fd: SignalFd,
    set: SigSet,
}

impl Signals {
    /// Blocks the signals. Must be called before any thread is started, because threads inherit the signal mask. Child
    /// processes inherit it, too; those that must react to signals unblock them (`alfirk_mininet/serve.py`).
    pub fn block() -> Result<Signals, Failure> {
        let failed = |error| Failure::failed(format_args!("cannot block signals: {error}"));
        let mut set = SigSet::empty();
        set.add(Signal::SIGINT);
        set.add(Signal::SIGTERM);
        set.thread_block().map_err(failed)?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let fd = SignalFd::with_flags(&set, flags).map_err(failed)?;
        Ok(Signals { fd, set })
    }

    /// Removes the next pending signal and returns its name; `None` if there is none.
    pub fn take(&self) -> Option<&'static str> {
        let info = self.fd.read_signal().ok().flatten()?;
        let signal = Signal::try_from(info.ssi_signo as i32).ok()?;
        Some(signal.as_str())
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // An error has no effect: the process is about to end.
        let _ = self.set.thread_unblock();
    }
}
