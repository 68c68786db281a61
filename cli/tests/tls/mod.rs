//! A certificate authority for tests, and the files that it has signed.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// Files of a certificate authority, a server and a client, all in a folder that ends with the test.
pub struct Authority(tempfile::TempDir);

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key can be made");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("it is signed");
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("it can be written");
        };
        write("ca.pem", &issuer.pem());
        for name in ["server", "client"] {
            let key = KeyPair::generate().expect("a key can be made");
            let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]);
            let cert = params.expect("it is an address").signed_by(&key, &issuer);
            write(&format!("{name}.pem"), &cert.expect("it is signed").pem());
            write(&format!("{name}.key"), &key.serialize_pem());
        }
        Authority(folder)
    }

    /// Returns the path of a file.
    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}
