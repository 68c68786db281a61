//! Runs one algorithm of a job, from the creation of queue pairs to the check of received bytes, on any fabric.

pub(crate) mod error;
pub(crate) mod layout;
pub(crate) mod limits;
mod run;
pub(crate) mod spec;

pub use error::{JobError, JobFailure};
pub use limits::{Limits, ProcessingTimes, SendLimits};
pub use run::run_algorithm;
pub use spec::{Congestion, Job, Kill, Pace, Registration, SenderSettings};
