//! Jobs: one message from one host to a group of hosts, by several algorithms, with comparable results.
//!
//! [`Fabric`] is the interface to a fabric: `sim` implements it in virtual time, and the command line on Mininet. [`run_algorithm`]
//! is the same on both. [`Report`] holds the results.
//!
//! Nothing here reads a clock or the system's randomness: random numbers come from named [`stream`]s of the run's seed.

mod changes;
mod fabric;
pub mod in_band;
mod incidents;
mod job;
mod machines;
mod report;
mod safeguard;
pub mod stream;
pub mod workload;

pub use alfirk_roce::application::{MemberEvent, TransferId};
pub use changes::{LossInterval, Suspension};
pub use fabric::{
    Fabric, FabricError, FlowControl, GroupChange, PausedLink, SharedFabric, Traffic, Victim,
};
pub use job::{
    run_algorithm, Congestion, Job, JobError, JobFailure, Kill, Limits, Pace, ProcessingTimes,
    Registration, SendLimits, SenderSettings,
};
pub use machines::{MachineSummary, MachinesSummary};
pub use report::{
    aligned, duration, goodput_gbps, Change, ClockSummary, Failure, Fallback, GroupSummary, Input,
    LoadSummary, PartRow, Report, Row, Settings, TopologySummary, WorkloadSummary,
};
pub use safeguard::{Decision, LowGoodput, Safeguard, SafeguardConfig};
pub use workload::run_workload;
