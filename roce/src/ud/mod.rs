//! Unreliable datagrams (IBTA vol. 1, 9.8.3): one packet per message, to one queue pair or to all that are attached to a multicast
//! group, without acknowledgement, ordering or retransmission.
//!
//! A [`UdQueuePair`] is a state machine in [`crate::host::Host`], which builds its frames and resolves link-layer addresses. Unicast
//! destinations must be resolved before ([`crate::host::Host::resolve`]), like address handles on a NIC. The MAC address of a
//! multicast group follows from its IPv4 address ([`crate::wire::MacAddr::of_multicast`]).
//!
//! Invalid datagrams are rejected when posted. Received datagrams that do not match are counted in [`UdStats`] and dropped, as on a
//! NIC.

mod packet;
mod qp;
#[cfg(test)]
mod tests;

pub use packet::{UdHeaders, UdPacket};
pub use qp::{
    check_receive, CompletedDatagram, UdCompletion, UdConfig, UdDestination, UdPostError,
    UdQueuePair, UdSendRequest, UdStats, GRH_LEN, MULTICAST_QPN,
};
