//! The bytes of a frame, with access to bits.

use crate::exec::big::Big;
use alfirk_packet_io::frame::{SplitFrame, Tail};
use std::ptr;
use std::sync::{Arc, OnceLock};

/// Number of padding bytes after a frame, which allow reading eight bytes at any offset.
const PAD: usize = 8;

/// A frame that several packets share. Unlike `std::sync::Arc`, finding out whether it has one owner takes no atomic
/// instruction.
pub(crate) type SharedFrame = triomphe::Arc<Frame>;

/// The bytes of a received frame, followed by padding.
///
/// A frame that was received with a shared tail keeps the tail separate, and its output frames share the tail, too.
/// Such a frame is made contiguous only when the tail is read.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    /// Number of bytes in `bytes` that belong to the frame, without padding.
    head_len: usize,
    tail: Option<Arc<Tail>>,
    /// All bytes of head and tail contiguously, with padding. Computed when the tail is read.
    whole: OnceLock<Vec<u8>>,
}

impl Frame {
    /// Creates an empty frame.
    pub const fn empty() -> Frame {
        Frame {
            bytes: Vec::new(),
            head_len: 0,
            tail: None,
            whole: OnceLock::new(),
        }
    }

    pub fn copy_of(bytes: &[u8]) -> Frame {
        let mut frame = Frame::default();
        frame.fill(bytes);
        frame
    }

    /// Replaces the contents of the frame by a copy of `bytes`, reusing the buffer.
    pub fn fill(&mut self, bytes: &[u8]) {
        self.release_tail();
        let (len, all) = (bytes.len(), bytes.len() + PAD);
        self.bytes.clear();
        self.bytes.reserve(all);
        let to = self.bytes.as_mut_ptr();
        // SAFETY: there is space for `all` bytes, which are written here.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, len);
            to.add(len).write_bytes(0, PAD);
            self.bytes.set_len(all);
        }
        self.head_len = len;
    }

    /// Replaces the contents by another buffer. Returns the old buffer.
    pub fn adopt(&mut self, frame: SplitFrame) -> Vec<u8> {
        self.release_tail();
        let mut bytes;
        (bytes, self.tail) = frame.into_parts();
        self.head_len = bytes.len();
        bytes.extend_from_slice(&[0; PAD]);
        std::mem::replace(&mut self.bytes, bytes)
    }

    /// Releases the shared tail of the frame.
    #[inline]
    pub fn release_tail(&mut self) {
        if self.tail.take().is_some() {
            self.whole.take();
        }
    }

    /// Moves the bytes to an output frame, with `headers` in place of the first `parsed` bytes. Keeps the buffer `out`
    /// for the next frame. Bytes that stay at their offset are not moved.
    #[inline(always)]
    pub fn take_output(&mut self, parsed: usize, headers: &[u8], out: Vec<u8>) -> SplitFrame {
        if headers.len() != parsed || parsed > self.head_len {
            return self.copy_with_headers(parsed, headers, out);
        }
        self.bytes[..parsed].copy_from_slice(headers);
        self.take(out)
    }

    /// Moves the bytes to an output frame. Keeps the buffer `out` for the next frame.
    #[inline(always)]
    pub fn take(&mut self, mut out: Vec<u8>) -> SplitFrame {
        out.clear();
        let mut bytes = std::mem::replace(&mut self.bytes, out);
        bytes.truncate(std::mem::take(&mut self.head_len));
        let tail = self.tail.take();
        if self.whole.get().is_some() {
            self.whole.take();
        }
        SplitFrame::new(bytes, tail)
    }

    /// Returns the address of the frame's bytes. Those of a range for which [`Frame::has_head`] is true may be changed until
    /// the frame is used again. The eight bytes after them may be read and must stay as they are.
    #[cfg(feature = "jit")]
    #[inline]
    pub fn address(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// Returns whether the first `parsed` bytes, and eight more, are before the tail.
    #[cfg(feature = "jit")]
    #[inline]
    pub fn has_head(&self, parsed: usize) -> bool {
        parsed <= self.head_len && !self.bytes.is_empty()
    }

    /// Creates an output frame in the buffer `out`, with `headers` in place of the first `parsed` bytes. A shared
    /// tail stays shared.
    #[inline(always)]
    pub fn copy_with_headers(&self, parsed: usize, headers: &[u8], mut out: Vec<u8>) -> SplitFrame {
        out.clear();
        out.reserve(headers.len() + self.len() - parsed + PAD);
        out.extend_from_slice(headers);
        self.copy_after(parsed, out)
    }

    /// Creates an output frame from the headers in `out`, in place of the first `parsed` bytes. A shared tail stays
    /// shared.
    #[inline(always)]
    pub fn copy_after(&self, parsed: usize, mut out: Vec<u8>) -> SplitFrame {
        let (rest, tail) = match self.bytes[..self.head_len].get(parsed..) {
            Some(rest) => (rest, self.tail.clone()),
            None => (&self.bytes()[parsed..], None),
        };
        // Space for the padding that the next switch may append in place.
        out.reserve(rest.len() + PAD);
        out.extend_from_slice(rest);
        SplitFrame::new(out, tail)
    }

    pub fn len(&self) -> usize {
        self.head_len + self.tail.as_ref().map_or(0, |tail| tail.len())
    }

    pub fn bytes(&self) -> &[u8] {
        match self.tail {
            None => &self.bytes[..self.head_len],
            Some(_) => &self.whole()[..self.len()],
        }
    }

    /// Returns the bytes before the tail, without padding. At least eight more bytes can be read after them, unless the
    /// frame is empty.
    #[cfg(feature = "jit")]
    pub fn head(&self) -> &[u8] {
        &self.bytes[..self.head_len]
    }

    /// Returns all bytes contiguously, and the padding.
    #[cold]
    fn whole(&self) -> &[u8] {
        self.whole.get_or_init(|| {
            let mut whole = self.bytes[..self.head_len].to_vec();
            if let Some(tail) = &self.tail {
                tail.append_to(&mut whole);
            }
            whole.extend_from_slice(&[0; PAD]);
            whole
        })
    }

    /// Returns at least the first `end` bytes of the frame, followed by padding. `end` must be within the frame.
    #[inline]
    fn up_to(&self, end: usize) -> &[u8] {
        match end <= self.head_len || self.tail.is_none() {
            true => &self.bytes,
            false => self.whole(),
        }
    }

    /// Returns `len` bytes from byte `offset` on, and eight more bytes. The `len` bytes must be within the frame.
    #[inline]
    pub fn padded(&self, offset: usize, len: usize) -> &[u8] {
        &self.up_to(offset + len)[offset..]
    }

    /// Reads `bits` bits (1 to 64) from bit `offset`; they must be within the frame.
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

    /// Reads `bits` bits from bit `offset`, for any width.
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

/// The bytes of a frame after the parsed headers, read on demand.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Rest<'a> {
    frame: Option<&'a Frame>,
    at: usize,
}

