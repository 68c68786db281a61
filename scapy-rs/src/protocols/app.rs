//! DNS (its header) and DHCP.

use std::borrow::Cow;

use pnet_packet::dhcp::{DhcpPacket, MutableDhcpPacket};
use pnet_packet::dns::{DnsPacket, MutableDnsPacket};

use super::number::pnet;
use super::{fixed, Access, Field, Kind, Names, PLAIN};
use crate::layer::Protocol;
use crate::options::Form;

/// Header of a DNS message (RFC 1035, 4.1.1). Questions and records are the payload.
pub static DNS: Protocol = Protocol {
    name: Cow::Borrowed("DNS"),
    template: Cow::Borrowed(&[0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    fields: Cow::Borrowed(&[
        Field::new(
            "id",
            Kind::Decimal,
            0,
            16,
            pnet!(DnsPacket, MutableDnsPacket, get_id, set_id),
        ),
        Field::new(
            "qr",
            Kind::Decimal,
            16,
            1,
            pnet!(
                DnsPacket,
                MutableDnsPacket,
                get_is_response,
                set_is_response
            ),
        ),
        // The accessors of pnet_packet panic on an opcode or response code without a name.
        Field::new("opcode", Kind::Decimal, 17, 4, Access::Bits),
        Field::new(
            "aa",
            Kind::Decimal,
            21,
            1,
            pnet!(
                DnsPacket,
                MutableDnsPacket,
                get_is_authoriative,
                set_is_authoriative
            ),
        ),
        Field::new(
            "tc",
            Kind::Decimal,
            22,
            1,
            pnet!(
                DnsPacket,
                MutableDnsPacket,
                get_is_truncated,
                set_is_truncated
            ),
        ),
        Field::new(
            "rd",
            Kind::Decimal,
            23,
            1,
            pnet!(
                DnsPacket,
                MutableDnsPacket,
                get_is_recursion_desirable,
                set_is_recursion_desirable
            ),
        ),
        Field::new(
            "ra",
            Kind::Decimal,
            24,
            1,
            pnet!(
                DnsPacket,
                MutableDnsPacket,
                get_is_recursion_available,
                set_is_recursion_available
            ),
        ),
        Field::new(
            "z",
            Kind::Decimal,
            25,
            1,
            pnet!(
                DnsPacket,
                MutableDnsPacket,
                get_zero_reserved,
                set_zero_reserved
            ),
        ),
        Field::new(
            "ad",
            Kind::Decimal,
            26,
            1,
            pnet!(
                DnsPacket,
                MutableDnsPacket,
                get_is_answer_authenticated,
                set_is_answer_authenticated
            ),
        ),
        Field::new(
            "cd",
            Kind::Decimal,
            27,
            1,
            pnet!(
                DnsPacket,
                MutableDnsPacket,
                get_is_non_authenticated_data,
                set_is_non_authenticated_data
            ),
        ),
        Field::new("rcode", Kind::Decimal, 28, 4, Access::Bits),
        Field::new(
            "qdcount",
            Kind::Decimal,
            32,
            16,
            pnet!(
                DnsPacket,
                MutableDnsPacket,
                get_query_count,
                set_query_count
            ),
        ),
        Field::new(
            "ancount",
            Kind::Decimal,
            48,
            16,
            pnet!(
                DnsPacket,
                MutableDnsPacket,
                get_response_count,
                set_response_count
            ),
        ),
        Field::new(
            "nscount",
            Kind::Decimal,
            64,
            16,
            pnet!(
                DnsPacket,
                MutableDnsPacket,
                get_authority_rr_count,
                set_authority_rr_count
            ),
        ),
        Field::new(
            "arcount",
            Kind::Decimal,
            80,
            16,
            pnet!(
                DnsPacket,
                MutableDnsPacket,
                get_additional_rr_count,
                set_additional_rr_count
            ),
        ),
    ]),
    header_len: fixed::<12>,
    ..PLAIN
};

const OPERATIONS: Names = &[(1, "BOOTREQUEST"), (2, "BOOTREPLY")];

/// Length of a BOOTP header in bytes.
const BOOTP_LEN: usize = 236;

/// The four bytes in front of DHCP options (RFC 2131, 3).
const MAGIC: [u8; 4] = [0x63, 0x82, 0x53, 0x63];

static BOOTP_TEMPLATE: [u8; BOOTP_LEN] = {
    let mut header = [0; BOOTP_LEN];
    header[0] = 1;
    header[1] = 1;
    header[2] = 6;
    header
};

/// BOOTP (RFC 951): the fixed part of a DHCP message.
pub static BOOTP: Protocol = Protocol {
    name: Cow::Borrowed("BOOTP"),
    template: Cow::Borrowed(&BOOTP_TEMPLATE),
    fields: Cow::Borrowed(&[
        Field::new(
            "op",
            Kind::Named(OPERATIONS),
            0,
            8,
            pnet!(DhcpPacket, MutableDhcpPacket, get_op, set_op),
        ),
        Field::new(
            "htype",
            Kind::Decimal,
            8,
            8,
            pnet!(DhcpPacket, MutableDhcpPacket, get_htype, set_htype),
        ),
        Field::new(
            "hlen",
            Kind::Decimal,
            16,
            8,
            pnet!(DhcpPacket, MutableDhcpPacket, get_hlen, set_hlen),
        ),
        Field::new(
            "hops",
            Kind::Decimal,
            24,
            8,
            pnet!(DhcpPacket, MutableDhcpPacket, get_hops, set_hops),
        ),
        Field::new(
            "xid",
            Kind::Hex,
            32,
            32,
            pnet!(DhcpPacket, MutableDhcpPacket, get_xid, set_xid),
        ),
        Field::new(
            "secs",
            Kind::Decimal,
            64,
            16,
            pnet!(DhcpPacket, MutableDhcpPacket, get_secs, set_secs),
        ),
        Field::new(
            "flags",
            Kind::Hex,
            80,
            16,
            pnet!(DhcpPacket, MutableDhcpPacket, get_flags, set_flags),
        ),
        Field::new(
            "ciaddr",
            Kind::Ipv4,
            96,
            32,
            pnet!(DhcpPacket, MutableDhcpPacket, get_ciaddr, set_ciaddr),
        ),
        Field::new(
            "yiaddr",
            Kind::Ipv4,
            128,
            32,
            pnet!(DhcpPacket, MutableDhcpPacket, get_yiaddr, set_yiaddr),
        ),
        Field::new(
            "siaddr",
            Kind::Ipv4,
            160,
            32,
            pnet!(DhcpPacket, MutableDhcpPacket, get_siaddr, set_siaddr),
        ),
        Field::new(
            "giaddr",
            Kind::Ipv4,
            192,
            32,
            pnet!(DhcpPacket, MutableDhcpPacket, get_giaddr, set_giaddr),
        ),
        Field::new(
            "chaddr",
            Kind::Mac,
            224,
            48,
            pnet!(DhcpPacket, MutableDhcpPacket, get_chaddr, set_chaddr),
        ),
        Field::new("chaddr_pad", Kind::Hex, 272, 80, Access::Bits),
        Field::new("sname", Kind::Bytes, 352, 512, Access::Bits),
        Field::new("file", Kind::Bytes, 864, 1024, Access::Bits),
    ]),
    header_len: fixed::<BOOTP_LEN>,
    next: |_, payload| payload.starts_with(&MAGIC).then_some(&DHCP),
    ..PLAIN
};

/// Options of DHCP (RFC 2132), after BOOTP.
pub static DHCP: Protocol = Protocol {
    name: Cow::Borrowed("DHCP"),
    template: Cow::Borrowed(&MAGIC),
    fields: Cow::Borrowed(&[
        Field::new("magic", Kind::Hex, 0, 32, Access::Bits),
        Field::new("options", Kind::Options(Form::Dhcp), 32, 0, Access::Rest),
    ]),
    header_len: |bytes| (bytes.len() >= 4).then_some(bytes.len()),
    ..PLAIN
};
