//! Checks whether queue pairs retry long enough for a failed group member to be detected, and reports that to users.

use std::time::Duration;

use alfirk_roce::rc::AckTimeout;
use alfirk_roce::registration::{RetryTimeout, MIN_DEAD_AFTER_NS};
use serde::Serialize;

/// Assessment of an ACK timeout and a retry count. All times are in seconds.
#[derive(Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The local ACK timeout.
    ack_timeout: f64,
    retry_count: u8,
    /// Shortest time without an ACK after which a queue pair fails.
    gives_up_after: f64,
    /// Longest time without an ACK after which a queue pair fails.
    gives_up_at_last_after: f64,
    /// Longest time until a failed member is detected.
    detected_after: f64,
    /// Longest time that a member can pause without being treated as failed.
    longest_pause: f64,
    /// Whether failed members are detected within half of `gives_up_after`.
    is_enough: bool,
    /// Smallest exponent of the ACK timeout for which `is_enough` is true.
    least_exponent: u8,
}

impl Verdict {
    /// Assesses the setting; `None` for queue pairs without a timeout, which never fail. `dead_after`: time without a
    /// reply after which the controller removes a member.
    pub fn new(timeout: AckTimeout, retry_count: u8, dead_after: Duration) -> Option<Verdict> {
        let most = u64::try_from(dead_after.as_nanos()).unwrap_or(u64::MAX);
        let retry_timeout = RetryTimeout::new(timeout, retry_count);
        let seconds = |ns: u64| ns as f64 / 1e9;
        Some(Verdict {
            ack_timeout: seconds(timeout.ns()?),
            retry_count,
            gives_up_after: seconds(retry_timeout.shortest_ns()?),
            gives_up_at_last_after: seconds(retry_timeout.longest_ns()?),
            detected_after: seconds(retry_timeout.detection_ns(most)),
            longest_pause: seconds(retry_timeout.dead_after_ns(most)),
            is_enough: retry_timeout.detects_in_time(most),
            least_exponent: retry_timeout.timeout_for(most, 0).exponent(),
        })
    }

    /// The assessment as a message for users.
    pub fn text(&self) -> String {
        let Verdict {
            ack_timeout,
            retry_count,
            gives_up_after,
            gives_up_at_last_after,
            detected_after,
            longest_pause,
            is_enough,
            least_exponent,
        } = self;
        let gives_up = format!(
            "queue pairs with an ACK timeout of {ack_timeout:.3} s and {retry_count} retries give up after {gives_up_after:.2} s to {gives_up_at_last_after:.2} s"
        );
        match is_enough {
            true => format!(
                "{gives_up}; a failed member of a group is detected after {detected_after:.2} s, and a pause of {longest_pause:.2} s counts as a failure: use a longer timeout (--ack-timeout) if members pause longer"
            ),
            false => format!(
                "{gives_up}, before a failed member of a group is detected ({detected_after:.2} s; the fabric needs {:.2} s at least): use --ack-timeout {least_exponent} or more",
                MIN_DEAD_AFTER_NS as f64 / 1e9
            ),
        }
    }

    /// Whether failed members are detected in time, so that the setting needs no change.
    pub fn is_enough(&self) -> bool {
        self.is_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(exponent: u8, retry_count: u8) -> Option<String> {
        let dead_after = Duration::from_secs(3);
        let verdict = Verdict::new(AckTimeout::new(exponent), retry_count, dead_after);
        verdict.map(|verdict| verdict.text())
    }

    #[test]
    fn long_enough_timeout_reports_the_longest_pause() {
        assert_eq!(
            text(15, 7).unwrap(),
            "queue pairs with an ACK timeout of 0.134 s and 7 retries give up after 1.07 s to 4.29 s; a failed member of a group is detected after 0.47 s, and a pause of 0.27 s counts as a failure: use a longer timeout (--ack-timeout) if members pause longer"
        );
    }

    #[test]
    fn too_short_timeout_names_a_sufficient_one() {
        assert_eq!(
            text(10, 3).unwrap(),
            "queue pairs with an ACK timeout of 0.004 s and 3 retries give up after 0.02 s to 0.07 s, before a failed member of a group is detected (0.06 s; the fabric needs 0.05 s at least): use --ack-timeout 14 or more"
        );
    }

    #[test]
    fn queue_pairs_without_a_timeout_never_give_up() {
        assert_eq!(text(0, 7), None);
    }
}
