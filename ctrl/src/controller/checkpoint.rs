//! Periodic reading of the positions of groups whose tree is a single switch. The position is the PSN and MSN that all
//! members have acknowledged.
//!
//! When a switch loses its registers, a group's position is restored from the other switches of its tree ([`super::boot`]) or
//! from its members ([`super::recovery`]). Members report 24-bit PSNs, which are ordered only near a known position.
//! Without other switches, that position is read from the switch itself, often enough that no group sends a quarter of
//! the PSN space in between.

use std::net::Ipv4Addr;

use super::error::SwitchError;
use super::groups::Groups;
use super::network::Network;
use super::position::Position;
use super::recovery::Recoveries;
use super::registers;
use super::session::Task;
use super::switches::Owner;
use crate::constants::REGISTER_AGG;

/// Schedule of the readings.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// Time of the next reading.
    next: u64,
}

impl Checkpoints {
    /// Time of the next reading of group positions; `None` if readings are disabled or no group's tree is a single switch.
    pub(super) fn poll_timeout(&self, network: &Network, groups: &Groups) -> Option<u64> {
        let mut groups = groups.iter().filter(|r| r.is_ready());
        let is_wanted = network.config().checkpoint_interval_ns > 0
            && groups.any(|registration| registration.group().parts.len() == 1);
        is_wanted.then_some(self.next)
    }

    /// Reads the positions of groups on a single switch, if it is time.
    pub(super) fn timeout(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        recoveries: &Recoveries,
    ) {
        let next = self.poll_timeout(network, groups);
        if next.is_none_or(|at| at > now) {
            return;
        }
        self.next = now + network.config().checkpoint_interval_ns;
        for registration in groups.iter().filter(|r| r.is_at_rest()) {
            let group = registration.group();
            let [on] = &group.parts[..] else { continue };
            if recoveries.has_position(network, (group.mcst_id, on.switch)) {
                let read = Task::Registers(registers::read(on.group_index, REGISTER_AGG, 0));
                network.submit(now, on.switch, Owner::Checkpoint(group.mcst_id), read);
            }
        }
    }
}

/// Records the position of a group, read from the only switch of its tree.
pub(super) fn position_read(
    groups: &mut Groups,
    mcst_id: Ipv4Addr,
    result: Result<u64, SwitchError>,
) {
    if let (Ok(value), Some(registration)) = (result, groups.get_mut(mcst_id)) {
        let group = registration.group_mut();
        if group.parts.len() == 1 {
            group.advance(Position::from_register(value));
        }
    }
}
