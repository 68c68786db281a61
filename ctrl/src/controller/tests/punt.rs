//! Packets that switches send to the controller: feedback, packets with an ICRC to recompute, and fatal NAKs.

use alfirk_roce::icrc;

use super::*;
use crate::constants::{
    PACKET_IN_FATAL_NAK, PACKET_IN_FEEDBACK, PACKET_IN_ICRC, PACKET_IN_PROBE, VIRTUAL_MAC,
};
use crate::ecn::EcnProfile;
use crate::strategy::{IcrcMode, MinPsn, Strategies};
use crate::tables::Work;
use crate::topology::testbed;

const ACK: u8 = 0x1f;
const NAK: u8 = 0x60;
const REMOTE_ACCESS_ERROR: u8 = 0x62;
const FIRST: u32 = 0xff_fff0;

/// Hosts h1 to h4 on ports 1 to 4 of one switch, all in one group.
struct Punted {
    fabric: FakeFabric,
    mcst_id: Ipv4Addr,
}

impl Punted {
    fn new(min_psn: MinPsn, icrc: IcrcMode) -> Punted {
        let mut fabric = FakeFabric::ready(testbed());
        let mut group = fabric.request(&["h1", "h2", "h3", "h4"]);
        group.virtual_qpn = Some(VIRTUAL_QPN);
        group.strategies = Strategies {
            min_psn,
            icrc,
            ..Strategies::default()
        };
        group.members[1].region = Some(MemoryRegion {
            va: 0x1234_5000,
            rkey: 0x77,
            len: 0x1000,
        });
        let mcst_id = fabric.register_group(group).unwrap().mcst_id;
        Punted { fabric, mcst_id }
    }

    fn hand_up(&mut self, reason: u8, port: u32, payload: Vec<u8>) {
        let event = Self::event(reason, port, payload);
        self.fabric.handle(event);
    }

    fn event(reason: u8, port: u32, payload: Vec<u8>) -> Event {
        let switch = SwitchIndex(0);
        let message = packet_in(reason, port, payload);
        Event::Stream { switch, message }
    }

    /// Processes several events at once.
    fn together(&mut self, events: Vec<Event>) {
        self.fabric.controller.handle_all(self.fabric.now, events);
        self.fabric.run();
    }

    /// Delivers an ACK or NAK with the header of the pipeline; h1 is the source, to which `last_acked` was last acknowledged.
    fn feedback(
        &mut self,
        reason: u8,
        port: u32,
        psn: u32,
        syndrome: u8,
        msn: u32,
        last_acked: u32,
    ) {
        let payload = self.payload(psn, syndrome, msn, last_acked);
        self.hand_up(reason, port, payload);
    }

    fn payload(&self, psn: u32, syndrome: u8, msn: u32, last_acked: u32) -> Vec<u8> {
        let group = self.fabric.index_on("s1");
        let mut payload = group.to_be_bytes().to_vec();
        payload.extend([0, 1]);
        payload.extend(&last_acked.to_be_bytes()[1..]);
        payload.extend([0, 0, 7]);
        payload.extend(ack(self.mcst_id, psn, syndrome, msn));
        payload
    }

    /// Takes the feedback that the controller has sent: port, newly acknowledged PSN, PSN, syndrome and MSN.
    fn sent_feedback(&mut self) -> Vec<(u16, u32, u32, u8, u32)> {
        let sent = std::mem::take(&mut self.fabric.switches[0].feedback);
        let word = |b: &[u8]| u32::from_be_bytes([0, b[0], b[1], b[2]]);
        sent.iter()
            .map(|payload| {
                assert_eq!(payload.len(), 10 + 62);
                let port = u16::from_be_bytes([payload[2], payload[3]]);
                let (header, frame) = payload.split_at(10);
                (
                    port,
                    word(&header[4..]),
                    word(&frame[51..]),
                    frame[54],
                    word(&frame[55..]),
                )
            })
            .collect()
    }

    fn stats(&self) -> PuntStats {
        self.fabric.controller.status().punts
    }
}

