//! The invariant CRC of RoCEv2 (IBTA vol. 1, 7.8.1 and annex A17.3.3). The module [`neutral`] computes header rewrites
//! that leave it unchanged.
//!
//! The ICRC is CRC-32 (reflected, polynomial 0x04c11db7, as in Ethernet). It covers eight bytes of ones in place of the
//! InfiniBand LRH, then the packet from its IPv4 header to the end of its padding. Every field that a router may change
//! is replaced by ones: type of service, time to live, IPv4 and UDP checksum, and byte 4 of the BTH.

mod gf2;
pub mod neutral;

use alfirk_packet_io::frame::Tail;
use crc32fast::Hasher;

use crate::wire::need;
use crate::wire::{bth, ipv4, udp, Header, WireError};

/// Bytes of IPv4, UDP and base transport header: the part of the packet with masked fields.
const MASKED_LEN: usize = ipv4::HEADER_LEN + udp::HEADER_LEN + bth::HEADER_LEN;

/// Offsets of the bytes that the ICRC replaces by ones, from the start of an IPv4 header without options.
const MASKED: [usize; 7] = [
    1,  // type of service
    8,  // time to live
    10, // IPv4 checksum
    11,
    ipv4::HEADER_LEN + 6, // UDP checksum
    ipv4::HEADER_LEN + 7,
    ipv4::HEADER_LEN + udp::HEADER_LEN + bth::CONGESTION, // FECN, BECN, reserved
];

/// Length of an IPv6 header in bytes.
const IPV6_HEADER_LEN: usize = 40;
/// Offset of the hop limit in an IPv6 header.
const IPV6_HOP_LIMIT: usize = 7;

/// CRC-32 of eight bytes 0xff, which take the place of the InfiniBand LRH.
const CRC_OF_LRH: u32 = 0x2144_df1c;

/// Computes the ICRC of a RoCEv2 packet. `packet`: from its IPv4 header, without options, to the last byte before the
/// ICRC.
///
/// Fails if a header is truncated.
pub fn compute(packet: &[u8]) -> Result<u32, WireError> {
    Ok(crc_of_masked_part(packet)?.finalize())
}

/// Computes the ICRC of a packet in two parts: headers, and a shared payload followed by `padding`.
pub fn compute_split(headers: &[u8], payload: &Tail, padding: &[u8]) -> Result<u32, WireError> {
    let crc = payload.crc_after(crc_of_masked_part(headers)?.finalize());
    if padding.is_empty() {
        return Ok(crc);
    }
    let mut hasher = Hasher::new_with_initial(crc);
    hasher.update(padding);
    Ok(hasher.finalize())
}

/// Computes the ICRC of a RoCEv2 packet over IPv4, whose header may have options, or over IPv6 without extension headers.
/// `packet`: from its IP header to the last byte before the ICRC.
///
/// Over IPv6, traffic class, flow label and hop limit are replaced by ones.
///
/// Fails if a header is truncated.
pub fn compute_ip(packet: &[u8]) -> Result<u32, WireError> {
    let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
    let header_len = match packet.first() {
        Some(_) if is_v6 => IPV6_HEADER_LEN,
        Some(0x45) | None => return compute(packet),
        Some(byte) => usize::from(byte & 15) * 4,
    };
    let header_len = header_len.max(ipv4::HEADER_LEN);
    let masked_len = header_len + udp::HEADER_LEN + bth::HEADER_LEN;
    need(Header::Icrc, packet, masked_len)?;
    let mut masked = packet[..masked_len].to_vec();
    if is_v6 {
        masked[0] |= 0x0f;
        masked[1..4].fill(0xff);
        masked[IPV6_HOP_LIMIT] = 0xff;
    } else {
        masked[1] = 0xff;
        masked[8] = 0xff;
        masked[10..12].fill(0xff);
    }
    masked[header_len + 6..header_len + 8].fill(0xff);
    masked[header_len + udp::HEADER_LEN + bth::CONGESTION] = 0xff;
    let mut hasher = Hasher::new_with_initial(CRC_OF_LRH);
    hasher.update(&masked);
    hasher.update(&packet[masked_len..]);
    Ok(hasher.finalize())
}

/// State of the CRC-32 after the first bytes of a packet, which contain all masked fields.
fn crc_of_masked_part(packet: &[u8]) -> Result<Hasher, WireError> {
    need(Header::Icrc, packet, MASKED_LEN)?;
    let mut masked = [0; MASKED_LEN];
    masked.copy_from_slice(&packet[..MASKED_LEN]);
    for at in MASKED {
        masked[at] = 0xff;
    }
    let mut hasher = Hasher::new_with_initial(CRC_OF_LRH);
    hasher.update(&masked);
    // Middle packets of a message have no headers after these.
    if packet.len() > MASKED_LEN {
        hasher.update(&packet[MASKED_LEN..]);
    }
    Ok(hasher)
}

#[cfg(test)]
mod tests;
