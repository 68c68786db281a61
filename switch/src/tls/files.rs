//! TLS configuration of the P4Runtime server. The PEM files are checked before anything is started.

use std::{error::Error, fs, path::Path, time::Duration};

use rustls_pki_types::{pem::PemObject, CertificateDer, PrivateKeyDer};
use tonic::transport::{server::Server, Certificate, Identity, ServerTlsConfig};

use super::{SwitchError, TlsFiles};

/// Time limit for the TLS handshake of a client.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Configures a server to accept only TLS connections.
///
/// # Errors
/// `BadInput` for a missing or invalid file, and for a certificate and key that do not match.
pub fn with_tls(server: Server, files: &TlsFiles) -> Result<Server, SwitchError> {
    let cert = certificates("--grpc-server-cert", &files.cert)?;
    let key = read("--grpc-server-key", &files.key)?;
    if let Err(error) = PrivateKeyDer::from_pem_slice(&key) {
        return Err(bad(
            "--grpc-server-key",
            &files.key,
            format!("contains no private key in PEM format without a password ({error})"),
        ));
    }
    let mut config = ServerTlsConfig::new()
        .identity(Identity::from_pem(cert, key))
        .timeout(HANDSHAKE_TIMEOUT);
    if let Some(path) = &files.clients {
        let authority = certificates("--grpc-server-cacert", path)?;
        config = config.client_ca_root(Certificate::from_pem(authority));
    }
    server.tls_config(config).map_err(|error| {
        let mut innermost: &dyn Error = &error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        SwitchError::BadInput(format!(
            "--grpc-server-cert {}, --grpc-server-key {}: {innermost}",
            files.cert.display(),
            files.key.display()
        ))
    })
}

/// Reads a PEM file, which must contain at least one certificate.
fn certificates(option: &str, path: &Path) -> Result<Vec<u8>, SwitchError> {
    let text = read(option, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(text),
        Ok(_) => Err(bad(
            option,
            path,
            "contains no certificate in PEM format".into(),
        )),
        Err(error) => Err(bad(option, path, format!("not a PEM file: {error}"))),
    }
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>, SwitchError> {
    fs::read(path).map_err(|error| bad(option, path, error.to_string()))
}

fn bad(option: &str, path: &Path, why: String) -> SwitchError {
    SwitchError::BadInput(format!("{option} {}: {why}", path.display()))
}
