//! Edges: which members are connected in a collective.

use serde::{Deserialize, Serialize};

/// A directed connection of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EdgeId {
    /// Between two members.
    Pair { from: u32, to: u32 },
    /// From one member to all others, through the fabric.
    Group { root: u32 },
    /// The same by datagrams, which members acknowledge and repair among themselves.
    Datagrams { root: u32 },
}

impl EdgeId {
    pub(super) const fn is_datagrams(self) -> bool {
        matches!(self, EdgeId::Datagrams { .. })
    }
}
