use std::collections::BTreeSet;

use super::*;

const WINDOW: u32 = 32;
const POSITION: u32 = 0xff_fff0;

fn target() -> Target {
    Target {
        mcst_id: Ipv4Addr::new(10, 255, 0, 1),
        virtual_qpn: QpNum::new(0xa1f),
        mac: MacAddr([2, 0xa1, 0xf1, 0x4c, 0, 1]),
        initial_psn: Psn::new(0xff_ff80),
        window: WINDOW,
    }
}

fn hostile(seed: u64) -> Hostile {
    let (ip, mac) = (Ipv4Addr::new(10, 0, 0, 5), MacAddr([2, 0, 0, 0, 0, 5]));
    let mut hostile = Hostile::new(ip, mac, target(), seed);
    hostile.set_position(Psn::new(POSITION));
    hostile
}

fn frames(kind: Kind, count: usize) -> Vec<Vec<u8>> {
    let mut hostile = hostile(1);
    (0..count).map(|_| hostile.frame_of_kind(kind)).collect()
}

/// Opcode of a frame, distance of its PSN from the member's newest one, and syndrome and MSN of its AETH if it has one.
fn read(frame: &[u8]) -> (u8, i32, Option<(u8, u32)>) {
    let bth = bth::View::new_checked(&frame[BTH_AT..]).unwrap();
    let ahead = bth.psn().distance_from(Psn::new(POSITION));
    let word = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
    let aeth = (frame[BTH_AT] == ACKNOWLEDGE).then(|| word(BODY_AT));
    let aeth = aeth.map(|aeth| ((aeth >> 24) as u8, aeth & 0xff_ffff));
    (frame[BTH_AT], ahead, aeth)
}

fn has_right_icrc(frame: &[u8]) -> bool {
    let (body, crc) = frame[IP_AT..].split_at(frame.len() - IP_AT - ICRC_LEN);
    icrc::compute(body).is_ok_and(|right| right.to_le_bytes() == crc)
}

#[test]
fn one_seed_gives_the_same_frames_and_another_one_others() {
    let frames = |seed| -> Vec<Vec<u8>> {
        let mut hostile = hostile(seed);
        (0..500).map(|_| hostile.frame()).collect()
    };
    assert_eq!(frames(1), frames(1));
    assert_ne!(frames(1), frames(2));
}

#[test]
fn requests_are_of_every_opcode_and_well_formed() {
    let mut opcodes = BTreeSet::new();
    for frame in frames(Kind::Request, 8_000) {
        assert!(has_right_icrc(&frame));
        opcodes.insert(read(&frame).0);
    }
    assert_eq!(opcodes.len(), 254, "all but ACKNOWLEDGE and CNP");
}

