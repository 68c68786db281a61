//! What a collective is to bring about.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Who has what at the beginning and at the end.
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
    /// There is no message; nobody is done before everybody has begun
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
