//! Plans: what one member of a collective does.

use std::collections::BTreeMap;

use super::edge::EdgeId;
use super::racks::Racks;

/// What a plan is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape<'a> {
    pub members: u32,
    pub slices: u32,
    /// The rack of each rank, for algorithms that want to know: [`Algorithm::needs_racks`](super::Algorithm::needs_racks).
    pub racks: &'a Racks,
}

impl Shape<'_> {
    /// One without racks.
    pub const fn new(members: u32, slices: u32) -> Shape<'static> {
        Shape {
            members,
            slices,
            racks: Racks::NONE,
        }
    }
}

/// The slices that pass along one edge, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    pub edge: EdgeId,
    pub slices: Vec<u32>,
    /// In which step of a schedule each slice passes, ascending; empty for a flow that waits for no other.
    ///
    /// The flows with steps of one priority are one schedule: what they carry goes out one after the other, in the order of the steps.
    pub steps: Vec<u32>,
    /// Flows with a smaller number send first; equal ones take turns.
    pub priority: u8,
}

impl Plan {
    /// All slices in order along one edge that leads from rank 0 to all others.
    pub(super) fn of_edge(edge: EdgeId, shape: Shape<'_>, rank: u32) -> Plan {
        let flow = Flow::all(edge, shape.slices, 0);
        let (incoming, outgoing) = match rank {
            0 => (Vec::new(), vec![flow]),
            _ => (vec![flow], Vec::new()),
        };
        Plan {
            incoming,
            outgoing,
            ..Plan::default()
        }
    }
}

impl Flow {
    /// All slices in order.
    pub(super) fn all(edge: EdgeId, slices: u32, priority: u8) -> Flow {
        Flow {
            edge,
            slices: (0..slices).collect(),
            steps: Vec::new(),
            priority,
        }
    }

    /// Leaves out the slices before `first`.
    pub(super) fn skip_to(&mut self, first: u32) {
        let mut kept = self.slices.iter().map(|slice| *slice >= first);
        self.steps
            .retain(|_| kept.next().expect("a step for each slice"));
        self.slices.retain(|slice| *slice >= first);
    }
}

/// What one member does: it takes slices from `incoming` flows, and sends a slice on an `outgoing` flow as soon as it
/// has it and those before it in the flow are sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub incoming: Vec<Flow>,
    pub outgoing: Vec<Flow>,
    /// Whether nothing is passed on before everything is here.
    pub whole: bool,
    /// Whether slices are but signs: one of a step goes out when all that come in with earlier steps are here.
    pub signs: bool,
}

/// A plan in the making: what goes to and comes from each other member, in the order in which it does.
#[derive(Default)]
pub(super) struct Draft {
    rank: u32,
    plan: Plan,
    /// Where each peer's flow is.
    from: BTreeMap<u32, usize>,
    to: BTreeMap<u32, usize>,
}

impl Draft {
    pub(super) fn new(rank: u32) -> Draft {
        Draft {
            rank,
            ..Draft::default()
        }
    }

    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    /// Slices go to a member, one by one as they come. A link has the priority of what it was first used for.
    pub(super) fn send(&mut self, to: u32, priority: u8, slices: impl IntoIterator<Item = u32>) {
        let from = self.rank;
        let flow = flow(
            &mut self.plan.outgoing,
            &mut self.to,
            (from, to),
            to,
            priority,
        );
        flow.slices.extend(slices);
    }

    /// Slices come from a member.
    pub(super) fn receive(&mut self, from: u32, slices: impl IntoIterator<Item = u32>) {
        let to = self.rank;
        let flow = flow(&mut self.plan.incoming, &mut self.from, (from, to), from, 0);
        flow.slices.extend(slices);
    }

    /// A slice goes to a member in a step of the schedule with this priority.
    pub(super) fn send_at(&mut self, step: u32, to: u32, priority: u8, slice: u32) {
        let from = self.rank;
        let flow = flow(
            &mut self.plan.outgoing,
            &mut self.to,
            (from, to),
            to,
            priority,
        );
        flow.slices.push(slice);
        flow.steps.push(step);
    }

    /// A slice comes from a member in a step.
    pub(super) fn receive_at(&mut self, step: u32, from: u32, slice: u32) {
        let to = self.rank;
        let flow = flow(&mut self.plan.incoming, &mut self.from, (from, to), from, 0);
        flow.slices.push(slice);
        flow.steps.push(step);
    }

    /// The plan, without what carries nothing.
    pub(super) fn finish(mut self) -> Plan {
        self.plan.incoming.retain(|flow| !flow.slices.is_empty());
        self.plan.outgoing.retain(|flow| !flow.slices.is_empty());
        self.plan
    }
}

