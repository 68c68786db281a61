//! The main job: one message from one host to a group, by several algorithms, side by side.
//!
//! [`Fabric`] is what the job needs of a fabric; [`VirtualFabric`] is one in virtual time, and the command
//! line has one on Mininet. [`run_algorithm`] is the same on both. [`Report`] holds the results.

mod fabric;
mod job;
mod report;
mod virtual_fabric;

pub use fabric::{Fabric, FabricError, Traffic};
pub use job::{run_algorithm, Job, JobError};
pub use report::{goodput_gbps, GroupSummary, Input, Report, Row, Settings, TopologySummary};
pub use virtual_fabric::VirtualFabric;

pub use crate::network::MemberEvent;
