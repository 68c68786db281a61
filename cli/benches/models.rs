//! The fast model beside the exact one, on the same job: processor time of both, and how many frames cross links in a second of it.
//!
//! Times are this machine's, the ratio is what matters. `ALFIRK_BENCH_LONG=1` adds 512 receivers on 1,024 hosts, 16 MiB.

use std::path::Path;
use std::time::{Duration, Instant};

use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_ctrl::controller::ControllerConfig;
use alfirk_ctrl::topology::{fat_tree, HostIndex, Topology};
use alfirk_experiment::{run_algorithm, stream, Job};
use alfirk_roce::collective::Algorithm;
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::{Fidelity, Model, Network};
use alfirk_sim::VirtualFabric;

fn main() {
    // `cargo test` runs benchmarks, too, and wants them short.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/v1model/main.p4");
    let compiled = compile(&CompileOptions::new(source)).expect("p4src is right");
    let json = serde_json::to_vec(&compiled.json).expect("BMv2 JSON has no strange keys");
    let pipeline = ControllerConfig::new(compiled.p4info, json);
    let mut jobs = vec![(4, 16, 16 << 20), (8, 128, 4 << 20)];
    if std::env::var_os("ALFIRK_BENCH_LONG").is_some() {
        jobs.push((16, 513, 16 << 20));
    }
    for (k, members, bytes) in jobs {
        for algorithm in [Algorithm::Alfirk, Algorithm::Chain] {
            compare(&pipeline, k, members, bytes, algorithm);
        }
    }
}

fn compare(
    pipeline: &ControllerConfig,
    k: u32,
    members: usize,
    bytes: usize,
    algorithm: Algorithm,
) {
    let topology = fat_tree(k).expect("an even k");
    let data = stream::bytes(1, "input", bytes).into();
    let job = Job::new((0..members).map(HostIndex).collect(), data);
    let run = |fidelity| traffic(pipeline, &topology, &job, algorithm, fidelity);
    let (exact, crossings) = run(Fidelity::Exact);
    let (fast, also) = run(Fidelity::Fast);
    assert_eq!(crossings, also, "the models differ");
    let rate = |took: Duration| crossings as f64 / took.as_secs_f64() / 1e6;
    println!(
        "{:<28} {:.1} times as fast: {:.2} instead of {:.2} million crossings each second",
        format!("{algorithm}, k = {k}, {members} hosts"),
        exact.as_secs_f64() / fast.as_secs_f64(),
        rate(fast),
        rate(exact),
    );
}

/// How long the job took without the start of the fabric, and how many frames crossed links meanwhile.
fn traffic(
    pipeline: &ControllerConfig,
    topology: &Topology,
    job: &Job,
    algorithm: Algorithm,
    fidelity: Fidelity,
) -> (Duration, u64) {
    let model = Model {
        fidelity,
        ..Model::default()
    };
    let faults = FaultProbabilities::default();
    let network = Network::build(topology, pipeline.clone(), model, faults, 1);
    let network = network.expect("the topology fits");
    let mut fabric = VirtualFabric::bring_up(network).expect("switches come up");
    let started = Instant::now();
    let row = run_algorithm(&mut fabric, topology, job, algorithm, &mut |_| {});
    let row = row.expect("nothing is lost");
    assert!(row.verified);
    (started.elapsed(), row.wire_packets)
}
