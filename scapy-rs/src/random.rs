//! Random packets from a seed: well-formed stacks of layers with random fields, for tests of switches and parsers.

use std::net::Ipv4Addr;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::field::Access;
use crate::layer::{Layer, Protocol};
use crate::protocols::{
    AETH, ARP, ATOMIC_ACK_ETH, ATOMIC_ETH, BOOTP, BTH, CNP, DETH, DHCP, DNS, DOT1AD, DOT1Q, ETHER,
    GRE, ICMP, ICMPV6, ICRC, IETH, IMMDT, IP, IPV6, IPV6_DESTINATION, IPV6_FRAGMENT,
    IPV6_HOP_BY_HOP, IPV6_ROUTING, LLDP, MPLS, MRP, MRP_NODE, PAUSE, PFC, RAW, RETH, TCP, UDP,
    VXLAN,
};
use crate::value::Value;
use crate::Packet;

/// Maximum length of a payload in bytes.
const MAX_PAYLOAD: u32 = 64;
/// Maximum depth of packets in packets.
const MAX_DEPTH: u32 = 2;

/// An endless sequence of random packets.
#[derive(Debug)]
pub struct Packets {
    random: ChaCha8Rng,
}

impl Packets {
    /// The sequence of a seed. Equal seeds have equal packets.
    ///
    /// ```
    /// use scapy::random::Packets;
    ///
    /// let summaries = |seed| Packets::new(seed).take(9).map(|packet| packet.summary()).collect::<Vec<_>>();
    /// assert_eq!(summaries(1), summaries(1));
    /// assert_ne!(summaries(1), summaries(2));
    /// ```
    pub fn new(seed: u64) -> Packets {
        Packets {
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }
}

impl Iterator for Packets {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        let mut stack = Stack {
            random: &mut self.random,
            layers: Vec::new(),
            depth: 0,
        };
        stack.ethernet();
        Some(stack.layers.into())
    }
}

struct Stack<'a> {
    random: &'a mut ChaCha8Rng,
    layers: Vec<Layer>,
    /// Number of packets around the current one.
    depth: u32,
}

