//! Registration packets as frames, as switches exchange them with the controller.

use std::net::Ipv4Addr;

use alfirk_roce::wire::mrp::{Node, Repr, View, NODE_ONLY_RECEIVES, PORT};
use alfirk_roce::wire::{ethernet, ipv4, udp, MacAddr};

use crate::constants::VIRTUAL_MAC;
use crate::controller::event::{MemberSpec, MemoryRegion};

/// A received registration packet with its IPv4 addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) struct Received {
    pub(in crate::controller) source: Ipv4Addr,
    pub(in crate::controller) destination: Ipv4Addr,
    pub(in crate::controller) packet: Repr,
}

/// Parses a frame; `None` if it is not a complete registration packet.
pub(in crate::controller) fn parse(frame: &[u8]) -> Option<Received> {
    let frame = ethernet::View::new_checked(frame).ok()?;
    if frame.ethertype() != ethernet::ETHERTYPE_IPV4 {
        return None;
    }
    let ip = ipv4::View::new_checked(frame.payload()).ok()?;
    ip.check_checksum().ok()?;
    if ip.protocol() != ipv4::PROTOCOL_UDP || ip.is_fragment() {
        return None;
    }
    let udp = udp::View::new_checked(ip.payload()).ok()?;
    if udp.destination_port() != PORT {
        return None;
    }
    let view = View::new_checked(udp.payload()).ok()?;
    Some(Received {
        source: ip.source(),
        destination: ip.destination(),
        packet: Repr::parse(&view),
    })
}

/// Builds the frame of a registration packet that the controller sends. `to`: destination MAC address, [`VIRTUAL_MAC`]
/// for a frame to another switch.
pub(in crate::controller) fn build(
    to: MacAddr,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    packet: &Repr,
) -> Vec<u8> {
    let payload = packet.to_bytes();
    let udp_at = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
    let payload_at = udp_at + udp::HEADER_LEN;
    let mut frame = vec![0; payload_at + payload.len()];
    ethernet::Repr {
        destination: to,
        source: VIRTUAL_MAC,
        ethertype: ethernet::ETHERTYPE_IPV4,
    }
    .emit(&mut frame);
    let udp_len = udp::HEADER_LEN + payload.len();
    ipv4::Repr {
        tos: 0,
        payload_len: u16::try_from(udp_len).expect("registration packets fit into 1,500 bytes"),
        identification: 1,
        dont_fragment: true,
        ttl: 64,
        protocol: ipv4::PROTOCOL_UDP,
        source,
        destination,
    }
    .emit(&mut frame[ethernet::HEADER_LEN..]);
    udp::Repr {
        source_port: PORT,
        destination_port: PORT,
        payload_len: u16::try_from(payload.len()).expect("see above"),
    }
    .emit(&mut frame[udp_at..]);
    frame[payload_at..].copy_from_slice(&payload);
    frame
}

/// Converts a node of a registration packet to a member.
pub(in crate::controller) fn member_spec(node: &Node) -> MemberSpec {
    MemberSpec {
        ip: node.ip,
        qpn: node.qpn,
        region: node.region.map(|region| MemoryRegion {
            va: region.va,
            rkey: region.rkey,
            len: region.len(),
        }),
        may_send: node.flags & NODE_ONLY_RECEIVES == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_roce::wire::mrp::Kind;
    use alfirk_roce::wire::{Psn, QpNum};

    #[test]
    fn frames_round_trip_and_damaged_ones_are_rejected() {
        let node = |n: u32| Node {
            ip: Ipv4Addr::from(0x0a00_0000 + n),
            qpn: QpNum::new(n + 1),
            flags: 0,
            region: None,
        };
        let received = Received {
            source: [10, 0, 0, 1].into(),
            destination: [10, 255, 0, 1].into(),
            packet: Repr {
                kind: Kind::Register,
                seq: 0,
                total: 2,
                initial_psn: Psn::new(5),
                flags: 0,
                nodes: (0..183).map(node).collect(),
            },
        };
        let frame = build(
            VIRTUAL_MAC,
            received.source,
            received.destination,
            &received.packet,
        );
        assert_eq!(frame.len(), 14 + 1500);
        assert_eq!(parse(&frame), Some(received));
        for len in 0..frame.len() {
            assert_eq!(parse(&frame[..len]), None);
        }
        // The IPv4 header checksum detects a change of any byte in it.
        for at in 14..34 {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x40;
            assert_eq!(parse(&damaged), None, "byte {at}");
        }
    }
}
