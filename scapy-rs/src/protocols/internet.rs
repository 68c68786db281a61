//! IPv4, IPv6 with its extension headers, ICMP and ICMPv6.

use std::borrow::Cow;

use pnet_packet::icmp::echo_request::{EchoRequestPacket, MutableEchoRequestPacket};
use pnet_packet::icmp::{IcmpPacket, MutableIcmpPacket};
use pnet_packet::icmpv6::ndp::{
    MutableNeighborSolicitPacket, MutableRouterAdvertPacket, NeighborSolicitPacket,
    RouterAdvertPacket,
};
use pnet_packet::icmpv6::{Icmpv6Packet, MutableIcmpv6Packet};
use pnet_packet::ipv4::{Ipv4Packet, MutableIpv4Packet};
use pnet_packet::ipv6::{
    ExtensionPacket, FragmentPacket, Ipv6Packet, MutableExtensionPacket, MutableFragmentPacket,
    MutableIpv6Packet, MutableRoutingPacket, RoutingPacket,
};

use super::number::pnet;
use super::{bound, fixed, Access, Field, Kind, Names, IP_PROTOCOLS, PLAIN};
use crate::layer::Protocol;
use crate::options::Form;

/// IPv4 header (RFC 791) with options.
pub static IP: Protocol = Protocol {
    name: Cow::Borrowed("IP"),
    aliases: &["IPv4"],
    // The source and destination of a packet without addresses is this machine.
    template: Cow::Borrowed(&[
        0x45, 0, 0, 0, 0, 1, 0, 0, 64, 0, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1,
    ]),
    fields: Cow::Borrowed(&[
        Field::new(
            "version",
            Kind::Decimal,
            0,
            4,
            pnet!(Ipv4Packet, MutableIpv4Packet, get_version, set_version),
        ),
        Field::new(
            "ihl",
            Kind::Decimal,
            4,
            4,
            pnet!(
                Ipv4Packet,
                MutableIpv4Packet,
                get_header_length,
                set_header_length
            ),
        )
        .computed(),
        Field::new(
            "tos",
            Kind::Hex,
            8,
            8,
            Access::Library {
                get: |header| {
                    let packet = Ipv4Packet::new(header)?;
                    Some(u128::from(packet.get_dscp()) << 2 | u128::from(packet.get_ecn()))
                },
                set: |header, number| {
                    if let Some(mut packet) = MutableIpv4Packet::new(header) {
                        packet.set_dscp((number >> 2) as u8 & 63);
                        packet.set_ecn(number as u8 & 3);
                    }
                },
            },
        ),
        Field::new(
            "len",
            Kind::Decimal,
            16,
            16,
            pnet!(
                Ipv4Packet,
                MutableIpv4Packet,
                get_total_length,
                set_total_length
            ),
        )
        .computed(),
        Field::new(
            "id",
            Kind::Decimal,
            32,
            16,
            pnet!(
                Ipv4Packet,
                MutableIpv4Packet,
                get_identification,
                set_identification
            ),
        ),
        Field::new(
            "flags",
            Kind::Flags(&["MF", "DF", "evil"]),
            48,
            3,
            pnet!(Ipv4Packet, MutableIpv4Packet, get_flags, set_flags),
        ),
        Field::new(
            "frag",
            Kind::Decimal,
            51,
            13,
            pnet!(
                Ipv4Packet,
                MutableIpv4Packet,
                get_fragment_offset,
                set_fragment_offset
            ),
        ),
        Field::new(
            "ttl",
            Kind::Decimal,
            64,
            8,
            pnet!(Ipv4Packet, MutableIpv4Packet, get_ttl, set_ttl),
        ),
        Field::new(
            "proto",
            Kind::Named(IP_PROTOCOLS),
            72,
            8,
            pnet!(
                Ipv4Packet,
                MutableIpv4Packet,
                get_next_level_protocol,
                set_next_level_protocol
            ),
        )
        .computed(),
        Field::new(
            "chksum",
            Kind::Hex,
            80,
            16,
            pnet!(Ipv4Packet, MutableIpv4Packet, get_checksum, set_checksum),
        )
        .computed(),
        Field::new(
            "src",
            Kind::Ipv4,
            96,
            32,
            pnet!(Ipv4Packet, MutableIpv4Packet, get_source, set_source),
        ),
        Field::new(
            "dst",
            Kind::Ipv4,
            128,
            32,
            pnet!(
                Ipv4Packet,
                MutableIpv4Packet,
                get_destination,
                set_destination
            ),
        ),
        Field::new("options", Kind::Options(Form::Ipv4), 160, 0, Access::Rest),
    ]),
    header_len: |bytes| {
        let length = 4 * usize::from(Ipv4Packet::new(bytes)?.get_header_length());
        (length >= 20 && bytes.len() >= length).then_some(length)
    },
    payload_len: |header| {
        let length = usize::from(Ipv4Packet::new(header)?.get_total_length());
        // Length 0 is that of a segment which the network card is to split.
        length.checked_sub(header.len()).filter(|_| length > 0)
    },
    next: |layers, payload| {
        // Only the first fragment begins with the header of the payload, and none has all of it.
        let ip = layers.last()?;
        let is_fragment = ip.number("frag") != Some(0) || ip.number("flags")? & 1 != 0;
        if is_fragment {
            None
        } else {
            bound(layers, payload)
        }
    },
    ..PLAIN
};

