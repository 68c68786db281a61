//! Frames that switches pass to the controller: parsing, rewriting, and the feedback header.

use std::net::Ipv4Addr;

use alfirk_aggregation::{classify, AckClass, Feedback, PacketOut};
use alfirk_contract as contract;
use alfirk_roce::icrc;
use alfirk_roce::wire::{aeth, bth, ethernet, ipv4, reth, udp, Opcode, Psn, QpNum};

use super::super::event::MemberSpec;
use super::super::position::Position;
use crate::constants::{VIRTUAL_MAC, VIRTUAL_RKEY, VIRTUAL_VA};

const IP_AT: usize = ethernet::HEADER_LEN;
const UDP_AT: usize = IP_AT + ipv4::HEADER_LEN;
const BTH_AT: usize = UDP_AT + udp::HEADER_LEN;
/// Offset of the AETH or RETH, after the BTH.
const EXTENSION_AT: usize = BTH_AT + bth::HEADER_LEN;
const ICRC_LEN: usize = 4;
/// Length of an ACK or NAK frame.
const FEEDBACK_LEN: usize = EXTENSION_AT + aeth::HEADER_LEN + ICRC_LEN;

/// Length of a VLAN tag. The first one follows the two MAC addresses.
const TAG_LEN: usize = contract::TAG_BYTES as usize;
const TAG_AT: usize = 12;
const TAG_TYPES: [u16; 2] = [contract::ETHERTYPE_C_TAG, contract::ETHERTYPE_S_TAG];

/// Offset of the destination address in the IPv4 header.
const DESTINATION: usize = 16;
/// Offset of the destination queue pair number in the BTH.
const DEST_QP: usize = 5;

/// Header before an ACK or NAK frame that a switch sends to the controller, or the controller to a switch: `feedback_t` of
/// `p4src/shared/headers.p4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FeedbackHeader {
    pub(super) group: u16,
    /// In a PacketIn the port of the source, 0 for none; in a PacketOut the egress port.
    pub(super) port: u16,
    /// Position last acknowledged to the source, including this frame in a PacketOut.
    pub(super) last_acked: Position,
}

impl FeedbackHeader {
    /// Parses the header; returns it with the remaining bytes. `None` if the payload is too short.
    pub(super) fn parse(payload: &[u8]) -> Option<(FeedbackHeader, &[u8])> {
        let (bytes, frame) = payload.split_first_chunk()?;
        let contract::Feedback {
            group,
            port,
            agg_psn,
            agg_msn,
        } = contract::Feedback::from_bytes(bytes);
        let last_acked = Position::from_register(u64::from(agg_psn) << 24 | u64::from(agg_msn));
        Some((
            FeedbackHeader {
                group,
                port,
                last_acked,
            },
            frame,
        ))
    }

    /// Port of the source; `None` if there is none.
    pub(super) fn source(&self) -> Option<u32> {
        (self.port != 0).then_some(u32::from(self.port))
    }

    /// Creates the header of an ACK or NAK that the controller sends. `group`: index of its group on the switch.
    pub(super) fn for_packet_out(group: u16, out: &PacketOut) -> FeedbackHeader {
        FeedbackHeader {
            group,
            port: out.port.and_then(|port| port.try_into().ok()).unwrap_or(0),
            last_acked: Position::from(out.last_acked),
        }
    }

    /// Builds the payload of a PacketOut: this header, followed by `frame`.
    pub(super) fn prepended_to(&self, frame: &[u8]) -> Vec<u8> {
        let last_acked = self.last_acked.to_register();
        let header = contract::Feedback {
            group: self.group,
            port: self.port,
            agg_psn: (last_acked >> 24) as u32,
            agg_msn: last_acked as u32,
        };
        [&header.to_bytes(), frame].concat()
    }
}

/// VLAN and priority tags of a frame, at most two, as the pipeline parses them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tags {
    bytes: [u8; 2 * TAG_LEN],
    len: usize,
}

