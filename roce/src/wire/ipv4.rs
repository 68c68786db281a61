//! IPv4 header (RFC 791), with its checksum.

use std::net::Ipv4Addr;

use super::error::{need, Header, Reason, WireError};
use super::field::{get_array, get_u16, put, put_u16, Field};

/// Length in bytes of a header without options; headers with options are never sent.
pub const HEADER_LEN: usize = 20;

const VERSION_IHL: usize = 0;
const TOS: usize = 1;
const TOTAL_LEN: usize = 2;
const IDENTIFICATION: usize = 4;
const FLAGS_OFFSET: usize = 6;
const TTL: usize = 8;
const PROTOCOL: usize = 9;
const CHECKSUM: usize = 10;
const SOURCE: Field = 12..16;
const DESTINATION: Field = 16..20;

/// Source and destination address in the bytes of an IPv4 header.
pub fn addresses(header: &[u8; HEADER_LEN]) -> (Ipv4Addr, Ipv4Addr) {
    let at = |field: Field| get_array::<4>(header, field.start).into();
    (at(SOURCE), at(DESTINATION))
}

/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// Mask of the ECN field in the type of service (RFC 3168, 5).
pub const ECN_MASK: u8 = 0b11;
/// Left shift of the differentiated services code point (DSCP) in the type of service (RFC 2474).
pub const DSCP_SHIFT: u8 = 2;
/// ECT(0): the packet is ECN-capable; switches may mark it instead of dropping it.
pub const ECN_ECT0: u8 = 0b10;
/// CE, congestion experienced: a switch has marked the packet.
pub const ECN_CE: u8 = 0b11;

/// Checksum of an IPv4 header (RFC 1071): the complement of the ones' complement sum of its 16-bit words. 0 over a
/// header with a valid checksum.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    let mut words = bytes.chunks_exact(2);
    for w in &mut words {
        sum += u32::from(u16::from_be_bytes([w[0], w[1]]));
    }
    if let [last] = words.remainder() {
        sum += u32::from(*last) << 8;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// View of a buffer that contains an IPv4 header and the payload that its length field announces.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks version, header length and total length. Bytes after the total length (Ethernet padding) are cut off.
    /// [`View::check_checksum`] checks the checksum.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Ipv4, buffer, HEADER_LEN)?;
        let version = buffer[VERSION_IHL] >> 4;
        if version != 4 {
            return Err(WireError::bad_field(
                Header::Ipv4,
                "version",
                version.into(),
            ));
        }
        let header_len = usize::from(buffer[VERSION_IHL] & 15) * 4;
        if header_len < HEADER_LEN {
            return Err(bad_length("ihl", header_len));
        }
        let total_len = usize::from(get_u16(buffer, TOTAL_LEN));
        if total_len < header_len {
            return Err(bad_length("total length", total_len));
        }
        need(Header::Ipv4, buffer, total_len)?;
        Ok(View(&buffer[..total_len]))
    }

    /// Checks the header's checksum.
    pub fn check_checksum(&self) -> Result<(), WireError> {
        if checksum(self.header()) == 0 {
            return Ok(());
        }
        let mut header = self.header().to_vec();
        put_u16(&mut header, CHECKSUM, 0);
        Err(WireError {
            header: Header::Ipv4,
            reason: Reason::BadChecksum {
                found: self.checksum().into(),
                expected: checksum(&header).into(),
            },
        })
    }

    /// Header and payload, without Ethernet padding.
    pub fn whole(&self) -> &'a [u8] {
        self.0
    }

    /// The header with its options.
    pub fn header(&self) -> &'a [u8] {
        &self.0[..self.header_len()]
    }

    /// Length of the header with its options, in bytes.
    pub fn header_len(&self) -> usize {
        usize::from(self.0[VERSION_IHL] & 15) * 4
    }

    /// Type of service: DSCP in the upper six bits, ECN in the lower two.
    pub fn tos(&self) -> u8 {
        self.0[TOS]
    }

    /// Length of header and payload in bytes.
    pub fn total_len(&self) -> u16 {
        get_u16(self.0, TOTAL_LEN)
    }

    /// Identification field.
    pub fn identification(&self) -> u16 {
        get_u16(self.0, IDENTIFICATION)
    }

    /// Don't Fragment (DF) flag.
    pub fn dont_fragment(&self) -> bool {
        get_u16(self.0, FLAGS_OFFSET) & DONT_FRAGMENT != 0
    }

    /// Whether the packet is a fragment of a larger one.
    pub fn is_fragment(&self) -> bool {
        get_u16(self.0, FLAGS_OFFSET) & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.0[TTL]
    }

    /// Protocol number of the payload: 17 for UDP.
    pub fn protocol(&self) -> u8 {
        self.0[PROTOCOL]
    }

    /// Header checksum, as received.
    pub fn checksum(&self) -> u16 {
        get_u16(self.0, CHECKSUM)
    }

    /// Source address.
    pub fn source(&self) -> Ipv4Addr {
        get_array::<4>(self.0, SOURCE.start).into()
    }

    /// Destination address.
    pub fn destination(&self) -> Ipv4Addr {
        get_array::<4>(self.0, DESTINATION.start).into()
    }

    /// The payload, without Ethernet padding.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[self.header_len()..]
    }
}

fn bad_length(field: &'static str, value: usize) -> WireError {
    WireError {
        header: Header::Ipv4,
        reason: Reason::BadLength { field, value },
    }
}

