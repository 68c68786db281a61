//! The collective operations: broadcast, scatter, allgather and barrier.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A collective operation, as defined by MPI.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Collective {
    /// The root has the message, then all members
    #[default]
    Broadcast,
    /// The root has the message, then each member its piece
    Scatter,
    /// Each member has its piece, then all have the message
    Allgather,
    /// There is no message; no member is done before all have begun
    Barrier,
}

impl Collective {
    /// All collectives, in the order of their declaration.
    pub const ALL: [Collective; 4] = [
        Collective::Broadcast,
        Collective::Scatter,
        Collective::Allgather,
        Collective::Barrier,
    ];

    /// Name as in MPI, in lower case: `broadcast`.
    pub const fn name(self) -> &'static str {
        match self {
            Collective::Broadcast => "broadcast",
            Collective::Scatter => "scatter",
            Collective::Allgather => "allgather",
            Collective::Barrier => "barrier",
        }
    }

    /// Whether every member contributes: data of its own, or its entry into a barrier.
    pub const fn begins_everywhere(self) -> bool {
        matches!(self, Collective::Allgather | Collective::Barrier)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Error: a text that is not the name of a collective.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown collective `{0}`: expected one of broadcast, scatter, allgather, barrier")]
pub struct UnknownCollective(pub String);

impl FromStr for Collective {
    type Err = UnknownCollective;

    fn from_str(text: &str) -> Result<Collective, UnknownCollective> {
        let mut all = Collective::ALL.into_iter();
        all.find(|collective| collective.name() == text)
            .ok_or_else(|| UnknownCollective(text.to_owned()))
    }
}
