//! Plans: what one member of a collective does.

use super::spec::EdgeId;

/// The slices that pass along one edge, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    pub edge: EdgeId,
    pub slices: Vec<u32>,
    /// Flows with a smaller number send first; equal ones take turns.
    pub priority: u8,
}

impl Flow {
    /// All slices in order.
    pub(super) fn all(edge: EdgeId, slices: u32, priority: u8) -> Flow {
        Flow {
            edge,
            slices: (0..slices).collect(),
            priority,
        }
    }
}

/// What one member does: it takes slices from `incoming` flows, and sends a slice on an `outgoing` flow as soon as it
/// has it and those before it in the flow are sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub incoming: Vec<Flow>,
    pub outgoing: Vec<Flow>,
}

#[cfg(test)]
pub(super) mod testing {
    use std::collections::{BTreeMap, BTreeSet};

    use crate::collective::Algorithm;

    /// Every edge has the same slices at both ends, and everybody ends up with everything, each slice once.
    pub(in crate::collective) fn delivers_everything_once(algorithm: Algorithm) {
        for members in 2..40 {
            for slices in [1, 2, 5] {
                let plans: Vec<_> = (0..members)
                    .map(|r| algorithm.plan(members, slices, r))
                    .collect();
                let mut sent = BTreeMap::new();
                for plan in &plans {
                    for flow in &plan.outgoing {
                        assert!(
                            sent.insert(flow.edge, flow.slices.clone()).is_none(),
                            "{:?}",
                            flow.edge
                        );
                    }
                }
                let mut edges = BTreeSet::new();
                for (rank, plan) in plans.iter().enumerate().skip(1) {
                    let mut got: Vec<u32> = Vec::new();
                    for flow in &plan.incoming {
                        assert_eq!(sent.get(&flow.edge), Some(&flow.slices), "{:?}", flow.edge);
                        edges.insert(flow.edge);
                        got.extend(&flow.slices);
                    }
                    got.sort_unstable();
                    assert_eq!(
                        got,
                        (0..slices).collect::<Vec<_>>(),
                        "rank {rank} of {members}"
                    );
                }
                assert!(plans[0].incoming.is_empty());
                assert_eq!(
                    edges,
                    sent.keys().copied().collect(),
                    "an edge without a receiver"
                );
            }
        }
    }
}
