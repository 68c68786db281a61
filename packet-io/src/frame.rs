//! Frames whose copies share their payload.
//!
//! A program that carries frames in memory need not copy a payload for each receiver. A [`SplitFrame`] consists of
//! a head of its own and a [`Tail`] that all of its copies share. Checksums over a tail are computed once for all
//! copies.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crc32fast::Hasher;

/// A range of a reference-counted byte array; clones share the bytes.
#[derive(Clone, Default)]
pub struct SharedBytes {
    /// The whole array; `None` for an empty range.
    all: Option<Arc<[u8]>>,
    start: usize,
    len: usize,
}

impl SharedBytes {
    /// Creates the range `range` of the array `all`. A range that is out of bounds panics here, or when it is read.
    pub fn new(all: Arc<[u8]>, range: Range<usize>) -> SharedBytes {
        debug_assert!(range.end <= all.len());
        SharedBytes {
            all: Some(all),
            start: range.start,
            len: range.len(),
        }
    }

    /// Creates a range over a copy of `bytes`.
    pub fn copy(bytes: &[u8]) -> SharedBytes {
        match bytes.is_empty() {
            true => SharedBytes::default(),
            false => SharedBytes::new(bytes.into(), 0..bytes.len()),
        }
    }

    /// Length of the range in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the range has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of the range.
    pub fn bytes(&self) -> &[u8] {
        self.run(1)
    }

    /// Returns `count * len()` bytes of the array, from the start of this range on: this range and the `count - 1`
    /// ranges after it. Panics if they are out of bounds.
    pub fn run(&self, count: usize) -> &[u8] {
        match &self.all {
            Some(all) => &all[self.start..self.start + count * self.len],
            None => &[],
        }
    }

    /// Offset of the range in its array, in bytes.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Moves the range to the offset `start` in bytes; reading it panics if that is out of bounds.
    pub fn set_start(&mut self, start: usize) {
        self.start = start;
    }

    /// Address of the array in memory, by which two ranges of one array are recognised; 0 without an array.
    pub fn array_address(&self) -> usize {
        self.all.as_ref().map_or(0, |all| all.as_ptr() as usize)
    }

    /// Whether `next` has the same length as this range and begins where this range ends, in the same array.
    pub fn is_followed_by(&self, next: &SharedBytes) -> bool {
        let is_same = match (&self.all, &next.all) {
            (Some(all), Some(next)) => Arc::ptr_eq(all, next),
            _ => false,
        };
        is_same && self.len == next.len && self.start + self.len == next.start
    }

    /// Moves the range forward by `by` times its length; panics if that is out of bounds.
    pub fn advance(&mut self, by: usize) {
        self.start += by * self.len;
    }
}

impl PartialEq for SharedBytes {
    fn eq(&self, other: &SharedBytes) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for SharedBytes {}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

/// The end of a frame, which copies of the frame share: the body (payload), and up to 7 bytes after it. Immutable.
#[derive(Debug)]
pub struct Tail {
    body: SharedBytes,
    /// The bytes after the body, of which the first `end_len` are used.
    end: [u8; Tail::MAX_END],
    end_len: u8,
    /// CRC-32 of the body, computed on first use.
    crc: OnceLock<u32>,
    /// Argument and result of the first call of [`Tail::crc_after`].
    after: OnceLock<(u32, u32)>,
}

impl Tail {
    /// Maximum number of bytes after the body: 3 of padding and 4 of ICRC in a RoCEv2 packet.
    pub const MAX_END: usize = 7;

    /// Creates a tail that has only a body.
    pub fn new(body: SharedBytes) -> Tail {
        Tail {
            body,
            end: [0; Tail::MAX_END],
            end_len: 0,
            crc: OnceLock::new(),
            after: OnceLock::new(),
        }
    }

    /// Sets the bytes after the body.
    ///
    /// # Panics
    ///
    /// If `end` has more than [`Tail::MAX_END`] bytes.
    pub fn with_end(mut self, end: &[u8]) -> Tail {
        self.end[..end.len()].copy_from_slice(end);
        self.end_len = end.len() as u8;
        self
    }

    /// Length of the body and of the bytes after it.
    #[inline]
    pub fn len(&self) -> usize {
        self.body.len() + usize::from(self.end_len)
    }

    /// Whether the tail has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload, without the bytes after it.
    pub fn body(&self) -> &[u8] {
        self.body.bytes()
    }

    /// The bytes after the body.
    pub fn end(&self) -> &[u8] {
        &self.end[..usize::from(self.end_len)]
    }

    /// The CRC-32 of Ethernet over the body, computed on first use.
    pub fn crc(&self) -> u32 {
        *self.crc.get_or_init(|| crc32fast::hash(self.body()))
    }

