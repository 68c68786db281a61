//! Counters; as in BMv2, all of them count both packets and bytes.

/// The two counts of a counter cell or a table entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Number of counted packets; wraps around at 2^64.
    pub packets: u64,
    /// Sum of the packets' lengths when they entered the switch, in bytes.
    pub bytes: u64,
}

impl Counter {
    #[inline]
    pub(crate) fn count(&mut self, bytes: usize) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes as u64);
    }
}
