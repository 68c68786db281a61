//! Cost of each strategy for the minimum PSN at a switch: `cargo bench -p alfirk-bmv2 --bench strategies`.
//!
//! One sender; all others acknowledge every eighth packet, in a random order. Times are those of the pipeline core on
//! one thread, without I/O; for `punt`, the controller's work is not included.

#[path = "common/group.rs"]
#[allow(dead_code)]
mod group;

use alfirk_bmv2::{Engine, QueueState};
use alfirk_compiler::driver::{compile, CompileOptions};
use group::{host, roce, Group, CPU_PORT, MAIN_PROGRAM};
use std::path::Path;
use std::time::Instant;

/// Number of data packets per ACK of a receiver.
const WINDOW: u32 = 8;
/// Number of windows per measurement.
const WINDOWS: u32 = 200;
/// Number of measurements; the fastest one is reported.
const RUNS: u32 = 5;
const SENDER_PORT: u32 = 1;

#[derive(Default)]
struct Cost {
    to_sender: u32,
    recirculations: u64,
    punts: u32,
    accesses: u64,
    nanoseconds: f64,
}

fn main() {
    println!("strategy  paths  ACKs at the sender  recirculations  punts  register accesses  pipeline time  pipeline time");
    println!("                    per data packet         per ACK  per ACK            per ACK        per ACK    per replica");
    for (name, min_psn) in [("tree", 0), ("walk", 1), ("punt", 2)] {
        for paths in [4, 16, 64] {
            measure(name, min_psn, paths);
        }
    }
    memory();
}

fn measure(name: &str, min_psn: u64, paths: u32) {
    let mut group = Group::new(paths, min_psn, Engine::Interpreter);
    let data: Vec<Vec<u8>> = (0..WINDOW * WINDOWS)
        .map(|i| roce(host(0), 1, 1000 + i, &[0x5a; 1024]))
        .collect();
    let receivers = paths - 1;
    let acks: Vec<(u32, Vec<u8>)> = (0..WINDOWS)
        .flat_map(|window| (0..receivers).map(move |i| (window, (i * 11 + window * 5) % receivers)))
        .map(|(window, receiver)| {
            let psn = 1000 + WINDOW * (window + 1) - 1;
            let path = receiver + 1;
            (path + 1, roce(host(path), 0x11, psn, &[0x1f, 0, 0, 1]))
        })
        .collect();
    let mut best_data = f64::MAX;
    let mut cost = Cost {
        nanoseconds: f64::MAX,
        ..Cost::default()
    };
    let mut waiting = Vec::new();
    for _ in 0..RUNS {
        group.start();
        let mut of_data = 0.0;
        let mut run = Cost::default();
        let recirculations = recirculations(&group, min_psn);
        for window in 0..WINDOWS {
            let here = (window * WINDOW) as usize;
            let begun = Instant::now();
            for frame in &data[here..here + WINDOW as usize] {
                group.pass(SENDER_PORT, frame);
            }
            of_data += begun.elapsed().as_nanos() as f64;

            let here = (window * receivers) as usize;
            let before = group.switch.register_accesses();
            let begun = Instant::now();
            for (port, frame) in &acks[here..here + receivers as usize] {
                let Group { switch, fx, .. } = &mut group;
                switch.ingress(*port, frame, 0, fx);
                while !fx.enqueued.is_empty() {
                    std::mem::swap(&mut fx.enqueued, &mut waiting);
                    for packet in waiting.drain(..) {
                        switch.egress(packet, 0, QueueState::default(), fx);
                    }
                }
                for out in &fx.output {
                    run.to_sender += u32::from(out.port == SENDER_PORT);
                    run.punts += u32::from(out.port == CPU_PORT);
                }
                fx.recycle();
                fx.clear();
            }
            run.nanoseconds += begun.elapsed().as_nanos() as f64;
            run.accesses += group.switch.register_accesses() - before;
        }
        run.recirculations = self::recirculations(&group, min_psn) - recirculations;
        best_data = f64::min(best_data, of_data);
        if run.nanoseconds < cost.nanoseconds {
            cost = run;
        }
    }
    let packets = f64::from(WINDOW * WINDOWS);
    let ack_count = acks.len() as f64;
    println!(
        "{name:<8}  {paths:>5}  {:>18.3}  {:>14.3}  {:>5.3}  {:>17.1}  {:>10.0} ns  {:>10.0} ns",
        f64::from(cost.to_sender) / packets,
        cost.recirculations as f64 / ack_count,
        f64::from(cost.punts) / ack_count,
        cost.accesses as f64 / ack_count,
        cost.nanoseconds / ack_count,
        best_data / (packets * f64::from(receivers)),
    );
}

/// Returns how many recirculations the program has counted for groups with a strategy.
fn recirculations(group: &Group, min_psn: u64) -> u64 {
    // Eight cells for each strategy, with those of `Work` in p4src/shared/constants.p4.
    let cell = 8 * min_psn + 2;
    let counter = (group.switch).read_counter("ingress.ack_aggregate.work", cell);
    counter.expect("the program has the counter").packets
}

/// Prints the size of registers for 1,000 groups, from the compiled program.
fn memory() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate is in the workspace");
    let mut options = CompileOptions::new(root.join(MAIN_PROGRAM));
    options
        .preprocessor
        .include_dirs
        .push(root.join("p4include"));
    let json = compile(&options).unwrap_or_else(|e| panic!("{e}")).json;
    let groups = json
        .register_arrays
        .iter()
        .find(|array| array.name.ends_with("ack_aggregate.agg"))
        .expect("the program has the register ack_aggregate.agg")
        .size;
    let megabytes = |is_counted: &dyn Fn(&str) -> bool| {
        let bits: u64 = json
            .register_arrays
            .iter()
            .filter(|array| is_counted(&array.name))
            .map(|array| array.size * u64::from(array.bitwidth))
            .sum();
        bits as f64 / 8.0 / groups as f64 * 1000.0 / 1e6
    };
    let is_region = |name: &str| name.contains("memory_regions");
    println!(
        "\nregisters for 1,000 groups of 64 paths: {:.3} MB (Gleam: 0.92 MB, Cepheus: 0.69 MB), and {:.3} MB for \
         memory regions",
        megabytes(&|name| !is_region(name)),
        megabytes(&is_region),
    );
}
