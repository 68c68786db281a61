//! Frames of the group, and of the controller.

use std::net::Ipv4Addr;

use alfirk_aggregation::{
    classify, Answer, Feedback, Message, Notice, PacketIn, PacketOut, Point, Port, Sent,
};
use alfirk_roce::icrc;
use alfirk_roce::wire::aeth;

use crate::bench::{CPU_PORT, GROUP_INDEX};

pub const MCST_ID: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
/// The queue pair that members address.
pub const VIRTUAL_QPN: u32 = 1;
const OPCODE_SEND_MIDDLE: u8 = 0x01;
const OPCODE_ACKNOWLEDGE: u8 = 0x11;
const OPCODE_CNP: u8 = 0x81;
const PACKET_OUT_FEEDBACK: u8 = 2;
const PACKET_IN_FEEDBACK: u8 = 3;
const PACKET_IN_PROBE: u8 = 4;
const PACKET_IN_FATAL_NAK: u8 = 6;

pub fn data(psn: u32) -> Vec<u8> {
    frame(OPCODE_SEND_MIDDLE, psn, &[0x5a; 64])
}

pub fn feedback(feedback: Feedback) -> Vec<u8> {
    let (psn, aeth) = feedback.to_aeth();
    acknowledge(psn, aeth.syndrome.into(), aeth.msn)
}

pub fn notice(notice: Notice) -> Vec<u8> {
    match notice {
        Notice::Cnp => frame(OPCODE_CNP, 0, &[0; 16]),
        Notice::SelectiveNak { psn, reports } => {
            let aeth = aeth::Repr::selective_nak(reports);
            acknowledge(psn, aeth.syndrome.into(), aeth.msn)
        }
        Notice::FatalNak { nak, msn } => acknowledge(nak.psn, nak.syndrome, msn),
    }
}

pub fn packet_out(packet: PacketOut) -> Vec<u8> {
    let mut frame = vec![PACKET_OUT_FEEDBACK, 0, 0];
    frame.extend(GROUP_INDEX.to_be_bytes());
    frame.extend((packet.port.unwrap_or(0) as u16).to_be_bytes());
    frame.extend(&packet.told.psn.to_be_bytes()[1..]);
    frame.extend(&packet.told.msn.to_be_bytes()[1..]);
    frame.extend(feedback(packet.feedback));
    frame
}

fn acknowledge(psn: u32, syndrome: u8, msn: u32) -> Vec<u8> {
    let mut aeth = msn.to_be_bytes();
    aeth[0] = syndrome;
    frame(OPCODE_ACKNOWLEDGE, psn, &aeth)
}

/// An RC packet between switches: both addresses are the McstID.
fn frame(opcode: u8, psn: u32, rest: &[u8]) -> Vec<u8> {
    let udp_len = 8 + 12 + rest.len() + 4;
    let mut packet = vec![0x45, 0];
    packet.extend((20 + udp_len as u16).to_be_bytes());
    packet.extend([0x12, 0x34, 0x40, 0, 64, 17, 0, 0]);
    packet.extend(MCST_ID.octets());
    packet.extend(MCST_ID.octets());
    let checksum = alfirk_roce::wire::ipv4::checksum(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend([0xc0, 0x01, 0x12, 0xb7]);
    packet.extend((udp_len as u16).to_be_bytes());
    packet.extend([0, 0, opcode, 0, 0xff, 0xff, 0]);
    packet.extend(&VIRTUAL_QPN.to_be_bytes()[1..]);
    packet.push(0);
    packet.extend(&psn.to_be_bytes()[1..]);
    packet.extend(rest);
    let icrc = icrc::compute(&packet).expect("the packet is whole");
    packet.extend(icrc.to_le_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend(packet);
    frame
}

/// What a frame that leaves the switch says. All that goes to others than the controller must be whole.
pub fn parse(port: Port, frame: &[u8]) -> Sent {
    if port == CPU_PORT {
        return parse_packet_in(frame);
    }
    // What Tofino answers has padding behind it.
    let length = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let frame = &frame[..frame.len().min(14 + length)];
    let packet = &frame[14..];
    let (covered, trailer) = packet.split_at(packet.len() - 4);
    let icrc = icrc::compute(covered).expect("the packet is whole");
    assert_eq!(trailer, icrc.to_le_bytes(), "ICRC of {frame:02x?}");
    assert_eq!(
        alfirk_roce::wire::ipv4::checksum(&packet[..20]),
        0,
        "IPv4 checksum of {frame:02x?}"
    );
    assert_eq!(
        usize::from(number(packet, 2, 2) as u16),
        packet.len(),
        "IPv4 length"
    );
    match packet[28] {
        OPCODE_CNP => Sent::Notice {
            port,
            notice: Notice::Cnp,
        },
        OPCODE_ACKNOWLEDGE => {
            assert_eq!(frame.len(), 62, "an ACK is short");
            match parse_acknowledge(packet) {
                Ok(feedback) => Sent::Feedback { port, feedback },
                Err(notice) => Sent::Notice { port, notice },
            }
        }
        _ => Sent::Data {
            port,
            psn: number(packet, 37, 3),
        },
    }
}

fn number(bytes: &[u8], at: usize, len: usize) -> u32 {
    let bytes = &bytes[at..at + len];
    bytes.iter().fold(0, |n, &byte| n << 8 | u32::from(byte))
}

/// Fatal and selective NAKs are notices.
fn parse_acknowledge(packet: &[u8]) -> Result<Feedback, Notice> {
    assert_eq!(packet[28], OPCODE_ACKNOWLEDGE, "in {packet:02x?}");
    let view = aeth::View::new_checked(&packet[40..]).expect("an AETH");
    match classify(number(packet, 37, 3), aeth::Repr::parse(&view)) {
        Some(Answer::Feedback(feedback)) => Ok(feedback),
        Some(Answer::Notice(notice)) => Err(notice),
        None => panic!("a reserved syndrome in {packet:02x?}"),
    }
}

fn parse_packet_in(frame: &[u8]) -> Sent {
    let (reason, port) = (frame[0], number(frame, 1, 2));
    let rest = &frame[3..];
    if reason == PACKET_IN_FATAL_NAK {
        let notice = parse_acknowledge(&rest[14..]).expect_err("a fatal NAK");
        return Sent::Alarm { port, notice };
    }
    assert_eq!(number(rest, 0, 2), u32::from(GROUP_INDEX), "group");
    let source = number(rest, 2, 2);
    let feedback = parse_acknowledge(&rest[24..]).expect("no fatal NAK");
    let message = match (reason, feedback) {
        (PACKET_IN_FEEDBACK, feedback) => Message::Feedback(feedback),
        (PACKET_IN_PROBE, Feedback::Ack { psn, msn }) => Message::Probe(Point { psn, msn }),
        other => panic!("unexpected packet for the controller: {other:?}"),
    };
    Sent::ToController(PacketIn {
        port,
        message,
        source: (source != 0).then_some(source),
        told: Point {
            psn: number(rest, 4, 3),
            msn: number(rest, 7, 3),
        },
    })
}