/// IPv6 header (RFC 8200).
pub static IPV6: Protocol = Protocol {
    name: Cow::Borrowed("IPv6"),
    aliases: &["IP6"],
    template: Cow::Borrowed(&[
        0x60, 0, 0, 0, 0, 0, 59, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
    ]),
    fields: Cow::Borrowed(&[
        Field::new(
            "version",
            Kind::Decimal,
            0,
            4,
            pnet!(Ipv6Packet, MutableIpv6Packet, get_version, set_version),
        ),
        Field::new(
            "tc",
            Kind::Decimal,
            4,
            8,
            pnet!(
                Ipv6Packet,
                MutableIpv6Packet,
                get_traffic_class,
                set_traffic_class
            ),
        ),
        Field::new(
            "fl",
            Kind::Hex,
            12,
            20,
            pnet!(
                Ipv6Packet,
                MutableIpv6Packet,
                get_flow_label,
                set_flow_label
            ),
        ),
        Field::new(
            "plen",
            Kind::Decimal,
            32,
            16,
            pnet!(
                Ipv6Packet,
                MutableIpv6Packet,
                get_payload_length,
                set_payload_length
            ),
        )
        .computed(),
        Field::new(
            "nh",
            Kind::Named(IP_PROTOCOLS),
            48,
            8,
            pnet!(
                Ipv6Packet,
                MutableIpv6Packet,
                get_next_header,
                set_next_header
            ),
        )
        .computed(),
        Field::new(
            "hlim",
            Kind::Decimal,
            56,
            8,
            pnet!(Ipv6Packet, MutableIpv6Packet, get_hop_limit, set_hop_limit),
        ),
        Field::new(
            "src",
            Kind::Ipv6,
            64,
            128,
            pnet!(Ipv6Packet, MutableIpv6Packet, get_source, set_source),
        ),
        Field::new(
            "dst",
            Kind::Ipv6,
            192,
            128,
            pnet!(
                Ipv6Packet,
                MutableIpv6Packet,
                get_destination,
                set_destination
            ),
        ),
    ]),
    header_len: fixed::<40>,
    // Length 0 is that of a jumbogram.
    payload_len: |header| {
        let length = usize::from(Ipv6Packet::new(header)?.get_payload_length());
        (length > 0).then_some(length)
    },
    next: bound,
    ..PLAIN
};

/// Length of an extension header whose second byte is its length in units of 8 bytes, without the first unit.
fn extension_len(bytes: &[u8]) -> Option<usize> {
    let length = 8 * (usize::from(ExtensionPacket::new(bytes)?.get_hdr_ext_len()) + 1);
    (bytes.len() >= length).then_some(length)
}

/// Six bytes of options: a PadN.
const EXTENSION_TEMPLATE: [u8; 8] = [59, 0, 1, 4, 0, 0, 0, 0];

const EXTENSION_FIELDS: &[Field] = &[
    Field::new(
        "nh",
        Kind::Named(IP_PROTOCOLS),
        0,
        8,
        pnet!(
            ExtensionPacket,
            MutableExtensionPacket,
            get_next_header,
            set_next_header
        ),
    )
    .computed(),
    Field::new(
        "len",
        Kind::Decimal,
        8,
        8,
        pnet!(
            ExtensionPacket,
            MutableExtensionPacket,
            get_hdr_ext_len,
            set_hdr_ext_len
        ),
    )
    .computed(),
    Field::new("options", Kind::Options(Form::Ipv6), 16, 0, Access::Rest),
];

