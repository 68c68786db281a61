//! Captures in pcap format (draft-ietf-opsawg-pcap).
//!
//! Switch ports, RDMA hosts and the simulator write their captures with this module, with nanosecond timestamps and
//! link type Ethernet. The caller provides the writer. The reader accepts both byte orders, and input in pieces.

use std::io::{self, Write};

/// Magic number of captures with nanosecond timestamps.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Magic number of captures whose timestamps are in microseconds.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
/// Link type of captures with Ethernet frames (`LINKTYPE_ETHERNET`).
pub const LINK_TYPE_ETHERNET: u32 = 1;
/// Maximum number of bytes of a frame that a capture stores.
const SNAP_LEN: u32 = 262_144;
/// One second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Writes a capture to a stream.
#[derive(Debug)]
pub struct PcapWriter<W> {
    writer: W,
    /// Units of a timestamp's fraction per second: 10^9 or 10^6.
    parts: u64,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header of a capture with nanosecond timestamps.
    pub fn new(writer: W) -> io::Result<PcapWriter<W>> {
        PcapWriter::with_timestamps(writer, NANOSECONDS, 1_000_000_000)
    }

    /// Writes the file header of a capture with microsecond timestamps, which every reader supports.
    pub fn in_microseconds(writer: W) -> io::Result<PcapWriter<W>> {
        PcapWriter::with_timestamps(writer, MICROSECONDS, 1_000_000)
    }

    fn with_timestamps(mut writer: W, magic: u32, parts: u64) -> io::Result<PcapWriter<W>> {
        let mut header = Vec::with_capacity(24);
        header.extend(magic.to_le_bytes());
        header.extend(2u16.to_le_bytes());
        header.extend(4u16.to_le_bytes());
        header.extend([0; 8]);
        header.extend(SNAP_LEN.to_le_bytes());
        header.extend(LINK_TYPE_ETHERNET.to_le_bytes());
        writer.write_all(&header)?;
        Ok(PcapWriter { writer, parts })
    }

    /// Appends a frame; `at` is in nanoseconds since the Unix epoch, or since the start of virtual time.
    pub fn write(&mut self, at: u64, frame: &[u8]) -> io::Result<()> {
        let kept = &frame[..frame.len().min(SNAP_LEN as usize)];
        let numbers = [
            u32::try_from(at / SECOND).unwrap_or(u32::MAX),
            (at % SECOND / (SECOND / self.parts)) as u32,
            kept.len() as u32,
            u32::try_from(frame.len()).unwrap_or(u32::MAX),
        ];
        for number in numbers {
            self.writer.write_all(&number.to_le_bytes())?;
        }
        self.writer.write_all(kept)
    }

    /// Flushes buffered frames to the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Reason why bytes are not a valid capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PcapError {
    /// The file does not begin with the magic number of a capture.
    #[error("not a pcap file")]
    NotPcap,
    /// The header of a frame has a length above the format's limit of 262,144 bytes; holds the length.
    #[error("a captured frame of {0} bytes exceeds the limit of the format")]
    TooLong(u32),
}

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcapFrame {
    /// Nanoseconds since the Unix epoch.
    pub at: u64,
    /// Captured bytes, from the Ethernet header.
    pub bytes: Vec<u8>,
    /// Length of the original frame in bytes; larger than that of `bytes` if the capture truncated it.
    pub length: usize,
}

/// Parser for a capture whose bytes arrive in pieces.
#[derive(Debug, Default)]
pub struct PcapReader {
    /// Bytes of the file that the caller has passed and that were not discarded yet.
    bytes: Vec<u8>,
    /// Number of bytes at the start of `bytes` that were parsed.
    at: usize,
    header: Option<Header>,
}

#[derive(Clone, Copy, Debug)]
struct Header {
    read: fn([u8; 4]) -> u32,
    /// Nanoseconds per unit of a timestamp's fraction.
    part: u64,
    link_type: u32,
}

impl PcapReader {
    /// Passes the next bytes of the file to the parser.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the link type in the file header; `None` until the header is complete.
    pub fn link_type(&self) -> Option<u32> {
        self.header.map(|header| header.link_type)
    }

