//! Packets per second through the pipeline core, on one thread, without I/O, by the interpreter and by machine code.
//!
//! `cargo bench -p alfirk-bmv2`; items are frames that enter the switch.

#[path = "common/group.rs"]
mod group;

use std::sync::Arc;

use std::fmt::{self, Display, Formatter};

use alfirk_bmv2::{
    Effects, Engine, EntryTarget, KeyMatch, LoadOptions, LoadedProgram, Switch, SwitchOptions,
};
use divan::counter::ItemsCount;
use divan::Bencher;
use group::{
    host, ipv4, json, pass, processor_time, program, roce, switch, switch_with, Group, MAIN_PROGRAM,
};

fn main() {
    memory();
    compilation();
    println!("multicast_replicas, 3 receivers: the target is 1.5 Mitem/s");
    divan::main();
}

/// Prints the memory of each switch of a fabric, with the multicast program and no entries.
fn memory() {
    const SWITCHES: u64 = 320;
    let program = Arc::new(program(MAIN_PROGRAM));
    let before = resident();
    let load = |_| {
        let mut switch = Switch::new(SwitchOptions::default());
        switch.load(program.clone());
        switch
    };
    let switches: Vec<Switch> = (0..SWITCHES).map(load).collect();
    let each = (resident() - before) / SWITCHES;
    println!(
        "memory of a loaded switch, of {}: {} KiB (target: below 1,024)",
        switches.len(),
        each >> 10
    );
}

/// Prints the processor time to compile the multicast program to machine code.
fn compilation() {
    const RUNS: usize = 5;
    let programs: Vec<_> = (0..RUNS).map(|_| program(MAIN_PROGRAM)).collect();
    let times = programs.iter().map(|program| {
        let start = processor_time();
        program.compile().unwrap_or_else(|e| panic!("{e}"));
        processor_time() - start
    });
    let least = times.min().unwrap_or_default();
    println!(
        "compilation of the multicast program: {:.1} ms (target: below 50)",
        least as f64 / 1e6
    );
}

/// A case of a benchmark: an engine, and a number of bytes or receivers.
struct Case {
    engine: Engine,
    number: u32,
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "{}, {:?}", self.number, self.engine)
    }
}

/// Returns the cases of these numbers, with both engines for each.
fn cases<const N: usize>(numbers: [u32; N]) -> impl Iterator<Item = Case> {
    let engines = [Engine::Interpreter, Engine::Compiled];
    let both = move |number| engines.map(|engine| Case { engine, number });
    numbers.into_iter().flat_map(both)
}

/// Returns the resident memory of this process in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc/self/statm");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    // The page size of all platforms that the benchmarks run on.
    pages.unwrap_or(0u64) * 4096
}

/// One lpm table with 1,000 routes of several lengths.
#[divan::bench(args = cases([64, 1024]))]
fn ipv4_routing(bencher: Bencher, case: &Case) {
    let bytes = case.number as usize;
    let mut switch = switch("bmv2/test_data/routing.p4", case.engine);
    for i in 0..1000u32 {
        let len = 16 + 4 * (i % 5);
        let value = (0x0a00_0000 | i << 12) >> (32 - len) << (32 - len);
        let key = KeyMatch::Lpm {
            value: value.to_be_bytes().to_vec(),
            prefix_len: len,
        };
        let table = switch.table("ingress.routes").unwrap();
        let args = vec![vec![2, 0, 0, 0, 0, 9], vec![(i % 200) as u8]];
        let target = EntryTarget::Action {
            name: "ingress.forward".to_owned(),
            args,
        };
        // Shorter prefixes are sometimes equal.
        let _ = switch.insert_entry(table, &[key], 0, &target, 0, 0);
    }
    let frames: Vec<Vec<u8>> = (0..1000u32)
        .map(|i| {
            ipv4(
                0x0b00_0001,
                0x0a00_0000 | i << 12 | 1,
                17,
                &vec![0; bytes - 34],
            )
        })
        .collect();
    let (mut fx, mut waiting) = (Effects::default(), Vec::new());
    bencher
        .counter(ItemsCount::new(frames.len()))
        .bench_local(|| {
            for frame in &frames {
                pass(&mut switch, &mut fx, &mut waiting, 1, frame);
            }
        });
}

