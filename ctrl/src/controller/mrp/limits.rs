//! Limits of in-band registration per host: number of groups, and rates of its packets and of invitations on its behalf.
//!
//! The control service has no such limits; the operator controls access to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::claim::ClaimKey;
use crate::topology::SwitchIndex;

/// Minimum interval between refusals to a host that exceeds its rate, in nanoseconds.
const REFUSAL_INTERVAL: u64 = 1_000_000_000;

/// Limits per host: its number of groups, and the rates of its registration packets and invitations.
#[derive(Debug, Default)]
pub(in crate::controller) struct Limits {
    /// Addresses of the groups that each host leads.
    groups_led: BTreeMap<Ipv4Addr, BTreeSet<Ipv4Addr>>,
    /// Leader of each group.
    leaders: BTreeMap<Ipv4Addr, Ipv4Addr>,
    /// Group addresses of each host's unfinished registrations.
    claimed: BTreeMap<Ipv4Addr, BTreeSet<Ipv4Addr>>,
    /// Rate limits of registration packets, by switch and port of the host.
    packet_buckets: BTreeMap<(SwitchIndex, u32), TokenBucket>,
    /// Rate limits of invitations, by leader.
    invitation_buckets: BTreeMap<Ipv4Addr, TokenBucket>,
}

/// Token bucket of a rate limit. Its state is the time at which it is full again.
#[derive(Clone, Copy, Debug, Default)]
struct TokenBucket {
    full_at: u64,
    /// Earliest time of the next refusal.
    refuse_at: u64,
}

/// Verdict of the rate limit on a registration packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Process the packet.
    Process,
    /// Drop the packet.
    Drop,
    /// Drop the packet, and send a refusal.
    Refuse,
}

impl Limits {
    /// Records the leader of a group.
    pub(super) fn lead(&mut self, leader: Ipv4Addr, mcst_id: Ipv4Addr) {
        if self.leaders.get(&mcst_id) != Some(&leader) {
            self.discard(mcst_id);
            self.leaders.insert(mcst_id, leader);
            self.groups_led.entry(leader).or_default().insert(mcst_id);
        }
    }

    /// Removes the record of a group's leader.
    pub(super) fn discard(&mut self, mcst_id: Ipv4Addr) {
        let Some(leader) = self.leaders.remove(&mcst_id) else {
            return;
        };
        if let Some(led) = self.groups_led.get_mut(&leader) {
            led.remove(&mcst_id);
            if led.is_empty() {
                self.groups_led.remove(&leader);
            }
        }
    }

    /// Whether a host may begin another registration. `limit`: maximum number of groups that it leads, 0 for no limit; `most`:
    /// maximum number of unfinished registrations.
    pub(super) fn may_claim(&self, (_, leader): ClaimKey, limit: usize, most: usize) -> bool {
        let count =
            |of: &BTreeMap<Ipv4Addr, BTreeSet<Ipv4Addr>>| of.get(&leader).map_or(0, BTreeSet::len);
        let claimed = count(&self.claimed);
        claimed < most && (limit == 0 || claimed + count(&self.groups_led) < limit)
    }

    /// Records that a host has begun a registration.
    pub(super) fn claim(&mut self, (mcst_id, leader): ClaimKey) {
        self.claimed.entry(leader).or_default().insert(mcst_id);
    }

    /// Records that a host's unfinished registration has ended.
    pub(super) fn unclaim(&mut self, (mcst_id, leader): ClaimKey) {
        if let Some(claimed) = self.claimed.get_mut(&leader) {
            claimed.remove(&mcst_id);
            if claimed.is_empty() {
                self.claimed.remove(&leader);
            }
        }
    }

    /// Returns how many of `wanted` invitations may be sent now for a leader. `rate`: limit per second and in a burst, 0
    /// for no limit.
    pub(super) fn grant_invitations(
        &mut self,
        now: u64,
        leader: Ipv4Addr,
        wanted: usize,
        rate: u32,
    ) -> usize {
        if rate == 0 {
            return wanted;
        }
        let second = 1_000_000_000;
        let each = second / u64::from(rate);
        let pace = self.invitation_buckets.entry(leader).or_default();
        let full_at = pace.full_at.max(now);
        let left = (now + second).saturating_sub(full_at) / each.max(1);
        let allocation = wanted.min(usize::try_from(left).unwrap_or(usize::MAX));
        pace.full_at = full_at + each * allocation as u64;
        allocation
    }

