//! The neighbour table: link-layer addresses, resolved by ARP.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use super::config::HostTiming;
use crate::wire::MacAddr;

enum Entry {
    /// ARP requests are being sent. `next_at` is the time of the next one in nanoseconds.
    Requested { attempts: u32, next_at: u64 },
    /// MAC address from the reply to an ARP request of this host.
    Resolved(MacAddr),
    /// MAC address from a neighbour's own ARP request. This host has not requested it.
    Observed(MacAddr),
}

/// Largest number of neighbours in the table that are known only from their own requests. Older ones are evicted, and
/// resolved again when needed.
const MAX_OBSERVED: usize = 512;

/// Action that is due for an IPv4 address whose MAC address is being resolved.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ArpAction {
    /// Send an ARP request for this address.
    Request(Ipv4Addr),
    /// All requests for this address have timed out.
    GiveUp(Ipv4Addr),
}

/// The neighbour table of a host: MAC addresses by IPv4 address.
#[derive(Default)]
pub(super) struct Neighbors {
    entries: BTreeMap<Ipv4Addr, Entry>,
    /// Neighbours that are or were [`Entry::Observed`], the oldest first.
    observed: VecDeque<Ipv4Addr>,
}

impl Neighbors {
    pub(super) fn lookup(&self, ip: Ipv4Addr) -> Option<MacAddr> {
        match self.entries.get(&ip) {
            Some(Entry::Resolved(mac) | Entry::Observed(mac)) => Some(*mac),
            _ => None,
        }
    }

    /// Protects the entry of `ip` from eviction. Returns false if the MAC address of `ip` is not resolved.
    pub(super) fn pin(&mut self, ip: Ipv4Addr) -> bool {
        let Some(mac) = self.lookup(ip) else {
            return false;
        };
        self.entries.insert(ip, Entry::Resolved(mac));
        true
    }

    /// Starts to resolve `ip` to a MAC address, unless that is done or in progress.
    pub(super) fn resolve(&mut self, now: u64, ip: Ipv4Addr) {
        self.entries.entry(ip).or_insert(Entry::Requested {
            attempts: 0,
            next_at: now,
        });
    }

    /// Records the ARP reply of a neighbour. Returns whether an ARP request for its address was pending.
    pub(super) fn record_reply(&mut self, ip: Ipv4Addr, mac: MacAddr) -> bool {
        match self.entries.get_mut(&ip) {
            Some(entry) => {
                let was_pending = matches!(entry, Entry::Requested { .. });
                *entry = Entry::Resolved(mac);
                was_pending
            }
            None => false,
        }
    }

    /// Records a neighbour's MAC address, as found in an ARP request that the neighbour has sent.
    pub(super) fn observe(&mut self, ip: Ipv4Addr, mac: MacAddr) {
        match self.entries.get_mut(&ip) {
            Some(entry @ (Entry::Resolved(_) | Entry::Requested { .. })) => {
                *entry = Entry::Resolved(mac)
            }
            Some(entry @ Entry::Observed(_)) => *entry = Entry::Observed(mac),
            None => {
                self.entries.insert(ip, Entry::Observed(mac));
                self.observed.push_back(ip);
                self.evict_old();
            }
        }
    }

    /// Evicts the oldest neighbours that this host has not requested, until [`MAX_OBSERVED`] are left.
    fn evict_old(&mut self) {
        while self.observed.len() > MAX_OBSERVED {
            let Some(oldest) = self.observed.pop_front() else {
                break;
            };
            if matches!(self.entries.get(&oldest), Some(Entry::Observed(_))) {
                self.entries.remove(&oldest);
            }
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.entries
            .values()
            .filter_map(|e| match e {
                Entry::Requested { next_at, .. } => Some(*next_at),
                Entry::Resolved(_) | Entry::Observed(_) => None,
            })
            .min()
    }

    /// Returns the ARP requests and failures that are due at `now`. Removes the addresses whose requests have all timed
    /// out.
    pub(super) fn handle_timeout(&mut self, now: u64, timing: &HostTiming) -> Vec<ArpAction> {
        let mut due = Vec::new();
        self.entries.retain(|ip, entry| {
            let Entry::Requested { attempts, next_at } = entry else {
                return true;
            };
            if *next_at > now {
                return true;
            }
            if *attempts >= timing.arp_attempts {
                due.push(ArpAction::GiveUp(*ip));
                return false;
            }
            *attempts += 1;
            *next_at = now + timing.arp_interval;
            due.push(ArpAction::Request(*ip));
            true
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    const TIMING: HostTiming = HostTiming {
        arp_interval: 10,
        arp_attempts: 2,
        ..HostTiming::FAST
    };

    #[test]
    fn address_without_a_reply_is_requested_and_given_up() {
        let mut table = Neighbors::default();
        table.resolve(5, IP);
        assert_eq!(table.poll_timeout(), Some(5));
        assert_eq!(table.handle_timeout(5, &TIMING), [ArpAction::Request(IP)]);
        assert_eq!(table.handle_timeout(14, &TIMING), []);
        assert_eq!(table.handle_timeout(15, &TIMING), [ArpAction::Request(IP)]);
        assert_eq!(table.handle_timeout(25, &TIMING), [ArpAction::GiveUp(IP)]);
        assert_eq!(table.poll_timeout(), None);
    }

    #[test]
    fn excess_observed_neighbours_are_evicted_and_peers_are_not() {
        let mut table = Neighbors::default();
        let mac = MacAddr([2, 0, 0, 0, 0, 2]);
        table.resolve(0, IP);
        table.observe(IP, mac);
        let strangers = (0..10_000u32).map(|i| Ipv4Addr::from(0x0b00_0000 + i));
        for stranger in strangers.clone() {
            table.observe(stranger, mac);
            table.observe(stranger, mac);
        }
        let known = strangers.filter(|ip| table.lookup(*ip).is_some()).count();
        assert_eq!(known, MAX_OBSERVED);
        assert_eq!(table.entries.len(), MAX_OBSERVED + 1);
        assert_eq!(table.lookup(IP), Some(mac));
    }

    #[test]
    fn unsolicited_arp_replies_are_ignored() {
        let mut table = Neighbors::default();
        let mac = MacAddr([2, 0, 0, 0, 0, 2]);
        assert!(!table.record_reply(IP, mac));
        assert_eq!(table.lookup(IP), None);
        table.resolve(0, IP);
        assert!(table.record_reply(IP, mac));
        assert!(!table.record_reply(IP, mac));
        assert_eq!(table.lookup(IP), Some(mac));
        assert_eq!(table.poll_timeout(), None);
    }
}
