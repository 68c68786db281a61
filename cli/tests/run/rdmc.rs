//! RDMC's analysis of its binomial pipeline (sections 4.4 and 4.5 of its paper), and suspended applications.

use std::sync::OnceLock;

use alfirk_ctrl::topology::{leaf_spine, HostIndex};
use alfirk_experiment::{Job, Row, Suspension};
use alfirk_roce::collective::{Algorithm, Schedule};
use alfirk_sim::engine::FaultProbabilities;
use alfirk_test_budget::Cost;
use proptest::prelude::*;

use crate::network::{fabric, job, run};

const MEMBERS: usize = 8;
const BLOCK: u32 = 65_536;
/// Blocks of the message.
const BLOCKS: usize = 16;

fn completion_ns(algorithm: Algorithm, suspensions: Vec<Suspension>) -> u64 {
    let topology = leaf_spine(1, 1, MEMBERS as u32).unwrap();
    let mut fabric = fabric(&topology, FaultProbabilities::default(), 1);
    let job = Job {
        block: Some(BLOCK),
        suspensions,
        ..job(MEMBERS, BLOCKS * BLOCK as usize, 1)
    };
    let row: Row = run(&mut fabric, &topology, &job, algorithm).unwrap();
    assert!(row.verified);
    row.completion_ns
}

fn suspended(host: usize, from: u64, lasts: u64) -> Suspension {
    Suspension {
        host: HostIndex(host),
        from,
        until: from + lasts,
    }
}

static WITHOUT: OnceLock<u64> = OnceLock::new();

proptest! {
    #![proptest_config(Cost::Run.cases())]

    /// RDMC's paper, section 4.5: "a delay e in sending a block leads to a maximum delay of e in the total time to send". (The paper's steps are
    /// synchronous; here they are not quite, so one block more is allowed.)
    #[test]
    fn a_suspension_delays_a_binomial_pipeline_by_at_most_its_own_duration(
        host in 0..MEMBERS,
        from in 0..1_500_000u64,
        lasts in 1_000..1_000_000u64,
    ) {
        let algorithm = Algorithm::Rdmc(Schedule::BinomialPipeline);
        let step = u64::from(BLOCK) * 8 / 100;
        let without = *WITHOUT.get_or_init(|| completion_ns(algorithm, Vec::new()));
        let with = completion_ns(algorithm, vec![suspended(host, from, lasts)]);
        prop_assert!(with <= without + lasts + step, "{without} ns, and {with} ns");
    }
}

/// Section 4.4: with 16 members, B blocks take B + 4 steps, and a step is the time of one block and one notice. (Only because a member is
/// ready for one member's block at a time; otherwise transfers share links and the steps are not synchronous.)
#[test]
fn a_binomial_pipeline_takes_its_steps() {
    let blocks = 16;
    let of = |blocks: u32| {
        let topology = leaf_spine(1, 1, 16).unwrap();
        let mut fabric = fabric(&topology, FaultProbabilities::default(), 1);
        let block = 4 * BLOCK;
        let job = Job {
            block: Some(block),
            ..job(16, (blocks * block) as usize, 1)
        };
        let pipeline = Algorithm::Rdmc(Schedule::BinomialPipeline);
        run(&mut fabric, &topology, &job, pipeline)
            .unwrap()
            .completion_ns
    };
    let step = of(1) / 4;
    let steps = of(blocks) as f64 / step as f64;
    assert!((19.0..22.0).contains(&steps), "{steps} steps instead of 19");
}

/// A suspension delays algorithms whose members relay data in the application; a group's receivers need only their NICs.
#[test]
fn a_suspension_stops_the_application_and_not_the_nic() {
    let suspension = || vec![suspended(1, 10_000, 1_000_000)];
    let chain = completion_ns(Algorithm::Chain, suspension());
    assert!(chain > 1_000_000, "{chain} ns");
    let before = completion_ns(Algorithm::Alfirk, Vec::new());
    let alfirk = completion_ns(Algorithm::Alfirk, suspension());
    // The suspended member reports its completion late.
    assert!(
        (1_010_000..1_020_000 + before).contains(&alfirk),
        "{alfirk} ns"
    );
}
