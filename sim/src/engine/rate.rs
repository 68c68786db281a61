//! How long a frame occupies a link.

pub use alfirk_packet_io::wire::{
    wire_bytes, ETHERNET_FCS, ETHERNET_MIN_FRAME, ETHERNET_PREAMBLE_AND_GAP,
};

/// The time in picoseconds, rounded up, that `bytes` take at `bits_per_second`.
///
/// Picoseconds, because at 100 Gbit/s a minimal frame takes 6.72 ns: rounding each frame to a
/// nanosecond would cost a tenth of the link's rate.
pub(super) fn serialisation_ps(bytes: u64, bits_per_second: u64) -> u64 {
    let ps = (u128::from(bytes) * 8 * 1_000_000_000_000).div_ceil(u128::from(bits_per_second));
    u64::try_from(ps).unwrap_or(u64::MAX)
}
