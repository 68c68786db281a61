//! Hash and checksum algorithms over lists of fields, as BMv2 computes them.
//!
//! Inputs are concatenated bit by bit without padding; fields of invalid headers are omitted. The last byte is
//! padded with zeros. The payload, if it is an input, starts at the next byte.

use crate::exec::words::words_of;
use rustc_hash::FxHashMap;

/// Hash and checksum algorithms that a program may name in BMv2 JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Crc16,
    Crc32,
    CrcCcitt,
    /// A CRC whose parameters the control plane may change; see [`CrcParams`].
    Custom(CrcParams),
    Csum16,
    Xor16,
    Xor32,
    /// The identity function: the result is the first eight bytes of the input.
    Identity,
    Random,
    RoundRobin,
    RoundRobinConsistent,
    Xxh64,
}

/// Parameters of a CRC in Williams' Rocksoft model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrcParams {
    /// Width of the CRC: 8, 16, 32 or 64 bits.
    pub bits: u32,
    /// Polynomial without its highest bit, not reflected.
    pub polynomial: u64,
    /// Initial remainder.
    pub initial: u64,
    /// Value XORed to the final remainder.
    pub final_xor: u64,
    /// Whether the bits of each input byte are reversed.
    pub reflect_data: bool,
    /// Whether the bits of the final remainder are reversed, before the XOR.
    pub reflect_remainder: bool,
}

impl Algorithm {
    pub(crate) fn from_name(name: &str) -> Option<Algorithm> {
        let custom = |bits, polynomial, ones: u64, reflect| {
            Some(Algorithm::Custom(CrcParams {
                bits,
                polynomial,
                initial: ones,
                final_xor: ones,
                reflect_data: reflect,
                reflect_remainder: reflect,
            }))
        };
        match name {
            "crc16" => Some(Algorithm::Crc16),
            "crc32" => Some(Algorithm::Crc32),
            "crcCCITT" => Some(Algorithm::CrcCcitt),
            "crc8_custom" => custom(8, 0x07, 0, false),
            "crc16_custom" => custom(16, 0x8005, 0, true),
            "crc32_custom" => custom(32, 0x04c1_1db7, 0xffff_ffff, true),
            "crc64_custom" => custom(64, 0x1b, 0, true),
            "csum16" | "cksum16" => Some(Algorithm::Csum16),
            "xor16" => Some(Algorithm::Xor16),
            "xor32" => Some(Algorithm::Xor32),
            "identity" => Some(Algorithm::Identity),
            "random" => Some(Algorithm::Random),
            "round_robin" => Some(Algorithm::RoundRobin),
            "round_robin_consistent" => Some(Algorithm::RoundRobinConsistent),
            "xxh64" | "bmv2_hash" => Some(Algorithm::Xxh64),
            _ => None,
        }
    }
}

/// State of a hash or checksum algorithm that is kept between packets.
#[derive(Clone, Debug, Default)]
pub struct HashState {
    /// Parameters of a custom CRC that the control plane has set; `None` to use those of the program.
    pub(crate) crc: Option<CrcParams>,
    pub(crate) next: u64,
    pub(crate) seen: FxHashMap<Vec<u8>, u64>,
}

/// Buffer in which the inputs of an algorithm are concatenated bit by bit. It is reused to avoid allocations.
#[derive(Clone, Debug, Default)]
pub struct BitBuffer {
    pub(crate) bytes: Vec<u8>,
    /// Bits of the incomplete last byte, left-aligned.
    pending: u64,
    pending_bits: u32,
}

impl BitBuffer {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pending = 0;
        self.pending_bits = 0;
    }

    /// Appends the low `bits` bits (up to 64) of `value`.
    #[inline]
    pub fn push(&mut self, value: u64, bits: u32) {
        if bits > 56 {
            self.push(value >> 32, bits - 32);
            return self.push(value & 0xffff_ffff, 32);
        }
        if bits == 0 {
            return;
        }
        let value = value << (64 - bits);
        self.pending |= value >> self.pending_bits;
        self.pending_bits += bits;
        let n = (self.pending_bits / 8) as usize;
        self.bytes
            .extend_from_slice(&self.pending.to_be_bytes()[..n]);
        self.pending_bits %= 8;
        self.pending = if n == 8 { 0 } else { self.pending << (8 * n) };
    }

    /// Appends the low `bits` bits of a number of several words, least significant word first.
    pub fn push_words(&mut self, words: &[u64], bits: u32) {
        let top = bits % 64;
        let n = words_of(bits);
        if top > 0 {
            self.push(words[n - 1], top);
        }
        for &word in words[..(bits / 64) as usize].iter().rev() {
            self.push(word, 64);
        }
    }

    /// Pads the last byte with zeros and returns the bytes.
    pub fn finish(&mut self) -> &[u8] {
        if self.pending_bits > 0 {
            self.bytes.push((self.pending >> 56) as u8);
            self.pending = 0;
            self.pending_bits = 0;
        }
        &self.bytes
    }
}

/// Returns the one's complement sum of big-endian 16-bit words, folded to 16 bits.
pub(crate) fn sum_bytes(bytes: &[u8]) -> u64 {
    let mut sum = 0u64;
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        sum += u64::from(u32::from_be_bytes(
            chunk.try_into().expect("chunks of four"),
        ));
    }
    let mut tail = [0; 4];
    tail[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    u64::from(fold(sum + u64::from(u32::from_be_bytes(tail))))
}

pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Computes the CRC-16 of v1model's `HashAlgorithm.crc16`: polynomial 0x8005, reflected, initially 0.
pub fn crc16(bytes: &[u8]) -> u16 {
    hash_bytes(Algorithm::Crc16, bytes) as u16
}

/// Computes the hash of an algorithm without state.
pub(crate) fn hash_bytes(algorithm: Algorithm, bytes: &[u8]) -> u64 {
    match algorithm {
        Algorithm::Crc32 => u64::from(crc32fast::hash(bytes)),
        Algorithm::Crc16 => u64::from(bytes.iter().fold(0u16, |crc, &byte| {
            CRC16_REFLECTED[usize::from((crc ^ u16::from(byte)) & 0xff)] ^ crc >> 8
        })),
        Algorithm::CrcCcitt => crc(
            &CrcParams {
                bits: 16,
                polynomial: 0x1021,
                initial: 0xffff,
                final_xor: 0,
                reflect_data: false,
                reflect_remainder: false,
            },
            bytes,
        ),
        Algorithm::Custom(params) => crc(&params, bytes),
        Algorithm::Csum16 => u64::from(!fold(sum_bytes(bytes))),
        Algorithm::Xor16 => xor(bytes, 2),
        Algorithm::Xor32 => xor(bytes, 4),
        Algorithm::Identity => bytes
            .iter()
            .take(8)
            .fold(0, |value, &byte| value << 8 | u64::from(byte)),
        Algorithm::Xxh64 => xxh64(bytes),
        Algorithm::Random | Algorithm::RoundRobin | Algorithm::RoundRobinConsistent => 0,
    }
}

const CRC16_REFLECTED: [u16; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0xa001
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// Computes a CRC with any parameters, bit by bit.
pub(crate) fn crc(params: &CrcParams, bytes: &[u8]) -> u64 {
    let mask = u64::MAX >> (64 - params.bits);
    let top = 1u64 << (params.bits - 1);
    let mut crc = params.initial & mask;
    for &byte in bytes {
        let byte = if params.reflect_data {
            byte.reverse_bits()
        } else {
            byte
        };
        crc ^= u64::from(byte) << (params.bits - 8);
        for _ in 0..8 {
            crc = if crc & top != 0 {
                crc << 1 ^ params.polynomial
            } else {
                crc << 1
            };
        }
        crc &= mask;
    }
    if params.reflect_remainder {
        crc = crc.reverse_bits() >> (64 - params.bits);
    }
    (crc ^ params.final_xor) & mask
}

/// XORs the big-endian words of `n` bytes; a short last one is padded with zeros.
fn xor(bytes: &[u8], n: usize) -> u64 {
    bytes.chunks(n).fold(0, |sum, chunk| {
        let word = chunk
            .iter()
            .fold(0, |word, &byte| word << 8 | u64::from(byte));
        sum ^ word << (8 * (n - chunk.len()))
    })
}

/// Computes the hash XXH64 with seed 0.
fn xxh64(bytes: &[u8]) -> u64 {
    const P1: u64 = 0x9e37_79b1_85eb_ca87;
    const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
    const P3: u64 = 0x1656_67b1_9e37_79f9;
    const P4: u64 = 0x85eb_ca77_c2b2_ae63;
    const P5: u64 = 0x27d4_eb2f_1656_67c5;
    let round = |acc: u64, lane: u64| {
        acc.wrapping_add(lane.wrapping_mul(P2))
            .rotate_left(31)
            .wrapping_mul(P1)
    };
    let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));

    let mut stripes = bytes.chunks_exact(32);
    let mut hash = if bytes.len() >= 32 {
        let mut acc = [P1.wrapping_add(P2), P2, 0, P1.wrapping_neg()];
        for stripe in &mut stripes {
            for (acc, lane) in acc.iter_mut().zip(stripe.chunks_exact(8)) {
                *acc = round(*acc, word(lane));
            }
        }
        let mut hash = acc[0]
            .rotate_left(1)
            .wrapping_add(acc[1].rotate_left(7))
            .wrapping_add(acc[2].rotate_left(12))
            .wrapping_add(acc[3].rotate_left(18));
        for acc in acc {
            hash = (hash ^ round(0, acc)).wrapping_mul(P1).wrapping_add(P4);
        }
        hash
    } else {
        P5
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    let mut lanes = stripes.remainder().chunks_exact(8);
    for lane in &mut lanes {
        hash = (hash ^ round(0, word(lane)))
            .rotate_left(27)
            .wrapping_mul(P1)
            .wrapping_add(P4);
    }
    let mut rest = lanes.remainder();
    if let [a, b, c, d, tail @ ..] = rest {
        let half = u64::from(u32::from_le_bytes([*a, *b, *c, *d]));
        hash = (hash ^ half.wrapping_mul(P1))
            .rotate_left(23)
            .wrapping_mul(P2)
            .wrapping_add(P3);
        rest = tail;
    }
    for &byte in rest {
        hash = (hash ^ u64::from(byte).wrapping_mul(P5))
            .rotate_left(11)
            .wrapping_mul(P1);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(P2);
    hash = (hash ^ hash >> 29).wrapping_mul(P3);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests;
