//! Layers as types: a constructor for each, and a setter for each field.

use std::net::Ipv4Addr;
use std::ops::Div;

use crate::layer::Layer;
use crate::protocols;
use crate::value::Value;
use crate::Packet;

macro_rules! layers {
    ($($(#[$doc:meta])* $name:ident = $protocol:ident { $($setter:ident $field:literal),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $name(Layer);

            impl $name {
                /// A layer whose fields have their default values, or are left to be computed.
                pub fn new() -> $name {
                    $name(Layer::new(&protocols::$protocol))
                }

                $(
                    #[doc = concat!("Sets the field `", $field, "`.")]
                    #[must_use]
                    pub fn $setter(self, value: impl Into<Value>) -> $name {
                        $name(self.0.set($field, value))
                    }
                )*
            }

            impl Default for $name {
                fn default() -> $name {
                    $name::new()
                }
            }

            impl From<$name> for Layer {
                fn from(layer: $name) -> Layer {
                    layer.0
                }
            }

            impl From<$name> for Packet {
                fn from(layer: $name) -> Packet {
                    layer.0.into()
                }
            }

            impl<R: Into<Packet>> Div<R> for $name {
                type Output = Packet;

                fn div(self, inner: R) -> Packet {
                    Packet::from(self) / inner
                }
            }
        )*

        #[cfg(test)]
        /// Names of the fields that have setters, by protocol.
        const SETTERS: &[(&crate::Protocol, &[&str])] = &[$((&protocols::$protocol, &[$($field),*])),*];
    };
}

layers! {
    /// Ethernet II header.
    Ether = ETHER { dst "dst", src "src", ether_type "type" }
    /// VLAN tag (802.1Q).
    Dot1Q = DOT1Q { prio "prio", dei "dei", vlan "vlan", ether_type "type" }
    /// Provider's VLAN tag (802.1ad).
    Dot1Ad = DOT1AD { prio "prio", dei "dei", vlan "vlan", ether_type "type" }
    /// ARP for IPv4 over Ethernet.
    Arp = ARP {
        hwtype "hwtype", ptype "ptype", hwlen "hwlen", plen "plen", op "op", hwsrc "hwsrc", psrc "psrc",
        hwdst "hwdst", pdst "pdst",
    }
    /// One TLV of LLDP.
    Lldp = LLDP { tlv_type "type", len "len", value "value" }
    /// Priority-based flow control.
    Pfc = PFC {
        opcode "opcode", reserved "reserved", c7_enabled "c7_enabled", c6_enabled "c6_enabled",
        c5_enabled "c5_enabled", c4_enabled "c4_enabled", c3_enabled "c3_enabled", c2_enabled "c2_enabled",
        c1_enabled "c1_enabled", c0_enabled "c0_enabled", c0_pause_time "c0_pause_time",
        c1_pause_time "c1_pause_time", c2_pause_time "c2_pause_time", c3_pause_time "c3_pause_time",
        c4_pause_time "c4_pause_time", c5_pause_time "c5_pause_time", c6_pause_time "c6_pause_time",
        c7_pause_time "c7_pause_time",
    }
    /// PAUSE of a link.
    Pause = PAUSE { opcode "opcode", pause_time "pause_time" }
    /// IPv4 header.
    Ipv4 = IP {
        version "version", ihl "ihl", tos "tos", len "len", id "id", flags "flags", frag "frag", ttl "ttl",
        proto "proto", chksum "chksum", src "src", dst "dst", options "options",
    }
    /// IPv6 header.
    Ipv6 = IPV6 {
        version "version", tc "tc", fl "fl", plen "plen", nh "nh", hlim "hlim", src "src", dst "dst",
    }
    /// Hop-by-hop options of IPv6.
    Ipv6HopByHop = IPV6_HOP_BY_HOP { nh "nh", len "len", options "options" }
    /// Destination options of IPv6.
    Ipv6Destination = IPV6_DESTINATION { nh "nh", len "len", options "options" }
    /// Routing header of IPv6.
    Ipv6Routing = IPV6_ROUTING {
        nh "nh", len "len", routing_type "type", segleft "segleft", reserved "reserved", addresses "addresses",
    }
    /// Fragment header of IPv6.
    Ipv6Fragment = IPV6_FRAGMENT { nh "nh", res1 "res1", offset "offset", res2 "res2", m "m", id "id" }
    /// ICMP.
    Icmp = ICMP {
        icmp_type "type", code "code", chksum "chksum", id "id", seq "seq", gw "gw", ptr "ptr",
        reserved "reserved", length "length", nexthopmtu "nexthopmtu", unused "unused", rest "rest",
    }
    /// ICMPv6 with the fixed parts of neighbour discovery.
    Icmpv6 = ICMPV6 {
        icmp_type "type", code "code", cksum "cksum", id "id", seq "seq", mtu "mtu", ptr "ptr", chlim "chlim",
        flags "flags", routerlifetime "routerlifetime", reachabletime "reachabletime",
        retranstimer "retranstimer", router "R", solicited "S", override_flag "O", res "res",
        reserved "reserved", tgt "tgt",
    }
    /// TCP header.
    Tcp = TCP {
        sport "sport", dport "dport", seq "seq", ack "ack", dataofs "dataofs", reserved "reserved", flags "flags",
        window "window", chksum "chksum", urgptr "urgptr", options "options",
    }
    /// UDP header.
    Udp = UDP { sport "sport", dport "dport", len "len", chksum "chksum" }
    /// GRE header.
    Gre = GRE {
        chksum_present "chksum_present", routing_present "routing_present", key_present "key_present",
        seqnum_present "seqnum_present", strict_route_source "strict_route_source",
        recursion_control "recursion_control", flags "flags", version "version", proto "proto", chksum "chksum",
        offset "offset", key "key", sequence_number "sequence_number",
    }
    /// VXLAN header.
    Vxlan = VXLAN { flags "flags", reserved1 "reserved1", vni "vni", reserved2 "reserved2" }
    /// Entry of an MPLS label stack.
    Mpls = MPLS { label "label", cos "cos", s "s", ttl "ttl" }
    /// Header of a DNS message.
    Dns = DNS {
        id "id", qr "qr", opcode "opcode", aa "aa", tc "tc", rd "rd", ra "ra", z "z", ad "ad", cd "cd",
        rcode "rcode", qdcount "qdcount", ancount "ancount", nscount "nscount", arcount "arcount",
    }
    /// Fixed part of a DHCP message.
    Bootp = BOOTP {
        op "op", htype "htype", hlen "hlen", hops "hops", xid "xid", secs "secs", flags "flags",
        ciaddr "ciaddr", yiaddr "yiaddr", siaddr "siaddr", giaddr "giaddr", chaddr "chaddr",
        chaddr_pad "chaddr_pad", sname "sname", file "file",
    }
    /// Options of a DHCP message.
    Dhcp = DHCP { magic "magic", options "options" }
    /// Base transport header of RoCEv2.
    Bth = BTH {
        opcode "opcode", solicited "solicited", migreq "migreq", padcount "padcount", version "version",
        pkey "pkey", fecn "fecn", becn "becn", resv6 "resv6", dqpn "dqpn", ackreq "ackreq", resv7 "resv7",
        psn "psn",
    }
    /// RDMA extended transport header.
    Reth = RETH { va "va", rkey "rkey", dlen "dlen" }
    /// ACK extended transport header.
    Aeth = AETH { syndrome "syndrome", msn "msn" }
    /// Atomic extended transport header.
    AtomicEth = ATOMIC_ETH { va "va", rkey "rkey", swap "swap", cmp "cmp" }
    /// Atomic ACK extended transport header.
    AtomicAckEth = ATOMIC_ACK_ETH { orig "orig" }
    /// Immediate data.
    ImmDt = IMMDT { data "data" }
    /// Invalidate extended transport header.
    Ieth = IETH { rkey "rkey" }
    /// Datagram extended transport header.
    Deth = DETH { qkey "qkey", reserved "reserved", sqpn "sqpn" }
    /// Reserved bytes of a congestion notification packet.
    Cnp = CNP { reserved1 "reserved1", reserved2 "reserved2" }
    /// Padding between a RoCEv2 payload and its ICRC, where it is not to be computed.
    Pad = PAD { load "load" }
    /// Metadata of a registration packet.
    Mrp = MRP {
        version "version", mrp_type "type", seq "seq", total "total", count "count", psn "psn", flags "flags",
    }
    /// Node of a registration packet.
    MrpNode = MRP_NODE {
        ip "ip", qpn "qpn", flags "flags", va "va", rkey "rkey", log2_len "log2_len", zero "zero",
    }
    /// Payload without structure.
    Raw = RAW { load "load" }
    /// Bytes after the end of the outermost packet.
    Padding = PADDING { load "load" }
}

impl Ipv4 {
    /// A header with this destination.
    pub fn to(destination: impl Into<Value>) -> Ipv4 {
        Ipv4::new().dst(destination)
    }
}

impl Ipv6 {
    /// A header with this destination.
    pub fn to(destination: impl Into<Value>) -> Ipv6 {
        Ipv6::new().dst(destination)
    }
}

impl Udp {
    /// A header with this destination port.
    pub fn port(destination: impl Into<Value>) -> Udp {
        Udp::new().dport(destination)
    }
}

impl Tcp {
    /// A header with this destination port.
    pub fn port(destination: impl Into<Value>) -> Tcp {
        Tcp::new().dport(destination)
    }
}

impl Dot1Q {
    /// A tag with this VLAN identifier, 0 to 4095.
    pub fn id(vlan: impl Into<Value>) -> Dot1Q {
        Dot1Q::new().vlan(vlan)
    }
}

impl Arp {
    /// A request for the MAC address of this IPv4 address.
    pub fn who_has(address: impl Into<Value>) -> Arp {
        Arp::new().pdst(address)
    }
}

impl Bth {
    /// A SEND of one packet. `qpn`: destination queue pair, `psn`: packet sequence number, both of 24 bits.
    pub fn send_only(qpn: impl Into<Value>, psn: impl Into<Value>) -> Bth {
        Bth::new().opcode("SEND_ONLY").dqpn(qpn).psn(psn)
    }

    /// An acknowledgement, whose AETH is the next layer.
    pub fn acknowledge(qpn: impl Into<Value>, psn: impl Into<Value>) -> Bth {
        Bth::new().opcode("ACKNOWLEDGE").dqpn(qpn).psn(psn)
    }
}

impl Raw {
    /// A payload of these bytes.
    pub fn bytes(load: impl Into<Value>) -> Raw {
        Raw::new().load(load)
    }
}

impl MrpNode {
    /// A node with this address and queue pair number.
    pub fn of(ip: Ipv4Addr, qpn: u32) -> MrpNode {
        MrpNode::new().ip(ip).qpn(qpn)
    }
}

/// Invariant CRC at the end of a RoCEv2 packet, computed when the packet is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Icrc;

impl Icrc {
    /// An ICRC with this value, which may be wrong.
    pub fn with_value(icrc: impl Into<Value>) -> Layer {
        Layer::new(&protocols::ICRC).set("icrc", icrc)
    }
}

impl From<Icrc> for Layer {
    fn from(_: Icrc) -> Layer {
        Layer::new(&protocols::ICRC)
    }
}

impl From<Icrc> for Packet {
    fn from(icrc: Icrc) -> Packet {
        Layer::from(icrc).into()
    }
}

#[cfg(test)]
mod tests {
    use super::SETTERS;

    #[test]
    fn every_field_has_a_setter() {
        for (protocol, setters) in SETTERS {
            let fields: Vec<&str> = protocol.fields.iter().map(|f| f.name.as_ref()).collect();
            assert_eq!(fields, *setters, "{}", protocol.name);
        }
        assert_eq!(SETTERS.len() + 1, crate::protocols::ALL.len());
    }
}