impl Stack<'_> {
    /// A number below `limit`.
    fn below(&mut self, limit: u32) -> u32 {
        self.random.next_u32() % limit
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    /// A layer with random values in all fields that are not computed, except `fixed`.
    fn random(&mut self, protocol: &'static Protocol, fixed: &[&str]) -> Layer {
        let mut layer = Layer::new(protocol);
        for field in protocol.fields.iter() {
            let is_plain = !field.is_computed && !matches!(field.access, Access::Rest);
            if !is_plain || !field.exists(layer.header()) || fixed.contains(&&*field.name) {
                continue;
            }
            let mut bits = self.bytes(field.width.div_ceil(8));
            if let (rest @ 1..=7, Some(first)) = (field.width % 8, bits.first_mut()) {
                *first &= (1 << rest) - 1;
            }
            layer = layer.set(&field.name, bits);
        }
        layer
    }

    fn push(&mut self, protocol: &'static Protocol, fixed: &[&str]) {
        let layer = self.random(protocol, fixed);
        self.layers.push(layer);
    }

    fn payload(&mut self) {
        let length = self.below(MAX_PAYLOAD) as usize;
        if length > 0 {
            let load = self.bytes(length);
            self.layers.push(Layer::new(&RAW).set("load", load));
        }
    }

    fn ethernet(&mut self) {
        self.push(&ETHER, &[]);
        let choice = match self.below(12) {
            // Bridges do not forward frames of a link, so they are in no tunnel.
            1..=3 if self.depth > 0 => 11,
            choice => choice,
        };
        match choice {
            0 => return self.push(&ARP, &["hwtype", "ptype", "hwlen", "plen"]),
            1 => return self.lldp(),
            2 => return self.push(&PFC, &["opcode", "reserved"]),
            3 => return self.push(&PAUSE, &["opcode"]),
            4 => {
                self.push(&DOT1AD, &[]);
                self.push(&DOT1Q, &[]);
            }
            5 | 6 => self.push(&DOT1Q, &[]),
            7 => {
                for _ in 0..=self.below(3) {
                    self.push(&MPLS, &[]);
                }
            }
            _ => {}
        }
        self.ip();
    }

    fn lldp(&mut self) {
        for kind in [1_u8, 2, 3, 5] {
            let value = match kind {
                // A subtype (MAC address, interface name) precedes the identifier.
                1 => [&[4][..], &self.bytes(6)].concat(),
                2 => [&[5][..], b"veth1"].concat(),
                3 => self.bytes(2),
                _ => b"switch".to_vec(),
            };
            let tlv = Layer::new(&LLDP).set("type", kind).set("value", value);
            self.layers.push(tlv);
        }
        self.layers.push(Layer::new(&LLDP));
    }

    fn ip(&mut self) {
        self.depth += 1;
        let is_v6 = self.below(3) == 0;
        let mut has_extensions = false;
        if is_v6 {
            self.push(&IPV6, &["version"]);
            let count = self.layers.len();
            self.extensions();
            has_extensions = self.layers.len() > count;
        } else {
            let flags = self.below(2) * 2;
            let layer = self.random(&IP, &["version", "flags", "frag"]);
            let layer = layer.set("flags", flags);
            let layer = match self.below(6) {
                0 => layer.set("options", vec![Value::from("NOP"), router_alert()]),
                _ => layer,
            };
            self.layers.push(layer);
        }
        match self.below(10) {
            0..=2 => self.tcp(),
            3 if is_v6 => self.icmpv6(),
            3 => self.icmp(),
            4 if self.depth < MAX_DEPTH => self.gre(),
            5 if self.depth < MAX_DEPTH => {
                let udp = Layer::new(&UDP).set("sport", 49_152 + self.below(1000));
                self.layers.push(udp.set("dport", 4789));
                self.push(&VXLAN, &["flags", "reserved1"]);
                self.ethernet();
            }
            6 => self.dhcp(),
            7 => self.mrp(),
            // The ICRC is not defined with extension headers.
            8 | 9 if !has_extensions => self.roce(),
            _ => self.udp(),
        }
    }

    fn extensions(&mut self) {
        for protocol in [
            &IPV6_HOP_BY_HOP,
            &IPV6_DESTINATION,
            &IPV6_ROUTING,
            &IPV6_FRAGMENT,
        ] {
            if self.below(8) != 0 {
                continue;
            }
            let layer = self.random(protocol, &["offset", "m", "res1", "res2", "type"]);
            let layer = match protocol {
                protocol if std::ptr::eq(protocol, &IPV6_ROUTING) => {
                    let count = 1 + self.below(2);
                    let addresses: Vec<u8> = self.bytes(16 * count as usize);
                    layer.set("addresses", addresses).set("reserved", 0)
                }
                _ => layer,
            };
            self.layers.push(layer);
        }
    }

    /// Ports to which scapy binds no protocol.
    fn ports(&mut self, layer: Layer) -> Layer {
        let ports = [51_000 + self.below(999), 52_000 + self.below(999)];
        layer.set("sport", ports[0]).set("dport", ports[1])
    }

    fn tcp(&mut self) {
        let layer = self.random(&TCP, &["sport", "dport"]);
        let mut layer = self.ports(layer);
        if self.below(2) == 0 {
            let numbers = [self.below(65_536), self.below(15), self.below(65_536)];
            let options = [
                option("MSS", numbers[0]),
                "NOP".into(),
                option("WScale", numbers[1]),
                "SAckOK".into(),
                option(
                    "Timestamp",
                    vec![Value::from(numbers[2]), Value::from(numbers[0])],
                ),
            ];
            let count = 1 + self.below(options.len() as u32) as usize;
            layer = layer.set("options", options[..count].to_vec());
        }
        self.layers.push(layer);
        self.payload();
    }

    fn udp(&mut self) {
        let mut layer = self.ports(Layer::new(&UDP));
        if self.below(4) == 0 {
            layer = layer.set("dport", 53);
            self.layers.push(layer);
            return self.push(&DNS, &["qdcount", "ancount", "nscount", "arcount"]);
        }
        self.layers.push(layer);
        self.payload();
    }

    fn icmp(&mut self) {
        let layer = self.random(&ICMP, &["type", "code"]);
        let kind = if self.below(2) == 0 { 0 } else { 8 };
        self.layers.push(layer.set("type", kind));
        self.payload();
    }

    fn icmpv6(&mut self) {
        let kind = [128_u8, 129, 135, 136, 134][self.below(5) as usize];
        let mut layer = Layer::new(&ICMPV6).set("type", kind);
        let fields: Vec<_> = layer.fields().map(|(_, field)| field.clone()).collect();
        for field in fields {
            if field.is_computed || ["type", "code", "reserved", "res"].contains(&&*field.name) {
                continue;
            }
            let mut bits = self.bytes(field.width.div_ceil(8));
            if let (rest @ 1..=7, Some(first)) = (field.width % 8, bits.first_mut()) {
                *first &= (1 << rest) - 1;
            }
            layer = layer.set(&field.name, bits);
        }
        self.layers.push(layer);
        if kind < 130 {
            self.payload();
        }
    }

    fn gre(&mut self) {
        let mut layer = Layer::new(&GRE);
        if self.below(2) == 0 {
            layer = layer.set("chksum_present", 1);
        }
        if self.below(2) == 0 {
            layer = layer.set("key", self.random.next_u32());
        }
        if self.below(2) == 0 {
            layer = layer.set("sequence_number", self.random.next_u32());
        }
        self.layers.push(layer);
        self.ip();
    }

    fn dhcp(&mut self) {
        let udp = Layer::new(&UDP).set("sport", 68).set("dport", 67);
        self.layers.push(udp);
        let layer = self.random(
            &BOOTP,
            &["op", "htype", "hlen", "chaddr_pad", "sname", "file"],
        );
        self.layers.push(layer);
        let address = Ipv4Addr::from(self.random.next_u32()).to_string();
        let options = vec![
            option("message-type", "discover"),
            option("requested_addr", address),
            option("lease_time", self.random.next_u32()),
            option("hostname", "host"),
            "end".into(),
        ];
        self.layers.push(Layer::new(&DHCP).set("options", options));
    }

    fn mrp(&mut self) {
        let port = u32::from(alfirk_roce::wire::mrp::PORT);
        let udp = Layer::new(&UDP).set("sport", port).set("dport", port);
        self.layers.push(udp);
        let kind = 1 + self.below(10);
        let layer = self.random(&MRP, &["version", "type", "seq", "total"]);
        self.layers.push(layer.set("type", kind));
        for _ in 0..self.below(4) {
            let node = self.random(&MRP_NODE, &["flags"]);
            let node = match self.below(2) {
                0 => node,
                _ => node
                    .set("flags", alfirk_roce::wire::mrp::NODE_HAS_REGION)
                    .set("va", self.random.next_u64())
                    .set("rkey", self.random.next_u32())
                    .set("log2_len", self.below(64)),
            };
            self.layers.push(node);
        }
    }

    fn roce(&mut self) {
        let udp = Layer::new(&UDP).set("sport", 49_152 + self.below(16_000));
        self.layers.push(udp.set("dport", 4791));
        self.push(&BTH, &["version"]);
        let kinds: [&[&'static Protocol]; 10] = [
            &[],
            &[&IMMDT],
            &[&RETH],
            &[&RETH, &IMMDT],
            &[&AETH],
            &[&AETH, &ATOMIC_ACK_ETH],
            &[&ATOMIC_ETH],
            &[&DETH],
            &[&IETH],
            &[&CNP],
        ];
        let kind = self.below(kinds.len() as u32) as usize;
        for protocol in kinds[kind] {
            self.push(protocol, &["reserved"]);
        }
        let has_payload = matches!(kind, 0..=3 | 7 | 8);
        if has_payload {
            self.payload();
        }
        self.layers.push(Layer::new(&ICRC));
    }
}

fn option(name: &str, value: impl Into<Value>) -> Value {
    Value::List(vec![name.into(), value.into()])
}

fn router_alert() -> Value {
    option("RouterAlert", 0)
}
