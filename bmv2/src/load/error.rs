//! Why a program cannot be loaded.

use alfirk_bmv2_json::ReadError;

/// A BMv2 JSON program cannot be loaded. Nothing has changed in the switch.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The format's major version is another one.
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
    /// The program needs more than this switch provides.
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
