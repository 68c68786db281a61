//! The NAK that waits until all receivers have the packets before it, or the one last sent to the source
//! (`waiting_nak.p4`).
//!
//! The *source* is the member of the group that sends at present. A *path* is a port of the group's tree on this
//! switch. The *minimum* is the newest PSN that all paths have acknowledged or sent.

use alfirk_roce::wire::Syndrome;

use super::{Nak, Space};

/// The pending NAK of a group, which waits until all receivers have the packets before it, or the NAK last sent to the
/// source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WaitingNak {
    /// The pending NAK with the oldest PSN, or the NAK last sent; `None` if there is neither.
    pub nak: Option<Nak>,
    /// Whether the NAK was sent to the source, which has not yet resent its PSN.
    pub is_sent: bool,
}

impl WaitingNak {
    /// Records a received NAK. `is_accepted`: whether the NAK's path has acknowledged no newer PSN. A NAK whose PSN all
    /// paths have was reordered in the network, and is ignored.
    ///
    /// Of several NAKs with the same PSN, the one with the longest delay is kept: an RNR NAK rather than a sequence
    /// error, and of RNR NAKs the longest timer. An earlier retransmission would get another RNR NAK.
    pub fn record(&mut self, space: Space, minimum: u32, nak: Nak, is_accepted: bool) {
        if !is_accepted || !space.lt(minimum, nak.psn) {
            return;
        }
        match self.nak {
            Some(known) if space.lt(known.psn, nak.psn) => {}
            Some(known) if known.psn == nak.psn => {
                if !self.is_sent && delay_ns(nak) > delay_ns(known) {
                    self.nak = Some(nak);
                }
            }
            _ => (self.nak, self.is_sent) = (Some(nak), false),
        }
    }

    /// Returns the pending NAK if its PSN is the one after `minimum`, and marks it as sent. `None` if it was sent before.
    pub fn take_due(&mut self, space: Space, minimum: u32) -> Option<Nak> {
        let nak = self.nak.filter(|nak| nak.psn == space.next(minimum))?;
        (!std::mem::replace(&mut self.is_sent, true)).then_some(nak)
    }

    /// Records a NAK that the controller sends to the source. Returns false if that NAK was sent before.
    pub fn record_sent(&mut self, nak: Nak) -> bool {
        let is_known = self.is_sent && self.nak.is_some_and(|known| known.psn == nak.psn);
        (self.nak, self.is_sent) = (Some(nak), true);
        !is_known
    }

    /// Clears the NAK when the source resends the missing packet `psn`: if it was sent to the source, it has had its effect,
    /// and if not, it would make the source go back once more for a packet that is on its way.
    pub fn clear_if_resent(&mut self, psn: u32) {
        if self.nak.is_some_and(|nak| nak.psn == psn) {
            self.clear();
        }
    }

    /// Clears the NAK if all paths have its PSN.
    pub fn clear_stale(&mut self, space: Space, minimum: u32) {
        if self.nak.is_some_and(|nak| !space.lt(minimum, nak.psn)) {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = WaitingNak::default();
    }
}

/// Delay that a NAK requests before the retransmission, in nanoseconds: 0 for a sequence error.
pub(crate) fn delay_ns(nak: Nak) -> u64 {
    match nak.syndrome.into() {
        Syndrome::RnrNak(timer) => timer.delay_ns(),
        _ => 0,
    }
}
