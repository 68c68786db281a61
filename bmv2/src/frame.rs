//! A frame's bytes, and reading bits from them.

use crate::exec::big::Big;

/// Bytes behind the frame, so that eight bytes can be read at once anywhere in it.
const PAD: usize = 8;

/// The bytes of a packet as it came in, with a little room behind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    len: usize,
}

impl Frame {
    /// Without bytes.
    pub const EMPTY: Frame = Frame {
        bytes: Vec::new(),
        len: 0,
    };

    pub fn copy_of(bytes: &[u8]) -> Frame {
        let mut frame = Frame::default();
        frame.fill(bytes);
        frame
    }

    /// Replaces the bytes, in the same memory.
    pub fn fill(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.reserve(bytes.len() + PAD);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(&[0; PAD]);
        self.len = bytes.len();
    }

    /// Replaces the bytes by the memory they are in. Gives the old memory.
    pub fn adopt(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        self.len = bytes.len();
        bytes.extend_from_slice(&[0; PAD]);
        std::mem::replace(&mut self.bytes, bytes)
    }

    /// Gives the bytes away, with other `headers` in front of what comes after the first `parsed` of them, and
    /// keeps the memory of `out` instead. Bytes that already are where they belong are not moved.
    pub fn leave(&mut self, parsed: usize, headers: &[u8], mut out: Vec<u8>) -> Vec<u8> {
        if headers.len() != parsed {
            self.copy_behind(parsed, headers, &mut out);
            return out;
        }
        out.clear();
        let mut bytes = std::mem::replace(&mut self.bytes, out);
        bytes.truncate(std::mem::take(&mut self.len));
        bytes[..parsed].copy_from_slice(headers);
        bytes
    }

    /// Writes `headers` and what comes after the first `parsed` bytes to `out`.
    pub fn copy_behind(&self, parsed: usize, headers: &[u8], out: &mut Vec<u8>) {
        let payload = &self.bytes()[parsed..];
        out.clear();
        // Room for the padding that the next switch on the way may add in place.
        out.reserve(headers.len() + payload.len() + PAD);
        out.extend_from_slice(headers);
        out.extend_from_slice(payload);
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The bytes from `offset` on, and eight more.
    #[inline]
    pub fn padded(&self, offset: usize) -> &[u8] {
        &self.bytes[offset..]
    }

    /// Reads `bits` (1 to 64) bits from the bit at `offset`. They must lie within the frame.
    #[inline]
    pub fn bits(&self, offset: usize, bits: u32) -> u64 {
        let (byte, skip) = (offset / 8, (offset % 8) as u32);
        let word = match self.bytes.get(byte..byte + 8) {
            Some(bytes) => u64::from_be_bytes(bytes.try_into().expect("eight bytes")),
            None => 0,
        };
        if skip + bits <= 64 {
            return word << skip >> (64 - bits);
        }
        // Nine bytes: the field begins within the first and ends within the last.
        let last = u64::from(self.bytes.get(byte + 8).copied().unwrap_or(0));
        (word << skip | last >> (8 - skip)) >> (64 - bits)
    }

    /// Reads any number of bits.
    pub fn big(&self, offset: usize, bits: u32) -> Big {
        let mut words = smallvec::SmallVec::<[u64; 4]>::new();
        let mut left = bits;
        while left > 0 {
            let n = left.min(64);
            left -= n;
            words.push(self.bits(offset + left as usize, n));
        }
        Big::from_unsigned(&words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_read_at_any_place_and_width() {
        let bytes: Vec<u8> = (1..=20).map(|i: u8| i.wrapping_mul(0x3b)).collect();
        let frame = Frame::copy_of(&bytes);
        let text: String = bytes.iter().map(|b| format!("{b:08b}")).collect();
        for offset in 0..160 {
            for bits in 1..=64.min(160 - offset) {
                let expected = u64::from_str_radix(&text[offset..offset + bits], 2).unwrap();
                assert_eq!(frame.bits(offset, bits as u32), expected, "{offset} {bits}");
            }
        }
        let whole = frame.big(0, 160);
        assert_eq!(whole.word(0), u64::from_str_radix(&text[96..], 2).unwrap());
        assert_eq!(whole.word(2), u64::from_str_radix(&text[..32], 2).unwrap());
    }
}
