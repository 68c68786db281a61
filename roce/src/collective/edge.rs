//! Edges: the connections between the members of a collective.

use serde::{Deserialize, Serialize};

/// Identifies a directed edge of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EdgeId {
    /// A connection between two members.
    Pair { from: u32, to: u32 },
    /// From one member to all others, through a group of the fabric.
    Group { root: u32 },
    /// From one member to all others by multicast datagrams, which members acknowledge and repair among themselves.
    Datagrams { root: u32 },
}

impl EdgeId {
    pub(super) const fn is_datagrams(self) -> bool {
        matches!(self, EdgeId::Datagrams { .. })
    }
}