/// Hop-by-hop options of IPv6 (RFC 8200, 4.3).
pub static IPV6_HOP_BY_HOP: Protocol = Protocol {
    name: Cow::Borrowed("IPv6ExtHdrHopByHop"),
    aliases: &["HopByHop"],
    template: Cow::Borrowed(&EXTENSION_TEMPLATE),
    fields: Cow::Borrowed(EXTENSION_FIELDS),
    header_len: extension_len,
    next: bound,
    ..PLAIN
};

/// Destination options of IPv6 (RFC 8200, 4.6).
pub static IPV6_DESTINATION: Protocol = Protocol {
    name: Cow::Borrowed("IPv6ExtHdrDestOpt"),
    aliases: &["DestOpt"],
    template: Cow::Borrowed(&EXTENSION_TEMPLATE),
    fields: Cow::Borrowed(EXTENSION_FIELDS),
    header_len: extension_len,
    next: bound,
    ..PLAIN
};

/// Routing header of IPv6 (RFC 8200, 4.4) with addresses.
pub static IPV6_ROUTING: Protocol = Protocol {
    name: Cow::Borrowed("IPv6ExtHdrRouting"),
    aliases: &["Routing"],
    template: Cow::Borrowed(&[59, 0, 0, 0, 0, 0, 0, 0]),
    fields: Cow::Borrowed(&[
        Field::new(
            "nh",
            Kind::Named(IP_PROTOCOLS),
            0,
            8,
            pnet!(
                RoutingPacket,
                MutableRoutingPacket,
                get_next_header,
                set_next_header
            ),
        )
        .computed(),
        Field::new(
            "len",
            Kind::Decimal,
            8,
            8,
            pnet!(
                RoutingPacket,
                MutableRoutingPacket,
                get_hdr_ext_len,
                set_hdr_ext_len
            ),
        )
        .computed(),
        Field::new(
            "type",
            Kind::Decimal,
            16,
            8,
            pnet!(
                RoutingPacket,
                MutableRoutingPacket,
                get_routing_type,
                set_routing_type
            ),
        ),
        Field::new(
            "segleft",
            Kind::Decimal,
            24,
            8,
            pnet!(
                RoutingPacket,
                MutableRoutingPacket,
                get_segments_left,
                set_segments_left
            ),
        )
        .computed(),
        Field::new("reserved", Kind::Hex, 32, 32, Access::Bits),
        Field::new(
            "addresses",
            Kind::Options(Form::Addresses),
            64,
            0,
            Access::Rest,
        ),
    ]),
    header_len: extension_len,
    next: bound,
    ..PLAIN
};

/// Access to bits of the word with fragment offset, reserved bits and flag M.
macro_rules! fragment {
    ($shift:literal, $mask:literal) => {
        Access::Library {
            get: |header| {
                let word = FragmentPacket::new(header)?.get_fragment_offset_with_flags();
                Some(u128::from(word >> $shift & $mask))
            },
            set: |header, number| {
                if let Some(mut packet) = MutableFragmentPacket::new(header) {
                    let word = packet.get_fragment_offset_with_flags() & !($mask << $shift);
                    packet.set_fragment_offset_with_flags(word | (number as u16 & $mask) << $shift);
                }
            },
        }
    };
}

/// Fragment header of IPv6 (RFC 8200, 4.5).
pub static IPV6_FRAGMENT: Protocol = Protocol {
    name: Cow::Borrowed("IPv6ExtHdrFragment"),
    aliases: &["Fragment"],
    template: Cow::Borrowed(&[59, 0, 0, 0, 0, 0, 0, 0]),
    fields: Cow::Borrowed(&[
        Field::new(
            "nh",
            Kind::Named(IP_PROTOCOLS),
            0,
            8,
            pnet!(
                FragmentPacket,
                MutableFragmentPacket,
                get_next_header,
                set_next_header
            ),
        )
        .computed(),
        Field::new(
            "res1",
            Kind::Hex,
            8,
            8,
            pnet!(
                FragmentPacket,
                MutableFragmentPacket,
                get_reserved,
                set_reserved
            ),
        ),
        Field::new("offset", Kind::Decimal, 16, 13, fragment!(3, 0x1fff)),
        Field::new("res2", Kind::Hex, 29, 2, fragment!(1, 3)),
        Field::new("m", Kind::Decimal, 31, 1, fragment!(0, 1)),
        Field::new(
            "id",
            Kind::Decimal,
            32,
            32,
            pnet!(FragmentPacket, MutableFragmentPacket, get_id, set_id),
        ),
    ]),
    header_len: fixed::<8>,
    next: |layers, payload| {
        let header = layers.last()?;
        let is_whole = header.number("offset") == Some(0) && header.number("m") == Some(0);
        if is_whole {
            bound(layers, payload)
        } else {
            None
        }
    },
    ..PLAIN
};

