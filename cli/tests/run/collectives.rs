//! Every algorithm of every collective, through the compiled pipelines, with loss on all links.

use alfirk_ctrl::topology::{leaf_spine, HostIndex, Topology};
use alfirk_experiment::{Job, Kill, Row, Victim};
use alfirk_roce::collective::{Algorithm, Collective, TransferOp};
use alfirk_sim::engine::FaultProbabilities;
use alfirk_test_budget::Cost;
use proptest::prelude::*;

use crate::common::{good, json, TESTBED};
use crate::network::{fabric, job, run};

/// Runs an algorithm, and checks that every member has its data at the end.
fn delivers(topology: &Topology, job: &Job, algorithm: Algorithm, loss: f64) -> Result<(), String> {
    let what = format!("{algorithm} {} of {}", job.collective, job.members.len());
    let mut fabric = fabric(topology, FaultProbabilities::lossy(loss), job.seed);
    let row = run(&mut fabric, topology, job, algorithm);
    let row = row.map_err(|error| format!("{what}: {error}"))?;
    if !row.verified || row.implausible_packets > 0 {
        return Err(format!("{what}: {row:?}"));
    }
    for host in &job.members {
        let violations = fabric.network().host(*host).host().stats().violations;
        if violations.total() > 0 {
            return Err(format!("{what}: {violations:?}"));
        }
    }
    Ok(())
}

fn of(collective: Collective, members: usize, size: usize, seed: u64) -> Job {
    let size = match collective {
        Collective::Barrier => 0,
        _ => size,
    };
    Job {
        collective,
        // Length of RDMC's blocks and of the other algorithms' slices, so that each message has several.
        block: Some(4_096),
        time_limit: Some(20_000_000_000),
        ..job(members, size, seed)
    }
}

/// Five racks of eight hosts.
fn forty_hosts() -> Topology {
    leaf_spine(5, 2, 8).unwrap()
}

fn every_algorithm_delivers(topology: &Topology, members: usize, size: usize) {
    for collective in Collective::ALL {
        for algorithm in collective.algorithms() {
            let job = of(collective, members, size, members as u64);
            delivers(topology, &job, algorithm, 0.01).unwrap();
        }
    }
}

/// Sizes around the powers of two, where schedules have another form, and odd ones between.
#[test]
fn every_algorithm_delivers_to_2_to_17_members_with_loss() {
    for members in (2..=5).chain([7, 8, 9, 13, 16, 17]) {
        every_algorithm_delivers(&forty_hosts(), members, 10_000);
    }
}

#[test]
fn every_algorithm_delivers_to_24_to_40_members_with_loss() {
    for members in [24, 31, 32, 33, 40] {
        every_algorithm_delivers(&forty_hosts(), members, 10_000);
    }
}

#[test]
fn every_algorithm_delivers_to_512_members_with_loss() {
    let topology = leaf_spine(16, 2, 32).unwrap();
    for algorithm in Collective::Broadcast.algorithms() {
        let job = of(Collective::Broadcast, 512, 6_000, 1);
        delivers(&topology, &job, algorithm, 0.01).unwrap();
    }
}

/// RDMC's groups close when a member fails, and the survivors continue with the blocks that are not stable.
fn survives(
    topology: &Topology,
    job: &Job,
    algorithm: Algorithm,
    loss: f64,
) -> Result<Row, String> {
    let mut fabric = fabric(topology, FaultProbabilities::lossy(loss), job.seed);
    let row = run(&mut fabric, topology, job, algorithm);
    let row = row.map_err(|error| format!("{algorithm}: {error}"))?;
    match row.verified {
        true => Ok(row),
        false => Err(format!("{algorithm}: {row:?}")),
    }
}

fn kill(topology: &Topology, host: usize, after: u64) -> Kill {
    Kill {
        victim: Victim::Host(HostIndex(host)),
        name: topology.host(HostIndex(host)).name.clone(),
        after,
    }
}

#[test]
fn survivors_of_a_failure_get_every_byte_by_rdmc() {
    let topology = forty_hosts();
    for schedule in Algorithm::RDMC {
        let job = Job {
            kills: vec![kill(&topology, 3, 20_000)],
            ..of(Collective::Broadcast, 11, 300_000, 1)
        };
        let row = survives(&topology, &job, Algorithm::Rdmc(schedule), 0.0).unwrap();
        assert_eq!(row.lost, ["h4"], "{schedule:?}");
        assert_eq!(row.receivers_verified, 9, "{schedule:?}");
        assert!(row.failures[0].going_on_ns.is_some(), "{schedule:?}");
    }
}

#[test]
fn a_source_without_other_members_is_done() {
    let topology = forty_hosts();
    let job = Job {
        kills: vec![kill(&topology, 1, 5_000), kill(&topology, 2, 20_000)],
        ..of(Collective::Broadcast, 3, 300_000, 1)
    };
    let algorithm = Algorithm::Rdmc(alfirk_roce::collective::Schedule::BinomialPipeline);
    let row = survives(&topology, &job, algorithm, 0.0).unwrap();
    assert_eq!(row.lost, ["h2", "h3"]);
}

