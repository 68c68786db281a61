//! What a responder with selective repeat has of packets that came before others, and what it lacks.
//!
//! IRN places packets in memory as they come; its headers say where. Those of the specification say so only in the first packet of
//! a message, and a group's packets must stay as they are for switches. So packets that come early wait here, [`RcConfig::window`] of
//! them at most, and become parts of messages in order: what is wrong with one is found, and answered, in order, too.
//!
//! What is missing is reported when the first packet after it comes, once; and again when so much time has passed as a repair
//! takes. A report or what is sent again may be lost, and a switch may have merged the report with one of another receiver.
//! (IRN's receivers have no such timer: each packet that comes early makes another NACK. In a group that would be one from each
//! receiver for each packet.)

use std::collections::BTreeMap;

use super::config::RcConfig;
use super::packet::{RcHeaders, RcPacket};

/// A packet is reported this often, and then its sender's timeouts alone bring it.
const MAX_REPORTS: u8 = 32;
/// So many reports follow each other at equal times: where losses are random, one in vain says nothing about the next.
const PATIENT_REPORTS: u8 = 3;
/// When timeouts are off nothing else says how long a repair may take: 1 ms.
const UNKNOWN_REPAIR: u64 = 1_000_000;

/// A packet that waits for those before it.
pub(super) struct Early {
    headers: RcHeaders,
    payload: Vec<u8>,
}

impl Early {
    pub(super) fn packet(&self) -> RcPacket<'_> {
        RcPacket {
            headers: self.headers,
            payload: &self.payload,
        }
    }
}

/// A packet that others have overtaken.
struct Missing {
    /// How often it has been reported.
    reports: u8,
    /// When it was last,
    reported: u64,
    /// and when it is to be the next time.
    due: u64,
}

/// Packets are counted in 64 bits, from any number on.
#[derive(Default)]
pub(super) struct Reorder {
    /// The one that is expected.
    expected: u64,
    /// One past the newest that came.
    newest: u64,
    early: BTreeMap<u64, Early>,
    missing: BTreeMap<u64, Missing>,
    repair: RepairTime,
}

impl Reorder {
    /// Other packets are expected from now on. How long repairs take is known still.
    pub(super) fn restart(&mut self) {
        *self = Reorder {
            repair: std::mem::take(&mut self.repair),
            ..Reorder::default()
        };
    }

    /// A packet has come so many PSNs too early, at least 1. False if it is there already, or there is no room.
    pub(super) fn keep(
        &mut self,
        now: u64,
        ahead: u64,
        packet: &RcPacket<'_>,
        config: &RcConfig,
    ) -> bool {
        let at = self.expected + ahead;
        if ahead >= u64::from(config.window) || self.early.contains_key(&at) {
            return false;
        }
        let early = Early {
            headers: packet.headers,
            payload: packet.payload.to_vec(),
        };
        self.early.insert(at, early);
        self.came(now, at);
        true
    }

    /// The expected packet has been taken.
    pub(super) fn taken(&mut self, now: u64) {
        self.came(now, self.expected);
        self.expected += 1;
    }

    /// So many packets have been taken, each when it was expected; nothing is missing.
    pub(super) fn all_taken(&mut self, count: u64) {
        self.expected += count;
        self.newest = self.newest.max(self.expected);
    }

    /// Whether nothing came early, and nothing is missing.
    pub(super) fn is_empty(&self) -> bool {
        self.early.is_empty() && self.missing.is_empty()
    }

    /// The expected packet, if it came early: it waits no longer.
    pub(super) fn next_early(&mut self) -> Option<Early> {
        self.early.remove(&self.expected)
    }

    /// The expected packet came, and could not be taken; the requester was asked to send it again in so many nanoseconds.
    pub(super) fn refused(&mut self, now: u64, delay: u64, config: &RcConfig) {
        self.newest = self.newest.max(self.expected + 1);
        let due = now + delay + self.repair.wait(1, config);
        let refused = Missing {
            reports: 0,
            reported: now,
            due,
        };
        self.missing.insert(self.expected, refused);
    }

    /// What is to be reported: how far it is behind the expected packet, and how often it has been reported with this time.
    pub(super) fn reports(&mut self, now: u64, config: &RcConfig) -> Vec<(u64, u8)> {
        let due = self.missing.iter_mut().filter(|(_, m)| m.due <= now);
        let repair = &self.repair;
        let expected = self.expected;
        due.map(|(at, missing)| {
            missing.reports += 1;
            missing.reported = now;
            missing.due = match missing.reports {
                MAX_REPORTS => u64::MAX,
                reports => now + repair.wait(reports, config),
            };
            (at - expected, missing.reports)
        })
        .collect()
    }

    /// When there is something to report next.
    pub(super) fn next_report(&self) -> Option<u64> {
        let due = self.missing.values().map(|missing| missing.due);
        due.min().filter(|&due| due != u64::MAX)
    }

    /// A packet has come: those that it has overtaken are missing.
    fn came(&mut self, now: u64, at: u64) {
        if let Some(missing) = self.missing.remove(&at) {
            // Of several reports nobody knows which one was answered (Karn's rule).
            if missing.reports == 1 {
                self.repair.took(now - missing.reported);
            }
        }
        for overtaken in self.newest.max(self.expected)..at {
            let missing = Missing {
                reports: 0,
                reported: now,
                due: now,
            };
            self.missing.insert(overtaken, missing);
        }
        self.newest = self.newest.max(at + 1);
    }
}

/// How long it takes from a report to the packet: as RFC 6298 estimates round trips, in nanoseconds.
#[derive(Default)]
struct RepairTime {
    smoothed: Option<u64>,
    deviation: u64,
}

impl RepairTime {
    fn took(&mut self, time: u64) {
        match &mut self.smoothed {
            None => {
                self.smoothed = Some(time);
                self.deviation = time / 2;
            }
            Some(smoothed) => {
                self.deviation = self.deviation - self.deviation / 4 + smoothed.abs_diff(time) / 4;
                *smoothed = *smoothed - *smoothed / 8 + time / 8;
            }
        }
    }

    /// How long to wait for the packet after that many reports: twice as long after each that was in vain, but for the first ones.
    fn wait(&self, reports: u8, config: &RcConfig) -> u64 {
        let longest = config.ack_timeout.ns().unwrap_or(UNKNOWN_REPAIR);
        let first = match self.smoothed {
            None => longest / 4,
            // Packets that are sent again one after the other take longer, one by one.
            Some(smoothed) => smoothed + (4 * self.deviation).max(smoothed / 4),
        };
        let doublings = u32::from(reports.saturating_sub(PATIENT_REPORTS)).min(16);
        first.saturating_mul(1 << doublings).min(longest)
    }
}
