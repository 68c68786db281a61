//! The compiled pipeline and the plain model of the multicast forwarding table get the same packets and must
//! give the same ones: data, ACKs and NAKs in random order on random ports, with losses, duplicates, old
//! numbers and changing sources, across the wrap-around.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use alfirk_bmv2::{CloneSession, EntryTarget, KeyMatch, Program, Replica, Switch, SwitchOptions};
use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_roce::icrc;
use alfirk_sim::mft::{Action, Feedback, Flaw, Group, Nak, Port, Space};
use proptest::prelude::*;

const CPU_PORT: u32 = 510;
const MCST_ID: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
const GROUP_INDEX: u16 = 5;
const OPCODE_SEND_MIDDLE: u8 = 0x01;
const OPCODE_ACKNOWLEDGE: u8 = 0x11;
const SYNDROME_ACK: u8 = 0x1f;

fn program() -> Arc<Program> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/v1model/main.p4");
    let compiled = compile(&CompileOptions::new(source)).expect("p4src compiles");
    let json = serde_json::to_string(&compiled.json).expect("BMv2 JSON is JSON");
    Arc::new(Program::from_json(&json).expect("the switch loads what the compiler writes"))
}

/// A switch with one group, whose path `n` is port `n + 1` and leads to another switch.
fn switch(program: &Arc<Program>, paths: u32, initial_psn: u32) -> Switch {
    let mut switch = Switch::new(SwitchOptions {
        cpu_port: Some(CPU_PORT),
        ..SwitchOptions::default()
    });
    switch.load(program.clone());
    initialise_registers(&mut switch, paths, initial_psn);
    let group = GROUP_INDEX.to_be_bytes().to_vec();
    add(
        &mut switch,
        "groups",
        "set_group",
        &[MCST_ID.octets().to_vec()],
        std::slice::from_ref(&group),
    );
    for path in 0..paths {
        let port = path + 1;
        let key = [group.clone(), (port as u16).to_be_bytes().to_vec()];
        add(
            &mut switch,
            "mft",
            "set_path",
            &key,
            &[vec![path as u8], vec![lone(path, paths)], vec![0]],
        );
        let replicas = vec![Replica { port, rid: 0 }];
        let session = CloneSession {
            replicas,
            group: None,
            truncate_bytes: 0,
            class_of_service: 0,
        };
        switch
            .pre_mut()
            .expect("a program is loaded")
            .set_session(port, session)
            .expect("a new session");
    }
    let replicas: Vec<Replica> = (0..paths)
        .map(|path| Replica {
            port: path + 1,
            rid: path as u16,
        })
        .collect();
    let pre = switch.pre_mut().expect("a program is loaded");
    pre.create_group(u32::from(GROUP_INDEX) + 1)
        .expect("a new group");
    pre.set_group(u32::from(GROUP_INDEX) + 1, &replicas)
        .expect("the group exists");
    switch
}

/// At which levels of the tree the sibling subtree of `path` is empty.
fn lone(path: u32, paths: u32) -> u8 {
    let is_empty = |level: u32| ((path >> level) ^ 1) << level >= paths;
    (0..8)
        .filter(|&level| is_empty(level))
        .map(|level| 1 << level)
        .sum()
}

fn add(switch: &mut Switch, table: &str, action: &str, key: &[Vec<u8>], args: &[Vec<u8>]) {
    let name = |what: &str| format!("ingress.group_lookup.{what}");
    let table = switch.table(&name(table)).expect("the table exists");
    let key: Vec<KeyMatch> = key
        .iter()
        .map(|value| KeyMatch::Exact {
            value: value.clone(),
        })
        .collect();
    let target = EntryTarget::Action {
        name: name(action),
        args: args.to_vec(),
    };
    switch
        .insert_entry(table, &key, 0, &target, 0, 0)
        .expect("the entry is well formed");
}

