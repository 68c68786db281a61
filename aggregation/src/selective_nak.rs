//! Filter of selective NAKs: each loss is reported to the source once, not once per receiver (`selective_nak.p4`).
//!
//! A selective NAK acknowledges nothing, so it does not wait for the minimum. The first one for a packet is forwarded. Until
//! the packet is resent, another is forwarded only if its receiver's report count exceeds the number of reports forwarded:
//! then the earlier ones had no effect. A forwarded report increments that number by one, so that a receiver that sends a
//! count of 255 does not suppress the reports of others.

use super::Flaw;

/// A loss that was reported to the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Loss {
    /// PSN of the lost packet.
    pub psn: u32,
    /// Number of reports forwarded; 0 for an empty slot.
    pub reports: u8,
}

/// Losses that were reported to the source: a direct-mapped table, indexed by the lower bits of the PSN.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SelectiveNak(Vec<Loss>);

impl SelectiveNak {
    /// Creates an empty table; `slots` is a power of two.
    pub(crate) fn new(slots: usize) -> SelectiveNak {
        SelectiveNak(vec![Loss::default(); slots])
    }

    /// Creates a table with these slots.
    pub fn of(slots: Vec<Loss>) -> SelectiveNak {
        SelectiveNak(slots)
    }

    /// All slots.
    pub fn slots(&self) -> &[Loss] {
        &self.0
    }

    /// Filters the `reports`-th report of a receiver. Returns the report count to forward; `None` to drop the NAK.
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

    /// Clears the loss of a packet that the source resends.
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