fn flow<'a>(
    flows: &'a mut Vec<Flow>,
    index: &mut BTreeMap<u32, usize>,
    (from, to): (u32, u32),
    peer: u32,
    priority: u8,
) -> &'a mut Flow {
    let at = *index.entry(peer).or_insert_with(|| {
        let edge = EdgeId::Pair { from, to };
        flows.push(Flow {
            priority,
            ..Flow::all(edge, 0, 0)
        });
        flows.len() - 1
    });
    &mut flows[at]
}

#[cfg(test)]
pub(super) mod testing {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::collective::Algorithm;

    /// Group sizes that every algorithm is tried with.
    pub(in crate::collective) fn sizes() -> impl Iterator<Item = u32> {
        (2..=64).chain([100, 512])
    }

    /// Hosts of a small fat-tree: racks of two, the last one alone when their number is odd.
    pub(in crate::collective) fn racks(members: u32) -> Racks {
        (0..members).map(|rank| rank / 2).collect()
    }

    /// Every edge has the same slices at both ends, and everybody ends up with everything, each slice once. What is passed on is
    /// here sooner or later, so nobody waits for ever.
    pub(in crate::collective) fn delivers_everything_once(algorithm: Algorithm) {
        for members in sizes() {
            for slices in [1, 2, 5, 33] {
                let racks = racks(members);
                let shape = Shape {
                    members,
                    slices,
                    racks: &racks,
                };
                let plans: Vec<_> = (0..members).map(|r| algorithm.plan(shape, r)).collect();
                let mut sent = BTreeMap::new();
                for plan in &plans {
                    for flow in &plan.outgoing {
                        assert!(flow.steps.is_empty() || flow.steps.len() == flow.slices.len());
                        let carried = (flow.slices.clone(), flow.steps.clone());
                        assert!(sent.insert(flow.edge, carried).is_none(), "{:?}", flow.edge);
                    }
                }
                let mut edges = BTreeSet::new();
                for (rank, plan) in plans.iter().enumerate().skip(1) {
                    let mut got: Vec<u32> = Vec::new();
                    for flow in &plan.incoming {
                        let carried = (flow.slices.clone(), flow.steps.clone());
                        assert_eq!(sent.get(&flow.edge), Some(&carried), "{:?}", flow.edge);
                        edges.insert(flow.edge);
                        got.extend(&flow.slices);
                    }
                    got.sort_unstable();
                    assert_eq!(
                        got,
                        (0..slices).collect::<Vec<_>>(),
                        "{algorithm}: rank {rank} of {members}"
                    );
                }
                assert!(plans[0].incoming.is_empty());
                assert_eq!(
                    edges,
                    sent.keys().copied().collect(),
                    "an edge without a receiver"
                );
                assert_eq!(Run::new(&plans, slices).last(), slices as usize);
            }
        }
    }

    /// Plans that run with all members in step, and messages that take no time.
    pub(in crate::collective) struct Run {
        held: Vec<Vec<bool>>,
    }

    impl Run {
        pub(in crate::collective) fn new(plans: &[Plan], slices: u32) -> Run {
            let mut held = vec![vec![false; slices as usize]; plans.len()];
            held[0].fill(true);
            let receivers = |edge: EdgeId| match edge {
                EdgeId::Pair { to, .. } => to as usize..to as usize + 1,
                EdgeId::Group { .. } | EdgeId::Datagrams { .. } => 1..plans.len(),
            };
            let mut sent: Vec<Vec<usize>> =
                plans.iter().map(|p| vec![0; p.outgoing.len()]).collect();
            loop {
                let mut moved = false;
                for (rank, plan) in plans.iter().enumerate() {
                    for (at, flow) in plan.outgoing.iter().enumerate() {
                        while let Some(&slice) = flow.slices.get(sent[rank][at]) {
                            let step = flow.steps.get(sent[rank][at]);
                            // Within a schedule nothing overtakes.
                            let waits = plan.outgoing.iter().zip(&sent[rank]).any(|(other, n)| {
                                flow.priority == other.priority
                                    && step.zip(other.steps.get(*n)).is_some_and(|(a, b)| b < a)
                            });
                            let here = held[rank][slice as usize];
                            if waits || !here || (plan.whole && held[rank].contains(&false)) {
                                break;
                            }
                            sent[rank][at] += 1;
                            moved = true;
                            for to in receivers(flow.edge) {
                                held[to][slice as usize] = true;
                            }
                        }
                    }
                }
                if !moved {
                    return Run { held };
                }
            }
        }

        /// How many slices the member has that has the fewest.
        pub(in crate::collective) fn last(&self) -> usize {
            let counts = self
                .held
                .iter()
                .map(|held| held.iter().filter(|h| **h).count());
            counts.min().unwrap_or(0)
        }
    }
}
