//! Packets as a simulator handles them: headers as fields, payload by reference.
//!
//! A *flow* is a sequence of middle packets of one message, which differ only in PSN, payload, identification and AckReq.

use std::borrow::Cow;
use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_packet_io::frame::{SharedBytes, SplitFrame};

use super::frame::{roce_len, Outer};
use crate::rc::{RcHeaders, RcPacket};
use crate::steady::StateVisitor;
use crate::wire::{bth, ethernet, icrc as trailer, ipv4, udp, Opcode, Psn};

/// A frame in transit on a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// Any frame, from the Ethernet header to the last byte before the FCS.
    Bytes(SplitFrame),
    /// A packet of a reliable connection with a valid ICRC. Unmodified copies share one allocation.
    Rc(Arc<RcFrame>),
}

/// RoCEv2 packet of a reliable connection. The ICRC is not stored, but computed when the packet is converted to bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RcFrame {
    /// Ethernet, IPv4 and UDP headers; their lengths match the packet.
    pub outer: Outer,
    /// Transport headers.
    pub headers: RcHeaders,
    /// Payload without padding.
    pub payload: SharedBytes,
    /// Number of the flow to which the packet belongs, and number of the packet in that flow. `None` unless a simulator
    /// has set them. Not part of the frame.
    pub place: Option<(u64, u32)>,
}

impl RcFrame {
    /// Parses a frame that has Ethernet without tags, IPv4 without options, and a packet of a reliable connection with
    /// valid lengths, checksum and ICRC. Returns `None` for every other frame.
    pub fn read(frame: &[u8]) -> Option<RcFrame> {
        let ethernet = ethernet::View::new_checked(frame).ok()?;
        if ethernet.ethertype() != ethernet::ETHERTYPE_IPV4 {
            return None;
        }
        let ip = ipv4::View::new_checked(ethernet.payload()).ok()?;
        if ip.header_len() != ipv4::HEADER_LEN || ip.check_checksum().is_err() {
            return None;
        }
        let ipv4 = ipv4::Repr::parse(&ip).ok()?;
        let view = udp::View::new_checked(ip.payload()).ok()?;
        let udp = udp::Repr::parse(&view);
        let tail = trailer::View::new_checked(view.payload()).ok()?;
        if ipv4.protocol != ipv4::PROTOCOL_UDP || udp.destination_port != udp::PORT_ROCE {
            return None;
        }
        if bth::View::new_checked(tail.covered())
            .ok()?
            .opcode()
            .has_deth()
        {
            return None;
        }
        let packet = RcPacket::parse(tail.covered()).ok()?;
        let read = RcFrame {
            outer: Outer {
                ethernet: ethernet::Repr::parse(&ethernet),
                ipv4,
                udp,
            },
            headers: packet.headers,
            payload: SharedBytes::copy(packet.payload),
            place: None,
        };
        // Reserved bits and trailing bytes are in no field. A frame in which they are set is not equal here, and stays
        // bytes.
        (read.frame_len() == frame.len() && read.to_bytes() == frame).then_some(read)
    }

