//! A switch with one group, and its observable state.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use alfirk_aggregation::{Config, Group, Port, Strategy};
use alfirk_bmv2::{
    CloneSession, EntryTarget, KeyMatch, LoadedProgram, Replica, Switch, SwitchOptions,
};
use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_compiler::preproc::MacroOption;
use alfirk_ctrl::tables::absent_children;

use crate::script::Scene;
use crate::wire::{MCST_ID, VIRTUAL_QPN};

pub const CPU_PORT: u32 = 510;
pub const GROUP_INDEX: u16 = 5;
const COOKIE: u32 = 0xc0ff_ee00;
/// The path byte of a cell that was written by a sender's data.
const BY_SENDER: u64 = 0xff;
const PATH_NONE: u64 = 0xff;
const WORK_CELLS: u64 = 8;

/// Values of PATH_BITS.
pub const PATH_BITS: std::ops::RangeInclusive<u32> = 2..=7;

/// Profile of the program (`p4src/v1model/profile.p4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Full,
    Core,
}

impl Profile {
    /// The program for the groups of a scene.
    fn program(self, scene: &Scene) -> &'static Arc<LoadedProgram> {
        let programs = match self {
            Profile::Full => &PROGRAMS,
            Profile::Core => &CORE_PROGRAMS,
        };
        &programs[(scene.path_bits - PATH_BITS.start()) as usize]
    }
}

/// The program for groups of up to 2^n paths, from PATH_BITS' first value on.
static PROGRAMS: LazyLock<Vec<Arc<LoadedProgram>>> =
    LazyLock::new(|| PATH_BITS.map(|bits| program("main.p4", bits)).collect());

/// The same for the core profile.
static CORE_PROGRAMS: LazyLock<Vec<Arc<LoadedProgram>>> =
    LazyLock::new(|| PATH_BITS.map(|bits| program("core.p4", bits)).collect());

fn program(file: &str, path_bits: u32) -> Arc<LoadedProgram> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/v1model");
    let source = folder.join(file);
    let mut options = CompileOptions::new(source);
    let define = MacroOption::Define(format!("PATH_BITS={path_bits}"));
    options.preprocessor.macros.push(define);
    load(&options)
}

/// Compiles a data plane.
pub fn load(options: &CompileOptions) -> Arc<LoadedProgram> {
    let compiled = compile(options).expect("p4src compiles");
    let json = serde_json::to_string(&compiled.json).expect("BMv2 JSON is JSON");
    Arc::new(LoadedProgram::from_json(&json).expect("the switch loads what the compiler writes"))
}

/// A switch with a program, and with the registers of a scene's group.
pub fn prepared(program: &Arc<LoadedProgram>, scene: &Scene) -> Switch {
    let mut switch = Switch::new(SwitchOptions {
        cpu_port: Some(CPU_PORT),
        ..SwitchOptions::default()
    });
    switch.load(program.clone());
    initialise_registers(
        &mut switch,
        scene.ports().len(),
        scene.initial_psn,
        scene.initial_msn,
    );
    switch
}

/// A switch with the group of a scene.
pub fn switch(profile: Profile, strategy: Strategy, scene: &Scene) -> Switch {
    let ports = scene.ports();
    let mut switch = prepared(profile.program(scene), scene);
    let group = GROUP_INDEX.to_be_bytes().to_vec();
    let paths = vec![ports.len() as u8];
    let virtual_qpn = VIRTUAL_QPN.to_be_bytes()[1..].to_vec();
    let window = scene.window.to_be_bytes()[1..].to_vec();
    let (action, parameters) = match profile {
        Profile::Full => (
            "group_lookup.set_group_with_limits",
            vec![
                group.clone(),
                paths,
                vec![number_of(strategy)],
                vec![0],
                virtual_qpn,
                window,
                vec![u8::from(scene.is_selective)],
            ],
        ),
        Profile::Core => (
            "group_lookup.set_group_with_window",
            vec![group.clone(), paths, virtual_qpn, window],
        ),
    };
    add(
        &mut switch,
        ["group_lookup.groups", action],
        &[MCST_ID.octets().to_vec()],
        &parameters,
    );
    for (path, &port) in ports.iter().enumerate() {
        let is_host = scene.is_host(path);
        let key = [group.clone(), (port as u16).to_be_bytes().to_vec()];
        let absent = absent_children(path, ports.len()).to_be_bytes().to_vec();
        add(
            &mut switch,
            ["group_lookup.mft", "group_lookup.set_path"],
            &key,
            &[vec![path as u8], absent, vec![u8::from(is_host)]],
        );
        if is_host {
            // Its packets look like those between switches, so no header needs to be rewritten.
            add(
                &mut switch,
                ["bridge_entry.members", "bridge_entry.enter"],
                &[key[0].clone(), key[1].clone(), MCST_ID.octets().to_vec()],
                &[vec![0], vec![0]],
            );
        }
        add_clone_session(&mut switch, port);
    }
    add_clone_session(&mut switch, CPU_PORT);
    add_copies(&mut switch, &ports);
    switch
}

/// The group's copies: one through each port, with the number of its path.
pub fn add_copies(switch: &mut Switch, ports: &[Port]) {
    let replicas: Vec<Replica> = ports
        .iter()
        .enumerate()
        .map(|(path, &port)| Replica {
            port,
            rid: path as u16,
        })
        .collect();
    let pre = switch.pre_mut().expect("a program is loaded");
    pre.create_group(u32::from(GROUP_INDEX) + 1)
        .expect("a new group");
    pre.set_group(u32::from(GROUP_INDEX) + 1, &replicas)
        .expect("the group exists");
}

