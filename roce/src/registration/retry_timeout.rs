//! ACK timeout and retries of a group's queue pairs: how soon they give up, and how soon the fabric must detect a
//! failed member.
//!
//! A queue pair retransmits after its local ACK timeout, 4.096 µs times 2^`exponent`. It gives up after `retry_cnt`
//! retries without progress (IBTA vol. 1, 9.7.6.1.3). That is after `retry_cnt + 1` timeouts, each of which may take up
//! to four times as long. On RDMA cards a `retry_cnt` of 7 means seven; for Linux rdma_rxe it means endless.
//!
//! When the queue pair of a group's source gives up, the group ends. So a failed member must be removed before. The
//! intervals are shares of `limit`, the shortest time until a queue pair may give up:
//!
//! ```text
//!   limit / 8    the source's software reports that nothing is acknowledged      at most 1 s
//!   limit / 4    a member that has made no progress since counts as failed       at most `dead_after`, 3 s; at least 50 ms
//!   1/8 of that  twice: the interval at which the group is read
//!   ----------
//!   7/16 limit   and the rest up to half of it for the change of the group, which takes some round trips of the controller
//! ```
//!
//! A member that pauses for longer than `limit / 4` while others wait for it counts as failed. For members with longer
//! pauses, choose a longer ACK timeout. If the fabric waited longer, the queue pairs would give up.

use serde::{Deserialize, Serialize};

use crate::rc::{AckTimeout, RcConfig};

/// Longest time until a source reports that nothing is acknowledged, in nanoseconds.
pub const MAX_STALL_NS: u64 = 1_000_000_000;
/// Shortest time until the fabric considers a member failed, in nanoseconds. In this time, the controller can read the
/// registers of all switches of the group's tree a few times.
pub const MIN_DEAD_AFTER_NS: u64 = 50_000_000;

/// ACK timeout and retry count of a group's queue pairs, as verbs attributes. They determine how long a queue pair
/// retransmits before it gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RetryTimeout {
    /// Exponent of the ACK timeout, 1 to 31: 4.096 µs times 2^`exponent`. 0: no timeout, or unknown.
    exponent: u8,
    /// Number of retries before the queue pair gives up, 0 to 7.
    retry_cnt: u8,
}

impl RetryTimeout {
    /// Value for queue pairs that never give up, or whose settings are unknown.
    pub const UNKNOWN: RetryTimeout = RetryTimeout {
        exponent: 0,
        retry_cnt: 0,
    };

    /// Creates the value for queue pairs with this ACK timeout and `retry_cnt`, 0 to 7.
    pub const fn new(timeout: AckTimeout, retry_cnt: u8) -> RetryTimeout {
        RetryTimeout {
            exponent: timeout.exponent(),
            retry_cnt: retry_cnt & 7,
        }
    }

    /// Creates the value for queue pairs with the settings `config`, converted to verbs attributes as an RDMA card has
    /// them.
    pub const fn of_card(config: &RcConfig) -> RetryTimeout {
        RetryTimeout::new(config.ack_timeout, config.retries.attribute())
    }

    /// Encoding in the flags of a [`crate::wire::mrp::Kind::Register`]: the exponent in the upper five bits, the retry
    /// count in the lower three.
    pub const fn bits(self) -> u8 {
        self.exponent << 3 | self.retry_cnt
    }

    /// Decodes [`RetryTimeout::bits`].
    pub const fn from_bits(bits: u8) -> RetryTimeout {
        RetryTimeout {
            exponent: bits >> 3,
            retry_cnt: bits & 7,
        }
    }

    /// Shortest time until a queue pair with these settings may give up, in nanoseconds; `None` if never or unknown.
    pub const fn shortest_ns(self) -> Option<u64> {
        match AckTimeout::new(self.exponent).ns() {
            Some(timeout) => Some(timeout * (self.retry_cnt as u64 + 1)),
            None => None,
        }
    }

    /// Longest time until a queue pair with these settings gives up, in nanoseconds; `None` if never or unknown. The
    /// specification allows each timeout to take four times as long.
    pub const fn longest_ns(self) -> Option<u64> {
        match self.shortest_ns() {
            Some(limit) => Some(4 * limit),
            None => None,
        }
    }

    /// Nanoseconds without an acknowledgement after which the source reports to the fabric that its group makes no
    /// progress.
    pub fn stall_ns(self) -> u64 {
        self.shortest_ns()
            .map_or(MAX_STALL_NS, |limit| (limit / 8).min(MAX_STALL_NS))
    }

    /// Nanoseconds without progress after which the fabric considers a member failed. `default_ns`: the fabric's default,
    /// which is the upper limit.
    pub fn dead_after_ns(self, default_ns: u64) -> u64 {
        let Some(limit) = self.shortest_ns() else {
            return default_ns;
        };
        (limit / 4).max(MIN_DEAD_AFTER_NS).min(default_ns)
    }

