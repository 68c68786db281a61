//! Interface between the event loop and a host: its RDMA stack and its network. All times are nanoseconds of the host's
//! clock.

use std::os::fd::BorrowedFd;

use alfirk_roce::host::HostEvent;
use alfirk_roce::verbs::Verbs;

use super::protocol::Info;
use crate::exit::{Failure, Outcome};

/// A host that the event loop runs: an RDMA stack with its network. Methods do not block, except where [`Verbs`]
/// documents it.
pub(super) trait Station {
    /// The RDMA operations of the host.
    fn verbs(&self) -> &dyn Verbs;
    fn verbs_mut(&mut self) -> &mut dyn Verbs;

    /// Descriptor that is readable when [`Station::receive`] must be called.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Processes received frames or completions.
    fn receive(&mut self) -> Outcome;

    /// Sends pending frames; returns whether more can be sent immediately.
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

    /// Performs all actions of the host that are due by `now`.
    fn handle_timeout(&mut self, _now: u64) {}

    /// Returns the next event that the application receives by `now`, with the time of its delivery; `None` if there is
    /// none.
    fn poll_event(&mut self, now: u64) -> Option<(u64, HostEvent)> {
        self.verbs_mut().poll_event().map(|event| (now, event))
    }

    /// Advances the time of the host to `now`; called before the application changes the host.
    fn advance_clock(&mut self, _now: u64) {}

    /// Nanoseconds from the application's post of a message of `bytes` bytes until the NIC acts on it.
    fn post_delay(&self, _bytes: u64) -> u64 {
        0
    }

    /// Name of the host's network interface.
    fn interface(&self) -> &str;

    /// Addresses and counters of the host.
    fn info(&self) -> Info;

    /// Completes the capture file; called once, before the process ends.
    fn finish(&mut self) -> Outcome {
        Ok(())
    }
}
