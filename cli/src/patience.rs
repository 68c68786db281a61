//! What the timeout of queue pairs means for a group of which a member dies, for people.

use std::time::Duration;

use alfirk_roce::rc::AckTimeout;
use alfirk_roce::registration::{Patience, MIN_DEAD_AFTER_NS};
use serde::Serialize;

/// The diagnosis of one setting; times in seconds.
#[derive(Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The local ACK timeout.
    ack_timeout: f64,
    retry_count: u8,
    /// The shortest time after which a queue pair gives up.
    gives_up_after: f64,
    /// The longest one.
    gives_up_at_last_after: f64,
    /// The longest time until a dead member is known.
    detected_after: f64,
    /// The longest pause of a member that is not taken for death.
    longest_pause: f64,
    /// Whether dead members are known before half the time that queue pairs take to give up.
    is_enough: bool,
    /// The shortest exponent with which that is so.
    least_exponent: u8,
}

impl Verdict {
    /// `None` for queue pairs without a timeout, which never give up.
    pub fn new(timeout: AckTimeout, retry_count: u8, dead_after: Duration) -> Option<Verdict> {
        let most = u64::try_from(dead_after.as_nanos()).unwrap_or(u64::MAX);
        let patience = Patience::new(timeout, retry_count);
        let seconds = |ns: u64| ns as f64 / 1e9;
        Some(Verdict {
            ack_timeout: seconds(timeout.ns()?),
            retry_count,
            gives_up_after: seconds(patience.limit_ns()?),
            gives_up_at_last_after: seconds(patience.longest_limit_ns()?),
            detected_after: seconds(patience.detection_ns(most)),
            longest_pause: seconds(patience.dead_after_ns(most)),
            is_enough: patience.is_enough(most),
            least_exponent: patience.timeout_for(most, 0).exponent(),
        })
    }

    /// One or two sentences.
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
                "{gives_up}; a dead member of a group is known after {detected_after:.2} s, and one that pauses for {longest_pause:.2} s counts as dead: use a longer timeout (--ack-timeout) if members pause longer"
            ),
            false => format!(
                "{gives_up}, before a dead member of a group is known ({detected_after:.2} s; the fabric needs {:.2} s at least): use --ack-timeout {least_exponent} or more",
                MIN_DEAD_AFTER_NS as f64 / 1e9
            ),
        }
    }

    /// Whether nothing need be done.
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
    fn a_timeout_that_is_long_enough_is_called_so_and_says_how_long_members_may_pause() {
        assert_eq!(
            text(15, 7).unwrap(),
            "queue pairs with an ACK timeout of 0.134 s and 7 retries give up after 1.07 s to 4.29 s; a dead member of a group is known after 0.47 s, and one that pauses for 0.27 s counts as dead: use a longer timeout (--ack-timeout) if members pause longer"
        );
    }

    #[test]
    fn a_timeout_that_is_too_short_is_refused_with_one_that_would_do() {
        assert_eq!(
            text(10, 3).unwrap(),
            "queue pairs with an ACK timeout of 0.004 s and 3 retries give up after 0.02 s to 0.07 s, before a dead member of a group is known (0.06 s; the fabric needs 0.05 s at least): use --ack-timeout 14 or more"
        );
    }

    #[test]
    fn queue_pairs_without_a_timeout_never_give_up() {
        assert_eq!(text(0, 7), None);
    }
}
