//! The comparison for `p4src/tna`, with [`alfirk_aggregation::TofinoGroup`].

use std::path::Path;
use std::sync::{Arc, LazyLock};

use alfirk_aggregation::{classify, AckClass, Feedback, Space, TofinoGroup, TofinoQueuedPacket};
use alfirk_bmv2::{CloneSession, Effects, LoadedProgram, QueueState, Queued, Replica, Switch};
use alfirk_compiler::arch::Arch;
use alfirk_compiler::driver::CompileOptions;
use alfirk_compiler::preproc::MacroOption;
use alfirk_roce::wire::aeth;
use alfirk_test_budget::Cost;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::bench::{self, CPU_PORT, GROUP_INDEX, PATH_BITS};
use crate::script::{self, Event, Packet, Refused, Scene, Script};
use crate::wire::{self, MCST_ID, VIRTUAL_QPN};

/// First mirror session for replies; these sessions truncate a packet after the BTH.
const FIRST_ANSWER: u32 = 512;
const ANSWER_BYTES: u32 = 20 + 54 + 8;
/// Length to which mirror sessions truncate feedback to the controller and to the recirculation port: up to the ICRC.
const FEEDBACK_BYTES: u32 = 20 + 62 + 8;
/// Port and mirror session for records of feedback that raised the minimum.
const RECIRCULATION_PORT: u32 = 68;
/// The path byte of a cell that was written by a sender's data.
const BY_SENDER: u32 = 0xff;

/// Maximum of PATH_BITS; the index of a cell, group and path, has 16 bits.
const MOST_PATH_BITS: u32 = 6;

static PROGRAMS: LazyLock<Vec<Arc<LoadedProgram>>> =
    LazyLock::new(|| (*PATH_BITS.start()..=MOST_PATH_BITS).map(program).collect());

fn program(path_bits: u32) -> Arc<LoadedProgram> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/tna/main.p4");
    let mut options = CompileOptions::new(source);
    options.set_arch(Arch::TNA);
    for define in [
        format!("PATH_BITS={path_bits}"),
        format!("CPU_PORT={CPU_PORT}"),
    ] {
        let define = MacroOption::Define(define);
        options.preprocessor.macros.push(define);
    }
    bench::load(&options)
}

/// The pipeline and the model, side by side.
struct Pair {
    path_bits: u32,
    switch: Switch,
    model: TofinoGroup,
    queued: Vec<(Queued, TofinoQueuedPacket)>,
    /// Time in nanoseconds.
    now: u64,
}

impl Pair {
    fn new(scene: &Scene) -> Pair {
        let ports = scene.ports();
        Pair {
            path_bits: scene.path_bits,
            switch: switch(scene),
            model: TofinoGroup::new(Space::PSN, &ports, scene.initial_psn, scene.initial_msn)
                .with_window(scene.window),
            queued: Vec::new(),
            now: scene.start,
        }
    }

    fn play(&mut self, event: Event) -> TestCaseResult {
        match event {
            Event::Wait(nanoseconds) => self.now += nanoseconds,
            Event::Arrive(packet) => self.arrive(packet)?,
            Event::Dequeue(at) if !self.queued.is_empty() => {
                self.dequeue(at % self.queued.len())?;
            }
            Event::Lose(at) if !self.queued.is_empty() => {
                self.queued.remove(at % self.queued.len());
            }
            Event::Drain => {
                while !self.queued.is_empty() {
                    self.dequeue(0)?;
                }
            }
            // There is no controller in this test.
            Event::Dequeue(_) | Event::Lose(_) | Event::Command(_) => {}
        }
        Ok(())
    }

    /// Whether an acknowledged PSN is nearer than half the number space to all PSNs with which it is compared. At just half of it, results
    /// differ, because a word distinguishes a NAK from an ACK of the same PSN by half a step.
    fn is_ordered(&self, port: u32, acked: u32) -> bool {
        const MOST: u32 = (1 << 23) - 4;
        let model = &self.model;
        let path = model.ports().iter().position(|at| *at == port);
        let leaves: Vec<_> = model.leaves.iter().collect();
        let own = path.map(|path| [model.sender.acked[path], leaves[path].newest.psn]);
        let all = [model.sender.sent, model.last_acked].into_iter();
        all.chain(own.into_iter().flatten())
            .all(|known| Space::PSN.distance(known, acked).unsigned_abs() < MOST)
    }