    /// The frame as bytes, with its ICRC.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.outer.roce(&self.headers, self.payload.bytes())
    }

    /// Length of the frame in bytes.
    pub fn frame_len(&self) -> usize {
        self.outer.frame_len()
    }

    /// Sets the length fields of the IPv4 and UDP headers to match the packet.
    pub fn set_lengths(&mut self) {
        let len = roce_len(&self.headers, self.payload.len());
        self.outer.udp.payload_len = len as u16;
        self.outer.ipv4.payload_len = (udp::HEADER_LEN + len) as u16;
    }

    /// Whether the packet may be part of a flow (middle packets of one message, handled together): it is a middle
    /// packet of a message, and not ECN-capable.
    pub fn may_follow(&self) -> bool {
        self.headers.bth.opcode.is_middle() && self.outer.ipv4.tos & ipv4::ECN_MASK == 0
    }

    /// Whether `next` is the next packet of the flow: equal except for PSN, payload offset, identification and AckReq.
    pub fn is_followed_by(&self, next: &RcFrame) -> bool {
        let (a, b) = (&self.headers.bth, &next.headers.bth);
        let bth = bth::Repr {
            psn: a.psn.next(),
            ack_req: b.ack_req,
            ..*a
        };
        let ipv4 = ipv4::Repr {
            identification: next.outer.ipv4.identification,
            ..self.outer.ipv4
        };
        RcHeaders {
            bth,
            ..self.headers
        } == next.headers
            && Outer { ipv4, ..self.outer } == next.outer
            && self.payload.is_followed_by(&next.payload)
    }

    /// Changes this packet into the one that is `by` packets later in its message, without AckReq.
    pub fn advance(&mut self, by: u32) {
        let bth = &mut self.headers.bth;
        bth.psn = bth.psn.plus(by.into());
        bth.ack_req = false;
        self.payload.advance(by as usize);
        if let Some((_, number)) = &mut self.place {
            *number += by;
        }
    }

    /// Visits the state of a packet in transit. The identification is neither compared nor shifted: no part of a network
    /// uses it, and the first switch replaces that of feedback.
    pub fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        let RcFrame {
            outer,
            headers,
            payload,
            place,
        } = self;
        let Outer {
            ethernet,
            ipv4,
            udp,
        } = outer;
        let RcHeaders {
            bth,
            reth,
            aeth,
            immediate,
        } = headers;
        visitor.enter([ipv4.destination, ipv4.source]);
        let [a, b] = [ethernet.destination.0, ethernet.source.0];
        visitor.same_bytes(&[a, b].concat());
        let [a, b] = [ipv4.source, ipv4.destination].map(u32::from);
        visitor.same(u64::from(a) << 32 | u64::from(b));
        let first = [ipv4.tos, ipv4.ttl, ipv4.protocol, bth.opcode.into()];
        let [a, b] = [u32::from_be_bytes(first), bth.dest_qp.get()];
        visitor.same(u64::from(a) << 32 | u64::from(b));
        let [a, b] = [ipv4.payload_len, udp.payload_len].map(u64::from);
        let [c, d] = [udp.source_port, udp.destination_port].map(u64::from);
        visitor.same(a << 48 | b << 32 | c << 16 | d);
        let flags = [
            bth.solicited,
            bth.migrated,
            bth.fecn,
            bth.becn,
            bth.ack_req,
            ipv4.dont_fragment,
        ];
        let flags = flags
            .iter()
            .fold(0, |all, flag| all << 1 | u64::from(*flag));
        visitor.same(u64::from(bth.pkey) << 16 | u64::from(bth.pad_count) << 8 | flags);
        bth.psn = Psn::new(visitor.psn(bth.psn.get()));
        let is_usual = bth.opcode.is_middle() || bth.opcode == Opcode::Acknowledge;
        let has_more = reth.is_some() || immediate.is_some();
        if !is_usual || has_more || ipv4.tos & ipv4::ECN_MASK != 0 {
            visitor.unsupported();
        }
        visitor.same(aeth.is_some().into());
        if let Some(aeth) = aeth {
            visitor.same(u8::from(aeth.syndrome).into());
            visitor.same(aeth.msn.into());
        }
        visitor.same(payload.len() as u64);
        visitor.same(payload.array_address() as u64);
        payload.set_start(visitor.bytes(payload.start() as u64) as usize);
        visitor.same(place.is_some().into());
        if let Some((flow, number)) = place {
            visitor.same(*flow);
            *number = visitor.number((*number).into()) as u32;
        }
    }

    /// One packet with the headers of this packet, and the payloads of this and the next `count - 1` packets of its
    /// message.
    pub(super) fn packets(&self, count: u64) -> RcPacket<'_> {
        RcPacket {
            headers: self.headers,
            payload: self.payload.run(count as usize),
        }
    }

    /// The RC packet in the frame: its transport headers and payload.
    pub fn packet(&self) -> RcPacket<'_> {
        RcPacket {
            headers: self.headers,
            payload: self.payload.bytes(),
        }
    }
}

impl Packet {
    /// Length of the frame in bytes.
    pub fn len(&self) -> usize {
        match self {
            Packet::Bytes(bytes) => bytes.len(),
            Packet::Rc(frame) => frame.frame_len(),
        }
    }

    /// Whether the frame has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The destination IPv4 address; `None` for frames of other protocols.
    pub fn destination(&self) -> Option<Ipv4Addr> {
        match self {
            Packet::Bytes(frame) => {
                let bytes = frame.bytes();
                let frame = ethernet::View::new_checked(&bytes[..]).ok()?;
                if frame.ethertype() != ethernet::ETHERTYPE_IPV4 {
                    return None;
                }
                let ip = ipv4::View::new_checked(frame.payload()).ok()?;
                Some(ip.destination())
            }
            Packet::Rc(frame) => Some(frame.outer.ipv4.destination),
        }
    }

