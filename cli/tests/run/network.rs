//! Whole fabrics: compiled pipelines, controller, hosts, and faults.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_ctrl::controller::{ControllerConfig, GroupError, RegisterGroup};
use alfirk_ctrl::strategy::Strategies;
use alfirk_ctrl::topology::{leaf_spine, testbed, HostIndex, LinkIndex, SwitchIndex, Topology};
use alfirk_ctrl::tree::Policy;
use alfirk_experiment::{
    run_algorithm, stream, Congestion, Fabric, FabricError, Job, JobError, JobFailure, Row,
};
use alfirk_roce::collective::{Algorithm, Collective, TransferOp, WriteMode};
use alfirk_roce::rc::PathMtu;
use alfirk_roce::wire::Psn;
use alfirk_sim::engine::{FaultProbabilities, Observation, Observer};
use alfirk_sim::frame::Frame;
use alfirk_sim::network::{Model, Network};
use alfirk_sim::VirtualFabric;

pub fn pipeline() -> ControllerConfig {
    static PIPELINE: OnceLock<ControllerConfig> = OnceLock::new();
    let compile = || {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/v1model/main.p4");
        let compiled = compile(&CompileOptions::new(source)).expect("p4src is right");
        let json = serde_json::to_vec(&compiled.json).unwrap();
        ControllerConfig::new(compiled.p4info, json)
    };
    PIPELINE.get_or_init(compile).clone()
}

fn network(topology: &Topology, faults: FaultProbabilities, seed: u64) -> Network {
    Network::build(topology, pipeline(), Model::default(), faults, seed).unwrap()
}

/// A fabric without faults whose groups have trees of this policy.
pub fn fabric_by(policy: Policy, topology: &Topology) -> VirtualFabric {
    let config = ControllerConfig {
        policy,
        ..pipeline()
    };
    let faults = FaultProbabilities::default();
    let network = Network::build(topology, config, Model::default(), faults, 1).unwrap();
    VirtualFabric::bring_up(network).unwrap()
}

pub fn fabric(topology: &Topology, faults: FaultProbabilities, seed: u64) -> VirtualFabric {
    VirtualFabric::bring_up(network(topology, faults, seed)).unwrap()
}

pub fn job(members: usize, size: usize, seed: u64) -> Job {
    let data: Arc<[u8]> = stream::bytes(seed, "input", size).into();
    Job {
        mtu: PathMtu::B1024,
        time_limit: Some(2_000_000_000),
        seed,
        ..Job::new((0..members).map(HostIndex).collect(), data)
    }
}

pub fn run(
    fabric: &mut VirtualFabric,
    topology: &Topology,
    job: &Job,
    algorithm: Algorithm,
) -> Result<Row, JobError> {
    run_algorithm(fabric, topology, job, algorithm, &mut |_| {})
}

#[test]
fn every_algorithm_survives_loss_duplication_and_reordering() {
    let topology = leaf_spine(2, 2, 2).unwrap();
    let faults = FaultProbabilities {
        loss: 0.01,
        duplicate: 0.02,
        reorder: 0.02,
        reorder_window: 3_000,
    };
    for seed in 1..=4 {
        for algorithm in Collective::Broadcast.algorithms() {
            let job = job(4, 100_000, seed);
            let mut fabric = fabric(&topology, faults, seed);
            let row = run(&mut fabric, &topology, &job, algorithm);
            let row = row.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(row.verified, "{algorithm}, seed {seed}");
            assert!(row.dropped_packets > Some(0), "{algorithm}, seed {seed}");
        }
    }
}

#[test]
fn one_fabric_serves_one_algorithm_after_another() {
    let topology = testbed();
    let job = job(3, 10_000, 1);
    let mut fabric = fabric(&topology, FaultProbabilities::default(), 1);
    for algorithm in [Algorithm::Alfirk, Algorithm::Unicast, Algorithm::Alfirk] {
        assert!(
            run(&mut fabric, &topology, &job, algorithm)
                .unwrap()
                .verified
        );
    }
}

/// Number of transmissions of each PSN by each node and port.
type Seen = BTreeMap<(String, u32, u32), u32>;

/// Counts how often each data packet was sent in each direction of each link.
struct Crossings(Rc<RefCell<Seen>>);

impl Observer for Crossings {
    fn observe(&mut self, _: u64, name: &str, happening: Observation<'_>) {
        if let Observation::Transmit { port, frame } = happening {
            if let Frame::Roce(roce) = Frame::read(frame) {
                if roce.is_request() {
                    let key = (name.to_string(), port, roce.psn.get());
                    *self.0.borrow_mut().entry(key).or_default() += 1;
                }
            }
        }
    }
}

