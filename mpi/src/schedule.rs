//! Execution of one member's plan for a collective: which receives to post, and what to send next. The module itself
//! sends no messages.
//!
//! A plan consists of flows. Each flow lists the slices, pieces of the data, that pass one edge between two members.

use alfirk_roce::collective::{EdgeId, Plan};

/// A plan that is being executed.
#[derive(Debug)]
pub(crate) struct Schedule {
    plan: Plan,
    held: Vec<bool>,
    missing: u32,
    /// Number of slices received so far, by incoming flow.
    arrived: Vec<usize>,
    sent: Vec<usize>,
    /// Indexes of the outgoing flows, the one with the highest priority first.
    order: Vec<usize>,
}

impl Schedule {
    /// Begins to execute a plan. `has_all`: whether the member has all slices from the start.
    pub(crate) fn new(plan: Plan, slices: u32, has_all: bool) -> Schedule {
        let mut order: Vec<usize> = (0..plan.outgoing.len()).collect();
        order.sort_by_key(|flow| plan.outgoing[*flow].priority);
        Schedule {
            held: vec![has_all; slices as usize],
            missing: if has_all { 0 } else { slices },
            arrived: vec![0; plan.incoming.len()],
            sent: vec![0; plan.outgoing.len()],
            order,
            plan,
        }
    }

    /// Returns all receives of the plan as index of the flow, rank of the sender, and slice; ordered within each flow.
    pub(crate) fn receives(&self) -> Vec<(usize, u32, u32)> {
        let flows = self.plan.incoming.iter().enumerate();
        let all = flows.flat_map(|(index, flow)| {
            let (from, _) = ends(flow.edge);
            flow.slices.iter().map(move |slice| (index, from, *slice))
        });
        all.collect()
    }

    /// Records that a slice of a flow has been received.
    pub(crate) fn receive(&mut self, flow: usize, slice: u32) {
        self.arrived[flow] += 1;
        if !std::mem::replace(&mut self.held[slice as usize], true) {
            self.missing -= 1;
        }
    }

    /// Returns the rank and the slice of the next send that is possible, and counts it as done; `None` if no send is
    /// possible.
    pub(crate) fn next_send(&mut self) -> Option<(u32, u32)> {
        let ready = self
            .order
            .iter()
            .copied()
            .find(|flow| self.may_send(*flow))?;
        let flow = &self.plan.outgoing[ready];
        let slice = flow.slices[self.sent[ready]];
        self.sent[ready] += 1;
        Some((ends(flow.edge).1, slice))
    }

    /// Whether the next slice of this outgoing flow may be sent.
    fn may_send(&self, index: usize) -> bool {
        let (flow, at) = (&self.plan.outgoing[index], self.sent[index]);
        let Some(&slice) = flow.slices.get(at) else {
            return false;
        };
        let step = flow.steps.get(at);
        // Sends of one schedule do not overtake each other.
        let waits = self
            .plan
            .outgoing
            .iter()
            .zip(&self.sent)
            .any(|(other, sent)| {
                let next = other.steps.get(*sent);
                flow.priority == other.priority
                    && step.zip(next).is_some_and(|(own, next)| next < own)
            });
        if waits {
            return false;
        }
        if self.plan.empty_payloads {
            let mut incoming = self.plan.incoming.iter().zip(&self.arrived);
            return incoming.all(|(other, arrived)| {
                let next = other.steps.get(*arrived);
                step.zip(next).is_none_or(|(own, next)| next >= own)
            });
        }
        self.held[slice as usize] && !(self.plan.store_and_forward && self.missing > 0)
    }
}

/// Returns the sending and the receiving rank of an edge, which must be an edge between two members.
fn ends(edge: EdgeId) -> (u32, u32) {
    match edge {
        EdgeId::Pair { from, to } => (from, to),
        EdgeId::Group { root } | EdgeId::Datagrams { root } => (root, root),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use alfirk_roce::collective::{Algorithm, Collective, Shape};

    use super::*;

    /// Executes the plans of all members; messages between two members arrive in order. Returns the number of sends,
    /// and the number of slices that each member lacks.
    fn run(
        algorithm: Algorithm,
        collective: Collective,
        members: u32,
        slices: u32,
    ) -> (usize, Vec<u32>) {
        let racks = (0..members).map(|rank| rank / 2).collect();
        let shape = Shape {
            members,
            slices,
            racks: &racks,
        };
        let mut all: Vec<Schedule> = (0..members)
            .map(|rank| {
                Schedule::new(
                    algorithm.plan_for(collective, shape, rank),
                    slices,
                    rank == 0,
                )
            })
            .collect();
        let mut expected: BTreeMap<(u32, u32), VecDeque<(usize, u32)>> = BTreeMap::new();
        for (rank, schedule) in all.iter().enumerate() {
            for (flow, from, slice) in schedule.receives() {
                let pair = expected.entry((from, rank as u32)).or_default();
                pair.push_back((flow, slice));
            }
        }
        let mut sent = 0;
        loop {
            let mut moved = false;
            for from in 0..members {
                while let Some((to, slice)) = all[from as usize].next_send() {
                    let next = expected.get_mut(&(from, to)).and_then(VecDeque::pop_front);
                    let (flow, awaited) = next.expect("every send has a receive");
                    assert_eq!(slice, awaited, "{algorithm}: {from} to {to}");
                    all[to as usize].receive(flow, slice);
                    (moved, sent) = (true, sent + 1);
                }
            }
            if !moved {
                assert!(
                    expected.values().all(VecDeque::is_empty),
                    "{algorithm}: deadlock"
                );
                return (sent, all.iter().map(|schedule| schedule.missing).collect());
            }
        }
    }

    #[test]
    fn every_overlay_brings_each_member_each_slice_once() {
        let overlays = Collective::Broadcast
            .algorithms()
            .filter(|a| a.is_overlay());
        for algorithm in overlays {
            for members in (2..=17).chain([40]) {
                for slices in [1, 2, 7, 32] {
                    let (sent, missing) = run(algorithm, Collective::Broadcast, members, slices);
                    assert_eq!(sent, ((members - 1) * slices) as usize, "{algorithm}");
                    assert!(missing.iter().all(|n| *n == 0), "{algorithm}");
                }
            }
        }
    }

    #[test]
    fn barriers_complete() {
        for algorithm in [Algorithm::Binomial, Algorithm::Dissemination] {
            for members in 2..=33 {
                let signs = algorithm.slices_for(Collective::Barrier, 0, members);
                let (sent, _) = run(algorithm, Collective::Barrier, members, signs);
                assert!(sent >= 2 * (members as usize - 1));
            }
        }
    }
}
