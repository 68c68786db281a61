//! What a queue pair reports to its user when a work request is done.

use crate::wire::QpNum;

/// What kind of work request it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    Send,
    Write,
    /// A SEND arrived in the receive buffer.
    Receive,
    /// A WRITE with immediate arrived, and used up the receive request.
    ReceiveWrite,
}

/// A work request that went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Completed {
    /// Length of the message.
    pub bytes: u64,
    pub immediate: Option<u32>,
}

/// Why a work request failed. The queue pair is then in the error state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CompletionError {
    #[error("no answer came, and the retries are used up")]
    RetryExceeded,
    #[error("the receiver had no buffer, and the retries are used up")]
    RnrRetryExceeded,
    #[error("the remote side found the request invalid")]
    RemoteInvalidRequest,
    #[error("the remote side refused access to its memory")]
    RemoteAccess,
    #[error("the remote side failed")]
    RemoteOperational,
    #[error("the memory of the request is not registered")]
    LocalProtection,
    #[error("the message is longer than the receive buffer")]
    LocalLength,
    #[error("the queue pair failed before this request was done")]
    Flushed,
}

/// A work request is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Completion {
    /// The local queue pair.
    pub qpn: QpNum,
    /// The number the user gave to the work request.
    pub wr_id: u64,
    pub operation: Operation,
    pub outcome: Result<Completed, CompletionError>,
}
