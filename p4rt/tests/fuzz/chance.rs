//! Reproducible random choices.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Random generator of one case.
pub struct Chance {
    random: ChaCha8Rng,
    /// Number of the case.
    pub seed: u64,
}

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance {
            random: ChaCha8Rng::seed_from_u64(seed),
            seed,
        }
    }

    pub fn number(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// Returns a number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }

    /// Returns true with probability 1 in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Returns a number that is typical of programs and clients: small, at a limit of a range, or arbitrary.
    pub fn edgy(&mut self) -> u64 {
        match self.below(6) {
            0 => self.below(4) as u64,
            1 => self.below(1000) as u64,
            2 => 1 << self.below(64),
            3 => (1 << self.below(64)) - 1,
            4 => u64::MAX - self.below(3) as u64,
            _ => self.number(),
        }
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    /// Changes a few bytes.
    pub fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(16)).min(bytes.len());
            match self.below(6) {
                0 => {
                    bytes.drain(at..end);
                }
                1 => {
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
                2 => {
                    let len = self.below(9);
                    let new = self.bytes(len);
                    bytes.splice(at..end, new);
                }
                3 => {
                    let value = *self.pick(&[0, 1, 0x7f, 0x80, 0xff]);
                    bytes[at..end].fill(value);
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << (self.number() % 8);
                    }
                }
            }
        }
    }
}