    /// Bytes of the frame.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Packet::Bytes(frame) => frame.bytes(),
            Packet::Rc(frame) => Cow::Owned(frame.to_bytes()),
        }
    }

    /// Converts the packet to the bytes of its frame.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Packet::Bytes(frame) => frame.into_bytes(),
            Packet::Rc(frame) => frame.to_bytes(),
        }
    }

    /// Converts the packet to a frame in two parts, if it is stored as two.
    pub fn into_split(self) -> SplitFrame {
        match self {
            Packet::Bytes(frame) => frame,
            Packet::Rc(frame) => frame.to_bytes().into(),
        }
    }
}

impl Packet {
    /// Visits the state of a frame in transit. Only packets of reliable connections are supported.
    pub fn visit_state(&mut self, visitor: &mut StateVisitor<'_>) {
        match self {
            Packet::Bytes(_) => visitor.unsupported(),
            Packet::Rc(frame) if visitor.shifts() => Arc::make_mut(frame).visit_state(visitor),
            Packet::Rc(frame) => RcFrame::clone(frame).visit_state(visitor),
        }
    }

    /// Sets the visitor's stream to that of the frame.
    pub fn enter_stream(&self, visitor: &mut StateVisitor<'_>) {
        match self {
            Packet::Bytes(_) => visitor.enter([]),
            Packet::Rc(frame) => {
                visitor.enter([frame.outer.ipv4.destination, frame.outer.ipv4.source]);
            }
        }
    }
}

impl From<Vec<u8>> for Packet {
    fn from(bytes: Vec<u8>) -> Packet {
        Packet::Bytes(bytes.into())
    }
}

impl From<SplitFrame> for Packet {
    fn from(frame: SplitFrame) -> Packet {
        Packet::Bytes(frame)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::super::frame::Envelope;
    use super::*;
    use crate::icrc;
    use crate::wire::{aeth, reth, MacAddr, QpNum, Syndrome};

    fn envelope(identification: u16, tos: u8) -> Envelope {
        Envelope {
            source_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(10, 0, 0, 2),
            identification,
            source_port: 0xc123,
            destination_port: udp::PORT_ROCE,
            tos,
        }
    }

    fn headers(opcode: Opcode, payload: usize) -> RcHeaders {
        let mut bth = bth::Repr::new(opcode, QpNum::new(77), Psn::new(0xffffff));
        bth.pad_count = (payload.wrapping_neg() % 4) as u8;
        RcHeaders {
            reth: opcode.has_reth().then_some(reth::Repr {
                virtual_address: 0x1234_5678_9abc,
                rkey: 7,
                dma_length: 99,
            }),
            aeth: opcode.has_aeth().then_some(aeth::Repr {
                syndrome: Syndrome::Ack { credits: 31 },
                msn: 5,
            }),
            immediate: opcode.has_immediate().then_some(8),
            ..RcHeaders::plain(bth)
        }
    }

    proptest! {
        #[test]
        fn packets_and_frames_convert_back(
            opcode in prop_oneof![
                Just(Opcode::SendFirst), Just(Opcode::SendMiddle), Just(Opcode::SendOnlyImm), Just(Opcode::WriteOnly),
                Just(Opcode::WriteOnlyImm), Just(Opcode::Acknowledge),
            ],
            payload in proptest::collection::vec(any::<u8>(), 0..40),
            identification in any::<u16>(),
            tos in any::<u8>(),
        ) {
            let headers = headers(opcode, payload.len());
            let bytes = envelope(identification, tos).roce(&headers, &payload);
            let frame = RcFrame::read(&bytes).unwrap();
            prop_assert_eq!(frame.frame_len(), bytes.len());
            prop_assert_eq!(frame.payload.bytes(), &payload[..]);
            let mut fitted = frame.clone();
            fitted.set_lengths();
            prop_assert_eq!(&fitted, &frame);
            prop_assert_eq!(Packet::Rc(Arc::new(frame)).into_bytes(), bytes);
        }

        #[test]
        fn frames_that_no_packet_can_represent_stay_bytes(at in 0usize..80, bit in 0u8..8) {
            let bytes = envelope(1, 2).roce(&headers(Opcode::WriteOnly, 10), &[3; 10]);
            let mut broken = bytes.clone();
            broken[at % bytes.len()] ^= 1 << bit;
            if let Some(read) = RcFrame::read(&broken) {
                // Fields that neither checksum nor ICRC covers, and whose every bit the packet stores.
                prop_assert_eq!(read.to_bytes(), broken.clone());
                let covered = &broken[ethernet::HEADER_LEN..broken.len() - trailer::TRAILER_LEN];
                prop_assert_eq!(
                    icrc::compute(covered).unwrap().to_le_bytes().to_vec(),
                    broken[broken.len() - trailer::TRAILER_LEN..].to_vec()
                );
            }
            broken.truncate(at);
            prop_assert!(RcFrame::read(&broken).is_none());
        }
    }
}
