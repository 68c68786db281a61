//! Groups registered in band, groups with failures, and groups that cannot be registered.

use alfirk_ctrl::controller::{ControllerConfig, MemberSpec, RegisterGroup};
use alfirk_ctrl::strategy::{IcrcMode, Strategies};
use alfirk_ctrl::topology::{fat_tree, leaf_spine, testbed, HostIndex, LinkIndex, Topology};
use alfirk_experiment::{Fabric, FabricError, Job, JobError, Kill, Registration, Row, Victim};
use alfirk_roce::collective::{Algorithm, TransferOp, WriteMode};
use alfirk_roce::wire::{Psn, QpNum};
use alfirk_sim::engine::FaultProbabilities;
use alfirk_sim::network::{Model, Network};
use alfirk_sim::VirtualFabric;

use crate::network::{fabric, job, pipeline, run};
use crate::strategies::{by, MIN_PSNS};

/// Configuration with a failure timeout of 20 ms.
fn quick() -> ControllerConfig {
    ControllerConfig {
        probe_interval_ns: 2_500_000,
        dead_member_ns: 20_000_000,
        dead_switch_ns: 20_000_000,
        ..pipeline()
    }
}

pub fn quick_fabric(topology: &Topology, faults: FaultProbabilities, seed: u64) -> VirtualFabric {
    let network = Network::build(topology, quick(), Model::default(), faults, seed).unwrap();
    VirtualFabric::bring_up(network).unwrap()
}

fn in_band(members: usize, size: usize, seed: u64) -> Job {
    Job {
        registration: Registration::Mrp,
        ..job(members, size, seed)
    }
}

fn alfirk(topology: &Topology, job: &Job, faults: FaultProbabilities) -> Result<Row, JobError> {
    let mut fabric = quick_fabric(topology, faults, job.seed);
    run(&mut fabric, topology, job, Algorithm::Alfirk)
}

/// The hostile member sends random packets of all kinds at link rate, while its queue pair replies correctly.
#[test]
fn a_hostile_member_does_not_slow_the_others() {
    let topology = fat_tree(4).unwrap();
    for strategies in MIN_PSNS {
        let quiet = by(strategies, IcrcMode::Neutral, job(16, 1 << 20, 1));
        let alone = alfirk(&topology, &quiet, FaultProbabilities::default()).unwrap();
        for hostile in [1, 4, 15] {
            let job = Job {
                hostiles: vec![HostIndex(hostile)],
                ..quiet.clone()
            };
            let beside = alfirk(&topology, &job, FaultProbabilities::default()).unwrap();
            assert!(beside.verified);
            assert_eq!(beside.retransmissions, alone.retransmissions);
            let slower = beside.completion_ns as f64 / alone.completion_ns as f64;
            assert!(slower < 1.2, "host {hostile}, {strategies}: {slower}");
            // The hostile packets were effective.
            assert!(beside.wire_packets > alone.wire_packets + 5_000);
        }
    }
}

#[test]
fn a_group_is_registered_in_band_used_and_removed() {
    let topology = leaf_spine(2, 2, 2).unwrap();
    let mut fabric = fabric(&topology, FaultProbabilities::default(), 1);
    for _ in 0..2 {
        let row = run(
            &mut fabric,
            &topology,
            &in_band(4, 50_000, 1),
            Algorithm::Alfirk,
        )
        .unwrap();
        assert!(row.verified);
        assert!(row.registration_ns > Some(0));
    }
    for host in topology.host_indexes() {
        let drops = fabric.network().host(host).host().stats().drops;
        assert_eq!(drops.total(), 0, "{drops:?}");
    }
}

#[test]
fn writes_to_a_group_registered_in_band_find_their_regions() {
    let topology = leaf_spine(2, 2, 2).unwrap();
    let job = Job {
        op: TransferOp::Write,
        write: WriteMode::Uniform,
        ..in_band(4, 50_000, 1)
    };
    let row = alfirk(&topology, &job, FaultProbabilities::lossy(0.002)).unwrap();
    assert!(row.verified);
}

#[test]
fn in_band_registration_survives_loss_duplication_and_reordering() {
    let topology = leaf_spine(2, 2, 2).unwrap();
    let faults = FaultProbabilities {
        loss: 0.05,
        duplicate: 0.02,
        reorder: 0.02,
        reorder_window: 3_000,
    };
    for seed in 1..=6 {
        let row = alfirk(&topology, &in_band(4, 20_000, seed), faults);
        let row = row.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(row.verified, "seed {seed}");
    }
}

#[test]
fn a_group_of_several_packets_is_registered_in_band_under_loss() {
    let topology = fat_tree(12).unwrap();
    assert!(topology.hosts().len() > 2 * 183);
    let row = alfirk(
        &topology,
        &in_band(topology.hosts().len(), 64, 3),
        FaultProbabilities::lossy(0.002),
    );
    let row = row.unwrap();
    assert!(row.verified);
    assert_eq!(row.receivers, 431);
}

#[test]
fn regions_are_registered_in_band_under_loss() {
    let topology = fat_tree(8).unwrap();
    // 61 nodes with their regions fit into a packet.
    for (op, members, size) in [
        (TransferOp::Write, 128, 3_000),
        (TransferOp::WriteImm, 2, 1),
        (TransferOp::Write, 5, 0),
    ] {
        let job = Job {
            op,
            write: WriteMode::Aligned,
            ..in_band(members, size, 5)
        };
        let row = alfirk(&topology, &job, FaultProbabilities::lossy(0.005)).unwrap();
        assert!(row.verified, "{members} members");
        assert_eq!(row.receivers, members - 1);
        assert_eq!(row.implausible_packets, 0);
    }
}

