//! Groups on RDMA devices: what `alfirk_roce` does over its own endpoint, over libibverbs.
//!
//! [`Device`] is a network card (or Linux rxe) as a host of `alfirk_roce::verbs`: collectives and registrations run on it unchanged.
//! It works with any RoCEv2 device whose driver libibverbs has. What it needs of the device: reliable connections, and a GID for
//! RoCEv2 over IPv4; and for multicast of datagrams the datagram service.
//!
//! [`group::Group`] is the end-host library: a group for a program of your own. `include/alfirk.h` is the same for C.

mod c_api;
mod counters;
mod datagrams;
mod device;
pub mod group;
mod memory;
mod queue_pair;
mod sys;
mod udp_ports;

pub use device::{Device, DeviceConfig, OpenError};
