//! Packets as stacks of layers, in the manner of Python's scapy: build them, dissect them, show them, compare them,
//! send and sniff them.
//!
//! # Building
//!
//! Layers stack with `/`. A field without a value is computed when the packet is built: lengths, checksums, protocol
//! numbers, padding and the ICRC.
//!
//! ```
//! use scapy::{Bth, Ether, Icrc, Ipv4, Raw, Udp};
//!
//! let packet = Ether::new().src("02:00:00:00:00:01").dst("02:00:00:00:00:02")
//!     / Ipv4::to("10.0.0.2").src("10.0.0.1")
//!     / Udp::port(4791)
//!     / Bth::send_only(0x11, 7)
//!     / Raw::bytes("abc")
//!     / Icrc;
//! let bytes = packet.build().unwrap();
//! assert_eq!(bytes.len(), 14 + 20 + 8 + 12 + 3 + 1 + 4);
//! ```
//!
//! Any field may be wrong on purpose:
//!
//! ```
//! # use scapy::{Ether, Ipv4, Udp};
//! let packet = Ether::new() / Ipv4::to("10.0.0.2").chksum(0xdead).len(9999) / Udp::port(9);
//! let bytes = packet.build().unwrap();
//! assert_eq!(bytes[14 + 10..14 + 12], [0xde, 0xad]);
//! ```
//!
//! A value that a field cannot have is an error of [`Packet::build`]:
//!
//! ```
//! # use scapy::{Ipv4, Udp};
//! let packet = Ipv4::to("10.0.0.300") / Udp::port(9);
//! let error = packet.build().unwrap_err();
//! assert_eq!(error.to_string(), "IP.dst: `10.0.0.300` is not an IPv4 address; one looks like 10.0.0.1");
//! ```
//!
//! # Dissecting
//!
//! [`dissect()`] has a result for any bytes, and building it returns the same bytes:
//!
//! ```
//! # use scapy::{dissect, Ether, Ipv4, Tcp};
//! let bytes = (Ether::new() / Ipv4::to("10.0.0.2") / Tcp::port(80).flags("S")).build().unwrap();
//! let mut packet = dissect(&bytes);
//! assert_eq!(packet.summary(), "Ether / IP 127.0.0.1 > 10.0.0.2 / TCP 20 > http S");
//!
//! // Change a field, and compute the checksums again.
//! packet.set("IP", "ttl", 1).unwrap();
//! packet.clear_computed();
//! let changed = packet.build().unwrap();
//! assert_ne!(changed, bytes);
//! ```
//!
//! # Expressions
//!
//! [`parse`] reads stacks as text, as scapy's users type them:
//!
//! ```
//! let packet = scapy::parse(r#"Ether()/IP(dst="10.0.0.2")/UDP(dport=4791)/BTH(opcode="SEND_ONLY", psn=7)/Raw("abc")/ICRC()"#);
//! assert!(packet.unwrap().build().is_ok());
//! ```
//!
//! # Layers
//!
//! Fields have the names of scapy. Ethernet, VLAN, ARP, IPv4, IPv6 and its extension headers, ICMP, ICMPv6, TCP, UDP,
//! GRE, VXLAN, DNS, BOOTP and PAUSE are read and written by `pnet_packet`; RoCEv2 and PFC by `alfirk_roce::wire`;
//! MPLS, LLDP and [the headers of a P4 program](p4) by the positions of their bits. All of them are in [`protocols`].
//!
//! The crate does no I/O and reads no clock; the feature `live` adds `live`, which sends and sniffs.

mod build;
pub mod capture;
mod diff;
mod dissect;
mod expression;
mod field;
pub mod filter;
mod layer;
mod layers;
#[cfg(feature = "live")]
pub mod live;
mod options;
pub mod p4;
mod packet;
pub mod protocols;
pub mod random;
mod show;
mod value;

pub use diff::{diff, diff_frames, Difference, Mask};
pub use dissect::{dissect, dissect_as};
pub use expression::{parse, parse_with, ExpressionError};
pub use field::{hex, Access, Field, Kind, Names};
pub use filter::Filter;
pub use layer::{FieldError, Layer, Protocol, ProtocolRef, Relayout};
pub use layers::*;
pub use options::Form;
pub use packet::Packet;
pub use show::hexdump;
pub use value::Value;

/// Bytes from hexadecimal digits; white space, `:` and a leading `0x` are ignored.
///
/// # Errors
/// A message with the column of a character that is not a digit, or about an odd number of digits.
pub fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let trimmed = text.trim_start();
    let skipped = text.chars().count() - trimmed.chars().count();
    let (digits, skipped) = match trimmed.strip_prefix("0x") {
        Some(rest) => (rest, skipped + 2),
        None => (trimmed, skipped),
    };
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    let mut high = None;
    for (at, c) in digits.chars().enumerate() {
        if c.is_whitespace() || c == ':' {
            continue;
        }
        let digit = c.to_digit(16).ok_or_else(|| {
            format!(
                "column {}: `{c}` is not a hexadecimal digit",
                skipped + at + 1
            )
        })?;
        match high.take() {
            None => high = Some(digit),
            Some(first) => bytes.push((first << 4 | digit) as u8),
        }
    }
    match high {
        None => Ok(bytes),
        Some(_) => Err("an odd number of hexadecimal digits; two digits are a byte".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::unhex;

    #[test]
    fn hexadecimal_text_is_bytes() {
        assert_eq!(unhex(" 0x01 02:ff\n"), Ok(vec![1, 2, 255]));
        assert_eq!(unhex(""), Ok(vec![]));
        assert_eq!(
            unhex("01 0g").unwrap_err(),
            "column 5: `g` is not a hexadecimal digit"
        );
        assert!(unhex("012").is_err());
    }
}
