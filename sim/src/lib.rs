//! A discrete-event simulator of RoCE fabrics made of compiled P4 switches.
//!
//! Nothing here reads a clock, opens a socket or asks the system for randomness: a run is a function of
//! its topology, its input and its seed, to the byte.
//!
//! * [`engine`]: virtual time, links with rate, delay and seeded faults, and nodes behind a trait.
//! * [`network`]: a whole fabric of switches, hosts and controller.
//! * [`VirtualFabric`]: the network as a fabric of `alfirk-experiment`.
//! * [`DatagramGroup`]: multicast by datagrams that are acknowledged up a binomial tree, on it.
//! * [`capture`]: packet captures and text traces of a run.
//! * [`frame`]: what a frame is, for counters and traces.

// Some public items have no documentation yet, most of them fields and variants.

pub mod capture;
mod datagrams;
pub mod engine;
mod fabric;
pub mod frame;
pub mod network;

pub use datagrams::{Broadcast, DatagramGroup};
pub use fabric::VirtualFabric;
