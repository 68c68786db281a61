//! Wire formats, one file per header. In each file, `View` checks a buffer once and then reads fields from it, `Repr`
//! holds the fields as values, and `parse` and `emit` convert between them.
//!
//! Nothing here keeps state, and no input causes a panic: `View::new_checked` is the only constructor of a view.

pub mod aeth;
pub mod arp;
pub mod atomic_eth;
pub mod bth;
pub mod cnp;
pub mod deth;
mod error;
pub mod ethernet;
mod field;
pub mod icrc;
pub mod immdt;
pub mod ipv4;
pub mod mr_info;
pub mod mrp;
pub mod pause;
mod psn;
pub mod reth;
mod serial;
#[cfg(test)]
pub(crate) mod testing;
pub mod udp;
pub mod vxlan;

/// Bytes of a RoCEv2 frame without extension headers and payload: Ethernet, IPv4, UDP, BTH and ICRC.
pub const FRAME_OVERHEAD: usize =
    ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN + bth::HEADER_LEN + icrc::TRAILER_LEN;

pub use aeth::{NakCode, RnrTimer, Syndrome};
pub use bth::Opcode;
pub(crate) use error::need;
pub use error::{Header, Reason, WireError};
pub use ethernet::MacAddr;
pub use psn::{Psn, QpNum, TooLarge};
pub use serial::Space;