impl Tags {
    /// Removes the tags from a frame.
    pub(super) fn take(frame: &[u8]) -> (Tags, Vec<u8>) {
        let mut tags = Tags::default();
        while tags.len < tags.bytes.len() {
            let at = TAG_AT + tags.len;
            let tag = frame.get(at..at + TAG_LEN);
            let Some(tag) =
                tag.filter(|tag| TAG_TYPES.contains(&u16::from_be_bytes([tag[0], tag[1]])))
            else {
                break;
            };
            tags.bytes[tags.len..][..TAG_LEN].copy_from_slice(tag);
            tags.len += TAG_LEN;
        }
        let rest = frame.iter().skip(TAG_AT + tags.len);
        let untagged = frame.iter().take(TAG_AT).chain(rest).copied().collect();
        (tags, untagged)
    }

    /// Inserts the tags into a frame.
    pub(super) fn put_into(&self, untagged: &[u8]) -> Vec<u8> {
        let (addresses, rest) = untagged.split_at(TAG_AT.min(untagged.len()));
        [addresses, &self.bytes[..self.len], rest].concat()
    }
}

/// An ACK or NAK of a group as a switch passes it to the controller.
///
/// It is never forwarded itself, because a member has chosen most of its header fields. The controller sends a new frame
/// with fields that are constant for the group ([`feedback`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AckFrame([u8; FEEDBACK_LEN]);

impl AckFrame {
    /// Parses a frame; `None` if it is not an ACK or NAK. Switches have checked ICRC and checksum.
    pub(super) fn parse(frame: &[u8]) -> Option<AckFrame> {
        let (_, frame) = Tags::take(frame);
        let bytes: [u8; FEEDBACK_LEN] = *frame.first_chunk()?;
        let frame = ethernet::View::new_checked(&bytes).ok()?;
        let is_rocev2 = frame.ethertype() == ethernet::ETHERTYPE_IPV4
            && bytes[IP_AT] == 0x45
            && bytes[IP_AT + 9] == ipv4::PROTOCOL_UDP
            && bytes[UDP_AT + 2..][..2] == udp::PORT_ROCE.to_be_bytes();
        let bth = bth::View::new_checked(&bytes[BTH_AT..]).ok()?;
        (is_rocev2 && bth.opcode().has_aeth()).then_some(AckFrame(bytes))
    }

    /// Destination address: the group.
    pub(super) fn destination(&self) -> Ipv4Addr {
        address(&self.0, DESTINATION)
    }

    fn aeth(&self) -> Option<aeth::Repr> {
        let view = aeth::View::new_checked(&self.0[EXTENSION_AT..]).ok()?;
        Some(aeth::Repr::parse(&view))
    }

    /// AETH syndrome as encoded in the frame.
    pub(super) fn syndrome(&self) -> u8 {
        self.0[EXTENSION_AT]
    }

    /// The ACK or NAK as input of the aggregation; `None` for acknowledge packets that are not aggregated.
    pub(super) fn feedback(&self) -> Option<Feedback> {
        let bth = bth::View::new_checked(&self.0[BTH_AT..]).ok()?;
        match classify(bth.psn().get(), self.aeth()?)? {
            AckClass::Feedback(feedback) => Some(feedback),
            AckClass::Notice(_) => None,
        }
    }
}

