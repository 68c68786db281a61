//! Parser of reliable connections' packets in frames of two parts (headers, and a shared payload with its trailer). It does
//! not copy the parts together.

use alfirk_packet_io::frame::{SplitFrame, Tail};

use super::frame::Outer;
use crate::icrc;
use crate::rc::{RcHeaders, RcPacket};
use crate::wire::{bth, ethernet, icrc as trailer, ipv4, udp};

/// A packet whose headers are the frame's head, and whose payload, padding and ICRC are its tail.
pub(super) struct Split<'a> {
    pub(super) outer: Outer,
    pub(super) packet: RcPacket<'a>,
    head: &'a [u8],
    tail: &'a Tail,
}

impl<'a> Split<'a> {
    /// Parses a frame: Ethernet without tags, IPv4 without options, valid lengths and checksum, and the split after the headers.
    /// Returns `None` for every other frame, valid or not.
    pub(super) fn read(frame: &'a SplitFrame) -> Option<Split<'a>> {
        let (head, tail) = (frame.head(), &**frame.tail()?);
        let ethernet = ethernet::View::new_checked(head).ok()?;
        if ethernet.ethertype() != ethernet::ETHERTYPE_IPV4 {
            return None;
        }
        let packet = ethernet.payload();
        let ipv4 = ipv4::Repr::parse_front(packet, packet.len() + tail.len())?;
        let datagram = packet.get(ipv4::HEADER_LEN..)?;
        let udp = udp::Repr::parse_front(datagram, ipv4.payload_len)?;
        if ipv4.protocol != ipv4::PROTOCOL_UDP || udp.destination_port != udp::PORT_ROCE {
            return None;
        }
        let transport = datagram.get(udp::HEADER_LEN..)?;
        if bth::View::new_checked(transport).ok()?.opcode().has_deth() {
            return None;
        }
        let (headers, rest) = RcHeaders::parse(transport).ok()?;
        let padding = usize::from(headers.bth.pad_count);
        let fits = rest.is_empty()
            && tail.end().len() == padding + trailer::TRAILER_LEN
            && (tail.body().len() + padding) % 4 == 0;
        fits.then_some(Split {
            outer: Outer {
                ethernet: ethernet::Repr::parse(&ethernet),
                ipv4,
                udp,
            },
            packet: RcPacket {
                headers,
                payload: tail.body(),
            },
            head,
            tail,
        })
    }

    /// Whether the ICRC is valid. The payload's part of the CRC is computed once for all frames that share the payload.
    pub(super) fn has_right_icrc(&self) -> bool {
        let end = self.tail.end();
        let (padding, trailer) = end.split_at(end.len() - trailer::TRAILER_LEN);
        let covered = &self.head[ethernet::HEADER_LEN..];
        let icrc = icrc::compute_split(covered, self.tail, padding);
        icrc.is_ok_and(|icrc| icrc.to_le_bytes() == *trailer)
    }
}