fn initialise_registers(switch: &mut Switch, paths: u32, initial_psn: u32) {
    let mut frame = vec![1, 0, 0];
    frame.extend([1, 0, 0, paths as u8]);
    frame.extend(GROUP_INDEX.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(u64::from(initial_psn).to_be_bytes());
    frame.extend(0xc0ff_ee00_u32.to_be_bytes());
    let answers = switch.process(CPU_PORT, &frame, 0);
    let [(CPU_PORT, answer)] = &answers[..] else {
        panic!("one answer expected: {answers:?}")
    };
    assert_eq!((answer[0], answer[4]), (1, 0), "reason and status");
    assert_eq!(
        &answer[answer.len() - 4..],
        0xc0ff_ee00_u32.to_be_bytes(),
        "cookie"
    );
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
    packet.extend([0, 0, opcode, 0, 0xff, 0xff, 0, 0, 0, 1, 0]);
    packet.extend(&psn.to_be_bytes()[1..]);
    packet.extend(rest);
    let icrc = icrc::compute(&packet).expect("the packet is whole");
    packet.extend(icrc.to_le_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend(packet);
    frame
}

fn feedback_frame(feedback: Feedback) -> Vec<u8> {
    let (psn, syndrome, msn) = match feedback {
        Feedback::Ack { psn, msn } => (psn, SYNDROME_ACK, msn),
        Feedback::Nak { nak, msn } => (nak.psn, nak.syndrome, msn),
    };
    let mut aeth = msn.to_be_bytes();
    aeth[0] = syndrome;
    frame(OPCODE_ACKNOWLEDGE, psn, &aeth)
}

/// What the pipeline sent, sorted by port: data as the PSN, feedback in full.
#[derive(Debug, PartialEq)]
enum Sent {
    Data(Port, u32),
    Feedback(Port, Feedback),
}

fn parse(port: Port, frame: &[u8]) -> Sent {
    let packet = &frame[14..];
    let (covered, trailer) = packet.split_at(packet.len() - 4);
    let icrc = icrc::compute(covered).expect("the packet is whole");
    assert_eq!(trailer, icrc.to_le_bytes(), "ICRC of {frame:02x?}");
    assert_eq!(
        alfirk_roce::wire::ipv4::checksum(&packet[..20]),
        0,
        "IPv4 checksum"
    );
    assert_eq!(
        usize::from(u16::from_be_bytes([packet[2], packet[3]])),
        packet.len(),
        "IPv4 length"
    );
    let number = |at: usize| u32::from_be_bytes([0, packet[at], packet[at + 1], packet[at + 2]]);
    let psn = number(37);
    if packet[28] != OPCODE_ACKNOWLEDGE {
        return Sent::Data(port, psn);
    }
    assert_eq!(frame.len(), 62, "an ACK is short");
    let (syndrome, msn) = (packet[40], number(41));
    let feedback = match syndrome >> 5 {
        0 => Feedback::Ack { psn, msn },
        _ => Feedback::Nak {
            nak: Nak { psn, syndrome },
            msn,
        },
    };
    Sent::Feedback(port, feedback)
}

fn expected(action: Action, psn: u32) -> Vec<Sent> {
    match action {
        Action::Replicate(ports) => ports
            .into_iter()
            .map(|port| Sent::Data(port, psn))
            .collect(),
        Action::Answer { port, psn, msn } => vec![Sent::Feedback(port, Feedback::Ack { psn, msn })],
        Action::Tell { port, feedback } => vec![Sent::Feedback(port, feedback)],
        Action::Record | Action::NoSource => vec![],
    }
}

/// A packet of the random sequence; numbers count from the initial PSN.
#[derive(Clone, Debug)]
enum Event {
    Data {
        port: u32,
        offset: u32,
    },
    Ack {
        port: u32,
        offset: u32,
    },
    Nak {
        port: u32,
        offset: u32,
        syndrome: u8,
    },
}

fn events(paths: u32) -> impl Strategy<Value = Vec<Event>> {
    // Offsets mostly rise, so that there is progress, and often repeat or fall behind.
    let step = (
        0..paths,
        0u32..6,
        0u8..10,
        prop::sample::select(vec![0x60u8, 0x60, 0x2c, 0x21]),
    );
    prop::collection::vec(step, 1..120).prop_map(move |steps| {
        let mut newest = 0;
        let event = |(at, (port, back, kind, syndrome)): (usize, (u32, u32, u8, u8))| {
            newest = newest.max(at as u32 / 3);
            let offset = newest.saturating_sub(back);
            let port = port + 1;
            match kind {
                0..=3 => Event::Data {
                    port: if back < 4 { 1 } else { port },
                    offset,
                },
                4..=7 => Event::Ack { port, offset },
                _ => Event::Nak {
                    port,
                    offset,
                    syndrome,
                },
            }
        };
        steps.into_iter().enumerate().map(event).collect()
    })
}

/// Responders of one stream count the same messages: here, every fourth packet ends one.
fn msn(offset: u32) -> u32 {
    offset.wrapping_add(1) / 4
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn pipeline_and_model_send_the_same_packets(
        (paths, events) in (2u32..9).prop_flat_map(|paths| (Just(paths), events(paths))),
        initial_psn in prop_oneof![Just(0), Just(0xff_fff0), 0u32..1 << 24],
    ) {
        thread_local!(static PROGRAM: Arc<Program> = program());
        let mut switch = PROGRAM.with(|program| switch(program, paths, initial_psn));
        let ports: Vec<Port> = (1..=paths).collect();
        let mut model = Group::new(Space::PSN, &ports, initial_psn, Flaw::None);
        let psn = |offset: u32| Space::PSN.add(initial_psn, offset);

        for (at, event) in events.into_iter().enumerate() {
            let (port, frame, action, sent_psn) = match event {
                Event::Data { port, offset } => {
                    let frame = frame(OPCODE_SEND_MIDDLE, psn(offset), &[0x5a; 64]);
                    (port, frame, model.data(port, psn(offset)), psn(offset))
                }
                Event::Ack { port, offset } => {
                    let feedback = Feedback::Ack { psn: psn(offset), msn: msn(offset) };
                    (port, feedback_frame(feedback), model.feedback(port, feedback), 0)
                }
                Event::Nak { port, offset, syndrome } => {
                    let nak = Nak { psn: psn(offset), syndrome };
                    let feedback = Feedback::Nak { nak, msn: msn(offset.wrapping_sub(1)) };
                    (port, feedback_frame(feedback), model.feedback(port, feedback), 0)
                }
            };
            let mut sent = switch.process(port, &frame, at as u64 * 1_000);
            sent.sort();
            let sent: Vec<Sent> = sent.iter().map(|(port, frame)| parse(*port, frame)).collect();
            prop_assert_eq!(sent, expected(action, sent_psn), "packet {}", at);
        }
    }
}