    /// Longest time in nanoseconds from the last acknowledgement until a failed member is detected. `default_ns`: the
    /// fabric's default of the time until a member counts as failed.
    pub fn detection_ns(self, default_ns: u64) -> u64 {
        let dead_after = self.dead_after_ns(default_ns);
        self.stall_ns() + dead_after + 2 * (dead_after / 8)
    }

    /// Whether a failed member is detected within half of the time until queue pairs give up. `default_ns`: see
    /// [`RetryTimeout::dead_after_ns`].
    pub fn detects_in_time(self, default_ns: u64) -> bool {
        let half = self.shortest_ns().map(|limit| limit / 2);
        half.is_none_or(|half| self.detection_ns(default_ns) <= half)
    }

    /// Shortest ACK timeout with which, for this number of retries, failed members are detected in time, and a member
    /// may pause for `pause` nanoseconds. `default_ns`: see [`RetryTimeout::dead_after_ns`].
    pub fn timeout_for(self, default_ns: u64, pause: u64) -> AckTimeout {
        let fits = |exponent: &u8| {
            let retry_timeout = RetryTimeout {
                exponent: *exponent,
                ..self
            };
            retry_timeout.detects_in_time(default_ns)
                && retry_timeout.dead_after_ns(default_ns) >= pause.min(default_ns)
        };
        AckTimeout::new((1..31).find(fits).unwrap_or(31))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT_DEAD_AFTER_NS: u64 = 3_000_000_000;

    #[test]
    fn failures_are_detected_before_queue_pairs_with_long_enough_timeouts_give_up() {
        for exponent in 1..=31 {
            for retry_cnt in 0..=7 {
                let retry_timeout = RetryTimeout::new(AckTimeout::new(exponent), retry_cnt);
                assert_eq!(RetryTimeout::from_bits(retry_timeout.bits()), retry_timeout);
                let limit = retry_timeout.shortest_ns().unwrap();
                // 50 ms are a quarter of the shortest limit that allows the fabric to detect failures in time.
                let is_long = limit >= 4 * MIN_DEAD_AFTER_NS;
                if is_long {
                    assert!(
                        retry_timeout.detects_in_time(DEFAULT_DEAD_AFTER_NS),
                        "{retry_timeout:?}"
                    );
                    assert!(retry_timeout.detection_ns(DEFAULT_DEAD_AFTER_NS) <= limit / 2);
                    // A sixteenth is left for the change of the group.
                    assert!(
                        limit / 2 - retry_timeout.detection_ns(DEFAULT_DEAD_AFTER_NS)
                            >= limit / 16 - 2
                    );
                }
                let timeout = retry_timeout.timeout_for(DEFAULT_DEAD_AFTER_NS, 0);
                assert!(
                    RetryTimeout::new(timeout, retry_cnt).detects_in_time(DEFAULT_DEAD_AFTER_NS)
                );
            }
        }
    }

    #[test]
    fn a_failed_member_is_detected_before_a_card_with_134_ms_and_7_retries_gives_up() {
        let card = RetryTimeout::new(AckTimeout::new(15), 7);
        assert_eq!(card.shortest_ns(), Some(1_073_741_824));
        assert_eq!(card.longest_ns(), Some(4_294_967_296));
        assert_eq!(card.stall_ns(), 134_217_728);
        assert_eq!(card.dead_after_ns(DEFAULT_DEAD_AFTER_NS), 268_435_456);
        assert_eq!(card.detection_ns(DEFAULT_DEAD_AFTER_NS), 469_762_048);
        // With the fabric's default times, the card would have given up long before.
        assert!(
            RetryTimeout::UNKNOWN.detection_ns(DEFAULT_DEAD_AFTER_NS) > card.shortest_ns().unwrap()
        );
        // Members that pause for a second need a timeout of 537 ms.
        assert_eq!(
            card.timeout_for(DEFAULT_DEAD_AFTER_NS, 1_000_000_000),
            AckTimeout::new(17)
        );
    }

    #[test]
    fn a_timeout_too_short_for_failure_detection_is_detected() {
        let hasty = RetryTimeout::new(AckTimeout::new(10), 3);
        assert_eq!(hasty.shortest_ns(), Some(16_777_216));
        assert!(!hasty.detects_in_time(DEFAULT_DEAD_AFTER_NS));
        assert_eq!(
            hasty.timeout_for(DEFAULT_DEAD_AFTER_NS, 0),
            AckTimeout::new(14)
        );
        assert!(RetryTimeout::UNKNOWN.detects_in_time(DEFAULT_DEAD_AFTER_NS));
        assert_eq!(RetryTimeout::UNKNOWN.shortest_ns(), None);
    }
}
