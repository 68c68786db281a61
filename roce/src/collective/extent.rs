//! The range of slices that a member holds before and after a collective.
//!
//! Terms: the data is cut into *slices*, each of which is one message. The *root* has rank 0.

use std::ops::Range;

use super::kind::Collective;
use super::pieces;
use super::plan::Shape;
use super::spec::TransferSpec;

impl TransferSpec {
    /// The slices (messages) that this member holds before the start; empty at a member that only receives. With
    /// several sources, [`TransferSpec::slices_of`] applies instead.
    pub(super) fn own_slices(&self) -> Range<u32> {
        match self.collective {
            Collective::Broadcast | Collective::Scatter if self.is_root() => 0..self.slices,
            Collective::Allgather => self.piece_slices(),
            Collective::Broadcast | Collective::Scatter | Collective::Barrier => 0..0,
        }
    }

    /// The slices (messages) that this member holds at the end; empty in a barrier, which has only signals.
    pub(super) fn final_slices(&self) -> Range<u32> {
        match self.collective {
            Collective::Broadcast | Collective::Allgather => 0..self.slices,
            Collective::Scatter if self.is_root() => 0..self.slices,
            Collective::Scatter => self.piece_slices(),
            Collective::Barrier => 0..0,
        }
    }

    /// Offset and length in bytes of the data that this member holds at the end.
    pub fn final_bytes(&self) -> (u64, u64) {
        self.bytes_of(self.final_slices())
    }

    /// Offset and length in bytes of the data that this member holds before the start.
    pub fn own_bytes(&self) -> (u64, u64) {
        self.bytes_of(self.own_slices())
    }

    fn bytes_of(&self, slices: Range<u32>) -> (u64, u64) {
        let (offset, _) = self.slice(slices.start);
        let len = slices.map(|slice| self.slice(slice).1).sum();
        (offset, len)
    }

    fn piece_slices(&self) -> Range<u32> {
        let shape = Shape::new(self.members.len() as u32, self.slices);
        pieces::slices(shape, self.rank..self.rank + 1)
    }
}
