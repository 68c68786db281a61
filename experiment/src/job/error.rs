//! Errors of jobs.

use alfirk_roce::collective::Algorithm;

use crate::fabric::FabricError;

/// Why an algorithm has no result.
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
    #[error("{algorithm}: {}", late(what, hosts, *seconds))]
    TimeLimit {
        algorithm: Algorithm,
        what: &'static str,
        hosts: Vec<String>,
        seconds: f64,
    },
    #[error("{algorithm}: {acknowledged} packets were acknowledged to {source_host}, but {host} has received {received} of them: a false acknowledgement")]
    FalseAcknowledgement {
        algorithm: Algorithm,
        source_host: String,
        host: String,
        acknowledged: u64,
        received: u64,
    },
}

impl JobError {
    /// The timeout's message without the algorithm; `None` for other errors.
    pub(crate) fn late(&self) -> Option<String> {
        match self {
            JobError::TimeLimit {
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
