//! Ethernet and what is directly in it: VLAN tags, ARP, LLDP and MAC control frames.

use std::borrow::Cow;

use alfirk_roce::wire::pause;
use pnet_packet::arp::{ArpPacket, MutableArpPacket};
use pnet_packet::ethernet::{EthernetPacket, MutableEthernetPacket};
use pnet_packet::flowcontrol::{FlowControlPacket, MutableFlowControlPacket};
use pnet_packet::vlan::{MutableVlanPacket, VlanPacket};

use super::number::pnet;
use super::{bound, fixed, Access, Field, Kind, Names, ETHER_TYPES, PLAIN};
use crate::layer::{Layer, Protocol};

/// Largest number in the field `type` that is the length of an IEEE 802.3 frame.
const MAX_LENGTH: u128 = 1500;

/// Ethernet II header (IEEE 802.3, clause 3).
pub static ETHER: Protocol = Protocol {
    name: Cow::Borrowed("Ether"),
    aliases: &["Ethernet"],
    template: Cow::Borrowed(&[
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x90, 0x00,
    ]),
    fields: Cow::Borrowed(&[
        Field::new(
            "dst",
            Kind::Mac,
            0,
            48,
            pnet!(
                EthernetPacket,
                MutableEthernetPacket,
                get_destination,
                set_destination
            ),
        ),
        Field::new(
            "src",
            Kind::Mac,
            48,
            48,
            pnet!(
                EthernetPacket,
                MutableEthernetPacket,
                get_source,
                set_source
            ),
        ),
        Field::new(
            "type",
            Kind::Named(ETHER_TYPES),
            96,
            16,
            pnet!(
                EthernetPacket,
                MutableEthernetPacket,
                get_ethertype,
                set_ethertype
            ),
        )
        .computed(),
    ]),
    header_len: fixed::<14>,
    payload_len: ethernet_payload,
    next: after_ethernet,
    ..PLAIN
};

fn ethernet_payload(header: &[u8]) -> Option<usize> {
    let number = ETHER.fields[2].number(header)?;
    (number <= MAX_LENGTH).then_some(number as usize)
}

fn after_ethernet(layers: &[Layer], payload: &[u8]) -> Option<&'static Protocol> {
    let next = bound(layers, payload)?;
    if !std::ptr::eq(next, &PFC) {
        return Some(next);
    }
    // MAC control frames differ by their opcode.
    match payload.get(..2)? {
        [1, 1] => Some(&PFC),
        [0, 1] => Some(&PAUSE),
        _ => None,
    }
}

/// VLAN tag of a customer (IEEE 802.1Q), without the EtherType in front of it.
pub static DOT1Q: Protocol = Protocol {
    name: Cow::Borrowed("Dot1Q"),
    aliases: &["VLAN"],
    template: Cow::Borrowed(&[0, 1, 0, 0]),
    fields: Cow::Borrowed(VLAN_FIELDS),
    header_len: fixed::<4>,
    next: after_ethernet,
    ..PLAIN
};

/// VLAN tag of a provider (IEEE 802.1ad), without the EtherType in front of it.
pub static DOT1AD: Protocol = Protocol {
    name: Cow::Borrowed("Dot1AD"),
    aliases: &["QinQ"],
    template: Cow::Borrowed(&[0, 1, 0, 0]),
    fields: Cow::Borrowed(VLAN_FIELDS),
    header_len: fixed::<4>,
    next: after_ethernet,
    ..PLAIN
};

const VLAN_FIELDS: &[Field] = &[
    Field::new(
        "prio",
        Kind::Decimal,
        0,
        3,
        pnet!(
            VlanPacket,
            MutableVlanPacket,
            get_priority_code_point,
            set_priority_code_point
        ),
    ),
    Field::new(
        "dei",
        Kind::Decimal,
        3,
        1,
        pnet!(
            VlanPacket,
            MutableVlanPacket,
            get_drop_eligible_indicator,
            set_drop_eligible_indicator
        ),
    ),
    Field::new(
        "vlan",
        Kind::Decimal,
        4,
        12,
        pnet!(
            VlanPacket,
            MutableVlanPacket,
            get_vlan_identifier,
            set_vlan_identifier
        ),
    ),
    Field::new(
        "type",
        Kind::Named(ETHER_TYPES),
        16,
        16,
        pnet!(VlanPacket, MutableVlanPacket, get_ethertype, set_ethertype),
    )
    .computed(),
];

