//! Figures of a path (rate, round trip, queues), and the limits of a sender that follow from them.

use std::num::NonZeroU64;

use alfirk_ctrl::topology::LinkAttributes;
use alfirk_packet_io::wire::{serialisation_ps, wire_bytes};
use alfirk_roce::rc::{PathMtu, RcConfig};
use alfirk_roce::wire::{aeth, immdt, reth, FRAME_OVERHEAD};

use super::{ProcessingTimes, SendLimits};

/// Bytes of headers, padding and checksum around the payload of a request packet that has both a RETH and an immediate.
const PACKET_OVERHEAD: usize = FRAME_OVERHEAD + reth::HEADER_LEN + immdt::HEADER_LEN;

/// Length of the frame of an ACKNOWLEDGE packet in bytes.
const ACK_FRAME: usize = FRAME_OVERHEAD + aeth::HEADER_LEN;

/// Window in packets that keeps a flow busy while application or controller pause. The smaller of this window and the
/// one of [`BUSY_WINDOW_NS`] applies.
const BUSY_WINDOW_PACKETS: u64 = 128;
/// The window [`BUSY_WINDOW_PACKETS`], as a duration in nanoseconds at the bottleneck's rate.
const BUSY_WINDOW_NS: u64 = 430_000;

/// Minimum window in packets of a flow on an overloaded link, so that each end always has a packet.
const MIN_WINDOW: u64 = 4;

/// Packet lengths and processing times, by which figures of a path are converted to limits.
pub(super) struct Scale {
    /// Bytes on the wire of a full packet.
    pub(super) packet: u64,
    /// Bytes on the wire of an acknowledgement.
    ack: u64,
    processing: ProcessingTimes,
    /// Packets sent between two acknowledgements and until the second of them arrives: twice the interval of ACK
    /// requests.
    ack_gap: u64,
}

impl Scale {
    pub(super) fn new(mtu: PathMtu, processing: ProcessingTimes) -> Scale {
        Scale {
            packet: wire_bytes(mtu.bytes() + PACKET_OVERHEAD),
            ack: wire_bytes(ACK_FRAME),
            processing,
            ack_gap: 2 * u64::from(RcConfig::new(mtu).ack_every),
        }
    }

    /// Time in nanoseconds that `packets` full packets take at the rate `rate_bps`.
    fn packets_ns(&self, packets: u64, rate_bps: u64) -> u64 {
        serialisation_ps(packets.saturating_mul(self.packet), rate_bps).div_ceil(1_000)
    }

    /// Number of full packets that the rate `rate_bps` allows in `ns` nanoseconds.
    pub(super) fn packets_in(&self, ns: u64, rate_bps: u64) -> u64 {
        let bits = u128::from(ns) * u128::from(rate_bps) / 1_000_000_000;
        u64::try_from(bits / 8 / u128::from(self.packet)).unwrap_or(u64::MAX)
    }

    /// Returns the figures of a path without links. [`Scale::extended`] adds each link.
    pub(super) fn empty_path(&self) -> PathFigures {
        PathFigures {
            rate_bps: u64::MAX,
            round_trip_ns: self.processing.host_ns,
            queues_ns: 0,
        }
    }

    /// Returns the figures of `path` extended by `link`. `is_first`: the link is the sending host's own; the sender of
    /// any other link is a switch.
    pub(super) fn extended(
        &self,
        path: PathFigures,
        link: &LinkAttributes,
        is_first: bool,
    ) -> PathFigures {
        let there = serialisation_ps(self.packet, link.rate_bps).div_ceil(1_000);
        let back = serialisation_ps(self.ack, link.rate_bps).div_ceil(1_000);
        let switches = if is_first {
            0
        } else {
            2 * self.processing.switch_ns
        };
        let link_ns = (there + back).saturating_add(link.delay_ns.saturating_mul(2));
        let queue_ns = match is_first {
            true => 0,
            false => serialisation_ps(link.queue_bytes, link.rate_bps).div_ceil(1_000),
        };
        PathFigures {
            rate_bps: path.rate_bps.min(link.rate_bps),
            round_trip_ns: path.round_trip_ns.saturating_add(link_ns + switches),
            queues_ns: path.queues_ns.saturating_add(queue_ns),
        }
    }

    /// Converts the figures of a path to the limits of a sender whose own link has `own_bps` bits per second. `shared`
    /// is the sender's share of the most loaded link on the path; `None` if no link is overloaded.
    pub(super) fn limits(
        &self,
        own_bps: u64,
        path: PathFigures,
        shared: Option<LinkShare>,
    ) -> SendLimits {
        let rate_bps = path.rate_bps.min(own_bps);
        let pipe = self.packets_in(path.round_trip_ns, rate_bps) + 1;
        let busy_window = BUSY_WINDOW_PACKETS.min(self.packets_in(BUSY_WINDOW_NS, rate_bps));
        let needed = (pipe + self.ack_gap).saturating_mul(5) / 4;
        let window = needed.max(busy_window);
        let is_paced = rate_bps < own_bps;
        let most = shared.map(|shared| shared.packets.max(MIN_WINDOW));
        let window = most.map_or(window, |most| window.min(most));
        // Packets that may be queued before a packet: the windows of its own flow and of those that share the link.
        let flows = shared.map_or(1, |shared| shared.flows);
        let ahead = self.packets_ns(window.saturating_mul(flows), rate_bps);
        let waits = match is_paced || shared.is_some() {
            true => ahead.min(path.queues_ns.saturating_mul(2)),
            false => 0,
        };
        let pace_bps = match shared {
            Some(shared) if shared.packets < MIN_WINDOW => Some(shared.rate_bps.min(rate_bps)),
            _ => is_paced.then_some(rate_bps),
        };
        let answer = path.round_trip_ns.saturating_add(waits);
        SendLimits {
            rate_bps,
            round_trip_ns: path.round_trip_ns,
            pace_bps: pace_bps.and_then(NonZeroU64::new),
            window: u32::try_from(window).unwrap_or(u32::MAX),
            max_window: most.map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
            max_ack_delay_ns: answer.saturating_add(self.packets_ns(self.ack_gap, rate_bps)),
        }
    }
}

/// Rate, round trip and queueing time of a path from a sender to a receiver, or the worst values of several paths.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathFigures {
    pub(super) rate_bps: u64,
    /// Round trip of a full packet and its acknowledgement with empty queues, in nanoseconds.
    pub(super) round_trip_ns: u64,
    /// Time in nanoseconds to drain the queues of all switches on the path, if they are full.
    queues_ns: u64,
}

impl PathFigures {
    /// Combines two paths: takes the worse value of each figure.
    pub(super) fn combine(self, other: PathFigures) -> PathFigures {
        PathFigures {
            rate_bps: self.rate_bps.min(other.rate_bps),
            round_trip_ns: self.round_trip_ns.max(other.round_trip_ns),
            queues_ns: self.queues_ns.max(other.queues_ns),
        }
    }
}

/// Share that one flow has of a link which several flows load.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinkShare {
    /// Number of packets that the flow may have on the link and in the link's queue.
    pub(super) packets: u64,
    /// Number of flows that load the link.
    pub(super) flows: u64,
    pub(super) rate_bps: u64,
}

impl LinkShare {
    /// Combines the shares of two links: takes the smaller share in each figure.
    pub(super) fn combine(self, other: LinkShare) -> LinkShare {
        LinkShare {
            packets: self.packets.min(other.packets),
            flows: self.flows.max(other.flows),
            rate_bps: self.rate_bps.min(other.rate_bps),
        }
    }
}
