//! Errors of jobs.

use alfirk_roce::collective::Algorithm;

use crate::fabric::FabricError;

/// Error of the run of one algorithm, which has no result.
#[derive(Debug, thiserror::Error)]
#[error("{algorithm}: {failure}")]
pub struct JobError {
    /// Algorithm of the failed run.
    pub algorithm: Algorithm,
    /// Reason of the failure.
    pub failure: JobFailure,
}

/// Reason why a run of one algorithm has no result.
#[derive(Debug, thiserror::Error)]
pub enum JobFailure {
    /// An operation of the fabric failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The transfer failed at a member.
    #[error("host {host}: {why}")]
    Member {
        /// Name of the member's host.
        host: String,
        /// Reason, from the member.
        why: String,
    },
    /// The setup or the transfer exceeded the job's time limit.
    #[error("{}", late(what, hosts, *seconds))]
    TimeLimit {
        /// The clause of the message that follows the names of the hosts that are late, such as `is not connected`.
        what: &'static str,
        /// Names of the hosts that are late.
        hosts: Vec<String>,
        /// Time limit that was exceeded, in seconds.
        seconds: f64,
    },
    /// More packets were acknowledged to the source than a receiver has received.
    #[error("{acknowledged} packets were acknowledged to {source_host}, but {host} has received {received} of them: a false acknowledgement")]
    FalseAcknowledgement {
        /// Name of the source's host.
        source_host: String,
        /// Name of the receiver that lacks acknowledged packets.
        host: String,
        /// Number of packets acknowledged to the source.
        acknowledged: u64,
        /// Number of packets that the receiver has received in order.
        received: u64,
    },
}

impl JobFailure {
    /// Returns the message of [`JobFailure::TimeLimit`]; `None` for other failures.
    pub(crate) fn late(&self) -> Option<String> {
        match self {
            JobFailure::TimeLimit {
                what,
                hosts,
                seconds,
                ..
            } => Some(late(what, hosts, *seconds)),
            _ => None,
        }
    }
}

fn late(what: &str, hosts: &[String], seconds: f64) -> String {
    let several = |what: &str| {
        let verbs = [("is ", "are "), ("has ", "have "), ("does ", "do ")];
        let verb = verbs.iter().find(|(one, _)| what.starts_with(one));
        verb.map(|(one, many)| what.replacen(one, many, 1))
    };
    let what = match hosts {
        [_] => what.to_owned(),
        _ => several(what).unwrap_or_else(|| what.to_owned()),
    };
    let hosts = hosts.join(", ");
    format!("{hosts} {what} within {seconds} s; raise --time-limit if that is too short")
}