    /// Decides whether a packet from a port is processed. `rate`: limit of packets per second and in a burst, 0 for no
    /// limit.
    pub(super) fn admit(&mut self, now: u64, port: (SwitchIndex, u32), rate: u32) -> Verdict {
        if rate == 0 {
            return Verdict::Process;
        }
        let second = 1_000_000_000;
        let pace = self.packet_buckets.entry(port).or_default();
        let full_at = pace.full_at.max(now) + second / u64::from(rate);
        if full_at <= now + second {
            pace.full_at = full_at;
            return Verdict::Process;
        }
        if now < pace.refuse_at {
            return Verdict::Drop;
        }
        pace.refuse_at = now + REFUSAL_INTERVAL;
        Verdict::Refuse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: (SwitchIndex, u32) = (SwitchIndex(0), 1);
    const SECOND: u64 = 1_000_000_000;

    fn ip(n: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, n)
    }

    #[test]
    fn a_port_has_a_rate_and_a_burst() {
        let mut limits = Limits::default();
        let served = |limits: &mut Limits, now| {
            let all = (0..100).map(|_| limits.admit(now, PORT, 10));
            all.filter(|verdict| *verdict == Verdict::Process).count()
        };
        assert_eq!(served(&mut limits, 5), 10);
        assert_eq!(served(&mut limits, 5 + SECOND / 2), 5);
        assert_eq!(served(&mut limits, 5 + 10 * SECOND), 10);
        // Other ports have their own limit.
        assert_eq!(
            limits.admit(5 + 10 * SECOND, (SwitchIndex(0), 2), 10),
            Verdict::Process
        );
        assert_eq!(limits.admit(5 + 10 * SECOND, PORT, 0), Verdict::Process);
    }

    #[test]
    fn a_sender_over_its_limit_is_notified_once_per_interval() {
        let mut limits = Limits::default();
        let mut refusals = |now| {
            let all = (0..100).map(|_| limits.admit(now, PORT, 10));
            all.filter(|verdict| *verdict == Verdict::Refuse).count()
        };
        assert_eq!(refusals(0), 1);
        assert_eq!(refusals(SECOND / 2), 0);
        assert_eq!(refusals(SECOND), 1);
    }

    #[test]
    fn the_number_of_groups_per_leader_is_limited() {
        let mut limits = Limits::default();
        let may =
            |limits: &Limits, leader, limit| limits.may_claim((ip(109), ip(leader)), limit, 9);
        limits.claim((ip(101), ip(1)));
        assert!(may(&limits, 1, 2));
        limits.lead(ip(1), ip(102));
        // Led and unfinished groups both count.
        assert!(!may(&limits, 1, 2));
        assert!(may(&limits, 1, 0));
        assert!(may(&limits, 2, 2));
        limits.unclaim((ip(101), ip(1)));
        assert!(may(&limits, 1, 2));
        // Another host becomes the leader.
        limits.lead(ip(2), ip(102));
        assert!(may(&limits, 1, 1));
        assert!(!may(&limits, 2, 1));
        limits.discard(ip(102));
        assert!(may(&limits, 2, 1));
        // Unfinished registrations are limited even without a limit of led groups.
        for n in 0..9 {
            limits.claim((ip(n), ip(3)));
        }
        assert!(!may(&limits, 3, 0));
    }

    #[test]
    fn invitations_of_a_leader_are_limited_to_its_rate() {
        let mut limits = Limits::default();
        assert_eq!(limits.grant_invitations(7, ip(1), 6, 10), 6);
        assert_eq!(limits.grant_invitations(7, ip(1), 6, 10), 4);
        assert_eq!(limits.grant_invitations(7, ip(1), 6, 10), 0);
        assert_eq!(limits.grant_invitations(7, ip(2), 6, 10), 6);
        assert_eq!(limits.grant_invitations(7 + SECOND / 2, ip(1), 600, 10), 5);
        assert_eq!(
            limits.grant_invitations(7 + 20 * SECOND, ip(1), 600, 10),
            10
        );
        assert_eq!(limits.grant_invitations(7, ip(1), 600, 0), 600);
    }
}