const ARP_OPERATIONS: Names = &[
    (1, "who-has"),
    (2, "is-at"),
    (3, "RARP-req"),
    (4, "RARP-rep"),
];

/// ARP for IPv4 over Ethernet (RFC 826).
pub static ARP: Protocol = Protocol {
    name: Cow::Borrowed("ARP"),
    template: Cow::Borrowed(&[
        0, 1, 8, 0, 6, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]),
    fields: Cow::Borrowed(&[
        Field::new(
            "hwtype",
            Kind::Hex,
            0,
            16,
            pnet!(
                ArpPacket,
                MutableArpPacket,
                get_hardware_type,
                set_hardware_type
            ),
        ),
        Field::new(
            "ptype",
            Kind::Named(ETHER_TYPES),
            16,
            16,
            pnet!(
                ArpPacket,
                MutableArpPacket,
                get_protocol_type,
                set_protocol_type
            ),
        ),
        Field::new(
            "hwlen",
            Kind::Decimal,
            32,
            8,
            pnet!(
                ArpPacket,
                MutableArpPacket,
                get_hw_addr_len,
                set_hw_addr_len
            ),
        ),
        Field::new(
            "plen",
            Kind::Decimal,
            40,
            8,
            pnet!(
                ArpPacket,
                MutableArpPacket,
                get_proto_addr_len,
                set_proto_addr_len
            ),
        ),
        Field::new(
            "op",
            Kind::Named(ARP_OPERATIONS),
            48,
            16,
            pnet!(ArpPacket, MutableArpPacket, get_operation, set_operation),
        ),
        Field::new(
            "hwsrc",
            Kind::Mac,
            64,
            48,
            pnet!(
                ArpPacket,
                MutableArpPacket,
                get_sender_hw_addr,
                set_sender_hw_addr
            ),
        ),
        Field::new(
            "psrc",
            Kind::Ipv4,
            112,
            32,
            pnet!(
                ArpPacket,
                MutableArpPacket,
                get_sender_proto_addr,
                set_sender_proto_addr
            ),
        ),
        Field::new(
            "hwdst",
            Kind::Mac,
            144,
            48,
            pnet!(
                ArpPacket,
                MutableArpPacket,
                get_target_hw_addr,
                set_target_hw_addr
            ),
        ),
        Field::new(
            "pdst",
            Kind::Ipv4,
            192,
            32,
            pnet!(
                ArpPacket,
                MutableArpPacket,
                get_target_proto_addr,
                set_target_proto_addr
            ),
        ),
    ]),
    // Other lengths of addresses are another layout.
    header_len: |bytes| {
        let lengths = bytes.get(4..6)?;
        (bytes.len() >= 28 && lengths == [6, 4]).then_some(28)
    },
    ..PLAIN
};

const TLV_TYPES: Names = &[
    (0, "end"),
    (1, "chassis_id"),
    (2, "port_id"),
    (3, "ttl"),
    (4, "port_description"),
    (5, "system_name"),
    (6, "system_description"),
    (7, "system_capabilities"),
    (8, "management_address"),
    (127, "organisation"),
];

/// One TLV of LLDP (IEEE 802.1AB, 8.4). A frame has several, the last of type 0.
pub static LLDP: Protocol = Protocol {
    name: Cow::Borrowed("LLDP"),
    template: Cow::Borrowed(&[0, 0]),
    fields: Cow::Borrowed(&[
        Field::new("type", Kind::Named(TLV_TYPES), 0, 7, Access::Bits),
        Field::new("len", Kind::Decimal, 7, 9, Access::Bits).computed(),
        Field::new("value", Kind::Bytes, 16, 0, Access::Rest),
    ]),
    header_len: |bytes| {
        let length = usize::from(u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]) & 0x1ff);
        (bytes.len() >= 2 + length).then_some(2 + length)
    },
    next: |layers, payload| {
        let is_end = layers.last()?.number("type") == Some(0);
        (!is_end && !payload.is_empty()).then_some(&LLDP)
    },
    ..PLAIN
};

