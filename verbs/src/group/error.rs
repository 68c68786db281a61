//! Errors of calls on groups.

use std::io;

use alfirk_roce::application::group;
use alfirk_roce::rc::MemoryError;

use crate::device::OpenError;

/// Reason why a call on a group has failed. Except after [`GroupError::Argument`], the group cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The RDMA device cannot be used.
    #[error(transparent)]
    Device(#[from] OpenError),
    /// The arguments are not valid; the call had no effect.
    #[error("{0}")]
    Argument(String),
    /// The TCP connection to the leader or to a member has failed.
    #[error("{what}: {error}")]
    Connection {
        /// The peer of the connection, or the action that has failed.
        what: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The time limit was exceeded; holds what the call was waiting for.
    #[error("timeout: {0}")]
    Timeout(&'static str),
    /// The fabric does not multicast, and the configuration has no fallback; holds the reason.
    #[error("the group is not registered: {0}")]
    NotRegistered(String),
    /// The device or the remote end has rejected an operation, or it has failed.
    #[error("{0}")]
    Verbs(String),
    /// This member is no longer in the group; holds the reason.
    #[error("the group has ended: {0}")]
    Over(String),
}

pub(super) type Result<T> = std::result::Result<T, GroupError>;

impl From<group::GroupError> for GroupError {
    fn from(error: group::GroupError) -> GroupError {
        match error {
            group::GroupError::Argument(text) => GroupError::Argument(text),
            group::GroupError::NotRegistered(why) => GroupError::NotRegistered(why),
            group::GroupError::Verbs(text) => GroupError::Verbs(text),
            group::GroupError::Over(why) => GroupError::Over(why),
        }
    }
}

impl From<MemoryError> for GroupError {
    fn from(error: MemoryError) -> GroupError {
        group::GroupError::from(error).into()
    }
}
