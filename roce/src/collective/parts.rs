//! Several sources: members of a group take turns to send parts of the data, on the same queue pairs.
//!
//! A part is a range of slices. Its source starts when every member holds the earlier parts. The previous source may
//! still lack acknowledgements then.
//!
//! Terms: the data is cut into *slices*, each of which is one message. The *root* has rank 0.

use std::ops::Range;

use super::edge::EdgeId;
use super::plan::{Flow, Plan, Shape};
use super::spec::{SpecError, TransferSpec};

impl TransferSpec {
    /// Whether the specification names sources, each of which sends a part of the data.
    pub fn has_several_sources(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Number of parts; 1 if the specification names no sources.
    pub fn parts(&self) -> u32 {
        self.sources.len().max(1) as u32
    }

    /// Rank of the member that sends part number `part` of the data.
    pub fn source_of(&self, part: u32) -> u32 {
        self.sources.get(part as usize).copied().unwrap_or(0)
    }

    /// Range of the slices in a part.
    pub fn slices_of(&self, part: u32) -> Range<u32> {
        let each = self.slices / self.parts();
        part * each..(part + 1) * each
    }

    /// Number of the part that contains slice (message) number `slice`.
    pub fn part_of(&self, slice: u32) -> u32 {
        slice / (self.slices / self.parts()).max(1)
    }

    /// Offset and length of part number `part` in the data, in bytes.
    pub fn part(&self, part: u32) -> (u64, u64) {
        let slices = self.slices_of(part);
        let (offset, _) = self.slice(slices.start);
        let len = slices.map(|slice| self.slice(slice).1).sum();
        (offset, len)
    }

    /// Whether this member is the source of at least one part.
    pub(super) fn is_source(&self) -> bool {
        (0..self.parts()).any(|part| self.source_of(part) == self.rank)
    }

    /// The plan of this member: what it sends as a source, and what it receives from other sources.
    pub(super) fn plan(&self) -> Plan {
        if !self.has_several_sources() {
            let shape = Shape {
                members: self.members.len() as u32,
                slices: self.slices,
                racks: &self.racks,
            };
            let plan = self.algorithm.plan_for(self.collective, shape, self.rank);
            return Plan {
                store_and_forward: plan.store_and_forward || self.store_and_forward,
                ..plan
            };
        }
        let own = |slice: &u32| self.source_of(self.part_of(*slice)) == self.rank;
        let (sent, received): (Vec<u32>, Vec<u32>) = (0..self.slices).partition(own);
        let flow = |slices: Vec<u32>| {
            let edge = EdgeId::Group { root: 0 };
            (!slices.is_empty()).then_some(Flow {
                slices,
                ..Flow::all(edge, 0, 0)
            })
        };
        Plan {
            incoming: flow(received).into_iter().collect(),
            outgoing: flow(sent).into_iter().collect(),
            ..Plan::default()
        }
    }

    pub(super) fn check_sources(&self) -> Result<(), SpecError> {
        if self.sources.is_empty() {
            return Ok(());
        }
        if !self.algorithm.needs_group() {
            return Err(SpecError::UnsupportedSources(self.algorithm));
        }
        let members = self.members.len();
        if let Some(&rank) = self.sources.iter().find(|r| **r as usize >= members) {
            return Err(SpecError::NoSuchRank { rank, members });
        }
        if let Some(pair) = self.sources.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SpecError::SameSourceTwice(pair[0]));
        }
        if self.slices % self.parts() != 0 {
            return Err(SpecError::UnevenParts {
                slices: self.slices,
                parts: self.parts(),
            });
        }
        Ok(())
    }
}
