//! Length and duration of a frame on an Ethernet wire.

/// Length of the frame check sequence in bytes, which frames in this crate do not include.
pub const ETHERNET_FCS: u64 = 4;

/// Length of preamble and start delimiter (8) and inter-frame gap (12) in bytes.
pub const ETHERNET_PREAMBLE_AND_GAP: u64 = 20;

/// Minimum length of an Ethernet frame in bytes, FCS included; shorter ones are padded on the wire (IEEE 802.3, 4A.2.3.2.4).
pub const ETHERNET_MIN_FRAME: u64 = 64;

/// Number of bytes that a frame of `len` bytes (Ethernet header to the last byte before the FCS) occupies on the wire,
/// with padding, FCS, preamble and gap.
#[inline]
pub fn wire_bytes(len: usize) -> u64 {
    (len as u64 + ETHERNET_FCS).max(ETHERNET_MIN_FRAME) + ETHERNET_PREAMBLE_AND_GAP
}

/// Time in picoseconds that `bytes` bytes on the wire take at `bits_per_second`, rounded up. The rate must be above 0.
///
/// At 100 Gbit/s a minimal frame takes 6.72 ns, so rounding each frame to a nanosecond would cost a tenth of the
/// link's rate.
#[inline]
pub fn serialisation_ps(bytes: u64, bits_per_second: u64) -> u64 {
    const PS_BITS: u64 = 8 * 1_000_000_000_000;
    // Called for every frame; a 64-bit division takes a fraction of the time of a 128-bit one.
    if let Some(product) = bytes.checked_mul(PS_BITS) {
        return product.div_ceil(bits_per_second);
    }
    let ps = (u128::from(bytes) * u128::from(PS_BITS)).div_ceil(u128::from(bits_per_second));
    u64::try_from(ps).unwrap_or(u64::MAX)
}
