//! Counters of a host.

use serde::{Deserialize, Serialize};

use crate::rc::Violations;
use crate::steady::StateVisitor;
use crate::wire::WireError;

/// Counters of a host. Bytes are counted from the Ethernet header on, without preamble and frame check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostStats {
    /// Frames sent.
    pub tx_frames: u64,
    /// Bytes of the frames sent.
    pub tx_bytes: u64,
    /// Frames received, including dropped ones.
    pub rx_frames: u64,
    /// Bytes of the frames received.
    pub rx_bytes: u64,
    /// Received frames that were dropped, by reason.
    pub drops: Drops,
    /// Packets that neither a correct peer nor a correct network sends: sum over all queue pairs of the host, including
    /// destroyed ones.
    #[serde(default)]
    pub violations: Violations,
}

impl HostStats {
    /// Visits all counters.
    pub(super) fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        let HostStats {
            tx_frames,
            tx_bytes,
            rx_frames,
            rx_bytes,
            drops,
            violations,
        } = self;
        visitor.counts([tx_frames, tx_bytes, rx_frames, rx_bytes]);
        visitor.counts(drops.counters_mut());
        visitor.counts(violations.counters_mut());
    }

    /// Number of received frames that a correct network would not deliver: the sum of [`Drops::implausible`] and of all
    /// [`Violations`]. Loss, duplication and reordering do not count.
    pub fn implausible(&self) -> u64 {
        self.drops.implausible() + self.violations.total()
    }
}

/// Received frames that were dropped without a reply, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Drops {
    /// Frames dropped because a header was invalid or truncated.
    pub malformed: u64,
    /// Frames dropped because the destination MAC or IP address was not one of this host's.
    pub not_for_us: u64,
    /// Frames dropped because the host does not handle their EtherType, IP protocol or UDP port.
    pub no_listener: u64,
    /// Frames dropped because the IPv4 header checksum was wrong.
    pub ip_checksum: u64,
    /// Frames dropped because the destination queue pair did not exist or was not connected.
    pub unknown_qp: u64,
    /// Frames dropped because the source address was not the remote address of the queue pair.
    pub wrong_source: u64,
    /// Frames dropped because the partition key was not the default one.
    pub wrong_pkey: u64,
    /// Frames dropped because the ICRC was wrong.
    pub icrc: u64,
    /// ARP requests dropped because the queue of ARP and UDP frames to send was full.
    #[serde(default)]
    pub arp_overload: u64,
}

/// Reason why a frame is dropped: one variant per field of [`Drops`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DropReason {
    Malformed,
    NotForUs,
    NoListener,
    IpChecksum,
    UnknownQp,
    WrongSource,
    WrongPkey,
    Icrc,
    ArpOverload,
}

impl From<WireError> for DropReason {
    fn from(_: WireError) -> DropReason {
        DropReason::Malformed
    }
}

impl Drops {
    pub(super) fn count(&mut self, reason: DropReason) {
        let counter = match reason {
            DropReason::Malformed => &mut self.malformed,
            DropReason::NotForUs => &mut self.not_for_us,
            DropReason::NoListener => &mut self.no_listener,
            DropReason::IpChecksum => &mut self.ip_checksum,
            DropReason::UnknownQp => &mut self.unknown_qp,
            DropReason::WrongSource => &mut self.wrong_source,
            DropReason::WrongPkey => &mut self.wrong_pkey,
            DropReason::Icrc => &mut self.icrc,
            DropReason::ArpOverload => &mut self.arp_overload,
        };
        *counter += 1;
    }

    /// All counters, in the order of their declaration.
    fn counters_mut(&mut self) -> [&mut u64; 9] {
        let Drops {
            malformed,
            not_for_us,
            no_listener,
            ip_checksum,
            unknown_qp,
            wrong_source,
            wrong_pkey,
            icrc,
            arp_overload,
        } = self;
        [
            malformed,
            not_for_us,
            no_listener,
            ip_checksum,
            unknown_qp,
            wrong_source,
            wrong_pkey,
            icrc,
            arp_overload,
        ]
    }

    /// Number of frames dropped, for all reasons together.
    pub fn total(&self) -> u64 {
        let mut all = *self;
        all.counters_mut().map(|count| *count).iter().sum()
    }

    /// Number of dropped frames that a correct network does not cause. Frames flooded by a switch, frames without a
    /// handler, and ARP requests in excess are not included.
    pub fn implausible(&self) -> u64 {
        self.total() - self.not_for_us - self.no_listener - self.arp_overload
    }
}
