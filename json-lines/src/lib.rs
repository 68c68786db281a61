//! Framing of JSON lines: a stream of JSON values, one per line, each followed by a newline.
//!
//! [`Lines`] takes lines from the received bytes, and [`encode`] writes a value as a line. Both work on bytes in memory:
//! the caller reads and writes the stream, blocking or not.

use bytes::{Bytes, BytesMut};
use serde::Serialize;

/// Limit in bytes of a line between programs that exchange whole networks or groups. The longest such line is the mesh
/// of a group of a thousand members, with a million connections. A faulty peer cannot exhaust the memory with it.
pub const MAX_LINE: usize = 64 << 20;

/// Error: a line is longer than its receiver accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line has more than {limit} bytes")]
pub struct LineTooLong {
    /// Maximum length of a line in bytes, without the newline.
    pub limit: usize,
}

impl From<LineTooLong> for std::io::Error {
    fn from(error: LineTooLong) -> std::io::Error {
        std::io::Error::new(std::io::ErrorKind::InvalidData, error)
    }
}

/// Received bytes that are not yet taken as lines.
#[derive(Clone, Debug)]
pub struct Lines {
    received: BytesMut,
    /// Number of bytes from the start of `received` that are searched: there is no newline among them.
    searched: usize,
    limit: usize,
}

impl Lines {
    /// Creates an empty buffer. `limit`: maximum length of a line in bytes, without the newline.
    pub fn new(limit: usize) -> Lines {
        Lines {
            received: BytesMut::new(),
            searched: 0,
            limit,
        }
    }

    /// Adds bytes received from the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Whether more bytes are buffered than a line may have without its newline. Then lines must be taken before more is
    /// received.
    pub fn is_full(&self) -> bool {
        self.received.len() > self.limit
    }

    /// Removes and returns the next line with its newline; `None` if no line is complete.
    ///
    /// # Errors
    ///
    /// The next line exceeds the limit. The stream cannot be read further.
    pub fn next_line(&mut self) -> Result<Option<Bytes>, LineTooLong> {
        let mut unsearched = self.received[self.searched..].iter();
        let end = unsearched.position(|byte| *byte == b'\n');
        let end = end.map(|distance| self.searched + distance);
        let len = end.unwrap_or(self.received.len());
        if len > self.limit {
            return Err(LineTooLong { limit: self.limit });
        }
        self.searched = match end {
            Some(_) => 0,
            None => len,
        };
        Ok(end.map(|end| self.received.split_to(end + 1).freeze()))
    }
}

/// Appends a value as a line to `output`.
///
/// # Errors
///
/// The value cannot be JSON: a map has keys that are not strings, or its `Serialize` fails. `output` may have part of it.
pub fn encode(value: &impl Serialize, output: &mut Vec<u8>) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *output, value)?;
    output.push(b'\n');
    Ok(())
}

/// Returns a value as a line.
///
/// # Errors
///
/// The value cannot be JSON; see [`encode`].
pub fn to_line(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = Vec::new();
    encode(value, &mut line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(lines: &mut Lines) -> Vec<Bytes> {
        std::iter::from_fn(|| lines.next_line().unwrap()).collect()
    }

    #[test]
    fn a_line_at_the_limit_is_accepted_and_a_longer_one_is_not() {
        let mut lines = Lines::new(4);
        lines.push(b"1234\n12345");
        assert_eq!(lines.next_line(), Ok(Some(Bytes::from_static(b"1234\n"))));
        assert_eq!(lines.next_line(), Err(LineTooLong { limit: 4 }));
        // Its end does not make it acceptable.
        lines.push(b"\n1\n");
        assert_eq!(lines.next_line(), Err(LineTooLong { limit: 4 }));
    }

    #[test]
    fn many_lines_of_one_read_share_its_memory() {
        let mut lines = Lines::new(4);
        lines.push(&b"123\n".repeat(100_000));
        let all = all(&mut lines);
        assert_eq!(all.len(), 100_000);
        let addresses = all.iter().map(|line| line.as_ptr() as usize);
        let mut pairs = addresses.clone().zip(addresses.skip(1));
        assert!(pairs.all(|(line, next)| next == line + 4), "no line moves");
    }

    #[test]
    fn values_are_written_without_newlines_inside() {
        assert_eq!(to_line(&"a\nb").unwrap(), b"\"a\\nb\"\n");
    }

    proptest! {
        /// The lines do not depend on how the stream is cut into reads.
        #[test]
        fn lines_are_independent_of_the_chunks(
            bytes in prop::collection::vec(prop::sample::select(b"ab\n".to_vec()), 0..60),
            cuts in prop::collection::vec(0usize..60, 0..8),
        ) {
            let mut whole = Lines::new(60);
            whole.push(&bytes);
            let expected = all(&mut whole);
            let mut complete: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
            let rest = complete.pop_if(|last| !last.ends_with(b"\n")).unwrap_or_default();
            prop_assert_eq!(&expected, &complete);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut lines = Lines::new(60);
            let mut found = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                lines.push(&bytes[from..cut]);
                from = cut;
                found.extend(all(&mut lines));
            }
            prop_assert_eq!(&found, &complete);
            lines.push(b"\n");
            prop_assert_eq!(lines.next_line(), Ok(Some([rest, b"\n"].concat().into())));
        }
    }
}
