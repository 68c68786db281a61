//! Edges: connections between the members of a collective.

use serde::{Deserialize, Serialize};

/// Identifies a directed edge of a collective (a connection or a group) by the ranks of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EdgeId {
    /// A connection between two members.
    Pair {
        /// Rank of the member that sends.
        from: u32,
        /// Rank of the member that receives.
        to: u32,
    },
    /// An edge from one member to all others, over a reliable multicast group of the fabric.
    Group {
        /// Rank of the member that sends.
        root: u32,
    },
    /// An edge from one member to all others by multicast datagrams. Members acknowledge these and repair losses among
    /// themselves.
    Datagrams {
        /// Rank of the member that multicasts the data.
        root: u32,
    },
}

impl EdgeId {
    pub(super) const fn is_group(self) -> bool {
        matches!(self, EdgeId::Group { .. })
    }

    pub(super) const fn is_datagrams(self) -> bool {
        matches!(self, EdgeId::Datagrams { .. })
    }
}
