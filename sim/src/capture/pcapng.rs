//! Capture of all links in one file, in pcapng format (draft-ietf-opsawg-pcapng).
//!
//! Each port of each node is an interface, with a name such as `s1:2`. A frame has its direction and a time in
//! nanoseconds: of its first bit when sent, of its last bit when received. A lost frame is recorded a second time, with
//! the reason as its comment: `frame.comment == "loss"` finds these in Wireshark.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;

use alfirk_packet_io::pcapng::{self, Direction};

use super::{Record, Sink};
use crate::engine::{Observation, Observer};

/// Captures the frames of all ports of all nodes.
pub struct PcapngCapture<W> {
    sink: Rc<RefCell<Sink<W>>>,
    /// Number of each interface in the file, by name of the node and port number.
    interfaces: BTreeMap<(String, u32), u32>,
}

impl<W: Write + 'static> PcapngCapture<W> {
    /// Creates a capture that writes to `writer`.
    ///
    /// # Errors
    ///
    /// The file header cannot be written.
    pub fn new(mut writer: W) -> io::Result<(PcapngCapture<W>, Record)> {
        pcapng::write_section(&mut writer)?;
        let (sink, record) = Sink::new(writer, W::flush);
        let interfaces = BTreeMap::new();
        Ok((PcapngCapture { sink, interfaces }, record))
    }

    /// Returns the interface number of a port. Writes the description of the interface at the port's first use.
    fn interface(&mut self, node: &str, port: u32) -> u32 {
        let key = (node.to_owned(), port);
        if let Some(number) = self.interfaces.get(&key) {
            return *number;
        }
        let number = self.interfaces.len() as u32;
        self.interfaces.insert(key, number);
        let name = format!("{node}:{port}");
        self.sink
            .borrow_mut()
            .write(|writer| pcapng::write_interface(writer, &name));
        number
    }
}

impl<W: Write + 'static> Observer for PcapngCapture<W> {
    fn observe(&mut self, now: u64, name: &str, observation: Observation<'_>) {
        let (port, frame, direction, comment) = match observation {
            Observation::Transmit { port, frame } => (port, frame, Direction::Outbound, None),
            Observation::Receive { port, frame } => (port, frame, Direction::Inbound, None),
            Observation::Drop {
                port,
                frame: Some(frame),
                reason,
                ..
            } => (port, frame, Direction::Outbound, Some(reason.as_str())),
            Observation::Drop { frame: None, .. }
            | Observation::Note(_)
            | Observation::Group { .. } => return,
        };
        let interface = self.interface(name, port);
        self.sink.borrow_mut().write(|writer| {
            pcapng::write_packet(writer, now, interface, frame, Some(direction), comment)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::testing::Shared;
    use crate::engine::DropReason;

    /// Types and bodies of the blocks in a file.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let len = number(&bytes[4..]) as usize;
            assert_eq!(len % 4, 0);
            assert_eq!(number(&bytes[len - 4..]) as usize, len, "both lengths");
            blocks.push((number(bytes), bytes[8..len - 4].to_vec()));
            bytes = &bytes[len..];
        }
        blocks
    }

    #[test]
    fn every_port_is_an_interface_and_losses_have_a_comment() {
        let file = Shared::default();
        let (mut capture, record) = PcapngCapture::new(file.clone()).unwrap();
        let frame: &[u8] = &[1, 2, 3, 4, 5];
        capture.observe(7, "h1", Observation::Transmit { port: 0, frame });
        capture.observe((3 << 32) + 9, "s1", Observation::Receive { port: 2, frame });
        let (len, reason) = (frame.len(), DropReason::Fault);
        let lost = Observation::Drop {
            port: 0,
            len,
            frame: Some(frame),
            reason,
        };
        capture.observe(8, "h1", lost);
        record.finish().unwrap();

        let blocks = blocks(&file.bytes());
        let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 1, 6, 6]);
        let has =
            |block: usize, bytes: &[u8]| blocks[block].1.windows(bytes.len()).any(|w| w == bytes);
        assert!(has(1, b"h1:0") && has(3, b"s1:2"));
        assert!(has(1, &[9, 0, 1, 0, 9]), "nanoseconds");
        let packet = &blocks[4].1;
        assert_eq!(
            packet[..20],
            [1, 0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0]
        );
        assert_eq!(packet[20..28], [1, 2, 3, 4, 5, 0, 0, 0]);
        assert!(!has(2, b"loss") && has(5, b"loss"));
    }
}
