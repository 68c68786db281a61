//! UDP and TCP.

use std::borrow::Cow;

use pnet_packet::tcp::{MutableTcpPacket, TcpPacket};
use pnet_packet::udp::{MutableUdpPacket, UdpPacket};

use super::number::pnet;
use super::{bound, fixed, Access, Field, Kind, Names, MRP, PLAIN};
use crate::layer::Protocol;
use crate::options::Form;

const PORTS: Names = &[
    (22, "ssh"),
    (53, "domain"),
    (67, "bootps"),
    (68, "bootpc"),
    (80, "http"),
    (123, "ntp"),
    (443, "https"),
    (4789, "vxlan"),
    (4790, "mrp"),
    (4791, "roce"),
];

/// UDP header (RFC 768).
pub static UDP: Protocol = Protocol {
    name: Cow::Borrowed("UDP"),
    template: Cow::Borrowed(&[0, 53, 0, 53, 0, 0, 0, 0]),
    fields: Cow::Borrowed(&[
        Field::new(
            "sport",
            Kind::Named(PORTS),
            0,
            16,
            pnet!(UdpPacket, MutableUdpPacket, get_source, set_source),
        ),
        Field::new(
            "dport",
            Kind::Named(PORTS),
            16,
            16,
            pnet!(
                UdpPacket,
                MutableUdpPacket,
                get_destination,
                set_destination
            ),
        )
        .computed(),
        Field::new(
            "len",
            Kind::Decimal,
            32,
            16,
            pnet!(UdpPacket, MutableUdpPacket, get_length, set_length),
        )
        .computed(),
        Field::new(
            "chksum",
            Kind::Hex,
            48,
            16,
            pnet!(UdpPacket, MutableUdpPacket, get_checksum, set_checksum),
        )
        .computed(),
    ]),
    header_len: fixed::<8>,
    payload_len: |header| usize::from(UdpPacket::new(header)?.get_length()).checked_sub(8),
    next: |layers, payload| {
        let next = bound(layers, payload)?;
        // Registration packets have a version and a type, and their numbers are consistent.
        let is_mrp = std::ptr::eq(next, &MRP);
        (!is_mrp || (MRP.header_len)(payload).is_some()).then_some(next)
    },
    ..PLAIN
};

/// TCP header (RFC 9293) with options.
pub static TCP: Protocol = Protocol {
    name: Cow::Borrowed("TCP"),
    template: Cow::Borrowed(&[
        0, 20, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0x20, 0, 0, 0, 0, 0,
    ]),
    fields: Cow::Borrowed(&[
        Field::new(
            "sport",
            Kind::Named(PORTS),
            0,
            16,
            pnet!(TcpPacket, MutableTcpPacket, get_source, set_source),
        ),
        Field::new(
            "dport",
            Kind::Named(PORTS),
            16,
            16,
            pnet!(
                TcpPacket,
                MutableTcpPacket,
                get_destination,
                set_destination
            ),
        ),
        Field::new(
            "seq",
            Kind::Decimal,
            32,
            32,
            pnet!(TcpPacket, MutableTcpPacket, get_sequence, set_sequence),
        ),
        Field::new(
            "ack",
            Kind::Decimal,
            64,
            32,
            pnet!(
                TcpPacket,
                MutableTcpPacket,
                get_acknowledgement,
                set_acknowledgement
            ),
        ),
        Field::new(
            "dataofs",
            Kind::Decimal,
            96,
            4,
            pnet!(
                TcpPacket,
                MutableTcpPacket,
                get_data_offset,
                set_data_offset
            ),
        )
        .computed(),
        // The lowest of the four reserved bits has been the flag NS (RFC 3540), as scapy shows it.
        Field::new(
            "reserved",
            Kind::Decimal,
            100,
            3,
            Access::Library {
                get: |header| Some(u128::from(TcpPacket::new(header)?.get_reserved() >> 1)),
                set: |header, number| {
                    if let Some(mut packet) = MutableTcpPacket::new(header) {
                        let ns = packet.get_reserved() & 1;
                        packet.set_reserved((number as u8 & 7) << 1 | ns);
                    }
                },
            },
        ),
        Field::new(
            "flags",
            Kind::Flags(&["F", "S", "R", "P", "A", "U", "E", "C", "N"]),
            103,
            9,
            Access::Library {
                get: |header| {
                    let packet = TcpPacket::new(header)?;
                    Some(
                        u128::from(packet.get_reserved() & 1) << 8 | u128::from(packet.get_flags()),
                    )
                },
                set: |header, number| {
                    if let Some(mut packet) = MutableTcpPacket::new(header) {
                        let reserved = packet.get_reserved() & !1;
                        packet.set_reserved(reserved | (number >> 8) as u8 & 1);
                        packet.set_flags(number as u8);
                    }
                },
            },
        ),
        Field::new(
            "window",
            Kind::Decimal,
            112,
            16,
            pnet!(TcpPacket, MutableTcpPacket, get_window, set_window),
        ),
        Field::new(
            "chksum",
            Kind::Hex,
            128,
            16,
            pnet!(TcpPacket, MutableTcpPacket, get_checksum, set_checksum),
        )
        .computed(),
        Field::new(
            "urgptr",
            Kind::Decimal,
            144,
            16,
            pnet!(TcpPacket, MutableTcpPacket, get_urgent_ptr, set_urgent_ptr),
        ),
        Field::new("options", Kind::Options(Form::Tcp), 160, 0, Access::Rest),
    ]),
    header_len: |bytes| {
        let length = 4 * usize::from(TcpPacket::new(bytes)?.get_data_offset());
        (length >= 20 && bytes.len() >= length).then_some(length)
    },
    ..PLAIN
};
