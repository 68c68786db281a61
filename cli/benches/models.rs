//! Benchmarks the models in real time: each with two threads and with one, and the fast model and the exact one on the same job, by
//! processor time and by frames on links per second of it.
//!
//! Times are this machine's, the ratio is what matters. `ALFIRK_BENCH_LONG=1` adds 512 receivers on 1,024 hosts, 16 MiB, and of the
//! fast model alone the same with 128 MiB, and HPL's communication on 64 x 64 hosts. Threads need a machine without other load.

use std::path::Path;
use std::time::{Duration, Instant};

use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_ctrl::controller::ControllerConfig;
use alfirk_ctrl::topology::{fat_tree, HostIndex, Topology};
use alfirk_experiment::workload::Kind;
use alfirk_experiment::{run_algorithm, run_workload, stream, Job};
use alfirk_roce::collective::Algorithm;
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::{Fidelity, Model, Network};
use alfirk_sim::VirtualFabric;
use rustix::time::{clock_gettime, ClockId};

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
    let is_long = jobs.len() > 2;
    for &(k, members, bytes) in &jobs[1..] {
        for fidelity in [Fidelity::Exact, Fidelity::Fast] {
            compare_threads(&pipeline, k, members, bytes, fidelity);
        }
    }
    for (k, members, bytes) in jobs {
        for algorithm in [Algorithm::Alfirk, Algorithm::Chain] {
            compare(&pipeline, k, members, bytes, algorithm);
        }
    }
    if is_long {
        let (topology, job) = broadcast(16, 513, 128 << 20);
        let took = traffic(
            &pipeline,
            &topology,
            &job,
            Algorithm::Alfirk,
            Fidelity::Fast,
        );
        alone("alfirk, k = 16, 513 hosts, 128 MiB", took);
        alone("HPL, 64 x 64 hosts, 1 MiB each", hpl(&pipeline));
    }
}

/// A message to the first members of a fat-tree.
fn broadcast(k: u32, members: usize, bytes: usize) -> (Topology, Job) {
    let data = stream::bytes(1, "input", bytes).into();
    let job = Job::new((0..members).map(HostIndex).collect(), data);
    (fat_tree(k).expect("an even k"), job)
}

/// Time of the fast model, for jobs that would take too long with the exact one.
fn alone(what: &str, (took, crossings): (Duration, u64)) {
    let seconds = took.as_secs_f64();
    let rate = crossings as f64 / seconds / 1e6;
    println!("{what}: fast, {seconds:.1} s, {rate:.2} million crossings each second");
}

/// A panel broadcast in every row and a row swap in every column, each by groups.
fn hpl(pipeline: &ControllerConfig) -> (Duration, u64) {
    let topology = fat_tree(26).expect("an even k");
    let hosts: Vec<HostIndex> = topology.host_indexes().collect();
    let kind: Kind = "hpl:grid=64x64,panel=1MiB".parse().expect("a workload");
    let workload = kind.workload(&hosts, 1).expect("4,096 hosts are there");
    let mut fabric = bring_up(pipeline, &topology, Fidelity::Fast);
    let job = Job::new(Vec::new(), [].into());
    let started = processor_time();
    let algorithm = Algorithm::Alfirk;
    let row = run_workload(
        &mut fabric,
        &topology,
        &job,
        &workload,
        algorithm,
        &mut |_| {},
    );
    let row = row.expect("nothing is lost");
    assert!(row.verified);
    (processor_time() - started, row.wire_packets)
}

fn bring_up(pipeline: &ControllerConfig, topology: &Topology, fidelity: Fidelity) -> VirtualFabric {
    VirtualFabric::bring_up(build(pipeline, topology, fidelity)).expect("switches come up")
}

fn build(pipeline: &ControllerConfig, topology: &Topology, fidelity: Fidelity) -> Network {
    let model = Model {
        fidelity,
        ..Model::default()
    };
    let faults = FaultProbabilities::default();
    let network = Network::build(topology, pipeline.clone(), model, faults, 1);
    network.expect("the topology fits")
}

fn compare(
    pipeline: &ControllerConfig,
    k: u32,
    members: usize,
    bytes: usize,
    algorithm: Algorithm,
) {
    let (topology, job) = broadcast(k, members, bytes);
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

/// Alternates one thread and two, without the start of the fabric; the results must be equal.
fn compare_threads(
    pipeline: &ControllerConfig,
    k: u32,
    members: usize,
    bytes: usize,
    fidelity: Fidelity,
) {
    const TURNS: usize = 3;
    let (topology, job) = broadcast(k, members, bytes);
    let run = |threads: usize| {
        let mut network = build(pipeline, &topology, fidelity);
        let set = network.set_threads(fidelity.threads(threads));
        set.expect("there are threads");
        let mut fabric = VirtualFabric::bring_up(network).expect("switches come up");
        let started = Instant::now();
        let row = run_algorithm(&mut fabric, &topology, &job, Algorithm::Alfirk, &mut |_| {});
        let took = started.elapsed();
        let row = row.expect("nothing is lost");
        (
            took,
            format!("{row:?}, {} events", fabric.network().events()),
        )
    };
    let mut took = [Duration::MAX; 2];
    for _ in 0..TURNS {
        let [one, two] = [run(1), run(2)];
        assert_eq!(one.1, two.1, "threads change the result");
        took = [took[0].min(one.0), took[1].min(two.0)];
    }
    let [one, two] = took.map(|took| took.as_secs_f64());
    println!(
        "{:<28} {:.2} times as fast by two threads: {two:.2} s instead of {one:.2} s (best of {TURNS})",
        format!("{fidelity:?}, k = {k}, {members} hosts"),
        one / two,
    );
}

/// Duration of the job without the start of the fabric, and number of frames on links.
fn traffic(
    pipeline: &ControllerConfig,
    topology: &Topology,
    job: &Job,
    algorithm: Algorithm,
    fidelity: Fidelity,
) -> (Duration, u64) {
    let mut fabric = bring_up(pipeline, topology, fidelity);
    let started = processor_time();
    let row = run_algorithm(&mut fabric, topology, job, algorithm, &mut |_| {});
    let row = row.expect("nothing is lost");
    assert!(row.verified);
    (processor_time() - started, row.wire_packets)
}

/// Processor time of this thread, which does all the work, so that other load does not matter.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
