//! What the event loop drives: a host, and whatever moves its packets.

use std::os::fd::BorrowedFd;

use alfirk_roce::host::HostEvent;
use alfirk_roce::verbs::Verbs;

use super::protocol::Info;
use crate::exit::{Failure, Outcome};

/// A host with its network. Nothing here waits, except where [`Verbs`] says so.
pub(super) trait Station {
    fn verbs(&self) -> &dyn Verbs;
    fn verbs_mut(&mut self) -> &mut dyn Verbs;

    /// Readable when [`Station::receive`] has something to do.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Takes what has come.
    fn receive(&mut self) -> Outcome;

    /// Sends what is ready, and says whether there may be more to send at once.
    fn transmit(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Whether the network takes nothing at present of what is ready to be sent.
    fn is_stuck(&self) -> bool {
        false
    }

    /// When to call [`Station::handle_timeout`].
    fn poll_timeout(&self) -> Option<u64> {
        None
    }

    /// Does everything that is due at `now`.
    fn handle_timeout(&mut self, _now: u64) {}

    /// Something happened at `now` or before that the application may act on, and when it saw that.
    fn poll_event(&mut self, now: u64) -> Option<(u64, HostEvent)> {
        self.verbs_mut().poll_event().map(|event| (now, event))
    }

    /// The application is about to do something.
    fn touch(&mut self, _now: u64) {}

    /// How long the application takes until the NIC acts on a post of so many bytes, in nanoseconds.
    fn posting(&self, _bytes: u64) -> u64 {
        0
    }

    /// Its network interface.
    fn interface(&self) -> &str;

    /// The host and its counters.
    fn info(&self) -> Info;

    /// Called once, at the end.
    fn finish(&mut self) -> Outcome {
        Ok(())
    }
}
