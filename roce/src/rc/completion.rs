//! Completions of work requests, as in verbs.

use crate::wire::QpNum;

/// Kind of a completed work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A SEND: the remote receiver has acknowledged the message.
    Send,
    /// A WRITE: the remote responder has acknowledged the message.
    Write,
    /// A receive request: a SEND has arrived in its buffer.
    Receive,
    /// A receive request: a WRITE with immediate data has arrived and consumed it.
    ReceiveWrite,
}

/// Result of a successful work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompletedRequest {
    /// Length of the message in bytes.
    pub bytes: u64,
    /// Immediate data of the received message; `None` without, and for sent messages.
    pub immediate: Option<u32>,
}

/// Status of a failed work request, as in verbs. The queue pair is then in the error state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CompletionError {
    /// The limit of consecutive retries after timeouts and sequence errors was exceeded.
    #[error("no acknowledgement arrived within the retry limit")]
    RetryExceeded,
    /// The limit of consecutive RNR NAKs was exceeded.
    #[error("the receiver had no receive buffer within the RNR retry limit")]
    RnrRetryExceeded,
    /// The remote responder has rejected the request as invalid (NAK code 1).
    #[error("the remote side rejected the request as invalid")]
    RemoteInvalidRequest,
    /// The remote responder has denied access to its memory (NAK code 2).
    #[error("the remote side denied access to its memory")]
    RemoteAccess,
    /// The remote responder could not complete the request (NAK code 3).
    #[error("the remote side reported an operational error")]
    RemoteOperational,
    /// The local memory of the request is not registered any more.
    #[error("the memory of the work request is not registered any more")]
    LocalProtection,
    /// The received message is longer than the receive buffer.
    #[error("the message is longer than the receive buffer")]
    LocalLength,
    /// The queue pair has failed or was closed before this request was executed.
    #[error("flushed: the queue pair failed before the request completed")]
    Flushed,
}

/// Completion of a work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Completion {
    /// Number of the local queue pair.
    pub qpn: QpNum,
    /// Number that the user gave to the work request.
    pub wr_id: u64,
    /// Kind of the work request.
    pub operation: Operation,
    /// Result of the work request.
    pub outcome: Result<CompletedRequest, CompletionError>,
}
