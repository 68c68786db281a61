//! The reliable connection (IBTA vol. 1, chapter 9). A [`QueuePair`] is a requester and a responder, without I/O.
//!
//! A queue pair handles packets from their base transport header on; [`crate::host::Host`] checks addresses, checksums
//! and the ICRC. It is as strict as a hardware or kernel stack. It checks PSN, opcode sequence, lengths, memory bounds
//! and keys, and replies to errors with the NAK that the specification defines.
//!
//! Loss recovery is a setting ([`Recovery`]): go-back-N as in the specification, or selective repeat. Selective NAKs
//! are an extension, sent only between ends that agree on it.
//!
//! Not implemented: READ and atomics (a group of receivers has no single response), UC. Datagrams are in [`crate::ud`].

mod buffer;
mod completion;
mod config;
mod memory;
mod pacer;
mod packet;
mod qp;
mod reorder;
mod requester;
mod responder;
mod timer;
mod violations;

pub use completion::{CompletedRequest, Completion, CompletionError, Operation};
pub use config::{
    AckTimeout, BadMtu, LossReports, MsnRule, NakRule, PathMtu, RcConfig, Recovery, Retries,
};
pub use memory::{MemoryError, MemoryKey, MemoryRegion, MemorySlice, MemoryTable};
pub(crate) use packet::unpadded;
pub use packet::{RcHeaders, RcPacket};
pub use qp::{
    ModifyError, OutgoingPacket, Payload, PostError, QpFailure, QpState, QpStats, QueuePair,
    RecvRequest, Remote, SendOperation, SendRequest, MAX_MESSAGE,
};
pub use timer::Timer;
pub use violations::Violations;