/// Whether PFC changes a class: by the view of `alfirk_roce`, which returns a time for these classes only.
macro_rules! pfc_class {
    ($class:literal) => {
        Access::Library {
            get: |header| {
                let mut frame = [0; pause::FRAME_LEN];
                frame.copy_from_slice(header.get(..pause::FRAME_LEN)?);
                // The view checks the opcode, which an expression may change.
                frame[..2].copy_from_slice(&[1, 1]);
                let view = pause::View::new_checked(&frame).ok()?;
                Some(view.quanta($class).is_some().into())
            },
            set: |header, number| {
                if let Some(byte) = header.get_mut(3) {
                    *byte = *byte & !(1 << $class) | (number as u8 & 1) << $class;
                }
            },
        }
    };
}

/// Priority-based flow control: pause of single classes (IEEE 802.1Q, clause 36).
pub static PFC: Protocol = Protocol {
    name: Cow::Borrowed("PFC"),
    aliases: &["MACControlClassBasedFlowControl"],
    template: Cow::Borrowed(&[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    fields: Cow::Borrowed(&[
        Field::new("opcode", Kind::Hex, 0, 16, Access::Bits),
        Field::new("reserved", Kind::Hex, 16, 8, Access::Bits),
        Field::new("c7_enabled", Kind::Decimal, 24, 1, pfc_class!(7)),
        Field::new("c6_enabled", Kind::Decimal, 25, 1, pfc_class!(6)),
        Field::new("c5_enabled", Kind::Decimal, 26, 1, pfc_class!(5)),
        Field::new("c4_enabled", Kind::Decimal, 27, 1, pfc_class!(4)),
        Field::new("c3_enabled", Kind::Decimal, 28, 1, pfc_class!(3)),
        Field::new("c2_enabled", Kind::Decimal, 29, 1, pfc_class!(2)),
        Field::new("c1_enabled", Kind::Decimal, 30, 1, pfc_class!(1)),
        Field::new("c0_enabled", Kind::Decimal, 31, 1, pfc_class!(0)),
        Field::new("c0_pause_time", Kind::Decimal, 32, 16, Access::Bits),
        Field::new("c1_pause_time", Kind::Decimal, 48, 16, Access::Bits),
        Field::new("c2_pause_time", Kind::Decimal, 64, 16, Access::Bits),
        Field::new("c3_pause_time", Kind::Decimal, 80, 16, Access::Bits),
        Field::new("c4_pause_time", Kind::Decimal, 96, 16, Access::Bits),
        Field::new("c5_pause_time", Kind::Decimal, 112, 16, Access::Bits),
        Field::new("c6_pause_time", Kind::Decimal, 128, 16, Access::Bits),
        Field::new("c7_pause_time", Kind::Decimal, 144, 16, Access::Bits),
    ]),
    header_len: fixed::<{ pause::FRAME_LEN }>,
    ..PLAIN
};

/// PAUSE of a whole link (IEEE 802.3, annex 31B).
pub static PAUSE: Protocol = Protocol {
    name: Cow::Borrowed("Pause"),
    aliases: &["MACControlPause"],
    template: Cow::Borrowed(&[0, 1, 0, 0]),
    fields: Cow::Borrowed(&[
        Field::new(
            "opcode",
            Kind::Hex,
            0,
            16,
            pnet!(
                FlowControlPacket,
                MutableFlowControlPacket,
                get_command,
                set_command
            ),
        ),
        Field::new(
            "pause_time",
            Kind::Decimal,
            16,
            16,
            pnet!(
                FlowControlPacket,
                MutableFlowControlPacket,
                get_quanta,
                set_quanta
            ),
        ),
    ]),
    header_len: fixed::<4>,
    ..PLAIN
};
