//! Captures in pcapng format (draft-ietf-opsawg-pcapng): writers of single blocks, and a reader.
//!
//! Blocks are written little-endian, with times in nanoseconds and link type Ethernet. The reader accepts both byte
//! orders and any resolution.

use std::io::{self, Write};

use crate::pcap::{PcapFrame, LINK_TYPE_ETHERNET};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Section length of a file whose length is not known when it begins.
const UNKNOWN_LENGTH: u64 = u64::MAX;

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
/// Time resolution of an interface: 10^-9 seconds.
const NANOSECONDS: u8 = 9;
/// Time resolution of an interface without the option: 10^-6 seconds.
const MICROSECONDS: u8 = 6;

/// Direction of a frame at its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// Writes the header of a section, which begins a file.
///
/// # Errors
/// Of the writer.
pub fn write_section(writer: &mut impl Write) -> io::Result<()> {
    let mut body = Vec::new();
    body.extend(BYTE_ORDER_MAGIC.to_le_bytes());
    body.extend(1_u16.to_le_bytes());
    body.extend(0_u16.to_le_bytes());
    body.extend(UNKNOWN_LENGTH.to_le_bytes());
    write_block(writer, SECTION_HEADER, &body)
}

/// Writes the description of an Ethernet interface. Packets refer to interfaces by their number, from 0, in the order of
/// the descriptions.
///
/// # Errors
/// Of the writer.
pub fn write_interface(writer: &mut impl Write, name: &str) -> io::Result<()> {
    let mut body = Vec::new();
    body.extend((LINK_TYPE_ETHERNET as u16).to_le_bytes());
    body.extend(0_u16.to_le_bytes());
    // Snap length 0: frames are not truncated.
    body.extend(0_u32.to_le_bytes());
    add_option(&mut body, IF_NAME, name.as_bytes());
    add_option(&mut body, IF_TSRESOL, &[NANOSECONDS]);
    add_option(&mut body, OPT_END, &[]);
    write_block(writer, INTERFACE_DESCRIPTION, &body)
}

