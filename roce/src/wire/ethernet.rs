//! Ethernet II header (IEEE 802.3 clause 3).

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::{need, Header, WireError};
use super::field::{get_array, get_u16, put, put_u16, Field};

/// Length of an Ethernet header in bytes.
pub const HEADER_LEN: usize = 14;

const DESTINATION: Field = 0..6;
const SOURCE: Field = 6..12;
const ETHERTYPE: usize = 12;

/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;

/// A 48-bit MAC address, displayed and parsed as `02:00:00:00:00:01`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The broadcast address.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// MAC address of an IPv4 multicast group, from the lower 23 bits of its address (RFC 1112, 6.4; IBTA vol. 1, annex
    /// A17.3.2.1).
    pub const fn of_multicast(group: Ipv4Addr) -> MacAddr {
        let [_, b, c, d] = group.octets();
        MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// Whether the group bit is set: a multicast or broadcast address.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
}

/// Error: a text that is not a MAC address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a MAC address: expected six hexadecimal bytes separated by colons")]
pub struct BadMac(pub String);

impl FromStr for MacAddr {
    type Err = BadMac;

    fn from_str(text: &str) -> Result<MacAddr, BadMac> {
        let mut out = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut out {
            let part = parts
                .next()
                .filter(|p| matches!(p.len(), 1 | 2) && p.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = part
                .and_then(|p| u8::from_str_radix(p, 16).ok())
                .ok_or_else(|| BadMac(text.to_owned()))?;
        }
        match parts.next() {
            None => Ok(MacAddr(out)),
            Some(_) => Err(BadMac(text.to_owned())),
        }
    }
}

impl TryFrom<String> for MacAddr {
    type Error = BadMac;
    fn try_from(text: String) -> Result<MacAddr, BadMac> {
        text.parse()
    }
}

impl From<MacAddr> for String {
    fn from(mac: MacAddr) -> String {
        mac.to_string()
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// View of a buffer that contains an Ethernet header.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks that `buffer` holds an Ethernet header.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Ethernet, buffer, HEADER_LEN)?;
        Ok(View(buffer))
    }

    /// Destination MAC address.
    pub fn destination(&self) -> MacAddr {
        MacAddr(get_array(self.0, DESTINATION.start))
    }

    /// Source MAC address.
    pub fn source(&self) -> MacAddr {
        MacAddr(get_array(self.0, SOURCE.start))
    }

    /// EtherType of the payload.
    pub fn ethertype(&self) -> u16 {
        get_u16(self.0, ETHERTYPE)
    }

    /// The bytes after the header, Ethernet padding included.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER_LEN..]
    }
}

/// Fields of an Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Destination MAC address.
    pub destination: MacAddr,
    /// Source MAC address.
    pub source: MacAddr,
    /// EtherType of the payload.
    pub ethertype: u16,
}

impl Repr {
    /// Decodes an Ethernet header.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            destination: view.destination(),
            source: view.source(),
            ethertype: view.ethertype(),
        }
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        put(buffer, DESTINATION, &self.destination.0);
        put(buffer, SOURCE, &self.source.0);
        put_u16(buffer, ETHERTYPE, self.ethertype);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    const BYTES: &str = "ffffffffffff 020000000001 0806";

    #[test]
    fn header_of_a_broadcast_arp_request() {
        let bytes = unhex(BYTES);
        let view = View::new_checked(&bytes).unwrap();
        let repr = Repr::parse(&view);
        assert_eq!(repr.destination, MacAddr::BROADCAST);
        assert_eq!(repr.source.to_string(), "02:00:00:00:00:01");
        assert_eq!(repr.ethertype, ETHERTYPE_ARP);
        assert!(view.payload().is_empty());
        let mut out = [0; HEADER_LEN];
        repr.emit(&mut out);
        assert_eq!(out[..], bytes[..]);
    }

    #[test]
    fn truncated_header_is_refused() {
        rejects_every_shorter_prefix(&unhex(BYTES), Header::Ethernet, |b| {
            View::new_checked(b).map(|_| ())
        });
    }

    #[test]
    fn malformed_mac_text_is_refused() {
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "02:00:00:00:00:1g",
            "+2:0:0:0:0:0",
        ] {
            assert!(text.parse::<MacAddr>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn emitted_header_parses_back(d: [u8; 6], s: [u8; 6], ethertype: u16) {
            let repr = Repr { destination: MacAddr(d), source: MacAddr(s), ethertype };
            let mut out = [0; HEADER_LEN];
            repr.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), repr);
            prop_assert_eq!(repr.source.to_string().parse::<MacAddr>().unwrap(), repr.source);
        }
    }
}
