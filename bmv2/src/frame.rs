//! A frame's bytes, and reading bits from them.

use crate::exec::big::Big;
use alfirk_packet_io::frame::{SplitFrame, Tail};
use std::sync::{Arc, OnceLock};

/// Bytes behind the frame's own, so that eight bytes can be read at once anywhere in it.
const PAD: usize = 8;

/// The bytes of a packet as it came in, with a little room behind.
///
/// Where it came in with a tail that other frames share, that stays where it is: what leaves has it, too. Only who looks
/// further than the frame's own bytes has all of them put in a row.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    /// How many of these are the frame's.
    own: usize,
    tail: Option<Arc<Tail>>,
    /// All bytes in a row, and the room.
    whole: OnceLock<Vec<u8>>,
}

impl Frame {
    /// Without bytes.
    pub const fn empty() -> Frame {
        Frame {
            bytes: Vec::new(),
            own: 0,
            tail: None,
            whole: OnceLock::new(),
        }
    }

    pub fn copy_of(bytes: &[u8]) -> Frame {
        let mut frame = Frame::default();
        frame.fill(bytes);
        frame
    }

    /// Replaces the bytes, in the same memory.
    pub fn fill(&mut self, bytes: &[u8]) {
        self.let_go();
        self.bytes.clear();
        self.bytes.reserve(bytes.len() + PAD);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(&[0; PAD]);
        self.own = bytes.len();
    }

    /// Replaces the bytes by the memory they are in. Gives the old memory.
    pub fn adopt(&mut self, frame: SplitFrame) -> Vec<u8> {
        self.let_go();
        let mut bytes;
        (bytes, self.tail) = frame.into_parts();
        self.own = bytes.len();
        bytes.extend_from_slice(&[0; PAD]);
        std::mem::replace(&mut self.bytes, bytes)
    }

    pub fn has_tail(&self) -> bool {
        self.tail.is_some()
    }

    /// Holds on to nothing that is not its own any more.
    pub fn let_go(&mut self) {
        if self.tail.take().is_some() {
            self.whole.take();
        }
    }

    /// Gives the bytes away, with other `headers` in front of what comes after the first `parsed` of them, and
    /// keeps the memory of `out` instead. Bytes that already are where they belong are not moved.
    pub fn leave(&mut self, parsed: usize, headers: &[u8], mut out: Vec<u8>) -> SplitFrame {
        if headers.len() != parsed || parsed > self.own {
            return self.copy_behind(parsed, headers, out);
        }
        out.clear();
        let mut bytes = std::mem::replace(&mut self.bytes, out);
        bytes.truncate(std::mem::take(&mut self.own));
        bytes[..parsed].copy_from_slice(headers);
        let tail = self.tail.take();
        self.whole.take();
        SplitFrame::new(bytes, tail)
    }

    /// Writes `headers` and what comes after the first `parsed` bytes to the memory of `out`, but for the tail that the frame shares.
    pub fn copy_behind(&self, parsed: usize, headers: &[u8], mut out: Vec<u8>) -> SplitFrame {
        let (rest, tail) = match self.bytes[..self.own].get(parsed..) {
            Some(rest) => (rest, self.tail.clone()),
            None => (&self.bytes()[parsed..], None),
        };
        out.clear();
        // Room for the padding that the next switch on the way may add in place.
        out.reserve(headers.len() + rest.len() + PAD);
        out.extend_from_slice(headers);
        out.extend_from_slice(rest);
        SplitFrame::new(out, tail)
    }

    pub fn len(&self) -> usize {
        self.own + self.tail.as_ref().map_or(0, |tail| tail.len())
    }

    pub fn bytes(&self) -> &[u8] {
        match self.tail {
            None => &self.bytes[..self.own],
            Some(_) => &self.whole()[..self.len()],
        }
    }

