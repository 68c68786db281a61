//! Errors of loading a program.

use alfirk_bmv2_json::ReadError;

/// Error of loading a BMv2 JSON program. The switch is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The text is not BMv2 JSON.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file has another major version of the format.
    #[error("format version {major}.{minor} is not supported; compile for version 2.x")]
    Version {
        /// Major version in the file.
        major: u32,
        /// Minor version in the file.
        minor: u32,
    },
    /// A name refers to an object that the program does not have.
    #[error("{at}: there is no {what} named {name:?}")]
    Undefined {
        /// Object with the reference, such as `table MyIngress.t`.
        at: String,
        /// Kind of the missing object.
        what: &'static str,
        /// Name of the missing object.
        name: String,
    },
    /// Two objects of one kind have the same name.
    #[error("two {what}s are named {name:?}")]
    Duplicate {
        /// Kind of the two objects, such as `table`.
        what: &'static str,
        /// Name that both objects have.
        name: String,
    },
    /// An object is malformed, or has a property that this switch does not support.
    #[error("{at}: {why}")]
    Invalid {
        /// The object, such as `table MyIngress.t`.
        at: String,
        /// Description of the error.
        why: String,
    },
    /// The program exceeds a limit of this switch.
    #[error("{what}: the program needs {need}, the limit is {limit}")]
    TooLarge {
        /// Kind of the limited objects.
        what: &'static str,
        /// Number of such objects in the program.
        need: u64,
        /// Maximum number of such objects.
        limit: u64,
    },
}

impl LoadError {
    /// Creates the error for a malformed or unsupported object `at`.
    pub(crate) fn invalid(at: impl Into<String>, why: impl Into<String>) -> LoadError {
        LoadError::Invalid {
            at: at.into(),
            why: why.into(),
        }
    }
}
