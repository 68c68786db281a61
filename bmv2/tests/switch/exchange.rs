//! Exchange of the running program for the same one with notes, and back, while packets are in queues.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use alfirk_bmv2::trace::{FrameFilter, TraceEvent};
use alfirk_bmv2::*;
use alfirk_compiler::arch::Arch;
use alfirk_compiler::driver::{compile, CompileOptions};

use crate::builder::{exact, run_action};
use crate::p4::{run, P4};

/// A program with objects of all kinds. Its constants and temporaries differ between the forms with and without notes.
const OBJECTS: P4<'_> = P4 {
    fields: "bit<8> kind; bit<8> value; bit<32> sum;",
    types: "register<bit<32>>(16) sums;
        counter(16, CounterType.packets_and_bytes) packets;
        meter(16, MeterType.packets) rates;",
    metadata: "@field_list(1) bit<8> color; bit<8> port;",
    locals: r#"direct_counter(CounterType.packets) hits;
    action_selector(HashAlgorithm.crc16, 16, 8) members;
    @name(".set") action set(bit<8> value) {
        hdr.h.value = hdr.h.value + value;
        hits.count();
    }
    @name(".direct") table direct {
        key = { hdr.h.kind: exact @name("kind"); }
        actions = { set; NoAction; }
        counters = hits;
        default_action = NoAction();
    }
    @name(".to") action to(bit<9> port) { sm.egress_spec = port; }
    @name(".balanced") table balanced {
        key = { hdr.h.kind: exact @name("kind"); hdr.h.value: selector; }
        actions = { to; NoAction; }
        implementation = members;
    }"#,
    ingress: "bit<32> before;
        sums.read(before, (bit<32>)(hdr.h.kind & 15));
        hdr.h.sum = before + 0x1234567;
        sums.write((bit<32>)(hdr.h.kind & 15), before + (bit<32>)hdr.h.value * 3);
        packets.count((bit<32>)(hdr.h.kind & 15));
        rates.execute_meter((bit<32>)(hdr.h.kind & 15), meta.color);
        direct.apply();
        sm.egress_spec = 1;
        if (hdr.h.kind == 3) { sm.mcast_grp = 4; }
        else if (hdr.h.kind == 5) { clone_preserving_field_list(CloneType.I2E, 5, 1); }
        else { balanced.apply(); }",
    egress: "if (sm.egress_rid == 7) { hdr.h.value = 0x77; }
        if (meta.color != 0) { hdr.h.sum = hdr.h.sum ^ 0xdead0000; }
        hdr.h.value = hdr.h.value ^ meta.color;
        if (sm.instance_type == 0 && hdr.h.kind == 6) { clone(CloneType.E2E, 5); }
        sums.write(15, hdr.h.sum);",
    headers: "",
    states: "",
    verify: "",
    update: "",
    deparser: None,
};

/// Writes entries of all kinds.
fn configure(switch: &mut Switch) {
    let table = switch.table("direct").unwrap();
    for kind in 0..6 {
        let action = run_action("set", &[kind + 1]);
        let key = [exact(kind)];
        switch.insert_entry(table, &key, 0, &action, 0, 0).unwrap();
    }
    let profile = switch.profiles()[0];
    for (id, port) in [(1, 2), (2, 3)] {
        let member = ProfileMember {
            id,
            action: "to".into(),
            args: vec![vec![port]],
        };
        switch.insert_member(profile, &member).unwrap();
    }
    let table = switch.table("balanced").unwrap();
    for (kind, member) in [(0, 1), (1, 2), (2, 1)] {
        let target = EntryTarget::Member(member);
        let key = [exact(kind)];
        switch.insert_entry(table, &key, 0, &target, 0, 0).unwrap();
    }
    let rate = MeterConfig {
        cir: 1,
        cburst: 2,
        pir: 2,
        pburst: 4,
    };
    switch.write_meter("rates", 1, Some(rate), 0).unwrap();
    add_copies(switch);
}

