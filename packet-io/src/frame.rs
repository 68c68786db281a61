//! Frames whose copies share what is behind their headers.
//!
//! Who carries frames in memory, and not on a real link, need not copy a payload for each receiver: a [`SplitFrame`] has bytes of
//! its own in front, and a [`Tail`] that all copies of it share. What is calculated over a tail is calculated once for all of them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crc32fast::Hasher;

/// A part of bytes that others have, too.
#[derive(Clone, Default)]
pub struct SharedBytes {
    /// Nothing of it if `None`.
    all: Option<Arc<[u8]>>,
    start: usize,
    len: usize,
}

impl SharedBytes {
    /// A range of `all`, within it.
    pub fn new(all: Arc<[u8]>, range: Range<usize>) -> SharedBytes {
        debug_assert!(range.end <= all.len());
        SharedBytes {
            all: Some(all),
            start: range.start,
            len: range.len(),
        }
    }

    /// A copy of bytes.
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

    /// These bytes and those right behind them, so many times as many; they must be there.
    pub fn run(&self, count: usize) -> &[u8] {
        match &self.all {
            Some(all) => &all[self.start..self.start + count * self.len],
            None => &[],
        }
    }

    /// Whether `next` are the bytes right behind these, as many.
    pub fn are_followed_by(&self, next: &SharedBytes) -> bool {
        let is_same = match (&self.all, &next.all) {
            (Some(all), Some(next)) => Arc::ptr_eq(all, next),
            _ => false,
        };
        is_same && self.len == next.len && self.start + self.len == next.start
    }

    /// Goes on so many times to the bytes right behind these, as many; they must be there.
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

/// What is behind a frame's own bytes. It never changes, so that copies of the frame share it.
#[derive(Debug)]
pub struct Tail {
    body: SharedBytes,
    /// A few bytes more, the first `end_len` of these.
    end: [u8; Tail::MAX_END],
    end_len: u8,
    crc: OnceLock<u32>,
    /// The first answer of [`Tail::crc_behind`], and to what.
    behind: OnceLock<(u32, u32)>,
}

impl Tail {
    /// How many bytes may be behind the body: the padding and the ICRC of a RoCEv2 packet.
    pub const MAX_END: usize = 7;

    /// A body with nothing behind it.
    pub fn new(body: SharedBytes) -> Tail {
        Tail {
            body,
            end: [0; Tail::MAX_END],
            end_len: 0,
            crc: OnceLock::new(),
            behind: OnceLock::new(),
        }
    }

    /// The same body, and a few bytes behind it.
    ///
    /// # Panics
    ///
    /// If these are more than [`Tail::MAX_END`].
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

    /// What is behind the body.
    pub fn end(&self) -> &[u8] {
        &self.end[..usize::from(self.end_len)]
    }

    /// The CRC-32 of Ethernet of the body, which is calculated when it is first asked for.
    pub fn crc(&self) -> u32 {
        *self.crc.get_or_init(|| crc32fast::hash(self.body()))
    }

    /// The CRC-32 of bytes and the body behind them, from that of these bytes. Headers are rewritten so that it stays what it is
    /// (neutral bridging): copies mostly get the answer that the first one got.
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

    /// Adds all bytes to others.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.body());
        bytes.extend_from_slice(self.end());
    }
}

/// A frame, from the Ethernet header to the last byte before the FCS: bytes of its own, and a tail if it shares one.
#[derive(Clone, Default)]
pub struct SplitFrame {
    head: Vec<u8>,
    tail: Option<Arc<Tail>>,
}

impl SplitFrame {
    pub fn new(head: Vec<u8>, tail: Option<Arc<Tail>>) -> SplitFrame {
        SplitFrame { head, tail }
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.as_ref().map_or(0, |tail| tail.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its own bytes: all of them, if there is no tail.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    pub fn tail(&self) -> Option<&Arc<Tail>> {
        self.tail.as_ref()
    }

    /// All bytes in a row.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match &self.tail {
            None => Cow::Borrowed(&self.head),
            Some(_) => Cow::Owned(self.clone().into_bytes()),
        }
    }

    /// All bytes in a row.
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

    /// Keeps so many bytes, if there are more.
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
        fn a_split_frame_is_no_different_from_its_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            cuts in (0usize..60, 0usize..60, 0usize..=Tail::MAX_END),
            to in 0usize..70,
        ) {
            let end_at = bytes.len() - cuts.2.min(bytes.len());
            let body = cuts.0.min(cuts.1).min(end_at)..cuts.0.max(cuts.1).min(end_at);
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
    fn bytes_advance_to_those_behind_them() {
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
