//! The protocols: their fields, lengths and places among each other.

mod app;
mod internet;
mod link;
mod number;
mod roce;
mod transport;
mod tunnel;

pub use app::{BOOTP, DHCP, DNS};
pub use internet::{
    ICMP, ICMPV6, IP, IPV6, IPV6_DESTINATION, IPV6_FRAGMENT, IPV6_HOP_BY_HOP, IPV6_ROUTING,
};
pub use link::{ARP, DOT1AD, DOT1Q, ETHER, LLDP, PAUSE, PFC};
pub use roce::{
    AETH, ATOMIC_ACK_ETH, ATOMIC_ETH, BTH, CNP, DETH, ICRC, IETH, IMMDT, MRP, MRP_NODE, PAD, RETH,
};
pub use transport::{TCP, UDP};
pub use tunnel::{GRE, MPLS, VXLAN};

use std::borrow::Cow;

use crate::field::{Access, Field, Kind, Names};
use crate::layer::{Layer, Protocol};
use crate::packet::is_called;

/// A payload without structure.
pub static RAW: Protocol = Protocol {
    name: Cow::Borrowed("Raw"),
    aliases: &[],
    fields: Cow::Borrowed(&[Field::new("load", Kind::Bytes, 0, 0, Access::Rest)]),
    header_len: everything,
    ..PLAIN
};

/// Bytes after the end that the length field of an outer header announces, such as the padding of short Ethernet
/// frames.
pub static PADDING: Protocol = Protocol {
    name: Cow::Borrowed("Padding"),
    aliases: &[],
    fields: Cow::Borrowed(&[Field::new("load", Kind::Bytes, 0, 0, Access::Rest)]),
    header_len: everything,
    ..PLAIN
};

/// A header without fields, options and payload: the rest of the static protocols.
const PLAIN: Protocol = Protocol {
    name: Cow::Borrowed(""),
    aliases: &[],
    template: Cow::Borrowed(&[]),
    fields: Cow::Borrowed(&[]),
    header_len: everything,
    payload_len: to_the_end,
    next: raw,
    relayout: None,
};

/// All protocols of this crate.
pub static ALL: [&Protocol; 38] = [
    &ETHER,
    &DOT1Q,
    &DOT1AD,
    &ARP,
    &LLDP,
    &PFC,
    &PAUSE,
    &MPLS,
    &IP,
    &IPV6,
    &IPV6_HOP_BY_HOP,
    &IPV6_DESTINATION,
    &IPV6_ROUTING,
    &IPV6_FRAGMENT,
    &ICMP,
    &ICMPV6,
    &TCP,
    &UDP,
    &GRE,
    &VXLAN,
    &DNS,
    &BOOTP,
    &DHCP,
    &BTH,
    &RETH,
    &AETH,
    &ATOMIC_ETH,
    &ATOMIC_ACK_ETH,
    &IMMDT,
    &IETH,
    &DETH,
    &CNP,
    &PAD,
    &ICRC,
    &MRP,
    &MRP_NODE,
    &RAW,
    &PADDING,
];

/// The protocol with this name; upper and lower case are equal.
pub fn by_name(name: &str) -> Option<&'static Protocol> {
    ALL.into_iter().find(|protocol| is_called(protocol, name))
}

fn everything(bytes: &[u8]) -> Option<usize> {
    Some(bytes.len())
}

fn to_the_end(_: &[u8]) -> Option<usize> {
    None
}

fn raw(_: &[Layer], _: &[u8]) -> Option<&'static Protocol> {
    None
}

/// A header of `N` bytes.
fn fixed<const N: usize>(bytes: &[u8]) -> Option<usize> {
    (bytes.len() >= N).then_some(N)
}