    /// Computes the CRC-32 of a prefix followed by the body; `front` is the CRC-32 of the prefix.
    ///
    /// The first result is cached. Switches that change headers without changing the ICRC leave `front` unchanged, so most
    /// copies need the same result.
    pub fn crc_after(&self, front: u32) -> u32 {
        let combine = || {
            let mut hasher = Hasher::new_with_initial(front);
            let len = self.body().len() as u64;
            hasher.combine(&Hasher::new_with_initial_len(self.crc(), len));
            hasher.finalize()
        };
        match *self.after.get_or_init(|| (front, combine())) {
            (cached, crc) if cached == front => crc,
            _ => combine(),
        }
    }

    /// Appends the body and the bytes after it to a vector.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.body());
        bytes.extend_from_slice(self.end());
    }
}

/// A frame, from the Ethernet header to the last byte before the FCS. It consists of a head of its own, and optionally
/// a tail that it shares with other frames.
#[derive(Clone, Default)]
pub struct SplitFrame {
    head: Vec<u8>,
    tail: Option<Arc<Tail>>,
}

impl SplitFrame {
    /// Creates a frame of `head` followed by `tail`.
    #[inline]
    pub fn new(head: Vec<u8>, tail: Option<Arc<Tail>>) -> SplitFrame {
        SplitFrame { head, tail }
    }

    /// Length of the frame in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.as_ref().map_or(0, |tail| tail.len())
    }

    /// Whether the frame has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes before the shared tail; the whole frame if it has no tail.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The shared tail, if there is one.
    pub fn tail(&self) -> Option<&Arc<Tail>> {
        self.tail.as_ref()
    }

    /// Returns the bytes of the frame contiguously. Copies them only if there is a shared tail.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match &self.tail {
            None => Cow::Borrowed(&self.head),
            Some(_) => Cow::Owned(self.clone().into_bytes()),
        }
    }

    /// Converts the frame to its contiguous bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        let (mut bytes, tail) = self.into_parts();
        if let Some(tail) = tail {
            tail.append_to(&mut bytes);
        }
        bytes
    }

    /// Splits the frame into its head and its shared tail.
    #[inline]
    pub fn into_parts(self) -> (Vec<u8>, Option<Arc<Tail>>) {
        (self.head, self.tail)
    }

    /// Truncates the frame to `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        if self.len() <= len {
            return;
        }
        if self.head.len() < len {
            self.head = std::mem::take(self).into_bytes();
        }
        self.tail = None;
        self.head.truncate(len);
    }
}

impl From<Vec<u8>> for SplitFrame {
    fn from(bytes: Vec<u8>) -> SplitFrame {
        SplitFrame::new(bytes, None)
    }
}

impl PartialEq for SplitFrame {
    fn eq(&self, other: &SplitFrame) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for SplitFrame {}

impl fmt::Debug for SplitFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.bytes(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_split_frame_equals_its_contiguous_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            splits in (0usize..60, 0usize..60, 0usize..=Tail::MAX_END),
            to in 0usize..70,
        ) {
            let end_at = bytes.len() - splits.2.min(bytes.len());
            let body = splits.0.min(splits.1).min(end_at)..splits.0.max(splits.1).min(end_at);
            let tail = Tail::new(SharedBytes::new(bytes[..].into(), body.clone()));
            let tail = tail.with_end(&bytes[end_at..]);
            prop_assert_eq!(tail.crc(), crc32fast::hash(&bytes[body.clone()]));
            for start in [0, body.start / 2, 0] {
                let after = tail.crc_after(crc32fast::hash(&bytes[start..body.start]));
                prop_assert_eq!(after, crc32fast::hash(&bytes[start..body.end]));
            }
            let whole = [&bytes[..body.start], &bytes[body], &bytes[end_at..]].concat();
            let head = whole[..whole.len() - tail.len()].to_vec();
            let mut frame = SplitFrame::new(head, Some(Arc::new(tail)));
            prop_assert_eq!(frame.len(), whole.len());
            prop_assert_eq!(&frame, &SplitFrame::from(whole.clone()));
            frame.truncate(to);
            let mut cut = whole;
            cut.truncate(to);
            prop_assert_eq!(frame.into_bytes(), cut);
        }
    }

    #[test]
    fn advance_moves_to_the_following_bytes() {
        let all: Arc<[u8]> = (0..12).collect();
        let mut bytes = SharedBytes::new(all.clone(), 2..5);
        assert_eq!(bytes.run(2), [2, 3, 4, 5, 6, 7]);
        let before = bytes.clone();
        bytes.advance(1);
        assert!(before.is_followed_by(&bytes) && !bytes.is_followed_by(&before));
        assert_eq!(bytes.bytes(), [5, 6, 7]);
        assert!(SharedBytes::copy(&[]).is_empty());
    }
}