fn ack(mcst_id: Ipv4Addr, psn: u32, syndrome: u8, msn: u32) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 48, 0, 1, 0x40, 0, 64, 17, 0, 0]);
    frame.extend(mcst_id.octets());
    frame.extend(mcst_id.octets());
    frame.extend([0xc0, 0, 0x12, 0xb7, 0, 28, 0, 0]);
    frame.extend([0x11, 0, 0xff, 0xff, 0, 0, 0, 1, 0]);
    frame.extend(&psn.to_be_bytes()[1..]);
    frame.push(syndrome);
    frame.extend(&msn.to_be_bytes()[1..]);
    frame.extend([0; 4]);
    assert_eq!(frame.len(), 62);
    frame
}

/// A valid ACK in a frame with the `n`-th malformed or unusual field.
fn odd(mcst_id: Ipv4Addr, psn: u32, n: usize) -> Vec<u8> {
    let mut frame = ack(mcst_id, psn, ACK, 8);
    match n {
        // Length, TTL, fragment, DSCP and CE, identification, checksum.
        0 => frame[16..18].copy_from_slice(&1_500u16.to_be_bytes()),
        1 => frame[22] = 1,
        2 => frame[20] = 0x20,
        3 => frame[15] = 0xff,
        4 => frame[18..20].copy_from_slice(&[7; 2]),
        5 => frame[24..26].copy_from_slice(&[9; 2]),
        // UDP source port, length and checksum.
        6 => frame[34..36].copy_from_slice(&[9; 2]),
        7 => frame[38..40].copy_from_slice(&[9; 2]),
        8 => frame[40..42].copy_from_slice(&[9; 2]),
        // Solicited, MigReq, pad count, version; P_Key; FECN, BECN, reserved; DestQP; AckReq.
        9 => frame[43] = 0xff,
        10 => frame[44..46].copy_from_slice(&[0x80, 7]),
        11 => frame[46] = 0xff,
        12 => frame[47..50].copy_from_slice(&[5; 3]),
        13 => frame[50] = 0xff,
        // Ethernet addresses, a VLAN tag, additional bytes at the end.
        14 => frame[..12].fill(0x66),
        15 => frame.splice(12..12, [0x81, 0, 0xe0, 5]).for_each(drop),
        16 => frame.extend([0xaa; 1_400]),
        _ => {}
    }
    frame
}

#[test]
fn feedback_to_the_source_is_built_from_the_groups_constants() {
    for min_psn in [MinPsn::Punt] {
        let mut right = None;
        for n in (0..=17).rev() {
            let mut group = Punted::new(min_psn, IcrcMode::Neutral);
            let last_acked = FIRST - 1;
            for (port, frame) in [
                (2, odd(group.mcst_id, FIRST, n)),
                (3, odd(group.mcst_id, FIRST, n)),
                (4, odd(group.mcst_id, FIRST, n)),
            ] {
                let mut payload = group.payload(FIRST, ACK, 9, last_acked)[..10].to_vec();
                payload.extend(frame);
                group.hand_up(PACKET_IN_FEEDBACK, port, payload);
            }
            let sent = std::mem::take(&mut group.fabric.switches[0].feedback);
            if sent.is_empty() {
                // Only frames that are not an ACK to RoCEv2's UDP port are dropped.
                continue;
            }
            assert_eq!(sent.len(), 1, "field {n}");
            let right = right.get_or_insert_with(|| sent[0].clone());
            assert_eq!(sent[0], *right, "field {n}");
        }
        let frame = &right.unwrap()[10..];
        let group = Punted::new(min_psn, IcrcMode::Neutral);
        let mcst_id = group.mcst_id.octets();
        assert_eq!(frame[..12], [VIRTUAL_MAC.0, VIRTUAL_MAC.0].concat());
        // IPv4 length 48, no ECN, DF; UDP length 28.
        assert_eq!(frame[12..18], [8, 0, 0x45, 0, 0, 48]);
        assert_eq!(frame[18..24], [0, 0, 0x40, 0, 63, 17]);
        assert_eq!(frame[26..34], [mcst_id, mcst_id].concat());
        assert_eq!(frame[34..42], [0xc0, 0, 0x12, 0xb7, 0, 28, 0, 0]);
        // Opcode ACK; only MigReq set; the default P_Key; no other field except the group's queue pair number.
        let [_, qpn @ ..] = VIRTUAL_QPN.get().to_be_bytes();
        assert_eq!(frame[42..47], [0x11, 0x40, 0xff, 0xff, 0]);
        assert_eq!(frame[47..51], [&qpn[..], &[0]].concat());
        assert_eq!(frame[51..58], [0xff, 0xff, 0xf0, ACK, 0, 0, 8]);
    }
}

