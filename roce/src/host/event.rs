//! Events that a host reports to its user.

use std::net::Ipv4Addr;

use crate::rc::{Completion, Operation, QpFailure};
use crate::ud::{CompletedDatagram, UdCompletion};
use crate::wire::QpNum;

/// An event that a host reports to its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostEvent {
    /// The remote MAC address of a queue pair is resolved, so the queue pair can send.
    Connected {
        /// Number of the local queue pair.
        qpn: QpNum,
    },
    /// A work request of a reliable connection has completed.
    Completion(Completion),
    /// A queue pair has entered the error state; its pending work requests have been flushed.
    QpFailed {
        /// Number of the local queue pair.
        qpn: QpNum,
        /// Reason of the failure.
        failure: QpFailure,
    },
    /// A work request of a datagram queue pair has completed.
    Datagram(UdCompletion),
    /// The MAC address of a host is resolved, so that datagrams can be sent to it, or all ARP requests for it have
    /// timed out. Follows a call of [`super::Host::resolve`].
    Resolved {
        /// IPv4 address of the host.
        ip: Ipv4Addr,
        /// Whether the address was resolved.
        is_known: bool,
    },
    /// A UDP datagram has arrived for a port opened by [`super::Host::bind_udp`].
    Udp {
        /// IPv4 address of the sender.
        source: Ipv4Addr,
        /// UDP port of the sender.
        source_port: u16,
        /// Local UDP port, opened by `bind_udp`.
        destination_port: u16,
        /// Payload of the datagram.
        payload: Vec<u8>,
    },
}

impl HostEvent {
    /// Length in bytes of the received message that this event delivers; 0 for other events. The length of a datagram
    /// includes its [`crate::ud::GRH_LEN`] reserved bytes.
    pub fn received_bytes(&self) -> u64 {
        match self {
            HostEvent::Completion(Completion {
                operation: Operation::Receive | Operation::ReceiveWrite,
                outcome: Ok(completed),
                ..
            }) => completed.bytes,
            HostEvent::Datagram(UdCompletion {
                outcome: Ok(CompletedDatagram::Received { bytes, .. }),
                ..
            }) => *bytes,
            _ => 0,
        }
    }
}
