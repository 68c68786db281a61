//! Packet captures in the classic pcap format with nanosecond timestamps
//! (draft-ietf-opsawg-pcap: magic 0xa1b23c4d, link type 1 for Ethernet).

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use super::{Record, Sink};
use crate::engine::{Happening, Observer};

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const VERSION: (u16, u16) = (2, 4);
const SNAP_LEN: u32 = 0x4_0000;
const LINKTYPE_ETHERNET: u32 = 1;

/// Captures what one port of one node sends and receives. Frames carry the time of their first bit when
/// sent and of their last bit when received. Frames that the link loses stand in their sender's capture.
pub struct PortCapture<W> {
    node: String,
    port: u32,
    sink: Rc<RefCell<Sink<W>>>,
}

impl<W: Write> PortCapture<W> {
    /// Writes the file header to `writer` and captures from then on.
    pub fn new(node: &str, port: u32, writer: W) -> (PortCapture<W>, Record<W>) {
        let (record, sink) = Record::new(writer);
        sink.borrow_mut().write(write_file_header);
        let node = node.to_string();
        (PortCapture { node, port, sink }, record)
    }
}

impl<W: Write> Observer for PortCapture<W> {
    fn observe(&mut self, now: u64, name: &str, happening: Happening<'_>) {
        if let Happening::Transmit { port, frame } | Happening::Receive { port, frame } = happening
        {
            if port == self.port && name == self.node {
                self.sink
                    .borrow_mut()
                    .write(|writer| write_packet(writer, now, frame));
            }
        }
    }
}

fn write_file_header(writer: &mut impl Write) -> io::Result<()> {
    let mut header = Vec::with_capacity(24);
    header.extend_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
    header.extend_from_slice(&VERSION.0.to_le_bytes());
    header.extend_from_slice(&VERSION.1.to_le_bytes());
    header.extend_from_slice(&[0; 8]);
    header.extend_from_slice(&SNAP_LEN.to_le_bytes());
    header.extend_from_slice(&LINKTYPE_ETHERNET.to_le_bytes());
    writer.write_all(&header)
}

fn write_packet(writer: &mut impl Write, now: u64, frame: &[u8]) -> io::Result<()> {
    const NS: u64 = 1_000_000_000;
    let length = frame.len() as u32;
    // Virtual time starts at 0 and fits 32 bits of seconds for a century.
    for word in [(now / NS) as u32, (now % NS) as u32, length, length] {
        writer.write_all(&word.to_le_bytes())?;
    }
    writer.write_all(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_has_nanosecond_magic_and_both_directions() {
        let (mut capture, record) = PortCapture::new("h1", 0, Vec::new());
        let frame: &[u8] = &[0xaa, 0xbb];
        capture.observe(5, "h1", Happening::Transmit { port: 0, frame });
        capture.observe(6, "h2", Happening::Transmit { port: 0, frame });
        capture.observe(7, "h1", Happening::Transmit { port: 1, frame });
        let frame: &[u8] = &[0xcc];
        capture.observe(2_000_000_009, "h1", Happening::Receive { port: 0, frame });
        let bytes = capture.sink.borrow().writer.clone();
        record.finish().unwrap();

        let mut expected = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0];
        expected.extend([0; 8]);
        expected.extend([0, 0, 4, 0, 1, 0, 0, 0]);
        expected.extend([0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0xaa, 0xbb]);
        expected.extend([2, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0xcc]);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn failing_writer_is_told_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (mut capture, record) = PortCapture::new("h1", 0, Full);
        capture.observe(
            0,
            "h1",
            Happening::Transmit {
                port: 0,
                frame: &[],
            },
        );
        assert_eq!(
            record.finish().unwrap_err().kind(),
            io::ErrorKind::StorageFull
        );
    }
}
