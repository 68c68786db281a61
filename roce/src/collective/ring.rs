//! Ring broadcasts of High-Performance Linpack (HPL), which forward data along increasing ranks.
//!
//! HPL's names: `1ring` ("increasing-ring") is 0 -> 1 -> 2 -> ...; `2ring` has two such rings, each over half of the
//! members, to which the root sends. In the modified `1ringM` and `2ringM`, rank 1 gets the data first and forwards
//! nothing, so that it can soon factor the next panel. HPL forwards whole messages. With several slices the rings are
//! pipelines.

use serde::{Deserialize, Serialize};

use super::plan::{Draft, Plan, Shape};

/// A ring broadcast of HPL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Ring {
    /// `1ring`: one ring through all members.
    One,
    /// `1ringM`: rank 1 gets the data first, then one ring passes through the other members.
    OneModified,
    /// `2ring`: two rings, each through half of the members.
    Two,
    /// `2ringM`: rank 1 gets the data first, then two rings pass through the other members.
    TwoModified,
}

impl Ring {
    /// The first rank of each ring, in the order in which the root sends to them. A ring ends before the first rank of
    /// the next one.
    fn heads(self, members: u32) -> Vec<u32> {
        let heads = match self {
            Ring::One => vec![1],
            Ring::OneModified => vec![1, 2],
            Ring::Two => vec![1, members / 2],
            // Rank 1 forwards nothing; the two rings share the ranks from 2 on.
            Ring::TwoModified => vec![1, 2, 2 + members.saturating_sub(2).div_ceil(2)],
        };
        let mut distinct: Vec<u32> = Vec::new();
        for head in heads {
            if head < members && head > distinct.last().copied().unwrap_or(0) {
                distinct.push(head);
            }
        }
        distinct
    }
}

/// Plan of member `rank`: receives all slices from its predecessor in the ring and sends them to its successor.
pub(super) fn plan(shape: Shape<'_>, rank: u32, ring: Ring) -> Plan {
    let mut draft = Draft::new(rank);
    let heads = ring.heads(shape.members);
    if rank == 0 {
        for (turn, head) in heads.into_iter().enumerate() {
            // The root sends to one ring after the other, as in HPL.
            draft.send(head, turn as u8, 0..shape.slices);
        }
        return draft.finish();
    }
    let is_head = |rank: u32| heads.contains(&rank);
    let from = if is_head(rank) { 0 } else { rank - 1 };
    draft.receive(from, 0..shape.slices);
    if rank + 1 < shape.members && !is_head(rank + 1) {
        draft.send(rank + 1, 0, 0..shape.slices);
    }
    draft.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::EdgeId;

    fn edges(members: u32, ring: Ring) -> Vec<(u32, u32)> {
        let plans = (0..members).map(|rank| plan(Shape::new(members, 1), rank, ring));
        let flows = plans.flat_map(|plan| plan.outgoing);
        let edges = flows.map(|flow| match flow.edge {
            EdgeId::Pair { from, to } => (from, to),
            EdgeId::Group { .. } | EdgeId::Datagrams { .. } => panic!("a ring has no group"),
        });
        edges.collect()
    }

    #[test]
    fn rings_match_hpl() {
        assert_eq!(edges(4, Ring::One), [(0, 1), (1, 2), (2, 3)]);
        assert_eq!(
            edges(5, Ring::OneModified),
            [(0, 1), (0, 2), (2, 3), (3, 4)]
        );
        assert_eq!(
            edges(8, Ring::Two),
            [(0, 1), (0, 4), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7)]
        );
        assert_eq!(
            edges(8, Ring::TwoModified),
            [(0, 1), (0, 2), (0, 5), (2, 3), (3, 4), (5, 6), (6, 7)]
        );
        assert_eq!(edges(2, Ring::TwoModified), [(0, 1)]);
        assert_eq!(edges(3, Ring::Two), [(0, 1), (1, 2)]);
    }
}
