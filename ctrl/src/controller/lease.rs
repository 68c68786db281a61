//! Leases: a group whose leader has failed is removed after a time without activity.
//!
//! Any of these activities renews the lease of a group:
//!
//! - the position acknowledged to its source has advanced since the last check;
//! - its leader replies in band ([`Kind::Alive`]) to a query;
//! - a client sends any request about it to the control service, such as a refresh.
//!
//! The controller checks and queries several times per lease, because packets may be lost; other activity postpones the next
//! check. Time in which no switch of the group can be read does not count.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::Kind;

use super::command::Command;
use super::error::SwitchError;
use super::groups::Groups;
use super::mrp::transmit;
use super::network::Network;
use super::registers;
use super::removal::Reason;
use super::session::Task;
use super::switches::Owner;
use super::timers::Timers;
use crate::constants::REGISTER_AGG;

/// Number of checks within the time of one lease.
const CHECKS_PER_LEASE: u64 = 8;

/// Leases of all groups in use.
#[derive(Debug, Default)]
pub(super) struct Leases {
    leases: BTreeMap<Ipv4Addr, Lease>,
    /// Time of the next check of each group.
    checks: Timers<Ipv4Addr>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    /// Time of the last activity; `None` if the lease was granted before the first event.
    alive_at: Option<u64>,
    /// Position acknowledged to the group's source at the last check.
    last_acked: Option<u64>,
}

impl Leases {
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.checks.first()
    }

    /// Grants a lease to a group; its time starts at the first check.
    pub(super) fn grant(&mut self, mcst_id: Ipv4Addr) {
        let lease = Lease {
            alive_at: None,
            last_acked: None,
        };
        self.leases.insert(mcst_id, lease);
        self.checks.set(mcst_id, 0);
    }

    pub(super) fn discard(&mut self, mcst_id: Ipv4Addr) {
        self.leases.remove(&mcst_id);
        self.checks.clear(mcst_id);
    }

    /// Renews the lease of a group.
    pub(super) fn renew(
        &mut self,
        now: u64,
        network: &Network,
        groups: &Groups,
        mcst_id: Ipv4Addr,
    ) {
        let lease_ns = network.config().lease_ns;
        if lease_ns == 0 || !groups.is_ready(mcst_id) {
            return;
        }
        let known = self.leases.get(&mcst_id);
        let lease = Lease {
            alive_at: Some(now),
            last_acked: known.and_then(|lease| lease.last_acked),
        };
        self.leases.insert(mcst_id, lease);
        self.checks.set(mcst_id, now + check_interval(lease_ns));
    }

    /// Checks the leases whose check is due, up to the first from which a command follows. Returns the command; `None` if
    /// no check is due any more.
    pub(super) fn timeout(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
    ) -> Option<Command> {
        while let Some(mcst_id) = self.checks.pop_due(now) {
            let command = self.check(now, network, groups, mcst_id);
            if command.is_some() {
                return command;
            }
        }
        None
    }

    fn check(
        &mut self,
        now: u64,
        network: &mut Network,
        groups: &Groups,
        mcst_id: Ipv4Addr,
    ) -> Option<Command> {
        let lease_ns = network.config().lease_ns;
        let (Some(lease), Some(registration)) = (
            self.leases.get(&mcst_id).copied(),
            groups.get(mcst_id).filter(|r| r.is_ready()),
        ) else {
            self.discard(mcst_id);
            return None;
        };
        let alive_at = lease.alive_at.unwrap_or(now);
        let mut lease = Lease {
            alive_at: Some(alive_at),
            ..lease
        };
        let group = registration.group();
        let leader = groups.leader_of(mcst_id);
        let mut ready = group.parts.iter();
        let on = ready.find(|on| network.is_ready(on.switch));
        let is_over = now - alive_at >= lease_ns;
        if is_over && registration.is_at_rest() && on.is_some() {
            self.discard(mcst_id);
            return Some(Command::Remove(mcst_id, Reason::Expired));
        }
        let read = on.map(|on| {
            let read = registers::read(on.group_index, REGISTER_AGG, 0);
            (on.switch, Task::Registers(read))
        });
        if read.is_none() {
            lease.alive_at = Some(excluding_last_interval(alive_at, now, lease_ns));
        }
        self.leases.insert(mcst_id, lease);
        self.checks.set(mcst_id, now + check_interval(lease_ns));
        if let Some((switch, task)) = read {
            network.submit(now, switch, Owner::Lease(mcst_id), task);
        }
        if let Some(leader) = leader {
            transmit::reply(network, groups, mcst_id, leader, Kind::Alive, 0);
        }
        None
    }

    /// Processes the position of a group, read from a switch: renews the lease if the position has changed since the last
    /// check.
    pub(super) fn position_read(
        &mut self,
        now: u64,
        network: &Network,
        groups: &Groups,
        mcst_id: Ipv4Addr,
        result: &Result<u64, SwitchError>,
    ) {
        let lease_ns = network.config().lease_ns;
        let Some(lease) = self.leases.get_mut(&mcst_id) else {
            return;
        };
        match result {
            Ok(last_acked) => {
                let before = lease.last_acked.replace(*last_acked);
                if before.is_some_and(|before| before != *last_acked) {
                    self.renew(now, network, groups, mcst_id);
                }
            }
            Err(_) => {
                lease.alive_at = lease
                    .alive_at
                    .map(|at| excluding_last_interval(at, now, lease_ns));
            }
        }
    }
}

/// Nanoseconds from an activity or check to the next check.
fn check_interval(lease_ns: u64) -> u64 {
    (lease_ns / CHECKS_PER_LEASE).max(1)
}

/// Time of the last activity, moved later by one check interval, so that the time since the last check does not count.
fn excluding_last_interval(alive_at: u64, now: u64, lease_ns: u64) -> u64 {
    (alive_at + check_interval(lease_ns)).min(now)
}
