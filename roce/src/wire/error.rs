//! Errors in received headers.

use std::fmt;

/// The header that contains the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Header {
    Ethernet,
    Arp,
    Ipv4,
    Udp,
    Bth,
    Deth,
    Reth,
    Aeth,
    AtomicEth,
    AtomicAckEth,
    ImmDt,
    Cnp,
    Icrc,
    Mrp,
    MrInfo,
    BinomialAck,
    Pause,
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

/// What is wrong with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    /// The buffer ends before the header (or the payload that the header announces) does.
    #[error("truncated: {need} bytes needed, {have} available")]
    Truncated { need: usize, have: usize },
    /// A length field contradicts the header itself.
    #[error("length field {field} holds {value}, which is impossible")]
    BadLength { field: &'static str, value: usize },
    /// A field holds a value that this header does not allow.
    #[error("field {field} holds {value:#x}, which is not supported")]
    BadField { field: &'static str, value: u32 },
    /// A checksum does not match the bytes it covers.
    #[error("checksum {found:#x}, expected {expected:#x}")]
    BadChecksum { found: u32, expected: u32 },
}

/// A header that cannot be parsed, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{header}: {reason}")]
pub struct WireError {
    pub header: Header,
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

/// Fails unless `buffer` holds at least `need` bytes.
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
