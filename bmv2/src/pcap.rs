//! Captures in pcap format with nanosecond timestamps (draft-ietf-opsawg-pcap: magic 0xa1b23c4d, link type 1).
//!
//! The switch's ports, RDMA hosts and the simulator write their captures here; into what is the caller's business.

use std::io::{self, Write};

/// Little-endian pcap with nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
const LINK_TYPE_ETHERNET: u32 = 1;
const SNAP_LEN: u32 = 262_144;

/// Writes one capture.
#[derive(Debug)]
pub struct PcapWriter<W> {
    writer: W,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the header.
    pub fn new(mut writer: W) -> io::Result<PcapWriter<W>> {
        let mut header = Vec::with_capacity(24);
        header.extend(MAGIC.to_le_bytes());
        header.extend(2u16.to_le_bytes());
        header.extend(4u16.to_le_bytes());
        header.extend([0; 8]);
        header.extend(SNAP_LEN.to_le_bytes());
        header.extend(LINK_TYPE_ETHERNET.to_le_bytes());
        writer.write_all(&header)?;
        Ok(PcapWriter { writer })
    }

    /// Appends a frame; `at` in nanoseconds since the Unix epoch, or since the start of virtual time.
    pub fn write(&mut self, at: u64, frame: &[u8]) -> io::Result<()> {
        let kept = &frame[..frame.len().min(SNAP_LEN as usize)];
        let numbers = [
            u32::try_from(at / 1_000_000_000).unwrap_or(u32::MAX),
            (at % 1_000_000_000) as u32,
            kept.len() as u32,
            u32::try_from(frame.len()).unwrap_or(u32::MAX),
        ];
        for number in numbers {
            self.writer.write_all(&number.to_le_bytes())?;
        }
        self.writer.write_all(kept)
    }

    /// Brings buffered frames to where they belong.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_readable_by_others() {
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
