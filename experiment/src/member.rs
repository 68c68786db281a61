//! Events of the members of a transfer.

use alfirk_roce::collective::Digest;
use alfirk_roce::registration::LeaderEvent;

/// Number of a transfer, the same at all its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u32);

impl TransferId {
    /// The transfer of a fabric that has only one.
    pub const MAIN: TransferId = TransferId(0);
}

/// An event of a member of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberEvent {
    /// All connections of this member are established.
    Ready,
    /// At a receiver: all data has been received. At the root: all data that it sent is acknowledged.
    Done { sha256: Digest, at: u64 },
    /// With changing sources: this member holds a part; at the part's source, all members hold it.
    PartDone { part: u32, at: u64 },
    /// This member is done, and all data that it relayed is acknowledged, too.
    Finished,
    /// The queue pairs of the leg are gone. The member holds `held` contiguous slices from the first on, and the slices `beyond`.
    Left { held: u32, beyond: Vec<u32> },
    /// The transfer failed at this member.
    Failed { why: String },
    /// An event of the group that this host leads, if it was registered in band.
    Group(LeaderEvent),
}
