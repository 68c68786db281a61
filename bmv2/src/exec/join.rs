//! Bitwise concatenation of fields, in chunks of eight bytes.
//!
//! The loader precomputes the position of each part of each word. Headers are read from and written to frames this way,
//! and the inputs of hashes and checksums are concatenated.

use super::ops::Slot;
use super::words::words_of;

/// Number of bytes after the concatenated fields that [`Join::write`] may overwrite, since it writes in chunks of 8
/// bytes.
pub const SLACK: usize = 8;

/// Plan for concatenating fields bit by bit: first field first, most significant bit first.
#[derive(Clone, Debug, Default)]
pub struct Join {
    parts: Vec<Part>,
    bytes: usize,
}

/// A part of a field within a chunk of 8 bytes. The first bit of the chunk is the most significant one.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub mask: u64,
    pub slot: Slot,
    /// Number of bits by which the masked bits are rotated to the left. No bit wraps around the word.
    pub left: u8,
    /// Length of the chunk in bytes in the last part of a chunk; 0 in all other parts.
    pub bytes: u8,
}

impl Part {
    /// The part's bits at their position in the chunk, all others zero.
    #[inline]
    fn bits(&self, phv: &[u64]) -> u64 {
        (phv[usize::from(self.slot)] & self.mask).rotate_left(self.left.into())
    }
}

impl Join {
    /// Creates the plan for concatenating fields. Each is given by its first word and its width of at least 1 bit.
    pub fn new(fields: impl IntoIterator<Item = (Slot, u32)>) -> Join {
        let mut parts: Vec<Part> = Vec::new();
        let mut at = 0usize;
        for (slot, bits) in fields {
            // From the most significant word down. Only this first word may be partly used.
            for i in (0..words_of(bits)).rev() {
                let n = (bits - 64 * i as u32).min(64);
                let slot = slot + i as Slot;
                let mask = u64::MAX >> (64 - n);
                let free = 64 - (at % 64) as u32;
                if at % 64 == 0 {
                    if let Some(last) = parts.last_mut() {
                        last.bytes = 8;
                    }
                }
                let part = |mask: u64, left: u32, bytes: u8| Part {
                    mask,
                    slot,
                    left: left as u8,
                    bytes,
                };
                if n <= free {
                    parts.push(part(mask, free - n, 0));
                } else {
                    // A right shift, as a left rotation by the remaining bits.
                    let over = n - free;
                    parts.push(part(mask & (u64::MAX << over), 64 - over, 8));
                    parts.push(part(mask & !(u64::MAX << over), 64 - over, 0));
                }
                at += n as usize;
            }
        }
        if let Some(last) = parts.last_mut() {
            last.bytes = ((at + 63) % 64 / 8 + 1) as u8;
        }
        Join {
            parts,
            bytes: at.div_ceil(8),
        }
    }

    /// Returns the length of the concatenated fields in bytes. The last byte is padded with zeros.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the parts of all fields, in order.
    #[cfg(feature = "jit")]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Calls `each` with every chunk of the concatenated fields, left-aligned in a word, and its number of bytes.
    #[inline]
    fn chunks(&self, phv: &[u64], mut each: impl FnMut(u64, usize)) {
        let mut chunk = 0;
        for part in &self.parts {
            chunk |= part.bits(phv);
            if part.bytes > 0 {
                each(chunk, usize::from(part.bytes));
                chunk = 0;
            }
        }
    }

    /// Writes the concatenated fields to the front of `out`, which must have [`SLACK`] more bytes. The contents of
    /// those are undefined afterwards.
    #[inline]
    pub fn write(&self, phv: &[u64], out: &mut [u8]) {
        let mut at = 0;
        self.chunks(phv, |chunk, bytes| {
            out[at..at + 8].copy_from_slice(&chunk.to_be_bytes());
            at += bytes;
        });
    }

    /// Returns the one's complement sum of the concatenated fields, as big-endian 16-bit words. The sum is not folded
    /// to 16 bits.
    ///
    /// The parts are added without assembling the chunks: their bits are disjoint, and modulo 65535 a carry out of 64 bits
    /// is 1.
    #[inline]
    pub fn sum(&self, phv: &[u64]) -> u64 {
        let mut sum = 0u64;
        for part in &self.parts {
            let (total, carry) = sum.overflowing_add(part.bits(phv));
            sum = total + u64::from(carry);
        }
        // As two 32-bit numbers, so that the sum of a payload can be added.
        (sum >> 32) + (sum & 0xffff_ffff)
    }
}

/// Plan for reading the fields of a header from its bytes.
#[derive(Clone, Debug, Default)]
pub struct FieldReader {
    fields: Vec<WordPosition>,
}

/// Position, in a header, of one 64-bit word of a field. The word is within the eight bytes that start at byte `byte`.
#[derive(Clone, Copy, Debug)]
pub struct WordPosition {
    pub byte: u32,
    pub slot: Slot,
    /// Number of bits before the word in the eight bytes.
    pub left: u8,
    /// Number of bits by which the word is shifted to the right after a shift by `left`.
    pub right: u8,
    pub signed: bool,
}

