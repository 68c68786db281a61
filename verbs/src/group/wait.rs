//! The loop of a call: handles what has arrived, and sleeps until more arrives or the time limit is exceeded.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::{Group, GroupError, Result};

/// Maximum time of a sleep that waits for events.
pub(super) const MAX_SLEEP: Duration = Duration::from_millis(200);

impl Group {
    /// Executes the steps of a call, within the time limit of a call.
    pub(super) fn run(&mut self) -> Result<()> {
        self.run_until(self.deadline())
    }

    pub(super) fn run_until(&mut self, deadline: Instant) -> Result<()> {
        while !self.turn()? {
            self.sleep_until(deadline)?;
        }
        Ok(())
    }

    /// Handles everything that is pending, without waiting. Returns whether the steps of the call are done.
    pub(super) fn turn(&mut self) -> Result<bool> {
        self.device.handle_ready();
        self.links.receive(&mut self.member);
        let now = self.started.elapsed().as_nanos() as u64;
        let is_done = self.member.advance(&mut self.device, now);
        let executed = self.links.execute(&mut self.member);
        let is_done = is_done?;
        executed?;
        Ok(is_done)
    }

    /// Sleeps until there may be an event. Fails if the deadline has passed.
    pub(super) fn sleep_until(&self, deadline: Instant) -> Result<()> {
        let left = deadline.checked_duration_since(Instant::now());
        let left = left.ok_or(GroupError::Timeout(self.member.waits_for()))?;
        self.sleep(left.min(MAX_SLEEP));
        Ok(())
    }

    /// Sleeps until there may be an event, for at most `longest`.
    pub(super) fn sleep(&self, longest: Duration) {
        let next = self.member.poll_timeout().map(Duration::from_nanos);
        let next = next.map(|at| at.saturating_sub(self.started.elapsed()));
        let left = next.map_or(longest, |left| left.min(longest));
        self.links.sleep(self.device.as_fd(), left);
    }

    /// Time at which a call that starts now exceeds its time limit.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }
}
