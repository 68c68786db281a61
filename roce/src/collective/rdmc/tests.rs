//! Properties that the RDMC paper claims of its schedules, tested for every number of members.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::collective::plan::testing::{racks, sizes};
use crate::collective::{Algorithm, EdgeId};

const BLOCKS: [u32; 6] = [1, 2, 3, 7, 16, 33];

fn sends(schedule: Schedule, shape: Shape<'_>) -> Vec<Send> {
    let mut sends = Vec::new();
    for rank in 0..shape.members {
        for flow in Algorithm::Rdmc(schedule).plan(shape, rank).outgoing {
            let EdgeId::Pair { from, to } = flow.edge else {
                panic!("RDMC has no group");
            };
            let carried = flow.steps.iter().zip(&flow.slices);
            sends.extend(carried.map(|(&step, &block)| Send {
                step,
                from,
                to,
                block,
            }));
        }
    }
    sends.sort_by_key(|send| (send.step, send.from));
    sends
}

/// Number of doublings from 1 to at least `members`.
fn doublings(members: u32) -> u32 {
    members.next_power_of_two().ilog2()
}

#[test]
fn binomial_pipeline_takes_l_plus_k_minus_1_steps() {
    for members in sizes() {
        for blocks in BLOCKS {
            let sends = sends(Schedule::BinomialPipeline, Shape::new(members, blocks));
            let mut held = vec![BTreeSet::new(); members as usize];
            held[0] = (0..blocks).collect();
            for step in 0..doublings(members) + blocks - 1 {
                let now: Vec<Send> = sends.iter().copied().filter(|s| s.step == step).collect();
                let givers: BTreeSet<u32> = now.iter().map(|send| send.from).collect();
                let takers: BTreeSet<u32> = now.iter().map(|send| send.to).collect();
                assert_eq!(givers.len(), now.len(), "two sends in {step} of {members}");
                assert_eq!(
                    takers.len(),
                    now.len(),
                    "two receives in {step} of {members}"
                );
                for send in &now {
                    assert!(held[send.from as usize].contains(&send.block), "{send:?}");
                }
                for send in &now {
                    assert!(held[send.to as usize].insert(send.block), "again: {send:?}");
                }
            }
            let lacking = held.iter().position(|held| held.len() < blocks as usize);
            assert_eq!(lacking, None, "of {members} with {blocks} blocks");
            let last = sends.last().expect("there is a send").step;
            assert_eq!(last + 1, doublings(members) + blocks - 1);
        }
    }
}

#[test]
fn every_block_reaches_all_members_l_steps_after_the_root_sent_it() {
    for members in sizes() {
        let sends = sends(Schedule::BinomialPipeline, Shape::new(members, 16));
        for send in sends {
            assert!(send.step <= send.block + doublings(members), "{send:?}");
        }
    }
}

/// The formula of section 4.4, as printed.
#[test]
fn formula_of_the_paper_gives_the_same_sends() {
    for l in 1..=7u32 {
        let n = 1u32 << l;
        for k in BLOCKS {
            let mut expected = Vec::new();
            for j in 0..=(l + k - 2) {
                for i in 0..n {
                    let m = j % l;
                    let sigma = ((i >> m) | (i << (l - m))) & (n - 1);
                    let b = match sigma {
                        0 => Some(j.min(k - 1)),
                        1 => None,
                        _ => {
                            let r = sigma.trailing_zeros();
                            (j + r >= l).then(|| (j + r - l).min(k - 1))
                        }
                    };
                    expected.extend(b.map(|block| Send {
                        step: j,
                        from: i,
                        to: i ^ (1 << m),
                        block,
                    }));
                }
            }
            assert_eq!(
                sends(Schedule::BinomialPipeline, Shape::new(n, k)),
                expected
            );
        }
    }
}

#[test]
fn each_link_carries_each_block_at_most_once_each_way() {
    for members in sizes() {
        let racks = racks(members);
        for schedule in Algorithm::RDMC {
            let shape = Shape {
                members,
                slices: 7,
                racks: &racks,
            };
            let mut crossed = BTreeSet::new();
            for send in sends(schedule, shape) {
                assert!(crossed.insert((send.from, send.to, send.block)), "{send:?}");
            }
        }
    }
}

