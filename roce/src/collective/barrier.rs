//! Barriers: members exchange signals (empty messages). None leaves the barrier before all have entered it.

use super::binomial;
use super::edge::EdgeId;
use super::plan::{Draft, Flow, Plan};

/// Number of different signals (empty messages) in a barrier of `members` members: one per round, and one for the
/// release. They take the place of the slices in other collectives.
pub(super) const fn signal_count(members: u32) -> u32 {
    rounds(members) + 1
}

const fn rounds(members: u32) -> u32 {
    members.next_power_of_two().ilog2()
}

/// Dissemination barrier: in round t each member signals the member 2^t ranks ahead, after it has received the signal
/// of the previous round. (D. Hensgen, R. Finkel, U. Manber, "Two Algorithms for Barrier Synchronization", 1988.)
pub(super) fn dissemination(members: u32, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    for round in 0..rounds(members) {
        let distance = 1 << round;
        draft.receive_at(round, (rank + members - distance) % members, round);
        draft.send_at(round, (rank + distance) % members, 0, round);
    }
    signal_plan(draft)
}

/// Tree barrier: signals are gathered up a binomial tree to the root, whose signal is then broadcast down the tree.
pub(super) fn binomial(members: u32, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    let rounds = rounds(members);
    // A member signals its parent after all its children have signalled it. The children have smaller distances.
    let (up, down) = (|bit: u32| bit, |bit: u32| 2 * rounds - bit);
    let children: Vec<u32> = binomial::children(members, rank).collect();
    for &child in children.iter().rev() {
        let bit = child.trailing_zeros();
        draft.receive_at(up(bit), child, bit);
    }
    if rank > 0 {
        let (parent, bit) = (binomial::parent(rank), rank.trailing_zeros());
        draft.send_at(up(bit), parent, 0, bit);
        draft.receive_at(down(bit), parent, rounds);
    }
    for &child in &children {
        draft.send_at(down(child.trailing_zeros()), child, 0, rounds);
    }
    signal_plan(draft)
}

/// Barrier over a multicast group. Members post a receive only when they enter the barrier. Switches acknowledge a
/// packet to the root when all members have acknowledged it. So the acknowledgement of the root's first signal proves
/// that all members have entered. The root's second signal releases them.
pub(super) fn alfirk(rank: u32) -> Plan {
    let flow = Flow::all(EdgeId::Group { root: 0 }, 2, 0);
    let (incoming, outgoing) = match rank {
        0 => (Vec::new(), vec![flow]),
        _ => (vec![flow], Vec::new()),
    };
    Plan {
        incoming,
        outgoing,
        empty_payloads: true,
        ..Plan::default()
    }
}

fn signal_plan(draft: Draft) -> Plan {
    Plan {
        empty_payloads: true,
        ..draft.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::plan::testing::sizes;

    /// For each member: which members have provably entered the barrier when it has received all its signals.
    fn proven_entries(plans: &[Plan]) -> Vec<Vec<bool>> {
        let n = plans.len();
        let mut entries: Vec<Vec<bool>> = (0..n)
            .map(|rank| (0..n).map(|other| rank == other).collect())
            .collect();
        let steps = plans
            .iter()
            .flat_map(|p| p.outgoing.iter().flat_map(|f| f.steps.clone()));
        let steps: std::collections::BTreeSet<u32> = steps.collect();
        for step in steps {
            let before = entries.clone();
            for (rank, plan) in plans.iter().enumerate() {
                for flow in plan.outgoing.iter().filter(|f| f.steps.contains(&step)) {
                    let EdgeId::Pair { to, .. } = flow.edge else {
                        panic!("no group");
                    };
                    for (other, is_proven) in before[rank].iter().enumerate() {
                        entries[to as usize][other] |= is_proven;
                    }
                }
            }
        }
        entries
    }

    #[test]
    fn barriers_complete_only_after_all_have_started() {
        for members in sizes() {
            for barrier in [dissemination, binomial] {
                let plans: Vec<Plan> = (0..members).map(|rank| barrier(members, rank)).collect();
                let entries = proven_entries(&plans);
                assert!(
                    entries.iter().flatten().all(|is_proven| *is_proven),
                    "of {members}"
                );
            }
        }
    }

    #[test]
    fn signals_wait_for_signals_of_earlier_steps() {
        // A member signals its parent after its children have signalled it, and its children after its parent has.
        for members in sizes() {
            for rank in 1..members {
                let plan = binomial(members, rank);
                let own = rank.trailing_zeros();
                for flow in &plan.outgoing {
                    let waits = plan.incoming.iter().filter(|f| f.steps[0] < flow.steps[0]);
                    let EdgeId::Pair { to, .. } = flow.edge else {
                        panic!("no group");
                    };
                    let expected = match to < rank {
                        true => plan.incoming.len() - 1,
                        false => plan.incoming.len(),
                    };
                    assert_eq!(waits.count(), expected, "{rank} ({own}) to {to}");
                }
            }
        }
    }
}
