//! Headers that carry packets of other networks: GRE, VXLAN, MPLS.

use std::borrow::Cow;

use pnet_packet::gre::{GrePacket, MutableGrePacket};
use pnet_packet::vxlan::{MutableVxlanPacket, VxlanPacket};

use super::number::pnet;
use super::{bound, fixed, Access, Field, Kind, ETHER, ETHER_TYPES, IP, IPV6, PLAIN};
use crate::layer::Protocol;

const CHECKSUM: u8 = 0x80;
const ROUTING: u8 = 0x40;
const KEY: u8 = 0x20;
const SEQUENCE: u8 = 0x10;

fn gre_has(header: &[u8], flags: u8) -> bool {
    header.first().is_some_and(|byte| byte & flags != 0)
}

fn gre_has_checksum(header: &[u8]) -> bool {
    gre_has(header, CHECKSUM | ROUTING)
}

/// Offset of the key in bytes.
fn gre_key(header: &[u8]) -> usize {
    4 + 4 * usize::from(gre_has_checksum(header))
}

/// Offset of the sequence number in bytes.
fn gre_sequence(header: &[u8]) -> usize {
    gre_key(header) + 4 * usize::from(gre_has(header, KEY))
}

fn gre_len(header: &[u8]) -> usize {
    gre_sequence(header) + 4 * usize::from(gre_has(header, SEQUENCE))
}

/// Inserts or removes the words whose flags have changed.
fn gre_relayout(before: &[u8], header: &mut Vec<u8>) {
    let word = |has: bool, at: usize| -> [u8; 4] {
        let word = before.get(at..at + 4).filter(|_| has);
        word.and_then(|word| word.try_into().ok())
            .unwrap_or_default()
    };
    let flags = |header: &[u8]| header.first().map_or(0, |byte| byte & 0xf0);
    if flags(before) == flags(header) {
        return;
    }
    let words = [
        (CHECKSUM | ROUTING, word(gre_has_checksum(before), 4)),
        (KEY, word(gre_has(before, KEY), gre_key(before))),
        (
            SEQUENCE,
            word(gre_has(before, SEQUENCE), gre_sequence(before)),
        ),
    ];
    header.truncate(4);
    for (flag, word) in words {
        if gre_has(header, flag) {
            header.extend(word);
        }
    }
}

