//! What one host may ask for in band: so many groups, and so many packets in a second.
//!
//! The control service has no such limits: who may call it is for the operator to say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crate::topology::SwitchIndex;

/// A host that sends too fast gets a notice this often, in nanoseconds.
const REFUSAL_INTERVAL: u64 = 1_000_000_000;

/// Who leads what, and how fast hosts send.
#[derive(Debug, Default)]
pub(in crate::controller) struct Limits {
    /// Groups that each host leads, those that it has begun to register included.
    led: BTreeMap<Ipv4Addr, BTreeSet<Ipv4Addr>>,
    leaders: BTreeMap<Ipv4Addr, Ipv4Addr>,
    /// By switch and port.
    paces: BTreeMap<(SwitchIndex, u32), Pace>,
}

/// A bucket of tokens, kept as the time at which it would be full again.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    full_at: u64,
    /// When to say the next time that packets are dropped.
    refuse_at: u64,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Serve,
    Drop,
    /// Drop it, and say so.
    Refuse,
}

impl Limits {
    /// A host leads the group from now on.
    pub(super) fn lead(&mut self, leader: Ipv4Addr, mcst_id: Ipv4Addr) {
        if self.leaders.get(&mcst_id) != Some(&leader) {
            self.forget(mcst_id);
            self.leaders.insert(mcst_id, leader);
            self.led.entry(leader).or_default().insert(mcst_id);
        }
    }

    /// Nobody leads the group any more.
    pub(super) fn forget(&mut self, mcst_id: Ipv4Addr) {
        let Some(leader) = self.leaders.remove(&mcst_id) else {
            return;
        };
        if let Some(led) = self.led.get_mut(&leader) {
            led.remove(&mcst_id);
            if led.is_empty() {
                self.led.remove(&leader);
            }
        }
    }

    /// Whether a host may lead this group and `limit` in all; 0 is no limit.
    pub(super) fn may_lead(&self, leader: Ipv4Addr, mcst_id: Ipv4Addr, limit: usize) -> bool {
        let led = self.led.get(&leader);
        limit == 0 || led.is_none_or(|led| led.len() < limit || led.contains(&mcst_id))
    }

    /// Whether to serve a packet that came by a port just now: `rate` in a second, and as many at once; 0 is no limit.
    pub(super) fn admit(&mut self, now: u64, port: (SwitchIndex, u32), rate: u32) -> Verdict {
        if rate == 0 {
            return Verdict::Serve;
        }
        let second = 1_000_000_000;
        let pace = self.paces.entry(port).or_default();
        let full_at = pace.full_at.max(now) + second / u64::from(rate);
        if full_at <= now + second {
            pace.full_at = full_at;
            return Verdict::Serve;
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
    fn a_port_gets_its_rate_and_as_many_at_once() {
        let mut limits = Limits::default();
        let served = |limits: &mut Limits, now| {
            let all = (0..100).map(|_| limits.admit(now, PORT, 10));
            all.filter(|verdict| *verdict == Verdict::Serve).count()
        };
        assert_eq!(served(&mut limits, 5), 10);
        assert_eq!(served(&mut limits, 5 + SECOND / 2), 5);
        assert_eq!(served(&mut limits, 5 + 10 * SECOND), 10);
        // Others have their own.
        assert_eq!(
            limits.admit(5 + 10 * SECOND, (SwitchIndex(0), 2), 10),
            Verdict::Serve
        );
        assert_eq!(limits.admit(5 + 10 * SECOND, PORT, 0), Verdict::Serve);
    }

    #[test]
    fn who_is_too_fast_is_told_so_once_in_a_while() {
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
    fn a_host_leads_as_many_groups_as_it_may() {
        let mut limits = Limits::default();
        for n in 1..=2 {
            assert!(limits.may_lead(ip(1), ip(100 + n), 2));
            limits.lead(ip(1), ip(100 + n));
        }
        assert!(!limits.may_lead(ip(1), ip(103), 2));
        assert!(limits.may_lead(ip(1), ip(103), 0));
        // What it leads already is no new one; others are not concerned.
        assert!(limits.may_lead(ip(1), ip(101), 2));
        assert!(limits.may_lead(ip(2), ip(103), 2));
        limits.forget(ip(101));
        assert!(limits.may_lead(ip(1), ip(103), 2));
        // Another host takes over.
        limits.lead(ip(1), ip(103));
        limits.lead(ip(2), ip(103));
        assert!(limits.may_lead(ip(1), ip(104), 2));
        assert!(!limits.may_lead(ip(2), ip(104), 1));
    }
}
