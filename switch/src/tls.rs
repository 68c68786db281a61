//! TLS for the P4Runtime server, in builds that have it.

#[cfg(feature = "tls")]
mod files;

use std::path::PathBuf;

#[cfg(feature = "tls")]
pub use self::files::secure;
use super::SwitchError;

/// Files in PEM form, by the options of `simple_switch_grpc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// `--grpc-server-cert`: the server's certificate, and those between it and the CA's.
    pub cert: PathBuf,
    /// `--grpc-server-key`: its private key.
    pub key: PathBuf,
    /// `--grpc-server-cacert`, with `--grpc-server-with-client-auth`: whose certificates clients must have.
    pub clients: Option<PathBuf>,
}

/// What builds without TLS say to those who want it.
#[cfg(not(feature = "tls"))]
pub const NO_TLS: &str =
    "this alfirk was built without TLS, as `make quick` builds it; build it with `make build`";

/// Says that this build has no TLS.
///
/// # Errors
/// Always.
#[cfg(not(feature = "tls"))]
pub fn secure<T>(_server: T, _files: &TlsFiles) -> Result<T, SwitchError> {
    Err(SwitchError::Failed(NO_TLS.into()))
}
