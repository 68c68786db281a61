//! Streams of random numbers, each named.
//!
//! A run has one seed; everything that needs chance derives its own stream from that seed and a name,
//! so that no two parts of a run share numbers and none can disturb another's.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// The stream called `name` of the run seeded with `seed`.
pub fn stream(seed: u64, name: &str) -> ChaCha8Rng {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    hash.update(name.as_bytes());
    ChaCha8Rng::from_seed(hash.finalize().into())
}

/// The first number of the stream called `name`: a seed for a part that wants one.
pub fn seed(seed: u64, name: &str) -> u64 {
    stream(seed, name).next_u64()
}

/// The first `len` bytes of the stream called `name`.
pub fn bytes(seed: u64, name: &str, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream(seed, name).fill_bytes(&mut bytes);
    bytes
}
