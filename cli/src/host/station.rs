//! Interface between the event loop and a host with its network. All times are nanoseconds of the host's clock.

use std::os::fd::BorrowedFd;

use alfirk_roce::host::HostEvent;
use alfirk_roce::verbs::Verbs;

use super::protocol::Info;
use crate::exit::{Failure, Outcome};

/// A host with its network. Methods do not block, except where [`Verbs`] documents it.
pub(super) trait Station {
    fn verbs(&self) -> &dyn Verbs;
    fn verbs_mut(&mut self) -> &mut dyn Verbs;

    /// Descriptor that is readable when [`Station::receive`] has something to do.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Processes received frames or completions.
    fn receive(&mut self) -> Outcome;

    /// Sends pending frames; returns whether more may be sent at once.
    fn transmit(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Whether frames are pending that the network does not accept at present.
    fn is_stuck(&self) -> bool {
        false
    }

    /// Time at which [`Station::handle_timeout`] must be called next; `None` if nothing is due.
    fn poll_timeout(&self) -> Option<u64> {
        None
    }

    /// Performs everything that is due at `now`.
    fn handle_timeout(&mut self, _now: u64) {}

    /// The next event for the application up to `now`, with the time of its delivery; `None` if there is none.
    fn poll_event(&mut self, now: u64) -> Option<(u64, HostEvent)> {
        self.verbs_mut().poll_event().map(|event| (now, event))
    }

    /// Called before the application changes the host.
    fn touch(&mut self, _now: u64) {}

    /// Nanoseconds from the application's post of this many bytes until the NIC acts on it.
    fn posting(&self, _bytes: u64) -> u64 {
        0
    }

    /// Name of the host's network interface.
    fn interface(&self) -> &str;

    /// The host and its counters.
    fn info(&self) -> Info;

    /// Called once, before the process ends.
    fn finish(&mut self) -> Outcome {
        Ok(())
    }
}
