//! Failure detection: members from which another member receives nothing.
//!
//! A member that misses an acknowledgement, or whose connection to a member fails, reports that member to the manager until the
//! manager replies. The manager verifies every report: it probes the suspect, doubles its wait each time, and removes the suspect from
//! the list if no reply arrives. A manager that does not reply itself counts as failed after the same number of attempts.

use std::collections::BTreeMap;

/// Number of probes to a suspected member, or of reports to the manager, after which the side that has sent no reply
/// counts as failed.
const MAX_PROBES: u32 = 6;

#[derive(Debug)]
pub(super) struct Suspects {
    /// Nanoseconds until the first repetition of a probe or report.
    interval: u64,
    of: BTreeMap<u32, Suspect>,
}

#[derive(Debug)]
struct Suspect {
    at: u64,
    tries: u32,
}

/// Action that is due for a suspected member; holds its member number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SuspectAction {
    /// Probe the member (at the manager), or report it to the manager (at other members).
    Inquire(u32),
    /// No probe or report about the member got a reply: remove the member (at the manager), or report the manager as
    /// failed (at other members).
    GiveUp(u32),
}

impl Suspects {
    pub(super) fn new(interval: u64) -> Suspects {
        Suspects {
            interval,
            of: BTreeMap::new(),
        }
    }

    /// Adds a suspected member. The first probe or report is due at once.
    pub(super) fn add(&mut self, now: u64, number: u32) {
        let fresh = Suspect { at: now, tries: 0 };
        self.of.entry(number).or_insert(fresh);
    }

    /// Removes a suspect that has replied or is not in the list any more.
    pub(super) fn clear(&mut self, number: u32) {
        self.of.remove(&number);
    }

    pub(super) fn clear_all(&mut self) {
        self.of.clear();
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.of.values().map(|suspect| suspect.at).min()
    }

    /// Removes and returns the next action that is due at `now`.
    pub(super) fn take_due(&mut self, now: u64) -> Option<SuspectAction> {
        let mut suspects = self.of.iter_mut();
        let (&number, suspect) = suspects.find(|(_, suspect)| suspect.at <= now)?;
        if suspect.tries == MAX_PROBES {
            self.of.remove(&number);
            return Some(SuspectAction::GiveUp(number));
        }
        suspect.at = now + (self.interval << suspect.tries);
        suspect.tries += 1;
        Some(SuspectAction::Inquire(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspect_is_probed_at_growing_intervals_and_then_given_up() {
        let mut suspects = Suspects::new(10);
        suspects.add(100, 3);
        let mut inquiries = Vec::new();
        while let Some(at) = suspects.poll_timeout() {
            inquiries.push((at, suspects.take_due(at).unwrap()));
            assert_eq!(suspects.take_due(at), None);
            // A second report does not restart the probes.
            suspects.add(at, 3);
            if inquiries.last().unwrap().1 == SuspectAction::GiveUp(3) {
                break;
            }
        }
        let inquiry = SuspectAction::Inquire(3);
        let times = [100, 110, 130, 170, 250, 410].map(|at| (at, inquiry));
        assert_eq!(inquiries[..6], times);
        assert_eq!(inquiries[6..], [(730, SuspectAction::GiveUp(3))]);
    }

    #[test]
    fn a_suspect_that_replies_is_cleared() {
        let mut suspects = Suspects::new(10);
        suspects.add(0, 3);
        suspects.add(0, 4);
        suspects.clear(3);
        assert_eq!(suspects.take_due(0), Some(SuspectAction::Inquire(4)));
        suspects.clear_all();
        assert_eq!(suspects.poll_timeout(), None);
    }
}