#[test]
fn psns_cover_the_surroundings_of_the_position_and_of_both_window_ends() {
    let acknowledgements = frames(Kind::Acknowledgement, 20_000);
    let distances: BTreeSet<i32> = acknowledgements.iter().map(|frame| read(frame).1).collect();
    let window = WINDOW as i32;
    let all = -window - PSN_MARGIN..=window + PSN_MARGIN;
    let missing: Vec<i32> = all.filter(|ahead| !distances.contains(ahead)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // At half of the PSN space ahead, the sign of the distance changes.
    assert!(distances.contains(&(HALF_PSN_SPACE - 1)) && distances.contains(&-HALF_PSN_SPACE));
    let initial = target().initial_psn.distance_from(Psn::new(POSITION));
    assert!(distances.contains(&initial) && distances.contains(&(initial - 1)));
}

#[test]
fn acknowledgements_have_every_syndrome_that_is_not_fatal_and_forged_msns() {
    let mut syndromes = BTreeSet::new();
    let mut reports = BTreeSet::new();
    for frame in frames(Kind::Acknowledgement, 20_000) {
        let (_, _, aeth) = read(&frame);
        let (syndrome, msn) = aeth.expect("an acknowledgement has an AETH");
        assert!(has_right_icrc(&frame));
        syndromes.insert(syndrome);
        if syndrome == 0x7f {
            reports.insert(msn);
        }
    }
    let is_fatal = |syndrome: &u8| (0x61..=0x63).contains(syndrome);
    let all: BTreeSet<u8> = (0..=255).filter(|syndrome| !is_fatal(syndrome)).collect();
    assert_eq!(syndromes, all);
    assert!([1, 2, 3, 255, 0xff_ffff]
        .iter()
        .all(|msn| reports.contains(msn)));
}

/// Asserts that sequence and RNR NAKs have only PSNs for which no receiver sends them.
#[test]
fn naks_that_a_receiver_may_send_are_not_generated() {
    let mut early = 0;
    for frame in frames(Kind::Acknowledgement, 20_000) {
        let (_, ahead, aeth) = read(&frame);
        let syndrome = aeth.expect("an acknowledgement has an AETH").0;
        if matches!(syndrome, 0x20..=0x3f | 0x60) {
            let outstanding = -MAX_UNACKNOWLEDGED..=WINDOW as i32 + PSN_MARGIN;
            assert!(!outstanding.contains(&ahead), "{syndrome:#x} {ahead}");
            early += usize::from(ahead > 0);
        }
    }
    assert!(early > 100);
}

#[test]
fn congestion_notifications_have_right_and_wrong_icrcs() {
    let cnps = frames(Kind::Cnp, 100);
    let right = cnps.iter().filter(|frame| has_right_icrc(frame)).count();
    assert!((20..80).contains(&right), "{right}");
}

/// Every header field is malformed in some frame.
#[test]
fn every_header_field_is_malformed_in_some_frame() {
    let mut hostile = hostile(1);
    let mut changed = BTreeSet::new();
    let (mut tagged, mut lengths, mut cut) = (false, BTreeSet::new(), false);
    for _ in 0..20_000 {
        let frame = hostile.frame_of_kind(Kind::MalformedAcknowledgement);
        assert!(frame.len() <= MAX_FRAME_LEN + 2 * 3 * 4, "{}", frame.len());
        tagged |= [[0x81, 0], [0x88, 0xa8]].contains(&[frame[12], frame[13]]);
        lengths.insert(frame.len());
        cut |= frame.len() < BODY_AT;
        if frame.len() == BODY_AT + 4 + ICRC_LEN && frame[12..14] == [8, 0] {
            let mut right = hostile.last_ack();
            // Fields that differ from frame to frame.
            right[IP_AT + 4..][..2].copy_from_slice(&frame[IP_AT + 4..][..2]);
            right[BTH_AT + 8] = frame[BTH_AT + 8] & 0x80;
            let differing = (0..BODY_AT).filter(|at| frame[*at] != right[*at]);
            changed.extend(differing);
        }
    }
    // Version and IHL, TOS, length, fragment, TTL, checksum, source address.
    let ip = [0, 1, 2, 3, 6, 7, 8, 10, 11, 13, 15].map(|at| IP_AT + at);
    // Source port, length, checksum.
    let udp = [0, 1, 4, 5, 6, 7].map(|at| UDP_AT + at);
    // Flags, P_Key, congestion and reserved bits, DestQP, reserved bits.
    let bth = [1, 2, 3, 4, 5, 6, 7, 8].map(|at| BTH_AT + at);
    let expected: BTreeSet<usize> = ip.into_iter().chain(udp).chain(bth).collect();
    assert_eq!(changed, expected);
    assert!(tagged && cut && lengths.contains(&MAX_FRAME_LEN));
}

#[test]
fn one_registration_packet_is_repeated_among_random_ones() {
    let packets = frames(Kind::Registration, 100);
    let kinds: BTreeSet<&Vec<u8>> = packets.iter().collect();
    assert!((30..80).contains(&kinds.len()), "{}", kinds.len());
    for packet in &packets {
        let udp = udp::View::new_checked(&packet[UDP_AT..]).unwrap();
        assert_eq!(udp.destination_port(), mrp::PORT);
        let ip = ipv4::View::new_checked(&packet[IP_AT..]).unwrap();
        assert_eq!(usize::from(ip.total_len()), packet.len() - IP_AT);
    }
}

#[test]
fn position_follows_the_requests_that_the_group_sends() {
    let mut hostile = hostile(1);
    let mut from_group = hostile.roce(SEND_ONLY, Psn::new(3), 4);
    from_group[IP_AT + 12..][..4].copy_from_slice(&target().mcst_id.octets());
    let position_after = |frame: &[u8]| {
        let mut hostile = self::hostile(1);
        hostile.observe_frame(frame);
        hostile.position.get()
    };
    assert_eq!(position_after(&from_group), 3);
    let older = |frame: &[u8]| {
        let mut frame = frame.to_vec();
        frame[BTH_AT + 9..][..3].copy_from_slice(&[0xff, 0xff, 0]);
        frame
    };
    assert_eq!(position_after(&older(&from_group)), POSITION);
    let acknowledgement = {
        let mut frame = from_group.clone();
        frame[BTH_AT] = ACKNOWLEDGE;
        frame
    };
    assert_eq!(
        position_after(&acknowledgement),
        POSITION,
        "an acknowledgement comes from this member"
    );
    let other = hostile.roce(SEND_ONLY, Psn::new(3), 4);
    assert_eq!(position_after(&other), POSITION, "not of this group");
    for len in 0..from_group.len() {
        position_after(&from_group[..len]);
    }
}
