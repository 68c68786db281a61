//! How long a frame occupies a link.

pub use alfirk_packet_io::wire::{
    wire_bytes, ETHERNET_FCS, ETHERNET_MIN_FRAME, ETHERNET_PREAMBLE_AND_GAP,
};

/// The time in picoseconds, rounded up, that `bytes` take at `bits_per_second`.
///
/// Picoseconds, because at 100 Gbit/s a minimal frame takes 6.72 ns: rounding each frame to a
/// nanosecond would cost a tenth of the link's rate.
pub(super) fn serialisation_ps(bytes: u64, bits_per_second: u64) -> u64 {
    const PS_BITS: u64 = 8 * 1_000_000_000_000;
    // Every frame comes here, and a division of 64 bits takes a fraction of the time of one of 128.
    if let Some(product) = bytes.checked_mul(PS_BITS) {
        return product.div_ceil(bits_per_second);
    }
    let ps = (u128::from(bytes) * u128::from(PS_BITS)).div_ceil(u128::from(bits_per_second));
    u64::try_from(ps).unwrap_or(u64::MAX)
}
