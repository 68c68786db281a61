//! The main job: one message from one host to a group, by several algorithms, side by side.
//!
//! [`Fabric`] is what the job needs of a fabric; [`VirtualFabric`] is one in virtual time, and the command
//! line has one on Mininet. [`run_algorithm`] is the same on both. [`Report`] holds the results.

mod fabric;
pub mod in_band;
mod incidents;
mod job;
mod outages;
mod report;
mod safeguard;
mod virtual_fabric;

pub use fabric::{Fabric, FabricError, News, Traffic, Victim};
pub use job::{run_algorithm, Congestion, Job, JobError, Kill, Registration};
pub use outages::Outage;
pub use report::{
    goodput_gbps, Change, Failure, Fallback, GroupSummary, Input, PartRow, Report, Row, Settings,
    TopologySummary,
};
pub use safeguard::{Decision, LowGoodput, Safeguard, SafeguardConfig};
pub use virtual_fabric::VirtualFabric;

pub use crate::network::MemberEvent;