#[test]
fn regions_of_more_than_183_members_are_registered_in_band() {
    let topology = fat_tree(10).unwrap();
    let job = Job {
        op: TransferOp::Write,
        ..in_band(topology.hosts().len(), 1_000, 2)
    };
    let row = alfirk(&topology, &job, FaultProbabilities::lossy(0.001)).unwrap();
    assert!(row.verified);
    assert_eq!(row.receivers, 249);
}

/// Fails `victim` 30 us after the post, with a message that is still being sent then.
fn with_failure(topology: &Topology, registration: Registration, victim: Victim) -> Row {
    let members = topology.hosts().len();
    let job = Job {
        registration,
        kills: vec![Kill {
            victim,
            name: "it".to_string(),
            after: 30_000,
        }],
        ..job(members, 2_000_000, 1)
    };
    alfirk(topology, &job, FaultProbabilities::default()).unwrap()
}

#[test]
fn group_continues_without_a_failed_host() {
    let topology = leaf_spine(2, 1, 2).unwrap();
    for registration in [Registration::Api, Registration::Mrp] {
        let row = with_failure(&topology, registration, Victim::Host(HostIndex(2)));
        assert!(row.verified);
        assert_eq!(row.lost, ["h3"]);
        assert_eq!(row.receivers_verified, 2);
        let failure = &row.failures[0];
        // Stall timeout, then the failure timeout, then the change.
        let repaired = failure.repaired_ns.unwrap();
        assert!((20_000_000..40_000_000).contains(&repaired), "{repaired}");
        assert!(failure.going_on_ns.unwrap() >= repaired);
    }
}

#[test]
fn group_continues_without_a_host_whose_link_failed() {
    let topology = testbed();
    let row = with_failure(&topology, Registration::Api, Victim::Link(LinkIndex(1)));
    assert!(row.verified);
    assert_eq!(row.lost, ["h2"]);
}

#[test]
fn group_is_rerouted_around_a_failed_switch_and_a_failed_link() {
    let topology = leaf_spine(2, 2, 2).unwrap();
    // The group uses the first spine, because no other group exists yet.
    let spine = topology.switch_named("s1").unwrap();
    for victim in [
        Victim::Switch(spine),
        Victim::Link(link_between(&topology, "l1", "s1")),
        Victim::Link(link_between(&topology, "l2", "s1")),
    ] {
        let row = with_failure(&topology, Registration::Mrp, victim);
        assert!(row.verified, "{victim:?}");
        assert!(row.lost.is_empty(), "{victim:?}: {:?}", row.lost);
        assert_eq!(row.receivers_verified, 3, "{victim:?}");
        assert!(row.failures[0].going_on_ns.is_some(), "{victim:?}");
    }
}

fn link_between(topology: &Topology, a: &str, b: &str) -> LinkIndex {
    let [a, b] = [a, b].map(|name| topology.node_named(name).unwrap());
    topology.links_between(a, b).next().unwrap()
}

#[test]
fn group_continues_without_the_hosts_of_a_failed_leaf() {
    let topology = leaf_spine(3, 2, 2).unwrap();
    let leaf = topology.switch_named("l3").unwrap();
    let row = with_failure(&topology, Registration::Api, Victim::Switch(leaf));
    assert!(row.verified);
    assert_eq!(row.lost, ["h5", "h6"]);
}

#[test]
fn failure_without_effect_causes_no_action() {
    let topology = leaf_spine(2, 2, 2).unwrap();
    let job = Job {
        kills: vec![Kill {
            victim: Victim::Host(HostIndex(3)),
            name: "h4".to_string(),
            after: 10_000,
        }],
        ..job(3, 200_000, 1)
    };
    let row = alfirk(&topology, &job, FaultProbabilities::default()).unwrap();
    assert!(row.verified && row.lost.is_empty());
    assert_eq!(row.failures[0].repaired_ns, None);
    assert_eq!(row.receivers_verified, 2);
}

/// Occupies every group index of the testbed's switch.
fn fill(fabric: &mut VirtualFabric, topology: &Topology) {
    let ips: Vec<_> = topology.hosts().iter().map(|host| host.ip).collect();
    loop {
        let members = ips.iter().take(2).map(|ip| MemberSpec {
            ip: *ip,
            qpn: QpNum::new(77),
            region: None,
            may_send: true,
        });
        let group = RegisterGroup {
            mcst_id: None,
            virtual_qpn: None,
            members: members.collect(),
            initial_psn: Psn::new(0),
            strategies: Strategies::default(),
        };
        match fabric.register(group) {
            Ok(_) => {}
            Err(FabricError::Group(_)) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn members_use_an_overlay_when_the_fabric_is_full() {
    let topology = testbed();
    let mut fabric = fabric(&topology, FaultProbabilities::default(), 1);
    fill(&mut fabric, &topology);
    for registration in [Registration::Api, Registration::Mrp] {
        let wanted = Job {
            registration,
            mcst_id: "10.255.200.1".parse().unwrap(),
            fallback: Some(Algorithm::Chain),
            ..job(4, 30_000, 1)
        };
        let row = run(&mut fabric, &topology, &wanted, Algorithm::Alfirk).unwrap();
        assert!(row.verified);
        assert_eq!(row.algorithm, "alfirk");
        assert_eq!(row.registration_ns, None);
        let fallback = row.fallback.unwrap();
        assert_eq!(fallback.to, "chain");
        assert!(
            fallback.why.contains("no space for the group"),
            "{}",
            fallback.why
        );
        let strict = Job {
            fallback: None,
            ..wanted
        };
        assert!(run(&mut fabric, &topology, &strict, Algorithm::Alfirk).is_err());
    }
}
