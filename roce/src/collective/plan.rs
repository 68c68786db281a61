//! Plans: which slices one member of a collective receives and sends, on which edges, in which order.
//!
//! Terms: the data is cut into *slices*, each of which is one message. An *edge* is a connection between members, or a group.
//! A *flow* is the slices that cross one edge. The *root* has rank 0 and the data at the start.

use std::collections::BTreeMap;

use super::edge::EdgeId;
use super::racks::Racks;

/// Inputs of an algorithm's plan: the number of members, the number of slices (messages), and the racks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape<'a> {
    /// Number of members, at least 1.
    pub members: u32,
    /// Number of slices into which the data is cut, at least 1.
    pub slices: u32,
    /// Rack of each rank, for algorithms that need it: [`Algorithm::needs_racks`](super::Algorithm::needs_racks).
    pub racks: &'a Racks,
}

impl Shape<'_> {
    /// Creates the inputs of a plan, without racks.
    pub const fn new(members: u32, slices: u32) -> Shape<'static> {
        Shape {
            members,
            slices,
            racks: Racks::NONE,
        }
    }
}

/// A flow: the slices (messages) that cross one edge, in the order in which they are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The edge that the slices cross.
    pub edge: EdgeId,
    /// Numbers of the slices, in the order in which they are sent on this edge.
    pub slices: Vec<u32>,
    /// For each slice: its step in a schedule, ascending. Empty for a flow that does not wait for others.
    ///
    /// All flows with steps and the same priority form one schedule. It sends one slice at a time, in the order of
    /// steps.
    pub steps: Vec<u32>,
    /// Priority of the flow at the sender. Flows with a smaller number are sent first; those with equal numbers
    /// alternate.
    pub priority: u8,
}

impl Plan {
    /// Creates a plan with all slices in order on one edge, from rank 0 to all other ranks.
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
    /// Creates a flow of all slices in order.
    pub(super) fn all(edge: EdgeId, slices: u32, priority: u8) -> Flow {
        Flow {
            edge,
            slices: (0..slices).collect(),
            steps: Vec::new(),
            priority,
        }
    }

    /// Removes the slices (messages) with numbers below `first`.
    pub(super) fn skip_to(&mut self, first: u32) {
        let mut kept = self.slices.iter().map(|slice| *slice >= first);
        self.steps
            .retain(|_| kept.next().expect("a step for each slice"));
        self.slices.retain(|slice| *slice >= first);
    }
}

/// The plan of one member. It receives the slices of the `incoming` flows. It sends a slice of an `outgoing` flow as
/// soon as it holds that slice and has sent the flow's earlier slices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Flows that this member receives, one per incoming edge.
    pub incoming: Vec<Flow>,
    /// Flows that this member sends, one per outgoing edge.
    pub outgoing: Vec<Flow>,
    /// Whether the member holds all data before it sends any (store-and-forward).
    pub store_and_forward: bool,
    /// Whether messages are signals without payload. A signal of a step is sent when all incoming signals of earlier
    /// steps have arrived.
    pub empty_payloads: bool,
}

/// Builder of one member's plan: collects, in order, the sends to and the receives from each other member.
#[derive(Default)]
pub(super) struct Draft {
    rank: u32,
    plan: Plan,
    /// Index in the plan's incoming flows of the flow from each member.
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

    /// Adds slices that are sent to member `to`, in order. The priority of the first call for a member applies.
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

    /// Adds slices that are received from member `from`, in order.
    pub(super) fn receive(&mut self, from: u32, slices: impl IntoIterator<Item = u32>) {
        let to = self.rank;
        let flow = flow(&mut self.plan.incoming, &mut self.from, (from, to), from, 0);
        flow.slices.extend(slices);
    }

    /// Adds a slice that is sent to member `to` in step `step` of the schedule with this priority.
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

    /// Adds a slice that is received from member `from` in step `step`.
    pub(super) fn receive_at(&mut self, step: u32, from: u32, slice: u32) {
        let to = self.rank;
        let flow = flow(&mut self.plan.incoming, &mut self.from, (from, to), from, 0);
        flow.slices.push(slice);
        flow.steps.push(step);
    }

    /// Returns the plan, without empty flows.
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
    use crate::collective::execution::testing::execute_all;
    use crate::collective::{Algorithm, Execution};

    /// The numbers of members with which every algorithm is tested.
    pub(in crate::collective) fn sizes() -> impl Iterator<Item = u32> {
        (2..=64).chain([100, 512])
    }

    /// Racks of two members each; the last rack has one member if the number of members is odd.
    pub(in crate::collective) fn racks(members: u32) -> Racks {
        (0..members).map(|rank| rank / 2).collect()
    }

    /// Asserts that both ends of every edge list the same slices, and that every member receives each slice once.
    /// Executes the plans, so that a deadlock fails the test.
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
                let (all, sent) = execute_all(plans, slices);
                assert!(all.iter().all(Execution::holds_all), "{algorithm}");
                if algorithm.is_overlay() {
                    assert_eq!(sent, ((members - 1) * slices) as usize, "{algorithm}");
                }
            }
        }
    }
}