    /// Removes and returns the next frame; `None` if more bytes of the file are needed.
    ///
    /// # Errors
    /// If the bytes are not a valid capture.
    pub fn next_frame(&mut self) -> Result<Option<PcapFrame>, PcapError> {
        let Some(header) = self.header()? else {
            return Ok(None);
        };
        let word = |at| self.word(at).map(header.read);
        let (Some(seconds), Some(parts), Some(kept), Some(length)) =
            (word(0), word(4), word(8), word(12))
        else {
            return Ok(None);
        };
        if kept > SNAP_LEN {
            return Err(PcapError::TooLong(kept));
        }
        let begin = self.at + 16;
        let end = begin + kept as usize;
        let Some(bytes) = self.bytes.get(begin..end) else {
            return Ok(None);
        };
        let frame = PcapFrame {
            at: u64::from(seconds) * SECOND + u64::from(parts) * header.part,
            bytes: bytes.to_vec(),
            length: length as usize,
        };
        self.at = end;
        Ok(Some(frame))
    }

    fn word(&self, at: usize) -> Option<[u8; 4]> {
        let at = self.at + at;
        self.bytes.get(at..at + 4)?.try_into().ok()
    }

    fn header(&mut self) -> Result<Option<Header>, PcapError> {
        if self.header.is_some() {
            return Ok(self.header);
        }
        let Some(magic) = self.word(0) else {
            return Ok(None);
        };
        let orders: [fn([u8; 4]) -> u32; 2] = [u32::from_le_bytes, u32::from_be_bytes];
        let order = orders.into_iter().find_map(|read| match read(magic) {
            NANOSECONDS => Some((read, 1)),
            MICROSECONDS => Some((read, 1000)),
            _ => None,
        });
        let (read, part) = order.ok_or(PcapError::NotPcap)?;
        let Some(link_type) = self.word(20).map(read) else {
            return Ok(None);
        };
        self.at += 24;
        self.header = Some(Header {
            read,
            part,
            link_type,
        });
        Ok(self.header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_parsed_from_pieces_of_any_length() {
        let mut bytes = Vec::new();
        let mut pcap = PcapWriter::in_microseconds(&mut bytes).unwrap();
        pcap.write(3_000_007_999, b"frame").unwrap();
        pcap.write(4_000_000_000, b"").unwrap();
        let frame = |at, bytes: &[u8]| PcapFrame {
            at,
            bytes: bytes.to_vec(),
            length: bytes.len(),
        };
        let expected = [frame(3_000_007_000, b"frame"), frame(4_000_000_000, b"")];
        for step in [1, 7, bytes.len()] {
            let mut reader = PcapReader::default();
            let mut frames = Vec::new();
            for part in bytes.chunks(step) {
                reader.feed(part);
                while let Some(frame) = reader.next_frame().unwrap() {
                    frames.push(frame);
                }
            }
            assert_eq!(frames, expected, "{step}");
            assert_eq!(reader.link_type(), Some(LINK_TYPE_ETHERNET));
        }
    }

    #[test]
    fn invalid_captures_are_rejected() {
        let mut reader = PcapReader::default();
        reader.feed(b"none");
        assert_eq!(reader.next_frame(), Err(PcapError::NotPcap));
        let mut bytes = Vec::new();
        PcapWriter::new(&mut bytes).unwrap();
        bytes.extend([0xff; 16]);
        let mut reader = PcapReader::default();
        reader.feed(&bytes);
        assert_eq!(reader.next_frame(), Err(PcapError::TooLong(u32::MAX)));
    }

    #[test]
    fn written_captures_have_the_pcap_format() {
        let mut bytes = Vec::new();
        let mut pcap = PcapWriter::new(&mut bytes).unwrap();
        pcap.write(3_000_000_007, b"frame").unwrap();
        pcap.flush().unwrap();
        let mut expected = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0];
        expected.extend([0; 8]);
        expected.extend([0, 0, 4, 0, 1, 0, 0, 0]);
        expected.extend([3, 0, 0, 0, 7, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0]);
        expected.extend(b"frame");
        assert_eq!(bytes, expected);
    }
}
