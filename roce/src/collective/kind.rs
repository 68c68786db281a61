//! What a collective is to bring about.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::algorithm::Algorithm;
use super::pieces;
use super::plan::Shape;
use super::spec::TransferSpec;

/// Who has what at the beginning and at the end.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Collective {
    /// The root has all data, and then everybody has.
    #[default]
    Broadcast,
    /// The root has all data, and then each member has a piece of its own.
    Scatter,
    /// Each member has a piece of its own, and then everybody has all data.
    Allgather,
    /// There is no data; nobody is done before everybody has begun.
    Barrier,
}

impl Collective {
    pub const ALL: [Collective; 4] = [
        Collective::Broadcast,
        Collective::Scatter,
        Collective::Allgather,
        Collective::Barrier,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Collective::Broadcast => "broadcast",
            Collective::Scatter => "scatter",
            Collective::Allgather => "allgather",
            Collective::Barrier => "barrier",
        }
    }

    /// The algorithms that bring it about.
    pub fn algorithms(self) -> impl Iterator<Item = Algorithm> {
        let all = Algorithm::ALL.into_iter();
        all.filter(move |algorithm| algorithm.does(self))
    }

    /// Whether every member has something to begin with, if only its presence.
    pub const fn begins_everywhere(self) -> bool {
        matches!(self, Collective::Allgather | Collective::Barrier)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no collective has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown collective `{0}`: one of broadcast, scatter, allgather, barrier expected")]
pub struct UnknownCollective(pub String);

impl FromStr for Collective {
    type Err = UnknownCollective;

    fn from_str(text: &str) -> Result<Collective, UnknownCollective> {
        let mut all = Collective::ALL.into_iter();
        all.find(|collective| collective.name() == text)
            .ok_or_else(|| UnknownCollective(text.to_owned()))
    }
}

impl TransferSpec {
    /// The slices that this member has when it begins; nothing if it only takes from others. Where members take turns, the slices of
    /// each turn are the parts' business.
    pub(super) fn own_slices(&self) -> Range<u32> {
        match self.collective {
            Collective::Broadcast | Collective::Scatter if self.is_root() => 0..self.slices,
            Collective::Allgather => self.piece_slices(),
            Collective::Broadcast | Collective::Scatter | Collective::Barrier => 0..0,
        }
    }

    /// The slices that this member has at the end; those of a barrier's signs are not counted.
    pub(super) fn final_slices(&self) -> Range<u32> {
        match self.collective {
            Collective::Broadcast | Collective::Allgather => 0..self.slices,
            Collective::Scatter if self.is_root() => 0..self.slices,
            Collective::Scatter => self.piece_slices(),
            Collective::Barrier => 0..0,
        }
    }

    /// Offset and length in bytes of what this member has at the end.
    pub fn final_bytes(&self) -> (u64, u64) {
        self.bytes_of(self.final_slices())
    }

    /// Offset and length in bytes of what this member has when it begins.
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
