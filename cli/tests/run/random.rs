//! Random jobs on random fabrics with random faults, through the compiled pipelines: the invariants hold.

use alfirk_ctrl::strategy::{IcrcMode, MinPsn};
use alfirk_ctrl::topology::{fat_tree, leaf_spine, testbed, HostIndex, Topology};
use alfirk_experiment::{Congestion, Job, Kill, Victim};
use alfirk_roce::collective::{Algorithm, TransferOp, WriteMode};
use alfirk_roce::rc::Recovery;
use alfirk_roce::wire::Psn;
use alfirk_sim::engine::FaultProbabilities;
use alfirk_test_budget::Cost;
use proptest::prelude::*;

use crate::groups::quick_fabric;
use crate::network::{fabric, job, run};
use crate::strategies::{by, ICRCS, MIN_PSNS};

fn topology(index: usize) -> Topology {
    match index {
        0 => testbed(),
        1 => leaf_spine(2, 1, 2).unwrap(),
        2 => leaf_spine(3, 2, 2).unwrap(),
        _ => fat_tree(4).unwrap(),
    }
}

/// Sizes around a packet's, and of many packets of 1,024 bytes.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        Just(0usize),
        Just(1),
        Just(1_023),
        Just(1_024),
        Just(1_025),
        0usize..20_000,
        0usize..200_000
    ]
}

fn faults() -> impl Strategy<Value = FaultProbabilities> {
    let chance = |most: f64| prop_oneof![Just(0.0), 0.0..most];
    (chance(0.05), chance(0.05), chance(0.05)).prop_map(|(loss, duplicate, reorder)| {
        FaultProbabilities {
            loss,
            duplicate,
            reorder,
            reorder_window: 5_000,
        }
    })
}

/// A switch sends the source an MSN from the time of another source, because it has not received a newer one since.
#[test]
fn former_source_may_receive_an_older_msn() {
    let topology = fat_tree(4).unwrap();
    let job = Job {
        op: TransferOp::WriteImm,
        switch_source: 2,
        switch_early: true,
        initial_psn: Some(Psn::new(0)),
        time_limit: Some(20_000_000_000),
        ..job(9, 6_146, 1_846_110_532)
    };
    let faults = FaultProbabilities::lossy(0.003_544_324_821_394);
    let mut fabric = fabric(&topology, faults, job.seed);
    let row = run(&mut fabric, &topology, &job, Algorithm::Alfirk).unwrap();
    assert!(row.verified);
    assert_eq!(row.implausible_packets, 0);
}

proptest! {
    #![proptest_config(Cost::Fabric.cases())]

    #[test]
    fn every_message_completes_at_every_receiver(
        topology_index in 0usize..4,
        members in 2usize..17,
        size in size(),
        op in prop_oneof![Just(TransferOp::Send), Just(TransferOp::Write), Just(TransferOp::WriteImm)],
        write in prop_oneof![Just(WriteMode::Aligned), Just(WriteMode::Uniform)],
        switch_source in prop_oneof![Just(0u32), 0u32..6],
        switch_early: bool,
        controlled: bool,
        selective: bool,
        min_psn in prop::sample::select(MIN_PSNS.to_vec()),
        icrc in prop::sample::select(ICRCS.to_vec()),
        behind_wrap in prop_oneof![0u32..200, 0u32..1 << 24],
        faults in faults(),
        seed in 0u64..1 << 32,
    ) {
        let topology = topology(topology_index);
        let members = members.min(topology.hosts().len());
        let job = Job {
            op,
            write,
            switch_source,
            switch_early,
            congestion: if controlled { Congestion::Dcqcn } else { Congestion::None },
            recovery: if selective { Recovery::SelectiveRepeat } else { Recovery::GoBackN },
            initial_psn: Some(Psn::new(0u32.wrapping_sub(behind_wrap))),
            time_limit: Some(20_000_000_000),
            ..by(min_psn, icrc, job(members, size, seed))
        };
        let mut fabric = fabric(&topology, faults, seed);
        let row = run(&mut fabric, &topology, &job, Algorithm::Alfirk);
        let row = row.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(row.verified);
        prop_assert_eq!(row.implausible_packets, 0);
        // The round trip to the controller takes longer than the sender's ACK timeout.
        let is_punted = min_psn == MinPsn::Punt || icrc == IcrcMode::Punt;
        // A switch drops data of a new source until it has received the feedback of that path, so the source retransmits.
        let is_hasty = switch_early && switch_source > 0;
        if faults.loss + faults.duplicate + faults.reorder == 0.0 && !is_punted && !is_hasty {
            prop_assert_eq!(row.retransmissions, 0);
            prop_assert_eq!(row.sender_payload_bytes, size as u64);
        }
        for host in (0..members).map(HostIndex) {
            let stats = fabric.network().host(host).host().stats();
            prop_assert_eq!(stats.violations.total(), 0, "{:?}", stats);
        }
    }

    /// Some failures are between the packet that announces a region and the WRITE that uses it.
    #[test]
    fn failure_during_writes_with_announced_regions_does_not_affect_others(
        topology_index in 0usize..3,
        members in 3usize..5,
        dead in 1usize..3,
        // A message of 32 KiB takes a few us, and so does the announcement of its regions.
        after in 0u64..150_000,
        op in prop_oneof![Just(TransferOp::Write), Just(TransferOp::WriteImm)],
        min_psn in prop::sample::select(MIN_PSNS.to_vec()),
        loss in prop_oneof![Just(0.0), 0.0..0.05],
        seed in 0u64..1 << 32,
    ) {
        let topology = topology(topology_index);
        let job = Job {
            op,
            write: WriteMode::PerRequest,
            messages: Some(8),
            kills: vec![Kill {
                victim: Victim::Host(HostIndex(dead)),
                name: topology.host(HostIndex(dead)).name.clone(),
                after,
            }],
            time_limit: Some(20_000_000_000),
            ..by(min_psn, IcrcMode::Neutral, job(members, 1 << 18, seed))
        };
        let mut fabric = quick_fabric(&topology, FaultProbabilities::lossy(loss), seed);
        let row = run(&mut fabric, &topology, &job, Algorithm::Alfirk);
        let row = row.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(row.verified);
        prop_assert_eq!(row.receivers_verified + row.lost.len(), members - 1);
    }
}
