//! Why a job fails.

use alfirk_roce::collective::Algorithm;

use crate::fabric::FabricError;

/// Why an algorithm gave no result.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("{algorithm}: {error}")]
    Fabric {
        algorithm: Algorithm,
        error: FabricError,
    },
    #[error("{algorithm}: host {host}: {why}")]
    Member {
        algorithm: Algorithm,
        host: String,
        why: String,
    },
    #[error("{algorithm}: {} {what} within {seconds} s; raise --time-limit if that is too short", hosts.join(", "))]
    TimeLimit {
        algorithm: Algorithm,
        what: &'static str,
        hosts: Vec<String>,
        seconds: f64,
    },
}
