//! Completions of work requests.

use crate::wire::QpNum;

/// The kind of a work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    Send,
    Write,
    /// A SEND arrived in the receive buffer.
    Receive,
    /// A WRITE with immediate data arrived and consumed the receive request.
    ReceiveWrite,
}

/// The result of a successful work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Completed {
    /// Length of the message in bytes.
    pub bytes: u64,
    pub immediate: Option<u32>,
}

/// Why a work request failed. The queue pair is then in the error state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CompletionError {
    #[error("no acknowledgement arrived within the retry limit")]
    RetryExceeded,
    #[error("the receiver had no receive buffer within the RNR retry limit")]
    RnrRetryExceeded,
    #[error("the remote side rejected the request as invalid")]
    RemoteInvalidRequest,
    #[error("the remote side denied access to its memory")]
    RemoteAccess,
    #[error("the remote side reported an operational error")]
    RemoteOperational,
    #[error("the request's memory is not registered")]
    LocalProtection,
    #[error("the message is longer than the receive buffer")]
    LocalLength,
    #[error("flushed: the queue pair failed before the request completed")]
    Flushed,
}

/// The completion of a work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Completion {
    /// The local queue pair.
    pub qpn: QpNum,
    /// The work request number that the user chose.
    pub wr_id: u64,
    pub operation: Operation,
    pub outcome: Result<Completed, CompletionError>,
}