/// A number in a header, as outer protocol, field, number and inner protocol. Of several rows with the same protocols
/// the first is used for building.
type Binding = (&'static Protocol, &'static str, u64, &'static Protocol);

/// Protocol numbers. Dissecting follows a row if the field has the number; building writes the number if the layers
/// follow each other.
static BINDINGS: &[Binding] = &[
    (&ETHER, "type", 0x0800, &IP),
    (&ETHER, "type", 0x0806, &ARP),
    (&ETHER, "type", 0x8100, &DOT1Q),
    (&ETHER, "type", 0x88a8, &DOT1AD),
    (&ETHER, "type", 0x86dd, &IPV6),
    (&ETHER, "type", 0x8808, &PFC),
    (&ETHER, "type", 0x8808, &PAUSE),
    (&ETHER, "type", 0x8847, &MPLS),
    (&ETHER, "type", 0x8848, &MPLS),
    (&ETHER, "type", 0x88cc, &LLDP),
    (&GRE, "proto", 0x6558, &ETHER),
    (&IP, "proto", 1, &ICMP),
    (&IP, "proto", 4, &IP),
    (&IP, "proto", 6, &TCP),
    (&IP, "proto", 17, &UDP),
    (&IP, "proto", 41, &IPV6),
    (&IP, "proto", 47, &GRE),
    (&IP, "proto", 58, &ICMPV6),
    (&IPV6, "nh", 0, &IPV6_HOP_BY_HOP),
    (&IPV6, "nh", 43, &IPV6_ROUTING),
    (&IPV6, "nh", 44, &IPV6_FRAGMENT),
    (&IPV6, "nh", 60, &IPV6_DESTINATION),
    (&UDP, "dport", 53, &DNS),
    (&UDP, "dport", 67, &BOOTP),
    (&UDP, "dport", 68, &BOOTP),
    (&UDP, "dport", alfirk_roce::wire::vxlan::PORT as u64, &VXLAN),
    (&UDP, "dport", alfirk_roce::wire::udp::PORT_MRP as u64, &MRP),
    (
        &UDP,
        "dport",
        alfirk_roce::wire::udp::PORT_ROCE as u64,
        &BTH,
    ),
    // A reply; other destination ports have precedence.
    (&UDP, "sport", 53, &DNS),
];

/// Protocols that number their payload as another protocol does, with the name of their own field.
static LIKE: &[(&Protocol, &str, &Protocol)] = &[
    (&DOT1Q, "type", &ETHER),
    (&DOT1AD, "type", &ETHER),
    (&GRE, "proto", &ETHER),
    (&IPV6, "nh", &IP),
    (&IPV6_HOP_BY_HOP, "nh", &IPV6),
    (&IPV6_DESTINATION, "nh", &IPV6),
    (&IPV6_ROUTING, "nh", &IPV6),
    (&IPV6_FRAGMENT, "nh", &IPV6),
    (&IPV6_HOP_BY_HOP, "nh", &IP),
    (&IPV6_DESTINATION, "nh", &IP),
    (&IPV6_ROUTING, "nh", &IP),
    (&IPV6_FRAGMENT, "nh", &IP),
];

/// Rows of [`BINDINGS`] that apply to a protocol: its own field, the number and the inner protocol.
fn bindings(
    protocol: &Protocol,
) -> impl Iterator<Item = (&'static str, u64, &'static Protocol)> + '_ {
    let own = BINDINGS
        .iter()
        .filter(move |row| std::ptr::eq(row.0, protocol))
        .map(|row| (row.1, row.2, row.3));
    let shared = LIKE
        .iter()
        .filter(move |row| std::ptr::eq(row.0, protocol))
        .flat_map(|&(_, field, like)| {
            let of = BINDINGS.iter().filter(move |row| std::ptr::eq(row.0, like));
            of.map(move |row| (field, row.2, row.3))
        });
    own.chain(shared)
}

/// Protocol of the payload by the numbers in the innermost header.
fn bound(layers: &[Layer], _: &[u8]) -> Option<&'static Protocol> {
    let layer = layers.last()?;
    let mut rows = bindings(layer.protocol());
    rows.find(|(field, number, _)| layer.number(field) == Some((*number).into()))
        .map(|(_, _, inner)| inner)
}