/// Builds the frame of an ACK or NAK that the controller sends through a switch, with header fields that are constant for
/// the group. The switch computes its ICRC.
pub(super) fn feedback(
    mcst_id: Ipv4Addr,
    virtual_qpn: QpNum,
    feedback: Feedback,
) -> [u8; FEEDBACK_LEN] {
    let (psn, aeth) = feedback.to_aeth();
    let mut frame = [0; FEEDBACK_LEN];
    let virtual_mac = VIRTUAL_MAC;
    ethernet::Repr {
        destination: virtual_mac,
        source: virtual_mac,
        ethertype: ethernet::ETHERTYPE_IPV4,
    }
    .emit(&mut frame);
    ipv4::Repr {
        tos: 0,
        payload_len: (FEEDBACK_LEN - UDP_AT) as u16,
        identification: 0,
        dont_fragment: true,
        ttl: contract::FEEDBACK_TTL,
        protocol: ipv4::PROTOCOL_UDP,
        source: mcst_id,
        destination: mcst_id,
    }
    .emit(&mut frame[IP_AT..]);
    udp::Repr {
        source_port: contract::FEEDBACK_UDP_SOURCE_PORT,
        destination_port: udp::PORT_ROCE,
        payload_len: (FEEDBACK_LEN - BTH_AT) as u16,
    }
    .emit(&mut frame[UDP_AT..]);
    bth::Repr {
        migrated: true,
        ..bth::Repr::new(Opcode::Acknowledge, virtual_qpn, Psn::new(psn))
    }
    .emit(&mut frame[BTH_AT..]);
    aeth.emit(&mut frame[EXTENSION_AT..]);
    frame
}

/// Source address of a frame; `None` if it is too short for a RoCEv2 packet.
pub(super) fn source(frame: &[u8]) -> Option<Ipv4Addr> {
    (frame.len() >= EXTENSION_AT + ICRC_LEN).then(|| address(frame, DESTINATION - 4))
}

/// Recomputes the ICRC of a frame whose headers a switch has rewritten for a member, if the ICRC was valid before the
/// rewrite.
///
/// `Some(false)` if it was already invalid before; then the frame is unchanged. `None` if it is not a RoCEv2 packet.
pub(super) fn repair_icrc(
    frame: &mut Vec<u8>,
    (mcst_id, virtual_qpn): (Ipv4Addr, QpNum),
    member: &MemberSpec,
) -> Option<bool> {
    let is_ipv4 = ethernet::View::new_checked(frame).ok()?.ethertype() == ethernet::ETHERTYPE_IPV4;
    let ip = ipv4::View::new_checked(frame.get(IP_AT..)?).ok()?;
    let end = IP_AT + usize::from(ip.total_len());
    // Ethernet pads short frames.
    frame.truncate(end);
    let is_whole = is_ipv4 && frame[IP_AT] == 0x45 && frame.len() == end;
    let body = IP_AT..end.checked_sub(ICRC_LEN)?;
    let bth = bth::View::new_checked(frame.get(BTH_AT..body.end)?).ok()?;
    let has_reth = bth.opcode().has_reth();
    if !is_whole || (has_reth && body.end < EXTENSION_AT + reth::HEADER_LEN) {
        return None;
    }
    let trailer: [u8; ICRC_LEN] = *frame[body.end..].first_chunk()?;
    let mut before = frame[body.clone()].to_vec();
    let mut put =
        |at: usize, bytes: &[u8]| before[at - IP_AT..][..bytes.len()].copy_from_slice(bytes);
    put(IP_AT + DESTINATION, &mcst_id.octets());
    put(BTH_AT + DEST_QP, &virtual_qpn.get().to_be_bytes()[1..]);
    if let (true, Some(region)) = (has_reth, &member.region) {
        let changes = (region.va ^ VIRTUAL_VA).to_be_bytes();
        let changes = changes
            .into_iter()
            .chain((region.rkey ^ VIRTUAL_RKEY).to_be_bytes());
        for (byte, change) in before[EXTENSION_AT - IP_AT..].iter_mut().zip(changes) {
            *byte ^= change;
        }
    }
    if icrc::compute(&before).ok()?.to_le_bytes() != trailer {
        return Some(false);
    }
    let right = icrc::compute(&frame[body.clone()]).ok()?.to_le_bytes();
    frame[body.end..].copy_from_slice(&right);
    Some(true)
}

/// Reads an address from the IPv4 header.
fn address(frame: &[u8], at: usize) -> Ipv4Addr {
    let at = IP_AT + at;
    Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3])
}
