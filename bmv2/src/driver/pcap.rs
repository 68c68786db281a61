//! Captures of what a port receives and sends, in pcap files with nanosecond timestamps.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

/// Little-endian pcap with nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
const LINK_TYPE_ETHERNET: u32 = 1;
const SNAP_LEN: u32 = 262_144;

/// One capture file.
#[derive(Debug)]
pub struct PcapFile {
    file: BufWriter<File>,
}

impl PcapFile {
    /// Makes the file and writes its header.
    pub fn create(path: &Path) -> io::Result<PcapFile> {
        let mut file = BufWriter::new(File::create(path)?);
        let mut header = Vec::with_capacity(24);
        header.extend(MAGIC.to_le_bytes());
        header.extend(2u16.to_le_bytes());
        header.extend(4u16.to_le_bytes());
        header.extend([0; 8]);
        header.extend(SNAP_LEN.to_le_bytes());
        header.extend(LINK_TYPE_ETHERNET.to_le_bytes());
        file.write_all(&header)?;
        Ok(PcapFile { file })
    }

    /// Appends a frame; `at` in nanoseconds since the Unix epoch.
    pub fn write(&mut self, at: u64, frame: &[u8]) -> io::Result<()> {
        let kept = &frame[..frame.len().min(SNAP_LEN as usize)];
        let numbers = [
            u32::try_from(at / 1_000_000_000).unwrap_or(u32::MAX),
            (at % 1_000_000_000) as u32,
            kept.len() as u32,
            u32::try_from(frame.len()).unwrap_or(u32::MAX),
        ];
        for number in numbers {
            self.file.write_all(&number.to_le_bytes())?;
        }
        self.file.write_all(kept)
    }

    /// Brings buffered frames to the file.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_readable_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.pcap");
        let mut pcap = PcapFile::create(&path).unwrap();
        pcap.write(3_000_000_007, b"frame").unwrap();
        pcap.flush().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes[..4], [0x4d, 0x3c, 0xb2, 0xa1]);
        assert_eq!(bytes.len(), 24 + 16 + 5);
        assert_eq!(bytes[24..32], [3, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(&bytes[40..], b"frame");
    }
}
