//! Errors of transfers.
//!
//! Terms: the data is cut into *slices* (*blocks*), each of which is one message. An *edge* is a connection between members,
//! or a group. A *leg* is the part of a transfer that one algorithm carries.

use std::net::Ipv4Addr;

use super::digest::Digest;
use super::edge::EdgeId;
use super::members::Members;
use super::spec::SpecError;
use crate::binomial_ack::{self, MulticastError};
use crate::icrc::neutral::Unsolvable;
use crate::rc::{CompletionError, MemoryError, ModifyError, PostError, QpFailure};
use crate::ud::UdPostError;
use crate::wire::QpNum;

/// Reason why a transfer failed, or why it rejected a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The specification of the transfer is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A queue pair cannot change to the state that the transfer needs.
    #[error(transparent)]
    Modify(#[from] ModifyError),
    /// The host has rejected a work request.
    #[error(transparent)]
    Post(#[from] PostError),
    /// A memory region cannot be registered or accessed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The host has rejected a work request of a datagram queue pair.
    #[error(transparent)]
    Datagrams(#[from] UdPostError),
    /// The datagram group cannot send a slice.
    #[error(transparent)]
    Multicast(#[from] MulticastError),
    /// No XOR constants exist with which a switch can rewrite a WRITE to this memory region and leave its ICRC valid.
    #[error(transparent)]
    Neutral(#[from] Unsolvable),
    /// A receiver has not announced one memory region per slice, as
    /// [`WriteMode::PerRequest`](super::WriteMode::PerRequest) needs.
    #[error("rank {rank} has announced regions for {got} slices, expected {slices}")]
    MissingRegions {
        /// Rank of the receiver that has announced the wrong number of regions.
        rank: u32,
        /// Number of memory regions that the receiver has announced.
        got: usize,
        /// Number of memory regions expected: one per slice (message).
        slices: u32,
    },
    /// [`Transfer::connect`](super::Transfer::connect) got no endpoint of another member for the remote end of this
    /// edge.
    #[error("no endpoint was given for the remote end of {0:?}")]
    MissingPeer(EdgeId),
    /// The remote end of this edge has announced no memory region, so WRITEs have no target.
    #[error("the endpoint of {0:?} has announced no memory region for WRITEs")]
    NoRemoteMemory(EdgeId),
    /// [`Transfer::start`](super::Transfer::start) got data of the wrong length.
    #[error("the transfer was started with {got} bytes of data, expected {size}")]
    WrongDataLength {
        /// Length in bytes of the data that the caller has passed.
        got: u64,
        /// Length in bytes of the data that this member should hold at the start.
        size: u64,
    },
    /// Data was passed to a member that is not a source; holds its rank.
    #[error("only the root (rank 0) starts with data, and this is rank {0}")]
    NotRoot(u32),
    /// A source was started before it had received the earlier parts of the data from other sources.
    #[error("part {part} cannot start: this member lacks a slice of an earlier part")]
    TooEarly {
        /// Number of the part that the source was to send, from 0.
        part: u32,
    },
    /// The transfer was started before all connections were established; holds the number of missing connections.
    #[error("the transfer is not ready: {0} connections are not established")]
    NotReady(usize),
    /// The transfer was started a second time.
    #[error("the transfer has already been started")]
    AlreadyStarted,
    /// The next leg (the part of the transfer that another algorithm carries) does not fit this transfer: it lists a
    /// different number of members, or other slices for this member.
    #[error(
        "the leg does not fit: it lists the slices of members as {listed:?}, but there are {members} members and this one holds {own} slices"
    )]
    BadLeg {
        /// Number of members in the transfer.
        members: usize,
        /// Number of slices that this member holds.
        own: u32,
        /// Number of slices that each member holds according to the leg, by rank.
        listed: Vec<u32>,
    },
    /// The list of survivors of a failure does not fit this member: it does not contain the member's address, names
    /// another root, or lists slices beyond the end of the data.
    #[error("the leg of the survivors {members:?} does not fit {own}: the address or its root is missing, or a slice is out of range")]
    BadSurvivors {
        /// Address of this member.
        own: Ipv4Addr,
        /// Addresses of the survivors, as listed.
        members: Members,
    },
    /// A queue pair has failed.
    #[error("queue pair {qpn} towards {remote}: {error}")]
    Connection {
        /// Number of the local queue pair.
        qpn: QpNum,
        /// Address of the remote host or group.
        remote: Ipv4Addr,
        /// Reason of the failure.
        error: QpFailure,
    },
    /// A work request has completed with an error. After a failure of its queue pair, [`TransferError::Connection`] is
    /// reported instead.
    #[error("queue pair {qpn}: {error}")]
    Message {
        /// Number of the local queue pair.
        qpn: QpNum,
        /// Completion status of the work request.
        error: CompletionError,
    },
    /// The root of a broadcast by datagrams has failed before this member received all slices.
    #[error("the sender (root) has failed, and no other member has the rest of the data that this member lacks; repeat the transfer without that host")]
    RootFailed,
    /// A message does not have the length of its slice.
    #[error("slice {slice} has {got} bytes, expected {expected}")]
    WrongSliceLength {
        /// Number of the slice (message).
        slice: u32,
        /// Length of the message in bytes.
        got: u64,
        /// Length of the slice in bytes.
        expected: u64,
    },
    /// A first block has arrived without a size, or on an edge on which the plan for its size expects no first block.
    #[error("the first block of the data announces no size, or arrived on a connection where none is expected")]
    UnexpectedFirstBlock,
    /// The received data differs from what the specification expects.
    #[error("the received data has SHA-256 {got}, expected {expected}")]
    WrongDigest {
        /// SHA-256 of the received data.
        got: Digest,
        /// SHA-256 expected by the specification.
        expected: Digest,
    },
}

impl From<binomial_ack::OpenError> for TransferError {
    fn from(error: binomial_ack::OpenError) -> TransferError {
        match error {
            binomial_ack::OpenError::Modify(error) => error.into(),
            binomial_ack::OpenError::Datagrams(error) => error.into(),
            binomial_ack::OpenError::Memory(error) => error.into(),
        }
    }
}
