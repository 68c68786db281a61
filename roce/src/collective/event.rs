//! What a transfer reports to orchestrators.

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::error::TransferError;

/// What a transfer reports to its orchestrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferEvent {
    /// Every connection of this member is up.
    Ready,
    /// At a receiver: all data is there. At a source: everything it sent is acknowledged, too.
    Done {
        sha256: Digest,
        bytes: u64,
        /// Nanoseconds on the driver's clock.
        at: u64,
    },
    /// Where members take turns: this member holds a part, and if it is its source, everybody does.
    PartDone {
        part: u32,
        /// Nanoseconds on the driver's clock.
        at: u64,
    },
    /// The transfer has ended without success.
    Failed(TransferError),
}

/// How far a transfer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// At a receiver: bytes received. At the root: bytes of completed messages, over all edges.
    pub bytes: u64,
    /// What `bytes` will be at the end.
    pub total: u64,
}
