//! ARP for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use super::error::{need, Header, WireError};
use super::ethernet::MacAddr;
use super::field::{get_array, get_u16, put, put_u16, Field};

/// Length of an ARP packet in bytes.
pub const PACKET_LEN: usize = 28;

const HARDWARE_TYPE: usize = 0;
const PROTOCOL_TYPE: usize = 2;
const HARDWARE_LEN: usize = 4;
const PROTOCOL_LEN: usize = 5;
const OPERATION: usize = 6;
const SENDER_MAC: Field = 8..14;
const SENDER_IP: Field = 14..18;
const TARGET_MAC: Field = 18..24;
const TARGET_IP: Field = 24..28;

/// Operation of an ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Operation 1: the sender requests the MAC address of the target's IPv4 address.
    Request,
    /// Operation 2: the sender reports its MAC address to the target.
    Reply,
}

/// A view of a buffer that contains an ARP packet for IPv4 over Ethernet.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks the length, and that hardware and protocol are Ethernet and IPv4.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Arp, buffer, PACKET_LEN)?;
        let fixed = [
            (
                "hardware type",
                u32::from(get_u16(buffer, HARDWARE_TYPE)),
                1,
            ),
            (
                "protocol type",
                u32::from(get_u16(buffer, PROTOCOL_TYPE)),
                0x0800,
            ),
            ("hardware length", u32::from(buffer[HARDWARE_LEN]), 6),
            ("protocol length", u32::from(buffer[PROTOCOL_LEN]), 4),
        ];
        for (field, value, expected) in fixed {
            if value != expected {
                return Err(WireError::bad_field(Header::Arp, field, value));
            }
        }
        Ok(View(buffer))
    }

    /// Operation code: 1 for a request, 2 for a reply.
    pub fn operation(&self) -> u16 {
        get_u16(self.0, OPERATION)
    }

    /// MAC address of the sender (SHA).
    pub fn sender_mac(&self) -> MacAddr {
        MacAddr(get_array(self.0, SENDER_MAC.start))
    }

    /// IPv4 address of the sender (SPA).
    pub fn sender_ip(&self) -> Ipv4Addr {
        get_array::<4>(self.0, SENDER_IP.start).into()
    }

    /// MAC address of the target (THA); not defined in a request.
    pub fn target_mac(&self) -> MacAddr {
        MacAddr(get_array(self.0, TARGET_MAC.start))
    }

    /// IPv4 address of the target (TPA): in a request, the address to resolve.
    pub fn target_ip(&self) -> Ipv4Addr {
        get_array::<4>(self.0, TARGET_IP.start).into()
    }
}

/// Fields of an ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Request or reply.
    pub operation: Operation,
    /// MAC address of the sender (SHA).
    pub sender_mac: MacAddr,
    /// IPv4 address of the sender (SPA).
    pub sender_ip: Ipv4Addr,
    /// MAC address of the target (THA); zeros in a request.
    pub target_mac: MacAddr,
    /// IPv4 address of the target (TPA): in a request, the address to resolve.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// Parses the packet; fails for operations other than request and reply.
    pub fn parse(view: &View<'_>) -> Result<Repr, WireError> {
        Ok(Repr {
            operation: match view.operation() {
                1 => Operation::Request,
                2 => Operation::Reply,
                other => return Err(WireError::bad_field(Header::Arp, "operation", other.into())),
            },
            sender_mac: view.sender_mac(),
            sender_ip: view.sender_ip(),
            target_mac: view.target_mac(),
            target_ip: view.target_ip(),
        })
    }

    /// Writes the packet to the first [`PACKET_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        put_u16(buffer, HARDWARE_TYPE, 1);
        put_u16(buffer, PROTOCOL_TYPE, 0x0800);
        buffer[HARDWARE_LEN] = 6;
        buffer[PROTOCOL_LEN] = 4;
        put_u16(
            buffer,
            OPERATION,
            match self.operation {
                Operation::Request => 1,
                Operation::Reply => 2,
            },
        );
        put(buffer, SENDER_MAC, &self.sender_mac.0);
        put(buffer, SENDER_IP, &self.sender_ip.octets());
        put(buffer, TARGET_MAC, &self.target_mac.0);
        put(buffer, TARGET_IP, &self.target_ip.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    const REQUEST: &str = "0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000002";

    #[test]
    fn request_for_a_neighbour() {
        let bytes = unhex(REQUEST);
        let repr = Repr::parse(&View::new_checked(&bytes).unwrap()).unwrap();
        assert_eq!(
            repr,
            Repr {
                operation: Operation::Request,
                sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
                sender_ip: Ipv4Addr::new(10, 0, 0, 1),
                target_mac: MacAddr([0; 6]),
                target_ip: Ipv4Addr::new(10, 0, 0, 2),
            }
        );
        let mut out = [0; PACKET_LEN];
        repr.emit(&mut out);
        assert_eq!(out[..], bytes[..]);
    }

    #[test]
    fn truncated_packet_is_refused() {
        rejects_every_shorter_prefix(&unhex(REQUEST), Header::Arp, |b| {
            View::new_checked(b).map(|_| ())
        });
    }

    #[test]
    fn other_hardware_and_operations_are_refused() {
        let mut bytes = unhex(REQUEST);
        bytes[1] = 6;
        let error = View::new_checked(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "arp: field hardware type holds 0x6, which is not supported"
        );
        let mut bytes = unhex(REQUEST);
        bytes[7] = 3;
        assert!(Repr::parse(&View::new_checked(&bytes).unwrap()).is_err());
    }

    proptest! {
        #[test]
        fn emitted_packet_parses_back(reply: bool, sm: [u8; 6], si: [u8; 4], tm: [u8; 6], ti: [u8; 4]) {
            let repr = Repr {
                operation: if reply { Operation::Reply } else { Operation::Request },
                sender_mac: MacAddr(sm),
                sender_ip: si.into(),
                target_mac: MacAddr(tm),
                target_ip: ti.into(),
            };
            let mut out = [0; PACKET_LEN];
            repr.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), Ok(repr));
        }
    }
}
