//! Periodic reading of the positions of groups whose tree is a single switch. The position is the PSN and MSN that all
//! members have acknowledged.
//!
//! When a switch loses its registers, a group's position is restored from the other switches of its tree ([`super::boot`]) or
//! from its members ([`super::recovery`]). Members report 24-bit PSNs, which are ordered only near a known position.
//! Without other switches, that position is read from the switch itself, often enough that no group sends a quarter of
//! the PSN space in between.

use std::net::Ipv4Addr;

use super::error::SwitchError;
use super::position::Position;
use super::registers;
use super::session::Task;
use super::{Controller, Owner};
use crate::constants::REGISTER_AGG;

impl Controller {
    /// Time of the next reading of group positions; `None` if readings are disabled or no group's tree is a single switch.
    pub(super) fn next_checkpoint(&self) -> Option<u64> {
        let mut groups = self.groups.values().filter(|r| r.is_ready());
        let is_wanted = self.config.checkpoint_interval_ns > 0
            && groups.any(|registration| registration.group().parts.len() == 1);
        is_wanted.then_some(self.checkpoint_at)
    }

    pub(super) fn checkpoint_timeout(&mut self, now: u64) {
        if self.next_checkpoint().is_none_or(|at| at > now) {
            return;
        }
        self.checkpoint_at = now + self.config.checkpoint_interval_ns;
        let alone = self
            .groups
            .values()
            .filter(|r| r.is_at_rest())
            .filter_map(|registration| {
                let group = registration.group();
                match &group.parts[..] {
                    [on] if self.has_position((group.mcst_id, on.switch)) => {
                        let read = registers::read(on.group_index, REGISTER_AGG, 0);
                        Some((group.mcst_id, on.switch, Task::Registers(read)))
                    }
                    _ => None,
                }
            });
        for (mcst_id, switch, read) in alone.collect::<Vec<_>>() {
            self.submit(now, switch, Owner::Checkpoint(mcst_id), read);
        }
    }

    pub(super) fn checkpoint_read(&mut self, mcst_id: Ipv4Addr, result: Result<u64, SwitchError>) {
        if let (Ok(value), Some(registration)) = (result, self.groups.get_mut(&mcst_id)) {
            let group = registration.group_mut();
            if group.parts.len() == 1 {
                group.advance(Position::from_register(value));
            }
        }
    }
}
