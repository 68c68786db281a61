//! Filter of selective NAKs (`selective_nak.p4`): each loss is reported to the source once, not once per receiver.
//! The *source* is the member of the group that sends at present.
//!
//! A selective NAK acknowledges nothing, so it does not wait for the minimum. The first report of a lost packet is
//! forwarded. Until the packet is resent, a further report is forwarded only if its receiver has reported the loss more
//! often than was forwarded. The earlier reports then had no effect. Each forwarded report adds one to the number
//! forwarded, whatever count it carries. So a faulty receiver with a count of 255 does not suppress the reports of
//! others.

use super::Flaw;

/// A lost packet, as reported to the source by selective NAKs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReportedLoss {
    /// PSN of the lost packet.
    pub psn: u32,
    /// Number of selective NAKs forwarded for this packet; 0 for an empty slot.
    pub reports: u8,
}

/// Losses that were reported to the source: a direct-mapped table, indexed by the lower bits of the PSN.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SelectiveNak(Vec<ReportedLoss>);

impl SelectiveNak {
    /// Creates an empty table; `slots` is a power of two.
    pub(crate) fn new(slots: usize) -> SelectiveNak {
        SelectiveNak(vec![ReportedLoss::default(); slots])
    }

    /// Creates a table from saved slots; their number is a power of two.
    pub fn of(slots: Vec<ReportedLoss>) -> SelectiveNak {
        SelectiveNak(slots)
    }

    /// All slots of the table, including empty ones.
    pub fn slots(&self) -> &[ReportedLoss] {
        &self.0
    }

    /// Filters a selective NAK. `reports`: how often its receiver has reported the loss of `psn`. Returns the report
    /// count to forward; `None` to drop the NAK.
    pub(crate) fn filter(&mut self, flaw: Flaw, psn: u32, reports: u8) -> Option<u8> {
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
        *known = ReportedLoss { psn, reports };
        Some(reports)
    }

    /// Removes the entry of a packet that the source has resent.
    pub(crate) fn clear(&mut self, psn: u32) {
        let known = self.slot(psn);
        if known.psn == psn {
            *known = ReportedLoss::default();
        }
    }

    fn slot(&mut self, psn: u32) -> &mut ReportedLoss {
        let slots = self.0.len();
        &mut self.0[psn as usize & (slots - 1)]
    }
}