proptest! {
    #![proptest_config(Cost::Fabric.cases())]

    #[test]
    fn survivors_of_some_failures_get_every_byte_by_rdmc(
        schedule in prop::sample::select(Algorithm::RDMC.to_vec()),
        members in 3usize..20,
        failures in prop::collection::vec((1usize..20, 0u64..200_000), 1..4),
        size in 0usize..200_000,
        block in 500u32..20_000,
        loss in prop_oneof![Just(0.0), 0.0f64..0.01],
        seed in 0u64..1 << 32,
    ) {
        let topology = forty_hosts();
        let failures = failures.into_iter().filter(|(host, _)| *host < members);
        let job = Job {
            block: Some(block),
            kills: failures.map(|(host, after)| kill(&topology, host, after)).collect(),
            ..of(Collective::Broadcast, members, size, seed)
        };
        survives(&topology, &job, Algorithm::Rdmc(schedule), loss).map_err(TestCaseError::fail)?;
    }
}

proptest! {
    #![proptest_config(Cost::Fabric.cases())]

    #[test]
    fn every_algorithm_delivers_to_any_group_with_any_loss(
        collective in prop::sample::select(Collective::ALL.to_vec()),
        which in 0usize..100,
        fan_out in 1u32..12,
        members in 2usize..=40,
        size in prop_oneof![0usize..100, 0usize..60_000],
        op in prop_oneof![Just(TransferOp::Send), Just(TransferOp::Write), Just(TransferOp::WriteImm)],
        block in prop_oneof![Just(None), (500u32..20_000).prop_map(Some)],
        slices in 1u32..12,
        loss in 0.0f64..0.01,
        seed in 0u64..1 << 32,
    ) {
        let all: Vec<Algorithm> = collective.algorithms().collect();
        let algorithm = match all[which % all.len()] {
            Algorithm::Kary(_) => Algorithm::Kary(fan_out),
            other => other,
        };
        let job = Job {
            op: match collective == Collective::Barrier || algorithm.needs_datagrams() {
                true => TransferOp::Send,
                false => op,
            },
            block,
            slices: Some(slices),
            ..of(collective, members, size, seed)
        };
        delivers(&forty_hosts(), &job, algorithm, loss).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn every_collective_runs_by_its_flag() {
    for (collective, algorithms) in [
        ("barrier", "alfirk,binomial,dissemination"),
        ("scatter", "unicast,binomial"),
        ("allgather", "alfirk,1ring,dissemination"),
    ] {
        let report = json(&[
            "run",
            "--topology",
            TESTBED,
            "--json",
            "--collective",
            collective,
        ]);
        assert_eq!(report["settings"]["collective"], collective);
        let rows = report["results"].as_array().unwrap();
        let names: Vec<&str> = rows
            .iter()
            .map(|r| r["algorithm"].as_str().unwrap())
            .collect();
        assert_eq!(names.join(","), algorithms);
        for row in rows {
            let receivers = if collective == "scatter" { 3 } else { 4 };
            assert_eq!(row["receivers_verified"], receivers, "{row}");
            assert!(row["completion_ns"].as_u64() > Some(0));
            let has_goodput = row["goodput_gbps"].as_f64().is_some();
            assert_eq!(has_goodput, collective != "barrier", "{row}");
        }
    }
}

#[test]
fn all_algorithms_that_fit_run_side_by_side() {
    let arguments = ["run", "--topology", TESTBED, "--size", "64KiB", "--json"];
    let report = json(&[&arguments[..], &["--algorithms", "all"]].concat());
    let rows = report["results"].as_array().unwrap();
    // All hosts of the testbed are in one rack.
    assert_eq!(rows.len(), Collective::Broadcast.algorithms().count() - 1);
    assert!(rows.iter().all(|row| row["verified"] == true));
}

#[test]
fn list_names_each_algorithm_with_its_source() {
    let list = String::from_utf8(good(&["run", "--list-algorithms"])).unwrap();
    assert_eq!(list.lines().count(), Algorithm::ALL.len());
    for line in list.lines() {
        assert!(line.ends_with(']') && line.len() <= 170, "{line}");
    }
    assert!(list.contains("rdmc-binomial-pipeline  "));
    assert!(list.contains("kary:K  "));
}

#[test]
fn ranks_rotate_around_the_source() {
    let arguments = ["run", "--topology", TESTBED, "--json", "--source", "h3"];
    let members = |more: &[&str]| {
        let report = json(&[&arguments[..], more].concat());
        report["group"]["members"].to_string()
    };
    assert_eq!(members(&[]), r#"["h3","h1","h2","h4"]"#);
    assert_eq!(members(&["--rotate"]), r#"["h3","h4","h1","h2"]"#);
}
