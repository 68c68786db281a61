//! Events that a host reports to its user.

use std::net::Ipv4Addr;

use crate::rc::{Completion, Operation, QpFailure};
use crate::ud::{UdCompleted, UdCompletion};
use crate::wire::QpNum;

/// An event that a host reports to its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostEvent {
    /// The remote address of a queue pair is resolved; it can send from now on.
    Connected { qpn: QpNum },
    /// A work request of a reliable connection has completed.
    Completion(Completion),
    /// A queue pair has entered the error state, after the flush of its work requests.
    QpFailed { qpn: QpNum, failure: QpFailure },
    /// A work request of a datagram queue pair has completed.
    Datagram(UdCompletion),
    /// The link-layer address for datagrams to `ip` is resolved, or all ARP requests have timed out ([`super::Host::resolve`]).
    Resolved { ip: Ipv4Addr, is_known: bool },
    /// A UDP datagram has arrived for a port opened by [`super::Host::bind_udp`].
    Udp {
        source: Ipv4Addr,
        source_port: u16,
        destination_port: u16,
        payload: Vec<u8>,
    },
}

impl HostEvent {
    /// Bytes of a received message that this event delivers; 0 for other events.
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