const ICMP_TYPES: Names = &[
    (0, "echo-reply"),
    (3, "dest-unreach"),
    (4, "source-quench"),
    (5, "redirect"),
    (8, "echo-request"),
    (9, "router-advertisement"),
    (10, "router-solicitation"),
    (11, "time-exceeded"),
    (12, "parameter-problem"),
    (13, "timestamp-request"),
    (14, "timestamp-reply"),
];

fn icmp_has_id(header: &[u8]) -> bool {
    matches!(header.first(), Some(0 | 8 | 13..=18))
}

/// ICMP (RFC 792). The second word of the header depends on the type.
pub static ICMP: Protocol = Protocol {
    name: Cow::Borrowed("ICMP"),
    template: Cow::Borrowed(&[8, 0, 0, 0, 0, 0, 0, 0]),
    fields: Cow::Borrowed(&[
        Field::new(
            "type",
            Kind::Named(ICMP_TYPES),
            0,
            8,
            pnet!(IcmpPacket, MutableIcmpPacket, get_icmp_type, set_icmp_type),
        ),
        Field::new(
            "code",
            Kind::Decimal,
            8,
            8,
            pnet!(IcmpPacket, MutableIcmpPacket, get_icmp_code, set_icmp_code),
        ),
        Field::new(
            "chksum",
            Kind::Hex,
            16,
            16,
            pnet!(IcmpPacket, MutableIcmpPacket, get_checksum, set_checksum),
        )
        .computed(),
        Field::new(
            "id",
            Kind::Hex,
            32,
            16,
            pnet!(
                EchoRequestPacket,
                MutableEchoRequestPacket,
                get_identifier,
                set_identifier
            ),
        )
        .when(icmp_has_id),
        Field::new(
            "seq",
            Kind::Decimal,
            48,
            16,
            pnet!(
                EchoRequestPacket,
                MutableEchoRequestPacket,
                get_sequence_number,
                set_sequence_number
            ),
        )
        .when(icmp_has_id),
        Field::new("gw", Kind::Ipv4, 32, 32, Access::Bits)
            .when(|header| header.first() == Some(&5)),
        Field::new("ptr", Kind::Decimal, 32, 8, Access::Bits)
            .when(|header| header.first() == Some(&12)),
        Field::new("reserved", Kind::Hex, 32, 8, Access::Bits)
            .when(|header| matches!(header.first(), Some(3 | 11))),
        Field::new("length", Kind::Decimal, 40, 8, Access::Bits)
            .when(|header| matches!(header.first(), Some(3 | 11 | 12))),
        Field::new("nexthopmtu", Kind::Decimal, 48, 16, Access::Bits)
            .when(|header| header.first() == Some(&3)),
        Field::new("unused", Kind::Hex, 48, 16, Access::Bits)
            .when(|header| matches!(header.first(), Some(11 | 12))),
        Field::new("rest", Kind::Hex, 32, 32, Access::Bits)
            .when(|header| !matches!(header.first(), Some(0 | 3 | 5 | 8 | 11..=18))),
    ]),
    header_len: fixed::<8>,
    ..PLAIN
};

const ICMPV6_TYPES: Names = &[
    (1, "dest-unreach"),
    (2, "packet-too-big"),
    (3, "time-exceeded"),
    (4, "parameter-problem"),
    (128, "echo-request"),
    (129, "echo-reply"),
    (130, "mld-query"),
    (131, "mld-report"),
    (132, "mld-done"),
    (133, "router-solicitation"),
    (134, "router-advertisement"),
    (135, "neighbor-solicitation"),
    (136, "neighbor-advertisement"),
    (137, "redirect"),
    (143, "mld2-report"),
];

const RA: u8 = 134;
const NS: u8 = 135;
const NA: u8 = 136;

fn icmpv6_len(kind: Option<&u8>) -> usize {
    match kind {
        Some(&RA) => 16,
        Some(&(NS | NA)) => 24,
        _ => 8,
    }
}

