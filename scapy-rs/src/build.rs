//! From layers to bytes: padding, then lengths and protocol numbers, then ICRC, then checksums from the inside out.

use pnet_packet::icmp::{self, IcmpPacket};
use pnet_packet::icmpv6::{self, Icmpv6Packet};
use pnet_packet::ip::IpNextHeaderProtocols;
use pnet_packet::ipv4::{self, Ipv4Packet};
use pnet_packet::util;

use alfirk_roce::icrc;

use crate::layer::{FieldError, Layer};
use crate::protocols::{
    self, BTH, GRE, ICMP, ICMPV6, ICRC, IP, IPV6, IPV6_ROUTING, PAD, PADDING, TCP, UDP,
};

/// Builds a packet: its bytes, and its layers with all fields computed.
pub(crate) fn build(packet: &crate::Packet) -> Result<(Vec<u8>, Vec<Layer>), FieldError> {
    if let Some(error) = packet.layers().iter().find_map(Layer::error) {
        return Err(error.clone());
    }
    // Padding after the payload of an inner layer does not belong to that layer.
    let (trailer, mut layers): (Vec<Layer>, Vec<Layer>) = packet
        .layers()
        .iter()
        .cloned()
        .partition(|layer| layer.is(&PADDING));
    pad_roce(&mut layers);
    let mut payload_len = 0;
    for index in (0..layers.len()).rev() {
        let (outer, inner) = layers.split_at_mut(index + 1);
        let layer = &mut outer[index];
        protocols::structure(layer, inner, payload_len);
        payload_len += layer.header().len();
    }
    let mut starts = Vec::with_capacity(layers.len());
    let mut bytes = Vec::with_capacity(payload_len);
    for layer in &layers {
        starts.push(bytes.len());
        bytes.extend(layer.header());
    }
    for index in 0..layers.len() {
        if layers[index].is(&ICRC) {
            let value = roce_ip(&layers, index)
                .and_then(|ip| icrc::compute_ip(&bytes[starts[ip]..starts[index]]).ok())
                .unwrap_or(0);
            fill(
                &mut layers,
                &mut bytes,
                &starts,
                index,
                "icrc",
                value.into(),
            );
        }
    }
    for index in (0..layers.len()).rev() {
        if let Some((field, sum)) = checksum(&layers, &bytes[starts[index]..], index) {
            fill(&mut layers, &mut bytes, &starts, index, field, sum.into());
        }
    }
    for layer in trailer {
        bytes.extend(layer.header());
        layers.push(layer);
    }
    layers.iter_mut().for_each(Layer::close);
    Ok((bytes, layers))
}

/// Writes a computed field to its layer, and to the bytes of the packet.
fn fill(
    layers: &mut [Layer],
    bytes: &mut [u8],
    starts: &[usize],
    index: usize,
    field: &str,
    value: u128,
) {
    let layer = &mut layers[index];
    layer.fill(field, value);
    let header = layer.header();
    bytes[starts[index]..starts[index] + header.len()].copy_from_slice(header);
}

/// Inserts the padding between a RoCEv2 payload and its ICRC, where the padding count is left to be computed.
fn pad_roce(layers: &mut Vec<Layer>) {
    let Some(bth) = layers.iter().position(|layer| layer.is(&BTH)) else {
        return;
    };
    let after = layers[bth + 1..].iter().position(|layer| layer.is(&ICRC));
    let Some(end) = after.map(|distance| bth + 1 + distance) else {
        return;
    };
    let inside = &layers[bth + 1..end];
    if !layers[bth].is_computed("padcount") || inside.iter().any(|layer| layer.is(&PAD)) {
        return;
    }
    let length: usize = inside.iter().map(|layer| layer.header().len()).sum();
    let padding = length.next_multiple_of(4) - length;
    if padding > 0 {
        layers.insert(end, Layer::new(&PAD).set("load", vec![0; padding]));
    }
}

/// Index of the IP header that encloses a layer.
fn outer_ip(layers: &[Layer], index: usize) -> Option<usize> {
    layers[..index]
        .iter()
        .rposition(|layer| layer.is(&IP) || layer.is(&IPV6))
}

/// Index of the IP header of the RoCEv2 packet around a layer. `None` where the ICRC is not defined: without an IP header,
/// or with extension headers of IPv6.
fn roce_ip(layers: &[Layer], index: usize) -> Option<usize> {
    let ip = outer_ip(layers, index)?;
    let is_roce = layers.get(ip + 1)?.is(&UDP) && layers.get(ip + 2)?.is(&BTH);
    is_roce.then_some(ip)
}

/// Name and value of the checksum of a layer; `bytes` begin with its header, and end with its payload.
fn checksum(layers: &[Layer], bytes: &[u8], index: usize) -> Option<(&'static str, u16)> {
    let layer = &layers[index];
    let header = layer.header().len();
    if layer.is(&IP) {
        let packet = Ipv4Packet::new(bytes.get(..header)?)?;
        return Some(("chksum", ipv4::checksum(&packet)));
    }
    if layer.is(&ICMP) {
        return Some(("chksum", icmp::checksum(&IcmpPacket::new(bytes)?)));
    }
    if layer.is(&GRE) {
        // The checksum is the third word of the header, if it is present.
        return Some(("chksum", util::checksum(bytes, 2)));
    }
    if layer.is(&ICMPV6) {
        let (source, destination) = addresses_v6(layers, outer_ip(layers, index)?, index)?;
        let packet = Icmpv6Packet::new(bytes)?;
        let sum = icmpv6::checksum(&packet, &source, &destination);
        return Some(("cksum", sum));
    }
    let (protocol, word) = match layer {
        layer if layer.is(&TCP) => (IpNextHeaderProtocols::Tcp, 8),
        layer if layer.is(&UDP) => (IpNextHeaderProtocols::Udp, 3),
        _ => return None,
    };
    // The ICRC protects a RoCEv2 packet, and switches change the UDP source port: checksum 0 means none.
    if layer.is(&UDP) && layers.get(index + 1).is_some_and(|next| next.is(&BTH)) {
        return Some(("chksum", 0));
    }
    let ip = outer_ip(layers, index)?;
    let sum = if layers[ip].is(&IP) {
        let packet = Ipv4Packet::new(layers[ip].header())?;
        let (source, destination) = (packet.get_source(), packet.get_destination());
        util::ipv4_checksum(bytes, word, &[], &source, &destination, protocol)
    } else {
        let (source, destination) = addresses_v6(layers, ip, index)?;
        util::ipv6_checksum(bytes, word, &[], &source, &destination, protocol)
    };
    let sum = match sum {
        0 if layer.is(&UDP) => 0xffff,
        sum => sum,
    };
    Some(("chksum", sum))
}

/// Addresses of the IPv6 pseudo-header (RFC 8200, 8.1). With segments left in a routing header, the destination is the
/// last address there.
fn addresses_v6(
    layers: &[Layer],
    ip: usize,
    index: usize,
) -> Option<(std::net::Ipv6Addr, std::net::Ipv6Addr)> {
    let header = &layers[ip];
    let source = header.number("src")?.into();
    let destination = header.number("dst")?.into();
    let routing = layers[ip + 1..index]
        .iter()
        .find(|layer| layer.is(&IPV6_ROUTING));
    let last = routing
        .filter(|layer| layer.number("segleft") != Some(0))
        .and_then(|layer| {
            let addresses = layer.bytes("addresses")?;
            let last: [u8; 16] = addresses.rchunks_exact(16).next()?.try_into().ok()?;
            Some(last.into())
        });
    Some((source, last.unwrap_or(destination)))
}
