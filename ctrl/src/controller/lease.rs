//! Leases: a group whose leader is gone without a word does not stay for ever.
//!
//! A group is kept as long as there are signs of life:
//!
//! - what is acknowledged to its source has moved since the last look: the group is in use, whoever leads it;
//! - its leader says so, in band ([`Kind::Alive`]), when it is asked;
//! - anybody asks the control service something about it, and be it to refresh it.
//!
//! The controller looks and asks some times per lease, so that lost packets do not matter, and not at all while there
//! are other signs.  Time in which no switch of the group can be asked does not count: who cannot look must not judge.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::Kind;

use super::error::{GroupError, SwitchError};
use super::event::Tag;
use super::registers;
use super::removal::Reason;
use super::session::Task;
use super::timers::Timers;
use super::{ApiReply, Controller, Owner};
use crate::constants::REGISTER_AGG;

/// Looks per lease.
const LOOKS: u64 = 8;

/// The leases of all groups in use.
#[derive(Debug, Default)]
pub(super) struct Leases {
    leases: BTreeMap<Ipv4Addr, Lease>,
    /// When to look at each.
    looks: Timers<Ipv4Addr>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    /// When there was a sign of life last; `None` when the lease was given before any time was known.
    alive_at: Option<u64>,
    /// What had been acknowledged to the group's source at the last look.
    last_acked: Option<u64>,
}

impl Leases {
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.looks.first()
    }

    /// Gives a group a lease that begins when time is known.
    pub(super) fn give(&mut self, mcst_id: Ipv4Addr) {
        let lease = Lease {
            alive_at: None,
            last_acked: None,
        };
        self.leases.insert(mcst_id, lease);
        self.looks.set(mcst_id, 0);
    }

    pub(super) fn forget(&mut self, mcst_id: Ipv4Addr) {
        self.leases.remove(&mcst_id);
        self.looks.clear(mcst_id);
    }
}

impl Controller {
    /// A group has come into use, or somebody has shown an interest in it.
    pub(super) fn sign_of_life(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let lease_ns = self.config.lease_ns;
        if lease_ns == 0 || !self.groups.get(&mcst_id).is_some_and(|r| r.is_ready()) {
            return;
        }
        let known = self.leases.leases.get(&mcst_id);
        let lease = Lease {
            alive_at: Some(now),
            last_acked: known.and_then(|lease| lease.last_acked),
        };
        self.leases.leases.insert(mcst_id, lease);
        self.leases.looks.set(mcst_id, now + look_after(lease_ns));
    }

    /// A user wants the group to stay.
    pub(super) fn refresh(&mut self, now: u64, tag: Tag, mcst_id: Ipv4Addr) {
        if !self.groups.get(&mcst_id).is_some_and(|r| r.is_ready()) {
            let error = GroupError::NoSuchGroup(mcst_id);
            return self.queue_reply(ApiReply::Failed { tag, error });
        }
        self.sign_of_life(now, mcst_id);
        self.queue_reply(ApiReply::Refreshed { tag, mcst_id });
    }

    pub(super) fn lease_timeout(&mut self, now: u64) {
        while let Some(mcst_id) = self.leases.looks.pop_due(now) {
            self.look_for_life(now, mcst_id);
        }
    }

    fn look_for_life(&mut self, now: u64, mcst_id: Ipv4Addr) {
        let lease_ns = self.config.lease_ns;
        let (Some(lease), Some(registration)) = (
            self.leases.leases.get(&mcst_id).copied(),
            self.groups.get(&mcst_id).filter(|r| r.is_ready()),
        ) else {
            return self.leases.forget(mcst_id);
        };
        let alive_at = lease.alive_at.unwrap_or(now);
        let mut lease = Lease {
            alive_at: Some(alive_at),
            ..lease
        };
        let group = registration.group();
        let leader = group.members.first().map(|member| member.spec.ip);
        let mut ready = group.switches.iter();
        let on = ready.find(|on| self.switches[on.switch.0].boot.is_ready());
        let is_over = now - alive_at >= lease_ns;
        if is_over && registration.is_at_rest() && on.is_some() {
            self.leases.forget(mcst_id);
            return self.remove(now, mcst_id, Reason::Expired);
        }
        let read = on.map(|on| {
            let read = registers::read(on.group_index, REGISTER_AGG, 0);
            (on.switch, Task::Registers(read))
        });
        if read.is_none() {
            lease.alive_at = Some(unseen(alive_at, now, lease_ns));
        }
        self.leases.leases.insert(mcst_id, lease);
        self.leases.looks.set(mcst_id, now + look_after(lease_ns));
        if let Some((switch, task)) = read {
            self.submit(now, switch, Owner::Lease(mcst_id), task);
        }
        if let Some(leader) = leader {
            self.mrp_answer(mcst_id, leader, Kind::Alive, 0);
        }
    }

    /// A switch has reported how far a group is, or could not.
    pub(super) fn lease_read(
        &mut self,
        now: u64,
        mcst_id: Ipv4Addr,
        result: &Result<u64, SwitchError>,
    ) {
        let lease_ns = self.config.lease_ns;
        let Some(lease) = self.leases.leases.get_mut(&mcst_id) else {
            return;
        };
        match result {
            Ok(last_acked) => {
                let before = lease.last_acked.replace(*last_acked);
                if before.is_some_and(|before| before != *last_acked) {
                    self.sign_of_life(now, mcst_id);
                }
            }
            Err(_) => {
                lease.alive_at = lease.alive_at.map(|at| unseen(at, now, lease_ns));
            }
        }
    }
}

/// Nanoseconds from a sign of life, or a look for one, to the next look.
fn look_after(lease_ns: u64) -> u64 {
    (lease_ns / LOOKS).max(1)
}

/// When there was a sign of life last, if the time since the last look is not to count.
fn unseen(alive_at: u64, now: u64, lease_ns: u64) -> u64 {
    (alive_at + look_after(lease_ns)).min(now)
}
