//! The NAK that waits until all have what is before it, and the one that was sent to the source (`waiting_nak.p4`).

use alfirk_roce::wire::Syndrome;

use super::{Nak, Space};

/// See the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WaitingNak {
    /// The oldest one that waits, or the one that was sent to the source.
    pub nak: Option<Nak>,
    /// Was it sent to the source, which has not yet sent the PSN again?
    pub is_sent: bool,
}

impl WaitingNak {
    /// A NAK comes; `is_accepted` says that its path has not passed it. One that everyone has passed was overtaken on the way.
    ///
    /// Of several of one PSN any RNR NAK counts more than a sequence error, and the longest timer most: who resends at once
    /// would find the same receiver not ready.
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

    /// The NAK for the source, if all have just what is before it. From now on it counts as sent to the source.
    pub fn take_due(&mut self, space: Space, minimum: u32) -> Option<Nak> {
        let nak = self.nak.filter(|nak| nak.psn == space.next(minimum))?;
        (!std::mem::replace(&mut self.is_sent, true)).then_some(nak)
    }

    /// The controller sends the source this NAK; false if the source has it already.
    pub fn record_sent(&mut self, nak: Nak) -> bool {
        let is_known = self.is_sent && self.nak.is_some_and(|known| known.psn == nak.psn);
        (self.nak, self.is_sent) = (Some(nak), true);
        !is_known
    }

    /// The source sends: if a NAK asked it for this PSN, that NAK is done.
    pub fn sent(&mut self, psn: u32) {
        if self.is_sent && self.nak.is_some_and(|nak| nak.psn == psn) {
            self.clear();
        }
    }

    /// All have what a stale NAK says is missing.
    pub fn clear_stale(&mut self, space: Space, minimum: u32) {
        if self.nak.is_some_and(|nak| !space.lt(minimum, nak.psn)) {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = WaitingNak::default();
    }
}

/// How long a receiver asks the source to wait: nothing for a sequence error.
pub(crate) fn delay_ns(nak: Nak) -> u64 {
    match nak.syndrome.into() {
        Syndrome::RnrNak(timer) => timer.delay_ns(),
        _ => 0,
    }
}
