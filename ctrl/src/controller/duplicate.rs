//! Duplicate requests, which make a member's responder acknowledge its newest PSN.
//!
//! A responder acknowledges a duplicate request with the PSN of the newest request, and does not execute it (IBTA vol. 1,
//! 9.7.5.1.2). So an old PSN reads the position of any conforming queue pair. The request is an RDMA WRITE of 0 bytes: if it
//! is not a duplicate, it changes no memory, consumes no receive, and its R_Key is not checked (9.7.4.1.5).

use std::net::Ipv4Addr;

use alfirk_roce::icrc;
use alfirk_roce::wire::{bth, ethernet, ipv4, reth, udp, Opcode, Psn};

use super::bridge::GroupMember;
use crate::constants::{VIRTUAL_MAC, VIRTUAL_RKEY, VIRTUAL_VA};

const IP_AT: usize = ethernet::HEADER_LEN;
const UDP_AT: usize = IP_AT + ipv4::HEADER_LEN;
const BTH_AT: usize = UDP_AT + udp::HEADER_LEN;
const RETH_AT: usize = BTH_AT + bth::HEADER_LEN;
const ICRC_AT: usize = RETH_AT + reth::HEADER_LEN;
const FRAME_LEN: usize = ICRC_AT + 4;

/// Number of packets by which the PSN of a duplicate request is older than the newest PSN that all members have. Even
/// the current source has received such an old PSN, before it became the source. The distance to the PSN that a member
/// expects is less than half the PSN space, so the member recognises a duplicate.
const DUPLICATE_AGE: u32 = 1 << 21;

/// PSN of duplicate requests to the members of a group. All members have the data up to the PSN `base`.
pub(super) fn psn(base: Psn) -> Psn {
    Psn::new(base.get().wrapping_sub(DUPLICATE_AGE))
}

/// Builds a duplicate request to a member, with the headers that the member's switch gives to a frame of the group: those
/// that the exit half of the bridge writes (`bridge_exit.p4`).
pub(super) fn frame(mcst_id: Ipv4Addr, member: &GroupMember, psn: Psn) -> Vec<u8> {
    let mut frame = vec![0; FRAME_LEN];
    ethernet::Repr {
        destination: member.mac,
        source: VIRTUAL_MAC,
        ethertype: ethernet::ETHERTYPE_IPV4,
    }
    .emit(&mut frame);
    ipv4::Repr {
        tos: 0,
        payload_len: (FRAME_LEN - UDP_AT) as u16,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: ipv4::PROTOCOL_UDP,
        source: mcst_id,
        destination: member.spec.ip,
    }
    .emit(&mut frame[IP_AT..]);
    udp::Repr {
        source_port: 0xc000,
        destination_port: udp::PORT_ROCE,
        payload_len: (FRAME_LEN - BTH_AT) as u16,
    }
    .emit(&mut frame[UDP_AT..]);
    bth::Repr {
        migrated: true,
        ack_req: true,
        ..bth::Repr::new(Opcode::WriteOnly, member.spec.qpn, psn)
    }
    .emit(&mut frame[BTH_AT..]);
    let (virtual_address, rkey) = match member.spec.region {
        Some(region) => (region.va, region.rkey),
        None => (VIRTUAL_VA, VIRTUAL_RKEY),
    };
    reth::Repr {
        virtual_address,
        rkey,
        dma_length: 0,
    }
    .emit(&mut frame[RETH_AT..]);
    let crc = icrc::compute(&frame[IP_AT..ICRC_AT]).expect("a whole RoCEv2 packet");
    frame[ICRC_AT..].copy_from_slice(&crc.to_le_bytes());
    frame
}