#[test]
fn memory_after_a_flood_of_feedback_is_bounded() {
    let mut group = Punted::new(MinPsn::Punt, IcrcMode::Punt);
    let last_acked = FIRST - 1;
    let mut events = Vec::new();
    for n in 0..20_000 {
        let reason = [PACKET_IN_FEEDBACK, PACKET_IN_PROBE][n as usize % 2];
        let payload = group.payload(FIRST + n % 200, ACK, n, last_acked + n % 100);
        events.push(Punted::event(reason, 1 + n % 4, payload));
    }
    group.together(events);
    // At most one packet to the source, and one for each path that probes, for all frames together.
    assert!(group.sent_feedback().len() <= 1 + 4);
    assert_eq!(group.fabric.controller.punts.open(), (1, 0));
    // The same with separate events: there is one round of register reads at a time.
    for n in 0..5_000 {
        let payload = group.payload(FIRST + 300 + n, ACK, n, last_acked);
        group.hand_up(PACKET_IN_PROBE, 2, payload);
        let (parts, reads) = group.fabric.controller.punts.open();
        assert!(parts == 1 && reads <= 4);
    }
}

#[test]
fn the_source_receives_the_minimum_of_all_members() {
    let mut group = Punted::new(MinPsn::Punt, IcrcMode::Neutral);
    let last_acked = FIRST - 1;
    group.feedback(PACKET_IN_FEEDBACK, 2, FIRST + 2, ACK, 9, last_acked);
    group.feedback(PACKET_IN_FEEDBACK, 3, FIRST + 3, ACK, 10, last_acked);
    assert_eq!(group.sent_feedback(), []);
    group.feedback(PACKET_IN_FEEDBACK, 4, FIRST + 3, NAK, 9, last_acked);
    let nak = (1, FIRST + 2, FIRST + 3, NAK, 9);
    assert_eq!(group.sent_feedback(), [nak]);
    let stats = group.stats();
    assert_eq!((stats.feedback, stats.forwarded, stats.strays), (3, 1, 0));
}

#[test]
fn a_retransmission_is_acknowledged_through_its_ingress_port() {
    let mut group = Punted::new(MinPsn::Punt, IcrcMode::Neutral);
    let last_acked = FIRST - 1;
    group.feedback(PACKET_IN_PROBE, 1, FIRST, ACK, 7, last_acked);
    for port in 2..=4 {
        group.feedback(PACKET_IN_FEEDBACK, port, FIRST, ACK, 8, last_acked);
    }
    let all = (1, FIRST, FIRST, ACK, 8);
    assert_eq!(group.sent_feedback(), [all]);
    // The ACK was lost, so the source probes again.
    group.feedback(PACKET_IN_PROBE, 1, FIRST, ACK, 7, last_acked);
    assert_eq!(group.sent_feedback(), [all]);
    let stats = group.stats();
    assert_eq!((stats.probes, stats.probe_replies), (2, 1));
}

#[test]
fn a_new_controller_reads_acknowledged_psns_from_the_switch() {
    let mut group = Punted::new(MinPsn::Punt, IcrcMode::Neutral);
    for path in 0..4 {
        group.fabric.switches[0].acked.insert((0, path), FIRST + 5);
    }
    group.fabric.replace_controller();
    group.fabric.connect_all();
    // All receivers have acknowledged everything; the source probes.
    group.feedback(PACKET_IN_PROBE, 1, FIRST + 5, ACK, 7, FIRST - 1);
    let all = (1, FIRST + 5, FIRST + 5, ACK, 7);
    assert_eq!(group.sent_feedback(), [all]);
}

