//! Capture of all links in one file, in pcapng format (draft-ietf-opsawg-pcapng).
//!
//! Each port of each node is an interface, with a name such as `s1:2`. A frame has its direction and a time in
//! nanoseconds: of its first bit when sent, of its last bit when received. A lost frame is recorded a second time, with
//! the reason as its comment: `frame.comment == "loss"` finds these in Wireshark.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;

use alfirk_packet_io::pcap::LINK_TYPE_ETHERNET;

use super::{Record, Sink};
use crate::engine::{Observation, Observer};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Section length of a file whose length is not known when it begins.
const UNKNOWN_LENGTH: u64 = u64::MAX;

const OPT_COMMENT: u16 = 1;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
/// Time resolution of an interface: 10^-9 seconds.
const NANOSECONDS: u8 = 9;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

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
        let mut body = Vec::new();
        body.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        body.extend(1_u16.to_le_bytes());
        body.extend(0_u16.to_le_bytes());
        body.extend(UNKNOWN_LENGTH.to_le_bytes());
        write_block(&mut writer, SECTION_HEADER, &body)?;
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
        let mut body = Vec::new();
        body.extend((LINK_TYPE_ETHERNET as u16).to_le_bytes());
        body.extend(0_u16.to_le_bytes());
        // Snap length 0: frames are not truncated.
        body.extend(0_u32.to_le_bytes());
        add_option(&mut body, IF_NAME, format!("{node}:{port}").as_bytes());
        add_option(&mut body, IF_TSRESOL, &[NANOSECONDS]);
        end_options(&mut body);
        self.sink
            .borrow_mut()
            .write(|writer| write_block(writer, INTERFACE_DESCRIPTION, &body));
        number
    }

    fn packet(
        &mut self,
        now: u64,
        interface: u32,
        frame: &[u8],
        direction: u32,
        comment: Option<&str>,
    ) {
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let mut body = Vec::with_capacity(frame.len() + 64);
        for number in [interface, (now >> 32) as u32, now as u32, len, len] {
            body.extend(number.to_le_bytes());
        }
        body.extend(frame);
        pad(&mut body);
        if let Some(comment) = comment {
            add_option(&mut body, OPT_COMMENT, comment.as_bytes());
        }
        add_option(&mut body, EPB_FLAGS, &direction.to_le_bytes());
        end_options(&mut body);
        self.sink
            .borrow_mut()
            .write(|writer| write_block(writer, ENHANCED_PACKET, &body));
    }
}

impl<W: Write + 'static> Observer for PcapngCapture<W> {
    fn observe(&mut self, now: u64, name: &str, observation: Observation<'_>) {
        let (port, frame, direction, comment) = match observation {
            Observation::Transmit { port, frame } => (port, frame, OUTBOUND, None),
            Observation::Receive { port, frame } => (port, frame, INBOUND, None),
            Observation::Drop {
                port,
                frame: Some(frame),
                reason,
                ..
            } => (port, frame, OUTBOUND, Some(reason.as_str())),
            Observation::Drop { frame: None, .. }
            | Observation::Note(_)
            | Observation::Group { .. } => return,
        };
        let interface = self.interface(name, port);
        self.packet(now, interface, frame, direction, comment);
    }
}

/// Writes a block: type, length, body, length. The body is padded to a multiple of 4 bytes.
fn write_block(writer: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let len = body.len() as u32 + 12;
    writer.write_all(&kind.to_le_bytes())?;
    writer.write_all(&len.to_le_bytes())?;
    writer.write_all(body)?;
    writer.write_all(&len.to_le_bytes())
}

fn add_option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn end_options(body: &mut Vec<u8>) {
    body.extend([0; 4]);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
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
