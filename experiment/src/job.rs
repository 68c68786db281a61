//! One algorithm of the main job, from queue pairs to checked bytes. Pure orchestration: the same on every fabric.

pub(crate) mod error;
pub(crate) mod layout;
pub(crate) mod limits;
mod run;
pub(crate) mod spec;

pub use error::JobError;
pub use limits::{Limits, Processing, SendLimits};
pub use run::run_algorithm;
pub use spec::{Congestion, Job, Kill, Pace, Registration, SenderSettings};
