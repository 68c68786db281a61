//! Groups on RDMA devices: what `alfirk_roce` does over its own endpoint, over libibverbs.
//!
//! [`Device`] is a network card (or Linux rxe) as a host of `alfirk_roce::verbs`: collectives and registrations run on it unchanged.
//! It works with any RoCEv2 device whose driver libibverbs has. What it needs of the device: reliable connections, and a GID for
//! RoCEv2 over IPv4.

mod counters;
mod device;
mod memory;
mod queue_pair;
mod sys;

pub use device::{Device, DeviceConfig, OpenError};
