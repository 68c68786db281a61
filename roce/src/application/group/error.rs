//! Errors of a group's member.

use crate::rc::{MemoryError, ModifyError, PostError, QpFailure};

/// Reason why a call on a group has failed. Except after [`GroupError::Argument`], the group cannot be used any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The arguments are not valid; the call had no effect.
    #[error("{0}")]
    Argument(String),
    /// The fabric does not multicast, and the settings have no fallback; holds the reason.
    #[error("the group is not registered: {0}")]
    NotRegistered(String),
    /// The host or the remote end has rejected an operation, or it has failed.
    #[error("{0}")]
    Verbs(String),
    /// This member is no longer in the group; holds the reason.
    #[error("the group has ended: {0}")]
    Over(String),
}

pub(super) type Result<T> = std::result::Result<T, GroupError>;

impl GroupError {
    /// Creates the error of a group that this member is no longer in.
    pub(super) fn over(why: impl Into<String>) -> GroupError {
        GroupError::Over(why.into())
    }
}

impl From<ModifyError> for GroupError {
    fn from(error: ModifyError) -> GroupError {
        GroupError::Verbs(error.to_string())
    }
}

impl From<PostError> for GroupError {
    fn from(error: PostError) -> GroupError {
        GroupError::Verbs(error.to_string())
    }
}

impl From<MemoryError> for GroupError {
    fn from(error: MemoryError) -> GroupError {
        GroupError::Verbs(error.to_string())
    }
}

impl From<QpFailure> for GroupError {
    fn from(failure: QpFailure) -> GroupError {
        GroupError::Verbs(failure.to_string())
    }
}
