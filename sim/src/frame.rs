//! Classification of frames for counters and traces. Forwarding does not use it.

use std::fmt;
use std::net::Ipv4Addr;

use alfirk_packet_io::frame::SplitFrame;
use alfirk_roce::wire::{
    aeth, arp, bth, ethernet, icrc, immdt, ipv4, pause, reth, udp, Opcode, Psn, QpNum, Syndrome,
};

/// Kind of a frame, with the header fields that counters and traces use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// A packet of a reliable connection (RC), or a congestion notification packet (CNP).
    Roce(Roce),
    /// An ARP packet.
    Arp {
        /// Operation code of the packet: 1 for a request, 2 for a reply.
        operation: u16,
        /// IPv4 address whose MAC address is requested or reported.
        target: Ipv4Addr,
    },
    /// A PFC PAUSE frame.
    Pause(pause::Repr),
    /// A registration packet (MRP) of a multicast group.
    Mrp {
        /// Destination address.
        to: Ipv4Addr,
    },
    /// Any other frame, or a malformed one.
    Other,
}

/// Header fields of a RoCEv2 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roce {
    /// Source IPv4 address.
    pub from: Ipv4Addr,
    /// Destination IPv4 address.
    pub to: Ipv4Addr,
    /// Operation, and position of the packet in its message.
    pub opcode: Opcode,
    /// Number of the destination queue pair.
    pub dest_qp: QpNum,
    /// Packet sequence number.
    pub psn: Psn,
    /// Whether the requester requests an acknowledgement of this packet (AckReq).
    pub ack_req: bool,
    /// Syndrome and message sequence number of the AETH; `None` for a packet without AETH.
    pub syndrome: Option<(Syndrome, u32)>,
    /// Length of the payload in bytes, without padding.
    pub payload: usize,
}

impl Roce {
    /// Whether the packet is a request, which carries a part of a message to the responder.
    pub fn is_request(&self) -> bool {
        self.opcode.is_request()
    }

    /// Whether the packet is an ACK or a NAK.
    pub fn is_acknowledgement(&self) -> bool {
        self.opcode == Opcode::Acknowledge
    }
}

impl Frame {
    /// Classifies a frame, given as the bytes from the Ethernet header to the last byte before the FCS.
    pub fn read(frame: &[u8]) -> Frame {
        read(frame).unwrap_or(Frame::Other)
    }
}

/// Whether a frame is an ACK or a NAK. Most other frames are recognised by the byte at the usual position of the
/// opcode, without parsing.
pub fn is_acknowledgement(frame: &SplitFrame) -> bool {
    /// First byte of an IPv4 header: version 4, without options.
    const PLAIN: u8 = 0x45;
    const OPCODE: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;
    let at = |at: usize| frame.head().get(at).copied();
    let is_plain = at(ethernet::HEADER_LEN) == Some(PLAIN);
    match at(OPCODE).map(Opcode::from).filter(|_| is_plain) {
        Some(opcode) if opcode != Opcode::Acknowledge => false,
        _ => matches!(Frame::read(&frame.bytes()), Frame::Roce(roce) if roce.is_acknowledgement()),
    }
}

fn read(frame: &[u8]) -> Option<Frame> {
    let eth = ethernet::View::new_checked(frame).ok()?;
    match eth.ethertype() {
        ethernet::ETHERTYPE_ARP => {
            let arp = arp::View::new_checked(eth.payload()).ok()?;
            Some(Frame::Arp {
                operation: arp.operation(),
                target: arp.target_ip(),
            })
        }
        pause::ETHERTYPE => {
            let pause = pause::View::new_checked(eth.payload()).ok()?;
            Some(Frame::Pause(pause::Repr::parse(&pause)))
        }
        ethernet::ETHERTYPE_IPV4 => {
            let ip = ipv4::View::new_checked(eth.payload()).ok()?;
            if ip.protocol() != ipv4::PROTOCOL_UDP {
                return None;
            }
            let datagram = udp::View::new_checked(ip.payload()).ok()?;
            match datagram.destination_port() {
                udp::PORT_ROCE => read_roce(&ip, datagram.payload()),
                udp::PORT_MRP => Some(Frame::Mrp {
                    to: ip.destination(),
                }),
                _ => None,
            }
        }
        _ => None,
    }
}

fn read_roce(ip: &ipv4::View<'_>, packet: &[u8]) -> Option<Frame> {
    let bth = bth::View::new_checked(packet).ok()?;
    let opcode = bth.opcode();
    let mut rest = bth.payload();
    let mut syndrome = None;
    if opcode.has_reth() {
        rest = rest.get(reth::HEADER_LEN..)?;
    }
    if opcode.has_aeth() {
        let aeth = aeth::View::new_checked(rest).ok()?;
        syndrome = Some((aeth.syndrome(), aeth.msn()));
        rest = rest.get(aeth::HEADER_LEN..)?;
    }
    if opcode.has_immediate() {
        rest = rest.get(immdt::HEADER_LEN..)?;
    }
    let carried = if opcode == Opcode::Cnp { 0 } else { rest.len() };
    Some(Frame::Roce(Roce {
        from: ip.source(),
        to: ip.destination(),
        opcode,
        dest_qp: bth.dest_qp(),
        psn: bth.psn(),
        ack_req: bth.ack_req(),
        syndrome,
        payload: carried.saturating_sub(icrc::TRAILER_LEN + usize::from(bth.pad_count())),
    }))
}