fn add_copies(switch: &mut Switch) {
    let replica = |port, rid| Replica { port, rid };
    let pre = switch.pre_mut().unwrap();
    let replicas = [replica(6, 1), replica(7, 7), replica(8, 9)];
    pre.set_group(4, &replicas).unwrap();
    let session = CloneSession {
        replicas: vec![replica(9, 3)],
        ..CloneSession::default()
    };
    pre.set_session(5, session).unwrap();
}

/// A switch whose packets wait in one queue.
struct Waiting {
    switch: Switch,
    queue: VecDeque<Queued>,
    sent: Vec<(u32, Vec<u8>)>,
    dropped: usize,
}

impl Waiting {
    fn new(switch: Switch) -> Waiting {
        Waiting {
            switch,
            queue: VecDeque::new(),
            sent: Vec::new(),
            dropped: 0,
        }
    }

    fn take(&mut self, fx: Effects) {
        self.queue.extend(fx.enqueued);
        let sent = fx.output.into_iter();
        self.sent
            .extend(sent.map(|output| (output.port, output.frame.into_bytes())));
        self.dropped += fx.dropped.len();
    }

    fn receive(&mut self, frame: &[u8], now: u64) {
        let mut fx = Effects::default();
        self.switch.ingress(1, frame, now, &mut fx);
        self.take(fx);
    }

    fn serve(&mut self, now: u64) {
        if let Some(packet) = self.queue.pop_front() {
            let mut fx = Effects::default();
            self.switch
                .egress(packet, now, QueueState::default(), &mut fx);
            self.take(fx);
        }
    }
}

/// Returns registers, counters and entries, with the counts of the entries.
fn state(switch: &Switch) -> String {
    let mut state = String::new();
    for register in switch.registers() {
        let cells = 0..register.size as u64;
        let cells = cells.map(|cell| switch.read_register(&register.name, cell));
        state += &format!("{} {:?}\n", register.name, cells.collect::<Vec<_>>());
    }
    for counter in switch.counters() {
        let cells = 0..4;
        let cells = cells.map(|cell| switch.read_counter(&counter.name, cell));
        state += &format!("{} {:?}\n", counter.name, cells.collect::<Vec<_>>());
    }
    for table in switch.tables() {
        state += &format!("{:#?}\n", switch.entries(table));
    }
    state
}

/// Sends frames to a switch that always runs `programs[0]`, and to one whose program changes between all steps. Both behave the
/// same.
fn compare(programs: [Arc<LoadedProgram>; 2], prepare: fn(&mut Switch), frames: &[Vec<u8>]) {
    let switch = || {
        let mut switch = run(programs[0].clone());
        prepare(&mut switch);
        Waiting::new(switch)
    };
    let (mut plain, mut changing) = (switch(), switch());
    for (number, frame) in frames.iter().enumerate() {
        let now = number as u64 * 1000;
        let exchange = |changing: &mut Waiting, to: usize| {
            let before = changing.switch.program().unwrap().clone();
            let exchanged = changing.switch.exchange_program(&programs[to]).unwrap();
            assert!(Arc::ptr_eq(&exchanged, &before));
            let runs = changing.switch.program().unwrap();
            assert!(Arc::ptr_eq(runs, &programs[to]));
        };
        exchange(&mut changing, number % 2);
        if number % 4 == 1 {
            changing.switch.set_trace(number % 8 == 1);
        }
        plain.receive(frame, now);
        changing.receive(frame, now);
        exchange(&mut changing, number / 2 % 2);
        // Four packets wait on average.
        if number > 4 || number + 1 == frames.len() {
            plain.serve(now);
            changing.serve(now);
        }
        assert_eq!(plain.queue.len(), changing.queue.len());
    }
    while !plain.queue.is_empty() {
        plain.serve(1_000_000);
        changing.serve(1_000_000);
    }
    assert!(!plain.sent.is_empty());
    assert_eq!(plain.sent, changing.sent);
    assert_eq!(plain.dropped, changing.dropped);
    assert_eq!(state(&plain.switch), state(&changing.switch));
    assert_eq!(
        plain.switch.register_accesses(),
        changing.switch.register_accesses()
    );
}