    fn arrive(&mut self, packet: Packet) -> TestCaseResult {
        let acked = match packet {
            Packet::Feedback { port, feedback } => Some((port, feedback.acked(Space::PSN).psn)),
            Packet::Answer { port, psn, .. } | Packet::OddAnswer { port, psn, .. } => {
                Some((port, psn))
            }
            _ => None,
        };
        if acked.is_some_and(|(port, acked)| !self.is_ordered(port, acked)) {
            return Ok(());
        }
        let model = &mut self.model;
        let (port, frame, expected) = match packet {
            Packet::Data { port, psn } => (port, wire::data(psn), model.data(port, psn)),
            Packet::Feedback { port, feedback } => (
                port,
                wire::feedback(feedback),
                model.feedback(port, feedback),
            ),
            Packet::Notice { port, notice } => (
                port,
                wire::notice(notice),
                model.notice(port, notice, self.now),
            ),
            Packet::Answer {
                port,
                psn,
                syndrome,
                msn,
            } => {
                let aeth = aeth::Repr {
                    syndrome: syndrome.into(),
                    msn,
                };
                let queued = match classify(psn, aeth) {
                    Some(AckClass::Feedback(feedback)) => model.feedback(port, feedback),
                    Some(AckClass::Notice(notice)) => model.notice(port, notice, self.now),
                    None => Vec::new(),
                };
                (port, wire::acknowledge(psn, syndrome, msn), queued)
            }
            Packet::OddAnswer {
                port,
                psn,
                msn,
                odd,
            } => {
                let feedback = Feedback::Ack { psn, msn };
                let queued = model.feedback(port, feedback);
                (port, wire::odd(feedback, odd), queued)
            }
            // A parser does not have the length of a frame: truncated data is replicated, and its receivers drop it.
            Packet::Refused {
                what: Refused::Cut, ..
            } => return Ok(()),
            Packet::Refused { port, psn, what } => (port, wire::refused(psn, what), Vec::new()),
        };
        let mut fx = Effects::default();
        self.switch.ingress(port, &frame, self.now, &mut fx);
        let ports: Vec<_> = fx.enqueued.iter().map(|queued| queued.port).collect();
        prop_assert_eq!(
            ports.len(),
            expected.len(),
            "{:?} for {:?}",
            ports,
            expected
        );
        self.queued.extend(fx.enqueued.into_iter().zip(expected));
        Ok(())
    }

    fn dequeue(&mut self, at: usize) -> TestCaseResult {
        let (queued, expected) = self.queued.remove(at);
        let what = format!("{expected:?}");
        let expected = self.model.dequeue(expected);
        let mut fx = Effects::default();
        let state = QueueState {
            enq_timestamp: self.now,
            ..QueueState::default()
        };
        self.switch.egress(queued, self.now, state, &mut fx);
        let output: Vec<_> = fx
            .output
            .iter()
            .map(|output| {
                let frame = output.frame.bytes();
                // Bytes after the IPv4 packet are padding to its receiver.
                let length = match output.port {
                    CPU_PORT => frame.len(),
                    _ => 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]])),
                };
                let frame = &frame[..length];
                wire::check_form(output.port, frame);
                wire::parse(output.port, frame)
            })
            .collect();
        prop_assert_eq!(output, Vec::from_iter(expected), "of {}", what);
        prop_assert!(fx.enqueued.is_empty());
        Ok(())
    }

    fn check_state(&self) -> TestCaseResult {
        let group = u64::from(GROUP_INDEX);
        let word = |psn: u32, rest: u32| u64::from(psn << 8 | rest);
        let read = |name: &str, index: u64| {
            let bytes = self.switch.read_register(name, index).expect(name);
            bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte))
        };
        let same = |name: &str, index, expected: u64| {
            let value = read(name, index);
            prop_assert_eq!(
                format!("{value:#x}"),
                format!("{expected:#x}"),
                "{}[{}]",
                name,
                index
            );
            Ok(())
        };
        let model = &self.model;
        let sender = &model.sender;
        same(
            "ingress.ack_aggregate.last_acked.agg",
            group,
            word(model.last_acked, 0xff),
        )?;
        let source = u64::from(sender.source.unwrap_or(0));
        for twin in ["senders", "sources"] {
            let name = format!("ingress.ack_aggregate.sender.{twin}");
            same(&name, group, word(sender.sent, 0) << 32 | source)?;
        }
        same(
            "egress.last_acked_msn.msns",
            group,
            word(model.last_acked_msn, 0),
        )?;
        let window = "ingress.admission.source_window.last_acked";
        same(window, group, word(model.acknowledged, 0))?;
        for (path, leaf) in model.leaves.iter().enumerate() {
            let cell = group << self.path_bits | path as u64;
            let number = match leaf.by_sender {
                true => BY_SENDER,
                false => path as u32,
            };
            let expected = word(leaf.newest.psn, number);
            same("ingress.ack_aggregate.leaves.leaves", cell, expected)?;
            let count = model.msns[path];
            let slack = word(count.slack, path as u32);
            same(
                "egress.path_msn.msns",
                cell,
                word(count.msn, 0) << 32 | slack,
            )?;
            // The lower 8 bits are the path that acknowledged it last.
            let filter = read("egress.retransmission_filter.acked", cell) >> 8;
            prop_assert_eq!(
                filter,
                u64::from(model.filter.acked[path]),
                "filter {}",
                path
            );
            // A NAK acknowledges the PSN before its own; its cell has its own PSN and a lower byte of 0.
            let acked = read("ingress.admission.path_acknowledged.acked", cell);
            let acked = acked.wrapping_sub(u64::from(acked & 0xff == 0)) as u32 >> 8;
            prop_assert_eq!(acked, sender.acked[path], "acked {}", path);
        }
        Ok(())
    }
}

