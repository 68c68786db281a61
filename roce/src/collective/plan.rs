//! Plans: the sends and receives of one member of a collective.

use std::collections::BTreeMap;

use super::edge::EdgeId;
use super::racks::Racks;

/// The inputs of a plan: group size, number of slices, and racks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape<'a> {
    pub members: u32,
    pub slices: u32,
    /// The rack of each rank, for algorithms that need it: [`Algorithm::needs_racks`](super::Algorithm::needs_racks).
    pub racks: &'a Racks,
}

impl Shape<'_> {
    /// A shape without racks.
    pub const fn new(members: u32, slices: u32) -> Shape<'static> {
        Shape {
            members,
            slices,
            racks: Racks::NONE,
        }
    }
}

/// The slices that cross one edge, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    pub edge: EdgeId,
    pub slices: Vec<u32>,
    /// By slice: its step in a schedule, ascending; empty for a flow that waits for no other.
    ///
    /// All flows with steps and the same priority form one schedule, which sends one slice at a time in the order of steps.
    pub steps: Vec<u32>,
    /// Flows with a smaller number send first; equal ones alternate.
    pub priority: u8,
}

impl Plan {
    /// A plan with all slices in order on one edge from rank 0 to all others.
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
    /// A flow of all slices in order.
    pub(super) fn all(edge: EdgeId, slices: u32, priority: u8) -> Flow {
        Flow {
            edge,
            slices: (0..slices).collect(),
            steps: Vec::new(),
            priority,
        }
    }

    /// Removes the slices before `first`.
    pub(super) fn skip_to(&mut self, first: u32) {
        let mut kept = self.slices.iter().map(|slice| *slice >= first);
        self.steps
            .retain(|_| kept.next().expect("a step for each slice"));
        self.slices.retain(|slice| *slice >= first);
    }
}

/// The plan of one member: it receives the slices of `incoming` flows. It sends a slice of an `outgoing` flow as soon as it holds it
/// and has sent the earlier slices of the flow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub incoming: Vec<Flow>,
    pub outgoing: Vec<Flow>,
    /// Whether nothing is sent before all data is held (store-and-forward).
    pub store_and_forward: bool,
    /// Whether messages carry no payload and only signal. A signal of a step is sent when all incoming signals of earlier steps are
    /// here.
    pub empty_payloads: bool,
}

/// Builds a plan: collects the sends to and receives from each other member in order.
#[derive(Default)]
pub(super) struct Draft {
    rank: u32,
    plan: Plan,
    /// By peer: index of its flow.
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

    /// Adds slices that are sent to a member in order. A later priority for the same member is ignored.
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

    /// Adds slices that are received from a member.
    pub(super) fn receive(&mut self, from: u32, slices: impl IntoIterator<Item = u32>) {
        let to = self.rank;
        let flow = flow(&mut self.plan.incoming, &mut self.from, (from, to), from, 0);
        flow.slices.extend(slices);
    }

    /// Adds a slice that is sent to a member in a step of the schedule with this priority.
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

    /// Adds a slice that is received from a member in a step.
    pub(super) fn receive_at(&mut self, step: u32, from: u32, slice: u32) {
        let to = self.rank;
        let flow = flow(&mut self.plan.incoming, &mut self.from, (from, to), from, 0);
        flow.slices.push(slice);
        flow.steps.push(step);
    }

    /// Returns the plan without empty flows.
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

    /// The group sizes with which every algorithm is tested.
    pub(in crate::collective) fn sizes() -> impl Iterator<Item = u32> {
        (2..=64).chain([100, 512])
    }

    /// Racks of a small fat-tree: two members each, the last one alone if their number is odd.
    pub(in crate::collective) fn racks(members: u32) -> Racks {
        (0..members).map(|rank| rank / 2).collect()
    }

    /// Asserts that both ends of every edge list the same slices, and that every member ends with all slices, each received once. Runs
    /// the plans to the end, so that a deadlock fails the test.
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

    /// Executes plans with all members in lockstep and messages of no duration.
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
                            // Sends of one schedule do not overtake each other.
                            let waits = plan.outgoing.iter().zip(&sent[rank]).any(|(other, n)| {
                                flow.priority == other.priority
                                    && step.zip(other.steps.get(*n)).is_some_and(|(a, b)| b < a)
                            });
                            let here = held[rank][slice as usize];
                            if waits
                                || !here
                                || (plan.store_and_forward && held[rank].contains(&false))
                            {
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

        /// The smallest number of slices that a member holds.
        pub(in crate::collective) fn last(&self) -> usize {
            let counts = self
                .held
                .iter()
                .map(|held| held.iter().filter(|h| **h).count());
            counts.min().unwrap_or(0)
        }
    }
}