/// GRE (RFC 2784) with key and sequence number (RFC 2890). Source routes (RFC 1701) are a part of the payload.
pub static GRE: Protocol = Protocol {
    name: Cow::Borrowed("GRE"),
    template: Cow::Borrowed(&[0, 0, 0, 0]),
    fields: Cow::Borrowed(&[
        Field::new(
            "chksum_present",
            Kind::Decimal,
            0,
            1,
            pnet!(
                GrePacket,
                MutableGrePacket,
                get_checksum_present,
                set_checksum_present
            ),
        ),
        Field::new(
            "routing_present",
            Kind::Decimal,
            1,
            1,
            pnet!(
                GrePacket,
                MutableGrePacket,
                get_routing_present,
                set_routing_present
            ),
        ),
        Field::new(
            "key_present",
            Kind::Decimal,
            2,
            1,
            pnet!(
                GrePacket,
                MutableGrePacket,
                get_key_present,
                set_key_present
            ),
        ),
        Field::new(
            "seqnum_present",
            Kind::Decimal,
            3,
            1,
            pnet!(
                GrePacket,
                MutableGrePacket,
                get_sequence_present,
                set_sequence_present
            ),
        ),
        Field::new(
            "strict_route_source",
            Kind::Decimal,
            4,
            1,
            pnet!(
                GrePacket,
                MutableGrePacket,
                get_strict_source_route,
                set_strict_source_route
            ),
        ),
        Field::new(
            "recursion_control",
            Kind::Decimal,
            5,
            3,
            pnet!(
                GrePacket,
                MutableGrePacket,
                get_recursion_control,
                set_recursion_control
            ),
        ),
        Field::new(
            "flags",
            Kind::Hex,
            8,
            5,
            pnet!(GrePacket, MutableGrePacket, get_zero_flags, set_zero_flags),
        ),
        Field::new(
            "version",
            Kind::Decimal,
            13,
            3,
            pnet!(GrePacket, MutableGrePacket, get_version, set_version),
        ),
        Field::new(
            "proto",
            Kind::Named(ETHER_TYPES),
            16,
            16,
            pnet!(
                GrePacket,
                MutableGrePacket,
                get_protocol_type,
                set_protocol_type
            ),
        )
        .computed(),
        Field::new("chksum", Kind::Hex, 32, 16, Access::Bits)
            .computed()
            .when(gre_has_checksum)
            .behind("chksum_present", |_| 32),
        Field::new("offset", Kind::Hex, 48, 16, Access::Bits)
            .when(gre_has_checksum)
            .behind("chksum_present", |_| 48),
        Field::new("key", Kind::Hex, 0, 32, Access::Bits)
            .when(|header| gre_has(header, KEY))
            .behind("key_present", |header| 8 * gre_key(header)),
        Field::new("sequence_number", Kind::Decimal, 0, 32, Access::Bits)
            .when(|header| gre_has(header, SEQUENCE))
            .behind("seqnum_present", |header| 8 * gre_sequence(header)),
    ]),
    header_len: |bytes| {
        let length = gre_len(bytes);
        (bytes.len() >= length).then_some(length)
    },
    // Version 1 has another layout (RFC 2637).
    next: |layers, payload| {
        let gre = layers.last()?;
        let is_plain = gre.number("version") == Some(0) && gre.number("routing_present") == Some(0);
        if is_plain {
            bound(layers, payload)
        } else {
            None
        }
    },
    relayout: Some(gre_relayout),
    ..PLAIN
};

/// VXLAN (RFC 7348).
pub static VXLAN: Protocol = Protocol {
    name: Cow::Borrowed("VXLAN"),
    template: Cow::Borrowed(&[8, 0, 0, 0, 0, 0, 0, 0]),
    fields: Cow::Borrowed(&[
        Field::new(
            "flags",
            Kind::Hex,
            0,
            8,
            pnet!(VxlanPacket, MutableVxlanPacket, get_flags, set_flags),
        ),
        Field::new(
            "reserved1",
            Kind::Hex,
            8,
            24,
            pnet!(
                VxlanPacket,
                MutableVxlanPacket,
                get_reserved1,
                set_reserved1
            ),
        ),
        Field::new(
            "vni",
            Kind::Decimal,
            32,
            24,
            pnet!(VxlanPacket, MutableVxlanPacket, get_vni, set_vni),
        ),
        Field::new(
            "reserved2",
            Kind::Hex,
            56,
            8,
            pnet!(
                VxlanPacket,
                MutableVxlanPacket,
                get_reserved2,
                set_reserved2
            ),
        ),
    ]),
    header_len: fixed::<8>,
    next: |_, _| Some(&ETHER),
    ..PLAIN
};

/// One entry of an MPLS label stack (RFC 3032).
pub static MPLS: Protocol = Protocol {
    name: Cow::Borrowed("MPLS"),
    template: Cow::Borrowed(&[0, 0, 0x30, 0]),
    fields: Cow::Borrowed(&[
        Field::new("label", Kind::Decimal, 0, 20, Access::Bits),
        Field::new("cos", Kind::Decimal, 20, 3, Access::Bits),
        Field::new("s", Kind::Decimal, 23, 1, Access::Bits).computed(),
        Field::new("ttl", Kind::Decimal, 24, 8, Access::Bits),
    ]),
    header_len: fixed::<4>,
    // Nothing in the label stack names the payload's protocol.
    next: |layers, payload| match (layers.last()?.number("s"), payload.first()? >> 4) {
        (Some(0), _) => Some(&MPLS),
        (_, 4) => Some(&IP),
        (_, 6) => Some(&IPV6),
        _ => None,
    },
    ..PLAIN
};
