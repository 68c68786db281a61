//! Memory of regions that receive data, allocated only when needed.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

/// A zero-initialised byte buffer that needs no memory of its own while all writes match the expected content, the
/// *original*.
///
/// The caller may set the expected content. While every write matches it at the same offset, the buffer only records
/// the ranges written and allocates nothing. So a simulator's many receivers of one message share the sender's bytes.
/// After a write of other bytes, or a read of a partly written range, the buffer has memory of its own. Reads return
/// the same bytes either way.
pub(super) struct Buffer {
    len: usize,
    original: Option<Arc<[u8]>>,
    /// Ranges of the expected content that have been written so far: sorted, not empty, not adjacent.
    written: Vec<Range<usize>>,
    own: OnceCell<Vec<u8>>,
}

impl Buffer {
    pub(super) fn new(len: usize) -> Buffer {
        Buffer {
            len,
            original: None,
            written: Vec::new(),
            own: OnceCell::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Sets the expected content. Ignored if something has been written or expected before, or if the length differs.
    pub(super) fn expect(&mut self, original: &Arc<[u8]>) {
        let is_fresh = self.own.get().is_none() && self.original.is_none();
        if is_fresh && original.len() == self.len {
            self.original = Some(Arc::clone(original));
        }
    }

    /// The bytes of `range`; panics if the range is out of bounds.
    pub(super) fn read(&self, range: Range<usize>) -> &[u8] {
        match self.original(&range) {
            Some(original) => &original[range],
            None => &self.own()[range],
        }
    }

    /// The expected content, if all bytes of `range` have been written and match it; otherwise `None`.
    pub(super) fn original(&self, range: &Range<usize>) -> Option<&Arc<[u8]>> {
        let original = self.original.as_ref()?;
        (self.own.get().is_none() && self.is_written(range)).then_some(original)
    }

    /// Writes `bytes` from offset `at` on; panics if out of bounds.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        let range = at..at + bytes.len();
        if let (None, Some(original)) = (self.own.get(), &self.original) {
            let there = &original[range.clone()];
            if std::ptr::eq(there, bytes) || *there == *bytes {
                return self.add(range);
            }
        }
        self.own();
        let own = self.own.get_mut().expect("just allocated");
        own[range].copy_from_slice(bytes);
    }

    fn own(&self) -> &[u8] {
        self.own.get_or_init(|| {
            let mut own = vec![0; self.len];
            if let Some(original) = &self.original {
                for range in &self.written {
                    own[range.clone()].copy_from_slice(&original[range.clone()]);
                }
            }
            own
        })
    }

    fn is_written(&self, range: &Range<usize>) -> bool {
        let after = self.written.partition_point(|w| w.start <= range.start);
        let before = after.checked_sub(1).map(|index| &self.written[index]);
        range.is_empty() || before.is_some_and(|w| range.end <= w.end)
    }

    fn add(&mut self, mut range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        // Nearly all writes continue where the last one ended.
        if let Some(last) = self.written.last_mut().filter(|w| w.end == range.start) {
            last.end = range.end;
            return;
        }
        // Merges with all ranges that overlap or touch.
        let first = self.written.partition_point(|w| w.end < range.start);
        let end = self.written.partition_point(|w| w.start <= range.end);
        if let Some(touched) = self.written.get(first..end).filter(|t| !t.is_empty()) {
            range.start = range.start.min(touched[0].start);
            range.end = range.end.max(touched[touched.len() - 1].end);
        }
        self.written.splice(first..end, [range]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEN: usize = 40;

    #[derive(Debug, Clone)]
    enum Act {
        // Writes the original's bytes, except for those of `damaged`.
        Write {
            at: usize,
            len: usize,
            damaged: Option<usize>,
        },
        Read {
            at: usize,
            len: usize,
        },
    }

    fn act() -> impl Strategy<Value = Act> {
        let place = (0..=LEN).prop_flat_map(|at| (Just(at), 0..=LEN - at));
        let write = (place.clone(), proptest::option::weighted(0.05, 0..LEN));
        prop_oneof![
            4 => write.prop_map(|((at, len), damaged)| Act::Write { at, len, damaged }),
            1 => place.prop_map(|(at, len)| Act::Read { at, len }),
        ]
    }

    fn original() -> Arc<[u8]> {
        // Includes zeros, which equal bytes not yet written.
        (0..LEN as u8).map(|i| i % 5).collect()
    }

    proptest! {
        #[test]
        fn buffer_behaves_like_plain_memory(
            expected_at in 0..20usize,
            acts in proptest::collection::vec(act(), 0..40),
        ) {
            let original = original();
            let mut buffer = Buffer::new(LEN);
            let mut plain = [0; LEN];
            for (number, act) in acts.into_iter().enumerate() {
                if number == expected_at {
                    buffer.expect(&original);
                }
                match act {
                    Act::Write { at, len, damaged } => {
                        let mut bytes = original[at..at + len].to_vec();
                        if let Some(byte) = damaged.and_then(|d| bytes.get_mut(d)) {
                            *byte ^= 0x40;
                        }
                        buffer.write(at, &bytes);
                        plain[at..at + len].copy_from_slice(&bytes);
                    }
                    Act::Read { at, len } => {
                        prop_assert_eq!(buffer.read(at..at + len), &plain[at..at + len]);
                    }
                }
                for pair in buffer.written.windows(2) {
                    prop_assert!(pair[0].end < pair[1].start, "{:?}", buffer.written);
                }
            }
            prop_assert_eq!(buffer.read(0..LEN), &plain[..]);
        }
    }

    #[test]
    fn expected_content_takes_no_memory() {
        let original = original();
        let mut buffer = Buffer::new(LEN);
        buffer.expect(&original);
        for at in [8, 0, 32, 16, 24] {
            buffer.write(at, &original[at..at + 8]);
            assert_eq!(buffer.read(at..at + 8), &original[at..at + 8]);
        }
        assert!(buffer.own.get().is_none());
        assert!(std::ptr::eq(buffer.read(0..LEN), &original[..]));
        buffer.write(3, b"!");
        assert_eq!(buffer.read(3..4), b"!");
        assert_eq!(original[3], 3, "the original is not touched");
    }
}
