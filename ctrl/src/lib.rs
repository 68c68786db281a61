//! The control plane: topology, multicast trees, groups, P4Runtime client.
//!
//! [`controller::Controller`] is a state machine without I/O whose effects are P4Runtime messages; [`topology`],
//! [`tree`] and [`tables`] are the data structures that it uses. The `driver` feature adds the gRPC client that connects it
//! to real switches, and the service with which other programs register groups.

#![forbid(unsafe_code)]

pub mod bfrt;
#[cfg(feature = "driver")]
pub mod client;
pub mod constants;
pub mod controller;
pub mod ecn;
pub mod punt_limits;
pub mod strategy;
pub mod tables;
pub mod topology;
pub mod tree;

pub use controller::{Controller, ControllerConfig, Effect, Event};

#[cfg(feature = "driver")]
pub use client::{run, CtrlArgs, CtrlError, DryRun};