/// Writes lengths, counts and protocol numbers of a layer, where they are left to be computed. `inner`: the layers
/// inside; `payload_len`: their length in bytes.
pub(crate) fn structure(layer: &mut Layer, inner: &[Layer], payload_len: usize) {
    if let Some(next) = inner.first() {
        let own = layer.protocol_ref().clone();
        let mut used = Vec::new();
        for (field, number, protocol) in bindings(&own) {
            if next.is(protocol) && !used.contains(&field) {
                used.push(field);
                layer.fill(field, number.into());
                // The first number is the one to write, unless another field has the same meaning.
                if layer.is(&UDP) {
                    break;
                }
            }
        }
    }
    let header_len = layer.header().len();
    let total = |limit: usize| (header_len + payload_len).min(limit) as u128;
    if layer.is(&IP) {
        layer.fill("ihl", (header_len / 4) as u128 & 15);
        layer.fill("len", total(0xffff));
    } else if layer.is(&IPV6) {
        layer.fill("plen", payload_len.min(0xffff) as u128);
    } else if layer.is(&UDP) {
        layer.fill("len", total(0xffff));
    } else if layer.is(&TCP) {
        layer.fill("dataofs", (header_len / 4) as u128 & 15);
    } else if layer.is(&IPV6_HOP_BY_HOP) || layer.is(&IPV6_DESTINATION) {
        layer.fill("len", (header_len / 8).saturating_sub(1).min(255) as u128);
    } else if layer.is(&IPV6_ROUTING) {
        let addresses = header_len.saturating_sub(8) / 16;
        layer.fill("len", (2 * addresses).min(255) as u128);
        layer.fill("segleft", addresses.min(255) as u128);
    } else if layer.is(&MPLS) {
        let is_last = !inner.first().is_some_and(|next| next.is(&MPLS));
        layer.fill("s", is_last.into());
    } else if layer.is(&LLDP) {
        layer.fill("len", (header_len - 2).min(511) as u128);
    } else if layer.is(&MRP) {
        let records = inner.iter().take_while(|layer| layer.is(&MRP_NODE));
        let length: usize = records.map(|layer| layer.header().len()).sum();
        layer.fill("count", (length / 8).min(255) as u128);
    } else if layer.is(&BTH) {
        let padding = inner.iter().find(|layer| layer.is(&PAD));
        let length = padding.map_or(0, |layer| layer.header().len());
        layer.fill("padcount", (length as u128).min(3));
        layer.fill("opcode", roce::opcode_for(inner).into());
        let is_cnp = inner.first().is_some_and(|next| next.is(&CNP));
        layer.fill("becn", is_cnp.into());
    }
}

pub(crate) const ETHER_TYPES: Names = &[
    (0x0800, "IPv4"),
    (0x0806, "ARP"),
    (0x6558, "TransparentEthernet"),
    (0x8100, "VLAN"),
    (0x86dd, "IPv6"),
    (0x8808, "MACControl"),
    (0x8847, "MPLS"),
    (0x8848, "MPLSMulticast"),
    (0x88a8, "QinQ"),
    (0x88cc, "LLDP"),
    (0x88f7, "PTP"),
    (0x8915, "RoCE"),
];

pub(crate) const IP_PROTOCOLS: Names = &[
    (0, "HopByHop"),
    (1, "ICMP"),
    (2, "IGMP"),
    (4, "IPIP"),
    (6, "TCP"),
    (17, "UDP"),
    (41, "IPv6"),
    (43, "Routing"),
    (44, "Fragment"),
    (47, "GRE"),
    (50, "ESP"),
    (51, "AH"),
    (58, "ICMPv6"),
    (59, "NoNext"),
    (60, "DestOpt"),
    (89, "OSPF"),
    (132, "SCTP"),
];
