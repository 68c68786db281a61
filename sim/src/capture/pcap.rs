//! Packet captures in pcap format, of one port each.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use alfirk_packet_io::pcap::PcapWriter;

use super::{Record, Sink};
use crate::engine::{Observation, Observer};

/// Captures the frames that one port of one node sends and receives. A frame has the time of its first bit when sent,
/// and of its last bit when received. Frames that the link loses are in the sender's capture.
pub struct PortCapture<W: Write> {
    node: String,
    port: u32,
    sink: Rc<RefCell<Sink<PcapWriter<W>>>>,
}

impl<W: Write + 'static> PortCapture<W> {
    /// Creates a capture of port `port` of the node named `node`, written to `writer`.
    ///
    /// # Errors
    ///
    /// The file header cannot be written.
    pub fn new(node: &str, port: u32, writer: W) -> io::Result<(PortCapture<W>, Record)> {
        let (sink, record) = Sink::new(PcapWriter::new(writer)?, PcapWriter::flush);
        let node = node.to_string();
        Ok((PortCapture { node, port, sink }, record))
    }
}

impl<W: Write + 'static> Observer for PortCapture<W> {
    fn observe(&mut self, now: u64, name: &str, observation: Observation<'_>) {
        if let Observation::Transmit { port, frame } | Observation::Receive { port, frame } =
            observation
        {
            if port == self.port && name == self.node {
                self.sink
                    .borrow_mut()
                    .write(|capture| capture.write(now, frame));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::testing::Shared;

    /// Length of the file header in bytes.
    const FILE_HEADER: usize = 24;

    #[test]
    fn capture_has_both_directions_of_one_port() {
        let file = Shared::default();
        let (mut capture, record) = PortCapture::new("h1", 0, file.clone()).unwrap();
        let frame: &[u8] = &[0xaa, 0xbb];
        capture.observe(5, "h1", Observation::Transmit { port: 0, frame });
        capture.observe(6, "h2", Observation::Transmit { port: 0, frame });
        capture.observe(7, "h1", Observation::Transmit { port: 1, frame });
        let frame: &[u8] = &[0xcc];
        capture.observe(2_000_000_009, "h1", Observation::Receive { port: 0, frame });
        record.finish().unwrap();

        let mut expected = vec![0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0xaa, 0xbb];
        expected.extend([2, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0xcc]);
        assert_eq!(file.bytes()[FILE_HEADER..], expected);
    }

    #[test]
    fn failing_writer_is_reported_at_the_end() {
        /// A writer with space for the file header only.
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                match self.0.checked_sub(bytes.len()) {
                    Some(left) => self.0 = left,
                    None => return Err(io::ErrorKind::StorageFull.into()),
                }
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (mut capture, record) = PortCapture::new("h1", 0, Full(FILE_HEADER)).unwrap();
        let frame: &[u8] = &[1];
        capture.observe(0, "h1", Observation::Transmit { port: 0, frame });
        let error = record.finish().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