/// The time at which the last block arrives. Each member executes its sends in order, each as soon as it has the block.
/// A send takes 1000 plus `late(index)` units of time.
fn completion(sends: &[Send], late: impl Fn(usize) -> u64) -> u64 {
    const SEND: u64 = 1_000;
    let mut free: BTreeMap<u32, u64> = BTreeMap::new();
    let mut here: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut last = 0;
    for (index, send) in sends.iter().enumerate() {
        let has = match send.from {
            0 => 0,
            from => here[&(from, send.block)],
        };
        let begin = has.max(free.get(&send.from).copied().unwrap_or(0));
        let end = begin + SEND + late(index);
        free.insert(send.from, end);
        here.insert((send.to, send.block), end);
        last = last.max(end);
    }
    last
}

/// Claim of section 4.5, item 1.
#[test]
fn a_delayed_block_delays_the_end_at_most_by_its_own_delay() {
    for members in sizes() {
        let sends = sends(Schedule::BinomialPipeline, Shape::new(members, 16));
        let undisturbed = completion(&sends, |_| 0);
        let steps = u64::from(doublings(members) + 16 - 1);
        assert_eq!(undisturbed, steps * 1_000, "of {members}");
        for late in (0..sends.len()).step_by(1 + sends.len() / 50) {
            for delay in [500, 4_000] {
                let end = completion(&sends, |index| if index == late { delay } else { 0 });
                assert!(end <= undisturbed + delay, "{:?} of {members}", sends[late]);
            }
        }
    }
}

/// Claim of section 4.5, item 2: with one link that is s times slower, l steps take at most l - 1 + s.
#[test]
fn a_slow_link_delays_only_its_share_of_the_steps() {
    for members in [4, 8, 16, 32, 64] {
        let (blocks, l) = (64, doublings(members));
        let sends = sends(Schedule::BinomialPipeline, Shape::new(members, blocks));
        for slowness in [2, 4, 10] {
            for (a, b) in [
                (0, 1),
                (1, 3),
                (members - 2, members - 1),
                (1, members / 2 + 1),
            ] {
                let is_slow = |s: &Send| (s.from, s.to) == (a, b) || (s.from, s.to) == (b, a);
                let late = |index: usize| match is_slow(&sends[index]) {
                    true => (slowness - 1) * 1_000,
                    false => 0,
                };
                let rounds = u64::from((l + blocks - 1).div_ceil(l));
                let bound = rounds * (u64::from(l) - 1 + slowness) * 1_000;
                let end = completion(&sends, late);
                assert!(end <= bound, "{end} > {bound}: {a}-{b} of {members}");
            }
        }
    }
}

#[test]
fn binomial_tree_matches_figure_3() {
    let sends = sends(Schedule::BinomialTree, Shape::new(8, 1));
    let seen: Vec<_> = sends.iter().map(|s| (s.step, s.from, s.to)).collect();
    assert_eq!(
        seen,
        [
            (0, 0, 1),
            (1, 0, 2),
            (1, 1, 3),
            (2, 0, 4),
            (2, 1, 5),
            (2, 2, 6),
            (2, 3, 7)
        ]
    );
}

#[test]
fn hybrid_brings_each_block_into_each_rack_once() {
    for members in sizes() {
        let racks = (0..members).map(|rank| rank % 5).collect();
        let shape = Shape {
            members,
            slices: 7,
            racks: &racks,
        };
        let mut entered = BTreeSet::new();
        for send in sends(Schedule::Hybrid, shape) {
            let [from, to] = [send.from, send.to].map(|rank| rank % 5);
            assert!(from == to || entered.insert((to, send.block)), "{send:?}");
        }
    }
}

#[test]
fn edges_do_not_depend_on_the_size() {
    for members in sizes() {
        let racks = racks(members);
        for schedule in Algorithm::RDMC {
            let edges = |slices| -> BTreeSet<(u32, u32)> {
                let shape = Shape {
                    members,
                    slices,
                    racks: &racks,
                };
                let sends = sends(schedule, shape);
                sends.iter().map(|send| (send.from, send.to)).collect()
            };
            let all = edges(schedule.blocks_on_all_edges(members));
            for slices in [1, 2, 5, 100] {
                assert!(edges(slices).is_subset(&all), "{schedule:?} of {members}");
            }
        }
    }
}
