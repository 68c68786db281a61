//! Timed changes during a transfer: links that lose frames, and suspended applications.

use std::collections::VecDeque;

use alfirk_ctrl::topology::{HostIndex, LinkIndex};

/// A time interval in which a link loses frames.
#[derive(Debug, Clone, PartialEq)]
pub struct LossInterval {
    /// Index of the link in the topology.
    pub link: LinkIndex,
    /// Loss probability per frame and direction.
    pub loss: f64,
    /// Start in nanoseconds after the source's post.
    pub from: u64,
    /// End in nanoseconds after the source's post; `None` for a loss until the end of the transfer.
    pub until: Option<u64>,
}

/// A time interval in which a host's application is suspended, as by its operating system's scheduler (RDMC's paper,
/// section 4.5: scheduling delays). Its NIC continues.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspension {
    /// Index of the host whose application is suspended.
    pub host: HostIndex,
    /// Start in nanoseconds after the source's post.
    pub from: u64,
    /// End in nanoseconds after the source's post.
    pub until: u64,
}

/// A change during a transfer: of a link's loss, or of a host's application.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Change {
    /// Sets a link's loss probability; `None` restores the initial one.
    Loss(LinkIndex, Option<f64>),
    /// Suspends a host's application for this many nanoseconds.
    Suspend(HostIndex, u64),
}

/// The changes that a transfer has still to make, each with its time after the source's post.
#[derive(Debug)]
pub(super) struct Changes {
    begun_at: Option<u64>,
    /// Changes not made yet, ordered by time in nanoseconds after the source's post.
    pending: VecDeque<(u64, Change)>,
}

impl Changes {
    /// Creates the list of changes: for each outage its start and its end, for each suspension its start.
    pub(super) fn new(outages: &[LossInterval], suspensions: &[Suspension]) -> Changes {
        let losses = outages.iter().flat_map(|outage| {
            let ends = outage.until.map(|until| (until, None));
            let changes = [Some((outage.from, Some(outage.loss))), ends];
            let changes = changes.into_iter().flatten();
            changes.map(|(at, loss)| (at, Change::Loss(outage.link, loss)))
        });
        let suspensions = suspensions.iter().map(|suspension| {
            let lasts = suspension.until.saturating_sub(suspension.from);
            (suspension.from, Change::Suspend(suspension.host, lasts))
        });
        let mut pending: Vec<_> = losses.chain(suspensions).collect();
        // At equal times, an end precedes a start.
        pending.sort_by_key(|(at, change)| (*at, !matches!(change, Change::Loss(_, None))));
        Changes {
            begun_at: None,
            pending: pending.into(),
        }
    }

    /// Sets the time origin: the source has posted its message at `now`.
    pub(super) fn begin(&mut self, now: u64) {
        self.begun_at.get_or_insert(now);
    }

    /// Time of the next change in nanoseconds; `None` before the source's post, or if no change is pending.
    pub(super) fn next(&self) -> Option<u64> {
        let (at, _) = self.pending.front()?;
        Some(self.begun_at?.saturating_add(*at))
    }

    /// Removes and returns the next change if its time is at or before `now`; `None` if no change is due.
    pub(super) fn take_due(&mut self, now: u64) -> Option<Change> {
        self.next().filter(|at| *at <= now)?;
        self.pending.pop_front().map(|(_, change)| change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_due_in_order_after_the_post() {
        let outage = |link, from, until| LossInterval {
            link: LinkIndex(link),
            loss: 0.5,
            from,
            until,
        };
        let suspension = Suspension {
            host: HostIndex(3),
            from: 15,
            until: 40,
        };
        let mut changes = Changes::new(
            &[outage(1, 20, None), outage(0, 10, Some(20))],
            &[suspension],
        );
        assert_eq!((changes.next(), changes.take_due(u64::MAX)), (None, None));
        changes.begin(100);
        assert_eq!(changes.take_due(109), None);
        let due: Vec<_> = std::iter::from_fn(|| changes.take_due(120)).collect();
        let (zero, one) = (LinkIndex(0), LinkIndex(1));
        let expected = [
            Change::Loss(zero, Some(0.5)),
            Change::Suspend(HostIndex(3), 25),
            Change::Loss(zero, None),
            Change::Loss(one, Some(0.5)),
        ];
        assert_eq!(due, expected);
        assert_eq!(changes.next(), None);
    }
}