/// ICMPv6 (RFC 4443) with the fixed parts of neighbour discovery (RFC 4861), whose options are the payload.
pub static ICMPV6: Protocol = Protocol {
    name: Cow::Borrowed("ICMPv6"),
    template: Cow::Borrowed(&[128, 0, 0, 0, 0, 0, 0, 0]),
    fields: Cow::Borrowed(&[
        Field::new(
            "type",
            Kind::Named(ICMPV6_TYPES),
            0,
            8,
            pnet!(
                Icmpv6Packet,
                MutableIcmpv6Packet,
                get_icmpv6_type,
                set_icmpv6_type
            ),
        ),
        Field::new(
            "code",
            Kind::Decimal,
            8,
            8,
            pnet!(
                Icmpv6Packet,
                MutableIcmpv6Packet,
                get_icmpv6_code,
                set_icmpv6_code
            ),
        ),
        Field::new(
            "cksum",
            Kind::Hex,
            16,
            16,
            pnet!(
                Icmpv6Packet,
                MutableIcmpv6Packet,
                get_checksum,
                set_checksum
            ),
        )
        .computed(),
        Field::new("id", Kind::Hex, 32, 16, Access::Bits)
            .when(|header| matches!(header.first(), Some(128 | 129))),
        Field::new("seq", Kind::Decimal, 48, 16, Access::Bits)
            .when(|header| matches!(header.first(), Some(128 | 129))),
        Field::new("mtu", Kind::Decimal, 32, 32, Access::Bits)
            .when(|header| header.first() == Some(&2)),
        Field::new("ptr", Kind::Decimal, 32, 32, Access::Bits)
            .when(|header| header.first() == Some(&4)),
        Field::new(
            "chlim",
            Kind::Decimal,
            32,
            8,
            pnet!(
                RouterAdvertPacket,
                MutableRouterAdvertPacket,
                get_hop_limit,
                set_hop_limit
            ),
        )
        .when(|header| header.first() == Some(&RA)),
        Field::new(
            "flags",
            Kind::Hex,
            40,
            8,
            pnet!(
                RouterAdvertPacket,
                MutableRouterAdvertPacket,
                get_flags,
                set_flags
            ),
        )
        .when(|header| header.first() == Some(&RA)),
        Field::new(
            "routerlifetime",
            Kind::Decimal,
            48,
            16,
            pnet!(
                RouterAdvertPacket,
                MutableRouterAdvertPacket,
                get_lifetime,
                set_lifetime
            ),
        )
        .when(|header| header.first() == Some(&RA)),
        Field::new(
            "reachabletime",
            Kind::Decimal,
            64,
            32,
            pnet!(
                RouterAdvertPacket,
                MutableRouterAdvertPacket,
                get_reachable_time,
                set_reachable_time
            ),
        )
        .when(|header| header.first() == Some(&RA)),
        Field::new(
            "retranstimer",
            Kind::Decimal,
            96,
            32,
            pnet!(
                RouterAdvertPacket,
                MutableRouterAdvertPacket,
                get_retrans_time,
                set_retrans_time
            ),
        )
        .when(|header| header.first() == Some(&RA)),
        Field::new("R", Kind::Decimal, 32, 1, Access::Bits)
            .when(|header| header.first() == Some(&NA)),
        Field::new("S", Kind::Decimal, 33, 1, Access::Bits)
            .when(|header| header.first() == Some(&NA)),
        Field::new("O", Kind::Decimal, 34, 1, Access::Bits)
            .when(|header| header.first() == Some(&NA)),
        Field::new("res", Kind::Hex, 35, 29, Access::Bits)
            .when(|header| header.first() == Some(&NA)),
        Field::new("reserved", Kind::Hex, 32, 32, Access::Bits)
            .when(|header| !matches!(header.first(), Some(&(2 | 4 | 128 | 129 | RA | NA)))),
        Field::new(
            "tgt",
            Kind::Ipv6,
            64,
            128,
            pnet!(
                NeighborSolicitPacket,
                MutableNeighborSolicitPacket,
                get_target_addr,
                set_target_addr
            ),
        )
        .when(|header| matches!(header.first(), Some(&(NS | NA)))),
    ]),
    header_len: |bytes| {
        let length = icmpv6_len(bytes.first());
        (bytes.len() >= length).then_some(length)
    },
    relayout: Some(|_, header| header.resize(icmpv6_len(header.first()), 0)),
    ..PLAIN
};
