//! What happens to a packet in ingress and after it.

use crate::program::IngressValues;

/// A part of parser, verification of checksums and ingress.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "jit"), allow(dead_code))]
pub(crate) enum Part {
    /// All of it, after these metadata are set
    Received(IngressValues),
    Whole,
    Parser,
}

/// What ingress has decided about a packet (`simple_switch.md`, "Pseudocode for what happens at the end of ingress").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The packet is sent to this port.
    Unicast(u32),
    /// Copies of the packet are sent to the members of this multicast group.
    Multicast(u32),
    Dropped,
}