#[test]
fn a_half_acknowledged_message_completes_after_a_restart() {
    for keeps_state in [true, false] {
        let mut group = Punted::new(MinPsn::Punt, IcrcMode::Neutral);
        let last_acked = FIRST - 1;
        group.feedback(PACKET_IN_FEEDBACK, 2, FIRST + 5, ACK, 8, last_acked);
        // The ACK of path 2 is lost with the old controller.
        group.fabric.switches[0].acked.insert((0, 1), FIRST + 5);
        group.fabric.switches[0].acked.insert((0, 2), FIRST + 5);
        let saved = group.fabric.controller.save();
        group.fabric.replace_controller();
        if keeps_state {
            group.fabric.controller.restore(&saved).unwrap();
        }
        group.fabric.connect_all();
        // The last receiver acknowledges part of the message, and then the rest.
        group.feedback(PACKET_IN_FEEDBACK, 4, FIRST + 3, ACK, 7, last_acked);
        assert_eq!(group.sent_feedback(), [(1, FIRST + 3, FIRST + 3, ACK, 7)]);
        group.feedback(PACKET_IN_FEEDBACK, 4, FIRST + 5, ACK, 8, FIRST + 3);
        assert_eq!(group.sent_feedback(), [(1, FIRST + 5, FIRST + 5, ACK, 8)]);
    }
}

#[test]
fn frames_received_together_cause_one_reply() {
    let mut group = Punted::new(MinPsn::Punt, IcrcMode::Neutral);
    let last_acked = FIRST - 1;
    let mut events = Vec::new();
    for n in 0..8 {
        for port in 2..=4 {
            let payload = group.payload(FIRST + n, ACK, 8, last_acked);
            events.push(Punted::event(PACKET_IN_FEEDBACK, port, payload));
        }
        let payload = group.payload(FIRST, ACK, 7, last_acked);
        events.push(Punted::event(PACKET_IN_PROBE, 1, payload));
    }
    group.together(events);
    assert_eq!(group.sent_feedback(), [(1, FIRST + 7, FIRST + 7, ACK, 8)]);
    let stats = group.stats();
    assert_eq!((stats.feedback, stats.forwarded), (24, 1));
    assert_eq!((stats.probes, stats.probe_replies), (8, 0));
}

#[test]
fn a_lost_acknowledgement_is_read_when_the_source_retransmits() {
    let mut group = Punted::new(MinPsn::Punt, IcrcMode::Neutral);
    let last_acked = FIRST - 1;
    for port in 2..=3 {
        group.feedback(PACKET_IN_FEEDBACK, port, FIRST + 5, ACK, 8, last_acked);
    }
    group.feedback(PACKET_IN_PROBE, 1, FIRST + 5, ACK, 7, last_acked);
    assert_eq!(group.sent_feedback(), [], "path 3 has not got it");
    group.fabric.switches[0].acked.insert((0, 3), FIRST + 5);
    group.feedback(PACKET_IN_PROBE, 1, FIRST + 5, ACK, 7, last_acked);
    assert_eq!(group.sent_feedback(), [(1, FIRST + 5, FIRST + 5, ACK, 8)]);
}

#[test]
fn the_round_trip_time_to_a_switch_is_measured() {
    let mut fabric = FakeFabric::new(testbed());
    let switch = SwitchIndex(0);
    let report = |fabric: &FakeFabric| fabric.controller.status().round_trip_ns();
    assert_eq!(report(&fabric), 0);
    fabric.controller.handle(0, Event::SwitchUp { switch });
    // The replies arrive after 100 us.
    fabric.now = 100_000;
    fabric.run();
    assert!(fabric.controller.is_ready());
    assert_eq!(report(&fabric), 100_000);
}

