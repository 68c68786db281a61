//! SHA-256 digests of the data of a transfer.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, displayed and parsed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The SHA-256 of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }
}

/// Data that several receivers in one process should receive. It is hashed once; a receiver that compares its data with
/// it need not hash its own.
#[derive(Debug)]
pub struct ExpectedData {
    data: Arc<[u8]>,
    sha256: OnceLock<Digest>,
}

impl ExpectedData {
    /// Stores the data, which is hashed on first use.
    pub fn new(data: Arc<[u8]>) -> ExpectedData {
        ExpectedData {
            data,
            sha256: OnceLock::new(),
        }
    }

    /// The expected data.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.data
    }

    /// SHA-256 of the expected data.
    pub fn sha256(&self) -> Digest {
        *self.sha256.get_or_init(|| Digest::of(&self.data))
    }

    /// SHA-256 of `bytes`. If they equal the expected data, the stored digest is returned.
    pub fn digest_of(&self, bytes: &[u8]) -> Digest {
        if std::ptr::eq(&*self.data, bytes) || *self.data == *bytes {
            self.sha256()
        } else {
            Digest::of(bytes)
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error: a text that is not a SHA-256 digest of 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a SHA-256 digest: expected 64 hexadecimal digits")]
pub struct BadDigest(pub String);

impl FromStr for Digest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Digest, BadDigest> {
        let bad = || BadDigest(text.to_owned());
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let mut digest = [0; 32];
        for (i, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| bad())?;
        }
        Ok(Digest(digest))
    }
}

impl TryFrom<String> for Digest {
    type Error = BadDigest;
    fn try_from(text: String) -> Result<Digest, BadDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_and_different_bytes_get_their_own_digests() {
        let original = ExpectedData::new(Arc::from(&b"hello"[..]));
        for bytes in [&b"hello"[..], b"hellO", b"hell", b"", b"hello"] {
            assert_eq!(original.digest_of(bytes), Digest::of(bytes));
        }
    }
}
