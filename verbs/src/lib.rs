//! Groups on RDMA devices: `alfirk_roce` over libibverbs in place of its own endpoint.
//!
//! [`Device`] makes a network card (or Linux rxe) a host as `alfirk_roce::verbs` defines it. Collectives and
//! registrations run on it unchanged. It works with any RoCEv2 device that libibverbs supports. The device needs
//! reliable connections, and a GID for RoCEv2 over IPv4. Multicast of datagrams also needs the UD service.
//!
//! [`group::Group`] is the end-host library, for groups in any program. `include/alfirk.h` is its C interface.

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