#[test]
fn an_aggregator_is_discarded_with_its_registers() {
    let mut group = Punted::new(MinPsn::Punt, IcrcMode::Neutral);
    for port in 2..=4 {
        group.feedback(PACKET_IN_FEEDBACK, port, FIRST, ACK, 8, FIRST - 1);
    }
    assert_eq!(group.sent_feedback().len(), 1);
    let mcst_id = group.mcst_id;
    group.fabric.leave(mcst_id, &["h4"]).unwrap();
    // The members continue with new registers on the switch.
    group.feedback(PACKET_IN_FEEDBACK, 2, FIRST, ACK, 8, FIRST - 1);
    assert_eq!(group.sent_feedback(), []);
    group.feedback(PACKET_IN_FEEDBACK, 4, FIRST, ACK, 8, FIRST - 1);
    assert_eq!(group.stats().strays, 1);
    group.feedback(PACKET_IN_FEEDBACK, 3, FIRST, ACK, 8, FIRST - 1);
    assert_eq!(group.sent_feedback(), [(1, FIRST, FIRST, ACK, 8)]);
}

#[test]
fn frames_of_unknown_groups_are_counted_and_dropped() {
    let mut group = Punted::new(MinPsn::Punt, IcrcMode::Punt);
    for reason in [
        PACKET_IN_FEEDBACK,
        PACKET_IN_PROBE,
        PACKET_IN_ICRC,
        PACKET_IN_FATAL_NAK,
    ] {
        for len in 0..=90 {
            group.hand_up(reason, 1, vec![0; len]);
        }
    }
    assert_eq!(group.stats().strays, 4 * 91);
    assert_eq!(group.sent_feedback(), []);
}

#[test]
fn a_member_with_a_failed_queue_pair_is_removed_at_once() {
    let mut group = Punted::new(MinPsn::Tree, IcrcMode::Neutral);
    let frame = ack(group.mcst_id, FIRST, REMOTE_ACCESS_ERROR, 7);
    group.hand_up(PACKET_IN_FATAL_NAK, 3, frame.clone());
    // Duplicates of the NAK have no effect.
    group.hand_up(PACKET_IN_FATAL_NAK, 3, frame);
    let h3: Ipv4Addr = "10.0.0.3".parse().unwrap();
    let lost = |reply: &ApiReply| match reply {
        ApiReply::MembersLost { members, .. } => members.clone(),
        other => panic!("unexpected: {other:?}"),
    };
    let said: Vec<_> = group.fabric.said.iter().map(lost).collect();
    assert_eq!(said, [[h3]]);
    assert_eq!(group.fabric.controller.status().groups[0].members.len(), 3);
    assert_eq!(group.stats().fatal_naks, 1);
}

#[test]
fn members_that_fail_during_a_change_are_removed_afterwards() {
    let mut group = Punted::new(MinPsn::Tree, IcrcMode::Neutral);
    let frame = ack(group.mcst_id, FIRST, REMOTE_ACCESS_ERROR, 7);
    for port in [3, 4] {
        let message = packet_in(PACKET_IN_FATAL_NAK, port, frame.clone());
        let now = group.fabric.now;
        let switch = SwitchIndex(0);
        // The controller's messages are not delivered to the switch in between.
        group
            .fabric
            .controller
            .handle(now, Event::Stream { switch, message });
    }
    group.fabric.run();
    group.fabric.wait();
    let status = group.fabric.controller.status();
    let left: Vec<Ipv4Addr> = ["10.0.0.1", "10.0.0.2"]
        .map(|ip| ip.parse().unwrap())
        .into();
    assert_eq!(status.groups[0].members, left);
    assert_eq!(group.fabric.said.len(), 2);
}

/// A WRITE Only after the exit half towards h2, with the ICRC from before, and the packet before the bridge.
fn punted_write(mcst_id: Ipv4Addr) -> (Vec<u8>, Vec<u8>) {
    let mut before = vec![0x45, 2, 0, 68, 0, 9, 0x40, 0, 63, 17, 0, 0];
    before.extend(mcst_id.octets());
    before.extend(mcst_id.octets());
    before.extend([0xc0, 5, 0x12, 0xb7, 0, 48, 0, 0, 0x0a, 0, 0xff, 0xff, 0]);
    before.extend(&VIRTUAL_QPN.get().to_be_bytes()[1..]);
    before.extend([0x80, 1, 2, 3]);
    before.extend(0x40u64.to_be_bytes());
    before.extend([0, 0, 0, 0, 0, 0, 0, 8]);
    before.extend(*b"payload!");
    let wrong = icrc::compute(&before).unwrap().to_le_bytes();
    let mut after = before;
    after[16..20].copy_from_slice(&[10, 0, 0, 2]);
    after[33..36].copy_from_slice(&[0, 1, 1]);
    after[40..48].copy_from_slice(&0x1234_5040u64.to_be_bytes());
    after[48..52].copy_from_slice(&0x77u32.to_be_bytes());
    let right = icrc::compute(&after).unwrap().to_le_bytes();
    let frame = |trailer: [u8; 4]| {
        let mut frame = vec![2; 12];
        frame.extend([8, 0]);
        frame.extend(&after);
        frame.extend(trailer);
        frame
    };
    (frame(wrong), frame(right))
}

