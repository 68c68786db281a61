//! Binomial tree of MPI libraries. A member's parent is its rank without the lowest set bit. Its children are its rank
//! plus each smaller power of two, the largest subtree first.
//!
//! A member sends to its children one after the other (strict priority between the flows), as blocking sends would. The
//! data is sent in *slices*, each of which is one message.

use super::plan::{Draft, Plan, Shape};

/// Plan of member `rank`: receives all slices from its parent and sends them to its children.
pub(super) fn plan(shape: Shape<'_>, rank: u32) -> Plan {
    let mut draft = Draft::new(rank);
    if rank > 0 {
        draft.receive(parent(rank), 0..shape.slices);
    }
    for (turn, child) in children(shape.members, rank).enumerate() {
        draft.send(child, turn as u8, 0..shape.slices);
    }
    draft.finish()
}

/// Parent of a rank other than the root.
pub(super) fn parent(rank: u32) -> u32 {
    rank & (rank - 1)
}

/// Number of ranks in the subtree of `rank`, itself included, if the tree is complete.
pub(super) fn span(members: u32, rank: u32) -> u32 {
    match rank {
        0 => members.next_power_of_two(),
        _ => rank & rank.wrapping_neg(),
    }
}

/// Children of a rank, the one with the largest subtree first.
pub(super) fn children(members: u32, rank: u32) -> impl Iterator<Item = u32> {
    let bits = (0..span(members, rank).trailing_zeros()).rev();
    let children = bits.map(move |bit| rank + (1 << bit));
    children.filter(move |child| *child < members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_subtree_comes_first() {
        let children = |members, rank| children(members, rank).collect::<Vec<_>>();
        assert_eq!(children(8, 0), [4, 2, 1]);
        assert_eq!(children(8, 4), [6, 5]);
        assert_eq!(children(6, 4), [5]);
        assert!(children(8, 7).is_empty());
    }
}
