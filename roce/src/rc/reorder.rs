//! Reorder buffer of a responder with selective repeat: early packets, and the packets that are missing.
//!
//! IRN writes packets to memory as they arrive, because its headers carry the address. IBTA headers carry it only in
//! the first packet of a message, and switches depend on the format of a group's packets. So early packets wait here,
//! at most [`RcConfig::window`], and are processed in order. Errors are then found and reported in order, too.
//!
//! A *repair* is the arrival of a resent packet. A missing packet is reported once when the first packet after it
//! arrives, and again if no repair follows in time. A report or a retransmission may be lost, and a switch may have merged
//! the report with that of another
//! receiver. (IRN's receivers have no such timer: every early packet causes a NACK. In a group that would be one per
//! receiver and packet.)

use std::collections::BTreeMap;

use super::config::RcConfig;
use super::packet::{RcHeaders, RcPacket};
use crate::steady::StateVisitor;

/// Largest number of selective NAKs (loss reports) of one packet. After that, only the sender's timeouts resend it.
const MAX_REPORTS: u8 = 32;
/// Number of loss reports of one packet at equal intervals, before the interval doubles. With random losses, one failed
/// repair does not predict the next.
const EVENLY_SPACED_REPORTS: u8 = 3;
/// Longest time between two loss reports of one packet, in nanoseconds, if the ACK timeout is disabled.
const MAX_REPORT_INTERVAL_NS: u64 = 1_000_000;

/// A packet that arrived early and waits for those before it.
pub(super) struct EarlyPacket {
    headers: RcHeaders,
    payload: Vec<u8>,
}

impl EarlyPacket {
    pub(super) fn packet(&self) -> RcPacket<'_> {
        RcPacket {
            headers: self.headers,
            payload: &self.payload,
        }
    }
}

/// A packet that has not arrived, although later packets have.
struct MissingPacket {
    /// Number of selective NAKs (loss reports) sent for this packet.
    reports: u8,
    /// Time of the last loss report in nanoseconds; before the first report, the time at which the loss was detected.
    reported: u64,
    /// Time of the next loss report in nanoseconds.
    due: u64,
}

/// The reorder buffer of a responder. Packets have 64-bit numbers from an arbitrary start, so that numbers do not wrap.
#[derive(Default)]
pub(super) struct Reorder {
    /// Number of the packet that the responder expects next.
    expected: u64,
    /// Number of the newest packet received, plus one.
    newest: u64,
    early: BTreeMap<u64, EarlyPacket>,
    missing: BTreeMap<u64, MissingPacket>,
    repair: RepairTime,
}

impl Reorder {
    /// Clears the buffer, because the expected PSN has changed. Keeps the estimate of the repair time.
    pub(super) fn restart(&mut self) {
        *self = Reorder {
            repair: std::mem::take(&mut self.repair),
            ..Reorder::default()
        };
    }

    /// Visits the state of the buffer, which must be empty.
    pub(super) fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        let Reorder {
            expected,
            newest,
            early,
            missing,
            repair,
        } = self;
        if !early.is_empty() || !missing.is_empty() {
            visitor.unsupported();
        }
        *expected = visitor.number(*expected);
        *newest = visitor.number(*newest);
        // While nothing is missing, the estimate does not change.
        visitor.same(repair.deviation);
    }

    /// Stores a packet that is `ahead` PSNs early, at least 1. Returns false if it is a duplicate or exceeds the window.
    pub(super) fn store(
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
        let early = EarlyPacket {
            headers: packet.headers,
            payload: packet.payload.to_vec(),
        };
        self.early.insert(at, early);
        self.record_arrival(now, at);
        true
    }

    /// Records that the responder has accepted the expected packet.
    pub(super) fn accepted(&mut self, now: u64) {
        self.record_arrival(now, self.expected);
        self.expected += 1;
    }

    /// Records that the responder has accepted `count` packets in order, with nothing missing.
    pub(super) fn accepted_in_order(&mut self, count: u64) {
        self.expected += count;
        self.newest = self.newest.max(self.expected);
    }

    /// Whether there is neither an early nor a missing packet.
    pub(super) fn is_empty(&self) -> bool {
        self.early.is_empty() && self.missing.is_empty()
    }

    /// Removes and returns the expected packet, if it is in the buffer.
    pub(super) fn next_early(&mut self) -> Option<EarlyPacket> {
        self.early.remove(&self.expected)
    }

    /// Records that the expected packet was rejected with an RNR NAK; it will be resent after `delay` nanoseconds.
    pub(super) fn rejected(&mut self, now: u64, delay: u64, config: &RcConfig) {
        self.newest = self.newest.max(self.expected + 1);
        let due = now + delay + self.repair.wait(1, config);
        let refused = MissingPacket {
            reports: 0,
            reported: now,
            due,
        };
        self.missing.insert(self.expected, refused);
    }

    /// Returns the loss reports that are due, and counts them as sent. A report holds the distance of the missing
    /// packet from the expected one, in PSNs, and the number of reports of that packet so far.
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

    /// Time of the next loss report in nanoseconds; `None` if no packet will be reported.
    pub(super) fn next_report(&self) -> Option<u64> {
        let due = self.missing.values().map(|missing| missing.due);
        due.min().filter(|&due| due != u64::MAX)
    }

    /// Records the arrival of packet number `at`. Earlier packets that have not arrived become missing packets.
    fn record_arrival(&mut self, now: u64, at: u64) {
        if let Some(missing) = self.missing.remove(&at) {
            // After several reports it is unknown which one caused the repair (Karn's algorithm).
            if missing.reports == 1 {
                self.repair.record(now - missing.reported);
            }
        }
        for overtaken in self.newest.max(self.expected)..at {
            let missing = MissingPacket {
                reports: 0,
                reported: now,
                due: now,
            };
            self.missing.insert(overtaken, missing);
        }
        self.newest = self.newest.max(at + 1);
    }
}

/// Estimate of the time from a loss report to the arrival of the resent packet, in nanoseconds; smoothed as round trips
/// in RFC 6298.
#[derive(Default)]
struct RepairTime {
    smoothed: Option<u64>,
    deviation: u64,
}

impl RepairTime {
    fn record(&mut self, time: u64) {
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

    /// Nanoseconds to wait after loss report number `reports` of a packet, at most the ACK timeout. The time doubles
    /// after each failed report, except for the first ones.
    fn wait(&self, reports: u8, config: &RcConfig) -> u64 {
        let longest = config.ack_timeout.ns().unwrap_or(MAX_REPORT_INTERVAL_NS);
        let first = match self.smoothed {
            None => longest / 4,
            // Packets that are resent together arrive one after the other.
            Some(smoothed) => smoothed + (4 * self.deviation).max(smoothed / 4),
        };
        let doublings = u32::from(reports.saturating_sub(EVENLY_SPACED_REPORTS)).min(16);
        first.saturating_mul(1 << doublings).min(longest)
    }
}
