//! The reliable connection (IBTA vol. 1, chapter 9): one [`QueuePair`] is a requester and a responder without I/O.
//!
//! A queue pair handles packets from their base transport header on; addresses, checksums and the ICRC are the
//! business of [`crate::host::Host`]. It is as strict as a hardware or kernel stack: PSN, opcode sequence, lengths, memory
//! bounds and keys are all checked, and what is wrong gets the NAK that the specification names.
//!
//! What a lost packet costs is a setting ([`Recovery`]): go-back-N, as the specification has it, or selective repeat, whose own
//! packet, the selective NAK, only ends that agree on it send.
//!
//! Not here: READ and atomics (a group of receivers has no one answer), UC. Datagrams are in [`crate::ud`].

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

pub use completion::{Completed, Completion, CompletionError, Operation};
pub use config::{
    AckTimeout, BadMtu, LossReports, MsnRule, NakRule, PathMtu, RcConfig, Recovery, Retries,
};
pub use memory::{MemoryError, MemoryKey, MemoryRegion, MemorySlice, MemoryTable};
pub(crate) use packet::unpadded;
pub use packet::{RcHeaders, RcPacket};
pub use qp::{
    ModifyError, Outgoing, Payload, PostError, QpFailure, QpState, QpStats, QueuePair, RecvRequest,
    Remote, SendOperation, SendRequest, MAX_MESSAGE,
};
pub use timer::Timer;
pub use violations::Violations;
