//! Errors of transfers.

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

/// Why a transfer failed or rejected a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Modify(#[from] ModifyError),
    #[error(transparent)]
    Post(#[from] PostError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Datagrams(#[from] UdPostError),
    #[error(transparent)]
    Multicast(#[from] MulticastError),
    #[error(transparent)]
    Neutral(#[from] Unsolvable),
    #[error("rank {rank} has announced regions for {got} slices, expected {slices}")]
    MissingRegions { rank: u32, got: usize, slices: u32 },
    #[error("no endpoint was given for the remote end of {0:?}")]
    MissingPeer(EdgeId),
    #[error("the endpoint of {0:?} names no memory for WRITEs")]
    NoRemoteMemory(EdgeId),
    #[error("found {got} bytes of data, expected {size}")]
    WrongSize { got: u64, size: u64 },
    #[error("only the root (rank 0) starts with data, and this is rank {0}")]
    NotRoot(u32),
    #[error("part {part} cannot start: this member lacks a slice of an earlier part")]
    TooEarly { part: u32 },
    #[error("the transfer is not ready: {0} connections are not established")]
    NotReady(usize),
    #[error("the transfer has already been started")]
    Started,
    #[error(
        "the leg does not fit: it lists the slices of members as {listed:?}, but there are {members} members and this one holds {own} slices"
    )]
    BadLeg {
        members: usize,
        own: u32,
        listed: Vec<u32>,
    },
    #[error("the leg of the survivors {members:?} does not fit {own}: the address or its root is missing, or a slice is out of range")]
    BadSurvivors { own: Ipv4Addr, members: Members },
    #[error("queue pair {qpn} towards {remote}: {error}")]
    Connection {
        qpn: QpNum,
        remote: Ipv4Addr,
        error: QpFailure,
    },
    #[error("queue pair {qpn}: {error}")]
    Message { qpn: QpNum, error: CompletionError },
    #[error("the root has failed, and this member lacks slices that only the root has")]
    RootFailed,
    #[error("slice {slice} has {got} bytes, expected {expected}")]
    WrongSlice { slice: u32, got: u64, expected: u64 },
    #[error("unexpected first block, or one that announces no size")]
    NotAnnounced,
    #[error("the received data has SHA-256 {got}, expected {expected}")]
    WrongDigest { got: Digest, expected: Digest },
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
