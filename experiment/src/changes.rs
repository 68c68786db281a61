//! What changes for a while when the message is under way: links that lose frames, hosts that stand still.

use std::collections::VecDeque;

use alfirk_ctrl::topology::{HostIndex, LinkIndex};

/// A link loses frames for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Outage {
    pub link: LinkIndex,
    /// Probability per frame and direction.
    pub loss: f64,
    /// When it begins and ends, in nanoseconds after the source has posted the message. It does not end if `None`.
    pub from: u64,
    pub until: Option<u64>,
}

/// A host's application does nothing for a while, as when its machine runs something else (RDMC's paper, section 4.5: scheduling
/// delays). Its NIC goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspension {
    pub host: HostIndex,
    /// When it begins and ends, in nanoseconds after the source has posted the message.
    pub from: u64,
    pub until: u64,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Change {
    /// A link loses frames with this probability; as at the start if `None`.
    Loss(LinkIndex, Option<f64>),
    /// A host's application does nothing for so many nanoseconds.
    Suspend(HostIndex, u64),
}

/// What is to be done when.
#[derive(Debug)]
pub(super) struct Changes {
    begun_at: Option<u64>,
    /// By time.
    to_come: VecDeque<(u64, Change)>,
}

impl Changes {
    pub(super) fn new(outages: &[Outage], suspensions: &[Suspension]) -> Changes {
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
        let mut to_come: Vec<_> = losses.chain(suspensions).collect();
        // What ends makes room for what begins at the same time.
        to_come.sort_by_key(|(at, change)| (*at, !matches!(change, Change::Loss(_, None))));
        Changes {
            begun_at: None,
            to_come: to_come.into(),
        }
    }

    /// The source has posted its message.
    pub(super) fn begin(&mut self, now: u64) {
        self.begun_at.get_or_insert(now);
    }

    /// When the next change is due.
    pub(super) fn next(&self) -> Option<u64> {
        let (at, _) = self.to_come.front()?;
        Some(self.begun_at?.saturating_add(*at))
    }

    pub(super) fn take_due(&mut self, now: u64) -> Option<Change> {
        self.next().filter(|at| *at <= now)?;
        self.to_come.pop_front().map(|(_, change)| change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_in_order_after_the_post() {
        let outage = |link, from, until| Outage {
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
