//! Frames of the group, and of the controller.

use std::net::Ipv4Addr;

use alfirk_aggregation::{
    classify, AckClass, Feedback, Message, Notice, PacketIn, PacketOut, Point, Port, SentPacket,
};
use alfirk_roce::icrc;
use alfirk_roce::wire::aeth;

use crate::bench::{CPU_PORT, GROUP_INDEX};
use crate::script::{Odd, Refused};

pub const MCST_ID: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
/// Queue pair number to which members send.
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
    frame.extend(&packet.last_acked.psn.to_be_bytes()[1..]);
    frame.extend(&packet.last_acked.msn.to_be_bytes()[1..]);
    frame.extend(feedback(packet.feedback));
    frame
}

/// An ACK with unusual header fields and a correct ICRC.
pub fn odd(feedback: Feedback, odd: Odd) -> Vec<u8> {
    let (psn, aeth) = feedback.to_aeth();
    let mut frame = acknowledge(psn, aeth.syndrome.into(), aeth.msn);
    let set_lengths = |frame: &mut Vec<u8>, ip: u16, udp: u16| {
        frame[16..18].copy_from_slice(&ip.to_be_bytes());
        frame[38..40].copy_from_slice(&udp.to_be_bytes());
    };
    match odd {
        Odd::Tag => {}
        Odd::LongLengths => set_lengths(&mut frame, 1_500, 1_480),
        Odd::ShortLengths => set_lengths(&mut frame, 21, 3),
        Odd::Version => frame[BTH + 1] |= 3,
        Odd::Padding => frame[BTH + 1] |= 0x30,
        // Solicited event, no MigReq; reserved bits; FECN, BECN; no ordinary P_Key; ACK request.
        Odd::Flags => {
            frame[BTH + 1] ^= 0xc0;
            frame[BTH + 2] &= 0x7f;
            frame[BTH + 4] = 0xff;
            frame[BTH + 8] = 0xff;
        }
        Odd::Congestion => frame[15] = 0xff,
        Odd::Ttl => frame[22] = 2,
        Odd::Trailer => {}
    }
    seal(&mut frame);
    match odd {
        Odd::Tag => drop(frame.splice(12..12, [0x81, 0, 0, 5])),
        Odd::Trailer => frame.extend([0xaa; 400]),
        _ => {}
    }
    frame
}

/// A frame that must be rejected.
pub fn refused(psn: u32, what: Refused) -> Vec<u8> {
    let mut frame = data(psn);
    let set_length = |frame: &mut Vec<u8>, ip: u16| {
        frame[16..18].copy_from_slice(&ip.to_be_bytes());
    };
    match what {
        Refused::Version => frame[BTH + 1] |= 1,
        Refused::Lengths => set_length(&mut frame, 100),
        Refused::Padding => {
            frame = self::frame(OPCODE_SEND_MIDDLE, psn, &[]);
            frame[BTH + 1] |= 0x10;
        }
        Refused::Cut => frame.truncate(100),
        Refused::CnpIcrc => frame = notice(Notice::Cnp),
        Refused::AckIcrc => frame = acknowledge(psn, 0x1f, 0),
    }
    let checksum = ipv4_checksum(&frame);
    frame[24..26].copy_from_slice(&checksum);
    if matches!(what, Refused::CnpIcrc | Refused::AckIcrc) {
        let last = frame.len() - 1;
        frame[last] ^= 0x10;
    }
    frame
}

/// Offset of the BTH in a frame.
const BTH: usize = 42;

/// Sets checksum and ICRC to valid values, also if the lengths are inconsistent.
fn seal(frame: &mut [u8]) {
    let checksum = ipv4_checksum(frame);
    frame[24..26].copy_from_slice(&checksum);
    let end = frame.len() - 4;
    let mut covered = vec![0xff; 8];
    covered.extend(&frame[14..end]);
    // TOS, TTL, IPv4 checksum, UDP checksum, congestion bits of the BTH.
    for at in [1, 8, 10, 11, 26, 27, 32] {
        covered[8 + at] = 0xff;
    }
    let crc = crc32(&covered);
    frame[end..].copy_from_slice(&crc.to_le_bytes());
}

fn ipv4_checksum(frame: &[u8]) -> [u8; 2] {
    let mut header = frame[14..34].to_vec();
    header[10..12].fill(0);
    alfirk_roce::wire::ipv4::checksum(&header).to_be_bytes()
}

