//! How long a frame is on an Ethernet link.

/// Bytes of the frame check sequence, which our frames do not carry.
pub const ETHERNET_FCS: u64 = 4;

/// Bytes of preamble, start delimiter (8) and inter-frame gap (12) that each frame costs on the wire.
pub const ETHERNET_PREAMBLE_AND_GAP: u64 = 20;

/// The least length of an Ethernet frame, FCS included; shorter ones are padded on the wire
/// (IEEE 802.3, 4A.2.3.2.4).
pub const ETHERNET_MIN_FRAME: u64 = 64;

/// The bytes that a frame of `len` bytes (Ethernet header to the last byte before the FCS) occupies
/// on the wire.
#[inline]
pub fn wire_bytes(len: usize) -> u64 {
    (len as u64 + ETHERNET_FCS).max(ETHERNET_MIN_FRAME) + ETHERNET_PREAMBLE_AND_GAP
}
