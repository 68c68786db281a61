//! Errors in the headers of received packets.

use std::fmt;

/// The header that contains an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Header {
    /// Ethernet II header.
    Ethernet,
    /// ARP packet.
    Arp,
    /// IPv4 header.
    Ipv4,
    /// UDP header.
    Udp,
    /// Base Transport Header.
    Bth,
    /// Datagram Extended Transport Header.
    Deth,
    /// RDMA Extended Transport Header.
    Reth,
    /// ACK Extended Transport Header.
    Aeth,
    /// Atomic Extended Transport Header.
    AtomicEth,
    /// Atomic ACK Extended Transport Header.
    AtomicAckEth,
    /// Immediate data.
    ImmDt,
    /// Congestion notification packet.
    Cnp,
    /// Invariant CRC at the end of a packet.
    Icrc,
    /// Registration packet of a multicast group ([`super::mrp`]).
    Mrp,
    /// Announcement of a memory region to switches ([`super::mr_info`]).
    MrInfo,
    /// Packet of the reliable multicast protocol that acknowledges along a binomial tree ([`crate::binomial_ack`]).
    BinomialAck,
    /// PFC PAUSE frame.
    Pause,
    /// VXLAN header.
    Vxlan,
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Header::Ethernet => "ethernet",
            Header::Arp => "arp",
            Header::Ipv4 => "ipv4",
            Header::Udp => "udp",
            Header::Bth => "bth",
            Header::Deth => "deth",
            Header::Reth => "reth",
            Header::Aeth => "aeth",
            Header::AtomicEth => "atomiceth",
            Header::AtomicAckEth => "atomicacketh",
            Header::ImmDt => "immdt",
            Header::Cnp => "cnp",
            Header::Icrc => "icrc",
            Header::Mrp => "mrp",
            Header::MrInfo => "mr info",
            Header::BinomialAck => "binomial ack",
            Header::Pause => "pause",
            Header::Vxlan => "vxlan",
        })
    }
}

/// Reason why a header cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    /// The buffer ends within the header, or within the payload that its length field announces.
    #[error("truncated: {need} bytes needed, {have} available")]
    Truncated {
        /// Number of bytes needed.
        need: usize,
        /// Number of bytes in the buffer.
        have: usize,
    },
    /// A length field has a value that the header cannot have.
    #[error("length field {field} has the invalid value {value}")]
    BadLength {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: usize,
    },
    /// A field has a value that this header does not allow.
    #[error("field {field} holds {value:#x}, which is not supported")]
    BadField {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u32,
    },
    /// A checksum does not match the bytes that it covers.
    #[error("checksum {found:#x}, expected {expected:#x}")]
    BadChecksum {
        /// Checksum in the header.
        found: u32,
        /// Checksum computed over the bytes.
        expected: u32,
    },
}

/// Error: a header cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{header}: {reason}")]
pub struct WireError {
    /// The header that cannot be parsed.
    pub header: Header,
    /// Reason why the header cannot be parsed.
    pub reason: Reason,
}

impl WireError {
    pub(crate) fn bad_field(header: Header, field: &'static str, value: u32) -> WireError {
        WireError {
            header,
            reason: Reason::BadField { field, value },
        }
    }
}

/// Fails unless `buffer` has at least `need` bytes, the length of `header`.
pub(crate) fn need(header: Header, buffer: &[u8], need: usize) -> Result<(), WireError> {
    if buffer.len() < need {
        return Err(WireError {
            header,
            reason: Reason::Truncated {
                need,
                have: buffer.len(),
            },
        });
    }
    Ok(())
}