/// Fields of an IPv4 header without options, of a packet that is not fragmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Type of service: DSCP in the upper six bits, ECN in the lower two.
    pub tos: u8,
    /// Length of the payload in bytes.
    pub payload_len: u16,
    /// Identification field.
    pub identification: u16,
    /// Don't Fragment (DF) flag.
    pub dont_fragment: bool,
    /// Time to live.
    pub ttl: u8,
    /// Protocol number of the payload: 17 for UDP.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Repr {
    /// Parses the header; fails for fragments, which are neither sent nor reassembled.
    pub fn parse(view: &View<'_>) -> Result<Repr, WireError> {
        if view.is_fragment() {
            let field = get_u16(view.0, FLAGS_OFFSET);
            return Err(WireError::bad_field(
                Header::Ipv4,
                "fragment offset",
                field.into(),
            ));
        }
        Ok(Repr {
            tos: view.tos(),
            payload_len: view.payload().len() as u16,
            identification: view.identification(),
            dont_fragment: view.dont_fragment(),
            ttl: view.ttl(),
            protocol: view.protocol(),
            source: view.source(),
            destination: view.destination(),
        })
    }

    /// Decodes the header at the front of a packet of `len` bytes; `buffer` need not contain the payload. `None` for
    /// options, fragments, and a wrong length or checksum.
    pub fn parse_front(buffer: &[u8], len: usize) -> Option<Repr> {
        let header = View(buffer.get(..HEADER_LEN)?);
        let is_plain = header.0[VERSION_IHL] == 0x45 && checksum(header.0) == 0;
        if !is_plain || usize::from(header.total_len()) != len {
            return None;
        }
        let payload_len = header.total_len().checked_sub(HEADER_LEN as u16)?;
        let repr = Repr::parse(&header).ok()?;
        Some(Repr {
            payload_len,
            ..repr
        })
    }

    /// Writes the header, with its checksum, to the first [`HEADER_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[VERSION_IHL] = 0x45;
        buffer[TOS] = self.tos;
        put_u16(buffer, TOTAL_LEN, HEADER_LEN as u16 + self.payload_len);
        put_u16(buffer, IDENTIFICATION, self.identification);
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        put_u16(buffer, FLAGS_OFFSET, flags);
        buffer[TTL] = self.ttl;
        buffer[PROTOCOL] = self.protocol;
        put_u16(buffer, CHECKSUM, 0);
        put(buffer, SOURCE, &self.source.octets());
        put(buffer, DESTINATION, &self.destination.octets());
        let sum = checksum(&buffer[..HEADER_LEN]);
        put_u16(buffer, CHECKSUM, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    // An example common in texts on the checksum: 172.16.10.99 to 172.16.10.12, checksum 0xb1e6.
    const BYTES: &str = "4500 003c 1c46 4000 40 06 b1e6 ac100a63 ac100a0c";

    fn packet() -> Vec<u8> {
        let mut bytes = unhex(BYTES);
        bytes.resize(60, 0xaa);
        bytes
    }

    #[test]
    fn checksum_of_a_known_header() {
        let bytes = packet();
        let view = View::new_checked(&bytes).unwrap();
        assert_eq!(view.check_checksum(), Ok(()));
        let repr = Repr::parse(&view).unwrap();
        assert_eq!(repr.source, Ipv4Addr::new(172, 16, 10, 99));
        assert_eq!(repr.payload_len, 40);
        assert!(repr.dont_fragment);
        let mut out = [0; HEADER_LEN];
        repr.emit(&mut out);
        assert_eq!(out[..], bytes[..HEADER_LEN]);
    }

    #[test]
    fn one_flipped_bit_fails_the_checksum() {
        for bit in 0..HEADER_LEN * 8 {
            let mut bytes = packet();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(view) = View::new_checked(&bytes) {
                assert!(view.check_checksum().is_err(), "bit {bit}");
            }
        }
        let mut bytes = packet();
        bytes[11] ^= 1;
        let error = View::new_checked(&bytes).unwrap().check_checksum();
        assert_eq!(
            error.unwrap_err().to_string(),
            "ipv4: checksum 0xb1e7, expected 0xb1e6"
        );
    }

    #[test]
    fn truncated_packet_is_refused() {
        rejects_every_shorter_prefix(&packet(), Header::Ipv4, |b| {
            View::new_checked(b).map(|_| ())
        });
    }

    #[test]
    fn ethernet_padding_is_cut_off() {
        let mut bytes = packet();
        bytes.extend([0; 9]);
        assert_eq!(View::new_checked(&bytes).unwrap().payload().len(), 40);
    }

    #[test]
    fn impossible_lengths_and_versions_are_refused() {
        for (at, value) in [(0, 0x65), (0, 0x44), (3, 19)] {
            let mut bytes = packet();
            bytes[at] = value;
            assert!(View::new_checked(&bytes).is_err(), "byte {at} = {value:#x}");
        }
    }

    #[test]
    fn fragments_are_refused() {
        for flags in [0x2000u16, 0x0001, 0x3fff] {
            let mut bytes = packet();
            put_u16(&mut bytes, FLAGS_OFFSET, flags);
            assert!(Repr::parse(&View::new_checked(&bytes).unwrap()).is_err());
        }
    }

    proptest! {
        #[test]
        fn emitted_header_parses_back(
            tos: u8, payload_len in 0u16..2000, identification: u16, dont_fragment: bool, ttl: u8, protocol: u8,
            s: [u8; 4], d: [u8; 4],
        ) {
            let repr = Repr {
                tos, payload_len, identification, dont_fragment, ttl, protocol,
                source: s.into(), destination: d.into(),
            };
            let mut out = vec![0; HEADER_LEN + usize::from(payload_len)];
            repr.emit(&mut out);
            let view = View::new_checked(&out).unwrap();
            prop_assert_eq!(view.check_checksum(), Ok(()));
            prop_assert_eq!(Repr::parse(&view), Ok(repr));
        }
    }
}
