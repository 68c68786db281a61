//! The binomial tree of MPI libraries: a member's parent is its rank without the lowest set bit, and its children are its
//! rank plus each smaller power of two, the largest subtree first.
//!
//! A member sends to its children one after the other (strict priority between the flows), as blocking sends would.

use super::plan::{Flow, Plan};
use super::spec::EdgeId;

/// The plan of one member.
pub(super) fn plan(members: u32, slices: u32, rank: u32) -> Plan {
    let span = match rank {
        0 => members.next_power_of_two(),
        _ => rank & rank.wrapping_neg(),
    };
    let children = (0..span.trailing_zeros())
        .rev()
        .map(|bit| rank + (1 << bit))
        .filter(|child| *child < members);
    Plan {
        incoming: (rank > 0)
            .then(|| {
                let from = rank & (rank - 1);
                Flow::all(EdgeId::Pair { from, to: rank }, slices, 0)
            })
            .into_iter()
            .collect(),
        outgoing: children
            .enumerate()
            .map(|(turn, to)| Flow::all(EdgeId::Pair { from: rank, to }, slices, turn as u8))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::plan::testing::delivers_everything_once;
    use crate::collective::Algorithm;

    fn children(members: u32, rank: u32) -> Vec<u32> {
        plan(members, 1, rank)
            .outgoing
            .iter()
            .map(|flow| match flow.edge {
                EdgeId::Pair { to, .. } => to,
                EdgeId::Group { .. } => panic!("a tree has no group"),
            })
            .collect()
    }

    #[test]
    fn everybody_gets_everything() {
        delivers_everything_once(Algorithm::Binomial);
    }

    #[test]
    fn largest_subtree_comes_first() {
        assert_eq!(children(8, 0), [4, 2, 1]);
        assert_eq!(children(8, 4), [6, 5]);
        assert_eq!(children(6, 4), [5]);
        assert!(children(8, 7).is_empty());
    }
}
