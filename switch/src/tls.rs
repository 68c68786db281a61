//! TLS for the P4Runtime server, which is an optional feature of the build.

#[cfg(feature = "tls")]
mod files;

use std::path::PathBuf;

#[cfg(feature = "tls")]
pub use self::files::with_tls;
use super::SwitchError;

/// PEM files for TLS, which options of `simple_switch_grpc` name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// `--grpc-server-cert`: the server's certificate, followed by intermediate certificates.
    pub cert: PathBuf,
    /// `--grpc-server-key`: the server's private key.
    pub key: PathBuf,
    /// `--grpc-server-cacert`, with `--grpc-server-with-client-auth`: certificate authority that must have signed the
    /// certificates of clients; `None` if clients need no certificate.
    pub clients: Option<PathBuf>,
}

/// Error message of a build without TLS.
#[cfg(not(feature = "tls"))]
pub const NO_TLS: &str =
    "this alfirk was built without TLS, as `make quick` builds it; build it with `make build`";

/// Returns the error that this build has no TLS.
///
/// # Errors
/// Always.
#[cfg(not(feature = "tls"))]
pub fn with_tls<T>(_server: T, _files: &TlsFiles) -> Result<T, SwitchError> {
    Err(SwitchError::Failed(NO_TLS.into()))
}