    /// All bytes, and eight more.
    #[cold]
    fn whole(&self) -> &[u8] {
        self.whole.get_or_init(|| {
            let mut whole = self.bytes[..self.own].to_vec();
            if let Some(tail) = &self.tail {
                tail.append_to(&mut whole);
            }
            whole.extend_from_slice(&[0; PAD]);
            whole
        })
    }

    /// Bytes from the first to that of `end`, which is no more than the frame's length, and eight more.
    #[inline]
    fn up_to(&self, end: usize) -> &[u8] {
        match end <= self.own || self.tail.is_none() {
            true => &self.bytes,
            false => self.whole(),
        }
    }

    /// So many bytes from `offset` on, which must lie within the frame, and eight more.
    #[inline]
    pub fn padded(&self, offset: usize, len: usize) -> &[u8] {
        &self.up_to(offset + len)[offset..]
    }

    /// Reads `bits` (1 to 64) bits from the bit at `offset`. They must lie within the frame.
    #[inline]
    pub fn bits(&self, offset: usize, bits: u32) -> u64 {
        let (byte, skip) = (offset / 8, (offset % 8) as u32);
        let bytes = self.up_to((offset + bits as usize).div_ceil(8));
        let word = match bytes.get(byte..byte + 8) {
            Some(bytes) => u64::from_be_bytes(bytes.try_into().expect("eight bytes")),
            None => 0,
        };
        if skip + bits <= 64 {
            return word << skip >> (64 - bits);
        }
        // Nine bytes: the field begins within the first and ends within the last.
        let last = u64::from(bytes.get(byte + 8).copied().unwrap_or(0));
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

/// What of a frame comes behind the parsed headers; no bytes are looked at before somebody asks for them.
#[derive(Clone, Copy)]
pub(crate) struct Rest<'a> {
    frame: Option<&'a Frame>,
    at: usize,
}

impl<'a> Rest<'a> {
    /// Nothing.
    pub const NONE: Rest<'static> = Rest { frame: None, at: 0 };

    /// What is behind the first `at` bytes.
    pub fn new(frame: &'a Frame, at: usize) -> Rest<'a> {
        let frame = Some(frame);
        Rest { frame, at }
    }

    pub fn bytes(self) -> &'a [u8] {
        self.frame.map_or(&[], |frame| &frame.bytes()[self.at..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_packet_io::frame::SharedBytes;

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

    /// Frames of the same bytes, cut in every way.
    fn splits(bytes: &[u8]) -> impl Iterator<Item = Frame> + '_ {
        (0..=bytes.len()).map(|at| {
            let mut frame = Frame::default();
            let tail = Tail::new(SharedBytes::copy(&bytes[at..]));
            frame.adopt(SplitFrame::new(bytes[..at].to_vec(), Some(Arc::new(tail))));
            frame
        })
    }

    #[test]
    fn it_does_not_matter_where_the_tail_begins() {
        let bytes: Vec<u8> = (1..=20).map(|i: u8| i.wrapping_mul(0x3b)).collect();
        let same = Frame::copy_of(&bytes);
        for frame in splits(&bytes) {
            assert_eq!((frame.len(), frame.bytes()), (20, &bytes[..]));
            for offset in 0..160 {
                let bits = 64.min(160 - offset as u32);
                assert_eq!(frame.bits(offset, bits), same.bits(offset, bits));
            }
            for at in 0..20 {
                assert_eq!(&frame.padded(at, 20 - at)[..20 - at], &bytes[at..]);
            }
        }
        for parsed in 0..=20 {
            for headers in [&b"new"[..], &[7; 20][..parsed]] {
                let left = [headers, &bytes[parsed..]].concat();
                for mut frame in splits(&bytes) {
                    let copy = frame.copy_behind(parsed, headers, vec![1]);
                    assert_eq!(copy.into_bytes(), left);
                    assert_eq!(frame.leave(parsed, headers, vec![2]).into_bytes(), left);
                }
            }
        }
    }
}
