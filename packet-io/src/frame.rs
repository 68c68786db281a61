//! Frames whose copies share the bytes after their headers.
//!
//! A program that carries frames in memory need not copy a payload for each receiver. A [`SplitFrame`] has bytes of its own in front,
//! and a [`Tail`] that all its copies share. Checksums over a tail are computed once for all of them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crc32fast::Hasher;

/// A range of reference-counted bytes.
#[derive(Clone, Default)]
pub struct SharedBytes {
    /// The whole allocation; `None` for an empty range.
    all: Option<Arc<[u8]>>,
    start: usize,
    len: usize,
}

impl SharedBytes {
    /// The given range of `all`; panics if it is out of bounds.
    pub fn new(all: Arc<[u8]>, range: Range<usize>) -> SharedBytes {
        debug_assert!(range.end <= all.len());
        SharedBytes {
            all: Some(all),
            start: range.start,
            len: range.len(),
        }
    }

    /// A copy of the bytes, in an allocation of its own.
    pub fn copy(bytes: &[u8]) -> SharedBytes {
        match bytes.is_empty() {
            true => SharedBytes::default(),
            false => SharedBytes::new(bytes.into(), 0..bytes.len()),
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn bytes(&self) -> &[u8] {
        self.run(1)
    }

    /// `count * len` bytes from the start of this range; panics if that is out of bounds.
    pub fn run(&self, count: usize) -> &[u8] {
        match &self.all {
            Some(all) => &all[self.start..self.start + count * self.len],
            None => &[],
        }
    }

    /// Whether `next` is the range of equal length right after this one.
    pub fn are_followed_by(&self, next: &SharedBytes) -> bool {
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

/// The shared bytes at the end of a frame. Immutable, so that copies of the frame can share it.
#[derive(Debug)]
pub struct Tail {
    body: SharedBytes,
    /// Further bytes, the first `end_len` of these.
    end: [u8; Tail::MAX_END],
    end_len: u8,
    crc: OnceLock<u32>,
    /// First argument and result of [`Tail::crc_behind`], cached.
    behind: OnceLock<(u32, u32)>,
}

impl Tail {
    /// The most bytes after the body: padding and ICRC of a RoCEv2 packet.
    pub const MAX_END: usize = 7;

    /// A tail with a body only.
    pub fn new(body: SharedBytes) -> Tail {
        Tail {
            body,
            end: [0; Tail::MAX_END],
            end_len: 0,
            crc: OnceLock::new(),
            behind: OnceLock::new(),
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

    pub fn len(&self) -> usize {
        self.body.len() + usize::from(self.end_len)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn body(&self) -> &[u8] {
        self.body.bytes()
    }

    /// The bytes after the body.
    pub fn end(&self) -> &[u8] {
        &self.end[..usize::from(self.end_len)]
    }

    /// The CRC-32 (Ethernet) of the body, computed on first use.
    pub fn crc(&self) -> u32 {
        *self.crc.get_or_init(|| crc32fast::hash(self.body()))
    }

    /// The CRC-32 of some bytes followed by the body, from the CRC of those bytes. The first result is cached: neutral bridging
    /// rewrites headers without a change of the CRC, so most copies ask for the same one.
    pub fn crc_behind(&self, front: u32) -> u32 {
        let combine = || {
            let mut hasher = Hasher::new_with_initial(front);
            let len = self.body().len() as u64;
            hasher.combine(&Hasher::new_with_initial_len(self.crc(), len));
            hasher.finalize()
        };
        match *self.behind.get_or_init(|| (front, combine())) {
            (known, crc) if known == front => crc,
            _ => combine(),
        }
    }

    /// Appends all bytes to a vector.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.body());
        bytes.extend_from_slice(self.end());
    }
}

/// A frame, from the Ethernet header to the last byte before the FCS: bytes of its own, and optionally a shared tail.
#[derive(Clone, Default)]
pub struct SplitFrame {
    head: Vec<u8>,
    tail: Option<Arc<Tail>>,
}

impl SplitFrame {
    pub fn new(head: Vec<u8>, tail: Option<Arc<Tail>>) -> SplitFrame {
        SplitFrame { head, tail }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.as_ref().map_or(0, |tail| tail.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The frame's own bytes; the whole frame without a tail.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    pub fn tail(&self) -> Option<&Arc<Tail>> {
        self.tail.as_ref()
    }

    /// The contiguous bytes of the frame; copies only if there is a tail.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match &self.tail {
            None => Cow::Borrowed(&self.head),
            Some(_) => Cow::Owned(self.clone().into_bytes()),
        }
    }

    /// Converts to the contiguous bytes of the frame.
    pub fn into_bytes(self) -> Vec<u8> {
        let (mut bytes, tail) = self.into_parts();
        if let Some(tail) = tail {
            tail.append_to(&mut bytes);
        }
        bytes
    }

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
                let behind = tail.crc_behind(crc32fast::hash(&bytes[start..body.start]));
                prop_assert_eq!(behind, crc32fast::hash(&bytes[start..body.end]));
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
        assert!(before.are_followed_by(&bytes) && !bytes.are_followed_by(&before));
        assert_eq!(bytes.bytes(), [5, 6, 7]);
        assert!(SharedBytes::copy(&[]).is_empty());
    }
}
