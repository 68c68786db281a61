//! Execution of calculations: hashes and checksums over a packet's fields.

use super::headers;
use super::join::{Join, SLACK};
use crate::externs::hash::{crc, fold, hash_bytes, sum_bytes, Algorithm, BitBuffer, HashState};
use crate::externs::random::Random;
use crate::frame::Rest;
use crate::program::{Calculation, Input, JoinedInputs, Layout};

/// Maximum number of packets' inputs that the hash algorithm `round_robin_consistent` stores.
const MAX_SEEN: usize = 1 << 20;

impl JoinedInputs {
    #[inline]
    fn applies(&self, phv: &[u64]) -> bool {
        self.valid.iter().all(|&valid| phv[usize::from(valid)] != 0)
    }
}

impl Calculation {
    /// Computes the hash or checksum of the packet's fields and, if it is an input, of the payload.
    pub(crate) fn output(
        &self,
        layout: &Layout,
        phv: &[u64],
        rest: Rest,
        buffer: &mut BitBuffer,
        state: &mut HashState,
        random: &mut Random,
    ) -> u64 {
        match self.algorithm {
            Algorithm::Random => return random.next(),
            Algorithm::RoundRobin => {
                state.next = state.next.wrapping_add(1);
                return state.next.wrapping_sub(1);
            }
            _ => {}
        }
        let joined = self.joined.as_ref().filter(|joined| joined.applies(phv));
        buffer.clear();
        match joined {
            Some(joined) if self.algorithm == Algorithm::Csum16 => {
                return self.csum_of_joined(&joined.join, phv, rest);
            }
            Some(JoinedInputs { join, .. }) => {
                buffer.bytes.resize(join.bytes() + SLACK, 0);
                join.write(phv, &mut buffer.bytes);
                buffer.bytes.truncate(join.bytes());
            }
            None => {
                self.join(layout, phv, buffer);
                buffer.finish();
            }
        }
        if self.payload {
            buffer.bytes.extend_from_slice(rest.bytes());
        }
        let bytes = buffer.finish();
        match self.algorithm {
            Algorithm::RoundRobinConsistent => match state.seen.get(bytes) {
                Some(&value) => value,
                None => {
                    let value = state.next;
                    state.next = state.next.wrapping_add(1);
                    if state.seen.len() < MAX_SEEN {
                        state.seen.insert(bytes.to_vec(), value);
                    }
                    value
                }
            },
            Algorithm::Custom(own) => crc(&state.crc.unwrap_or(own), bytes),
            algorithm => hash_bytes(algorithm, bytes),
        }
    }

    /// Returns the plan for concatenating the inputs, if [`Calculation::hash_joined`] supports the algorithm.
    #[cfg(feature = "jit")]
    pub(crate) fn joined_statelessly(&self) -> Option<&JoinedInputs> {
        let is_supported = match self.algorithm {
            Algorithm::Crc32 => true,
            Algorithm::Crc16
            | Algorithm::CrcCcitt
            | Algorithm::Csum16
            | Algorithm::Xor16
            | Algorithm::Xor32
            | Algorithm::Identity
            | Algorithm::Xxh64 => !self.payload,
            Algorithm::Custom(_)
            | Algorithm::Random
            | Algorithm::RoundRobin
            | Algorithm::RoundRobinConsistent => false,
        };
        self.joined.as_ref().filter(|_| is_supported)
    }

    /// Computes the hash of concatenated inputs, as [`Calculation::output`] does. `inputs`: at its front are those without the
    /// payload.
    #[cfg(feature = "jit")]
    pub(crate) fn hash_joined(&self, inputs: &[u8], rest: Rest) -> u64 {
        let length = self.joined.as_ref().map_or(0, |joined| joined.join.bytes());
        let inputs = &inputs[..length];
        if !self.payload {
            return hash_bytes(self.algorithm, inputs);
        }
        let mut hash = crc32fast::Hasher::new();
        hash.update(inputs);
        hash.update(rest.bytes());
        hash.finalize().into()
    }

    fn join(&self, layout: &Layout, phv: &[u64], buffer: &mut BitBuffer) {
        for input in &self.inputs {
            match input {
                Input::Field { slot, bits, valid } => {
                    if valid.is_none_or(|v| phv[usize::from(v)] != 0) {
                        let at = usize::from(*slot);
                        if *bits <= 64 {
                            buffer.push(low(phv[at], *bits), *bits);
                        } else {
                            buffer.push_words(&phv[at..], *bits);
                        }
                    }
                }
                Input::Varbit {
                    slot,
                    length,
                    valid,
                } => {
                    if valid.is_none_or(|v| phv[usize::from(v)] != 0) {
                        buffer.push_words(
                            &phv[usize::from(*slot)..],
                            phv[usize::from(*length)] as u32,
                        );
                    }
                }
                Input::Const { words, bits } => buffer.push_words(words, *bits),
                Input::Header(h) => {
                    let header = &layout.headers[usize::from(*h)];
                    if headers::is_valid(header, phv) {
                        for field in &header.fields {
                            let bits = match header.varbit {
                                Some(varbit) if field.varbit => {
                                    phv[usize::from(varbit.length)] as u32
                                }
                                _ => field.bits,
                            };
                            buffer.push_words(&phv[usize::from(field.slot)..], bits);
                        }
                    }
                }
            }
        }
    }

    /// Computes the Internet checksum directly from words, without concatenating bytes.
    #[inline]
    fn csum_of_joined(&self, join: &Join, phv: &[u64], rest: Rest) -> u64 {
        let mut sum = join.sum(phv);
        if self.payload {
            let part = sum_bytes(rest.bytes());
            sum += match join.bytes() % 2 {
                0 => part,
                _ => u64::from((part as u16).swap_bytes()),
            };
        }
        u64::from(!fold(sum))
    }
}

#[inline]
fn low(value: u64, bits: u32) -> u64 {
    if bits == 0 {
        0
    } else {
        value & (u64::MAX >> (64 - bits.min(64)))
    }
}

#[cfg(test)]
mod tests;
