//! What any program needs that is on a wire: frames of an interface, time, emulated links and captures.
//!
//! Switch, host, STF and simulator stand on it, and it knows none of them. Without the feature `driver` it is pure: how
//! long a frame is on a link ([`wire`]), how copies of it share bytes ([`frame`]), what an emulated link does to it
//! ([`link`]), which frames are lost on purpose ([`chosen`]), and the format of captures ([`pcap`]). With it come packet
//! sockets, epoll, netlink, clocks and files.

pub mod chosen;
pub mod frame;
pub mod link;
pub mod pcap;
pub mod wire;

#[cfg(feature = "driver")]
mod clock;
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
mod train;
#[cfg(feature = "driver")]
mod watch;

#[cfg(feature = "driver")]
pub use self::{
    clock::{monotonic, wall_clock, Clock},
    outlet::{Outlet, Sent},
    pcap_file::PcapFile,
    poller::Poller,
    socket::{interface_index, PacketSocket, ReceiveBatch, Taken},
    sys::BATCH,
    watch::{LinkNews, LinkWatch},
};