fn number_of(strategy: Strategy) -> u8 {
    match strategy {
        Strategy::Tree => 0,
        Strategy::Walk => 1,
        Strategy::Punt => 2,
    }
}

fn add_clone_session(switch: &mut Switch, port: Port) {
    let session = CloneSession {
        replicas: vec![Replica { port, rid: 0 }],
        group: None,
        truncate_bytes: 0,
        class_of_service: 0,
    };
    let pre = switch.pre_mut().expect("a program is loaded");
    pre.set_session(port, session).expect("a new session");
}

/// Inserts an entry of a table of ingress with exact keys; names are those without `ingress`.
pub fn add(switch: &mut Switch, [table, action]: [&str; 2], key: &[Vec<u8>], args: &[Vec<u8>]) {
    let name = |what: &str| format!("ingress.{what}");
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

fn initialise_registers(switch: &mut Switch, paths: usize, initial_psn: u32, initial_msn: u32) {
    let mut frame = vec![1, 0, 0];
    frame.extend([1, 0, 0, paths as u8]);
    frame.extend(GROUP_INDEX.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend((u64::from(initial_msn) << 24 | u64::from(initial_psn)).to_be_bytes());
    frame.extend(COOKIE.to_be_bytes());
    let answers = switch.process(CPU_PORT, &frame, 0);
    let [(CPU_PORT, answer)] = &answers[..] else {
        panic!("one answer expected: {answers:?}")
    };
    assert_eq!((answer[0], answer[4]), (1, 0), "reason and status");
    assert_eq!(
        &answer[answer.len() - 4..],
        COOKIE.to_be_bytes(),
        "cookie of {answer:02x?}"
    );
}

/// All state of a group, by register name. The value of a register that the program does not have is `None`.
pub fn registers(switch: &Switch, path_bits: u32, paths: usize) -> Vec<(String, Option<u64>)> {
    let group = u64::from(GROUP_INDEX);
    let mut cells = Vec::new();
    let mut read = |name: &str, index: u64, label: String| {
        let bytes = switch.read_register(name, index).ok();
        let number = |bytes: Vec<u8>| bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
        cells.push((label, bytes.map(number)));
    };
    let losses = Config::pipeline(Strategy::Tree).loss_slots as u64;
    for slot in 0..losses {
        let register = "ingress.ack_aggregate.selective_nak.losses";
        read(register, group * losses + slot, format!("loss {slot}"));
    }
    for name in [
        "agg",
        "last_acked.msn_bases",
        "waiting_nak.nak",
        "sender.senders",
        "walk.walks",
        "cnp_filter.worst",
    ] {
        let register = format!("ingress.ack_aggregate.{name}");
        read(&register, group, name.to_owned());
    }
    for path in 0..paths as u64 {
        let (leaf, slot) = ((group << path_bits | path) / 4, group << path_bits | path);
        let child = format!("ingress.ack_aggregate.leaves.child_{}", path % 4);
        read(&child, leaf, format!("word {path}"));
        let acked = "ingress.ack_aggregate.sender.acked";
        read(acked, slot, format!("acked {path}"));
        let filter = "egress.retransmission_filter.acked";
        read(filter, slot, format!("filter {path}"));
        let cnps = "ingress.ack_aggregate.cnp_filter.paths";
        read(cnps, slot, format!("CNPs {path}"));
    }
    cells
}

/// The model's state, in the same order.
pub fn expected_registers(model: &Group) -> Vec<u64> {
    let kept = model.saved_registers();
    let worst = kept.most_congested.map_or(0, |(path, congested)| {
        (congested.window & 0xffff) << 16 | (path as u64) << 8 | u64::from(congested.cnps)
    });
    let last_acked = model.last_acked.point;
    let base = model.last_acked.msn_base;
    let nak = model.waiting_nak;
    let state = model.walk.running.map_or(0, |busy| {
        1 << 31 | u64::from(busy.is_dirty) << 30 | busy.start & 0x3fff_ffff
    });
    let losses = model.selective_nak.slots().iter();
    let mut cells: Vec<u64> = losses
        .map(|loss| u64::from(loss.psn) << 8 | u64::from(loss.reports))
        .collect();
    cells.extend([
        u64::from(last_acked.psn) << 24 | u64::from(last_acked.msn),
        u64::from(base),
        nak.nak
            .map_or(0, |nak| u64::from(nak.syndrome) << 24 | u64::from(nak.psn))
            | u64::from(nak.is_sent) << 31,
        u64::from(model.sender.source.unwrap_or(0)) << 24 | u64::from(model.sender.sent),
        state << 32
            | model.walk.trigger.map_or(PATH_NONE, |path| path as u64) << 24
            | u64::from(model.walk.last_minimum),
        worst,
    ]);
    for (at, leaf) in model.leaves.iter().enumerate() {
        let number = if leaf.by_sender { BY_SENDER } else { at as u64 };
        cells.extend([
            u64::from(leaf.newest.psn) << 24 | number << 16 | u64::from(leaf.newest.msn & 0xffff),
            u64::from(model.sender.acked[at]),
            u64::from(model.filter.acked[at]),
            (kept.congested[at].window & 0x3ff) << 6 | u64::from(kept.congested[at].cnps),
        ]);
    }
    cells
}

/// Counters of the pipeline: feedback received, feedback sent to the source, recirculations and punts.
pub fn work(switch: &Switch, strategy: Strategy) -> [u64; 4] {
    [0, 1, 2, 3].map(|cell| {
        let at = u64::from(number_of(strategy)) * WORK_CELLS + cell;
        let counter = switch.read_counter("ingress.ack_aggregate.work", at);
        counter.expect("the counter exists").packets
    })
}