/// A switch with the group of a scene.
fn switch(scene: &Scene) -> Switch {
    let ports = scene.ports();
    let program = &PROGRAMS[(scene.path_bits - PATH_BITS.start()) as usize];
    let mut switch = bench::prepared(program, scene);
    let group = GROUP_INDEX.to_be_bytes().to_vec();
    let mcst_id = MCST_ID.octets().to_vec();
    bench::add(
        &mut switch,
        ["group_lookup.groups", "group_lookup.set_group_with_limits"],
        std::slice::from_ref(&mcst_id),
        &[
            group,
            vec![ports.len() as u8],
            vec![0],
            vec![0],
            VIRTUAL_QPN.to_be_bytes()[1..].to_vec(),
            scene.window.to_be_bytes()[1..].to_vec(),
            vec![u8::from(scene.is_selective)],
        ],
    );
    for (path, &port) in ports.iter().enumerate() {
        let is_host = scene.is_host(path);
        let number = (port as u16).to_be_bytes().to_vec();
        let key = [mcst_id.clone(), number.clone()];
        let cell = GROUP_INDEX << scene.path_bits | path as u16;
        let levels = 0..scene.path_bits as usize;
        let is_absent = |level: &usize| (path >> level ^ 1) << level >= ports.len();
        let absent: u8 = levels.filter(is_absent).map(|level| 1 << level).sum();
        bench::add(
            &mut switch,
            ["group_lookup.mft", "group_lookup.set_path"],
            &key,
            &[
                cell.to_be_bytes().to_vec(),
                vec![absent],
                vec![u8::from(is_host)],
            ],
        );
        if is_host {
            bench::add(
                &mut switch,
                ["bridge_entry.members", "bridge_entry.enter"],
                &[key[0].clone(), key[1].clone(), mcst_id.clone()],
                &[vec![0], vec![0]],
            );
        }
        let answer = FIRST_ANSWER + port;
        bench::add(
            &mut switch,
            ["mirrors", "set_sessions"],
            std::slice::from_ref(&number),
            &[number.clone(), (answer as u16).to_be_bytes().to_vec()],
        );
        add_session(&mut switch, port, port, 0);
        add_session(&mut switch, answer, port, ANSWER_BYTES);
    }
    for port in [CPU_PORT, RECIRCULATION_PORT] {
        add_session(&mut switch, port, port, FEEDBACK_BYTES);
    }
    bench::add_copies(&mut switch, &ports);
    switch
}

fn add_session(switch: &mut Switch, session: u32, port: u32, truncate_bytes: u32) {
    let what = CloneSession {
        replicas: vec![Replica { port, rid: 0 }],
        group: None,
        truncate_bytes,
        class_of_service: 0,
    };
    let pre = switch.pre_mut().expect("a program is loaded");
    pre.set_session(session, what).expect("a new session");
}

fn check(scene: &Scene, script: &Script) -> TestCaseResult {
    let scene = &Scene {
        paths: scene.paths.min(1 << MOST_PATH_BITS),
        path_bits: scene.path_bits.min(MOST_PATH_BITS),
        ..scene.clone()
    };
    let mut pair = Pair::new(scene);
    for event in script.events(scene).into_iter().chain([Event::Drain]) {
        let what = format!("{event:?}");
        pair.play(event)
            .and_then(|()| pair.check_state())
            .map_err(|error| TestCaseError::fail(format!("{what}: {error}")))?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(Cost::Packets.cases())]

    #[test]
    fn tofino_matches_the_model(scene in script::scene(), script in script::hostile()) {
        check(&scene, &script)?;
    }
}
