//! Packet counters that show the cost of a [`Strategy`](super::Strategy), the way to find a group's minimum PSN.

use std::hash::{Hash, Hasher};

/// Packet counters, as the pipeline exports them (`Work` in `p4src/shared/constants.p4`). Groups that differ only in
/// their counters are equal and have the same hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// ACKs and NAKs received.
    pub feedback: u64,
    /// ACKs and NAKs forwarded to the source.
    pub forwarded: u64,
    /// Passes of packets through the recirculation port.
    pub recirculations: u64,
    /// Packets sent to the controller.
    pub punts: u64,
}

impl PartialEq for Work {
    fn eq(&self, _: &Work) -> bool {
        true
    }
}

impl Eq for Work {}

impl Hash for Work {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
