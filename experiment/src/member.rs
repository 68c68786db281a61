//! What happens at the members of a transfer.

use alfirk_roce::collective::Digest;
use alfirk_roce::registration::LeaderEvent;

/// One of the transfers that the hosts of a fabric take part in at a time; all its members know it by the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u32);

impl TransferId {
    /// The one that there is where there is but one.
    pub const MAIN: TransferId = TransferId(0);
}

/// What a member of a transfer reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberEvent {
    /// Every connection of this member is up.
    Ready,
    /// At a receiver: all data is there. At the root: everything it sent is acknowledged.
    Done { sha256: Digest, at: u64 },
    /// Where members take turns: this member holds a part, and if it is its source, everybody does.
    PartDone { part: u32, at: u64 },
    /// This member is done, and everything that it passed on is acknowledged, too.
    Finished,
    /// The queue pairs of the transfer's leg are gone, and this member holds so many slices from the first one on, and those `beyond`.
    Left { held: u32, beyond: Vec<u32> },
    /// The transfer has ended without success at this member.
    Failed { why: String },
    /// News of the group that this host leads, if it was registered in band.
    Group(LeaderEvent),
}
