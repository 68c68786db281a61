//! Access to numbers in a packet's words: 64 bits each, least significant word first.

use super::big::Big;

/// Returns the number of words of a field of `bits` bits.
pub fn words_of(bits: u32) -> usize {
    (bits as usize).div_ceil(64)
}

/// Returns the number of words of an action parameter, at least 1.
pub fn param_words(bits: u32) -> usize {
    words_of(bits).max(1)
}

/// Reads a field of any width from the packet's words as a number.
pub fn read_field(phv: &[u64], slot: usize, bits: u32, signed: bool) -> Big {
    match (bits, signed) {
        (0, _) => Big::default(),
        (1..=64, true) => Big::from_i64(phv[slot] as i64),
        (1..=64, false) => Big::from_u64(phv[slot]),
        _ => Big::from_field(&phv[slot..slot + words_of(bits)], bits, signed),
    }
}

/// Writes a number to a field, wrapped to its width.
pub fn write_field(phv: &mut [u64], slot: usize, bits: u32, signed: bool, value: &Big) {
    if bits <= 64 {
        if bits > 0 {
            phv[slot] = wrap(value.low(), bits, signed);
        }
        return;
    }
    let low = value.truncate(bits);
    for (i, word) in phv[slot..slot + words_of(bits)].iter_mut().enumerate() {
        *word = low.word(i);
    }
}

/// Returns the low `bits` bits (1 to 64), sign-extended if the field is signed.
#[inline]
pub fn wrap(value: u64, bits: u32, signed: bool) -> u64 {
    let unused = 64 - bits;
    if signed {
        ((value << unused) as i64 >> unused) as u64
    } else {
        value << unused >> unused
    }
}