/// Packets per benchmark; enough to make the initialisation of the group negligible.
const ROUNDS: u32 = 250;

/// Data packets of 1 KiB, each sent once. Items are the copies that leave.
#[divan::bench(args = cases([3, 15]))]
fn multicast_replicas(bencher: Bencher, case: &Case) {
    replicas(
        bencher,
        Group::new(case.number + 1, 0, case.engine),
        case,
        true,
    );
}

/// As [`multicast_replicas`], with coverage: the loss should be below 10 %.
#[divan::bench(args = cases([3, 15]))]
fn multicast_replicas_with_coverage(bencher: Bencher, case: &Case) {
    replicas(bencher, covered_group(case), case, true);
}

/// Creates a group whose switch counts what packets execute.
fn covered_group(case: &Case) -> Group {
    let options = LoadOptions {
        coverage: true,
        ..LoadOptions::default()
    };
    let program = LoadedProgram::with_options(&json(MAIN_PROGRAM), options);
    let program = program.unwrap_or_else(|e| panic!("{e}"));
    Group::on(switch_with(program, case.engine), case.number + 1, 0)
}

/// Retransmits the same unacknowledged data repeatedly, as after a loss on all paths. Each copy looks up the newest
/// PSN that its path has acknowledged.
#[divan::bench(args = cases([3, 15]))]
fn multicast_retransmissions(bencher: Bencher, case: &Case) {
    replicas(
        bencher,
        Group::new(case.number + 1, 0, case.engine),
        case,
        false,
    );
}

fn replicas(bencher: Bencher, mut group: Group, case: &Case, as_new_data: bool) {
    let receivers = case.number;
    let data: Vec<Vec<u8>> = (0..ROUNDS)
        .map(|i| roce(host(0), 1, 1000 + i, &[0x5a; 1024]))
        .collect();
    group.start();
    let out = group.switch.process(1, &data[0], 0);
    assert_eq!(out.len() as u32, receivers, "copies for the receivers");
    bencher
        .counter(ItemsCount::new(ROUNDS * receivers))
        .bench_local(|| {
            if as_new_data {
                group.start();
            }
            for data in &data {
                group.pass(1, data);
            }
        });
}

/// Each round has one ACK per receiver, the last of which is forwarded to the sender. Items are received ACKs.
#[divan::bench(args = cases([3, 15]))]
fn multicast_feedback(bencher: Bencher, case: &Case) {
    feedback(bencher, Group::new(case.number + 1, 0, case.engine), case);
}

/// As [`multicast_feedback`], with coverage: the loss should be below 10 %.
#[divan::bench(args = cases([3, 15]))]
fn multicast_feedback_with_coverage(bencher: Bencher, case: &Case) {
    feedback(bencher, covered_group(case), case);
}

fn feedback(bencher: Bencher, mut group: Group, case: &Case) {
    let receivers = case.number;
    let acks: Vec<(u32, Vec<u8>)> = (0..ROUNDS)
        .flat_map(|i| (1..=receivers).map(move |p| (i, p)))
        .map(|(i, p)| (p + 1, roce(host(p), 0x11, 1000 + i, &[0x1f, 0, 0, 1])))
        .collect();
    // The sender's own path counts as having received its data, from the group's first packet on.
    let data = [1000, 1000 + ROUNDS].map(|psn| roce(host(0), 1, psn, &[0x5a; 64]));
    group.start();
    data.iter().for_each(|data| group.pass(1, data));
    for (port, ack) in &acks[..receivers as usize] {
        let out = group.switch.process(*port, ack, 0);
        let is_last = *port == receivers + 1;
        assert_eq!(out.len(), usize::from(is_last), "only the last ACK passes");
    }
    bencher
        .counter(ItemsCount::new(acks.len()))
        .bench_local(|| {
            group.start();
            data.iter().for_each(|data| group.pass(1, data));
            for (port, ack) in &acks {
                group.pass(*port, ack);
            }
        });
}