impl<'a> Rest<'a> {
    /// An empty rest, for code that runs without a frame.
    pub const NONE: Rest<'static> = Rest { frame: None, at: 0 };

    /// Offset in bytes of the pointer to the frame; null for none.
    #[cfg(feature = "jit")]
    pub const FRAME: usize = std::mem::offset_of!(Rest, frame);

    /// Offset in bytes of the offset in the frame, a number of 64 bits.
    #[cfg(feature = "jit")]
    pub const AT: usize = std::mem::offset_of!(Rest, at);

    /// Returns the bytes of a frame from byte `at` to the end.
    pub fn new(frame: &'a Frame, at: usize) -> Rest<'a> {
        let frame = Some(frame);
        Rest { frame, at }
    }

    /// Returns the offset of the bytes in the frame.
    #[cfg(feature = "jit")]
    pub fn at(self) -> usize {
        self.at
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
    fn bits_are_read_at_any_offset_and_width() {
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

    /// Returns frames with these bytes, split at every position.
    fn splits(bytes: &[u8]) -> impl Iterator<Item = Frame> + '_ {
        (0..=bytes.len()).map(|at| {
            let mut frame = Frame::default();
            let tail = Tail::new(SharedBytes::copy(&bytes[at..]));
            frame.adopt(SplitFrame::new(bytes[..at].to_vec(), Some(Arc::new(tail))));
            frame
        })
    }

    #[test]
    fn the_position_of_the_tail_does_not_matter() {
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
                    let copy = frame.copy_with_headers(parsed, headers, vec![1]);
                    assert_eq!(copy.into_bytes(), left);
                    assert_eq!(
                        frame.take_output(parsed, headers, vec![2]).into_bytes(),
                        left
                    );
                }
            }
        }
    }
}
