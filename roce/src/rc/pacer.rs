//! Pacing of one queue pair at a constant rate ([`super::RcConfig::pace_bps`]).

use std::num::NonZeroU64;

use alfirk_packet_io::wire::serialisation_ps;

use crate::steady::StateVisitor;

/// Number of bytes on the wire that a sender polled late may send at once to catch up: two of the longest packets.
const BURST_BYTES: u64 = 8_400;

/// Rate limiter of one queue pair: computes the earliest time of the next packet.
#[derive(Debug, Clone)]
pub(super) struct Pacer {
    rate_bps: NonZeroU64,
    /// Earliest time of the next packet, in picoseconds. At 400 Gbit/s, rounding each packet to nanoseconds would cost
    /// one per cent of the rate.
    next_ps: u64,
}

impl Pacer {
    pub(super) fn new(rate_bps: NonZeroU64) -> Pacer {
        Pacer {
            rate_bps,
            next_ps: 0,
        }
    }

    /// Visits the time of the next packet.
    pub(super) fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        self.next_ps = visitor.time_ps(self.next_ps);
    }

    /// Records a packet of `bytes` on the wire (preamble and gap included) sent at `now` nanoseconds. Returns the earliest time of the
    /// next packet in nanoseconds, if that is later than `now`.
    pub(super) fn sent(&mut self, now: u64, bytes: u64) -> Option<u64> {
        let earliest = now
            .saturating_mul(1_000)
            .saturating_sub(serialisation_ps(BURST_BYTES, self.rate_bps.get()));
        let begin = self.next_ps.max(earliest);
        self.next_ps = begin.saturating_add(serialisation_ps(bytes, self.rate_bps.get()));
        let next = self.next_ps.div_ceil(1_000);
        (next > now).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pacer(rate_bps: u64) -> Pacer {
        let mut pacer = Pacer::new(NonZeroU64::new(rate_bps).unwrap());
        // Uses up the burst.
        while pacer.sent(0, BURST_BYTES).is_none() {}
        pacer
    }

    #[test]
    fn packets_leave_at_the_rate() {
        let mut pacer = pacer(1_000_000_000);
        let start = pacer.sent(0, 0).unwrap();
        let mut now = start;
        for _ in 0..1_000 {
            now = pacer.sent(now, 1_250).unwrap();
        }
        assert_eq!(
            now - start,
            1_000 * 10_000,
            "1,250 bytes at 1 Gbit/s take 10 us"
        );
    }

    #[test]
    fn fractions_of_nanoseconds_are_not_lost() {
        let mut pacer = pacer(400_000_000_000);
        let start = pacer.sent(0, 0).unwrap();
        let mut now = start;
        for _ in 0..1_000 {
            now = pacer.sent(now, 130).unwrap();
        }
        assert!(
            now - start <= 2_601,
            "130 bytes take 2.6 ns: {}",
            now - start
        );
    }

    #[test]
    fn a_late_sender_catches_up_by_at_most_one_burst() {
        let mut pacer = pacer(1_000_000_000);
        let sent = (0..100).take_while(|_| pacer.sent(1_000_000_000, 4_200).is_none());
        assert_eq!(sent.count(), 2);
    }
}