/// Writes a frame of an interface. `at`: nanoseconds since the Unix epoch, or since the start of virtual time.
///
/// # Errors
/// Of the writer.
pub fn write_packet(
    writer: &mut impl Write,
    at: u64,
    interface: u32,
    frame: &[u8],
    direction: Option<Direction>,
    comment: Option<&str>,
) -> io::Result<()> {
    let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let mut body = Vec::with_capacity(frame.len() + 64);
    for number in [interface, (at >> 32) as u32, at as u32, len, len] {
        body.extend(number.to_le_bytes());
    }
    body.extend(frame);
    pad(&mut body);
    if let Some(comment) = comment {
        add_option(&mut body, OPT_COMMENT, comment.as_bytes());
    }
    if let Some(direction) = direction {
        let flags: u32 = match direction {
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        add_option(&mut body, EPB_FLAGS, &flags.to_le_bytes());
    }
    if comment.is_some() || direction.is_some() {
        add_option(&mut body, OPT_END, &[]);
    }
    write_block(writer, ENHANCED_PACKET, &body)
}

/// Writes a block: type, length, body, length. The body has a multiple of 4 bytes.
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

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Reason why bytes are not a valid capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PcapngError {
    /// The file does not begin with a section header.
    #[error("not a pcapng file")]
    NotPcapng,
    /// A block has a length that is not possible.
    #[error("the block at byte {0} has an invalid length")]
    BadLength(usize),
    /// A frame belongs to an interface that the section does not describe.
    #[error("the frame at byte {at} belongs to interface {interface}, which has no description")]
    NoInterface {
        /// Position of the block in the file.
        at: usize,
        /// Number of the interface.
        interface: u32,
    },
    /// The frames are not Ethernet frames.
    #[error("interface {interface} has link type {link_type}; only Ethernet (1) is supported")]
    NotEthernet {
        /// Number of the interface.
        interface: u32,
        /// Its link type.
        link_type: u16,
    },
}

/// An interface of a section: link type, and the resolution of its times as in the option `if_tsresol`.
#[derive(Clone, Copy)]
struct Interface {
    link_type: u16,
    resolution: u8,
}

/// Whether the bytes begin as a pcapng file does.
pub fn is_pcapng(bytes: &[u8]) -> bool {
    bytes.starts_with(&SECTION_HEADER.to_le_bytes())
}

/// Returns all frames of a file, of all interfaces, in the order of the file. An incomplete last block, which a killed
/// capture program leaves, is ignored.
///
/// # Errors
/// If the bytes are not a valid capture of Ethernet frames.
pub fn read(bytes: &[u8]) -> Result<Vec<PcapFrame>, PcapngError> {
    if !is_pcapng(bytes) {
        return Err(PcapngError::NotPcapng);
    }
    let mut frames = Vec::new();
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut is_big = false;
    let mut at = 0;
    while let Some(start) = bytes.get(at..at + 12) {
        let is_section = start[..4] == SECTION_HEADER.to_le_bytes();
        if is_section {
            is_big = start[8..12] == BYTE_ORDER_MAGIC.to_be_bytes();
            interfaces.clear();
        }
        let reader = Fields { is_big };
        let length = reader.u32(start, 4) as usize;
        if length < 12 || length % 4 != 0 {
            return Err(PcapngError::BadLength(at));
        }
        let Some(block) = bytes.get(at..at + length) else {
            break;
        };
        let body = &block[8..length - 4];
        match reader.u32(block, 0) {
            INTERFACE_DESCRIPTION => interfaces.push(reader.interface(body, at)?),
            ENHANCED_PACKET => {
                let frame = reader.enhanced(body, at, &interfaces)?;
                frames.push(frame);
            }
            SIMPLE_PACKET => frames.push(reader.simple(body, at, &interfaces)?),
            _ => {}
        }
        at += length;
    }
    Ok(frames)
}

/// Numbers in the byte order of a section.
struct Fields {
    is_big: bool,
}

impl Fields {
    /// The number at a position; 0 behind the end.
    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        let bytes = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
        match (bytes, self.is_big) {
            (None, _) => 0,
            (Some(bytes), true) => u32::from_be_bytes(bytes),
            (Some(bytes), false) => u32::from_le_bytes(bytes),
        }
    }

    fn u16(&self, bytes: &[u8], at: usize) -> u16 {
        let bytes = bytes.get(at..at + 2).and_then(|b| b.try_into().ok());
        match (bytes, self.is_big) {
            (None, _) => 0,
            (Some(bytes), true) => u16::from_be_bytes(bytes),
            (Some(bytes), false) => u16::from_le_bytes(bytes),
        }
    }

    fn interface(&self, body: &[u8], at: usize) -> Result<Interface, PcapngError> {
        if body.len() < 8 {
            return Err(PcapngError::BadLength(at));
        }
        let mut resolution = MICROSECONDS;
        let mut rest = &body[8..];
        while rest.len() >= 4 {
            let (code, length) = (self.u16(rest, 0), usize::from(self.u16(rest, 2)));
            match rest.get(4..4 + length) {
                Some([value, ..]) if code == IF_TSRESOL => resolution = *value,
                Some(_) if code != OPT_END => {}
                _ => break,
            }
            rest = rest.get(4 + length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        Ok(Interface {
            link_type: self.u16(body, 0),
            resolution,
        })
    }

    fn enhanced(
        &self,
        body: &[u8],
        at: usize,
        interfaces: &[Interface],
    ) -> Result<PcapFrame, PcapngError> {
        let interface = of_ethernet(self.u32(body, 0), at, interfaces)?;
        let time = u64::from(self.u32(body, 4)) << 32 | u64::from(self.u32(body, 8));
        let kept = self.u32(body, 12) as usize;
        let bytes = body.get(20..).and_then(|rest| rest.get(..kept));
        let bytes = bytes.ok_or(PcapngError::BadLength(at))?;
        Ok(PcapFrame {
            at: nanoseconds(time, interface.resolution),
            bytes: bytes.to_vec(),
            length: self.u32(body, 16) as usize,
        })
    }

    /// A block without interface and time: of interface 0.
    fn simple(
        &self,
        body: &[u8],
        at: usize,
        interfaces: &[Interface],
    ) -> Result<PcapFrame, PcapngError> {
        of_ethernet(0, at, interfaces)?;
        let length = self.u32(body, 0) as usize;
        let kept = length.min(body.len().saturating_sub(4));
        Ok(PcapFrame {
            at: 0,
            bytes: body.get(4..4 + kept).unwrap_or(&[]).to_vec(),
            length,
        })
    }
}

fn of_ethernet(number: u32, at: usize, interfaces: &[Interface]) -> Result<Interface, PcapngError> {
    let interface = interfaces.get(number as usize).copied();
    let interface = interface.ok_or(PcapngError::NoInterface {
        at,
        interface: number,
    })?;
    if u32::from(interface.link_type) != LINK_TYPE_ETHERNET {
        return Err(PcapngError::NotEthernet {
            interface: number,
            link_type: interface.link_type,
        });
    }
    Ok(interface)
}

/// Converts a time to nanoseconds. Resolution: the negative exponent of 10, or of 2 if the highest bit is set.
fn nanoseconds(time: u64, resolution: u8) -> u64 {
    let exponent = u32::from(resolution & 0x7f);
    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
    let Some(units) = base.checked_pow(exponent) else {
        return 0;
    };
    let time = u128::from(time) * 1_000_000_000 / units;
    u64::try_from(time).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let mut file = Vec::new();
        write_section(&mut file).unwrap();
        write_interface(&mut file, "h1:0").unwrap();
        write_packet(
            &mut file,
            7,
            0,
            b"frame",
            Some(Direction::Outbound),
            Some("loss"),
        )
        .unwrap();
        write_packet(&mut file, 3 << 40, 0, b"", None, None).unwrap();
        file
    }

    #[test]
    fn written_frames_are_read() {
        let frames = read(&file()).unwrap();
        let seen: Vec<_> = frames.iter().map(|f| (f.at, f.bytes.as_slice())).collect();
        assert_eq!(seen, [(7, &b"frame"[..]), (3 << 40, b"")]);
    }

    #[test]
    fn a_truncated_file_has_the_frames_before_its_end() {
        let file = file();
        for length in 0..file.len() {
            match read(&file[..length]) {
                Ok(frames) => assert!(frames.len() < 2, "{length}"),
                Err(error) => assert_eq!((error, length < 4), (PcapngError::NotPcapng, true)),
            }
        }
    }

    #[test]
    fn other_byte_orders_resolutions_and_blocks_are_read() {
        let mut file = Vec::new();
        let mut block = |kind: u32, body: &[u8]| {
            let length = (body.len() as u32 + 12).to_be_bytes();
            file.extend(kind.to_be_bytes());
            file.extend(length);
            file.extend(body);
            file.extend(length);
        };
        block(
            SECTION_HEADER,
            &[
                0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
            ],
        );
        block(INTERFACE_DESCRIPTION, &[0, 1, 0, 0, 0, 0, 0, 0]);
        block(5, &[0; 8]);
        block(
            ENHANCED_PACKET,
            &[
                0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 9, 0xab, 0, 0, 0,
            ],
        );
        block(SIMPLE_PACKET, &[0, 0, 0, 2, 1, 2, 0, 0]);
        let frames = read(&file).unwrap();
        assert_eq!(
            frames[0],
            PcapFrame {
                at: 2000,
                bytes: vec![0xab],
                length: 9
            }
        );
        assert_eq!(frames[1].bytes, [1, 2]);
    }

    #[test]
    fn invalid_captures_are_rejected() {
        assert_eq!(read(b"none"), Err(PcapngError::NotPcapng));
        let mut bytes = Vec::new();
        write_section(&mut bytes).unwrap();
        let mut without_interface = bytes.clone();
        write_packet(&mut without_interface, 0, 3, b"", None, None).unwrap();
        let at = bytes.len();
        let error = PcapngError::NoInterface { at, interface: 3 };
        assert_eq!(read(&without_interface), Err(error));
        bytes.extend([6, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read(&bytes), Err(PcapngError::BadLength(at)));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_rejected(bytes: Vec<u8>) {
            let mut file = file();
            let at = bytes.first().map_or(0, |byte| usize::from(*byte)) % file.len();
            for (own, byte) in file[at..].iter_mut().zip(&bytes) {
                *own ^= byte;
            }
            let _ = read(&file);
            let _ = read(&bytes);
        }
    }
}
