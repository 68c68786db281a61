//! Events that a transfer reports to its orchestrator.

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::error::TransferError;

/// An event that a transfer reports to its orchestrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferEvent {
    /// Every connection of this member is established.
    Ready,
    /// At a receiver: all data has arrived. At a source: all that it sent is acknowledged, too.
    Done {
        sha256: Digest,
        bytes: u64,
        /// Nanoseconds on the driver's clock.
        at: u64,
    },
    /// With several sources: this member holds a part; at the part's source, every member does.
    PartDone {
        part: u32,
        /// Nanoseconds on the driver's clock.
        at: u64,
    },
    /// The transfer has failed.
    Failed(TransferError),
}

/// The progress of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// At a receiver: bytes received. At the root: bytes of completed messages, over all edges.
    pub bytes: u64,
    /// The final value of `bytes`.
    pub total: u64,
}
