//! Named streams of random numbers.
//!
//! A run has one seed. Every random part derives its own stream from that seed and a name, so no two parts share numbers or affect each
//! other.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// Creates the random number generator of the stream `name`, in a run with this seed.
pub fn stream(seed: u64, name: &str) -> ChaCha8Rng {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    hash.update(name.as_bytes());
    ChaCha8Rng::from_seed(hash.finalize().into())
}

/// Returns the first number of the random stream `name`, as the seed of another generator.
pub fn seed(seed: u64, name: &str) -> u64 {
    stream(seed, name).next_u64()
}

/// Returns the first `len` bytes of the random stream `name`.
pub fn bytes(seed: u64, name: &str, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream(seed, name).fill_bytes(&mut bytes);
    bytes
}

/// As [`bytes`], reference-counted. They are created in place, because a message may be large.
pub fn shared_bytes(seed: u64, name: &str, len: usize) -> Arc<[u8]> {
    let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, len).collect();
    if let Some(bytes) = Arc::get_mut(&mut bytes) {
        stream(seed, name).fill_bytes(bytes);
    }
    bytes
}
