//! VXLAN header (RFC 7348, section 5): an Ethernet frame in a UDP datagram, with a segment identifier.

use super::error::{need, Header, WireError};
use super::field::{get_u24, put_u24};
use super::{ethernet, ipv4, udp};

/// Length of a VXLAN header in bytes.
pub const HEADER_LEN: usize = 8;
/// UDP destination port of VXLAN packets.
pub const PORT: u16 = 4789;
/// Number of bytes that VXLAN over IPv4 adds to an IP packet. For links with MTU N, the underlay needs an MTU of N plus
/// this.
pub const OVERHEAD: usize = ipv4::HEADER_LEN + udp::HEADER_LEN + HEADER_LEN + ethernet::HEADER_LEN;
/// Highest VXLAN network identifier (VNI), which has 24 bits.
pub const MAX_VNI: u32 = (1 << 24) - 1;

const FLAGS: usize = 0;
const VNI: usize = 4;
/// Flag I of the header: the VNI is valid. The other flags are reserved and ignored.
const FLAG_VNI: u8 = 0x08;

/// View of the payload of a UDP datagram that contains a VXLAN header and an Ethernet frame.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks that the VXLAN header and an Ethernet header are present, and that the VNI is valid.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Vxlan, buffer, HEADER_LEN + ethernet::HEADER_LEN)?;
        let flags = buffer[FLAGS];
        if flags & FLAG_VNI == 0 {
            let flags = u32::from(flags);
            return Err(WireError::bad_field(Header::Vxlan, "flags", flags));
        }
        Ok(View(buffer))
    }

    /// The VXLAN network identifier.
    pub fn vni(&self) -> u32 {
        get_u24(self.0, VNI)
    }

    /// The Ethernet frame, without its check sequence.
    pub fn frame(&self) -> &'a [u8] {
        &self.0[HEADER_LEN..]
    }
}

/// Fields of a VXLAN header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// The VXLAN network identifier, at most [`MAX_VNI`].
    pub vni: u32,
}

impl Repr {
    /// Decodes a VXLAN header.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr { vni: view.vni() }
    }

    /// The header as bytes, big-endian.
    pub fn bytes(&self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[FLAGS] = FLAG_VNI;
        put_u24(&mut header, VNI, self.vni);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    // Scapy: bytes(VXLAN(vni=42, flags="Instance") / Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01", type=0x88b5))
    const BYTES: &str = "08 000000 00002a 00 020000000002 020000000001 88b5";

    #[test]
    fn frame_of_a_segment() {
        let bytes = unhex(BYTES);
        let view = View::new_checked(&bytes).unwrap();
        assert_eq!(view.vni(), 42);
        assert_eq!(view.frame(), &bytes[8..]);
        assert_eq!(Repr::parse(&view).bytes(), bytes[..HEADER_LEN]);
    }

    #[test]
    fn truncated_datagram_is_refused() {
        rejects_every_shorter_prefix(&unhex(BYTES), Header::Vxlan, |b| {
            View::new_checked(b).map(|_| ())
        });
    }

    #[test]
    fn header_without_a_vni_is_rejected_and_reserved_bits_are_ignored() {
        let mut bytes = unhex(BYTES);
        bytes[0] = 0xf7;
        let error = View::new_checked(&bytes).unwrap_err();
        let expected = "vxlan: field flags holds 0xf7, which is not supported";
        assert_eq!(error.to_string(), expected);
        bytes[..8].copy_from_slice(&[0xff, 1, 2, 3, 0, 0, 42, 4]);
        assert_eq!(View::new_checked(&bytes).unwrap().vni(), 42);
    }

    #[test]
    fn a_link_of_4200_bytes_needs_an_underlay_mtu_of_4250() {
        assert_eq!(4200 + OVERHEAD, 4250);
    }

    proptest! {
        #[test]
        fn emitted_header_parses_back(vni in 0..=MAX_VNI) {
            let mut bytes = Repr { vni }.bytes().to_vec();
            bytes.extend([0; ethernet::HEADER_LEN]);
            prop_assert_eq!(Repr::parse(&View::new_checked(&bytes).unwrap()), Repr { vni });
        }
    }
}
