//! TLS settings of a connection to a switch: the client's certificate, and the certificate authority that it trusts.

use std::path::Path;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::{root_cause, TlsArgs};
use crate::exit::Failure;

/// Configures TLS for a connection. Only the certificate authority of the file `authority` is trusted.
pub fn secure(endpoint: Endpoint, args: &TlsArgs, authority: &Path) -> Result<Endpoint, Failure> {
    let mut tls = ClientTlsConfig::new();
    tls = tls.ca_certificate(Certificate::from_pem(read("--cacert", authority)?));
    if let (Some(cert), Some(key)) = (&args.cert, &args.key) {
        tls = tls.identity(Identity::from_pem(
            read("--cert", cert)?,
            read("--key", key)?,
        ));
    }
    endpoint.tls_config(tls).map_err(|error| {
        let why = root_cause(&error);
        Failure::bad_input(format_args!("--cacert, --cert, --key: {why}"))
    })
}

fn read(option: &str, path: &std::path::Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path)
        .map_err(|error| Failure::bad_input(format_args!("{option} {}: {error}", path.display())))
}
