//! A fabric and a group in virtual time: compiled pipelines, controller and hosts. One message is sent to three hosts.
//!
//! `cargo run -p alfirk-sim --example group`

use std::path::Path;
use std::sync::Arc;

use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_ctrl::controller::ControllerConfig;
use alfirk_ctrl::topology::{testbed, HostIndex};
use alfirk_experiment::{run_algorithm, Job};
use alfirk_roce::collective::Algorithm;
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::{Model, Network};
use alfirk_sim::VirtualFabric;

/// Runs the example; a test calls it, too.
pub fn main() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/v1model/main.p4");
    let compiled = compile(&CompileOptions::new(source)).expect("p4src compiles");
    let pipeline = serde_json::to_vec(&compiled.json).expect("JSON is JSON");
    let config = ControllerConfig::new(compiled.p4info, pipeline);

    // One switch and four hosts. Each link loses one frame in a hundred; the same seed gives the same losses.
    let topology = testbed();
    let faults = FaultProbabilities::lossy(0.01);
    let network = Network::build(&topology, config, Model::default(), faults, 7);
    let network = network.expect("the testbed is a network");
    let mut fabric = VirtualFabric::bring_up(network).expect("the controller reaches its switch");

    let data: Arc<[u8]> = (0..100_000u32).map(|n| n as u8).collect();
    let job = Job::new((0..4).map(HostIndex).collect(), data);
    let row = run_algorithm(&mut fabric, &topology, &job, Algorithm::Alfirk, &mut |_| {});
    let row = row.expect("losses are repaired");
    println!(
        "{} ns, {} packets sent again, verified: {}",
        row.completion_ns, row.retransmissions, row.verified
    );
    assert!(row.verified);
}
