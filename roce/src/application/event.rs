//! Events of the members of a transfer.
//!
//! A transfer sends the data of one job among its members. Several sources may each send a part of the data. Data is
//! divided into messages, the *slices*.

use crate::collective::Digest;
use crate::registration::LeaderEvent;

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
    /// All connections of the member are established.
    Ready,
    /// The member is done. A receiver has received all data; the root (the source) has got acknowledgements for all
    /// data.
    Done {
        /// SHA-256 of the member's data.
        sha256: Digest,
        /// Length of the member's data in bytes.
        bytes: u64,
        /// Time on the clock of the driver, in nanoseconds.
        at: u64,
    },
    /// The member has completed a part of the data, if sources change. A receiver holds the part; at the part's source,
    /// the event means that all members hold it.
    PartDone {
        /// Number of the part, from 0.
        part: u32,
        /// Time on the clock of the driver, in nanoseconds.
        at: u64,
    },
    /// The member is done, and all data that it relayed to others is acknowledged.
    Finished,
    /// The member has left a leg of the transfer (the part that one algorithm carries), and the leg's queue pairs are
    /// destroyed.
    Left {
        /// Number of contiguous slices that the member holds, from slice 0.
        held: u32,
        /// Numbers of the slices that the member holds beyond the first gap.
        beyond: Vec<u32>,
    },
    /// The transfer failed at this member.
    Failed {
        /// Cause of the failure.
        why: String,
    },
    /// An event of an in-band group that this host leads.
    Group(LeaderEvent),
}