impl FieldReader {
    /// Creates the plan for reading fields. Each is given by its offset in bits, its first word, its width in bits, and
    /// whether it is signed. `None` when a word of a field spreads over nine bytes.
    pub fn new(fields: impl IntoIterator<Item = (u32, Slot, u32, bool)>) -> Option<FieldReader> {
        let mut reader = FieldReader::default();
        for (offset, slot, bits, signed) in fields {
            let mut left = bits;
            for i in 0..words_of(bits) {
                let n = left.min(64);
                left -= n;
                let (byte, skip) = ((offset + left) / 8, (offset + left) % 8);
                if skip + n > 64 {
                    return None;
                }
                reader.fields.push(WordPosition {
                    byte,
                    slot: slot + i as Slot,
                    left: skip as u8,
                    right: (64 - n) as u8,
                    signed: signed && bits <= 64,
                });
            }
        }
        Some(reader)
    }

    /// Returns the positions of all words.
    #[cfg(feature = "jit")]
    pub fn fields(&self) -> &[WordPosition] {
        &self.fields
    }

    /// Reads the fields of a header from `bytes` to the words `phv`. `bytes` must have eight bytes more than the
    /// header.
    #[inline]
    pub fn read(&self, bytes: &[u8], phv: &mut [u64]) {
        for field in &self.fields {
            let at = field.byte as usize;
            let word: [u8; 8] = bytes[at..at + 8].try_into().expect("eight bytes");
            let word = u64::from_be_bytes(word) << field.left;
            phv[usize::from(field.slot)] = if field.signed {
                (word as i64 >> field.right) as u64
            } else {
                word >> field.right
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: [u32; 12] = [3, 13, 48, 1, 64, 7, 128, 9, 100, 33, 60, 6];

    /// Returns words with a pattern, their fields, and the concatenated bits as text.
    fn words() -> (Vec<u64>, Vec<(Slot, u32)>, String) {
        let (mut phv, mut fields, mut text) = (Vec::new(), Vec::new(), String::new());
        for (i, bits) in WIDTHS.into_iter().enumerate() {
            fields.push((phv.len() as Slot, bits));
            let mut field = String::new();
            for w in 0..words_of(bits) {
                let n = (bits - 64 * w as u32).min(64);
                let word = 0x9e37_79b9_7f4a_7c15u64.rotate_left((7 * i + w) as u32);
                phv.push(word);
                let digits = format!("{word:064b}");
                field = digits[64 - n as usize..].to_owned() + &field;
            }
            text += &field;
        }
        (phv, fields, text)
    }

    #[test]
    fn bits_are_joined_in_order_and_read_back() {
        let (phv, fields, text) = words();
        let join = Join::new(fields.iter().copied());
        assert_eq!(join.bytes(), text.len() / 8);
        let mut out = vec![0xee; join.bytes() + SLACK];
        join.write(&phv, &mut out);
        let written: String = out[..join.bytes()]
            .iter()
            .map(|b| format!("{b:08b}"))
            .collect();
        assert_eq!(written, text);

        let mut offset = 0;
        let mut places = Vec::new();
        for &(slot, bits) in &fields {
            places.push((offset, slot, bits, false));
            offset += bits;
        }
        // The 64-bit field begins within a byte, so it spreads over nine bytes.
        assert!(FieldReader::new(places.clone()).is_none());
        places.retain(|&(_, _, bits, _)| bits < 57);
        let mut read = vec![0; phv.len()];
        FieldReader::new(places.clone())
            .unwrap()
            .read(&out, &mut read);
        for (_, slot, bits, _) in places {
            let at = usize::from(slot);
            assert_eq!(read[at], phv[at] & (u64::MAX >> (64 - bits)), "{bits}");
        }
    }

    #[test]
    fn fields_read_keep_their_sign() {
        let cut = FieldReader::new([(4, 0, 4, true), (0, 1, 4, true)]).unwrap();
        let (mut phv, mut bytes) = ([0; 2], [0u8; 9]);
        bytes[0] = 0x7f;
        cut.read(&bytes, &mut phv);
        assert_eq!(phv.map(|w| w as i64), [-1, 7]);
    }

    #[test]
    fn the_sum_is_that_of_16_bit_words() {
        let (phv, fields, _) = words();
        for n in 1..=fields.len() {
            let join = Join::new(fields[..n].iter().copied());
            let mut out = vec![0; join.bytes() + SLACK];
            join.write(&phv, &mut out);
            out.truncate(join.bytes());
            out.resize(join.bytes().next_multiple_of(2), 0);
            let words = out
                .chunks(2)
                .map(|w| u64::from(w[0]) << 8 | u64::from(w[1]));
            assert_eq!(join.sum(&phv) % 0xffff, words.sum::<u64>() % 0xffff);
        }
    }
}
