//! Counters of a host.

use serde::{Deserialize, Serialize};

use crate::rc::Violations;
use crate::wire::WireError;

/// Frames and bytes, Ethernet header included, without preamble and frame check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostStats {
    pub tx_frames: u64,
    pub tx_bytes: u64,
    pub rx_frames: u64,
    pub rx_bytes: u64,
    pub drops: Drops,
    /// Packets that reached a queue pair and that neither a correct peer nor a correct fabric sends, over all queue pairs
    /// that the host has had.
    #[serde(default)]
    pub violations: Violations,
}

impl HostStats {
    /// How many frames came that no correct fabric delivers: everything that [`Drops::implausible`] and [`Violations`] count.
    /// Loss, duplication and reordering do not raise it.
    pub fn implausible(&self) -> u64 {
        self.drops.implausible() + self.violations.total()
    }
}

/// Frames that were dropped on arrival, by reason. Nothing is answered to any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Drops {
    /// A header could not be read.
    pub malformed: u64,
    /// The destination MAC or IP address is another station's.
    pub not_for_us: u64,
    /// The EtherType, IP protocol or UDP port is nothing we listen to.
    pub no_listener: u64,
    /// The IPv4 header checksum is wrong.
    pub ip_checksum: u64,
    /// The destination queue pair does not exist or is not connected.
    pub unknown_qp: u64,
    /// The source address is not the remote address of the queue pair.
    pub wrong_source: u64,
    /// The partition key is not the default one.
    pub wrong_pkey: u64,
    /// The ICRC is wrong.
    pub icrc: u64,
    /// ARP requests that found the table of neighbours or the queue of answers full.
    #[serde(default)]
    pub arp_overload: u64,
}

/// Why a frame is dropped; see the fields of [`Drops`].
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

    /// All of them.
    pub fn total(&self) -> u64 {
        self.malformed
            + self.not_for_us
            + self.no_listener
            + self.ip_checksum
            + self.unknown_qp
            + self.wrong_source
            + self.wrong_pkey
            + self.icrc
            + self.arp_overload
    }

    /// Those that a fabric which delivers right packets to right hosts does not bring about. (A switch that floods frames to
    /// everybody is right, and so is a host that floods a switch with requests.)
    pub fn implausible(&self) -> u64 {
        self.total() - self.not_for_us - self.no_listener - self.arp_overload
    }
}
