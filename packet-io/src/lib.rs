//! Packet I/O: frames of an interface, time, emulated links and captures.
//!
//! Used by switch, host, STF and simulator, on none of which it depends. Without the feature `driver` it is pure: frame lengths on a
//! link ([`wire`]), frames that share bytes ([`frame`]), emulated links ([`link`]), deliberate loss ([`loss_filter`]), and the format of
//! captures ([`pcap`]). The feature adds packet sockets, epoll, netlink, clocks and files.

// Some public items have no documentation yet, most of them fields and variants.
#![allow(missing_docs)]

pub mod frame;
pub mod link;
pub mod loss_filter;
pub mod pcap;
pub mod wire;

#[cfg(feature = "driver")]
mod clock;
#[cfg(feature = "driver")]
mod gso;
#[cfg(feature = "driver")]
mod offload;
#[cfg(feature = "driver")]
mod outlet;
#[cfg(feature = "driver")]
mod pcap_file;
#[cfg(feature = "driver")]
mod poller;
#[cfg(feature = "driver")]
mod ring;
#[cfg(feature = "driver")]
mod socket;
#[cfg(feature = "driver")]
mod sys;
#[cfg(feature = "driver")]
mod watch;

#[cfg(feature = "driver")]
pub use self::{
    clock::{monotonic, wall_clock, Clock},
    outlet::{Outlet, SendOutcome},
    pcap_file::PcapFile,
    poller::Poller,
    socket::{interface_index, PacketSocket, ReceiveBatch, TakeOutcome},
    sys::BATCH,
    watch::{LinkChange, LinkWatch},
};
