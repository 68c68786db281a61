//! Discrete-event simulator of RoCE fabrics with compiled P4 switches.
//!
//! The simulator reads no clock, opens no socket and uses no randomness of the system. A run is determined to the byte
//! by its topology, its input and its seed.
//!
//! - [`engine`]: virtual time, nodes, and links with rate, delay and seeded faults.
//! - [`network`]: a fabric of switches, hosts and a controller.
//! - [`VirtualFabric`]: such a network as a fabric of `alfirk-experiment`.
//! - [`DatagramGroup`]: multicast of datagrams on it, acknowledged up a binomial tree.
//! - [`capture`]: packet captures and text traces of a run.
//! - [`frame`]: classification of frames for counters and traces.

pub mod capture;
mod datagrams;
pub mod engine;
mod fabric;
pub mod frame;
pub mod network;

pub use datagrams::{Broadcast, DatagramGroup};
pub use fabric::{TakePasses, VirtualFabric};