/// CRC-32 of Ethernet.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let first = crc ^ u32::from(*byte);
        (0..8).fold(first, |crc, _| {
            crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}

/// Checks that feedback to a member or a switch has all fields except PSN and AETH from the group's constants.
pub fn check_form(port: Port, frame: &[u8]) {
    let opcode = frame.get(BTH).copied();
    if port == CPU_PORT || !matches!(opcode, Some(OPCODE_ACKNOWLEDGE | OPCODE_CNP)) {
        return;
    }
    let is_cnp = opcode == Some(OPCODE_CNP);
    let (total, ttls) = match is_cnp {
        true => (60, [63, 63]),
        // The switch is the first hop of its own reply.
        false => (48, [63, 64]),
    };
    assert_eq!(frame.len(), 14 + usize::from(total), "{frame:02x?}");
    assert_eq!(frame[12..14], [8, 0], "no tag in {frame:02x?}");
    assert_eq!(frame[14..16], [0x45, 0], "version, TOS in {frame:02x?}");
    assert_eq!(
        frame[16..22],
        [0, total, 0, 0, 0x40, 0],
        "lengths, identification, flags in {frame:02x?}"
    );
    assert!(ttls.contains(&frame[22]), "TTL of {frame:02x?}");
    assert_eq!(frame[26..30], MCST_ID.octets());
    assert_eq!(frame[30..34], MCST_ID.octets());
    assert_eq!(
        frame[34..42],
        [0xc0, 0, 0x12, 0xb7, 0, total - 20, 0, 0],
        "UDP of {frame:02x?}"
    );
    let becn = if is_cnp { 0x40 } else { 0 };
    assert_eq!(
        frame[BTH + 1..BTH + 9],
        [0x40, 0xff, 0xff, becn, 0, 0, 1, 0],
        "BTH of {frame:02x?}"
    );
    if is_cnp {
        assert_eq!(
            frame[BTH + 9..BTH + 28],
            [0; 19],
            "PSN, reserved in {frame:02x?}"
        );
    }
}

pub fn acknowledge(psn: u32, syndrome: u8, msn: u32) -> Vec<u8> {
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

/// Parses a frame that the switch sends. Frames to others than the controller must be complete.
pub fn parse(port: Port, frame: &[u8]) -> SentPacket {
    if port == CPU_PORT {
        return parse_packet_in(frame);
    }
    // Replies of Tofino have padding at the end.
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
        OPCODE_CNP => SentPacket::Notice {
            port,
            notice: Notice::Cnp,
        },
        OPCODE_ACKNOWLEDGE => {
            assert_eq!(frame.len(), 62, "an ACK is short");
            match parse_acknowledge(packet) {
                Ok(feedback) => SentPacket::Feedback { port, feedback },
                Err(notice) => SentPacket::Notice { port, notice },
            }
        }
        _ => SentPacket::Data {
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
        Some(AckClass::Feedback(feedback)) => Ok(feedback),
        Some(AckClass::Notice(notice)) => Err(notice),
        None => panic!("a reserved syndrome in {packet:02x?}"),
    }
}

fn parse_packet_in(frame: &[u8]) -> SentPacket {
    let (reason, port) = (frame[0], number(frame, 1, 2));
    let rest = &frame[3..];
    if reason == PACKET_IN_FATAL_NAK {
        let notice = parse_acknowledge(&rest[14..]).expect_err("a fatal NAK");
        return SentPacket::Alarm { port, notice };
    }
    assert_eq!(number(rest, 0, 2), u32::from(GROUP_INDEX), "group");
    let source = number(rest, 2, 2);
    let feedback = parse_acknowledge(&rest[24..]).expect("no fatal NAK");
    let message = match (reason, feedback) {
        (PACKET_IN_FEEDBACK, feedback) => Message::Feedback(feedback),
        (PACKET_IN_PROBE, Feedback::Ack { psn, msn }) => Message::Probe(Point { psn, msn }),
        other => panic!("unexpected packet for the controller: {other:?}"),
    };
    SentPacket::ToController(PacketIn {
        port,
        message,
        source: (source != 0).then_some(source),
        last_acked: Point {
            psn: number(rest, 4, 3),
            msn: number(rest, 7, 3),
        },
    })
}
