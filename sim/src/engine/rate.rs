//! Transmission time of frames.

pub(super) use alfirk_packet_io::wire::serialisation_ps;
pub use alfirk_packet_io::wire::{
    wire_bytes, ETHERNET_FCS, ETHERNET_MIN_FRAME, ETHERNET_PREAMBLE_AND_GAP,
};
