//! Packets as text: `show`, `summary`, `hexdump`.

use std::fmt::Write as _;

use crate::layer::Layer;
use crate::Packet;

/// Number of bytes in a line of a hexdump.
const LINE: usize = 16;

impl Packet {
    /// All fields of all layers, one per line. A field that is left to be computed has no value yet: `None`.
    ///
    /// ```
    /// use scapy::{Ipv4, Udp};
    ///
    /// let packet = Ipv4::to("10.0.0.2") / Udp::port(4791);
    /// assert!(packet.show().contains("chksum    = None"));
    /// ```
    pub fn show(&self) -> String {
        let mut text = String::new();
        for (depth, layer) in self.layers().iter().enumerate() {
            let indent = "  ".repeat(depth);
            let _ = writeln!(text, "{indent}###[ {} ]###", layer.name());
            for (index, field) in layer.fields() {
                let value = if layer.is_open(index) {
                    "None".to_owned()
                } else {
                    field.text(layer.header()).unwrap_or_default()
                };
                let _ = writeln!(text, "{indent}  {:<9} = {value}", field.name);
            }
        }
        text
    }

    /// As [`Packet::show`], with the computed values.
    ///
    /// # Errors
    /// As for [`Packet::build`].
    pub fn show2(&self) -> Result<String, crate::FieldError> {
        Ok(self.built()?.show())
    }

    /// One line: the layers with their most important fields.
    ///
    /// ```
    /// use scapy::{Ether, Ipv4, Udp};
    ///
    /// let packet = Ether::new() / Ipv4::to("10.0.0.2") / Udp::port(9000) / "abc";
    /// assert_eq!(packet.summary(), "Ether / IP 127.0.0.1 > 10.0.0.2 / UDP domain > 9000 / Raw 3 bytes");
    /// ```
    pub fn summary(&self) -> String {
        let parts = self.layers().iter().map(layer_summary);
        parts.collect::<Vec<_>>().join(" / ")
    }

    /// The bytes of the built packet, 16 in a line, as numbers and as text.
    ///
    /// # Errors
    /// As for [`Packet::build`].
    pub fn hexdump(&self) -> Result<String, crate::FieldError> {
        Ok(hexdump(&self.build()?))
    }
}

fn layer_summary(layer: &Layer) -> String {
    let name = layer.name();
    if layer.is_raw() {
        return format!("{name} {} bytes", layer.header().len());
    }
    let text = |field: &str| layer.text(field).unwrap_or_default();
    let pair = |from: &str, to: &str| format!("{name} {} > {}", text(from), text(to));
    match name {
        "IP" | "IPv6" => pair("src", "dst"),
        "TCP" => format!("{} {}", pair("sport", "dport"), text("flags")),
        "UDP" => pair("sport", "dport"),
        "ARP" => format!("ARP {} {}", text("op"), text("pdst")),
        "ICMP" | "ICMPv6" | "MRP" | "LLDP" => format!("{name} {}", text("type")),
        "Dot1Q" | "Dot1AD" => format!("{name} {}", text("vlan")),
        "VXLAN" => format!("{name} {}", text("vni")),
        "MPLS" => format!("{name} {}", text("label")),
        "BTH" if layer.is_computed("opcode") => format!("BTH psn {}", text("psn")),
        "BTH" => format!("BTH {} psn {}", text("opcode"), text("psn")),
        "AETH" => format!("AETH {} msn {}", text("syndrome"), text("msn")),
        _ => name.to_owned(),
    }
}

/// Bytes, 16 in a line, as numbers and as text.
///
/// ```
/// assert_eq!(scapy::hexdump(b"GET /\r\n"), "0000  47 45 54 20 2f 0d 0a                             GET /..\n");
/// ```
pub fn hexdump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (number, line) in bytes.chunks(LINE).enumerate() {
        let _ = write!(text, "{:04x} ", number * LINE);
        for at in 0..LINE {
            let _ = match line.get(at) {
                Some(byte) => write!(text, " {byte:02x}"),
                None => write!(text, "   "),
            };
        }
        text.push_str("  ");
        let shown = line.iter().map(|byte| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        });
        text.extend(shown);
        text.push('\n');
    }
    text
}