#[test]
fn icrcs_are_recomputed_if_they_were_valid_before() {
    let mut group = Punted::new(MinPsn::Tree, IcrcMode::Punt);
    let (wrong, right) = punted_write(group.mcst_id);
    group.hand_up(PACKET_IN_ICRC, 2, wrong.clone());
    assert_eq!(group.fabric.switches[0].sent, [(2, right.clone())]);
    // The recomputation must not give a damaged payload a valid ICRC.
    let mut damaged = wrong.clone();
    damaged[70] ^= 1;
    group.hand_up(PACKET_IN_ICRC, 2, damaged);
    // The same packet at another member's port is not sent.
    group.hand_up(PACKET_IN_ICRC, 3, wrong);
    assert_eq!(group.fabric.switches[0].sent.len(), 1);
    let stats = group.stats();
    assert_eq!((stats.icrcs, stats.wrong_icrcs), (1, 2));
}

#[test]
fn registers_are_initialised_with_the_message_count() {
    let mut group = Punted::new(MinPsn::Tree, IcrcMode::Neutral);
    group.fabric.switches[0].last_acked.insert(0, FIRST + 4);
    group.fabric.switches[0].last_acked_msn = 3;
    let mcst_id = group.mcst_id;
    group.fabric.leave(mcst_id, &["h4"]).unwrap();
    let index = group.fabric.index_on("s1");
    let (_, value) = group.fabric.switches[0].registers[&index];
    assert_eq!(value, 3 << 24 | u64::from(FIRST + 5));
}

#[test]
fn counters_of_all_switches_are_summed() {
    let mut fabric = FakeFabric::ready(crate::topology::leaf_spine(2, 2, 1).unwrap());
    let [work, ingress, egress] = [
        "ingress.ack_aggregate.work",
        "ingress.drops",
        "egress.drops",
    ]
    .map(p4info::counter);
    for switch in &mut fabric.switches {
        switch.counters = vec![
            (work, 8, 5),
            (work, 10, 2),
            (work, 19, 1),
            (ingress, 20, 7),
            (ingress, 15, 9),
            (egress, 15, 4),
        ];
    }
    let tag = fabric.tag();
    fabric.handle(Event::Api(ApiRequest::Count { tag }));
    let Some(ApiReply::Counted { counts, .. }) = fabric.said.pop() else {
        panic!("counters were expected");
    };
    let walk = Work {
        feedback: 20,
        recirculations: 8,
        ..Work::default()
    };
    assert_eq!(counts.work(MinPsn::Walk), walk);
    assert_eq!(counts.work(MinPsn::Punt).punts, 4);
    assert_eq!((counts.cnps_filtered, counts.copies_filtered), (28, 16));
}

#[test]
fn every_port_gets_the_ecn_profile() {
    let config = ControllerConfig {
        ecn: Some(EcnProfile::new(16, 64, 0.1).unwrap()),
        ..ControllerConfig::new(p4info::p4info(), b"{}".to_vec())
    };
    let mut fabric = FakeFabric::with(testbed(), config);
    fabric.connect_all();
    let contents = fabric.contents().concat();
    let profiles: Vec<_> = contents
        .iter()
        .filter(|e| e.contains("ecn_marking"))
        .collect();
    assert_eq!(profiles.len(), 4);
    assert_eq!(
        profiles[0],
        "table egress.ecn_marking.profiles 1 -> 14(10, 40, 89)"
    );
}
