//! TLS of the P4Runtime server: accepted clients, and errors about invalid files.

use std::{fs, path::PathBuf};

use alfirk_p4runtime::p4::v1::{p4_runtime_client::P4RuntimeClient, CapabilitiesRequest};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

use crate::process::{Controller, Process};

/// A certificate authority and the files it has signed.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = Authority {
            issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        };
        authority.write("ca.pem", &authority.issuer.pem());
        let (cert, key) = authority.sign();
        authority.write("server.pem", &cert);
        authority.write("server.key", &key);
        authority
    }

    /// Returns a certificate for this machine, and its key.
    fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        (cert.pem(), key.serialize_pem())
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the options for files of these names.
    fn options(&self, cert: &str, key: &str) -> Vec<String> {
        let path = |name: &str| self.path(name).display().to_string();
        let words = [
            "--grpc-server-ssl",
            "--grpc-server-cert",
            &path(cert),
            "--grpc-server-key",
            &path(key),
        ];
        words.map(str::to_owned).to_vec()
    }

    /// Returns the client options that trust this authority.
    fn trusted(&self) -> ClientTlsConfig {
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(self.issuer.pem()))
    }
}

async fn connect(process: &Process, tls: ClientTlsConfig) -> Result<Channel, String> {
    let endpoint = Channel::from_shared(format!("https://{}", process.address())).unwrap();
    let endpoint = endpoint
        .tls_config(tls)
        .map_err(|error| error.to_string())?;
    endpoint.connect().await.map_err(|error| error.to_string())
}

/// Returns whether a client gets a reply. In TLS 1.3, a server rejects a client after the connection is established.
async fn is_answered(process: &Process, tls: ClientTlsConfig) -> bool {
    let Ok(channel) = connect(process, tls).await else {
        return false;
    };
    let mut client = P4RuntimeClient::new(channel);
    let request = CapabilitiesRequest::default();
    client.capabilities(request).await.is_ok()
}

pub fn clients_that_trust_the_authority_are_served() {
    let authority = Authority::new();
    let process = Process::start_with(&[], &authority.options("server.pem", "server.key"));
    Runtime::new().unwrap().block_on(async {
        let channel = connect(&process, authority.trusted()).await.unwrap();
        Controller::over(channel).await;

        assert!(!is_answered(&process, Authority::new().trusted()).await);
        let plain = format!("http://{}", process.address());
        let plain = async {
            let mut client = P4RuntimeClient::connect(plain).await.ok()?;
            client
                .capabilities(CapabilitiesRequest::default())
                .await
                .ok()
        };
        assert!(plain.await.is_none(), "there is no plain text beside it");
    });
    process.stop();
}

pub fn clients_without_a_required_certificate_are_rejected() {
    let authority = Authority::new();
    let mut options = authority.options("server.pem", "server.key");
    options.push("--grpc-server-with-client-auth".into());
    options.push("--grpc-server-cacert".into());
    options.push(authority.path("ca.pem").display().to_string());
    let process = Process::start_with(&[], &options);
    let with = |(cert, key): (String, String)| {
        let identity = Identity::from_pem(cert, key);
        authority.trusted().identity(identity)
    };
    Runtime::new().unwrap().block_on(async {
        assert!(is_answered(&process, with(authority.sign())).await);
        assert!(!is_answered(&process, authority.trusted()).await);
        assert!(!is_answered(&process, with(Authority::new().sign())).await);
        // Rejected clients do not affect others.
        assert!(is_answered(&process, with(authority.sign())).await);
    });
    process.stop();
}

pub fn errors_of_tls_files_name_the_file() {
    let authority = Authority::new();
    authority.write("empty.pem", "");
    authority.write("cut.pem", "-----BEGIN CERTIFICATE-----\nAAAA");
    let (_, stranger) = Authority::new().sign();
    authority.write("stranger.key", &stranger);
    let refused = |options: Vec<String>, file: &str, why: &str| {
        let (status, output) = Process::fail_with(&[], &options);
        assert_eq!(status, Some(2), "{output}");
        let find_table = authority.path(file).display().to_string();
        assert!(
            output.contains(&find_table) && output.contains(why),
            "{output}"
        );
    };
    let options = |cert, key| authority.options(cert, key);
    refused(options("no.pem", "server.key"), "no.pem", "No such file");
    refused(
        options("server.pem", "no.key"),
        "no.key",
        "--grpc-server-key",
    );
    refused(
        options("empty.pem", "server.key"),
        "empty.pem",
        "no certificate",
    );
    refused(
        options("cut.pem", "server.key"),
        "cut.pem",
        "not a PEM file",
    );
    refused(
        options("server.pem", "server.pem"),
        "server.pem",
        "no private key",
    );
    refused(
        options("server.pem", "stranger.key"),
        "stranger.key",
        "KeyMismatch",
    );
    let mut mutual = options("server.pem", "server.key");
    mutual.push("--grpc-server-with-client-auth".into());
    mutual.push("--grpc-server-cacert".into());
    mutual.push(authority.path("empty.pem").display().to_string());
    refused(mutual, "empty.pem", "--grpc-server-cacert");
}
