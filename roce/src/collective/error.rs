//! Why transfers fail.

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

/// Why a transfer cannot go on.
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
    #[error("rank {rank} has announced regions for {got} of {slices} slices to write")]
    MissingRegions { rank: u32, got: usize, slices: u32 },
    #[error("no endpoint was given for the other end of {0:?}")]
    MissingPeer(EdgeId),
    #[error("the endpoint of {0:?} has no memory to write to")]
    NoRemoteMemory(EdgeId),
    #[error("{got} bytes of data for a transfer of {size}")]
    WrongSize { got: u64, size: u64 },
    #[error("only the root (rank 0) has data to start with, and this is rank {0}")]
    NotRoot(u32),
    #[error("part {part} cannot begin: this member does not hold everything before it")]
    TooEarly { part: u32 },
    #[error("the transfer is not ready: {0} connections are missing")]
    NotReady(usize),
    #[error("the transfer has been started already")]
    Started,
    #[error(
        "this leg does not fit: {members} members of which this one holds {own} slices, and it says that they hold {told:?}"
    )]
    BadLeg {
        members: usize,
        own: u32,
        told: Vec<u32>,
    },
    #[error("the leg of the survivors {members:?} is not for {own}: it or its place is not among them, or they lack what there is not")]
    NoSurvivor { own: Ipv4Addr, members: Members },
    #[error("queue pair {qpn} towards {remote}: {error}")]
    Connection {
        qpn: QpNum,
        remote: Ipv4Addr,
        error: QpFailure,
    },
    #[error("queue pair {qpn}: {error}")]
    Message { qpn: QpNum, error: CompletionError },
    #[error("the root does not answer, and this member lacks what the root had to send")]
    RootDead,
    #[error("slice {slice} has {got} bytes instead of {expected}")]
    WrongSlice { slice: u32, got: u64, expected: u64 },
    #[error("a first block came that does not say how much there is, or where none was expected")]
    NotAnnounced,
    #[error("the data arrived with SHA-256 {got} instead of {expected}")]
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
