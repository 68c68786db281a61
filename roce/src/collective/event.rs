//! Events that a transfer reports to its orchestrator, the program that directs all members, and its progress.
//!
//! A *source* is a member that sends data of its own. With several sources, each sends a *part* of the data in turn.

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::error::TransferError;

/// An event that a transfer reports to its orchestrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferEvent {
    /// Every connection of this member is established.
    Ready,
    /// At a receiver: all data has arrived. At a source: all data has arrived, and all that it sent is acknowledged.
    Done {
        /// SHA-256 of the data that this member holds at the end.
        sha256: Digest,
        /// Length in bytes of the data that this member holds at the end.
        bytes: u64,
        /// Time at which the member was done, in nanoseconds on the caller's clock.
        at: u64,
    },
    /// With several sources: this member holds all data of one part. At the part's source: every member holds it.
    PartDone {
        /// Number of the part of the data, from 0.
        part: u32,
        /// Time of the event, in nanoseconds on the caller's clock.
        at: u64,
    },
    /// The transfer has failed for this reason.
    Failed(TransferError),
}

/// Progress of a transfer at one member, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// At a receiver: bytes received. At the root: bytes of completed messages, over all edges.
    pub bytes: u64,
    /// Value of `bytes` when the transfer is complete.
    pub total: u64,
}