#[test]
fn no_copy_crosses_a_link_twice() {
    let topology = leaf_spine(3, 2, 3).unwrap();
    let mut network = network(&topology, FaultProbabilities::default(), 1);
    let seen = Rc::new(RefCell::new(BTreeMap::new()));
    network.observe(Box::new(Crossings(Rc::clone(&seen))));
    let mut fabric = VirtualFabric::bring_up(network).unwrap();
    let row = run(
        &mut fabric,
        &topology,
        &job(9, 20_000, 1),
        Algorithm::Alfirk,
    )
    .unwrap();
    assert!(row.verified);
    let seen = seen.borrow();
    assert!(seen.len() > 9 * 20);
    assert!(seen.values().all(|&times| times == 1), "{seen:?}");
}

#[test]
fn hosts_accept_every_packet_that_the_fabric_delivers() {
    let topology = leaf_spine(2, 1, 2).unwrap();
    let mut fabric = fabric(&topology, FaultProbabilities::default(), 1);
    for algorithm in Collective::Broadcast.algorithms() {
        assert!(
            run(&mut fabric, &topology, &job(4, 30_000, 1), algorithm)
                .unwrap()
                .verified
        );
    }
    for host in topology.host_indexes() {
        let stats = fabric.network().host(host).host().stats();
        assert_eq!(stats.drops.total(), 0, "{:?}", stats.drops);
    }
}

#[test]
fn faults_do_not_cause_packets_that_a_strict_stack_rejects() {
    let topology = leaf_spine(2, 2, 2).unwrap();
    let faults = FaultProbabilities {
        loss: 0.01,
        duplicate: 0.02,
        reorder: 0.02,
        reorder_window: 3_000,
    };
    let kinds = [
        (TransferOp::Send, WriteMode::Aligned, 0, false),
        (TransferOp::WriteImm, WriteMode::Aligned, 0, false),
        (TransferOp::Write, WriteMode::Uniform, 0, false),
        (TransferOp::Send, WriteMode::Aligned, 5, false),
        (TransferOp::Send, WriteMode::Aligned, 5, true),
        (TransferOp::Write, WriteMode::Aligned, 5, true),
    ];
    for seed in 1..=6 {
        for (op, write, switch_source, switch_early) in kinds {
            let job = Job {
                op,
                write,
                switch_source,
                switch_early,
                congestion: Congestion::Dcqcn,
                ..job(4, 60_000, seed)
            };
            let what = format!("{op:?}, {write:?}, {switch_source} switches, seed {seed}");
            let mut fabric = fabric(&topology, faults, seed);
            let row = run(&mut fabric, &topology, &job, Algorithm::Alfirk);
            let row = row.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(row.verified, "{what}");
            for host in topology.host_indexes() {
                let stats = fabric.network().host(host).host().stats();
                // Packets in flight when their queue pair ends are not errors.
                let implausible = stats.implausible() - stats.drops.unknown_qp;
                assert_eq!(implausible, 0, "{what}: {stats:?}");
            }
        }
    }
}

#[test]
fn failed_receiver_link_prevents_completion() {
    let topology = testbed();
    let mut fabric = fabric(&topology, FaultProbabilities::default(), 1);
    fabric.network().set_link_up(LinkIndex(2), false);
    let job = Job {
        time_limit: Some(20_000_000),
        ..job(4, 10_000, 1)
    };
    let error = run(&mut fabric, &topology, &job, Algorithm::Alfirk).unwrap_err();
    let JobFailure::TimeLimit { hosts, .. } = &error.failure else {
        panic!("{error}");
    };
    assert_eq!(hosts, &["h3"]);
}

#[test]
fn a_failed_switch_is_named_when_a_group_needs_it() {
    let topology = testbed();
    let mut fabric = fabric(&topology, FaultProbabilities::default(), 1);
    fabric.network().kill_switch(SwitchIndex(0));
    let error = run(&mut fabric, &topology, &job(4, 100, 1), Algorithm::Alfirk).unwrap_err();
    assert!(error.to_string().contains("s1"), "{error}");
}

#[test]
fn controller_rejects_addresses_of_no_host() {
    let topology = testbed();
    let mut fabric = fabric(&topology, FaultProbabilities::default(), 1);
    let request = RegisterGroup {
        mcst_id: None,
        virtual_qpn: None,
        members: Vec::new(),
        initial_psn: Psn::new(0),
        strategies: Strategies::default(),
    };
    let error = fabric.register(request).unwrap_err();
    let FabricError::Group(refusal) = error else {
        panic!("{error}");
    };
    assert_eq!(*refusal, GroupError::TooFewMembers(0));
}
