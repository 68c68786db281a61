//! TLS for the P4Runtime server (a build feature).

#[cfg(feature = "tls")]
mod files;

use std::path::PathBuf;

#[cfg(feature = "tls")]
pub use self::files::secure;
use super::SwitchError;

/// PEM files, named by the options of `simple_switch_grpc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// `--grpc-server-cert`: the server's certificate with the intermediate ones.
    pub cert: PathBuf,
    /// `--grpc-server-key`: the server's private key.
    pub key: PathBuf,
    /// `--grpc-server-cacert` with `--grpc-server-with-client-auth`: the CA of required client certificates; `None` if clients
    /// need no certificate.
    pub clients: Option<PathBuf>,
}

/// Message of builds without TLS.
#[cfg(not(feature = "tls"))]
pub const NO_TLS: &str =
    "this alfirk was built without TLS, as `make quick` builds it; build it with `make build`";

/// Reports that this build has no TLS.
///
/// # Errors
/// Always.
#[cfg(not(feature = "tls"))]
pub fn secure<T>(_server: T, _files: &TlsFiles) -> Result<T, SwitchError> {
    Err(SwitchError::Failed(NO_TLS.into()))
}
