//! Each loss is reported to the source once, whoever reports it to the switch (`selective_nak.p4`).
//!
//! A selective NAK acknowledges nothing, so it waits for nobody. Of those of one packet the first passes, and then, until the
//! packet comes by again, only one whose receiver has repeated it more often than reports have passed: then those that passed
//! had no effect. Each counts as the next one, whatever its count, so that one receiver's count of 255 does not silence others.

use super::Flaw;

/// A loss that was reported to the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Loss {
    /// The packet.
    pub psn: u32,
    /// How many reports of it have passed; 0 if there is no loss here.
    pub reports: u8,
}

/// The losses that were reported to the source. Each packet has one slot, which it shares with others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SelectiveNak(Vec<Loss>);

impl SelectiveNak {
    /// `slots` is a power of two.
    pub(crate) fn new(slots: usize) -> SelectiveNak {
        SelectiveNak(vec![Loss::default(); slots])
    }

    /// With what the slots have.
    pub fn of(slots: Vec<Loss>) -> SelectiveNak {
        SelectiveNak(slots)
    }

    /// What the slots have.
    pub fn slots(&self) -> &[Loss] {
        &self.0
    }

    /// A receiver reports a loss for the `reports`th time. Gives the count with which it goes to the source, if it does.
    pub(crate) fn passes(&mut self, flaw: Flaw, psn: u32, reports: u8) -> Option<u8> {
        let known = self.slot(psn);
        let passed = match known.psn == psn {
            true => known.reports,
            false => 0,
        };
        let reports = match flaw {
            _ if reports <= passed => return None,
            Flaw::AnyCount => reports,
            _ => passed + 1,
        };
        *known = Loss { psn, reports };
        Some(reports)
    }

    /// The source sends: it may be lost again.
    pub(crate) fn sent(&mut self, psn: u32) {
        let known = self.slot(psn);
        if known.psn == psn {
            *known = Loss::default();
        }
    }

    fn slot(&mut self, psn: u32) -> &mut Loss {
        let slots = self.0.len();
        &mut self.0[psn as usize & (slots - 1)]
    }
}
