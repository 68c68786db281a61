//! SIGINT and SIGTERM as something to read, so that networks are taken down before the process ends.

use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::exit::Failure;

/// Holds SIGINT and SIGTERM back as long as it lives.
pub struct Signals {
    fd: SignalFd,
    set: SigSet,
}

impl Signals {
    /// To be called before any thread is started: threads inherit what is held back. So do child processes, of which those that are to
    /// end by a signal let it through by themselves (`alfirk_mininet/serve.py`).
    pub fn hold() -> Result<Signals, Failure> {
        let failed = |error| Failure::failed(format_args!("cannot hold signals back: {error}"));
        let mut set = SigSet::empty();
        set.add(Signal::SIGINT);
        set.add(Signal::SIGTERM);
        set.thread_block().map_err(failed)?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let fd = SignalFd::with_flags(&set, flags).map_err(failed)?;
        Ok(Signals { fd, set })
    }

    /// The name of a signal that has come.
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
        // Failing to let them through again changes nothing: the process is about to end.
        let _ = self.set.thread_unblock();
    }
}
