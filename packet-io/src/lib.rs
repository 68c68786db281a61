//! Packet I/O: frames of network interfaces, clocks, emulated links and packet captures.
//!
//! Switch, host, STF and simulator use this crate, which depends on none of them. Without the feature `driver` it
//! is pure:
//! - [`wire`]: lengths of frames on a link,
//! - [`frame`]: frames that share bytes,
//! - [`link`] and [`loss_filter`]: emulated links and deliberate loss,
//! - [`pcap`] and [`pcapng`]: the formats of captures.
//!
//! The feature adds packet sockets, epoll, netlink, clocks and files.

pub mod frame;
pub mod link;
pub mod loss_filter;
pub mod pcap;
pub mod pcapng;
pub mod wire;

#[cfg(feature = "driver")]
mod clock;
#[cfg(feature = "driver")]
mod frame_sender;
#[cfg(feature = "driver")]
mod gso;
#[cfg(feature = "driver")]
mod mapping;
#[cfg(feature = "driver")]
mod offload;
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
mod xdp_ring;
#[cfg(feature = "driver")]
mod xdp_sender;

#[cfg(feature = "driver")]
pub use self::{
    clock::{monotonic, wall_clock, Clock},
    frame_sender::{FrameSender, SendOutcome, SendSocket},
    pcap_file::PcapFile,
    poller::Poller,
    socket::{interface_index, PacketSocket, ReceiveBatch, TakeOutcome},
    sys::BATCH,
    watch::{LinkChange, LinkWatch},
};
