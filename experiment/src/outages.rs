//! Links that lose frames for a while.

use std::collections::VecDeque;

use alfirk_ctrl::topology::LinkIndex;

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

/// What is to be set when.
#[derive(Debug)]
pub(super) struct Outages {
    begun_at: Option<u64>,
    /// By time: what a link is to lose; as at the start if `None`.
    to_come: VecDeque<(u64, LinkIndex, Option<f64>)>,
}

impl Outages {
    pub(super) fn new(outages: &[Outage]) -> Outages {
        let changes = outages.iter().flat_map(|outage| {
            let ends = outage.until.map(|until| (until, outage.link, None));
            [Some((outage.from, outage.link, Some(outage.loss))), ends]
        });
        let mut to_come: Vec<_> = changes.flatten().collect();
        // What ends makes room for what begins at the same time.
        to_come.sort_by_key(|(at, _, loss)| (*at, loss.is_some()));
        Outages {
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
        let (at, _, _) = self.to_come.front()?;
        Some(self.begun_at?.saturating_add(*at))
    }

    pub(super) fn take_due(&mut self, now: u64) -> Option<(LinkIndex, Option<f64>)> {
        self.next().filter(|at| *at <= now)?;
        let (_, link, loss) = self.to_come.pop_front()?;
        Some((link, loss))
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
        let mut outages = Outages::new(&[outage(1, 20, None), outage(0, 10, Some(20))]);
        assert_eq!((outages.next(), outages.take_due(u64::MAX)), (None, None));
        outages.begin(100);
        assert_eq!(outages.take_due(109), None);
        let due: Vec<_> = std::iter::from_fn(|| outages.take_due(120)).collect();
        let (zero, one) = (LinkIndex(0), LinkIndex(1));
        assert_eq!(due, [(zero, Some(0.5)), (zero, None), (one, Some(0.5))]);
        assert_eq!(outages.next(), None);
    }
}
