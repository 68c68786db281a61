//! Transfers by multicast datagrams ([`super::binomial_ack`]). They have one edge, the *datagram edge*, which leads from the
//! root to all other members. A *slice* is the part of the data in one message.

use super::binomial_ack::{DatagramSpec, LONGEST_SLICE};
use super::spec::{SpecError, TransferOp, TransferSpec};

impl TransferSpec {
    /// Rejects specifications with settings that transfers by multicast datagrams do not support.
    pub(super) fn check_datagrams(&self) -> Result<(), SpecError> {
        let algorithm = self.algorithm;
        if !algorithm.needs_datagrams() {
            return Ok(());
        }
        let refused = [
            (self.op != TransferOp::Send, "WRITE"),
            (self.receives.is_some(), "number of receives"),
            (
                self.ready.is_some(),
                "receivers that announce when they are ready",
            ),
            (self.announce, "first block that announces the size"),
        ];
        if let Some((_, setting)) = refused.into_iter().find(|(is_set, _)| *is_set) {
            return Err(SpecError::UnsupportedByDatagrams { algorithm, setting });
        }
        let bad = |spec: &DatagramSpec| !spec.group.is_multicast() || spec.qkey >> 31 != 0;
        if self.datagrams.as_ref().is_none_or(bad) {
            return Err(SpecError::MissingDatagramGroup(algorithm));
        }
        let longest = (0..self.slices.min(1))
            .map(|slice| self.slice(slice).1)
            .max();
        match longest {
            Some(len) if len > LONGEST_SLICE => Err(SpecError::LongDatagramSlice {
                algorithm,
                len,
                min_slices: algorithm.min_slices(self.size),
            }),
            _ => Ok(()),
        }
    }
}
