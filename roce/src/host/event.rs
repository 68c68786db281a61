//! What a host reports to its user.

use std::net::Ipv4Addr;

use crate::rc::{Completion, Operation, QpFailure};
use crate::ud::{UdCompleted, UdCompletion};
use crate::wire::QpNum;

/// Something happened that the user should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostEvent {
    /// The remote address of a queue pair is resolved; messages flow from now on.
    Connected { qpn: QpNum },
    /// A work request is done.
    Completion(Completion),
    /// A queue pair went to the error state. Its work requests have completed with errors before.
    QpFailed { qpn: QpNum, failure: QpFailure },
    /// A work request of a datagram queue pair is done.
    Datagram(UdCompletion),
    /// The link-layer address of a destination of datagrams is known, or nobody answered for it ([`super::Host::resolve`]).
    Resolved { ip: Ipv4Addr, is_known: bool },
    /// A UDP datagram came for a port that [`super::Host::bind_udp`] opened.
    Udp {
        source: Ipv4Addr,
        source_port: u16,
        destination_port: u16,
        payload: Vec<u8>,
    },
}

impl HostEvent {
    /// Bytes of a message that the user gets by this event; 0 for events without one.
    pub fn received_bytes(&self) -> u64 {
        match self {
            HostEvent::Completion(Completion {
                operation: Operation::Receive | Operation::ReceiveWrite,
                outcome: Ok(completed),
                ..
            }) => completed.bytes,
            HostEvent::Datagram(UdCompletion {
                outcome: Ok(UdCompleted::Received { bytes, .. }),
                ..
            }) => *bytes,
            _ => 0,
        }
    }
}
