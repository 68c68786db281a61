//! Unreliable datagrams (IBTA vol. 1, 9.8.3): one packet per message, to one queue pair or to all that are attached to a multicast
//! group, without acknowledgement, order or repetition.
//!
//! A [`UdQueuePair`] is a state machine of [`crate::host::Host`], which frames its packets and finds the link-layer address:
//! unicast destinations are resolved before ([`crate::host::Host::resolve`]), as address handles are on a NIC, and multicast
//! ones have their MAC address by rule ([`crate::wire::MacAddr::of_multicast`]).
//!
//! What a datagram cannot be is refused when it is posted; what comes in and does not fit is counted in [`UdStats`] and
//! dropped, as a NIC does.

mod packet;
mod qp;
#[cfg(test)]
mod tests;

pub use packet::{UdHeaders, UdPacket};
pub use qp::{
    check_receive, UdCompleted, UdCompletion, UdConfig, UdDestination, UdPostError, UdQueuePair,
    UdSendRequest, UdStats, GRH_LEN, MULTICAST_QPN,
};