/// Returns the program without and with notes.
fn forms(text: &str) -> [Arc<LoadedProgram>; 2] {
    let plain = LoadedProgram::from_json(text).unwrap();
    [plain, LoadedProgram::with_notes(text).unwrap()].map(Arc::new)
}

#[test]
fn state_and_queued_packets_survive_on_v1model() {
    let frames = (0..200_u32).map(|n| {
        let kind = (n * 7 % 8) as u8;
        vec![kind, n as u8, 1, 2, 3, 4, 0xaa, 0xbb]
    });
    let frames: Vec<_> = frames.collect();
    compare(forms(&OBJECTS.text()), configure, &frames);
}

#[test]
fn state_and_queued_packets_survive_on_tofino() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = source.join("../compiler/tests/programs/tna/gresses.p4");
    let mut options = CompileOptions::new(source);
    options.set_arch(Arch::TNA);
    let compiled = compile(&options).unwrap_or_else(|error| panic!("{error}"));
    let prepare = |switch: &mut Switch| {
        let pre = switch.pre_mut().unwrap();
        let replicas = [1, 2, 11].map(|port| Replica { port, rid: 100 });
        pre.set_group(8, &replicas).unwrap();
        let session = CloneSession {
            replicas: vec![Replica { port: 10, rid: 0 }],
            ..CloneSession::default()
        };
        pre.set_session(4, session).unwrap();
    };
    let frames = (0..200_u32).map(|n| {
        let code = (n % 10 + 1) as u8;
        let operand = if code == 5 { 8 } else { (n / 10 % 6) as u8 };
        vec![code, operand, 0x12, n as u8, 0x77, 0x88]
    });
    let frames: Vec<_> = frames.collect();
    compare(forms(&compiled.json.to_text()), prepare, &frames);
}

#[test]
fn coverage_survives() {
    let json = bmv2_json(&OBJECTS.text());
    let load = |notes| {
        let options = LoadOptions {
            notes,
            coverage: true,
            ..LoadOptions::default()
        };
        Arc::new(LoadedProgram::with_options(&json, options).unwrap())
    };
    let programs = [load(false), load(true)];
    let mut plain = run(programs[0].clone());
    let mut changing = run(programs[0].clone());
    for n in 0..20_u8 {
        changing.exchange_program(&programs[usize::from(n) / 2 % 2]);
        for switch in [&mut plain, &mut changing] {
            switch.process(1, &[n % 7, n, 0, 0, 0, 0], 0);
        }
    }
    assert_eq!(plain.coverage(), changing.coverage());
}

fn bmv2_json(text: &str) -> alfirk_bmv2_json::BmV2Json {
    alfirk_bmv2_json::BmV2Json::from_text(text).unwrap()
}

#[test]
fn another_program_is_refused() {
    let mut switch = OBJECTS.switch();
    let others = [
        P4 {
            fields: "bit<8> kind; bit<8> value; bit<32> sum; bit<8> more;",
            ..OBJECTS
        },
        P4 {
            types: "register<bit<32>>(17) sums;
                counter(16, CounterType.packets_and_bytes) packets;
                meter(16, MeterType.packets) rates;",
            ..OBJECTS
        },
    ];
    for other in others {
        let before = switch.program().unwrap().clone();
        assert!(switch.exchange_program(&other.program()).is_none());
        assert!(Arc::ptr_eq(&before, switch.program().unwrap()));
    }
    let mut empty = Switch::new(SwitchOptions::default());
    assert!(empty.exchange_program(&OBJECTS.program()).is_none());
}

#[test]
fn packets_of_a_replaced_program_are_dropped_after_an_exchange() {
    let [plain, notes] = forms(&OBJECTS.text());
    let mut waiting = Waiting::new(run(plain.clone()));
    waiting.receive(&[3, 1, 0, 0, 0, 0], 0);
    waiting.receive(&[9, 1, 0, 0, 0, 0], 0);
    let load = waiting.switch.load_number();
    waiting.switch.load(plain);
    assert_ne!(load, waiting.switch.load_number());
    let load = waiting.switch.load_number();
    waiting.switch.exchange_program(&notes);
    waiting.switch.set_trace(true);
    assert_eq!(load, waiting.switch.load_number());
    let count = waiting.queue.len();
    assert!(count > 0);
    waiting.dropped = 0;
    for _ in 0..count {
        waiting.serve(0);
    }
    assert_eq!((waiting.sent.len(), waiting.dropped), (0, count));
}

