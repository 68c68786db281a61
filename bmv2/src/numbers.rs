//! Conversion of numbers of any width between words, bytes and text.

use smallvec::SmallVec;
use std::fmt::Write;

/// A number in 64-bit words, least significant first.
pub(crate) type Words = SmallVec<[u64; 2]>;

/// Converts a big-endian number of at most `bits` bits to words, least significant first; `None` if it is wider.
pub(crate) fn to_words(bytes: &[u8], bits: u32) -> Option<Words> {
    let significant = &bytes[bytes.iter().take_while(|&&b| b == 0).count()..];
    let n = (bits as usize).div_ceil(64).max(1);
    if significant.len() > n * 8 {
        return None;
    }
    let mut words: Words = SmallVec::from_elem(0, n);
    for (word, chunk) in words.iter_mut().zip(significant.rchunks(8)) {
        *word = chunk.iter().fold(0, |w, &b| w << 8 | u64::from(b));
    }
    words
        .iter()
        .zip(&ones(bits))
        .all(|(w, m)| w & !m == 0)
        .then_some(words)
}

/// Returns the shortest big-endian form with at least one byte (P4Runtime's canonical byte string).
pub(crate) fn shortest(words: &[u64]) -> Vec<u8> {
    let bytes: Vec<u8> = words.iter().rev().flat_map(|w| w.to_be_bytes()).collect();
    let zeros = bytes.iter().take_while(|&&b| b == 0).count();
    bytes[zeros.min(bytes.len().saturating_sub(1))..].to_vec()
}

/// Returns a number of `bits` ones: a mask of the low bits.
pub(crate) fn ones(bits: u32) -> Words {
    prefix(bits, bits)
}

/// Returns a prefix mask: of `bits` bits, the upper `len` are one.
pub(crate) fn prefix(bits: u32, len: u32) -> Words {
    let n = (bits as usize).div_ceil(64).max(1);
    let below = |bits: u32, i: usize| match (bits as usize).saturating_sub(64 * i) {
        0 => 0,
        left @ 1..64 => (1u64 << left) - 1,
        _ => u64::MAX,
    };
    (0..n)
        .map(|i| below(bits, i) & !below(bits - len.min(bits), i))
        .collect()
}

pub(crate) fn is_le(a: &[u64], b: &[u64]) -> bool {
    a.iter().rev().le(b.iter().rev())
}

/// Formats a big-endian number in hexadecimal.
pub(crate) fn number_of_bytes(bytes: &[u8]) -> String {
    let bits = u32::try_from(bytes.len() * 8).unwrap_or(u32::MAX);
    number(&to_words(bytes, bits).unwrap_or_default())
}

/// Formats a number of several words in hexadecimal.
pub(crate) fn number(words: &[u64]) -> String {
    let bytes = shortest(words);
    let mut text = String::from("0x");
    for (i, byte) in bytes.iter().enumerate() {
        let _ = match i {
            0 => write!(text, "{byte:x}"),
            _ => write!(text, "{byte:02x}"),
        };
    }
    text
}
