//! Errors of loading a program.

use alfirk_bmv2_json::ReadError;

/// Error of loading a BMv2 JSON program. The switch is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The format has another major version.
    #[error("format version {major}.{minor} is not supported; compile for version 2.x")]
    Version { major: u32, minor: u32 },
    #[error("{at}: there is no {what} named {name:?}")]
    Undefined {
        at: String,
        what: &'static str,
        name: String,
    },
    #[error("two {what}s are named {name:?}")]
    Duplicate { what: &'static str, name: String },
    #[error("{at}: {why}")]
    Invalid { at: String, why: String },
    /// The program exceeds a limit of this switch.
    #[error("{what}: the program needs {need}, the limit is {limit}")]
    TooLarge {
        what: &'static str,
        need: u64,
        limit: u64,
    },
}

impl LoadError {
    pub(crate) fn invalid(at: impl Into<String>, why: impl Into<String>) -> LoadError {
        LoadError::Invalid {
            at: at.into(),
            why: why.into(),
        }
    }
}