/// One line for a trace, such as `10.0.0.1 > 10.255.0.1 SendMiddle qp 1 psn 77 4096 B`.
impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frame::Roce(roce) => roce.fmt(f),
            Frame::Arp {
                operation: 1,
                target,
            } => write!(f, "ARP who has {target}"),
            Frame::Arp {
                operation: 2,
                target,
            } => write!(f, "ARP reply to {target}"),
            Frame::Arp { operation, target } => write!(f, "ARP operation {operation} {target}"),
            Frame::Pause(pause) => {
                f.write_str("PAUSE")?;
                for (class, quanta) in pause.quanta.iter().enumerate() {
                    match quanta {
                        None => {}
                        Some(0) => write!(f, " class {class} goes on")?,
                        Some(quanta) => write!(f, " class {class} for {quanta} quanta")?,
                    }
                }
                Ok(())
            }
            Frame::Mrp { to } => write!(f, "MRP to {to}"),
            Frame::Other => f.write_str("other"),
        }
    }
}

impl fmt::Display for Roce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from, self.to);
        let (qp, psn) = (self.dest_qp.get(), self.psn.get());
        write!(f, "{from} > {to} ")?;
        match self.syndrome {
            Some((Syndrome::Ack { .. }, msn)) => write!(f, "ACK qp {qp} psn {psn} msn {msn}"),
            Some((Syndrome::Nak(code), _)) => write!(f, "NAK {code:?} qp {qp} psn {psn}"),
            Some((Syndrome::RnrNak(timer), _)) => {
                write!(
                    f,
                    "NAK RNR {} us qp {qp} psn {psn}",
                    timer.delay_ns() / 1_000
                )
            }
            Some((Syndrome::Reserved(byte), _)) => {
                write!(f, "AETH {byte:#04x} qp {qp} psn {psn}")
            }
            None => {
                write!(f, "{:?} qp {qp} psn {psn} {} B", self.opcode, self.payload)?;
                f.write_str(if self.ack_req { " ackreq" } else { "" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_roce::wire::MacAddr;

    /// A RoCEv2 frame with this opcode, and with `tail` after its BTH.
    fn roce(opcode: Opcode, pad_count: u8, ack_req: bool, tail: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + 8 + 12];
        frame.extend_from_slice(tail);
        let udp_payload = (frame.len() - 42) as u16;
        ethernet::Repr {
            destination: MacAddr([2, 0, 0, 0, 0, 2]),
            source: MacAddr([2, 0, 0, 0, 0, 1]),
            ethertype: ethernet::ETHERTYPE_IPV4,
        }
        .emit(&mut frame);
        ipv4::Repr {
            tos: 0,
            payload_len: udp_payload + 8,
            identification: 1,
            dont_fragment: true,
            ttl: 64,
            protocol: ipv4::PROTOCOL_UDP,
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(10, 0, 0, 2),
        }
        .emit(&mut frame[14..]);
        udp::Repr {
            source_port: 0xc000,
            destination_port: udp::PORT_ROCE,
            payload_len: udp_payload,
        }
        .emit(&mut frame[34..]);
        let mut header = bth::Repr::new(opcode, QpNum::new(17), Psn::new(99));
        header.pad_count = pad_count;
        header.ack_req = ack_req;
        header.emit(&mut frame[42..]);
        frame
    }

    fn shown(frame: &[u8]) -> String {
        Frame::read(frame).to_string()
    }

    #[test]
    fn send_is_described_with_its_payload_without_pad_and_icrc() {
        let frame = roce(Opcode::SendOnly, 3, true, &[0; 5 + 3 + 4]);
        assert_eq!(
            shown(&frame),
            "10.0.0.1 > 10.0.0.2 SendOnly qp 17 psn 99 5 B ackreq"
        );
    }

    #[test]
    fn write_is_described_without_its_reth() {
        let frame = roce(Opcode::WriteFirst, 0, false, &[0; 16 + 1024 + 4]);
        assert_eq!(
            shown(&frame),
            "10.0.0.1 > 10.0.0.2 WriteFirst qp 17 psn 99 1024 B"
        );
    }

    #[test]
    fn feedback_is_described_by_its_syndrome() {
        let ack = roce(Opcode::Acknowledge, 0, false, &[31, 0, 0, 7, 0, 0, 0, 0]);
        assert_eq!(shown(&ack), "10.0.0.1 > 10.0.0.2 ACK qp 17 psn 99 msn 7");
        let nak = roce(Opcode::Acknowledge, 0, false, &[0x60, 0, 0, 7, 0, 0, 0, 0]);
        assert_eq!(
            shown(&nak),
            "10.0.0.1 > 10.0.0.2 NAK PsnSequenceError qp 17 psn 99"
        );
        let rnr = roce(Opcode::Acknowledge, 0, false, &[0x21, 0, 0, 7, 0, 0, 0, 0]);
        assert_eq!(
            shown(&rnr),
            "10.0.0.1 > 10.0.0.2 NAK RNR 10 us qp 17 psn 99"
        );
    }

    #[test]
    fn pause_is_described_by_its_classes() {
        let mut frame = [0; 60];
        ethernet::Repr {
            destination: pause::DESTINATION,
            source: MacAddr([2, 0, 0, 0, 0, 1]),
            ethertype: pause::ETHERTYPE,
        }
        .emit(&mut frame);
        let mut repr = pause::Repr::of_class(3, 0xffff);
        repr.quanta[5] = Some(0);
        repr.emit(&mut frame[ethernet::HEADER_LEN..]);
        assert_eq!(
            shown(&frame),
            "PAUSE class 3 for 65535 quanta class 5 goes on"
        );
    }

    #[test]
    fn frame_cut_short_anywhere_is_described_without_panic() {
        let frame = roce(Opcode::WriteOnlyImm, 0, false, &[0; 16 + 4 + 8 + 4]);
        for len in 0..frame.len() {
            shown(&frame[..len]);
        }
    }
}