/// Processes a frame, and returns the packets and observers of the trace.
fn observed(switch: &mut Switch, frame: &[u8]) -> Vec<(u64, [bool; 3])> {
    let mut fx = Effects::default();
    switch.process_into(1, frame, 0, &mut fx);
    let lines = fx.trace.iter();
    let mut packets: Vec<_> = lines
        .map(|line| {
            let by = [0, 1, 2].map(|observer| line.observers.contains(observer));
            (line.packet, by)
        })
        .collect();
    packets.dedup();
    packets
}

#[test]
fn observers_come_and_go_without_a_change_for_others() {
    let mut switch = OBJECTS.switch();
    let kind = |kind: u8| Some(FrameFilter::new(move |frame| frame[0] == kind));
    let frame = |kind: u8| [kind, 1, 0, 0, 0, 0];
    assert!(!switch.is_recording());
    switch.observe(1, kind(1));
    assert_eq!(
        observed(&mut switch, &frame(1)),
        [(1, [false, true, false])]
    );
    assert_eq!(observed(&mut switch, &frame(2)), []);
    switch.observe(0, None);
    assert_eq!(observed(&mut switch, &frame(1)), [(3, [true, true, false])]);
    assert_eq!(
        observed(&mut switch, &frame(2)),
        [(4, [true, false, false])]
    );
    switch.observe(2, kind(2));
    switch.end_observation(1);
    assert_eq!(
        observed(&mut switch, &frame(1)),
        [(5, [true, false, false])]
    );
    assert_eq!(observed(&mut switch, &frame(2)), [(6, [true, false, true])]);
    switch.end_observation(0);
    switch.set_block_trace(true);
    assert_eq!(observed(&mut switch, &frame(1)), []);
    assert_eq!(
        observed(&mut switch, &frame(2)),
        [(8, [false, false, true])]
    );
    switch.end_observation(2);
    assert!(!switch.is_recording());
    assert_eq!(observed(&mut switch, &frame(2)), []);
}

#[test]
fn packets_in_queues_belong_to_the_observers_of_their_arrival() {
    let mut waiting = Waiting::new(OBJECTS.switch());
    add_copies(&mut waiting.switch);
    let serve = |waiting: &mut Waiting| {
        let packet = waiting.queue.pop_front().unwrap();
        let mut fx = Effects::default();
        let state = QueueState::default();
        waiting.switch.egress(packet, 0, state, &mut fx);
        fx.trace
    };
    let is_sent = |event: &TraceEvent| matches!(event, TraceEvent::Out { .. });
    // Copies that are in queues when tracing begins are not traced, also if an earlier trace has numbered them.
    let multicast = [3, 0, 0, 0, 0, 0];
    waiting.switch.set_trace(true);
    waiting.receive(&multicast, 0);
    waiting.switch.set_trace(false);
    assert_eq!(serve(&mut waiting), []);
    waiting.switch.observe(1, None);
    waiting.receive(&multicast, 0);
    assert_eq!(serve(&mut waiting), []);
    assert_eq!(serve(&mut waiting), []);
    let lines = serve(&mut waiting);
    assert!(is_sent(&lines.last().unwrap().event), "{lines:?}");
    // A new observer of the same number has not chosen them.
    waiting.switch.observe(2, None);
    waiting.switch.end_observation(1);
    waiting.switch.observe(1, None);
    assert_eq!(serve(&mut waiting), []);
    // A packet that has no place in its queue is dropped.
    waiting.receive(&multicast, 0);
    serve(&mut waiting);
    let mut fx = Effects::default();
    let packet = waiting.queue.pop_front().unwrap();
    waiting.switch.drop_queued(&packet, &mut fx);
    let [line] = &fx.trace[..] else {
        panic!("one line: {:?}", fx.trace);
    };
    assert_eq!(line.text(false), "#2.1 dropped: queue_full");
}
